"""Counts the words of texts, with many workers that take the next text from a database until none is left."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import redis

# The database may start again meanwhile.
PATIENCE_SECONDS = 60


def ask(database: redis.Redis, *words: object) -> Any:
    """What the database answers to a command, asked again while it is not there. It may have carried out one whose
    answer is lost, so none may do harm when it comes twice.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return database.execute_command(*words)
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--database", required=True, help="host:port")
    given = parser.parse_args()
    host, _colon, port = given.database.rpartition(":")
    password = Path("database/password").read_text(encoding="ascii")
    database = redis.Redis(host, int(port), password=password, decode_responses=True, socket_timeout=5)
    texts, rank = given.texts.read_text(encoding="utf-8").splitlines(), os.environ["RANK"]
    # Taken anew in each attempt of the job: what one took and did not finish is taken again.
    taken = f"taken-{os.environ['RANKZERO_ATTEMPT']}"
    for number, text in enumerate(texts):
        ask(database, "HSETNX", taken, number, rank)
        if ask(database, "HGET", taken, number) == rank and not ask(database, "HEXISTS", "words", number):
            time.sleep(0.05)  # as if it were work
            ask(database, "HSET", "words", number, len(text.split()))
            ask(database, "HSET", "counted", rank, 1)
    if rank != "0":
        return
    until = time.monotonic() + PATIENCE_SECONDS
    while ask(database, "HLEN", "words") < len(texts) and time.monotonic() < until:
        time.sleep(0.1)
    words, workers = ask(database, "HVALS", "words"), ask(database, "HLEN", "counted")
    result = {"missing": len(texts) - len(words), "words": sum(map(int, words)), "workers": workers}
    print(result, flush=True)
    with open("result.json.tmp", "w", encoding="utf-8") as stream:
        json.dump(result, stream)
    os.replace("result.json.tmp", "result.json")


if __name__ == "__main__":
    main()
