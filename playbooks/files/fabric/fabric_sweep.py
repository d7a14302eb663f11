# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The all-reduce sweep of the fabric check, run by every rank of its job: fabric_sweep.py PLAN(JSON)

The first rank decides: it looks at what all nodes have, says who measures with whom, gathers the results, and says what
comes next, until result.json is there. All others do what the next document says. Documents lie in a folder of the
attempt on shared storage. Standard library only; what measures by torch is a process of its own (fabric_torch.py).
"""

import json
import os
import subprocess
import sys
import time

# Both folders are shared and never changed: nothing is compiled into them.
sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["RANKZERO_RUNTIME"])

import fabric_nccl_tests  # noqa: E402
import fabric_tcp  # noqa: E402
from fabric_facts import choose, facts  # noqa: E402
from fabric_schedule import COMPARING, combined, compare, speed, tournament  # noqa: E402

from core.files import await_document, publish  # noqa: E402
from preflight.binding import unbound  # noqa: E402
from preflight.exchange import MEGABYTE  # noqa: E402
from start import ports  # noqa: E402

RESULT = "result.json"
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
# For torch to be imported from a cold file system, and for what all nodes have to say.
START_SECONDS = 120
# How long a rank waits for the next document: longer than the first one can take, since Slurm ends all ranks with it.
PATIENCE = 24 * 3600


class SweepFailed(Exception):
    """What a person is to read: raised out of the program, so that the launch's diagnosis finds it as the cause."""


class Agent:
    """One rank: it takes part in the measurements that its node is in."""

    def __init__(self, plan):
        self.plan = plan
        self.place, self.local = int(os.environ["NODE_RANK"]), int(os.environ["LOCAL_RANK"])
        self.per_node = int(os.environ["LOCAL_WORLD_SIZE"])
        self.count = int(os.environ["WORLD_SIZE"]) // self.per_node
        self.folder = os.path.join(os.getcwd(), f"exchange.{os.environ['RANKZERO_ATTEMPT']}")
        os.makedirs(self.folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def introduce(self):
        """Say what this node has; once a node."""
        if self.local == 0:
            name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
            publish(self.path(f"{self.place}.facts"), {"name": name, **facts(self.plan, START_SECONDS - 20)})

    def follow(self):
        """Do what the documents say, in their order, to the last one."""
        number = 0
        while True:
            phase = await_document(self.path(f"{number}.phase"), time.monotonic() + PATIENCE)
            if phase is None or not phase["measures"]:
                return
            self.work(phase)
            number += 1

    def work(self, phase):
        for measure in phase["measures"]:
            if self.place in measure["places"]:
                self.take_part(phase, measure)

    def take_part(self, phase, measure):
        """One measurement; what came of it is published by everybody whose word counts."""
        try:
            rows = getattr(self, "by_" + phase["method"])(phase, measure)
            told = rows if isinstance(rows, dict) else {"rows": rows, "error": ""}
        except (OSError, ValueError) as error:
            told = {"rows": [], "error": " ".join(str(error).split()) or type(error).__name__}
        if self.local == 0 and self.place in tellers(phase["method"], measure):
            publish(self.path(f"{measure['id']}.{self.place}"), told)

    def by_tcp(self, phase, measure):
        if self.local:
            return []
        folder = self.path(f"{measure['id']}.ports")
        os.makedirs(folder, exist_ok=True)
        return fabric_tcp.measure(
            measure["names"],
            measure["places"].index(self.place),
            measure["addresses"],
            measure["interface"],
            folder,
            self.plan["sizes"],
            self.plan["seconds"],
        )

    def by_torch(self, phase, measure):
        """The rows that the first rank of the measurement printed."""
        deadline = time.monotonic() + self.plan["seconds"] + START_SECONDS
        first, path = measure["addresses"][measure["names"][0]], self.path(f"{measure['id']}.port")
        if (measure["places"][0], 0) == (self.place, self.local):
            publish(path, next(iter(ports.free(os.environ["SLURM_JOB_ID"])), None))
        given = {
            "backend": phase["backend"],
            "meet": f"tcp://{first}:{await_document(path, deadline)}",
            "rank": measure["places"].index(self.place) * self.per_node + self.local,
            "ranks": len(measure["places"]) * self.per_node,
            "local": self.local,
            "sizes": self.plan["sizes"],
            "seconds": self.plan["seconds"],
        }
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fabric_torch.py")
        environment = {**os.environ, **dict.fromkeys(INTERFACES, measure["interface"]), **measure["variables"]}
        try:
            done = subprocess.run(
                [sys.executable, "-B", program, json.dumps(given)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                check=False,
                timeout=max(1.0, deadline - time.monotonic()),
            )
        except subprocess.TimeoutExpired:
            return {"rows": [], "error": f"torch did not come about within {START_SECONDS} s"}
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        error = f"torch ended with {done.returncode}: see the log of this rank" if done.returncode else ""
        return {"rows": rows, "error": error}

    def by_nccl_tests(self, phase, measure):
        if (self.place, self.local) != (measure["places"][0], 0):
            return []
        seconds = self.plan["seconds"] + START_SECONDS
        program, variables, log = phase["program"], measure["variables"], self.path(f"{measure['id']}.txt")
        return fabric_nccl_tests.measure(self.plan, measure["names"], self.per_node, program, variables, seconds, log)


def tellers(method, measure):
    """The places whose word counts: over TCP everybody's own, else the first one's."""
    return measure["places"] if method == "tcp" else measure["places"][:1]


class First(Agent):
    """The first rank, which decides besides."""

    def decide(self):
        """The document of the result."""
        told = self.introduced()
        self.names = [told[place]["name"] for place in range(self.count)]
        self.told = {one["name"]: one for one in told.values()}
        try:
            method, backend, why = choose(self.plan["method"], self.told)
        except ValueError as error:
            raise SweepFailed(str(error)) from None
        program = self.told[self.names[0]]["all_reduce_perf"]
        self.phase = {"method": method, "backend": backend, "program": program}
        self.number, self.results = 0, []
        print(f"measuring by {method} ({backend}): {why}", flush=True)
        candidates = self.candidates(backend)
        rounds = tournament(self.count, self.plan["rounds"])
        first = rounds[:COMPARING]
        for candidate in candidates:
            self.carry_out([self.measure(candidate, pair, "pair") for now in first for pair in now])
        medians, chosen = compare([one["name"] for one in candidates], self.results)
        best = next(one for one in candidates if one["name"] == chosen)
        self.carry_out([self.measure(best, pair, "pair") for now in rounds[COMPARING:] for pair in now])
        if self.count > 2:
            self.carry_out([self.measure(best, tuple(range(self.count)), "set")])
        self.publish_phase([])
        for one in candidates:
            one["median"] = medians[one["name"]]
        pairs = [speed(one) for one in self.results if one["kind"] == "pair" and one["candidate"] == chosen]
        about = {
            "format": 1,
            "backend": backend,
            "why": why,
            "measured_at": int(time.time()),
            "job_id": os.environ["SLURM_JOB_ID"],
            "ranks_per_node": 1 if method == "tcp" else self.per_node,
        }
        # What is a number or a word stands on the launch's result card.
        return {
            "about": about,
            "method": method,
            "nodes": self.names,
            "plan": self.plan,
            "facts": self.told,
            "candidates": candidates,
            "chosen": chosen,
            "measures": self.results,
            "measured_pairs": len([one for one in pairs if one]),
            "median_mb_per_s": round(medians[chosen] / MEGABYTE, 1),
        }

    def introduced(self):
        """{place: what its node said}."""
        deadline = time.monotonic() + START_SECONDS
        told = {place: await_document(self.path(f"{place}.facts"), deadline) for place in range(self.count)}
        silent = [place for place, one in told.items() if one is None]
        if silent:
            raise SweepFailed(f"no word from {len(silent)} of {self.count} nodes within {START_SECONDS} s")
        return told

    def candidates(self, backend):
        """What is compared, the current one first. Where the user names no other: the interfaces that all nodes have,
        unless NCCL chooses its adapters itself.
        """
        here = {name: one["address"] for name, one in self.told[self.names[0]]["interfaces"].items()}
        common = [name for name in here if all(name in one["interfaces"] for one in self.told.values())]
        common.sort(key=lambda name: (not self.told[self.names[0]]["interfaces"][name]["fast"], name))
        current, *others = self.plan["candidates"]
        found = [self.candidate(one, common, backend) for one in (current, *others)]
        if others:
            return found
        if backend != "nccl" and not any(name in current["variables"] for name in INTERFACES):
            for name in common:
                if name != found[0]["interface"]:
                    variables = {**current["variables"], **dict.fromkeys(INTERFACES, name)}
                    found.append({"name": name, "variables": variables, "interface": name})
        return found

    def candidate(self, one, common, backend):
        """With the interface that it means. NCCL's may be a pattern; then the ranks meet over the usual one."""
        usual = os.environ.get(INTERFACES[0]) or (common[0] if common else "")
        own = next((one["variables"][name] for name in INTERFACES if name in one["variables"]), usual)
        interface = own.lstrip("=").split(",")[0]
        return {**one, "interface": usual if backend == "nccl" and interface not in common else interface}

    def measure(self, candidate, places, kind):
        names = [self.names[place] for place in places]
        interfaces = {name: self.told[name]["interfaces"].get(candidate["interface"]) for name in names}
        return {
            "id": f"{kind}-{candidate['name']}-" + ("all" if kind == "set" else "-".join(map(str, places))),
            "kind": kind,
            "candidate": candidate["name"],
            "places": list(places),
            "names": names,
            "interface": candidate["interface"],
            "variables": candidate["variables"],
            "addresses": {name: one and one["address"] for name, one in interfaces.items()},
        }

    def publish_phase(self, measures):
        publish(self.path(f"{self.number}.phase"), {**self.phase, "measures": measures})
        self.number += 1

    def carry_out(self, measures):
        """Have some measurements made, and keep what came of them."""
        able = []
        for one in measures:
            lacking = [name for name, address in one["addresses"].items() if address is None]
            if lacking:
                error = f"{', '.join(lacking)}: has no {one['interface'] or 'interface'}"
                self.keep(one, {"rows": [], "error": error})
            else:
                able.append(one)
        if not able:
            return
        self.publish_phase(able)
        self.work({**self.phase, "measures": able})
        # Nobody is in more of them than there are rounds.
        most = max(sum(place in one["places"] for one in able) for place in range(self.count))
        patience = self.plan["seconds"] + (fabric_tcp.TAIL_SECONDS if self.phase["method"] == "tcp" else START_SECONDS)
        deadline = time.monotonic() + most * patience + START_SECONDS
        for one in able:
            told = {
                self.names[place]: await_document(self.path(f"{one['id']}.{place}"), deadline)
                for place in tellers(self.phase["method"], one)
            }
            self.keep(one, combined(told, list(told)))

    def keep(self, measure, result):
        kept = {"kind": measure["kind"], "candidate": measure["candidate"], "nodes": measure["names"], **result}
        self.results.append(kept)
        words = f"{speed(kept) / MEGABYTE:.1f} MB/s" if not kept["error"] else kept["error"]
        print(f"{measure['candidate']}: {' '.join(measure['names'])}: {words}", flush=True)


def main(plan):
    unbound()
    if os.environ["RANK"] != "0":
        other = Agent(plan)
        other.introduce()
        other.follow()
        return
    first = First(plan)
    if first.count < 2:
        raise SweepFailed("a sweep needs at least two nodes, and this job has one")
    first.introduce()
    result = first.decide()
    if not result["measured_pairs"]:
        raise SweepFailed(f"no pair of nodes could be measured: {result['measures'][0]['error']}")
    publish(os.path.join(os.getcwd(), RESULT), result)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
