# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles whose nodes differ, on real Slurm: one heterogeneous job with nodes of several partitions."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.cluster.launching import Site, log_of, nothing_left, read_json
from tests.cluster.roles_programs import CLIENT, SERVER
from tests.unit.pyenv.conftest import make_wheel

#: What a process has. The deciding role ends with its result, and the others once it has ended.
LOOK = """
import importlib.util, json, os, time
role, rank = os.environ["RANKZERO_ROLE"], os.environ["RANK"]
names = ("SLURMD_NODENAME", "SLURM_GPUS_ON_NODE", "WORLD_SIZE")
values = {**{name: os.environ.get(name) for name in names}, "sealed": bool(importlib.util.find_spec("alpha"))}
with open(f"seen-{role}-{rank}.json.part", "w") as stream:
    json.dump(values, stream)
os.rename(f"seen-{role}-{rank}.json.part", f"seen-{role}-{rank}.json")
while role != "trainer" or len([name for name in os.listdir() if name.endswith(".json")]) < 6:
    time.sleep(0.1)
if rank == "0":
    with open("result.json", "w") as stream:
        stream.write("{}")
"""
TOLD = ["{server.urls}", "{server.hosts}", "{server.nodes}"]


@pytest.fixture
def look(site: Site) -> Site:
    for name, text in (("look.py", LOOK), ("server.py", SERVER), ("client.py", CLIENT)):
        (site.folder / "code" / name).write_text(text, encoding="utf-8")
    return site


def job(site: Site, roles: dict[str, Any], **spec: Any) -> dict[str, Any]:
    made = site.job([], roles=roles, **spec)
    del made["command"]
    return made


def serving(site: Site, mode: str, **spec: Any) -> dict[str, Any]:
    """Servers in one partition, and a client in another one that asks them."""
    server = {"nodes": 2, "partition": "short", "command": ["server.py", "{port}", "0"], "ready": {"http": "/"}}
    client = {"nodes": 2, "partition": "batch", "after_ready": ["server"], "command": ["client.py", mode, *TOLD]}
    roles = {"server": server, "client": client}
    return job(site, roles, artifact={"path": "result.json", "role": "client"}, **spec)


def test_roles_get_nodes_of_several_partitions_in_one_job(look: Site) -> None:
    """Each has what it asks for, and all nodes the sealed environment and the lines before the ranks."""
    wheels = f"{look.state_root}.wheels"
    make_wheel(look.own(wheels), "alpha", "1.0", {"alpha.py": ""})
    text = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["alpha"]\n'
    (look.folder / "code" / "pyproject.toml").write_text(text, encoding="utf-8")
    servers = {"nodes": 2, "partition": "short", "resources": {"cpus_per_rank": 3}, "command": ["look.py"]}
    roles = {
        "server": {**servers, "ready": {"file": "seen-server-1.json"}},
        "trainer": {"nodes": 2, "gpus_per_node": 2, "after_ready": ["server"], "command": ["look.py"]},
    }
    # A lab of another release has no mksquashfs.
    mode = "sealed" if look.lab.lab.slurm == "host" else "venv"
    made = job(
        look,
        roles,
        resources={"time": "00:05:00", "partition": "batch"},
        environment={"mode": mode, "project": str(look.folder / "code")},
        setup={
            # With collectors, as of more than 16 processes.
            "commands": ["export RANKZERO_LOG_PER=rank"],
            "before_ranks": ['touch "$RANKZERO_RUN_DIR/before-$SLURMD_NODENAME"'],
        },
        artifact={"path": "result.json"},
    )
    # What the settings of pip on the login node are.
    sources = f"PIP_CONFIG_FILE={os.devnull} PIP_NO_INDEX=1 PIP_FIND_LINKS={wheels}"
    shell = look.shell("with-wheels", f'exec env {sources} "$LAB_SHELL" "$@"')
    played = look.play(made, ansible_shell_executable=shell, wait=True)
    assert played.rc == 0, played.output
    launch = played.launch()
    run = look.run_dir(launch)
    assert look.outcome(launch)["success"], log_of(run, launch["job_id"])
    seen = {path.stem.partition("-")[2]: read_json(path) for path in (run / "work").glob("seen-*.json")}
    assert sorted(seen) == ["server-0", "server-1", "trainer-0", "trainer-1", "trainer-2", "trainer-3"]
    started = read_json(run / "started.json")
    trainer, server = (role["nodes"] for role in started["roles"])
    assert len(trainer) == len(server) == 2 and started["nodes"] == trainer + server
    for name, values in seen.items():
        gpus, ranks, nodes = ("0", "2", server) if name.startswith("server") else ("2", "4", trainer)
        assert (values["sealed"] or mode == "venv") and values["SLURMD_NODENAME"] in nodes
        assert (values["SLURM_GPUS_ON_NODE"] or "0", values["WORLD_SIZE"]) == (gpus, ranks)
    collected = (run / "monitor" / "0" / "nodes").read_text()
    assert all(f"[done {node}]" in collected for node in started["nodes"]), collected
    assert {path.name for path in run.glob("before-*")} == {f"before-{node}" for node in started["nodes"]}
    listed = ["sacct", "-X", "-n", "-P", "-j", launch["job_id"], "-o", "JobID,Partition,NNodes"]
    assert sorted(look.lab.head(listed).stdout.split()) == [
        f"{launch['job_id']}+0|batch|2",
        f"{launch['job_id']}+1|short|2",
    ]
    nothing_left(look, launch)


def test_a_lost_node_of_a_further_component_brings_all_back_into_the_queue(look: Site) -> None:
    if look.lab.way != "realistic":
        pytest.skip("a node dies as a whole only where it has namespaces of its own")
    made = serving(look, "heal", checkpoint={"signal_before_end": 60, "requeue": True})
    launch = look.launch(made)
    run = look.run_dir(launch)
    look.wait_for(run / "work" / "asked")
    dead = read_json(run / "started.json")["roles"][1]["nodes"][1]
    try:
        look.lab.faults.power_off(dead)
        assert look.ended(launch["job_id"]) == "COMPLETED", log_of(run, launch["job_id"])
    finally:
        look.lab.faults.power_on(dead)
    outcome, started = look.outcome(launch), read_json(run / "started.json")
    assert (outcome["success"], outcome["attempt"]) == (True, 1), outcome
    assert dead not in started["nodes"], started
    nothing_left(look, launch)


def test_a_cancelled_one_ends_in_all_its_components(look: Site) -> None:
    launch = look.launch(serving(look, "wait"))
    run = look.run_dir(launch)
    look.wait_for(run / "work" / "asked")
    again = look.launch(serving(look, "wait"))
    assert (again["submission"], again["job_id"]) == ("adopted", launch["job_id"])
    look.lab.head(["scancel", launch["job_id"]])
    assert look.outcome(launch)["ended_by"] == "signal"
    assert look.ended(launch["job_id"]) == "CANCELLED"
    nothing_left(look, launch)


def test_what_no_partition_can_give_a_role_is_said_before_anything_is_queued(look: Site) -> None:
    made = serving(look, "ask")
    made["roles"]["server"]["partition"] = "shrt"
    assert "'shrt' is not a partition" in look.play(made).refused()
    made["roles"]["server"].update(partition="short", nodes=99)
    assert "99 asked, partition short has" in look.play(made).refused()
