# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The budget of a cluster, and Slurm's limits on minutes: what a launch asks for at most, and what is left."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import associations
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import Knowledge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import BUDGET
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.checks import Checks
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds, StorageNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.sums import asked_hours
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import launcher
from tests.unit.slurm.recorded import FakeSlurm, recorded, said
from tests.unit.submit.test_limits import KNOWN, PLAIN, QOS, ROWS, SETTINGS, problems

REMEDY = (
    "Ask for fewer nodes (resources.nodes), less time (resources.time) or fewer restarts (checkpoint.max_restarts), or "
    "have the budget raised"
)


def refused(**asked: Any) -> list[str]:
    return problems(Knowledge(), **{"nodes": 2, "time_minutes": 90.0, "gpus_per_node": 4, **asked})


def test_the_values_of_a_budget() -> None:
    given = {"node_hours": 500, "gpu_hours": "12.5", "node_hours_a_month": "9"}
    assert BUDGET.parse(given) == {"node_hours": "500", "gpu_hours": "12.5", "node_hours_a_month": "9"}
    assert BUDGET.parse({}) == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "5"),
        ({"node_hour": 5}, "one of node_hours, gpu_hours, node_hours_a_month, gpu_hours_a_month"),
        ({"node_hours": "many"}, "a number of hours such as 500, or '12.5' in quotes"),
        ({"node_hours": -1}, "a number of hours"),
        ({"gpu_hours": True}, "quote it"),
        ({"gpu_hours_a_month": float("inf")}, "gpu_hours_a_month"),
    ],
)
def test_a_wrong_budget_says_what_to_write(given: object, message: str) -> None:
    with pytest.raises(Invalid) as error:
        BUDGET.parse(given)
    assert message in str(error.value)


def test_a_launch_that_asks_for_more_than_the_budget_allows() -> None:
    assert refused() == []
    assert refused(budget={"node_hours": 3.0, "gpu_hours": 12.0}) == []
    assert refused(budget={"node_hours": 10.0}, attempts=6) == [
        (
            "launch_cluster.budget.node_hours: this launch asks for at most 18 node-hours (2 nodes x 1.5 h x 6 "
            "attempts), "
            f"and 10 are allowed. {REMEDY}."
        )
    ]
    assert refused(budget={"gpu_hours": 11.5}) == [
        (
            "launch_cluster.budget.gpu_hours: this launch asks for at most 12 GPU-hours (2 nodes x 1.5 h x 4 GPUs a "
            "node), "
            f"and 11.5 are allowed. {REMEDY}."
        )
    ]
    assert refused(budget={"node_hours": 10.0}, time_minutes=None) == [
        (
            "resources.time: not given, and launch_cluster.budget limits what a launch may use (node_hours: 10). "
            "Give a "
            "time limit."
        )
    ]


def test_what_is_left_of_a_month() -> None:
    month = {"node_hours_a_month": 100.0}
    assert refused(budget=month, used={"node_hours": 97.0}) == []
    assert refused(budget=month, used={"node_hours": 98.5}) == [
        (
            "launch_cluster.budget.node_hours_a_month: this launch asks for at most 3 node-hours (2 nodes x 1.5 h). Of "
            "100 "
            "node-hours in this month, 98.5 are used or promised to launches that wait or run, and 1.5 are left. "
            f"{REMEDY}; rankzero usage shows what they went to."
        )
    ]
    assert "and 0 are left" in refused(budget=month, used={"node_hours": 300.0})[0]


def test_what_an_active_launch_may_still_use() -> None:
    spec = {
        "resources": {"nodes": "2", "spares": "1", "time": "01:30:00", "gpus_per_node": "4"},
        "checkpoint": {"requeue": "true", "max_restarts": "2"},
    }
    assert asked_hours(spec) == {"node_hours": 3 * 1.5 * 3, "gpu_hours": 3 * 1.5 * 3 * 4}
    assert asked_hours({"resources": {"nodes": "auto", "time": "30"}}) == {"node_hours": 0.5, "gpu_hours": 0}
    roles = {"server": {"nodes": 4}, "judge": {"share": "server"}, "trainer": {"nodes": 2, "gpus_per_node": 8}}
    assert asked_hours({"resources": {"time": "30"}, "roles": roles}) == {"node_hours": 3, "gpu_hours": 8}
    assert asked_hours({"resources": None}) == {"node_hours": 0, "gpu_hours": 0}


def test_slurms_limits_on_the_minutes_of_a_job() -> None:
    rows = tuple({**row, "MaxTRESMins": "node=100"} for row in ROWS)
    known = Knowledge(SETTINGS, PLAIN, rows, QOS)
    assert problems(known, nodes=2, time_minutes=50.0) == []
    assert problems(known, nodes=2, time_minutes=51.0) == [
        (
            "resources.time: 2 nodes for 00:51:00 are 102 minutes of them, the association of account ml allows at "
            "most 100 "
            "for a job. Ask for less time, or for fewer of them."
        )
    ]
    qos = {name: {**row, "GrpTRESMins": "gres/gpu=10"} for name, row in QOS.items()}
    (problem,) = problems(Knowledge(SETTINGS, PLAIN, ROWS, qos), gpus_per_node=2, time_minutes=10.0)
    assert problem.startswith(
        "resources.time: 2 GPUs for 00:10:00 are 20 minutes of them, QOS normal allows at most 10"
    )
    # What an old cache keeps may lack such columns.
    old = tuple({name: value for name, value in row.items() if "Mins" not in name} for row in ROWS)
    assert problems(Knowledge(SETTINGS, PLAIN, old, QOS), nodes=2, time_minutes=51.0) == []


SHARES = "ml||node=500|node=200,cpu=900|node=100\n ml|nobody|node=200|node=150|\nphysics||node=1||\n"


def test_what_is_left_of_an_accounts_minutes() -> None:
    columns = ("Account", "User", "GrpTRESMins", "GrpTRESRaw", "TRESRunMins")
    rows = [dict(zip(columns, line.split("|"))) for line in SHARES.splitlines()]

    def left(nodes: int, minutes: float | None) -> list[str]:
        seconds = None if minutes is None else minutes * 60
        return list(associations.over_what_is_left("ml", rows, {"node": nodes}, seconds))

    assert left(2, 25.0) == left(2, None) == []
    assert left(2, 30.0) == [
        (
            "resources.time: 2 nodes for 00:30:00 are 60 minutes of them, and 50 of 200 are left to user nobody in "
            "account ml "
            "(GrpTRESMins). Ask for less time, or for fewer of them, or have the limit raised."
        )
    ]
    assert len(left(5, 60.0)) == 2 and "200 of 500 are left to account ml (" in left(5, 60.0)[0]


def checks(fake: FakeSlurm, known: Knowledge, tmp_path: Path, **asked: Any) -> list[str]:
    needs = ResourceNeeds(**{"nodes": 2, "time_minutes": 30.0, **asked})
    made = Checks(fake.slurm(), needs, where=StorageNeeds(), containers=(), check_mode=False, clock=time.time)
    made.user, made.groups = "nobody", frozenset()
    made.informed.recall = lambda: known  # type: ignore[method-assign]
    return made.run().problems


def test_sshare_is_asked_only_if_there_may_be_such_a_limit(tmp_path: Path) -> None:
    answers = {"sinfo": said(recorded("sinfo_rules.txt")), "sshare": said(SHARES), "squeue": said("")}
    plain = FakeSlurm(**answers)
    assert checks(plain, KNOWN, tmp_path) == [] and "sshare" not in plain.programs
    limited = Knowledge(SETTINGS, PLAIN, tuple({**row, "GrpTRESMins": "node=200"} for row in ROWS), QOS)
    asked = FakeSlurm(**answers)
    (problem,) = checks(asked, limited, tmp_path)
    assert "50 of 200 are left to user nobody" in problem and asked.programs.count("sshare") == 1
    # The limit of the account above a user is seen only there: it is looked for where a budget is set.
    assert "50 of 200" in checks(FakeSlurm(**answers), KNOWN, tmp_path, budget={"node_hours": 1000.0})[0]
    without = FakeSlurm(sinfo=answers["sinfo"], squeue=said(""))
    assert checks(without, limited, tmp_path) == [] and "sshare" not in without.programs


def asked_of_the_cluster(answer: dict[str, Any]) -> tuple[dict[str, float], list[Any]]:
    """What an action takes from the answer of module usage_info, and how it called the module."""
    calls: list[Any] = []

    def call(module: str, given: dict[str, Any], _variables: object, _spec: object) -> dict[str, Any]:
        calls.append((module, given))
        return answer

    action: Any = SimpleNamespace(_task_vars={}, call=call)
    used = launcher.Launcher._used_in_month(action, "/state")
    return used, calls


def test_what_counts_against_the_budget_of_a_month() -> None:
    row = {"month": "2026-03", "node_hours": 90.0, "gpu_hours": None}
    used, calls = asked_of_the_cluster({"rows": [row], "promised": {"node_hours": 8.5, "gpu_hours": 4.0}})
    assert used == {"node_hours": 98.5, "gpu_hours": 4.0}
    month = time.strftime("%Y-%m")
    given = {"state_root": "/state", "by": ["month"], "since": month, "until": month}
    assert calls == [("rankzero.slurm.usage_info", given)]
    assert asked_of_the_cluster({"rows": [], "promised": {"node_hours": 0.0, "gpu_hours": 0.0}})[0]["node_hours"] == 0
    with pytest.raises(RankzeroError, match="what was used this month is not known: no squeue"):
        asked_of_the_cluster({"failed": True, "msg": "no squeue"})
