"""A rollout server: takes weights, and continues prompts with them.

GET /health                       200 once it can take weights; GET /version: which it has
PUT /weights/VERSION              the weights of the policy
POST /generate/VERSION            {"prompts": [...], "length": N} -> {"tokens": [[...], ...]}; 409 with other weights
"""

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

import policy
import torch

LONGEST = 4 << 20


class Rollout(HTTPServer):
    """One request after the other: the policy never changes while it generates."""

    def __init__(self, port: int) -> None:
        super().__init__(("", port), Request)
        self.policy, self.version = policy.Policy(), ""


class Request(BaseHTTPRequestHandler):
    server: Rollout

    def answer(self, status: int, **values: object) -> None:
        body = json.dumps(values).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(min(int(self.headers["Content-Length"]), LONGEST))

    def do_GET(self) -> None:
        self.answer(200 if self.path in ("/health", "/version") else 404, version=self.server.version)

    def do_PUT(self) -> None:
        policy.load_bytes(self.server.policy, self.body())
        self.server.version = self.path.rpartition("/")[2]
        self.answer(200)

    def do_POST(self) -> None:
        asked = json.loads(self.body())
        if self.path != f"/generate/{self.server.version}":
            self.answer(409)
            return
        prompts = torch.tensor(asked["prompts"])[:, None]
        self.answer(200, tokens=policy.generate(self.server.policy, prompts, asked["length"]).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ["RANKZERO_SEED"]) + int(os.environ["RANK"]))
    print(f"server {os.environ['RANK']} on port {given.port}", flush=True)
    Rollout(given.port).serve_forever()


if __name__ == "__main__":
    main()
