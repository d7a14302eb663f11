# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One batch of --random on a lab: its launches, their faults, and how they settle."""

from __future__ import annotations

import functools
import json
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import parse_epoch
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.checkpoint import EARLY_SIGNAL
from benchmarks.faults import ledger, playing, with_roles
from benchmarks.faults.arrays import Array
from benchmarks.faults.ground import OVER, Case, Ground
from benchmarks.faults.instants import Batch, Injection
from benchmarks.faults.kinds import ADOPT, CLOCKS, HANDOVER, HEAL, KINDS, MODULE, SERVER, TREE, Hits
from benchmarks.faults.programs import timed
from benchmarks.faults.shared import Breaker, short
from benchmarks.faults.waits import ALIVE, LATE, Wait, Waiting, alive, covered

#: A job's time limit, which also ends hung jobs.
LIMIT = "00:03:00"
#: Seconds after the last fault of a batch within which everything must be proven, and after which held jobs and drained
#: nodes are released, which Slurm does not do by itself.
SETTLE, ADMINISTRATOR = 420.0, 30.0
#: Seconds within which a playbook must have made its launches, and a launch that a fault is to hit must run.
LAUNCHED = 90.0
#: Shortest time in seconds between two attempts of a launch without an active job.
AGAIN = 3.0
#: A failed launch is submitted again. That is right after a fault, but this many generations indicate an error.
GENERATIONS = 8


@dataclass
class Launched:
    """One launch of a batch and its results. `kind`: the table row that it belongs to. `made_at`: epoch seconds."""

    case: Case
    kind: str
    shape: str
    made_at: float
    states: list[str] = field(default_factory=list)
    proven: bool = False
    seconds: float = 0.0
    message: str = ""
    asked_at: float = 0.0

    def doubled(self) -> str:
        for part in self.case.parts():
            files = {path.name: path.stat().st_mtime for path in part.ledger.iterdir()}
            word = ledger.doubled(ledger.parse(files), part.proofs())
            if word:
                return word
        return ""

    def under_way(self, begin: float, end: float) -> bool:
        """Whether it had been made and was not proven, at some time between these."""
        firsts = [min(part.proofs(), default=end) for part in self.case.parts()]
        return self.made_at < end and begin < max(firsts)

    @property
    def lost(self) -> bool:
        return not self.proven or not all(any(part.ledger.glob("run.*")) for part in self.case.parts())


@dataclass
class Came:
    """The result of a batch. `injected`: number of injected faults by kind. `helped`: what an administrator did.

    `waits`: those that began; `late`: those that ended too late. `alive`: jobs that outlived their proof. `left`: those
    of which a process outlived them. `unhealed`: those that a restarted server should have spared, and did not.
    `met`: (kind, shape) -> how many of the injections met a launch of that shape under way.
    """

    batch: Batch
    launched: list[Launched]
    injected: dict[str, int] = field(default_factory=dict)
    missed: int = 0
    broken: list[str] = field(default_factory=list)
    helped: list[str] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    unhealed: list[str] = field(default_factory=list)
    met: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: float = 0.0
    phases: str = ""
    restarting: list[Case] = field(default_factory=list)


class Storm:
    """Runs batches on one lab, one after the other."""

    def __init__(self, ground: Ground, seed: str) -> None:
        self.ground = ground
        self.chance = random.Random(seed)
        # Measure how long an undisturbed launch takes on this machine.
        case = ground.case("usual", program=timed(0.0))
        (reply,) = ground.many("head", [{"request": case.request}])
        self.took = [float(reply["seconds"] or 1.0)]
        self.breaker = Breaker(ground.lab, lambda: ground.switches)
        self.injecting = threading.Lock()

    @property
    def usual(self) -> float:
        """The usual duration of an undisturbed launch in seconds."""
        return statistics.median(self.took[-50:])

    def carry_out(self, batch: Batch) -> Came:
        """Run the launches with their faults, until all of them have settled."""
        begun = time.monotonic()
        came = Came(batch, [self._launched(batch, number) for number in range(len(batch.jobs))])
        made, spans = time.monotonic(), len(self.breaker.spans)
        tasks: list[Callable[[], object]] = [functools.partial(self._launch, came)]
        tasks += [functools.partial(self._inject, came, injection) for injection in batch.injections]
        waited = [number for number, job in enumerate(batch.jobs) if job.waited]
        waiting = None
        if waited:
            cases = [came.launched[number].case for number in waited]
            waiting = Waiting(self.ground, cases, [batch.jobs[number].start for number in waited])
            tasks.append(functools.partial(waiting.launched, LAUNCHED))
        with ThreadPoolExecutor(len(tasks) + 1) as pool:
            for future in [pool.submit(task) for task in tasks]:
                try:
                    future.result()
                except Exception as error:
                    came.broken.append(short(error))
        came.broken += self.breaker.mend()
        broke = time.monotonic()
        self.settle(came)
        settled = time.monotonic()
        if waiting:
            came.waits = waiting.end(LATE)
            came.broken += filter(None, [waiting.refused()])
            told = [(wait.name, wait.late(self.breaker.spans)) for wait in came.waits]
            came.late = [f"{name}: {word}" for name, word in told if word]
        ended = time.monotonic()
        ends = self.ends()
        came.alive = self._alive(came, ends)
        came.left = self.left(came.launched, ends)
        for span in self.breaker.spans[spans:]:
            shapes = {launch.shape for launch in came.launched if launch.under_way(*span)}
            came.met.update((batch.kind, shape) for shape in shapes)
        for case in came.restarting:
            jobs = {path.name.split(".")[1] for path in case.ledger.glob("run.*.begun")}
            if case.job["roles"][with_roles.SERVES]["on_exit"] == "restart" and len(jobs) != 1:
                came.unhealed.append(f"{case.name}: jobs {', '.join(sorted(jobs))}")
        came.seconds = ended - begun
        came.phases = f"{made - begun:.0f} made, {broke - made:.0f} faults, {settled - broke:.0f} settled"
        return came

    def _launched(self, batch: Batch, number: int) -> Launched:
        job = batch.jobs[number]
        kind = next((injection.kind for injection in batch.injections if number in injection.launches), batch.kind)
        spec: dict[str, Any] = {
            "resources": {"time": LIMIT, "nodes": job.nodes, **({"spares": job.spares} if job.spares else {})},
            # The preflight decides which nodes are needed.
            "preflight": {"enabled": bool(job.spares)},
            "artifact": {
                "path": "result.json",
                "require": {"ok": {"eq": 1}},
                "then": "end" if job.then_end else "let_run",
            },
        }
        if job.several:
            spec["resources"]["any_of"] = [{"time": limit} for limit in (LIMIT, "00:02:59", "00:02:58")]
        if kind == HANDOVER:
            spec["checkpoint"] = {"signal_before_end": 30, "requeue": True}
        sealed = job.sealed and bool(self.ground.sealed)
        if sealed:
            spec["environment"] = self.ground.sealed
        name, last = f"r{batch.number}-{job.shape}", with_roles.ASK if job.way else "true"
        program = timed(job.seconds, sealed=sealed, together=job.healing and not job.way, last=last)
        if job.elements > 1:
            case: Case = Array(self.ground, name, program, spec, job.elements)
        elif job.way:
            case = with_roles.Divided(self.ground, name, program, {**spec, "way": job.way, "servers": job.servers})
        else:
            case = self.ground.case(name, program=program, **spec)
        case.seconds = job.seconds
        return Launched(case, kind, job.shape, time.time() + job.start)

    def ends(self) -> dict[str, tuple[float | None, str]]:
        """Job -> when it ended (None if it has not), and its state."""
        columns = "--Format=JobID:20,EndTime:30,State:20"
        rows = self.ground.on("head", "squeue", "--noheader", "--states=all", columns).stdout.splitlines()
        words = [row.split() for row in rows]
        return {row[0]: (parse_epoch(row[1]) if row[2] in OVER else None, row[2]) for row in words if len(row) == 3}

    def left(self, launched: Sequence[Launched], ends: Mapping[str, tuple[float | None, str]]) -> list[str]:
        """The launches of which a process still runs too long after the end of its job."""
        told, now = [], time.time()
        for pid, env in with_roles.processes({"SLURM_JOB_UID": str(profile.UID)}):
            job, name = env.get("SLURM_JOB_ID", ""), env.get("SLURM_JOB_NAME", "").partition(".")[0]
            end, state = ends.get(job, (None, ""))
            if end is None or not any(launch.case.name == name for launch in launched):
                continue
            if now - end - covered(self.breaker.spans, end, now) > ALIVE:
                told.append(f"{name}: process {pid} of job {job} ({state}) runs {now - end:.0f} s after its end")
        return told

    def _alive(self, came: Came, ends: Mapping[str, tuple[float | None, str]]) -> list[str]:
        """The jobs that lived too long after their proof."""
        told = [(launch.case, alive(launch.case, ends, self.breaker.spans)) for launch in came.launched]
        return [f"{case.name}: {word}" for case, word in told if word]

    # --- launches, and the faults of single launches

    def _launch(self, came: Came) -> None:
        """Run by module every launch that no playbook makes. A second launcher, and a module that is to be killed (it
        is given the time), are also run where a playbook makes the launch and waits for it.
        """
        hits: dict[int, Injection] = {}
        for injection in came.batch.injections:
            hits.update({number: half for half in injection.single for number in half.launches})
        entries: dict[int, dict[str, Any]] = {}
        twice: dict[int, dict[str, Any]] = {}
        for number, job in enumerate(came.batch.jobs):
            hit = hits.get(number)
            hits_it = KINDS[hit.kind].hits if hit else None
            entry: dict[str, Any] = {"request": came.launched[number].case.request, "after": job.start}
            if hit and hit.kind == MODULE:
                entry["kill"] = hit.at * self.usual * 1.1
            elif hit and hits_it is Hits.TWICE:
                twice[number] = second = {**entry, "after": job.start + hit.at * self.usual}
                if hit.kind == CLOCKS:
                    second["ahead"] = hit.gone
                if hit.kind == ADOPT:
                    second["request"] = came.launched[number].case.request_of_another_version()
            if hits_it is not Hits.PLAYBOOK and (not job.waited or "kill" in entry):
                entries[number] = entry
        host = self.ground.lab.node_names[0] if self.ground.lab.realistic and came.batch.kind == "launches" else "head"
        with ThreadPoolExecutor(2) as pool:
            other = pool.submit(self.ground.many, host, list(twice.values())) if twice else None
            replies = dict(zip(entries, self.ground.many("head", list(entries.values()))))
            if other:
                other.result()
        for number, reply in replies.items():
            came.launched[number].states.append(_said(reply))
            if reply["seconds"] is not None:
                self.took.append(reply["seconds"])
        for number, hit in hits.items():
            launched = came.launched[number]
            # Half of a pair counts with the other half.
            if launched.kind == hit.kind and (number in twice or hit.kind == MODULE):
                self._count(came, hit, number in twice or replies[number]["killed"], launched.shape)

    def _count(self, came: Came, injection: Injection, hit: bool, shape: str = "") -> None:
        """`shape`: of the launch that it hit, if it was one."""
        with self.injecting:
            if shape and hit:
                came.met[injection.kind, shape] += 1
            came.injected[injection.kind] = came.injected.get(injection.kind, 0) + hit
            came.missed += not hit

    def _inject(self, came: Came, injection: Injection) -> None:
        """Inject a fault at its time. Kills of a module and simultaneous launchers are handled with the launches."""
        kind = KINDS[injection.kind]
        if kind.name == MODULE or kind.hits is Hits.TWICE:
            return
        begun = time.monotonic()
        cases = [came.launched[number].case for number in injection.launches]
        shapes = [came.launched[number].shape for number in injection.launches]
        if kind.hits is Hits.PLAYBOOK:
            playing.pause_until(begun, came.batch.jobs[injection.launches[0]].start)
            after = injection.at * playing.usual_seconds(cases, self.usual)
            hit, shape = playing.killed(self.ground, cases, after, tree=kind.name == TREE), shapes[0]
            self._count(came, injection, hit, shape)
        elif kind.name == HANDOVER:
            self._count(came, injection, self._handed_over(cases[0], injection.at), shapes[0])
        elif kind.name == SERVER:
            self._count(came, injection, self._server_killed(came, cases[0], injection.at), shapes[0])
        elif kind.name == HEAL:
            (half,) = injection.halves
            self._count(came, injection, self._lose_ranks(came.launched[half.launches[0]].case, half))
        else:
            shared = [half for half in injection.single if KINDS[half.kind].breaks]
            with ThreadPoolExecutor(len(shared)) as pool:
                for future in [pool.submit(self._shared, half, begun, came.batch.window) for half in shared]:
                    future.result()
            self._count(came, injection, True)

    def _running(self, case: Case, at: float) -> str:
        """Wait until the part `at` of a case's program has run. Returns its job; "" if it has ended before."""
        begun: list[Path] = []
        deadline = time.monotonic() + LAUNCHED
        while not begun and time.monotonic() < deadline:
            time.sleep(0.2)
            begun = list(case.ledger.glob("run.*.begun"))
        time.sleep(at * case.seconds)
        return "" if not begun or any(case.ledger.glob("run.*.ended")) else begun[0].name.split(".")[1]

    def _lose_ranks(self, case: Case, fault: Injection) -> bool:
        """Break the node of the second rank while it runs. False if the ranks had ended before."""
        if not self._running(case, fault.at):
            return False
        started = json.loads((case.run_dir() / "started.json").read_text(encoding="utf-8"))
        self.breaker.inject(fault, started["nodes"][1])
        return True

    def _server_killed(self, came: Came, case: Case, at: float) -> bool:
        """Kill a server of a job that runs. False if it had ended before."""
        job = self._running(case, at)
        if not job or not with_roles.kill_server(job):
            return False
        came.restarting.append(case)
        return True

    def _handed_over(self, case: Case, at: float) -> bool:
        """Forbid the requeue of a job that runs, and send it the early signal. False if it had ended before."""
        job = self._running(case, at)
        if not job:
            return False
        self.ground.root_on(
            "head", f"scontrol update JobId={job} Requeue=0 && scancel --batch --signal={EARLY_SIGNAL} {job} || true"
        )
        return True

    def _shared(self, injection: Injection, begun: float, window: float) -> None:
        """Break something shared at its time."""
        playing.pause_until(begun, injection.at * window)
        self.breaker.inject(injection)

    # --- until everything has settled

    def settle(self, came: Came) -> None:
        """Launch again what has not settled and has no active job in Slurm, until everything is proven."""
        begun = time.monotonic()
        helped_at = begun
        left = [launch for launch in came.launched if not launch.proven]
        while left and time.monotonic() - begun < SETTLE:
            active = self.active()
            now = time.monotonic()
            # A proven launch has settled even if Slurm still has its job, which it may hold after many requeues.
            due = [
                launch
                for launch in left
                if now - launch.asked_at > AGAIN and (launch.case.name not in active or launch.case.proven())
            ]
            if due:
                replies = self.ground.many("head", [{"request": launch.case.request} for launch in due], together=3)
                for launch, reply in zip(due, replies):
                    launch.asked_at = time.monotonic()
                    launch.states.append(_said(reply))
                    launch.message = str(reply["result"].get("message") or reply["result"].get("msg") or "")
                    launch.proven = launch.states[-1] == "unchanged" and launch.case.proven()
                    launch.seconds = time.monotonic() - launch.case.begun
                left = [
                    launch for launch in left if not launch.proven and launch.states.count("submitted") < GENERATIONS
                ]
            if now - helped_at > ADMINISTRATOR:
                helped_at = now
                came.helped += self.administrator()
            if left:
                time.sleep(1.0)
        came.helped += self.administrator()

    def active(self) -> set[str]:
        """The names of launches with a pending, running or completing job."""
        done = self.ground.on("head", "squeue", "--noheader", "--states=all", "--Format=State:20,Name:200")
        rows = [line.split() for line in done.stdout.splitlines()]
        return {row[1].split(".")[0] for row in rows if len(row) == 2 and row[0] not in OVER}

    def administrator(self) -> list[str]:
        """Do what Slurm leaves to an administrator after a crash: release held jobs, and resume drained nodes."""
        helped = []
        states = "--states=PENDING,REQUEUE_HOLD,REQUEUED"
        jobs = self.ground.on("head", "squeue", "--noheader", states, "--Format=JobID:20,Reason:80").stdout
        for line in jobs.splitlines():
            job, _space, reason = line.strip().partition(" ")
            if "held" in reason.lower() or "hold" in reason.lower():
                self.root("scontrol", "release", job)
                helped.append(f"release: {reason.strip()}")
        nodes = self.ground.on("head", "sinfo", "--noheader", "--Node", "--format=%N|%T|%E").stdout
        for line in sorted(set(nodes.splitlines())):
            name, state, reason = [*line.split("|"), "", ""][:3]
            if state.startswith(("drain", "down")):
                self.root("scontrol", "update", f"NodeName={name}", "State=RESUME")
                helped.append(f"resume {state}: {reason}")
        return helped

    def root(self, *argv: str) -> None:
        self.ground.root_on("head", " ".join(argv) + " || true")


def _said(reply: Mapping[str, Any]) -> str:
    return "killed" if reply["killed"] else str(reply["result"].get("submission") or "refused")
