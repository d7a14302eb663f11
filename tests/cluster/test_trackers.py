# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One launch is one run, with all steps, in MLflow (its own server), trackio and wandb's offline mode: rank 0 is
killed, the job is requeued, and a node dies, so that a spare one takes its place. Then wandb's folders are uploaded.
"""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import JOB_SECONDS, Site, rank_logs, read_json
from tests.repository import BIN, ROOT

# The packages are large: 700 MB.
pytestmark = pytest.mark.more

PACKAGES = ["mlflow", "trackio", "wandb"]
STEPS = 12
#: Where an attempt stops and waits: rank 0 is killed at the first step, its neighbour's node dies at the second.
KILLED, LOST = 4, 8
#: Bound of waiting for a step, in seconds: the imports of three trackers take long on a busy machine.
STEP_SECONDS = 2 * JOB_SECONDS
#: Rank 0 logs each step to all trackers, and saves every third one: the steps after it are repeated. wandb writes in
#: blocks of 32 kB, so each step has more than that. trackio sends from a thread, so a save waits until it has.
PROGRAM = f"""
import glob, json, os, sqlite3, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["RANKZERO_ATTEMPT"])
start = int(open("saved").read()) if os.path.exists("saved") else 0
if rank == 0:
    import mlflow, trackio, wandb
    mlflow.start_run()
    trackio.init(project="gpt", name=os.environ["RANKZERO_TRACKER_RUN"], resume="allow")
    wandb.init()
def sent(step):
    try:
        (path,) = glob.glob(os.environ["TRACKIO_DIR"] + "/*.db")
        return sqlite3.connect(path).execute("select max(step) >= ? from metrics", [step]).fetchone()[0]
    except (ValueError, sqlite3.Error):  # not there yet, or locked
        return False
print("resumed at step", start, "pid", os.getpid(), flush=True)
for step in range(start, {STEPS}):
    if rank == 0:
        loss = 1 / (1 + step)
        mlflow.log_metric("loss", loss, step=step)
        trackio.log({{"loss": loss}}, step=step)
        wandb.log({{"loss": loss, "text": "x" * 40000}}, step=step)
        if step % 3 == 0:
            while not sent(step):
                time.sleep(0.1)
            open("saved.tmp", "w").write(str(step))
            os.replace("saved.tmp", "saved")
    print("step", step, flush=True)
    while (attempt, step) in ((0, {KILLED}), (1, {LOST})):
        time.sleep(0.1)
        if rank == 0 and os.path.exists("broken"):
            raise SystemExit("connection reset by peer")
if rank == 0:
    wandb.finish(); trackio.finish(); mlflow.end_run()
    open("result.json.tmp", "w").write(json.dumps({{"steps": {STEPS}}}))
    os.replace("result.json.tmp", "result.json")
"""


class Servers:
    """Python programs on the lab's head, and what they need: an environment that the head and all nodes see."""

    def __init__(self, lab: LabCluster) -> None:
        self.lab = lab
        self.place, self.inside = lab.shared / "trackers", f"{lab.shared_inside}/trackers"
        self.python = f"{self.inside}/venv/bin/python"
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        uv = [str(BIN / "uv"), "--quiet"]
        subprocess.run([*uv, "venv", "--relocatable", "--python=/usr/bin/python3", self.place / "venv"], check=True)
        subprocess.run([*uv, "pip", "install", f"--python={self.place}/venv/bin/python", *PACKAGES], check=True)
        shown = lab.head(["scontrol", "show", "config"]).stdout
        host = next(line.partition("=")[2] for line in shown.splitlines() if line.startswith("SlurmctldHost"))
        self.host = host.strip().partition("(")[0]
        self.pids: list[str] = []

    def start(self, port: int, *words: str) -> str:
        """Start a program with its log, and wait until it listens; its address."""
        script = 'log=$1; shift; cd "${log%/*}" && setsid "$@" > "$log" 2>&1 < /dev/null & echo $!'
        log = f"{self.inside}/{port}.log"
        self.pids += self.lab.head(["sh", "-c", script, "sh", log, self.python, *words]).stdout.split()
        look = f"import socket; socket.create_connection(('{self.host}', {port}), 1)"
        self.lab.wait_until(
            lambda: self.lab.head([self.python, "-c", look], check=False).returncode == 0, JOB_SECONDS, log
        )
        return f"http://{self.host}:{port}"

    def close(self) -> None:
        for pid in self.pids:
            self.lab.head(["kill", "-KILL", "--", f"-{pid}"], check=False)
        shutil.rmtree(self.place, ignore_errors=True)


@pytest.fixture(scope="module")
def servers(lab: LabCluster) -> Iterator[Servers]:
    made = Servers(lab)
    yield made
    made.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def mlflow_server(servers: Servers) -> str:
    port, store = free_port(), f"sqlite:///{servers.inside}/mlflow.db"
    words = ["--host=0.0.0.0", f"--port={port}", f"--backend-store-uri={store}", "--workers=1", "--allowed-hosts=*"]
    return servers.start(port, "-m", "mlflow", "server", *words, f"--artifacts-destination={servers.inside}/artifacts")


def both_say(site: Site, run: Path, attempt: int, text: str) -> None:
    """Wait until both ranks of an attempt have said something."""
    site.lab.wait_until(
        lambda: sum(text in log for log in rank_logs(run, attempt).values()) == 2, STEP_SECONDS, f"{attempt}: {text}"
    )


def launched(site: Site, servers: Servers, mlflow: str, wandb: str) -> Mapping[str, Any]:
    """The launch to its end, through a killed rank, a requeue and a lost node."""
    trackers = {
        "mlflow": {"server": mlflow, "project": "gpt"}, "trackio": {},
        "wandb": {"offline": True, "server": wandb, "entity": "ml", "project": "gpt"},
    }  # fmt: skip
    job = site.job(
        ["python3", "-c", PROGRAM],
        artifact={"require": {"steps": {"eq": STEPS}}},
        checkpoint={"progress": "saved", "requeue": True},
        resources={"time": "00:10:00", "nodes": 2, "spares": 1},
        environment={"mode": "path", "path": f"{servers.inside}/venv"},
        trackers=trackers,
    )
    launch = site.launch(job)
    run, job_id = site.run_dir(launch), launch["job_id"]
    both_say(site, run, 0, f"step {KILLED}")
    log = next(run.glob("logs/0/rank-0000.log")).read_text()
    pid, first = log.split("pid ")[1].split()[0], read_json(run / "started.json")["nodes"][0]
    site.lab.node(first, ["kill", "-KILL", pid])
    assert site.ended(job_id) == "FAILED"
    site.lab.head(["scontrol", "requeue", job_id])
    both_say(site, run, 1, f"step {LOST}")
    lost = read_json(run / "started.json")["nodes"][1]
    site.lab.faults.power_off(lost)
    try:
        (run / "work" / "broken").touch()
        assert site.ended(job_id) == "COMPLETED"
    finally:
        site.lab.faults.power_on(lost)
    outcome = site.outcome(launch)
    assert (outcome["success"], outcome["attempt"]) == (True, 2) and lost not in read_json(run / "started.json")[
        "nodes"
    ]
    return {**launch, "trackers": {row["tracker"]: row for row in outcome["trackers"]}}


def steps_in_mlflow(servers: Servers, address: str) -> dict[str, Any]:
    """Run id -> (name, steps of the loss, tags) of all runs of the server, by its REST interface."""
    program = """
import json, sys, urllib.request
def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{sys.argv[1]}/api/2.0/mlflow/{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)
experiments = [each["experiment_id"] for each in ask("experiments/search", {"max_results": 100})["experiments"]]
found = {}
for run in ask("runs/search", {"experiment_ids": experiments}).get("runs", []):
    number = run["info"]["run_id"]
    values = ask(f"metrics/get-history?run_id={number}&metric_key=loss").get("metrics", [])
    tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
    found[number] = [run["info"]["run_name"], sorted({int(value.get("step", 0)) for value in values}), tags]
print(json.dumps(found))
"""
    done = servers.lab.head(["python3", "-c", program, address], timeout=300)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_launch_is_one_run_with_all_steps_in_each_tracker(site: Site, servers: Servers) -> None:
    if site.lab.way != "realistic":
        pytest.skip("a node dies as a whole only where it has namespaces of its own")
    mlflow, port, steps = mlflow_server(servers), free_port(), list(range(STEPS))
    program = servers.place / "wandb_server.py"
    shutil.copy(ROOT / "tests" / "cluster" / "wandb_server.py", program)
    wandb = servers.start(port, f"{servers.inside}/{program.name}", str(port), f"{servers.inside}/wandb.json")
    launch = launched(site, servers, mlflow, wandb)
    run = site.run_dir(launch)
    name = f"{run.parents[1].name}-{run.parent.name}-1"

    in_mlflow = steps_in_mlflow(servers, mlflow)
    ((run_id, (run_name, logged, tags)),) = in_mlflow.items()
    assert (run_name, logged, tags["rankzero.run"]) == (name, steps, name)
    assert launch["trackers"]["mlflow"]["place"] == f"{mlflow}/#/experiments/1/runs/{run_id}"

    page = site.folder / "report.html"
    for changed in (True, False):
        played = site.play(None, playbook="rankzero.slurm.report", launches=[launch["run_dir"]], dest=str(page))
        (reported,) = played.results("rankzero.slurm.report_page")
        assert reported["changed"] is changed, played.output
    assert f'href="{mlflow}/#/experiments/1/runs/{run_id}"' in page.read_text(encoding="utf-8")

    (database,) = (run / "trackio").glob("*.db")
    with sqlite3.connect(database) as connection:
        rows = connection.execute("select run_name, step from metrics").fetchall()
    assert {row[0] for row in rows} == {name} and sorted({row[1] for row in rows}) == steps

    key = Path(servers.place / "key")
    key.write_text("a" * 40)
    given = {"launches": [launch["run_dir"]], "api_key_file": f"{servers.inside}/key"}
    for changed in (True, False):
        played = site.play(None, playbook="rankzero.slurm.sync", **given)
        assert played.rc == 0, played.output
        (synced,) = played.results("rankzero.slurm.tracker_sync")
        assert synced["changed"] is changed and len(synced["folders"]) == 3, synced
    uploaded = read_json(servers.place / "wandb.json")
    # wandb numbers the steps that an attempt repeats anew.
    assert list(uploaded) == [name] and set(uploaded[name]) >= set(steps)
