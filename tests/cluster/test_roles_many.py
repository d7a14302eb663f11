# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps of launches with several programs on real Slurm."""

from __future__ import annotations

import os

from tests.cluster.launching import Site, nothing_left, read_json
from tests.cluster.test_roles import of_roles, programs

__all__ = ["programs"]

SWEEP = "rankzero.slurm.sweep"
#: How many launches leave nothing behind.
LAUNCHES = int(os.environ.get("RANKZERO_TEST_LAUNCHES", "4"))


def test_a_sweep_of_roles_gives_each_element_its_own_programs(programs: Site) -> None:
    roles = {
        "server": {
            "command": ["server.py", "{port}", "0"],
            "ready": {"http": "/health"},
            "env": {"OWN": "it's {heat}"},
        },
        "client": {"command": ["client.py", "ask", "{server.urls}", "{lr}"], "after_ready": ["server"]},
    }
    values = {"parameters": {"heat": ["0.7", "1"], "lr": ["a b"]}}
    played = programs.play(of_roles(programs, roles, {}, sweep=values), playbook=SWEEP, wait=True)
    found = played.results("rankzero.slurm.job_sweep_info")[-1]
    assert played.rc == 0 and found["counts"] == {"succeeded": 2}, played.output
    results = [read_json(programs.run_dir(row) / "work" / "result.json") for row in found["elements"]]
    assert [result["answers"][0]["own"] for result in results] == ["it's 0.7", "it's 1"]
    assert [result["words"] for result in results] == [["a b"]] * 2 and [result["own"] for result in results] == [
        None
    ] * 2


def test_proven_launches_leave_no_process_of_any_role(programs: Site) -> None:
    """Servers that do not heed their end, and a deciding role that would go on for an hour after its result. Run it
    with RANKZERO_TEST_LAUNCHES=100 for as many launches.
    """
    roles = {
        "server": {"shell": "trap '' TERM; python3 server.py {port} 0", "ready": {"port": True}, "nodes": 2},
        "client": {"shell": "echo '{}' > result.json; exec sleep 3600", "after_ready": ["server"]},
    }
    values = {"parameters": {"number": [str(number) for number in range(LAUNCHES)]}}
    made = of_roles(programs, roles, {}, env={"NUMBER": "{number}"}, sweep=values)
    made["artifact"]["then"] = "end"
    played = programs.play(made, playbook=SWEEP, wait=True, timeout=300 + 30 * LAUNCHES)
    assert played.rc == 0, played.output
    found = played.results("rankzero.slurm.job_sweep_info")[-1]
    assert found["counts"] == {"succeeded": LAUNCHES}, played.output
    for row in found["elements"]:
        nothing_left(programs, row)
