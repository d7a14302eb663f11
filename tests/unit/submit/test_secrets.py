# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""However a launch ends, its secrets go with the first look at it; while its job may run they stay."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from tests.unit.submit.bench import Bench


def looked_at(bench: Bench) -> None:
    bench.launch(relaunch="never")


def cancelled_by_us(bench: Bench) -> None:
    bench.launcher().cancel().result()


def cancelled_while_pending(bench: Bench) -> None:
    bench.leaves("CANCELLED")
    looked_at(bench)


def killed_by_slurm(bench: Bench) -> None:
    bench.leaves("TIMEOUT")
    looked_at(bench)


def ended_by_a_signal(bench: Bench) -> None:
    bench.ends(False, ended_by="signal")
    bench.leaves("FAILED")
    looked_at(bench)


def adopted_and_then_finished(bench: Bench) -> None:
    looked_at(bench)
    bench.ends(True)
    bench.leaves("COMPLETED")
    looked_at(bench)


def forgotten_by_slurm(bench: Bench) -> None:
    bench.cluster.jobs.clear()
    looked_at(bench)


ENDS = (
    cancelled_by_us,
    cancelled_while_pending,
    killed_by_slurm,
    ended_by_a_signal,
    adopted_and_then_finished,
    forgotten_by_slurm,
)


@pytest.mark.parametrize("end", ENDS)
def test_no_end_leaves_secrets(bench: Bench, end: Callable[[Bench], None]) -> None:
    shipped = bench.store / "shipped"
    shipped.write_bytes(b"A=eA==\n")
    bench.launch(secrets_file=str(shipped))
    secrets = bench.run().file("secrets.env")
    looked_at(bench)
    assert os.path.exists(secrets), "its job waits"
    end(bench)
    assert not os.path.exists(secrets)


def test_a_job_that_is_held_keeps_its_secrets_until_it_is_cancelled(bench: Bench) -> None:
    shipped = bench.store / "shipped"
    shipped.write_bytes(b"A=eA==\n")
    bench.launch(secrets_file=str(shipped))
    bench.cluster.jobs["101"]["reason"] = "JobHeldUser"
    for _look in range(2):
        looked_at(bench)
        assert os.path.exists(bench.run().file("secrets.env"))
    bench.launcher().cancel().result()
    assert not os.path.exists(bench.run().file("secrets.env"))


def test_what_sbatch_refuses_keeps_none(bench: Bench) -> None:
    shipped = bench.store / "shipped"
    shipped.write_bytes(b"A=eA==\n")
    bench.cluster.sbatch = lambda argv: (1, "", "sbatch: error: Invalid partition name specified\n")
    with pytest.raises(RankzeroError):
        bench.launch(secrets_file=str(shipped))
    assert not [name for _place, _folders, names in os.walk(bench.runs) for name in names if name == "secrets.env"]
