"""A driver of Ray: waits until all nodes have joined, then computes on every CPU of the cluster."""

import argparse
import json
import os
import time

import ray

JOIN_SECONDS, TASKS = 120, 24


@ray.remote(num_cpus=1)
def square(number: int) -> tuple[int, str]:
    time.sleep(0.2)
    return number * number, ray.get_runtime_context().get_node_id()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--nodes", required=True, help="those of the cluster, with commas between them")
    given = parser.parse_args()
    wanted = len(given.nodes.split(","))
    ray.init(address=given.address, _node_ip_address=given.address.rpartition(":")[0])
    until = time.monotonic() + JOIN_SECONDS
    while (alive := sum(node["Alive"] for node in ray.nodes())) < wanted and time.monotonic() < until:
        time.sleep(0.5)
    answers = ray.get([square.remote(number) for number in range(TASKS)])
    result = {
        "nodes": alive,
        "missing": wanted - alive,
        "cpus": ray.cluster_resources().get("CPU", 0),
        "worked": len({node for _value, node in answers}),
        "right": [value for value, _node in answers] == [number * number for number in range(TASKS)],
    }
    print(result, flush=True)
    with open("result.json.tmp", "w", encoding="utf-8") as stream:
        json.dump(result, stream)
    os.replace("result.json.tmp", "result.json")


if __name__ == "__main__":
    main()
