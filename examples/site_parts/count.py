"""Each rank writes down who it is; the first one counts them, and writes the result."""

import json
import os
import time

NAMES = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LIMIT = 60

me = {name: os.environ[name] for name in NAMES}
print(me, flush=True)
with open(f"rank-{me['RANK']}.tmp", "w", encoding="utf-8") as stream:
    json.dump({**me, "host": os.uname().nodename, "in_the_image": os.path.exists("/in-the-image")}, stream)
os.replace(f"rank-{me['RANK']}.tmp", f"rank-{me['RANK']}.json")

if me["RANK"] == "0":
    wanted = [f"rank-{rank}.json" for rank in range(int(me["WORLD_SIZE"]))]
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and not all(map(os.path.exists, wanted)):
        time.sleep(0.1)
    ranks = []
    for path in filter(os.path.exists, wanted):
        with open(path, encoding="utf-8") as stream:
            ranks.append(json.load(stream))
    result = {
        "ranks": len(ranks),
        "nodes": len({(rank["host"], rank["NODE_RANK"]) for rank in ranks}),
        "masters": len({(rank["MASTER_ADDR"], rank["MASTER_PORT"]) for rank in ranks}),
    }
    with open("result.json.tmp", "w", encoding="utf-8") as stream:
        json.dump(result, stream)
    os.replace("result.json.tmp", "result.json")
