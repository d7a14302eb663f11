# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launchers of a cluster in the real script of a job: what they start, what they are told, what a rank is told."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import BY_SLURM, OWN_LAUNCHERS
from tests.repository import ROOT
from tests.unit.runtime.harness import Job, Site, wait_for

#: Starts two processes on its node, and tells them their number in variables of its own.
STARTER = """
echo "$1" > "$RANKZERO_RUN_DIR/asked-$SLURM_NODEID"
shift
for LOCAL in 0 1; do
    MY_LOCAL=$LOCAL MY_RANK=$((SLURM_NODEID * 2 + LOCAL)) MY_NODE=$SLURM_NODEID "$@" &
done
wait %1 && wait %2
"""
RANKS = {"RANK": "MY_RANK", "LOCAL_RANK": "MY_LOCAL", "NODE_RANK": "MY_NODE", "WORLD_SIZE": "RANKZERO_WORLD_SIZE",
         "LOCAL_WORLD_SIZE": "RANKZERO_RANKS_PER_NODE", "MASTER_ADDR": "RANKZERO_MASTER_ADDR",
         "MASTER_PORT": "RANKZERO_MASTER_PORT"}  # fmt: skip
SPEC: dict[str, Any] = {
    "shell": "for name in RANK LOCAL_RANK NODE_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_PORT; do echo ${!name}; done"
    ' > "$RANKZERO_RUN_DIR/rank-$RANK"',
    "launcher": {"kind": "own", "ranks_per_node": 2, "port": 4711},
    "resources": {"nodes": 2},
}


def settings(tools: Path, *words: str, **more: Any) -> ClusterSettings:
    record = {"per": "node", "command": [str(tools / "own-start"), *words, "{rank}"], "ranks": RANKS, **more}
    return ClusterSettings(launchers=OWN_LAUNCHERS.parse({"own": record}))


def said(job: Job) -> str:
    """What the job and its step have printed."""
    return job.log() + "".join(path.read_text(encoding="utf-8") for path in job.run.glob("logs/*/step.log"))


def test_a_launcher_of_the_cluster_starts_every_rank_with_its_names(site: Site) -> None:
    """Its words arrive one by one: a value with a space, or one that a shell would run, is still one word."""
    site.program("own-start", STARTER)
    word = "--at={master_addr}:{master_port} of {nodes} $(touch ran) {unknown"
    job = site.job(SPEC, settings=settings(site.tools, word))
    assert job.finish() == 0, job.log()
    assert [(job.run / f"rank-{rank}").read_text().split() for rank in range(4)] == [
        [str(rank), str(rank % 2), str(rank // 2), "4", "2", "4711"] for rank in range(4)
    ]
    asked = (job.run / "asked-1").read_text()
    assert asked.endswith(":4711 of 2 $(touch ran) {unknown\n") and "{master_addr}" not in asked
    assert not list(job.run.rglob("ran"))


def test_a_rank_whose_launcher_leaves_out_a_name_says_which(site: Site) -> None:
    site.program("own-start", STARTER)
    told = {name: source for name, source in RANKS.items() if name != "NODE_RANK"}
    job = site.job(SPEC, settings=settings(site.tools, "word", ranks=told))
    assert job.finish() != 0
    step = said(job)
    assert "GROUP_RANK" in step and "NODE_RANK" in step and "unbound variable" not in step
    assert not list(job.run.glob("rank-*"))


@pytest.mark.parametrize(("node", "number"), [("a", "0"), ("b-1", "1"), ("c", "2"), ("elsewhere", None)])
def test_the_node_of_a_rank_can_be_counted_where_the_launcher_numbers_none(
    tmp_path: Path, node: str, number: str | None
) -> None:
    told = {name: name for name in BY_SLURM} | {"NODE_RANK": "RANKZERO_NODE_RANK"}
    given = dict.fromkeys(BY_SLURM, "1") | {
        "RANKZERO_LAUNCHER": "torchrun",
        "RANKZERO_RANK_NAMES": " ".join(f"{name}={source}" for name, source in told.items()),
        "RANKZERO_NODELIST": "a,b-1,c",
        "RANKZERO_LOGS": str(tmp_path),
        "RANKZERO_WORKDIR": str(tmp_path),
        "RANKZERO_RUN_DIR": str(tmp_path),
        "RANKZERO_RUNTIME": str(ROOT / "plugins" / "runtime"),
        "RANKZERO_ATTEMPT": "0",
        "SLURMD_NODENAME": node,
        "PATH": os.environ["PATH"],
    }
    words = ["bash", str(ROOT / "plugins/runtime/rank/rank.sh"), "sh", "-c", "echo node $NODE_RANK > seen"]
    done = subprocess.run(words, env=given, capture_output=True, text=True, check=False)
    if number is None:
        assert done.returncode == 78 and "NODE_RANK" in done.stderr
    else:
        assert (tmp_path / "seen").read_text() == f"node {number}\n", done.stderr


def test_the_early_signal_reaches_the_ranks_and_not_the_launcher_that_started_them(site: Site) -> None:
    """scancel tells every process of the step; USR1 would end the launcher, and srun then the ranks."""
    mark = '"$RANKZERO_RUN_DIR/{}-$SLURM_NODEID"\n'
    site.program("own-start", f"echo $$ > {mark.format('pid-of')}{STARTER}touch {mark.format('outlived')}")
    site.functions["scancel"] = f"kill -USR1 $(find {site.root} -name 'pid-*' -exec cat {{}} +)"
    saves = (
        'trap "echo saved > saved-$RANK; exit 0" USR1; echo $$ > "$RANKZERO_RUN_DIR/pid-$RANK"; '
        "while :; do sleep 0.1; done"
    )
    spec = {**SPEC, "shell": saves, "checkpoint": {"signal_before_end": 60, "signal": "USR1"}}
    job = site.job(spec, settings=settings(site.tools, "word"))
    process = job.start()
    wait_for(lambda: len(list(job.run.glob("pid-[0-3]"))) == 4, process)
    process.send_signal(signal.SIGUSR2)
    process.wait(timeout=60)
    assert len(list((job.run / "work").glob("saved-[0-3]"))) == 4, said(job)
    assert len(list(job.run.glob("outlived-[01]"))) == 2, said(job)


def test_a_launcher_that_needs_what_the_node_does_not_have_says_what(site: Site) -> None:
    site.program("own-start", STARTER)
    job = site.job(SPEC, settings=settings(site.tools, "{hosts}"))
    text = (job.run / "job.sbatch").read_text(encoding="utf-8")
    (job.run / "job.sbatch").write_text(text.replace("{RANKZERO_NODELIST}", "{RANKZERO_NOT_SET}"), encoding="utf-8")
    assert job.finish() != 0
    assert "RANKZERO_NOT_SET" in said(job)
