# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""run and attach with --first: a launch is submitted to several clusters, and the one that starts it first runs it.

Nothing is remembered here: all that decides is in the run directories (module_utils/run/grants.py). So this command may
end at any moment, and any other one goes on. The winner is recorded at the first cluster named, the arbiter, before
it is granted anything.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rankzero import errors
from rankzero.direct import directly
from rankzero.playbook import Call, Played, Record, play

#: Seconds between two looks, at first and at most.
SOON, LATE = 1.0, 10.0
NOBODY = "nobody"

Look = dict[str, Any]


def clusters_in(text: str) -> list[str]:
    """The names of `--first`. Raises UsageError."""
    names = text.split(",")
    if len(names) < 2 or len({*names}) < len(names) or not all(names):
        raise errors.UsageError(f"--first {text}: expected two or more different clusters, as in --first alpha,beta")
    return names


@dataclass
class First:
    """A launch that several clusters are asked to run. `call`: of the verb, without a cluster; `clusters`: the arbiter
    first; `within`: seconds that a job waits for its grant; `output`: for what is shown; `verbose`: of all but looks;
    `sleep`: for tests; `chosen`: what selects the launch on each cluster; `key`: of the launch at the arbiter.
    """

    call: Call
    clusters: Sequence[str]
    within: int | None = None
    output: Any = None
    verbose: int = 0
    sleep: Callable[[float], None] = time.sleep
    chosen: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    key: str = ""
    _told: set[str] = field(default_factory=set)

    @property
    def arbiter(self) -> str:
        """The cluster where it is recorded which one runs the launch."""
        return self.clusters[0]

    def run(self, *, waits: bool) -> Played:
        """Submit to every cluster, and follow the launch where it runs. `waits`: until its end."""
        checks = "--check" in self.call.flags
        submitted = self._submitted(self.arbiter)
        if submitted.exit_code() or checks:
            return submitted if not checks else self._merged([submitted, *map(self._submitted, self.clusters[1:])])
        look = self.asked(self.arbiter, "look", needed=True) or {}
        if self._over_elsewhere(look):
            submitted = self._submitted(self.arbiter, reopens=int(look["generation"]))
            if submitted.exit_code():
                return submitted
            look = self.asked(self.arbiter, "look", needed=True) or {}
        if look.get("winner") in ("", NOBODY) and look["clusters"]:
            for cluster in self.clusters[1:]:
                played = self._submitted(cluster)
                if played.exit_code():
                    self._tell(f"{cluster} is not asked: {played.error()}")
        if not waits:
            self.step()
            launch, names = f"{look['name']}/{look['key']}", ",".join(self.clusters)
            self._tell(f"whoever watches decides: rankzero attach {launch} --first {names}")
            return Played(0, self.records)
        return self.followed()

    def followed(self) -> Played:
        """Wait until a cluster runs the launch, and follow it there."""
        pause, limit = SOON, float(self.call.variables.get("wait_timeout") or 0)
        begun = time.monotonic()
        while True:
            winner = self.step()
            if winner:
                break
            if limit and time.monotonic() - begun > limit:
                raise errors.Unfinished(f"no cluster has started it within {limit:.0f} s; the jobs continue")
            self.sleep(pause)
            pause = min(LATE, pause * 1.5)
        cluster, _blank, run_dir = winner.partition(" ")
        self._tell(f"{cluster} has started it first")
        given = self.call.variables
        if self.call.playbook == "attach":
            own = {name: value for name, value in given.items() if name in ("wait_timeout", "wait_until")}
            return self._played("attach", cluster, {**own, "run_dir": run_dir}, self.output)
        # The same launch once more: it is there, so nothing is submitted, also if it has failed meanwhile.
        again = {**given, "launch_wait": True, "launch_relaunch": "never", "launch_first": self._first(0)}
        return self._played(self.call.playbook, cluster, again, self.output)

    def step(self) -> str:
        """Do what can be done now: record the winner, then grant, then withdraw the others. Returns the winner once it
        has been granted, which may be long ago; "" before. Raises RankzeroError when nobody can win any more.
        """
        arbiter = self.asked(self.arbiter, "look")
        if not arbiter:
            return ""
        looks = {cluster: self.asked(cluster, "look") for cluster in self.clusters[1:] if cluster in self.chosen}
        looks = {self.arbiter: arbiter, **looks}
        winner = str(arbiter["winner"]) or self._recorded(looks, arbiter)
        if winner == NOBODY:
            # Perhaps since the look: who records is told as well.
            raise errors.Refused(
                f"{arbiter['run_dir']} on {self.arbiter} was followed by another launch; name that one"
            )
        return self._settled(winner, looks) if winner else ""

    def asked(self, cluster: str, step: str, winner: str = "", *, needed: bool = False) -> Look | None:
        """The answer of a cluster; None if there is none, {} if it has no such launch, which is told once. `needed`:
        raises RankzeroError then, as for an arbiter that refuses.
        """
        given = {**self.chosen[cluster], "step": step, "clusters": list(self.clusters)}
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            played = self._played("first", cluster, {**given, **({"winner": winner} if winner else {})}, nowhere)
        answers = played.results("job_first")
        if answers:
            if cluster == self.arbiter:
                self.key = str(answers[-1]["key"])
            return answers[-1]
        code = played.exit_code()
        if code == errors.INTERRUPTED:
            raise KeyboardInterrupt
        if needed or (code == errors.REFUSED and cluster == self.arbiter):
            raise errors.BY_CODE.get(code, errors.RankzeroError)(f"{cluster}: {played.error()}", code)
        why = "cannot be reached" if code == errors.UNREACHABLE else played.error()
        self._tell(f"{cluster}: {why}; a job of it there gets no grant, and ends by itself if it starts")
        return None if code == errors.UNREACHABLE else {}

    def _recorded(self, looks: Mapping[str, Look | None], arbiter: Look) -> str:
        """Record, at the arbiter, the first cluster that has the nodes; "" if none has."""
        known = {cluster: look for cluster, look in looks.items() if look}
        # Launched there for itself, by somebody else or before: it waits for nobody.
        alone = [name for name, look in known.items() if not look["clusters"] and (look["active"] or look["success"])]
        if not arbiter["clusters"]:
            # Nothing can be recorded there: no other cluster is granted anything.
            if alone[:1] == [self.arbiter]:
                return f"{self.arbiter} {arbiter['run_dir']}"
            raise errors.Refused(f"{arbiter['run_dir']} on {self.arbiter} was not launched with --first; do that again")
        ready = alone + [name for name, look in known.items() if look["asks"]]
        if ready:
            answer = self.asked(self.arbiter, "record", f"{ready[0]} {known[ready[0]]['run_dir']}")
            return str(answer["winner"]) if answer else ""
        reached = [name for name, look in looks.items() if look is not None]
        if len(reached) == len(self.chosen) and not any(look["active"] for look in known.values()):
            ends = "; ".join(f"{name}: {look['message'] or look['standing']}" for name, look in known.items())
            raise errors.LaunchFailed(f"no cluster runs it: {ends}; run it again", errors.FAILED)
        return ""

    def _settled(self, winner: str, looks: Mapping[str, Look | None]) -> str:
        """Grant the winner what it waits for, then withdraw the others; the winner, if it could be told. `looks`: what
        decided, so that of the others those launches are withdrawn, and none that has followed them.
        """
        cluster, _blank, run_dir = winner.partition(" ")
        self.chosen[cluster] = {"run_dir": run_dir}
        answer = self.asked(cluster, "settle", winner)
        for other in self.clusters:
            if other != cluster:
                seen = looks.get(other)
                if seen:
                    self.chosen[other] = {"run_dir": seen["run_dir"]}
                elif other not in self.chosen:
                    # One that this command has not submitted to, but perhaps another one.
                    self.chosen[other] = self.asked_with(looks[self.arbiter] or {})
                self.asked(other, "settle", winner)
        if answer and str(answer["grant"]).startswith("withdrawn"):
            raise errors.LaunchFailed(f"{cluster} started it first, and {answer['grant']}; run it again", errors.FAILED)
        return winner if answer else ""

    def asked_with(self, look: Look) -> Mapping[str, Any]:
        """What selects, on another cluster, the launch that was asked with this one at the arbiter."""
        return {"launch_name": look["name"], "arbiter": look["key"]}

    def _over_elsewhere(self, look: Look) -> bool:
        """Whether another cluster has run the launch, and it has ended there without success."""
        cluster, _blank, run_dir = str(look.get("winner") or "").partition(" ")
        if not run_dir or cluster == self.arbiter or look["active"]:
            return False
        self.chosen[cluster] = {"run_dir": run_dir}
        there = self.asked(cluster, "look", needed=True) or {}
        return not there["active"] and not there["success"]

    def _submitted(self, cluster: str, reopens: int = 0) -> Played:
        """Prepare and submit the launch on a cluster, with the playbook of the verb."""
        variables = {**self.call.variables, "launch_wait": False, "launch_first": self._first(reopens)}
        played = self._played(self.call.playbook, cluster, variables, self.output)
        for launch in played.results("job"):
            if launch.get("run_dir"):
                self.chosen[cluster] = {"run_dir": launch["run_dir"]}
        self.records += played.records
        return played

    def _first(self, reopens: int) -> dict[str, Any]:
        within = {"grant_within": self.within} if self.within else {}
        return {"clusters": list(self.clusters), "reopens": reopens, "arbiter": self.key, **within}

    def _played(self, playbook: str, cluster: str, variables: Mapping[str, Any], output: Any) -> Played:
        call = replace(
            self.call,
            playbook=playbook,
            variables={**variables, "cluster": cluster},
            options=(*self.call.options, "-c", cluster),
        )
        verbose = self.verbose if output is self.output else 0
        return (None if verbose else directly(call, output)) or play(call, verbose=verbose, output=output)

    def _merged(self, all_played: Sequence[Played]) -> Played:
        failed = [played for played in all_played if played.rc]
        return Played(failed[0].rc if failed else 0, self.records)

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            print(f"first: {text}", file=self.output or sys.stdout, flush=True)


def raced(call: Call, names: str, within: int | None, output: Any, verbose: int = 0) -> Played:
    """Carry out `run` or `attach` of a launch that several clusters are asked to run. Raises RankzeroError."""
    clusters = clusters_in(names)
    for variable, option in (("cluster", "-c"), ("rerun", "--rerun"), ("launch_planned", "--planned")):
        if call.variables.get(variable):
            raise errors.UsageError(
                f"--first {names}: {option} is given, too, and is for one cluster; omit one of them"
            )
    first = First(call, clusters, within, output, verbose)
    if call.playbook == "attach":
        named = {name: value for name, value in call.variables.items() if not name.startswith("wait")}
        first.chosen = {first.arbiter: named}
        look = first.asked(first.arbiter, "look", needed=True) or {}
        first.chosen |= {cluster: first.asked_with(look) for cluster in clusters[1:]}
        return first.followed()
    return first.run(waits=call.waits)
