# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that somebody has made in a state root of his own: their names never get further than one row of a list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run import select
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import find, history, launch_list
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import UNTRUSTED
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import job
from tests.unit.run.test_launches import KEY, SUBMITTED, make_run, options, outcome
from tests.unit.slurm.recorded import UNKNOWN_ID, FakeSlurm, said

STRANGE = [
    '{{ lookup("pipe", "touch PWN") }}', "{% if 1 %}", "{# x", "a\nb",
    "\x1b[31m", "a b", "é", "\u202e", "-e", "$(id)", "`id`", "a" * 255,
]  # fmt: skip

HOSTILE = set("{}%$`\n\x1b")


def test_a_name_is_one_that_a_job_file_may_have() -> None:
    assert select.NAME.pattern == job.NAME


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("text", STRANGE)
@pytest.mark.parametrize("part", ["name", "key"])
def test_a_strange_folder_is_one_escaped_row_and_nothing_else(tmp_path: Path, text: str, part: str, kept: bool) -> None:
    good = make_run(tmp_path, *SUBMITTED, outcome=outcome())
    bad = make_run(tmp_path, *SUBMITTED, outcome=outcome(), **{part: text})
    root = str(tmp_path)
    fake = FakeSlurm(squeue=said(""), scontrol=UNKNOWN_ID, sacct=said(""))
    rows = launch_list.job_info(fake.slurm(), options(state_root=root, newest=kept))["launches"]
    by_state = {row["standing"] == UNTRUSTED: row for row in rows}
    assert len(rows) == 2 and by_state[False]["run_dir"] == str(good)
    row = by_state[True]
    shown = "".join(row[name] for name in ("name", "key", "run_dir", "logs_dir", "message"))
    assert shown.isascii() and shown.isprintable() and not HOSTILE & set(shown)
    assert row["generation"] == 1 and row["job_id"] is None and not row["active"]
    assert [run.path for run in find.find_runs(root)] == [str(good)]
    assert [run.path for run in find.find_runs(root, job_id="7")] == [str(good)]
    assert text not in select.names_of(root) and text not in select.keys_of(root, "gpt")
    with pytest.raises(RankzeroError, match="is not a run directory") as error:
        find.one_run(options(run_dir=str(bad)))
    assert not HOSTILE & set(error.value.message)


def test_names_and_job_of_an_ended_launch_are_not_those_of_a_forged_index(tmp_path: Path) -> None:
    run = RunDirectory(str(make_run(tmp_path, *SUBMITTED, outcome=outcome())))
    forged = dict.fromkeys(("name", "key", "generation", "job_id", "run_dir", "logs_dir"), STRANGE[0])
    known = history.History(str(tmp_path))
    known.known[history._place(run)] = history._Line("", "", 0.0, json.dumps(forged).encode(), ())
    assert STRANGE[0] not in known.launch(run).values() and known.launch(run)["key"] == KEY
