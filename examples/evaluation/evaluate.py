"""Asks all servers to continue prompts, and writes down how much they have said."""

import argparse
import json
import os
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

TOKENS, TRIES, SECONDS = 24, 5, 30


def ask(server: str, prompt: str) -> list[str]:
    """The words with which a server continues a prompt; none if it does not answer. One that starts again has time."""
    body = json.dumps({"prompt": prompt, "tokens": TOKENS}).encode()
    for number in range(TRIES):
        try:
            with urllib.request.urlopen(f"{server}/generate", body, timeout=SECONDS) as answer:
                return json.load(answer)["tokens"]
        except OSError as error:
            print(f"{server}: {error} (try {number + 1} of {TRIES})", flush=True)
            time.sleep(2)
    return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", required=True)
    parser.add_argument("--servers", required=True, help="URLs with commas between them")
    given = parser.parse_args()
    servers = given.servers.split(",")
    with open(given.prompts, encoding="utf-8") as stream:
        prompts = stream.read().splitlines()
    begun = time.monotonic()
    with ThreadPoolExecutor(len(servers)) as pool:
        asked = [servers[number % len(servers)] for number in range(len(prompts))]
        answers = list(pool.map(ask, asked, prompts))
    for prompt, answer in zip(prompts, answers):
        print(f"{prompt} | {' '.join(answer)}", flush=True)
    result = {
        "prompts": len(prompts),
        "unanswered": sum(not answer for answer in answers),
        "tokens": sum(map(len, answers)),
        "seconds": round(time.monotonic() - begun, 3),
    }
    with open("result.json.tmp", "w", encoding="utf-8") as stream:
        json.dump(result, stream)
    os.replace("result.json.tmp", "result.json")


if __name__ == "__main__":
    main()
