# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a launch inside a running job may ask, what is left aside, and what its steps then say for themselves."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import inside_job
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import summary
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import allocation_asked
from tests.plans import context, plan


def spec(**data: Any) -> LaunchSpec:
    launcher = {"inside_job": "1234", **data.pop("launcher", {})}
    return validated(merge([Layer("job", {"name": "job", "command": ["train.py"], "launcher": launcher, **data})]))


def planned(**data: Any) -> Plan:
    merged = merge([Layer("job", {"name": "job", "command": ["train.py"], **data})])
    roots = {"state_root": "/state", "store_root": "/store"}
    return plan(validated(merged), merged, code_key="c0de", environment_key=None, runtime_key="4444", **roots)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"checkpoint": {"requeue": True}}, "checkpoint.requeue: true has no meaning inside job 1234"),
        ({"checkpoint": {"signal_before_end": 60}}, "checkpoint.signal_before_end: 60 has no meaning inside job 1234"),
        ({"resources": {"spares": 2}}, "resources.spares: 2 spare nodes cannot be requested inside job 1234"),
        ({"preflight": {"on_failure": "requeue"}}, "preflight.on_failure: requeue has no meaning inside job 1234"),
        ({"resources": {"dependency": "afterok:1"}}, "resources.dependency: afterok:1 has no effect"),
        ({"resources": {"sbatch": {"begin": "now+1hour"}}}, "resources.sbatch.begin: may not be given inside job 1234"),
        ({"resources": {"sbatch": {"signal": "B:USR1@60"}}}, "resources.sbatch.signal: may not be given"),
        ({"launcher": {"srun": {"nodelist": "node01"}}}, "launcher.srun.nodelist: may not be given inside job 1234"),
        (
            {"launcher": {"inside_nodes": ["a", "b", "a"]}, "resources": {"nodes": 3}},
            "launcher.inside_nodes: 2 different nodes for resources.nodes 3",
        ),
        ({"launcher": {"inside_job": "1234.5"}}, "launcher.inside_job: must be the id of a running job"),
        ({"launcher": {"inside_job": "1234+1"}}, "launcher.inside_job: must be the id of a running job"),
        ({"launcher": {"inside_job": None, "inside_nodes": ["a"]}}, "launcher.inside_nodes: has no effect without"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_inside_a_job_is_refused(data: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(**data)
    assert said in caught.value.message
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("data", [{"checkpoint": {"requeue": False}}, {"resources": {"sbatch": {"requeue": False}}}])
def test_what_asks_for_nothing_is_allowed(data: dict[str, Any]) -> None:
    assert spec(**data).launcher.inside_job == "1234"


def test_what_only_sbatch_could_ask_for_is_named() -> None:
    made = planned(
        launcher={"inside_job": 77},
        resources={"partition": "batch", "exclusive": True, "time": "00:30:00", "sbatch": {"mail-type": "END"}},
    )
    assert inside_job.ignored(made.spec) == [
        "resources.partition batch",
        "resources.exclusive true",
        "resources.sbatch.mail-type END",
    ]
    place, left = summary(made)[2:4]
    assert "inside job 77, so not asked of Slurm: resources.partition batch, resources.exclusive true" in place
    assert left == "time    what is left of job 77"


def test_the_steps_ask_for_what_a_job_of_its_own_would_have_given_them() -> None:
    made = planned(
        launcher={"inside_job": "1234"}, resources={"gpus_per_node": 4, "gpu_type": "h100", "memory": "64G", "nodes": 2}
    )
    assert dict(made.step).items() >= {"overlap": True, "gres": "gpu:h100:4", "mem": "64G"}.items()
    assert dict(made.probe).items() >= {"overlap": True, "gres": "gpu:h100:4", "nodes": "2"}.items()


def test_generic_resources_are_asked_for_beside_gpus() -> None:
    """A job has --gpus-per-node, for which Slurm sets a variable. A step has one --gres with both: srun takes the last
    one given (srun(1)).
    """
    wanted = {"gpus_per_node": 4, "gpu_type": "h100", "gres": ["lscratch:500", "nic:cx7:2"]}
    whole = "gpu:h100:4,lscratch:500,nic:cx7:2"
    queued = planned(resources=wanted)
    asked = [option for option in queued.header if option[0] in ("gres", "gpus-per-node")]
    assert asked == [("gpus-per-node", "h100:4"), ("gres", "lscratch:500,nic:cx7:2")]
    given = [name for name, _value in queued.step if name in ("gres", "gpus-per-node")]
    assert not given, "a step has all that its job was given"
    inside = planned(launcher={"inside_job": "1234"}, resources=wanted)
    assert ("gres", whole) in inside.step and ("gres", whole) in inside.probe
    assert ("gres", "lscratch:5") in planned(resources={"gres": ["lscratch:5"]}).header
    assert "4 h100s, lscratch:500, nic:cx7:2" in summary(queued)[2]


def test_without_gpus_none_of_the_jobs_are_taken() -> None:
    assert ("gres", "none") in planned(launcher={"inside_job": "1"}).step
    assert ("gres", "none") in planned(launcher={"inside_job": "1"}).probe


@pytest.mark.parametrize("own", ["exact", "exclusive", "overlap"])
def test_how_steps_share_the_job_may_be_said_by_the_user(own: str) -> None:
    made = planned(launcher={"inside_job": "1", "srun": {own: True, "mem": "1G"}}, resources={"memory": "2G"})
    names = [name for name, _value in made.step]
    assert names.count("overlap") == (own == "overlap")
    assert ("mem", "1G") in made.step and names.count("mem") == 1


def test_a_job_of_its_own_has_none_of_it() -> None:
    made = planned()
    assert inside_job.step(made.spec) == tuple(inside_job.InsideJob().probe(context(made.spec))) == ()
    assert allocation_asked(made) is None


def test_the_request_holds_what_the_allocation_is_asked() -> None:
    made = planned(
        launcher={"inside_job": "12_3", "inside_nodes": ["b", "a"], "ranks_per_node": 2},
        resources={"nodes": 2, "cpus_per_rank": 3, "exclude": ["node[07-08]"], "time": "00:30:00"},
    )
    asked = allocation_asked(made)
    assert asked and asdict(asked) == {
        "job_id": "12_3",
        "nodes": 2,
        "names": ["b", "a"],
        "exclude": ["node[07-08]"],
        "cpus_per_node": 6,
        "gpus_per_node": 0,
        "gpu_type": None,
        "gres": [],
        "memory": None,
        "time_minutes": 30,
    }
