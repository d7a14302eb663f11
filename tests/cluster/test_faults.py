# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exactly once under injected faults: each quick fault of the matrix (benchmarks/faults) once, and a few at instants
that nobody chose.

`benchmarks/run faults --count N` runs them all, also the slow ones, on three labs and as often as one likes; so does
`benchmarks/run faults --random`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults import instants, ledger
from benchmarks.faults.at_random import good, run_at_random
from benchmarks.faults.kinds import ADOPT, HANDOVER, HEAL, KINDS, LOSE_RANKS, MODULE, PAIR, Hits
from benchmarks.faults.ledger import Run
from benchmarks.faults.matrix import FAULTS
from benchmarks.faults.run import run_matrix, shares
from benchmarks.faults.waits import Wait
from tests.cluster.conftest import LabCluster

#: Of those that need the lab for themselves, the ones that do not take long.
ALONE = ("slurmctld crashes", "slurmctld forgets")
QUICK = [fault for fault in FAULTS if (not fault.slow and not fault.alone) or fault.name.startswith(ALONE)]
#: Those at random instants that take long: they wait for nodes, or for Ansible.
SLOW_AT_RANDOM = frozenset(kind.name for kind in KINDS.values() if kind.slow)


def test_no_fault_loses_or_doubles_a_launch(lab: LabCluster, tmp_path: Path) -> None:
    runs = run_matrix(lab.lab, lab.name, tmp_path, len(QUICK), chosen=[fault.name for fault in QUICK])
    assert [run for run in runs if not run.good] == []
    assert len({run.fault for run in runs}) >= 20


@pytest.mark.more
def test_no_fault_at_a_random_instant_loses_or_doubles_a_launch(lab: LabCluster, tmp_path: Path) -> None:
    rows = run_at_random(
        lab.lab, lab.name, tmp_path, 10, seed="tests", out=tmp_path / "out",
        look_again=2, scale=instants.QUICK, without=SLOW_AT_RANDOM,
    )  # fmt: skip
    assert good(rows), rows
    quick = {kind.name for kind in KINDS.values() if not kind.slow and kind.fits(lab.lab)}
    assert {row.kind for row in rows} == quick >= {ADOPT, MODULE, HANDOVER}
    assert sum(row.injections for row in rows) >= 5
    assert all(row.broken == [] for row in rows), rows


def test_every_fault_is_run_at_least_once() -> None:
    each = shares(FAULTS, 1)
    assert set(each) == {fault.name for fault in FAULTS} and min(each.values()) == 1
    assert sum(shares(FAULTS, 300).values()) >= 290


def test_a_seed_says_all_that_is_injected() -> None:
    first = instants.batches("1-site", 333, 5)
    assert first == instants.batches("1-site", 333, 5) != instants.batches("2-site", 333, 5)
    injected = [one.kind for batch in first for one in batch.injections]
    assert len(injected) == 333 and set(injected) == set(KINDS)
    assert all(0 <= half.at < 1 for batch in first for one in batch.injections for half in one.single)
    # Faults that share what they hit are never in one batch with another kind, and a launch has one fault of its own.
    for batch in first:
        kinds = {one.kind for one in batch.injections}
        assert kinds == {batch.kind} or all(KINDS[kind].own for kind in kinds)
        hit = [number for one in batch.injections for half in one.single for number in half.launches]
        assert len(hit) == len(set(hit)) and set(hit) <= set(range(len(batch.jobs)))
    bare = instants.batches("1-bare", 50, 5, without=frozenset({"slurmdbd"}))
    assert all(half.kind != "slurmdbd" for batch in bare for one in batch.injections for half in one.single)


def test_a_run_that_ends_early_has_seen_every_kind() -> None:
    planned = instants.batches("1", 333, 5)
    first = [batch.kind for batch in planned[: len({batch.kind for batch in planned})]]
    assert sorted(first) == sorted({batch.kind for batch in planned})


def test_arrays_and_launches_with_spares_meet_shared_faults_and_their_own() -> None:
    planned = instants.batches("1", 333, 5)
    for own in (True, False):
        jobs = [job for batch in planned if (batch.kind == "launches") == own for job in batch.jobs]
        assert 0.02 < sum(job.elements > 1 for job in jobs) / len(jobs) < 0.3
        assert 0.05 < sum(job.spares for job in jobs) / len(jobs) < 0.3
        # Playbooks wait for single launches.
        assert not any(job.waited and job.elements > 1 for job in jobs)
    # The early signal must find the one job of a launch.
    handed = [batch.jobs[one.launches[0]] for batch in planned for one in batch.injections if one.kind == HANDOVER]
    assert handed and all((job.elements, job.spares) == (1, 0) for job in handed)


def test_what_ranks_must_be_healed_of_hits_launches_with_a_spare_node() -> None:
    healed = [
        (batch.jobs[half.launches[0]], half)
        for batch in instants.batches("1", 333, 5)
        for one in batch.injections
        if one.kind == HEAL
        for half in one.halves
    ]
    assert {half.kind for _job, half in healed} == set(LOSE_RANKS)
    assert all((job.nodes + bool(job.way), job.spares, job.healing) == (2, 1, True) for job, _half in healed)
    # Rank 0 needs 6 s to miss its neighbour, and the job up to 30 s more to ask its nodes: it must find one gone.
    assert all((1 - half.at) * job.seconds > 15 for job, half in healed)
    assert all(half.gone > 40 for _job, half in healed if half.kind != "reboot")


def test_launches_are_waited_for_under_every_kind_of_fault_that_leaves_their_playbook_alive() -> None:
    planned = instants.batches("1", 600, 5)
    shared = [job for batch in planned if batch.kind != "launches" for job in batch.jobs]
    assert 0.3 < sum(job.waited for job in shared) / len(shared) < 0.7
    waited = {batch.kind for batch in planned if any(job.waited for job in batch.jobs)} - {"launches"}
    for batch in planned:
        waited |= {one.kind for one in batch.injections for number in one.launches if batch.jobs[number].waited}
    assert waited == {name for name, kind in KINDS.items() if kind.hits is not Hits.PLAYBOOK}


ENDED = {"completed": True, "finished_at": 1000.0}


@pytest.mark.parametrize(
    ("at", "result", "faults", "late"),
    [
        (1050.0, ENDED, [], False),
        (1070.0, ENDED, [], True),
        # While something is broken, the end may be unknown. The same second counts once.
        (1070.0, ENDED, [(990.0, 1020.0)], False),
        (1130.0, ENDED, [(990.0, 1030.0), (1010.0, 1040.0)], True),
        # Faults before the end and after the wait excuse nothing.
        (1070.0, ENDED, [(900.0, 990.0), (1080.0, 2000.0)], True),
        # It was refused, and says so.
        (1070.0, {"failed": True, "msg": "no answer"}, [], False),
        (None, {}, [(990.0, 2000.0)], True),
    ],
)
def test_a_wait_is_late_a_minute_after_the_end_or_if_it_must_be_killed(
    at: float | None, result: dict[str, object], faults: list[tuple[float, float]], late: bool
) -> None:
    assert bool(Wait("name", at, result).late(faults)) == late


def test_a_pair_is_two_kinds_of_faults_one_of_them_shared() -> None:
    pairs = [one for batch in instants.batches("3", 333, 5) for one in batch.injections if one.kind == PAIR]
    assert len(pairs) > 10
    for pair in pairs:
        first, second = (half.kind for half in pair.halves)
        assert first != second and KINDS[first].breaks


@pytest.mark.parametrize(
    ("runs", "proofs", "word"),
    [
        ([Run("7", "0", 10, 20)], [21], ""),
        # The node died, and the job was started again.
        ([Run("7", "0", 10, 12), Run("7", "1", 30, 40)], [41], ""),
        ([Run("7", "0", 10, 20), Run("7", "1", 30, 40)], [21, 41], "attempt 1 ran 9.0 s after the proof"),
        ([Run("7", "0", 10, 20), Run("8", "0", 15, 15)], [21], "job 8 attempt 0 ran beside job 7"),
        # It came to its end, and died before its proof was written down.
        ([Run("7", "0", 10, 20), Run("8", "0", 25, 35)], [36], ""),
        ([], [], ""),
    ],
)
def test_a_launch_is_doubled_by_a_run_after_its_proof_or_beside_a_living_one(
    runs: list[Run], proofs: list[float], word: str
) -> None:
    found = ledger.doubled(runs, proofs)
    assert word in found and bool(word) == bool(found)


def test_the_files_of_a_ledger_tell_its_runs() -> None:
    files = {
        "run.7.0.12-99.100.250.0.begun": 100.3,
        "run.7.0.12-99.100.240.0.alive": 103.1,
        "run.7.0.12-99.103.5.0.ended": 104.0,
        "run.7.1.4-5.110.0.0.begun": 110.0,
        "run.7.1.4-5.110.0.0.alive": 117.5,
        "go": 1.0,
        "job.7.0": 1.0,
    }
    assert ledger.parse(files) == [Run("7", "0", 100.25, 103.5), Run("7", "1", 110.0, 117.5)]
    # The folder could not be written when the program began.
    files.pop("run.7.1.4-5.110.0.0.begun")
    files["run.7.1.4-5.110.0.0.alive"] = 117.5
    assert ledger.parse(files)[1] == Run("7", "1", 110.0, 117.5)
