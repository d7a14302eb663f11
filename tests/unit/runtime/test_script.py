# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's own batch script in the place of the ranks, under the real runtime: its folder, output, signals and end."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.harness import ARTIFACT, Job, Site, wait_for

OFF = {"preflight": {"enabled": False}, "monitor": {"host": 0, "gpu": 0}}


def script(site: Site, *lines: str, first: str = "#!/bin/bash", **spec: Any) -> Job:
    secrets = spec.pop("secrets", None)
    return site.job({"script": "\n".join([first, *lines, ""]), **OFF, **spec}, secrets=secrets)


def printed(job: Job, attempt: int = 0) -> str:
    return (job.run / "logs" / str(attempt) / "rank-0000.log").read_text(encoding="utf-8")


def test_it_works_in_a_copy_of_its_own_and_its_exit_code_counts(site: Site) -> None:
    (site.code / "sub").mkdir()
    (site.code / "sub" / "run").write_text("#!/bin/sh\necho ran\n", encoding="utf-8")
    (site.code / "sub" / "run").chmod(0o555)
    (site.code / "link").symlink_to("sub/run")
    job = script(
        site,
        'echo "$# $1 $2|$PWD|$SLURM_SUBMIT_DIR|$SLURM_JOB_NAME|$(readlink /proc/self/fd/0)|${RANK-no rank}"',
        "./link; echo more >> probe.py; rm sub/run; exit 3",
        script_args=["a b", "c"],
        resources={"sbatch": {"job-name": "two words"}},
    )
    assert job.finish() == 3
    work = str(job.run / "work")
    assert printed(job) == f"2 a b c|{work}|{work}|two words|/dev/null|no rank\nran\n"
    assert (job.run / "work" / "probe.py").read_text(encoding="utf-8").endswith("more\n")
    assert not (site.code / "probe.py").read_text(encoding="utf-8").endswith("more\n"), "the snapshot is shared"
    assert (job.outcome()["success"], job.outcome()["exit_code"]) == (False, 3)


def test_what_ranks_are_told_is_its_own_to_set(site: Site) -> None:
    """As `MASTER_PORT=29600 sbatch train.sh`, for a script that reads ${MASTER_PORT:-29500}."""
    job = script(site, 'echo "$MASTER_PORT $RANK"', env={"MASTER_PORT": "29600", "RANK": "7"})
    assert job.finish() == 0, job.log()
    assert printed(job) == "29600 7\n"


def test_what_a_site_or_a_fabric_offers_is_there_and_what_it_exports_itself_counts(site: Site) -> None:
    job = script(
        site,
        'export NCCL_IB_DISABLE=0; echo "$NCCL_IB_DISABLE $OF_SETUP $NCCL_SOCKET_IFNAME"',
        "bash -c 'echo $NCCL_IB_DISABLE $OF_SETUP'",
        fabric="ethernet",
        env={"NCCL_SOCKET_IFNAME": "ib0"},
        setup={"commands": ["export OF_SETUP=site"]},
    )
    assert job.finish() == 0, job.log()
    assert printed(job) == "0 site ib0\n0 site\n"
    offered = script(site, 'echo "$NCCL_IB_DISABLE"', fabric="ethernet")
    assert offered.finish() == 0, offered.log()
    assert printed(offered) == "1\n"


def test_it_works_in_the_folder_itself_where_it_is_asked_to(site: Site, tmp_path: Path) -> None:
    place = tmp_path / "gpt"
    place.mkdir()
    (place / "result.json").write_text('{"loss": 9.0}', encoding="utf-8")
    job = script(
        site,
        'echo "$PWD|$SLURM_SUBMIT_DIR"; ls',
        """echo '{"loss": 1.0}' > result.json""",
        code={"in_place": str(place)},
        artifact=ARTIFACT,
    )
    assert job.finish() == 0, job.log()
    assert printed(job) == f"{place}|{place}\nresult.json\nslurm-1.out\n"
    assert job.outcome()["artifact"]["scalars"] == {"loss": 1.0}
    job.forget()
    assert job.finish(attempt=1) == 0
    assert (job.run / "work").is_symlink()


def test_an_earlier_result_in_the_folder_proves_nothing(site: Site, tmp_path: Path) -> None:
    place = tmp_path / "gpt"
    place.mkdir()
    (place / "result.json").write_text('{"loss": 1.0}', encoding="utf-8")
    os.utime(place / "result.json", (1e9, 1e9))
    job = script(site, "true", code={"in_place": str(place)}, artifact=ARTIFACT)
    job.finish()
    assert not job.outcome()["success"]


def test_a_folder_that_the_node_does_not_have_is_named(site: Site, tmp_path: Path) -> None:
    job = script(site, "true", code={"in_place": str(tmp_path / "none")})
    assert job.finish() == 66
    assert str(tmp_path / "none") in job.outcome()["message"]


def test_a_further_attempt_finds_what_the_one_before_has_left(site: Site) -> None:
    job = script(site, "cat state 2> /dev/null; echo $SLURM_RESTART_COUNT. > state; echo changed > probe.py; exit 1")
    assert job.finish() == 1
    job.forget()
    assert job.finish(attempt=1) == 1
    assert (printed(job), printed(job, 1)) == ("", ".\n")
    assert (job.run / "work" / "probe.py").read_text(encoding="utf-8") == "changed\n"


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({}, "slurm-7.out"),
        ({"output": "%x.%5j.%t%%.out"}, "two words.00007.0%.out"),
        ({"output": "both-%A", "error": "both-%j"}, "both-7"),
    ],
)
def test_its_output_is_where_it_says_and_among_the_logs(site: Site, asked: dict[str, str], name: str) -> None:
    job = script(site, "echo out; echo err >&2", resources={"sbatch": {"job-name": "two words", **asked}})
    assert job.finish(job_id=7) == 0
    place = job.run / "work" / name
    assert place.read_text(encoding="utf-8") == printed(job) == "out\nerr\n"
    assert place.is_symlink()


@pytest.mark.parametrize(("asked", "out"), [({}, "slurm-7.out"), ({"output": "o-%j"}, "o-7")])
def test_its_errors_are_in_a_file_of_their_own_where_it_names_one(site: Site, asked: dict[str, str], out: str) -> None:
    job = script(site, "echo out; echo err >&2", resources={"sbatch": {"error": "e-%A.err", **asked}})
    assert job.finish(job_id=7) == 0
    work = job.run / "work"
    assert (work / out).read_text(encoding="utf-8") == printed(job) == "out\n"
    errors = job.run / "logs" / "0" / "rank-0000.err"
    assert (work / "e-7.err").read_text(encoding="utf-8") == errors.read_text(encoding="utf-8") == "err\n"


def test_what_lies_in_the_place_of_its_output_stays(site: Site) -> None:
    (site.code / "slurm-1.out").write_text("mine\n", encoding="utf-8")
    job = script(site, "echo out")
    assert job.finish() == 0
    assert (job.run / "work" / "slurm-1.out").read_text(encoding="utf-8") == "mine\n"
    assert printed(job) == "out\n"


@pytest.mark.parametrize(
    ("first", "line"), [("#!/bin/sh -e", "false"), ("#!/usr/bin/env python3", "raise SystemExit(1)")]
)
def test_its_first_line_says_what_runs_it(site: Site, first: str, line: str) -> None:
    job = script(site, line, "print('never')", first=first)
    assert job.finish() == 1
    assert printed(job) == ""


def test_its_secrets_are_in_its_environment_only(site: Site) -> None:
    job = script(site, 'printf %s "$A_TOKEN" | md5sum; env | grep -c "^B_TOKEN" || true', secrets={"A_TOKEN": "é\n x"})
    assert job.finish() == 0
    assert printed(job).splitlines()[1:] == ["0"]
    assert "x" not in job.log().partition("A_TOKEN")[2]


@pytest.mark.parametrize(("env", "expected"), [({}, "NONE"), ({"LR": "1"}, "HF_TOKEN,LR")])
def test_without_export_its_steps_get_what_the_launch_itself_gives(
    site: Site, env: dict[str, str], expected: str
) -> None:
    """srun reads SLURM_EXPORT_ENV as its option --export."""
    job = script(
        site, 'export MINE=1; echo "$SLURM_EXPORT_ENV"', resources={"sbatch": {"export": "NONE"}}, env=env,
        secrets={"HF_TOKEN": "hidden"} if env else None,
    )  # fmt: skip
    assert job.finish() == 0, job.log()
    assert printed(job) == f"{expected}\n"


def test_the_signal_that_it_has_asked_for_reaches_it_and_it_decides_what_follows(site: Site) -> None:
    job = script(
        site,
        "trap 'echo saved; exit 0' USR1; echo ready",
        "while :; do sleep 0.1; done",
        checkpoint={"signal_before_end": 60, "signal": "USR1"},
    )
    process = job.start()
    wait_for(lambda: (job.run / "logs/0/rank-0000.log").exists() and "ready" in printed(job), process)
    os.kill(process.pid, signal.SIGUSR2)
    assert process.wait(timeout=60) == 0
    assert printed(job) == "ready\nsaved\n"
    assert job.outcome()["success"]


@pytest.mark.parametrize("name", ["HUP", "QUIT", "ALRM", "USR1", "USR2"])
def test_a_signal_that_it_sends_itself_reaches_it(site: Site, name: str) -> None:
    """As `scancel --batch --signal=USR1 $SLURM_JOB_ID` has slurmstepd do it: to the process that Slurm has started."""
    job = script(site, f"trap 'echo told' {name}; echo ready", "until [ -e go ]; do sleep 0.1; done; echo end")
    process = job.start()
    wait_for(lambda: (job.run / "logs/0/rank-0000.log").exists() and "ready" in printed(job), process)
    os.kill(process.pid, getattr(signal, f"SIG{name}"))
    wait_for(lambda: "told" in printed(job), process)
    (job.run / "work" / "go").touch()
    assert process.wait(timeout=60) == 0
    assert printed(job) == "ready\ntold\nend\n"
    assert job.outcome()["success"]


def test_all_that_it_has_started_ends_with_its_artifact(site: Site) -> None:
    job = script(
        site,
        "sleep 600 & echo $! > background",
        """echo '{"loss": 1.0}' > result.json""",
        "sleep 600",
        artifact={**ARTIFACT, "then": "end"},
    )
    assert job.finish() == 0
    number = int((job.run / "work" / "background").read_text(encoding="utf-8"))
    assert not Path(f"/proc/{number}").exists() or "Z" in Path(f"/proc/{number}/stat").read_text().split()[2]
    assert job.outcome()["success"]


def test_a_job_without_its_script_runs_nothing(site: Site) -> None:
    job = script(site, "true")
    (job.run / "slurm_script").unlink()
    assert job.finish() == 66
    assert "slurm_script" in job.outcome()["message"]
