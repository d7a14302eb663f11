"""A language model as a server: it has counted which word of a text follows which two, and continues a prompt.

It stands for any server of a model: it reads its weights first, then answers /health, then POST /generate.
"""

import argparse
import json
import os
import random
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LONGEST = 64 << 10


def learn(path: str) -> dict[tuple[str, ...], list[str]]:
    """The words that follow each one and each two words of a text."""
    with open(path, encoding="utf-8") as stream:
        words = stream.read().split()
    follow = defaultdict(list)
    for place in range(1, len(words)):
        for count in (1, 2):
            if place >= count:
                follow[tuple(words[place - count : place])].append(words[place])
    return follow


def continued(follow: dict[tuple[str, ...], list[str]], prompt: str, most: int) -> list[str]:
    """Up to `most` words after a prompt, the same for the same prompt."""
    draw, words, made = random.Random(prompt), prompt.split(), []
    while len(made) < most:
        known = follow.get(tuple(words[-2:])) or follow.get(tuple(words[-1:]))
        if not known:
            break
        made.append(draw.choice(known))
        words.append(made[-1])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    follow = learn(given.text)

    class Page(BaseHTTPRequestHandler):
        def answer(self, status: int, **values: object) -> None:
            body = json.dumps(values).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.answer(200 if self.path == "/health" else 404)

        def do_POST(self) -> None:
            size = min(int(self.headers["Content-Length"]), LONGEST)
            asked = json.loads(self.rfile.read(size))
            self.answer(200, tokens=continued(follow, asked["prompt"], asked["tokens"]))

    print(f"rank {os.environ['RANK']}: {len(follow)} contexts, port {given.port}", flush=True)
    ThreadingHTTPServer(("", given.port), Page).serve_forever()


if __name__ == "__main__":
    main()
