"""Every rank says which node and which GPU it has; rank 0 checks the map. Your training goes in the middle.

Only the standard library: it runs in any image. The ranks meet in the run's own folder, not over the network.
"""

import argparse
import json
import os
import socket
import sys
import time
from pathlib import Path


def place() -> "dict[str, object]":
    """This rank, its node, and the GPU that its LOCAL_RANK names among those that it sees."""
    visible = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    local = int(os.environ["LOCAL_RANK"])
    return {
        "rank": int(os.environ["RANK"]),
        "local_rank": local,
        "node_rank": int(os.environ["NODE_RANK"]),
        "world_size": int(os.environ["WORLD_SIZE"]),
        "host": socket.gethostname(),
        "gpus_visible": len(visible),
        "gpu": visible[local] if local < len(visible) else None,
    }


def proven(places: "list[dict]", per_node: int) -> bool:
    """One rank a GPU, every GPU once, ranks in the order of nodes."""
    ranks = [one["rank"] for one in places]
    pairs = {(one["host"], one["gpu"]) for one in places}
    ordered = all(one["rank"] == one["node_rank"] * per_node + one["local_rank"] for one in places)
    whole = all(one["gpu"] is not None and one["gpus_visible"] == per_node for one in places)
    return ranks == list(range(len(places))) and len(pairs) == len(places) and ordered and whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--patience", type=float, default=120.0, help="seconds that rank 0 waits for the others")
    options = parser.parse_args()
    mine = place()
    print("rank {rank} of {world_size} on {host}: local rank {local_rank} has GPU {gpu}".format(**mine), flush=True)

    for step in range(1, options.steps + 1):
        time.sleep(0.05)  # <- your training
        if mine["rank"] == 0 and step % 50 == 0:
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            print(f"{now} step {step}/{options.steps} loss {10 / (1 + step):.4f}", flush=True)

    meeting = Path(os.environ["RANKZERO_RUN_DIR"], "work", f"ranks-{os.environ['RANKZERO_ATTEMPT']}")
    meeting.mkdir(exist_ok=True)
    temporary = meeting / f".{mine['rank']}.tmp"
    temporary.write_text(json.dumps(mine), encoding="utf-8")
    temporary.replace(meeting / f"{mine['rank']}.json")
    if mine["rank"] != 0:
        return 0
    until = time.monotonic() + options.patience
    while len(list(meeting.glob("*.json"))) < mine["world_size"] and time.monotonic() < until:
        time.sleep(0.2)
    places = [json.loads(path.read_text(encoding="utf-8")) for path in meeting.glob("*.json")]
    places.sort(key=lambda one: one["rank"])
    result = {
        "mapping_proven": proven(places, int(os.environ["LOCAL_WORLD_SIZE"])),
        "world_size": mine["world_size"],
        "ranks": len(places),
        "steps": options.steps,
        "places": places,
    }
    artifact = Path(os.environ["RANKZERO_ARTIFACT"])
    temporary = artifact.with_name(artifact.name + ".tmp")
    temporary.write_text(json.dumps(result, indent=1), encoding="utf-8")
    temporary.replace(artifact)
    return 0


if __name__ == "__main__":
    sys.exit(main())
