# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles inside a job that is running already, and a shell where a role runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site, log_of, nothing_left, read_json
from tests.cluster.test_attach import PROMPT, Terminal, allocate, nodes_of
from tests.cluster.test_roles import TOLD, of_roles, programs

__all__ = ["programs"]

SERVER = {"nodes": 1, "command": ["server.py", "{port}", "0"], "ready": {"http": "/health"}}
CLIENT = {"command": ["client.py", "ask", *TOLD], "after_ready": ["server"]}
PLACE = "$SLURMD_NODENAME $(grep Cpus_allowed_list /proc/self/status | cut -f2) ${CUDA_VISIBLE_DEVICES:-none}"


@pytest.fixture
def allocation(lab: LabCluster) -> Iterator[str]:
    job_id = allocate(lab, 3)
    yield job_id
    lab.head(["scancel", job_id], check=False)


def test_roles_run_on_nodes_of_a_running_job_that_goes_on(programs: Site, allocation: str) -> None:
    roles = {"server": {**SERVER, "nodes": 2}, "client": CLIENT}
    launch = programs.launch(of_roles(programs, roles, {"answers": {}}, launcher={"inside_job": allocation}), wait=True)
    run = programs.run_dir(launch)
    assert programs.outcome(launch)["success"], log_of(run, launch["job_id"])
    started = read_json(run / "started.json")
    assert launch["job_id"].startswith(f"{allocation}.")
    assert [node for role in started["roles"] for node in role["nodes"]] == nodes_of(programs.lab, allocation)
    assert len(read_json(run / "work" / "result.json")["answers"]) == 2
    nothing_left(programs, launch)


def test_more_nodes_than_the_running_job_has_are_refused(programs: Site, allocation: str) -> None:
    roles = {"server": {**SERVER, "nodes": 3}, "client": CLIENT}
    played = programs.play(of_roles(programs, roles, {}, launcher={"inside_job": allocation}))
    assert f"resources.nodes: 4 asked, job {allocation} has 3" in played.refused(), played.output


def test_roles_on_one_node_of_a_running_job_have_cpus_and_gpus_of_their_own(programs: Site, allocation: str) -> None:
    """Steps inside a job overlap as a rule: they would all get its first CPUs and GPUs."""
    roles = {
        "server": {
            "share": True,
            "resources": {"gpus_per_node": 1},
            "shell": f'echo "{PLACE}" >server; exec python3 server.py {{port}} 0',
            "ready": {"http": "/health"},
        },
        "client": {
            "resources": {"gpus_per_node": 1},
            "shell": f'echo "{PLACE}" >client; python3 client.py ask {" ".join(TOLD)}',
            "after_ready": ["server"],
        },
    }
    launch = programs.launch(of_roles(programs, roles, {"answers": {}}, launcher={"inside_job": allocation}), wait=True)
    run = programs.run_dir(launch)
    assert programs.outcome(launch)["success"], log_of(run, launch["job_id"])
    server, client = ((run / "work" / name).read_text().split() for name in ("server", "client"))
    assert server[0] == client[0] and server[2] != client[2] and "none" not in (server[2], client[2]), (server, client)
    nothing_left(programs, launch)


def shell(site: Site, job: dict[str, Any], **given: Any) -> dict[str, Any]:
    """What the shell's playbook answers."""
    played = site.play(job, playbook="rankzero.slurm.shell", run=False, **given)
    return {**played.results("rankzero.slurm.job_shell")[-1], "output": played.output}


def test_a_shell_opens_where_a_role_runs_with_what_its_processes_have(programs: Site) -> None:
    """In the launch's own job, which goes on; and, without one, in an allocation of the role's size."""
    wait = "touch begun; until [ -e go ]; do sleep 0.2; done; "
    roles = {
        "server": {**SERVER, "env": {"OWN": "it's the server"}, "nodes": 2},
        "client": {"shell": f"{wait}python3 client.py ask {' '.join(TOLD)}", "after_ready": ["server"]},
    }
    job = of_roles(programs, roles, {"answers": {}})
    launch = programs.launch(job)
    run = programs.run_dir(launch)
    programs.wait_for(run / "work" / "begun")
    client, server = read_json(run / "started.json")["roles"]
    session = shell(programs, job, role="server", inside_job=launch["job_id"])
    (typed,) = session["commands"]
    assert f"--nodelist={server['nodes'][0]}" in typed, session
    terminal = Terminal([str(programs.lab.dir / "bin" / "head"), *programs.user.become(), "/bin/bash", "-c", typed],
                        programs.folder)  # fmt: skip
    terminal.expect(PROMPT)
    terminal.type('printf "@@%s" "$OWN" "$SLURMD_NODENAME" "$RANKZERO_ROLE" @@')
    seen = terminal.expect(r"@@it.*@@.*" + PROMPT)
    assert f"@@it's the server@@{server['nodes'][0]}@@server@@" in seen, seen
    terminal.type("exit 0")
    assert terminal.close() == 0
    of_client = shell(programs, job, role="client", inside_job=launch["job_id"])
    assert f"--nodelist={client['nodes'][0]}" in of_client["commands"][0]
    alone = shell(programs, job, role="server")
    assert "--nodes=2" in alone["commands"][0] and "the shell is of role server" in alone["output"], alone
    deciding = shell(programs, job)
    assert "--nodes=1" in deciding["commands"][0] and "the shell is of role client" in deciding["output"], deciding
    wrong = shell(programs, job, role="sever")
    assert "sever" in wrong["msg"] and "server" in wrong["msg"], wrong
    (run / "work" / "go").touch()
    assert programs.outcome(launch)["success"], log_of(run, launch["job_id"])
    nothing_left(programs, launch)
