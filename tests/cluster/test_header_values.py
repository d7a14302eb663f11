# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of #SBATCH lines through sbatch's own parser: what a user writes is what Slurm has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from tests.plans import plan

if TYPE_CHECKING:
    from tests.cluster.conftest import LabCluster
from tests.cluster.lab_user import LabUser

COMMENTS = [
    "plain",
    "two words",
    "  spaces  around  ",
    'say "hello"',
    "it's",
    "'single'",
    "a #b # c",
    "#first",
    "back\\slash",
    "\\",
    "ends with \\",
    '\\"',
    "\\# \\\\",
    "$HOME $(id) `id`",
    "-dash --more",
    "a=b;c,d|e&f",
    "%j %x",
    "é 日本 🚀",
    "* ? [a] ~ !",
]


def submitted(lab: LabCluster, number: int, comment: str, state_root: str) -> dict[str, str]:
    """What Slurm has of a held job whose script was rendered with these values."""
    data = {
        "name": "header",
        "command": ["true"],
        "resources": {"time": "5", "sbatch": {"comment": comment, "hold": True, "mail-type": "NONE"}},
        "seed": number,
    }
    merged = merge([Layer("job", data)])
    made = plan(
        validated(merged),
        merged,
        code_key="c" * 8,
        environment_key=None,
        runtime_key="r" * 8,
        state_root=state_root,
        store_root="/shared/store",
    )
    script = with_generation(render_script(made), made.token, 1)
    job_id = lab.head([*LabUser(lab).become(), "sbatch", "--parsable"], input=script).stdout.strip()
    try:
        shown = lab.head(["scontrol", "show", "job", job_id]).stdout
        # One line a field here; the values may hold anything but a newline.
        found = dict(re.findall(r"^   (Comment|StdOut|WorkDir)=(.*) *$", shown, re.MULTILINE))
        assert f"JobName=header.{made.key[:16]}.1\n" in shown
        expected = with_generation(made.run_dir, made.token, 1)
        assert found["WorkDir"] == expected
        assert found["StdOut"] == f"{expected}/logs/job.{job_id}.log"
        return found
    finally:
        lab.head(["scancel", job_id])


@pytest.mark.parametrize(("number", "comment"), list(enumerate(COMMENTS)))
def test_a_comment_reaches_slurm_unchanged(lab: LabCluster, number: int, comment: str) -> None:
    assert submitted(lab, number, comment, "/shared/state")["Comment"].rstrip(" ") == comment.rstrip(" ")


@pytest.mark.parametrize("name", ["with space", "it's", 'quo"ted', "ha#sh", "$HOME", "é日", "a;b&c", "-dash"])
def test_a_path_reaches_slurm_unchanged(lab: LabCluster, name: str) -> None:
    submitted(lab, 100, "x", f"/shared/{name}/state")
