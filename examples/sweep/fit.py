"""Fit a polynomial to the points by gradient descent, and say how well that went. Standard library only."""

import argparse
import json
import math
import os


def loss(weights, points):
    return sum((predicted(weights, x) - y) ** 2 for x, y in points) / len(points)


def predicted(weights, x):
    return sum(weight * x**power for power, weight in enumerate(weights))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--degree", type=int, required=True)
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    # The run directory of the job before this one (after: features.yml).
    with open(os.path.join(os.environ["RANKZERO_AFTER_FEATURES"], "work", "points.json"), encoding="utf-8") as stream:
        data = json.load(stream)
    weights = [0.0] * (arguments.degree + 1)
    for _step in range(arguments.steps):
        for power in range(len(weights)):
            slope = sum(2 * (predicted(weights, x) - y) * x**power for x, y in data["train"]) / len(data["train"])
            weights[power] -= arguments.lr * slope
    result = {"loss": loss(weights, data["train"]), "eval": {"loss": loss(weights, data["test"])}}
    if not math.isfinite(result["loss"]):
        raise SystemExit(f"the loss is {result['loss']}: lr {arguments.lr} is too large")
    with open("result.json", "w", encoding="utf-8") as stream:
        json.dump({**result, "weights": weights}, stream)


if __name__ == "__main__":
    main()
