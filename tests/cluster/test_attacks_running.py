# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""While a job of the victim's runs, a stranger on its nodes speaks to its ranks, and puts files beside its run."""

from __future__ import annotations

import contextlib
import json

from tests.cluster.attack import ATTACKER, ROOT, VICTIM, AttackLab
from tests.cluster.test_attacks_network import STRANGER, stranger

#: Rank 0 listens at MASTER_PORT as a rendezvous does, and answers who knows a word; all others ask it.
RENDEZVOUS = r"""
import os, socket, sys, threading, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
word = b"a member of the job\n"
if rank == 0:
    server, members = socket.create_server(place, backlog=512), threading.Semaphore(0)
    def serve(connection):
        with connection, connection.makefile("rb") as lines:
            connection.settimeout(5)
            try:
                if lines.readline(64) == word:
                    connection.sendall(b"go\n")
                    members.release()
            except OSError:
                pass
    def accept():
        while True:
            threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    for _member in range(world - 1):
        members.acquire()
    time.sleep(2)
else:
    while True:
        try:
            with socket.create_connection(place, timeout=2) as connection:
                connection.sendall(word)
                if connection.makefile("rb").readline() == b"go\n":
                    break
        except OSError:
            time.sleep(0.1)
print("rank", rank, "met the others", flush=True)
os._exit(0)
"""
#: Exchanges two names all the time, and says how often (renameat2 with RENAME_EXCHANGE).
EXCHANGE = r"""
import ctypes, os, sys, threading
library, over = ctypes.CDLL(None, use_errno=True), threading.Event()
one, other = map(os.fsencode, sys.argv[1:])
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("ready", flush=True)
times = 0
while not over.is_set():
    if library.renameat2(-100, one, -100, other, 2):
        sys.exit(os.strerror(ctypes.get_errno()))
    times += 1
print(times)
"""


def test_a_stranger_at_the_ports_of_running_ranks_changes_nothing_of_ours(attack_lab: AttackLab) -> None:
    """What listens at MASTER_PORT is the program's own. Everything else of the job that listens is ours or Slurm's."""
    (attack_lab.site.folder / "code" / "meet.py").write_text(RENDEZVOUS, encoding="utf-8")
    job = attack_lab.job(["python3", "meet.py"], resources={"nodes": 2}, launcher={"kind": "srun", "ranks_per_node": 2})
    with contextlib.ExitStack() as strangers:
        said = [
            strangers.enter_context(stranger(attack_lab, node, STRANGER, str(VICTIM.uid)))
            for node in attack_lab.lab.nodes
        ]
        launch = attack_lab.launch_as(VICTIM, job)
        outcome = attack_lab.outcome_of(launch)
    run = launch["run_dir"]
    logs = attack_lab.as_victim(["sh", "-c", f"cat {run}/logs/0/rank-*.log"]).stdout
    port = attack_lab.as_victim(["sh", "-c", f"sed 's/.*\"master_port\": *//;s/[^0-9].*//' {run}/started.json"]).stdout
    assert outcome["success"], logs
    assert sum(line.endswith("met the others") for line in logs.splitlines()) == 4, logs
    assert f"connected {port.strip()}" in [line for lines in said for line in lines], "nobody reached the rendezvous"
    assert not outcome.get("unfit_nodes") and outcome["attempt"] == 0


def test_a_folder_that_becomes_a_link_and_back_leads_nobody_elsewhere(attack_lab: AttackLab) -> None:
    """The attacker's logs and a link to what only root may read take turns, while root looks at his run."""
    site = attack_lab.site
    launch = attack_lab.launch_as(ATTACKER, attack_lab.job("echo words of the attacker"))
    assert attack_lab.outcome_of(launch)["success"]
    site.ended(launch["job_id"])
    private = attack_lab.shared_folder(0o700)
    attack_lab.write_as(ROOT, f"{private}/rank-0000.log", "RuntimeError: what only root may read\n", mode=0o600)
    logs = f"{launch['run_dir']}/logs"
    attack_lab.as_attacker(["ln", "-s", private, f"{logs}/link"])
    tasks = [
        {f"rankzero.slurm.{module}": {"run_dir": launch["run_dir"], **more}, "loop": [*range(6)], "ignore_errors": True}
        for module, more in (("job_logs", {"dest": f"{site.folder}/logs-{{{{ item }}}}"}), ("job_diagnosis", {}))
    ]
    play = site.folder / "look.yml"
    play.write_text(json.dumps([{"hosts": "slurm_login", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    calm = site.play(None, playbook=str(play), **attack_lab.connection(ROOT))
    assert any("words of the attacker" in path.read_text() for path in site.folder.glob("logs-*/**/*.log")), calm.output
    with stranger(attack_lab, attack_lab.lab.nodes[0], EXCHANGE, f"{logs}/0", f"{logs}/link") as said:
        played = site.play(None, playbook=str(play), **attack_lab.connection(ROOT))
    assert int(said[0]) > 100, "they took turns too seldom"
    # A look that finds the one where the other has just been is refused, so none of these need have succeeded.
    fetched = [path.read_text() for path in site.folder.glob("logs-*/**/*.log")]
    assert not [text for text in (*fetched, played.output, json.dumps(played.record)) if "only root may" in text]
