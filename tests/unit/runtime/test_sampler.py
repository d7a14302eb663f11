# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs beside a rank and ends with it, with stand-ins for Slurm's commands: the sampler, the times in its log."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.unit.runtime.harness import Site, wait_for
from tests.unit.runtime.job_processes import processes, wait_until_gone


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "cluster")


def sampling(entry: Path) -> bool:
    """Whether a process is one of the step of this test, a rank or a sampler."""
    try:
        words = (entry / "cmdline").read_bytes()
        return b"rank.sh" in words or b"sampler.py" in words
    except OSError:
        return False


def priority(pid: int) -> int:
    """The niceness of a process."""
    return os.getpriority(os.PRIO_PROCESS, pid)


def until_sampled(pattern: str, end: str) -> str:
    return f'until [ "$(cat "$RANKZERO_RUN_DIR"/monitor/0/{pattern} | wc -l)" -ge 2 ]; do sleep 0.1; done; {end}'


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -KILL $$", "kill -TERM $$"])
def test_one_sampler_a_node_ends_with_its_rank(site: Site, end: str) -> None:
    line = until_sampled("*.host.csv", end)
    job = site.job({"shell": line, "launcher": {"ranks_per_node": 2}, "monitor": {"host": 1}})
    job.finish(SLURMD_NODENAME="node01")
    (path,) = (job.run / "monitor" / "0").iterdir()
    assert path.name == "node01.host.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "time,load1,mem_used_mb,cpu_percent,mem_total_mb"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4},\d+\.\d+,\d+,\d+,\d+", lines[1])
    assert 0 <= int(lines[1].split(",")[3]) <= 100
    wait_until_gone(job)


@pytest.mark.parametrize("seconds", [0, 7])
def test_a_node_is_sampled_until_its_last_rank_has_ended(site: Site, seconds: int) -> None:
    """The first rank has ended, so long after its sampler began; the other one sees three more samples."""
    count = 'cat "$RANKZERO_RUN_DIR"/monitor/0/*.host.csv 2> /dev/null | wc -l'
    line = (
        f'[ "$LOCAL_RANK" = 1 ] || {{ until [ $({count}) -ge 1 ]; do sleep 0.1; done; sleep {seconds}\n'
        "echo $$ > first; exit 0; }\n"
        "until [ -s first ] && ! kill -0 $(cat first) 2> /dev/null; do sleep 0.1; done\n"
        f"before=$({count})\n"
        f"for _ in $(seq 150); do sleep 0.1; [ $({count}) -lt $((before + 3)) ] || exit 0; done; exit 9"
    )
    job = site.job({"shell": line, "launcher": {"ranks_per_node": 2}, "monitor": {"host": 1}})
    assert job.finish(SLURMD_NODENAME="node01") == 0, job.log()
    wait_until_gone(job)


def test_a_sampler_outlives_the_signal_that_its_rank_survives(site: Site) -> None:
    """TERM goes to every process of the step; the time until the ranks have saved themselves is sampled too."""
    line = "trap 'told=1' TERM; touch begun.0; until [ -n \"${told:-}\" ]; do sleep 0.1; done; " + until_sampled(
        "*.host.csv", "exit 0"
    )
    job = site.job({"shell": line, "monitor": {"host": 1}})
    process = job.start()
    wait_for((job.run / "work" / "begun.0").exists, process)
    lowered = False
    for number in processes(job):
        if number != process.pid and sampling(Path("/proc") / str(number)):
            if b"sampler.py" in (Path("/proc") / str(number) / "cmdline").read_bytes():
                wait_for(lambda pid=number: priority(pid) == min(19, priority(process.pid) + 10), process)
                lowered = True
            os.kill(number, signal.SIGTERM)
    assert lowered
    assert process.wait(timeout=60) == 0, job.log()
    wait_until_gone(job)


def test_a_program_may_wait_for_all_its_children(site: Site) -> None:
    """The sampler is none of them."""
    code = "import os, sys\ntry:\n    os.wait()\nexcept ChildProcessError:\n    sys.exit(0)\nsys.exit(9)"
    job = site.job({"command": ["python3", "-c", code]})
    assert job.finish() == 0, job.log()


def test_gpus_are_sampled_where_nvidia_smi_is(site: Site) -> None:
    """nvidia-smi is a stand-in here, which prints lines written by hand in its CSV format: there is no GPU here."""
    tools = site.root / "gpu"
    tools.mkdir()
    lines = (
        "2026/01/02 03:04:05.678, 0, 118.52 W, 97 %, 30211 MiB, 54\n2026/01/02 03:04:05.680, 1, 75.10 W, 0 %, 4 MiB, 31"
    )
    link = "#Date Time gpu rxpci txpci\n20260102 03:04:05 0 1204 866\n"
    (tools / "nvidia-smi").write_text(
        f'#!/bin/sh\nif [ "$1" = dmon ]; then echo "$*" > {tools}/dmon; cat <<\'END\'\n{link}END\nexit; fi\n'
        f"echo \"$*\" > {tools}/asked\ncat <<'END'\n{lines}\nEND\n"
    )
    (tools / "nvidia-smi").chmod(0o755)
    job = site.job(
        {
            "shell": until_sampled("*.pcie.txt", "exit 0"),
            "setup": {"commands": [f'export PATH="{tools}:$PATH"']},
            "monitor": {"host": 0, "gpu": 1},
        }
    )
    assert job.finish(SLURMD_NODENAME="node01") == 0, job.log()
    fields = "timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu"
    text = (job.run / "monitor" / "0" / "node01.gpu.csv").read_text(encoding="utf-8")
    assert text.startswith(f"{fields}\n{lines}\n")
    assert (tools / "asked").read_text(encoding="utf-8") == f"--query-gpu={fields} --format=csv,noheader\n"
    assert (job.run / "monitor" / "0" / "node01.pcie.txt").read_text(encoding="utf-8").startswith(link)
    assert (tools / "dmon").read_text(encoding="utf-8") == "dmon -s t -c 1 -o DT\n"
    assert not (job.run / "monitor" / "0" / "node01.host.csv").exists()
    wait_until_gone(job)


def test_no_sampler_where_none_is_asked_for(site: Site) -> None:
    job = site.job({"shell": "exit 0", "monitor": {"host": 0, "gpu": 0}})
    assert job.finish() == 0
    assert not (job.run / "monitor").exists()


def test_times_of_day_in_the_log_end_with_the_step(site: Site) -> None:
    pattern = r"^\[rankzero\] [0-9]{4}-[0-9-]{5}T[0-9:]{8}[+-][0-9]{4}$"
    counted = f"grep -cE '{pattern}' \"$RANKZERO_RUN_DIR\"/logs/job.1.log"
    line = f'until [ "$({counted})" -ge 2 ]; do sleep 0.1; done'
    job = site.job({"shell": line, "monitor": {"timestamps": 1}})
    assert job.finish() == 0, job.log()
    assert len(re.findall(pattern, job.log(), re.MULTILINE)) >= 2
    wait_until_gone(job)


# --- a site where nobody may requeue
