# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a script's own srun lines name for their output: which these are, and that they are among the logs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.runtime.harness import Site, runtime_parts, wait_for
from tests.unit.runtime.test_script import printed, script


def own_programs(site: Site) -> dict[str, list[str]]:
    return {"commands": [f'export PATH="{site.tools}:$PATH"']}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("srun -o log_%N_%t.txt python t.py -o model.pt", [("out", "/w/log_%N_%t.txt")]),
        ("/usr/bin/srun -N2 --output=/s/%j.out -e e/%t -l ./x", [("out", "/s/%j.out"), ("err", "/w/e/%t")]),
        ("srun -D sub --outp x ./x", [("out", "/w/sub/x")]),
        ("srun --output=none -e 3 ./x", []),
        ("srun ./x -o y", []),
        ("sbatch -o x t.sh", []),
    ],
)
def test_the_files_that_a_step_names(line: str, named: list[tuple[str, str]]) -> None:
    with runtime_parts("rank.step_outputs") as parts:
        found = parts.outputs(f"7.batch|\n7.4|{line}\nrubbish\n", "/w")
    assert [(output.step, output.kind, output.pattern) for output in found] == [(4, *pair) for pair in named]


def test_they_are_among_the_logs_by_step_and_rank(site: Site, tmp_path: Path) -> None:
    lines = [
        "7.0|srun -o logs/%j-%t.out ./x",
        "7.1|srun -o logs/%N.txt -e logs/all.err ./x",
        f"7.2|srun -o {tmp_path}/%s_%2n_%t.log ./x",
        "7.3|srun -o logs/none-%t ./x",
    ]
    site.program("sacct", "printf '%s\\n' " + " ".join(f"'{line}'" for line in lines))
    (site.code / "logs").mkdir()
    (site.code / "logs" / "node09.txt").write_text("code\n", encoding="utf-8")
    os.utime(site.code / "logs" / "node09.txt", (1e9, 1e9))
    job = script(
        site,
        "for t in 0 1 12; do echo $t > logs/7-$t.out; done; echo other > logs/8-0.out; ln -s 7-0.out logs/7-5.out",
        f"echo a > logs/node01.txt; echo e > logs/all.err; echo x > {tmp_path}/2_00_3.log",
        setup=own_programs(site),
    )
    assert job.finish(job_id=7) == 0
    logs = job.run / "logs" / "0"
    kept = {str(path.relative_to(logs)): path.read_text(encoding="utf-8") for path in sorted(logs.glob("step-*/*"))}
    assert kept == {
        "step-0/rank-0000.out": "0\n",
        "step-0/rank-0001.out": "1\n",
        "step-0/rank-0012.out": "12\n",
        "step-1/all.err": "e\n",
        "step-1/node01.txt": "a\n",
        "step-2/rank-0003.out": "x\n",
    }


def test_a_job_that_is_cancelled_keeps_them_too(site: Site) -> None:
    site.program("sacct", "echo '1.0|srun -o %t.out ./x'")
    # Else the job leaves it to Slurm to tell the script.
    site.program("scontrol", "echo JobState=RUNNING")
    job = script(site, "echo printed > 0.out; echo ready", "sleep 600", setup=own_programs(site))
    process = job.start()
    wait_for(lambda: (job.run / "work" / "0.out").exists() and "ready" in printed(job), process)
    process.terminate()
    assert process.wait(timeout=60) == 143
    assert (job.run / "logs" / "0" / "step-0" / "rank-0000.out").read_text(encoding="utf-8") == "printed\n"
    assert job.outcome()["ended_by"] == "signal"


def test_without_accounting_a_job_ends_as_it_would(site: Site) -> None:
    site.program("sacct", "echo 'accounting storage is disabled' >&2; exit 1")
    job = script(site, "exit 3", setup=own_programs(site))
    assert job.finish() == 3
