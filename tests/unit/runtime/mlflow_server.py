# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tracking server as far as a launch asks one, over real HTTP. tests/cluster/test_trackers.py has MLflow's own."""

from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

Answer = tuple[int, dict[str, Any]]


class TrackingServer(http.server.ThreadingHTTPServer):
    """Keeps experiments and runs in memory. `faults`: what the next requests get instead of their answer."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        super().__init__((address, 0), Handler)
        self.experiments: dict[str, str] = {}
        self.runs: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.headers: list[str] = []
        #: Path -> what happens to its next requests: "lost" does what is asked and says nothing, "drip" sends a byte
        #: now and then until nobody listens, else an answer.
        self.faults: dict[str, list[Any]] = {}
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, *_given: Any) -> None:
        """A client that has gone is part of the tests."""

    def answer(self, path: str, given: dict[str, Any]) -> Answer:
        known: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "experiments/get-by-name": self._experiment,
            "experiments/create": self._create_experiment,
            "runs/search": self._search,
            "runs/create": self._create_run,
        }
        return known[path](given)

    def _experiment(self, given: dict[str, Any]) -> Answer:
        name = given["experiment_name"]
        if name not in self.experiments:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment"}
        return 200, {"experiment": {"experiment_id": self.experiments[name], "lifecycle_stage": "active"}}

    def _create_experiment(self, given: dict[str, Any]) -> Answer:
        if given["name"] in self.experiments:
            return 400, {"error_code": "RESOURCE_ALREADY_EXISTS", "message": "there is one"}
        self.experiments[given["name"]] = str(len(self.experiments) + 1)
        return 200, {"experiment_id": self.experiments[given["name"]]}

    def _search(self, given: dict[str, Any]) -> Answer:
        wanted = given["filter"].split("'")[1]
        rows = [run for run in self.runs if run["tags"].get("rankzero.run") == wanted]
        rows = [run for run in rows if run["experiment"] in given["experiment_ids"]]
        return 200, {"runs": [{"info": {"run_id": run["id"]}} for run in rows[: given["max_results"]]]}

    def _create_run(self, given: dict[str, Any]) -> Answer:
        tags = {tag["key"]: tag["value"] for tag in given["tags"]}
        made = {"id": f"{len(self.runs) + 1:032x}", "experiment": given["experiment_id"], "tags": tags}
        self.runs.append({**made, "name": given["run_name"]})
        return 200, {"run": {"info": {"run_id": made["id"]}}}


class Handler(http.server.BaseHTTPRequestHandler):
    server: TrackingServer

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        self._do(parts.path, dict(urllib.parse.parse_qsl(parts.query)))

    def do_POST(self) -> None:
        self._do(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def log_message(self, *_given: Any) -> None:
        """Silence."""

    def _do(self, place: str, given: dict[str, Any]) -> None:
        path = place.partition("/api/2.0/mlflow/")[2]
        self.server.requests.append(path)
        self.server.headers.append(self.headers.get("Authorization", ""))
        faults = self.server.faults.get(path) or []
        fault = faults.pop(0) if faults else None
        if fault == "lost":
            self.server.answer(path, given)
            self.close_connection = True
            return
        if fault == "drip":
            self._drip()
            return
        status, document = self.server.answer(path, given) if fault is None else fault
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        while True:
            # Raises once the client has gone.
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.2)
