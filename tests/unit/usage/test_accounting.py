# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What accounting tells about the nodes of jobs: requeued, heterogeneous, without energy, or nothing at all."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.accounting import COLUMNS, accounted
from tests.unit.slurm.recorded import NO_ACCOUNTING, FakeSlurm, said

SINCE = parse.parse_epoch("2026-03-01T10:00:00")
JOULES = {"none": "", "zero": "0", "unset": "18446744073709551614", "measured": "7200000"}


def line(job_id: str, start: str, seconds: int, **more: str) -> str:
    values = dict.fromkeys(COLUMNS, "") | {
        "JobID": job_id, "Submit": "2026-03-01T10:00:00", "Start": start, "End": "2026-03-01T12:00:00",
        "ElapsedRaw": str(seconds), "NNodes": "2", "AllocTRES": "billing=8,cpu=8,gres/gpu=16,gres/gpu:h100=16,node=2",
        "User": "ada", "Account": "physics",
    }  # fmt: skip
    return parse.FIELD.join({**values, **more}.values()) + "\n"


def test_the_rows_of_a_job_that_was_requeued() -> None:
    waits = line("7", "Unknown", 0, AllocTRES="", NNodes="2", End="Unknown")
    old = line("7", "2026-01-01T10:00:00", 60, Submit="2026-01-01T09:00:00")
    rows = (
        line("7", "2026-03-01T11:00:00", 3600, ConsumedEnergyRaw=JOULES["measured"]),
        line("7", "2026-03-01T10:10:00", 60),
    )
    fake = FakeSlurm(sacct=said("".join([old, *rows, waits])))
    found = accounted(fake.slurm(), ["7", "8"], SINCE)
    assert found is not None and list(found) == ["7"] and fake.programs == ["sacct"]
    assert [(held.elapsed, held.gpus, held.joules) for held in found["7"]] == [(60, 16, None), (3600, 16, 7_200_000)]
    assert (found["7"][0].user, found["7"][0].account, found["7"][0].nodes) == ("ada", "physics", 2)
    assert "--jobs=7,8" in fake.asked[0] and "--duplicates" in fake.asked[0]


def test_a_job_that_was_requeued_after_it_had_lost_a_node() -> None:
    """As recorded: the job had three nodes again, and NNodes still said one."""
    lost = line("7", "2026-03-01T10:10:00", 47, NNodes="3", AllocTRES="cpu=3,node=3")
    requeued = line("7", "2026-03-01T11:00:00", 119, NNodes="1", AllocTRES="cpu=3,node=3")
    old = line("7", "2026-03-01T11:30:00", 60, NNodes="2", AllocTRES="")
    found = accounted(FakeSlurm(sacct=said(lost + requeued + old)).slurm(), ["7"], SINCE)
    assert found is not None and [held.nodes for held in found["7"]] == [3, 3, 2]


def test_the_components_of_a_heterogeneous_job_are_one_allocation() -> None:
    for energy, expected in (("zero", None), ("unset", None), ("none", None), ("measured", 14_400_000)):
        rows = [line(f"20+{part}", "2026-03-01T11:00:00", 60, ConsumedEnergyRaw=JOULES[energy]) for part in (0, 1)]
        found = accounted(FakeSlurm(sacct=said("".join(rows))).slurm(), ["20"], SINCE)
        assert found is not None
        assert [(held.nodes, held.gpus, held.joules) for held in found["20"]] == [(4, 32, expected)]


def test_without_accounting_nothing_is_known() -> None:
    assert accounted(FakeSlurm(sacct=NO_ACCOUNTING).slurm(), ["7"], SINCE) is None
    assert accounted(FakeSlurm().slurm(), ["7"], SINCE) is None
    silent = FakeSlurm(sacct=said(timed_out=True, rc=1)).slurm()
    silent.accounting = "silent"
    assert accounted(silent, ["7"], SINCE) is None
    assert accounted(FakeSlurm().slurm(), [], SINCE) == {}
