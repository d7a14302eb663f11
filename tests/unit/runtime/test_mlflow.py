# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch creates one run in MLflow, whatever happens to its attempts, its requests or its server."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.harness import Job, Site, runtime_parts
from tests.unit.runtime.mlflow_server import TrackingServer

GROUP = "gpt-0123456789abcdef"
PASSWORD = "correct-horse"  # noqa: S105


@pytest.fixture
def server() -> Iterator[TrackingServer]:
    made = TrackingServer()
    yield made
    made.close()


def tracked(site: Site, server: TrackingServer, **more: Any) -> Job:
    return site.job({"trackers": {"mlflow": {"server": server.url, "project": "gpt"}}}, **more)


def test_all_attempts_and_a_script_by_hand(site: Site, server: TrackingServer) -> None:
    """A requeue has the run of the first attempt, even where the server is gone. Another generation has its own."""
    job = tracked(site, server)
    assert job.finish() == 0, job.log()
    (run,) = server.runs
    assert job.seen()["env"]["MLFLOW_RUN_ID"] == run["id"]
    key = job.plan.key
    assert run["name"] == run["tags"]["rankzero.run"] == f"job-{key[:16]}-1" and run["experiment"] == "1"
    assert (run["tags"]["rankzero.key"], run["tags"]["rankzero.generation"]) == (key, "1")
    recorded = json.loads((job.run / "mlflow.json").read_text())
    assert recorded["url"] == f"{server.url}/#/experiments/1/runs/{run['id']}" and recorded["url"] in job.log()
    (job.run / "outcome.json").unlink()
    asked = len(server.requests)
    assert job.finish(attempt=1) == 0, job.log()
    assert job.seen()["env"]["RANKZERO_ATTEMPT"] == "1" and job.seen()["env"]["MLFLOW_RUN_ID"] == run["id"]
    assert len(server.requests) == asked
    assert job.finish(job_id=2, by_hand=True) == 0, job.log(2)
    assert [each["name"] for each in server.runs] == [f"job-{key[:16]}-1", f"job-{key[:16]}-2"]
    seen = json.loads((job.run.parent / "2" / "seen-0.json").read_text())
    assert seen["env"]["MLFLOW_RUN_ID"] == server.runs[1]["id"]


def test_an_attempt_that_was_killed_before_it_recorded_the_run(site: Site, server: TrackingServer) -> None:
    job = tracked(site, server)
    assert job.finish() == 0, job.log()
    for name in ("mlflow.json", "outcome.json"):
        (job.run / name).unlink()
    assert job.finish(attempt=1) == 0, job.log()
    assert len(server.runs) == 1 and job.seen()["env"]["MLFLOW_RUN_ID"] == server.runs[0]["id"]


def test_a_password_is_sent_and_shown_nowhere(site: Site, server: TrackingServer) -> None:
    address = server.url.replace("http://", f"http://ada:{PASSWORD}@")
    job = site.job({"trackers": {"mlflow": {}}}, secrets={"MLFLOW_TRACKING_URI": address})
    assert job.finish() == 0, job.log()
    assert set(server.headers) == {"Basic " + base64.b64encode(f"ada:{PASSWORD}".encode()).decode()}
    kept = [path for path in job.run.rglob("*") if path.is_file() and not path.name.startswith("seen-")]
    assert PASSWORD not in "".join(path.read_text(errors="replace") for path in kept)
    assert json.loads((job.run / "mlflow.json").read_text())["url"].startswith(server.url)


def test_a_server_that_refuses_ends_the_job_before_its_ranks(site: Site, server: TrackingServer) -> None:
    server.faults["runs/create"] = [(403, {"error_code": "PERMISSION_DENIED", "message": "not yours"})]
    job = tracked(site, server)
    assert job.finish() == 69
    told = job.outcome()["message"]
    assert told.startswith("trackers.mlflow: ") and "runs/create: HTTP 403 PERMISSION_DENIED not yours" in told
    assert not list(job.run.glob("seen-*.json")) and not (job.run / "mlflow.json").exists()


def test_a_run_that_the_job_names_is_left_alone(site: Site, server: TrackingServer) -> None:
    job = site.job({"trackers": {"mlflow": {"server": server.url}}, "env": {"MLFLOW_RUN_ID": "mine"}})
    assert job.finish() == 0, job.log()
    assert job.seen()["env"]["MLFLOW_RUN_ID"] == "mine" and server.requests == []


def asked(tmp_path: Path, address: str, seconds: float = 10.0, **more: str) -> subprocess.CompletedProcess[str]:
    """The program alone."""
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME

    (tmp_path / "work").mkdir(exist_ok=True)
    environment = {
        "MLFLOW_TRACKING_URI": address, "MLFLOW_EXPERIMENT_NAME": "gpt", "RANKZERO_TRACKER_GROUP": GROUP,
        "RANKZERO_KEY": "0123456789abcdef" * 4, "RANKZERO_GENERATION": "2", "PATH": "/usr/bin:/bin", **more,
    }  # fmt: skip
    words = [sys.executable, "-I", "-S", f"{RUNTIME}/start/mlflow_run.py", str(tmp_path), str(seconds)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_reply_that_is_lost_makes_no_second_run(server: TrackingServer, tmp_path: Path) -> None:
    server.faults.update({"runs/create": ["lost"], "experiments/create": ["lost"], "runs/search": [(503, {})]})
    done = asked(tmp_path, server.url, RANKZERO_TRACKER_COMMIT="c" * 40)
    assert done.returncode == 0, done.stderr
    assert len(server.runs) == 1 and len(server.experiments) == 1
    assert json.loads(done.stdout)["run_id"] == server.runs[0]["id"]
    assert server.runs[0]["tags"]["mlflow.source.git.commit"] == "c" * 40


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, b"<html>"), "does not answer as an MLflow server does"),
        ((200, b"[]"), "does not answer as an MLflow server does"),
        ((200, b"[" * 100_000), "does not answer as an MLflow server does"),
        ((200, b'{"a": ' * 100_000), "does not answer as an MLflow server does"),
        ((200, {"run": 7}), "does not answer as an MLflow server does"),
        ((200, {"run": {"info": [1]}}), "does not answer as an MLflow server does"),
        ((200, {"run": [{"info": {}}]}), "does not answer as an MLflow server does"),
        ((200, {"run": {"info": {"run_id": "x; touch /tmp/x"}}}), "is no id"),
        ((200, {"run": {}}), "is no id"),
        ((302, {}), "points to another address"),
        ((401, b""), "runs/create: HTTP 401"),
        ((401, b"[1]"), "runs/create: HTTP 401"),
        ((401, b"7"), "runs/create: HTTP 401"),
        ((401, {"error_code": [1], "message": {"a": 2}}), "runs/create: HTTP 401"),
    ],
)
def test_answers_that_are_none(server: TrackingServer, tmp_path: Path, answer: Any, message: str) -> None:
    refused_in_a_sentence(server, tmp_path, "runs/create", answer, message)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("runs/search", {"runs": 7}),
        ("runs/search", {"runs": {"a": 1}}),
        ("runs/search", {"runs": [7]}),
        ("runs/search", {"runs": [{"info": "x"}]}),
        ("runs/search", {"runs": [{"info": {"run_id": 7}}]}),
        ("experiments/get-by-name", {"experiment": [1]}),
        ("experiments/get-by-name", {"experiment": {"experiment_id": ["1"]}}),
        ("experiments/get-by-name", {"experiment": {"experiment_id": "../x"}}),
    ],
)
def test_other_types_than_those_of_mlflow(server: TrackingServer, tmp_path: Path, path: str, answer: Any) -> None:
    refused_in_a_sentence(server, tmp_path, path, (200, answer), "does not answer as an MLflow server does")
    assert server.runs == []


def refused_in_a_sentence(server: TrackingServer, tmp_path: Path, path: str, answer: Any, message: str) -> None:
    server.faults[path] = [answer]
    done = asked(tmp_path, server.url, MLFLOW_TRACKING_TOKEN=PASSWORD)
    assert done.returncode == 1 and done.stdout == "" and message in done.stderr and PASSWORD not in done.stderr
    assert set(server.headers) == {f"Bearer {PASSWORD}"} and len(done.stderr.splitlines()) == 1


def test_a_server_that_never_ends_its_answer_holds_the_job_for_a_limited_time(
    server: TrackingServer, tmp_path: Path
) -> None:
    """Each byte is in time, and all together would take for ever."""
    server.faults["runs/create"] = ["drip"]
    done = asked(tmp_path, server.url, seconds=2.0)
    assert done.returncode == 1 and "did not answer within 2 s" in done.stderr and len(done.stderr.splitlines()) == 1


def test_addresses_without_a_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = asked(tmp_path, f"http://ada:{PASSWORD}@127.0.0.1:{port}", seconds=0)
    assert done.returncode == 1 and f"http://127.0.0.1:{port} does not answer" in done.stderr
    assert PASSWORD not in done.stderr
    for address, message in (("http://host:port", "a port that is no number"), ("", "set trackers.mlflow.server")):
        done = asked(tmp_path, address)
        assert done.returncode == 1 and message in done.stderr


def a_package(folder: Path) -> None:
    """A package `mlflow` that keeps its runs in a file, as far as the program calls the real one."""
    (folder / "mlflow.py").write_text(
        "import json, os, types\n"
        "class MlflowClient:\n"
        "    path = os.environ['MLFLOW_TRACKING_URI']\n"
        "    def get_experiment_by_name(self, name): return None if name == 'new' else self.it(experiment_id='7')\n"
        "    def create_experiment(self, name): return '8'\n"
        "    def it(self, **values): return types.SimpleNamespace(**values)\n"
        "    def runs(self): return json.load(open(self.path)) if os.path.exists(self.path) else []\n"
        "    def search_runs(self, ids, text, max_results, order_by):\n"
        "        return [self.it(info=self.it(run_id=r['id'])) for r in self.runs() if r['name'] in text][:1]\n"
        "    def create_run(self, number, tags, run_name):\n"
        "        made = {'id': f'r{number}', 'name': run_name, 'tags': tags, 'cwd': os.getcwd()}\n"
        "        json.dump([*self.runs(), made], open(self.path, 'w'))\n"
        "        print('a warning'); return self.it(info=self.it(run_id=made['id']))\n",
        encoding="utf-8",
    )


def test_a_folder_is_left_to_the_jobs_own_package(tmp_path: Path) -> None:
    runs = tmp_path / "runs.json"
    more = {"RANKZERO_PYTHON": sys.executable, "PYTHONPATH": str(tmp_path)}
    done = asked(tmp_path, str(runs), **more)
    assert done.returncode == 1 and f"the mlflow of {sys.executable} has created no run" in done.stderr
    a_package(tmp_path)
    for _twice in range(2):
        done = asked(tmp_path, str(runs), **more)
        assert json.loads(done.stdout) == {"run_id": "r7", "experiment_id": "7"}, done.stderr
    (run,) = json.loads(runs.read_text())
    assert run["name"] == f"{GROUP}-2" and run["cwd"] == str(tmp_path / "work")
    assert json.loads(asked(tmp_path, str(runs), **more, MLFLOW_EXPERIMENT_NAME="new").stdout)["run_id"] == "r7"


def test_secrets_that_others_can_read_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = tmp_path / "secrets.env"
    secrets.write_text(f"MLFLOW_TRACKING_TOKEN={base64.b64encode(PASSWORD.encode()).decode()}\nOTHER=eA==\n")
    monkeypatch.setenv("RANKZERO_SECRETS", "MLFLOW_TRACKING_TOKEN,OTHER")
    with runtime_parts("start.mlflow_run") as program:
        secrets.chmod(0o600)
        values = program.settings(str(tmp_path))
        assert values["MLFLOW_TRACKING_TOKEN"] == PASSWORD and "OTHER" not in values
        secrets.chmod(0o640)
        with pytest.raises(program.Failed, match="mode 600"):
            program.settings(str(tmp_path))


def test_where_the_runs_are_found_is_in_the_log_and_the_verdict(site: Site, server: TrackingServer) -> None:
    trackers = {
        "wandb": {"project": "a b", "entity": "ml", "server": "https://wandb.example.org"}, "tensorboard": {},
        "trackio": {}, "mlflow": {"server": server.url},
    }  # fmt: skip
    job = site.job({"trackers": trackers})
    assert job.finish() == 0, job.log()
    run, rows = f"job-{job.plan.key[:16]}-1", job.outcome()["trackers"]
    assert [(row["tracker"], row["run"]) for row in rows] == [
        ("wandb", run), ("mlflow", server.runs[0]["id"]), ("tensorboard", run), ("trackio", run),
    ]  # fmt: skip
    assert [row["place"] for row in rows] == [
        f"https://wandb.example.org/ml/a%20b/runs/{run}", f"{server.url}/#/experiments/0/runs/{server.runs[0]['id']}",
        f"{job.run}/tensorboard", f"{job.run}/trackio",
    ]  # fmt: skip
    assert rows == json.loads((job.run / "trackers.json").read_text())
    assert all(row["place"] in job.log() for row in rows)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:hidden@host:8443/a b/", "https://host:8443/a%20b"),
        ("http://[::1]:5000", "http://[::1]:5000"),
        ("javascript:alert(1)", ""),
        ("https://host:x", ""),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_credentials(address: str, shown: str) -> None:
    with runtime_parts("start.tracker") as tracker:
        assert tracker._server(address) == shown
