"""Prepare the data: points of a curve with noise, the same ones each time. Standard library only."""

import json
import random
import sys


def main():
    chance = random.Random(1)
    xs = [chance.uniform(-1, 1) for _ in range(200)]
    points = [[x, 0.5 - 1.5 * x + 2.0 * x * x + chance.gauss(0, 0.1)] for x in xs]
    with open(sys.argv[1], "w", encoding="utf-8") as stream:
        json.dump({"train": points[:150], "test": points[150:]}, stream)


if __name__ == "__main__":
    main()
