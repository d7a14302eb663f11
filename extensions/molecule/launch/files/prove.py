"""The scenario's program: every rank leaves a mark; rank 0 waits for all of them and writes the artifact."""

import json
import os
import sys
import time

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with open(f"mark-{rank}.tmp", "w") as stream:
    stream.write(os.uname().nodename)
os.replace(f"mark-{rank}.tmp", f"mark-{rank}")
if rank == 0:
    marks = [f"mark-{number}" for number in range(world_size)]
    while not all(os.path.exists(mark) for mark in marks):
        os.listdir(".")
        time.sleep(0.1)
    hosts = sorted({open(mark).read() for mark in marks})
    with open("result.json.tmp", "w") as stream:
        json.dump({"world_size": world_size, "hosts": len(hosts), "arguments": sys.argv[1:]}, stream)
    os.replace("result.json.tmp", "result.json")
time.sleep(60)  # `then: end` is what ends the job
