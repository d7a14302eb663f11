# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches with several programs on real Slurm: servers, and a client that decides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.launching import Site, log_of, nothing_left, rank_logs, read_json
from tests.cluster.roles_programs import CLIENT, SERVER

TOLD = ["{server.urls}", "{server.hosts}", "{server.nodes}"]
SERVERS = {"command": ["server.py", "{port}", "1"], "ready": {"http": "/health"}}


@pytest.fixture
def programs(site: Site) -> Site:
    for name, text in (("server.py", SERVER), ("client.py", CLIENT)):
        (site.folder / "code" / name).write_text(text, encoding="utf-8")
    return site


def job(site: Site, mode: str = "ask", server: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Two servers that are ready after a second, and two ranks that decide."""
    roles = {
        "server": {
            "nodes": 2,
            "env": {"OWN": "server"},
            **(server or SERVERS),
        },
        "client": {"command": ["client.py", mode, *TOLD], "nodes": 2, "after_ready": ["server"]},
    }
    return of_roles(site, roles, {"answers": {}}, **spec)


def of_roles(site: Site, roles: dict[str, Any], require: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A job of these roles, of which `client` decides."""
    artifact = {"path": "result.json", "role": "client", "require": require}
    made = site.job([], artifact=artifact, roles=roles, **spec)
    del made["command"]
    return made


def test_roles_start_in_order_know_each_other_and_end_with_the_one_that_decides(programs: Site) -> None:
    played = programs.play(job(programs), wait=True)
    launch = played.launch()
    run = programs.run_dir(launch)
    outcome, started = programs.outcome(launch), read_json(run / "started.json")
    assert outcome["success"], log_of(run, launch["job_id"])
    result = read_json(run / "work" / "result.json")
    client, server = started["roles"]
    assert [role["name"] for role in (client, server)] == ["client", "server"]
    assert client["nodes"] + server["nodes"] == started["nodes"] and len(started["nodes"]) == 4
    assert [(answer["rank"], answer["node"], answer["own"]) for answer in result["answers"]] == [
        (str(rank), node, "server") for rank, node in enumerate(server["nodes"])
    ]
    assert result["told"] == {
        "RANKZERO_SERVER_URLS": ",".join(f"http://{host}" for host in server["hosts"]),
        "RANKZERO_SERVER_NODES": ",".join(server["nodes"]),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": client["nodes"][0],
    }
    assert result["words"] == [",".join(server["hosts"]), ",".join(server["nodes"])]
    # Who waits is told what for, then and afterwards.
    assert started["launched"] <= server["began"] < server["ready"] <= client["began"] <= client["ended"], started
    assert "role server is ready" in played.output and "waiting for server" in played.output, played.output
    (kept,) = programs.folder.glob("runs/*/*/1/ledger.json")
    hours = {row["role"]: row["node_seconds"] for row in read_json(kept)["ledger"]["roles"]}
    assert hours["server"] == pytest.approx(2 * (server["ended"] - server["began"]), abs=0.01), (hours, started)
    assert "of roles: client " in played.output
    # What one role says is not the other's.
    assert result["own"] is None
    logs = rank_logs(run)
    assert [*logs] == [f"rank-{rank:04d}.log" for rank in range(4)]
    assert "listens on" in logs["rank-0002.log"] and "listens on" in logs["rank-0003.log"]
    nothing_left(programs, launch)


def test_a_role_that_ends_early_ends_the_launch_and_is_named(programs: Site) -> None:
    played = programs.play(job(programs, "end"), wait=True)
    launch = played.launch()
    outcome = programs.outcome(launch)
    assert not outcome["success"] and outcome["exit_code"] == 7
    node = read_json(programs.run_dir(launch) / "started.json")["roles"][1]["nodes"][1]
    assert "role server" in outcome["message"] and f"process 1 on {node}" in outcome["message"]
    assert "rank-0003.log" in outcome["message"]
    assert "role server" in played.output and played.rc != 0
    # The other role's processes are no ranks of the world.
    checklist = read_json(programs.run_dir(launch) / "diagnosis.json")["checklist"]
    assert {row["question"]: row["ok"] for row in checklist if "world" in row["question"]} == {"world size": True}
    # Nor is what the job does to them, once the role has ended, a cause.
    assert outcome["role"] == "server"
    diagnosis = read_json(programs.run_dir(launch) / "diagnosis.json")
    assert diagnosis["family"] == "launcher" and "memory" not in str(diagnosis["chain"]), diagnosis
    programs.ended(launch["job_id"])
    nothing_left(programs, launch)


@pytest.mark.parametrize(("policy", "mode"), [("restart", "kill"), ("restart_all", "kill_all")])
def test_a_server_that_dies_starts_again_at_the_same_place(programs: Site, policy: str, mode: str) -> None:
    """The other server goes on meanwhile, and answers with the same process, or starts again with it."""
    played = programs.play(job(programs, mode, {**SERVERS, "on_exit": policy}), wait=True)
    launch = played.launch()
    run = programs.run_dir(launch)
    log = log_of(run, launch["job_id"])
    assert programs.outcome(launch)["success"], log
    result = read_json(run / "work" / "result.json")
    pids = [[answer["pid"] for answer in result[when]] for when in ("answers", "again")]
    assert [answer["node"] for answer in result["again"]] == [answer["node"] for answer in result["answers"]]
    assert [before == after for before, after in zip(*pids)] == [policy == "restart", False], pids
    assert "starts again (1 of 3)" in log, log
    assert read_json(run / "started.json")["roles"][1]["restarts"] == 1
    nothing_left(programs, launch)


def test_a_process_that_dies_again_and_again_ends_the_launch_after_three_restarts(programs: Site) -> None:
    dying = {"shell": "[ $RANK = 0 ] || exit 5; exec python3 server.py {port} 0", "ready": {"port": True}}
    launch = programs.launch(job(programs, server={**dying, "on_exit": "restart"}))
    outcome, log = programs.outcome(launch), log_of(programs.run_dir(launch), launch["job_id"])
    assert not outcome["success"] and outcome["exit_code"] == 5, log
    assert "process 1 on" in outcome["message"] and "after 3 restarts" in outcome["message"], outcome
    assert [f"({count} of 3)" in log for count in (1, 2, 3, 4)] == [True, True, True, False], log
    nothing_left(programs, launch)


# Of restart_all a whole launch stands above.
@pytest.mark.parametrize("policy", ["restart", pytest.param("restart_all", marks=pytest.mark.more)])
def test_a_line_of_an_earlier_start_makes_nobody_ready(programs: Site, policy: str) -> None:
    wait = "until [ -e begun ]; do sleep 0.1; done"
    once = f"[ -e died-$RANK ] && sleep 3600; echo listens; {wait}; touch died-$RANK; exit 7"
    roles = {
        "server": {"shell": once, "ready": {"line": "listens", "within": "00:00:10"}, "on_exit": policy},
        "client": {"shell": "touch begun; sleep 60 && echo '{}' >result.json", "after_ready": ["server"]},
    }
    launch = programs.launch(of_roles(programs, roles, {}))
    outcome, log = programs.outcome(launch), log_of(programs.run_dir(launch), launch["job_id"])
    assert not outcome["success"] and "was not ready within 10 s" in outcome["message"], log
    nothing_left(programs, launch)


def test_processes_of_a_role_whose_end_nobody_minds_do_not_end_each_other(programs: Site) -> None:
    """One server ends badly at once; the other answers to the end."""
    half = {"shell": "[ $RANK = 0 ] || exit 5; exec python3 server.py {port} 0", "on_exit": "ignore"}
    ask = "until python3 client.py ask $(echo {server.urls} | cut -d, -f1) x y; do sleep 0.3; done"
    roles = {"server": {"nodes": 2, **half}, "client": {"shell": f"sleep 3; {ask}"}}
    launch = programs.launch(of_roles(programs, roles, {"answers": {}}), wait=True)
    assert programs.outcome(launch)["success"], log_of(programs.run_dir(launch), launch["job_id"])
    nothing_left(programs, launch)


def test_a_gate_that_never_opens_fails_and_says_what_it_waited_for(programs: Site) -> None:
    late = {"command": ["server.py", "{port}", "3600"], "ready": {"http": "/health", "within": "00:00:05"}}
    launch = programs.launch(job(programs, server=late))
    outcome = programs.outcome(launch)
    assert not outcome["success"] and not (programs.run_dir(launch) / "work" / "result.json").exists()
    assert "role server was not ready within 5 s" in outcome["message"] and "503" in outcome["message"]


def test_a_server_that_answers_with_an_error_opens_no_gate_and_its_answer_is_said(programs: Site) -> None:
    broken = (
        "import http.server as h, sys; "
        "h.HTTPServer(('', int(sys.argv[1])), type('P', (h.BaseHTTPRequestHandler,), "
        "{'do_GET': lambda self: self.send_error(500)})).serve_forever()"
    )
    (programs.folder / "code" / "broken.py").write_text(broken, encoding="utf-8")
    server = {"command": ["broken.py", "{port}"], "ready": {"http": "/health", "within": "00:00:05"}}
    launch = programs.launch(job(programs, server=server))
    outcome = programs.outcome(launch)
    assert not outcome["success"] and not (programs.run_dir(launch) / "work" / "result.json").exists()
    assert "role server was not ready within 5 s" in outcome["message"] and "500" in outcome["message"], outcome
    programs.ended(launch["job_id"])
    nothing_left(programs, launch)


# A role that ends the launch stands above.
@pytest.mark.parametrize("policy", [pytest.param("fail", marks=pytest.mark.more), "restart"])
def test_a_server_that_dies_after_the_gate_and_before_the_first_request(programs: Site, policy: str) -> None:
    """It dies once the deciding role has started, which asks it only then."""
    roles = {
        "server": {
            "shell": "python3 server.py {port} 0 & until [ -e begun ]; do sleep 0.1; done; "
            "[ -e died ] || { kill -9 $!; touch died; exit 7; }; wait",
            "ready": {"http": "/health"},
            "on_exit": policy,
        },
        "client": {
            "shell": "touch begun; until [ -e died ]; do sleep 0.1; done; "
            f"until python3 client.py ask {' '.join(TOLD)}; do sleep 0.2; done",
            "after_ready": ["server"],
        },
    }
    launch = programs.launch(of_roles(programs, roles, {"answers": {}}), wait=policy == "restart")
    outcome, log = programs.outcome(launch), log_of(programs.run_dir(launch), launch["job_id"])
    assert outcome["success"] is (policy == "restart"), log
    if policy == "fail":
        assert "role server ended with exit code 7" in outcome["message"] and outcome["role"] == "server", outcome
    else:
        assert outcome["attempt"] == 0 and "starts again (1 of 3)" in log, log
    programs.ended(launch["job_id"])
    nothing_left(programs, launch)


def test_a_node_of_a_role_that_dies_without_a_spare_one_brings_the_launch_back_into_the_queue(programs: Site) -> None:
    if programs.lab.way != "realistic":
        pytest.skip("a node dies as a whole only where it has namespaces of its own")
    made = job(programs, checkpoint={"signal_before_end": 60, "requeue": True})
    client = made["roles"]["client"]
    del client["command"]
    client["shell"] = f'[ "$RANKZERO_ATTEMPT" = 0 ] && m=wait || m=ask; exec python3 client.py $m {" ".join(TOLD)}'
    launch = programs.launch(made)
    run = programs.run_dir(launch)
    programs.wait_for(run / "work" / "asked")
    dead = read_json(run / "started.json")["roles"][1]["nodes"][1]
    try:
        programs.lab.faults.power_off(dead)
        assert programs.ended(launch["job_id"]) == "COMPLETED", log_of(run, launch["job_id"])
    finally:
        programs.lab.faults.power_on(dead)
    outcome, started = programs.outcome(launch), read_json(run / "started.json")
    assert (outcome["success"], outcome["attempt"]) == (True, 1), outcome
    assert dead not in started["nodes"], started
    nothing_left(programs, launch)


def test_a_cancelled_launch_is_cancelled_and_not_failed_by_its_server(programs: Site) -> None:
    launch = programs.launch(job(programs, "wait"))
    run = programs.run_dir(launch)
    programs.wait_for(run / "work" / "asked")
    programs.lab.head(["scancel", launch["job_id"]])
    outcome = programs.outcome(launch)
    assert (outcome["ended_by"], outcome["success"]) == ("signal", False), outcome
    assert "role" not in outcome["message"], log_of(run, launch["job_id"])
    assert programs.ended(launch["job_id"]) == "CANCELLED"
    nothing_left(programs, launch)


@pytest.mark.parametrize("back", [False, True], ids=["it stays away", "it is back within seconds"])
def test_a_node_of_a_role_that_dies_is_replaced_by_a_spare_one(programs: Site, back: bool) -> None:
    if programs.lab.way != "realistic":
        pytest.skip("a node dies as a whole only where it has namespaces of its own")
    launch = programs.launch(job(programs, "heal", resources={"time": "00:10:00", "spares": 1}))
    run = programs.run_dir(launch)
    programs.wait_for(run / "work" / "asked")
    dead = read_json(run / "started.json")["roles"][1]["nodes"][1]
    try:
        programs.lab.faults.power_off(dead)
        if back:
            programs.lab.faults.power_on(dead)
        assert programs.ended(launch["job_id"]) == "COMPLETED", log_of(run, launch["job_id"])
    finally:
        programs.lab.faults.power_on(dead)
    outcome, started = programs.outcome(launch), read_json(run / "started.json")
    assert (outcome["success"], outcome["attempt"]) == (True, 1), outcome
    assert dead not in started["nodes"] and len(started["roles"][1]["nodes"]) == 2
    answers = read_json(run / "work" / "result.json")["answers"]
    assert [answer["node"] for answer in answers] == started["roles"][1]["nodes"]
    nothing_left(programs, launch)


#: A port and a file are what other tests of this file wait for; each way alone stands in unit/runtime/test_ready.py.
LINE: dict[str, Any] = {"line": "listens on [0-9]+"}
WAYS = [
    *[pytest.param(way, "rank", marks=pytest.mark.more) for way in ({"port": True}, LINE, {"file": "there"})],
    pytest.param(LINE, "slurm"),
]


@pytest.mark.parametrize(("ready", "style"), WAYS, ids=str)
def test_other_ways_to_be_ready(programs: Site, ready: dict[str, Any], style: str) -> None:
    shell = "sleep 1; touch there; exec python3 server.py {port} 0"
    launch = programs.launch(job(programs, server={"shell": shell, "ready": ready}, logs={"style": style}), wait=True)
    assert programs.outcome(launch)["success"], log_of(programs.run_dir(launch), launch["job_id"])


def test_roles_share_nodes_and_split_their_cpus(programs: Site) -> None:
    """Both roles are on the same nodes at the same time, each with CPUs and a meeting point of its own."""
    told = "$SLURMD_NODENAME $MASTER_PORT $SLURM_CPUS_ON_NODE"
    roles = {
        "server": {
            "nodes": 2,
            "share": True,
            "shell": f'echo "{told}" >server-$RANK; exec python3 server.py {{port}} 0',
            "ready": {"http": "/health"},
        },
        "client": {
            "nodes": 2,
            "shell": f'echo "{told}" >client-$RANK; [ $RANK = 1 ] || python3 client.py ask {" ".join(TOLD)}',
            "after_ready": ["server"],
        },
    }
    launch = programs.launch(of_roles(programs, roles, {"answers": {}}), wait=True)
    run = programs.run_dir(launch)
    assert programs.outcome(launch)["success"], log_of(run, launch["job_id"])
    started = read_json(run / "started.json")
    assert len(started["nodes"]) == 2
    assert [role["nodes"] for role in started["roles"]] == [started["nodes"]] * 2
    for rank, node in enumerate(started["nodes"]):
        rows = [(run / "work" / f"{role}-{rank}").read_text().split() for role in ("server", "client")]
        assert [(row[0], row[2]) for row in rows] == [(node, "1")] * 2, rows
        assert rows[0][1] != rows[1][1], rows
    nothing_left(programs, launch)


@pytest.mark.parametrize(
    ("policy", "code", "success"),
    [("done", 0, True), ("done", 3, False), ("ignore", 3, True), ("fail", 0, False)],
)
def test_what_follows_when_a_role_ends_before_the_one_that_decides(
    programs: Site, policy: str, code: int, success: bool
) -> None:
    """The deciding role runs until the end of the other one has been judged, or for ever where that ends the launch."""
    judged = "until grep -q 'role prepare ended' \"$RANKZERO_RUN_DIR\"/logs/job.*.log; do sleep 0.2; done"
    roles = {
        "prepare": {"shell": f"touch made; sleep 1; exit {code}", "ready": {"file": "made"}, "on_exit": policy},
        "client": {
            "shell": f"{judged}; {'' if success else 'sleep 3600; '}echo '{{}}' >result.json",
            "after_ready": ["prepare"],
        },
    }
    launch = programs.launch(of_roles(programs, roles, {}), wait=success)
    outcome = programs.outcome(launch)
    assert outcome["success"] is success, log_of(programs.run_dir(launch), launch["job_id"])
    if not success:
        assert f"role prepare ended with exit code {code}" in outcome["message"]
    nothing_left(programs, launch)


def test_a_server_that_ignores_its_end_is_killed(programs: Site) -> None:
    deaf = {"shell": "trap '' TERM; python3 server.py {port} 0", "ready": {"port": True}}
    launch = programs.launch(job(programs, server=deaf), wait=True)
    assert programs.outcome(launch)["success"], log_of(programs.run_dir(launch), launch["job_id"])
    nothing_left(programs, launch)


#: A launcher as torchrun is one: it names the rank itself, and the signals of its step are kept from it.
STARTED_BY_ANOTHER = {
    "per": "node",
    "command": ["env", "MY_RANK=0", "{rank}"],
    "ranks": {"RANK": "MY_RANK", "LOCAL_RANK": "MY_RANK", "NODE_RANK": "MY_RANK", "WORLD_SIZE": "RANKZERO_WORLD_SIZE",
              "LOCAL_WORLD_SIZE": "RANKZERO_RANKS_PER_NODE", "MASTER_ADDR": "RANKZERO_MASTER_ADDR",
              "MASTER_PORT": "RANKZERO_MASTER_PORT"},
}  # fmt: skip


@pytest.mark.parametrize("launcher", ["srun", "another"])
def test_the_signal_before_the_time_limit_is_for_the_deciding_role(programs: Site, launcher: str) -> None:
    """Sent as Slurm sends it before the limit: to the script alone."""
    wait = "touch begun-$RANKZERO_ROLE; while :; do sleep 0.2; done"
    roles = {
        "server": {
            "shell": f"trap 'touch server-saw-it' USR1; {wait}",
            "ready": {"file": "begun-server"},
            "launcher": {"kind": launcher},
        },
        "client": {"shell": f"trap 'sleep 2; echo {{}} >result.json; exit 0' USR1; {wait}", "after_ready": ["server"]},
    }
    made = of_roles(programs, roles, {}, checkpoint={"signal_before_end": 60, "signal": "USR1"})
    launch = programs.launch(made, launch_cluster={**programs.cluster, "launchers": {"another": STARTED_BY_ANOTHER}})
    run = programs.run_dir(launch)
    programs.wait_for(run / "work" / "begun-client")
    programs.lab.head(["scancel", "--batch", "--signal=USR2", launch["job_id"]])
    assert programs.outcome(launch)["success"], log_of(run, launch["job_id"])
    assert not (run / "work" / "server-saw-it").exists()
    nothing_left(programs, launch)
