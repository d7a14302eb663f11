# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the run of a launch in MLflow by its tag, or creates it.

    mlflow_run.py RUN_DIR SECONDS

Prints one line of JSON: run_id, experiment_id and, for a server, url. Exits 1 with a sentence where that fails. The
server's address and credentials come from MLFLOW_TRACKING_* in the environment or among the run's secrets. A server is
asked by REST. Any other address (a folder, a database) is left to the mlflow of the job's own Python.

A reply that is lost makes no second run: each attempt looks for the tag before it creates. Standard library only.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import ssl
import stat
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from core import children  # noqa: E402

TAG = "rankzero.run"
# Not a path, an option or anything else that a variable or an address could be misread for.
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
# How long (seconds) one request may take, and the longest pause between two tries.
REQUEST_SECONDS, LONGEST_PAUSE = 20.0, 10.0
MOST_BYTES, MOST_SECRETS = 1 << 20, 1 << 20
# What MLflow calls an experiment that is not named, and its id.
DEFAULT_EXPERIMENT = "Default"
# The same as below, by the package: for a folder or a database.
CLIENT = """
import json, sys
from mlflow import MlflowClient
asked = json.load(sys.stdin)
client = MlflowClient()
experiment = client.get_experiment_by_name(asked["experiment"])
number = experiment.experiment_id if experiment else client.create_experiment(asked["experiment"])
there = client.search_runs([number], asked["filter"], max_results=1, order_by=["attributes.start_time ASC"])
run = there[0] if there else client.create_run(number, tags=asked["tags"], run_name=asked["name"])
print("\\n" + json.dumps({"run_id": run.info.run_id, "experiment_id": number}))
"""


class Failed(Exception):
    """A sentence for people. `again`: whether the same request may succeed later."""

    def __init__(self, text: str, again: bool = False) -> None:
        super().__init__(text)
        self.again = again


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials go to the address that the job names, and to no other."""

    def redirect_request(self, *_given: Any) -> None:
        return None


def settings(run_dir: str) -> dict[str, str]:
    """The environment, and MLflow's variables among the secrets that the job has asked for."""
    values = dict(os.environ)
    asked = [name for name in values.get("RANKZERO_SECRETS", "").split(",") if name.startswith("MLFLOW_")]
    if not asked:
        return values
    descriptor = os.open(os.path.join(run_dir, "secrets.env"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise Failed("secrets.env is not read: it must be a file of this user with mode 600, and no link")
        for line in stream.read(MOST_SECRETS).splitlines():
            name, equals, value = line.partition(b"=")
            if equals and name.decode("ascii", "replace") in asked:
                values[name.decode("ascii")] = base64.b64decode(value).decode("utf-8", "surrogateescape")
    return values


def tags_of(values: Mapping[str, str]) -> dict[str, str]:
    """The tags of the run: what it belongs to, the key and the generation."""
    tags = {TAG: run_name(values), "rankzero.launch": values["RANKZERO_TRACKER_GROUP"]}
    tags["rankzero.key"], tags["rankzero.generation"] = values["RANKZERO_KEY"], values["RANKZERO_GENERATION"]
    # MLflow shows these two by itself.
    tags["mlflow.runName"] = run_name(values)
    if values.get("RANKZERO_TRACKER_COMMIT"):
        tags["mlflow.source.git.commit"] = values["RANKZERO_TRACKER_COMMIT"]
    return tags


def run_name(values: Mapping[str, str]) -> str:
    """A script that is submitted by hand is another generation than the one that was rendered."""
    return "{RANKZERO_TRACKER_GROUP}-{RANKZERO_GENERATION}".format(**values)


def search_filter(values: Mapping[str, str]) -> str:
    return f"tags.`{TAG}` = '{run_name(values)}'"


class Server:
    """A tracking server with its REST interface."""

    def __init__(self, address: str, values: Mapping[str, str]) -> None:
        parts = urllib.parse.urlsplit(address)
        host = parts.hostname or ""
        shown = f"[{host}]" if ":" in host else host
        try:
            port = parts.port
        except ValueError:
            raise Failed("MLFLOW_TRACKING_URI has a port that is no number") from None
        self.address = f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
        self.header = self._authorization(parts, values)
        context = ssl.create_default_context(cafile=values.get("MLFLOW_TRACKING_SERVER_CERT_PATH") or None)
        if values.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if values.get("MLFLOW_TRACKING_CLIENT_CERT_PATH"):
            context.load_cert_chain(values["MLFLOW_TRACKING_CLIENT_CERT_PATH"])
        self.opener = urllib.request.build_opener(NoRedirect, urllib.request.HTTPSHandler(context=context))

    @staticmethod
    def _authorization(parts: urllib.parse.SplitResult, values: Mapping[str, str]) -> dict[str, str]:
        user, password = values.get("MLFLOW_TRACKING_USERNAME", ""), values.get("MLFLOW_TRACKING_PASSWORD", "")
        if parts.username:
            user, password = urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")
        if user:
            pair = f"{user}:{password}".encode("utf-8", "surrogateescape")
            return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
        token = values.get("MLFLOW_TRACKING_TOKEN", "")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def request(self, path: str, body: object = None, **query: str) -> dict[str, Any] | None:
        """The answer to a request; None where the server says that it does not exist."""
        place = f"{self.address}/api/2.0/mlflow/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self.header}
        try:
            request = urllib.request.Request(place, data=data, headers=headers)
            with self.opener.open(request, timeout=REQUEST_SECONDS) as answer:
                document = json.loads(answer.read(MOST_BYTES))
        except urllib.error.HTTPError as error:
            return self._refused(path, error)
        except urllib.error.URLError as error:
            raise Failed(f"{self.address} does not answer: {error.reason}", again=True) from None
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"{self.address} does not answer: {str(error) or type(error).__name__}", again=True) from None
        except (ValueError, RecursionError):
            raise Failed(f"{self.address} does not answer as an MLflow server does") from None
        if not isinstance(document, dict):
            raise Failed(f"{self.address} does not answer as an MLflow server does")
        return document

    def _refused(self, path: str, error: urllib.error.HTTPError) -> dict[str, Any] | None:
        with error:
            try:
                document = json.loads(error.read(MOST_BYTES))
            except (ValueError, RecursionError, OSError, http.client.HTTPException):
                document = None
        told = document if isinstance(document, dict) else {}
        code, text = str(told.get("error_code", "")), str(told.get("message", ""))
        if code == "RESOURCE_DOES_NOT_EXIST":
            return None
        if code == "RESOURCE_ALREADY_EXISTS" and path == "experiments/create":
            return {}
        if 300 <= error.code < 400:
            raise Failed(f"{self.address} points to another address: name that one")
        why = " ".join(word for word in (f"HTTP {error.code}", code, " ".join(text.split())[:300]) if word)
        raise Failed(f"{self.address} refuses {path}: {why}", again=error.code >= 500 or error.code in (408, 429))

    def experiment(self, name: str) -> str:
        """The id of an experiment, which is created where there is none. Another launch may do the same meanwhile."""
        if name == DEFAULT_EXPERIMENT:
            return "0"
        for _twice in range(2):
            answer = self.request("experiments/get-by-name", experiment_name=name)
            if answer is None:
                self.request("experiments/create", {"name": name})
                continue
            experiment = answer.get("experiment") or {}
            if experiment.get("lifecycle_stage") == "deleted":
                raise Failed(f"{self.address}: the experiment {name} was deleted; restore it, or name another one")
            return identifier(experiment.get("experiment_id"), self.address)
        raise Failed(f"{self.address} has created the experiment {name}, and does not find it", again=True)

    def run(self, values: Mapping[str, str], experiment: str) -> str:
        """The id of the run with the launch's tag: the oldest one, else a new one."""
        search = {
            "experiment_ids": [experiment], "filter": search_filter(values), "max_results": 1,
            "order_by": ["attributes.start_time ASC"],
        }  # fmt: skip
        there = (self.request("runs/search", search) or {}).get("runs") or []
        if not there:
            there = [(self.request("runs/create", self._new(values, experiment)) or {}).get("run") or {}]
        return identifier((there[0].get("info") or {}).get("run_id"), self.address)

    def _new(self, values: Mapping[str, str], experiment: str) -> dict[str, object]:
        tags = [{"key": key, "value": value} for key, value in tags_of(values).items()]
        named = {"experiment_id": experiment, "run_name": run_name(values), "tags": tags}
        return {**named, "start_time": int(1000 * time.time()), "user_id": values.get("USER", "")}


def identifier(value: object, place: str) -> str:
    """An id as a server gives it, which becomes part of a variable and of an address."""
    if not isinstance(value, str) or not IDENTIFIER.fullmatch(value):
        raise Failed(f"{place} does not answer as an MLflow server does: {str(value)[:80]!r} is no id")
    return value


def by_rest(address: str, values: Mapping[str, str]) -> dict[str, str]:
    server = Server(address, values)
    try:
        experiment = server.experiment(values.get("MLFLOW_EXPERIMENT_NAME") or DEFAULT_EXPERIMENT)
        run = server.run(values, experiment)
    except (AttributeError, KeyError, IndexError, TypeError):
        # A list or a number where MLflow has a map.
        raise Failed(f"{server.address} does not answer as an MLflow server does") from None
    url = f"{server.address}/#/experiments/{experiment}/runs/{run}"
    return {"run_id": run, "experiment_id": experiment, "url": url}


def by_package(run_dir: str, values: Mapping[str, str], seconds: float) -> dict[str, str]:
    """The same by the mlflow of the job's own Python, where the ranks would look: a path may be relative."""
    python = values.get("RANKZERO_PYTHON") or "python3"
    asked = {
        "experiment": values.get("MLFLOW_EXPERIMENT_NAME") or DEFAULT_EXPERIMENT, "name": run_name(values),
        "tags": tags_of(values), "filter": search_filter(values),
    }  # fmt: skip
    try:
        words, work = [python, "-c", CLIENT], os.path.join(run_dir, "work")
        done = children.run(words, values, seconds, stdin=json.dumps(asked).encode(), cwd=work)
    except TimeoutError:
        raise Failed(f"the mlflow of {python} did not answer within {seconds:.0f} s") from None
    if done.returncode != 0:
        raise Failed(f"the mlflow of {python} has created no run: {done.complaint[:300]}")
    made = json.loads(done.stdout.strip().splitlines()[-1])
    return {name: identifier(str(made[name]), python) for name in ("run_id", "experiment_id")}


def find_or_create(run_dir: str, seconds: float) -> dict[str, str]:
    values = settings(run_dir)
    address = values.get("MLFLOW_TRACKING_URI", "")
    if not address:
        raise Failed("no server is named: set trackers.mlflow.server, or MLFLOW_TRACKING_URI in env or secrets")
    until = time.monotonic() + seconds
    if not address.lower().startswith(("http://", "https://")):
        return by_package(run_dir, values, seconds)
    pause = 0.25
    while True:
        try:
            return by_rest(address, values)
        except Failed as error:
            if not error.again or time.monotonic() + pause > until:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def end_after(seconds: float) -> None:
    """End all requests together after this time: a server may send a byte now and then for ever."""

    def stop(_number: int, _frame: object) -> None:
        raise Failed(f"MLflow did not answer within {seconds:.0f} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    try:
        end_after(float(sys.argv[2]))
        print(json.dumps(find_or_create(sys.argv[1], float(sys.argv[2]))))
    except (Failed, OSError, ValueError) as error:
        print(f"{error}", file=sys.stderr)
        sys.exit(1)
