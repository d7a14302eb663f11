# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The silent traps of pyxis that a plan avoids, by their number in docs/containers.md.

Traps that need a run (3, 5, 8 to 11) are in tests/unit/runtime/test_pyxis.py.
"""

from __future__ import annotations

import re

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import LEAKING
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from tests.unit.plan.containers import APPTAINER, PYXIS, planned, problems, step


def test_trap_1_mounts_are_one_flag_and_a_bad_one_is_an_error() -> None:
    names = [name for name, _value in planned({**PYXIS, "mounts": ["/a:/a", "/b:/b"]}).step]
    assert names.count("container-mounts") == 1
    assert not str(step(PYXIS)["container-mounts"]).endswith(",")
    assert problems({**PYXIS, "mounts": ["/a:/a,"]}) == [
        "container.mounts: item 1 has the target '/a,'; no blank, comma, colon or backslash can be in a mount"
    ]
    assert problems({**PYXIS, "mounts": ["/a:/a:rprivat"]})[0].startswith(
        "container.mounts: item 1 has the flag 'rprivat'; did you mean rprivate?; known, joined by +: ro, rw,"
    )


@pytest.mark.parametrize("image", ["torch.sqsh", "images/torch.sqsh", "./torch.sqsh", "~/torch.sqsh", "../x"])
def test_trap_1_a_relative_image_is_an_error(image: str) -> None:
    assert problems({"runtime": "pyxis", "image": image}) == [
        (
            f"container.image: {image!r} is not an absolute path, and pyxis would take it for a registry's name; give "
            "its absolute path on the cluster"
        )
    ]


def test_trap_2_no_flag_is_in_the_header_and_none_can_be_brought_there() -> None:
    made = planned(PYXIS)
    assert not [name for name, _value in made.header if "container" in name]
    assert not re.search(r"#SBATCH.*container", render_script(made))
    for where in ("resources.sbatch", "launcher.srun"):
        section, name = where.split(".")
        for flag in ("container-image", "no-container-mount-home"):
            assert problems(PYXIS, **{section: {name: {flag: "x"}}}) == [
                f"{where}.{flag}: may not be given here; use the section container, which puts it on the ranks' step"
            ]


def test_trap_2_at_the_level_of_the_job_the_header_has_the_flags_and_the_script_stays_on_the_node() -> None:
    made = planned({**PYXIS, "level": "job", "mounts": ["/a#b:/a#b"]})
    header = dict(made.header)
    flags = {name: value for name, value in made.step if "container" in name}
    # The step has them, too: nothing hangs on what Slurm hands down from a job to its steps.
    assert flags and {name: header[name] for name in flags} == flags
    assert header["export"] == "NONE" and dict(made.step)["export"] == "ALL"
    assert [dict(planned({**PYXIS, "level": level}).header)["export"] for level in ("step", "job")] == ["ALL", "NONE"]
    text = render_script(made)
    lines = [line for line in text.splitlines() if line.startswith("#SBATCH") and "container" in line]
    assert len(lines) == len(flags)
    # sbatch would take what follows a # for a comment.
    assert any("/a\\#b:/a\\#b" in line for line in lines)
    assert text.index("rankzero_container_outside") < text.index("rankzero_begin")


def test_trap_4_a_container_never_has_a_name() -> None:
    assert "container-name" not in step(PYXIS)
    assert problems(PYXIS, launcher={"srun": {"container-name": "x"}}) == [
        (
            "launcher.srun.container-name: may not be given here; a named container that was interrupted is used half "
            "made by the next job"
        )
    ]


def test_trap_6_no_login_shell_and_no_entrypoint_of_the_image() -> None:
    for data in ({}, {"command": None, "shell": "train"}, {"launcher": {"kind": "torchrun"}}):
        text = render_script(planned(PYXIS, **data))
        assert not re.search(r"(bash|sh) (-\w*l|--login)", text)
        assert "--no-container-entrypoint \\" in text


def test_trap_7_the_working_directory_is_always_given() -> None:
    assert step(PYXIS)["container-workdir"] == planned(PYXIS).runs_dir()
    inside = planned({**PYXIS, "workdir": "/workspace"}, command=["/workspace/train.py"])
    assert dict(inside.step)["container-workdir"] == "/workspace"
    assert "export RANKZERO_WORKDIR=/workspace" in render_script(inside)


def test_trap_8_home_root_and_entrypoint_are_said_outright() -> None:
    assert [name for name, value in planned(PYXIS).step if value is True] == [
        "no-container-mount-home",
        "no-container-remap-root",
        "container-readonly",
        "no-container-entrypoint",
    ]


def test_trap_10_what_the_node_has_does_not_leak_in_unless_the_job_says_so() -> None:
    assert f"unset {' '.join(LEAKING)}\nrankzero_launch" in render_script(planned(PYXIS))
    made = planned({**PYXIS, "env": ["LD_LIBRARY_PATH", "SITE"]}, env={"PYTHONPATH": "/mine", "LANG": "C.UTF-8"})
    assert made.container
    assert made.container.cleared == ("LD_PRELOAD", "PYTHONHOME")
    # The job's own and the named ones win over the image's, LANG and all.
    assert {"LD_LIBRARY_PATH", "SITE", "PYTHONPATH", "LANG", "OMP_NUM_THREADS"} <= set(made.container.variables)
    # Named ones are also there for the hooks that run before any shell.
    assert dict(made.step)["container-env"] == "LD_LIBRARY_PATH,SITE"
    assert "container-env" not in step(PYXIS)


def test_traps_12_and_13_one_bad_node_ends_the_step_and_its_size_is_explicit() -> None:
    options = step(PYXIS, resources={"nodes": 3, "gpus_per_node": 2})
    assert options["kill-on-bad-exit"] == "1"
    assert (options["nodes"], options["ntasks"], options["ntasks-per-node"]) == ("3", "6", "2")


def test_trap_14_nothing_of_ours_lies_in_tmp() -> None:
    for roots in (("/tmp/state", "/store"), ("/state", "/tmp/store")):
        with pytest.raises(SpecError, match=r"launch_cluster\.(state|store)_root: /tmp/\S+ is in /tmp, which enroot"):
            planned(PYXIS, roots)
    assert planned(PYXIS, ("/tmpfs/state", "/store")).container
    assert planned(APPTAINER, ("/tmp/state", "/store")).container
