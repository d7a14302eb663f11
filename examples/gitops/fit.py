"""Fits a line by gradient descent, each rank on points of its own. Stands for a training program; knows no Slurm."""

import argparse
import json
import os
import random
import time

parser = argparse.ArgumentParser()
parser.add_argument("--scale", type=float, default=1.0)
parser.add_argument("--steps", type=int, default=200)
options = parser.parse_args()
rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
chance = random.Random(rank)
points = [chance.random() for _ in range(100)]
slope = 0.0
for step in range(1, options.steps + 1):
    slope -= sum((slope - options.scale) * x * x for x in points) / len(points)
    if step % 50 == 0:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        print(f"{now} step {step}/{options.steps} loss {abs(slope - options.scale):.6f}", flush=True)
if rank == 0:
    with open("result.json.part", "w", encoding="utf-8") as stream:
        json.dump({"slope": slope, "error": abs(slope - options.scale), "ranks": ranks}, stream)
    os.replace("result.json.part", "result.json")
