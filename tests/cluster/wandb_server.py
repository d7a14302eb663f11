# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for the server of Weights & Biases, as far as `wandb sync` (release 0.31) asks one: runs and their history.

wandb_server.py PORT FILE    writes {run: [step, ...]} to FILE after each request
"""

import http.server
import json
import sys

PORT, FILE = int(sys.argv[1]), sys.argv[2]
HISTORY = {}


def answer(query, given):
    """The data for a GraphQL request."""
    name = given.get("name") or "run"
    project = {"id": "UA==", "name": "gpt", "entity": {"id": "RQ==", "name": "ml"}}
    if "createRunFiles" in query:
        files = [{"name": file, "uploadUrl": f"http://127.0.0.1:{PORT}/upload/{file}"} for file in given["files"]]
        return {"createRunFiles": {"runID": "UQ==", "uploadHeaders": [], "files": files}}
    if "RunResumeStatus" in query:
        rows = HISTORY.get(name)
        known = {
            "id": "UQ==", "name": name, "displayName": name, "summaryMetrics": "{}", "config": "{}", "tags": [],
            "logLineCount": 0, "eventsLineCount": 0, "eventsTail": "[]", "wandbConfig": '{"t": 1}',
            "historyLineCount": len(rows or ()), "historyTail": json.dumps((rows or [])[-1:]),
        }  # fmt: skip
        return {"model": {**project, "bucket": known if rows else None}}
    if "upsertBucket" in query:
        bucket = {"id": "UQ==", "name": name, "displayName": name, "config": "{}", "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": name not in HISTORY}}
    if "viewer" in query:
        return {"viewer": {"id": "Vg==", "entity": "ml", "flags": "{}", "teams": {"edges": []}}}
    return {"serverInfo": {"features": [], "cliVersionInfo": "{}"}, "__type": {"fields": []}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        document = {}
        if self.path.endswith("/graphql"):
            asked = json.loads(body)
            document = {"data": answer(asked["query"], asked.get("variables") or {})}
        elif self.path.endswith("/file_stream"):
            sent = json.loads(body).get("files", {}).get("wandb-history.jsonl")
            if sent:
                rows = HISTORY.setdefault(self.path.split("/")[-2], [])
                rows[sent["offset"] :] = sent["content"]
        with open(FILE, "w", encoding="utf-8") as stream:
            json.dump({run: [json.loads(row)["_step"] for row in rows] for run, rows in HISTORY.items()}, stream)
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_any

    def log_message(self, *_given):
        """Silence."""


http.server.ThreadingHTTPServer(("0.0.0.0", PORT), Handler).serve_forever()
