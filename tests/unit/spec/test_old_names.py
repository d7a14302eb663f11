# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options under the name of an earlier release: taken from every layer, with a warning, and the same launch key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import launch_key
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.old_names import old_paths, with_new_names
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, read_job

FILE = "name: job\ncommand: [x]\nresources: {nodes: 2}\nlauncher:\n  kind: srun\n"


def job(tmp_path: Path, lines: str = "", **layers: Any) -> Job:
    file = tmp_path / "job.yml"
    file.write_text(FILE + lines)
    return read_job(str(file), layers.get("cluster"), layers.get("overrides"), layers.get("line"), str(tmp_path))


def test_an_old_name_is_none_of_todays() -> None:
    today = {info.path for info in fields_of(LaunchSpec)}
    assert old_paths() == {"launcher.attach": "launcher.inside_job", "launcher.attach_nodes": "launcher.inside_nodes"}
    assert not today & set(old_paths()) and set(old_paths().values()) <= today


def test_a_job_file_with_the_old_names_means_the_same_and_warns(tmp_path: Path) -> None:
    old = job(tmp_path, '  attach: "1234"\n  attach_nodes: [b, a]\n')
    new = job(tmp_path, '  inside_job: "1234"\n  inside_nodes: [b, a]\n')
    assert old.spec == new.spec and old.spec.launcher.inside_job == "1234" and new.warnings == ()
    assert old.merged.data == new.merged.data
    first, second = old.warnings
    assert first.startswith("launcher.attach is deprecated") and "use launcher.inside_job (set in job.yml:6)" in first
    assert "use launcher.inside_nodes (set in job.yml:7)" in second
    assert old.merged.origin("launcher.inside_job") == "job.yml:6"


def test_the_launch_key_is_that_of_the_earlier_release(tmp_path: Path) -> None:
    inputs = {"code": "c0de"}
    keys = {
        launch_key(job(tmp_path, line).spec, inputs)
        for line in ('  attach: "1234"\n', '  inside_job: "1234"\n', '  inside_job: "5"\n  inside_nodes: [a, b]\n', "")
    }
    assert len(keys) == 1, "where a launch runs is no part of its key"


@pytest.mark.parametrize("line", [{"attach": "7"}, {"launcher.attach": "7"}, {"inside_job": "7"}])
def test_the_command_line_wins_over_the_file_whatever_name_each_uses(tmp_path: Path, line: dict[str, Any]) -> None:
    for given in ('  attach: "1"\n', '  inside_job: "1"\n'):
        assert job(tmp_path, given, line=line).spec.launcher.inside_job == "7"


def test_null_under_the_old_name_deletes_what_a_lower_layer_has_set(tmp_path: Path) -> None:
    assert job(tmp_path, "  attach: null\n", cluster={"launcher": {"inside_job": "1"}}).spec.launcher.inside_job is None


def test_both_names_in_one_layer_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        job(tmp_path, '  attach: "1"\n  inside_job: "2"\n')
    (problem,) = caught.value.problems
    assert problem.startswith("launcher.attach: is the old name of launcher.inside_job")


@pytest.mark.parametrize("data", [{}, {"launcher": "srun"}, {"launcher": None}, {"launcher": {1: 2}}])
def test_what_has_no_old_name_is_left_as_it_is(data: dict[str, Any]) -> None:
    layer = Layer("job", data)
    assert with_new_names(layer) == (layer, [], [])
