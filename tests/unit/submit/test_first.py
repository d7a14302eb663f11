# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster that starts first, without Slurm: watchers killed at any line, several at once, clusters cut off.

The watchers, the steps on the clusters and the wait of the job are those of the product; Slurm is a stand-in, and the
connection a call. tests/cluster/test_first.py does it on labs.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run import grants
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import final_report
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import FIRST_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.submit import first as steps
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from rankzero import errors
from rankzero.first import First, raced
from rankzero.playbook import Call, Played, Record
from tests.unit.runtime.harness import runtime_parts
from tests.unit.submit.bench import Bench

#: How many launches meet faults. Run it with RANKZERO_TEST_FAULTS=500 for as many.
FAULTS, SEED = int(os.environ.get("RANKZERO_TEST_FAULTS", "24")), os.environ.get("RANKZERO_TEST_SEED", "1")
WATCHED = ("rankzero/first.py", "submit/first.py", "run/grants.py")
PARTS = ("artifact.verdict", "core.state", "core.processes", "start.claim", "start.grant")


class Killed(BaseException):
    """The watcher, or a job, is killed here."""


@pytest.fixture
def runtime() -> Iterator[SimpleNamespace]:
    with runtime_parts(PARTS[0]):
        yield SimpleNamespace(**{name.partition(".")[2]: importlib.import_module(name) for name in PARTS})


class World:
    """Clusters that launch one job. `ran`: which of them have run it, once for each time."""

    def __init__(self, root: Path, names: tuple[str, ...], runtime: SimpleNamespace, within: int = 600) -> None:
        self.names, self.runtime, self.within = names, runtime, within
        self.benches = {}
        for name in names:
            (root / name).mkdir(parents=True)
            # The clusters' own settings are in the key.
            self.benches[name] = Bench(root / name, f"{len(self.benches)}123456789abcdef")
        self.ran: list[str] = []
        self.cut: set[str] = set()
        self.jobs: dict[tuple[str, str], threading.Thread] = {}
        self.lock = threading.Lock()
        runtime.grant.POLL_SECONDS = 0.001
        runtime.grant.verdict = SimpleNamespace(refuse=self._refuse)

    def watcher(self) -> Watcher:
        return Watcher(Call("train"), self.names, self.within, open(os.devnull, "w"), world=self)

    def start(self, name: str, wait: bool = False) -> None:
        """Let Slurm start what waits on a cluster: its job checks nothing, and asks."""
        bench = self.benches[name]
        for job_id, job in [*bench.cluster.jobs.items()]:
            with self.lock:
                if job["state"] != "PENDING" or (name, job_id) in self.jobs:
                    continue
                job["state"] = "RUNNING"
                generation = int(job["name"].rpartition(".")[2])
                thread = threading.Thread(target=self._job, args=(name, job_id, generation), daemon=True)
                self.jobs[name, job_id] = thread
            thread.start()
            if wait:
                thread.join()

    def _job(self, name: str, job_id: str, generation: int) -> None:
        bench = self.benches[name]
        env = {"RANKZERO_RUN_DIR": bench.run(generation).path, "SLURM_JOB_ID": job_id, "RANKZERO_ATTEMPT": "0"}
        job = self.runtime.state.Job(env=env, runtime=RUNTIME)
        job.nodes = ["n1", "n2"]
        job.world = self, name, job_id, generation
        try:
            self.runtime.grant.await_grant(job)
        except Killed:
            return
        with self.lock:
            if bench.cluster.jobs[job_id]["state"] == "RUNNING":
                bench.ends(True, generation)
                bench.cluster.jobs[job_id]["state"] = "COMPLETED"
                self.ran.append(f"{name}/{generation}")

    def _refuse(self, job: Any, _code: int, _message: str) -> None:
        _world, name, job_id, generation = job.world
        self.benches[name].ends(False, generation, ended_by="setup")
        self.benches[name].cluster.jobs[job_id]["state"] = "FAILED"
        raise Killed

    def pause(self, seconds: float) -> None:
        """The job's sleep, in which Slurm may cancel it."""
        time.sleep(min(seconds, 0.001))
        for (name, job_id), thread in [*self.jobs.items()]:
            if thread is threading.current_thread() and self.benches[name].cluster.jobs[job_id]["state"] == "CANCELLED":
                raise Killed


class Watcher(First):
    """A watcher whose playbooks are calls of the modules' own logic."""

    def __init__(self, *given: Any, world: World) -> None:
        super().__init__(*given, sleep=lambda _seconds: time.sleep(0.001))
        self.world = world

    def _played(self, playbook: str, cluster: str, variables: Mapping[str, Any], output: Any) -> Played:
        bench, module = self.world.benches[cluster], "job" if playbook == "train" else "job_first"
        action = f"rankzero.slurm.{module}"
        if cluster in self.world.cut:
            return Played(4, [Record(cluster, action, "unreachable", {"msg": "no route"})])
        if variables.get("launch_wait"):
            return Played(0, [Record(cluster, "rankzero.slurm.job_report", "ok", {"standing": "succeeded"})])
        slurm = bench.launcher().slurm
        names = {"launch_name": "name"}
        options = {name: option.get("default") for name, option in FIRST_SPEC.items()}
        options |= {"state_root": str(bench.runs.parents[2]), "cluster": cluster}
        options |= {names.get(name, name): value for name, value in variables.items()}
        try:
            with self.world.lock:
                result = (
                    bench.launch(first=variables["launch_first"])
                    if module == "job"
                    else steps.step(slurm, options, sleep=lambda _seconds: None)
                )
        except RankzeroError as error:
            return Played(2, [Record(cluster, action, "failed", {"msg": error.message})])
        return Played(0, [Record(cluster, action, "ok", dict(result))])


def watch(watcher: Watcher, line: int = 0) -> int:
    """Let a watcher work; killed at a line of its own. How many lines it had."""
    seen = 0

    def at(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal seen
        seen += event == "line"
        if line and seen >= line:
            raise Killed
        return at

    def entered(frame: FrameType, _event: str, _argument: Any) -> Any:
        return at if frame.f_code.co_filename.endswith(WATCHED) else None

    sys.settrace(entered)
    try:
        watcher.run(waits=True)
    except (Killed, errors.RankzeroError):
        pass
    finally:
        sys.settrace(None)
    return seen


def watched(watcher: Watcher, seen: list[int]) -> None:
    seen.append(watch(watcher))


@pytest.fixture
def two(tmp_path: Path, runtime: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path, ("alpha", "beta"), runtime)
    monkeypatch.setattr(runtime.processes, "pause", world.pause)
    return world


def submitted(world: World) -> Watcher:
    watcher = world.watcher()
    assert watcher.run(waits=False).rc == 0
    return watcher


def standings(world: World) -> dict[str, str]:
    return {name: final_report(bench.launcher().slurm, bench.run()).standing for name, bench in world.benches.items()}


def until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_the_first_that_asks_is_granted_and_the_other_withdrawn(two: World) -> None:
    watcher = submitted(two)
    assert watcher.step() == "" and standings(two) == {"alpha": "waiting", "beta": "waiting"}
    two.start("beta")
    until(watcher.step)
    until(lambda: two.ran)
    assert two.ran == ["beta/1"]
    assert standings(two) == {"alpha": "withdrawn", "beta": "succeeded"}
    assert two.benches["alpha"].run().text(grants.GRANT) == "withdrawn beta has started first\n"
    # Everybody who comes later finds the same, and submits nothing.
    assert two.watcher().run(waits=True).rc == 0
    assert two.benches["alpha"].launch()["submission"] == "unchanged", "nor does a launch there for itself"
    assert [len(bench.cluster.jobs) for bench in two.benches.values()] == [1, 1]


def test_v_shows_playbooks_but_no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[tuple[str, str, int]] = []
    look = {"name": "gpt", "key": "0", "generation": 1, "run_dir": "/1", "winner": "beta /2", "grant": "granted"}
    look |= {"clusters": ["alpha", "beta"], "active": True, "success": False, "message": "", "asks": False}

    def way(name: str) -> Any:
        def played(call: Call, _output: Any = None, *, verbose: int = 0, output: Any = None) -> Played:
            ways.append((name, call.playbook, verbose))
            module = "job_first" if call.playbook == "first" else "job"
            return Played(0, [Record("alpha", f"rankzero.slurm.{module}", "ok", look)])

        return played

    monkeypatch.setattr("rankzero.first.directly", way("directly"))
    monkeypatch.setattr("rankzero.first.play", way("play"))
    raced(Call("train"), "alpha,beta", None, None, verbose=2)
    assert {*ways} == {("directly", "first", 0), ("play", "train", 2)}
    ways.clear()
    raced(Call("train"), "alpha,beta", None, None)
    assert {way for way, _playbook, _verbose in ways} == {"directly"}


def test_anybody_watches_on_by_any_name_of_the_launch(two: World) -> None:
    submitted(two)
    two.start("beta")
    watcher, places = two.watcher(), {name: two.benches[name].run().path for name in two.names}
    watcher.chosen = {name: {"launch_name": "job"} for name in two.names}
    until(watcher.step)
    for chosen in ({"launch_name": "job", "key": "0123456789abcdef", "generation": 1}, {}):
        later = two.watcher()
        later.chosen = {name: chosen or {"run_dir": places[name]} for name in two.names}
        assert later.step() == f"beta {places['beta']}"


def test_who_finds_a_winner_withdraws_what_another_watcher_has_submitted(two: World) -> None:
    """The first one was killed after it had recorded the winner; the launch of the other cluster has another key."""
    killed, alpha = submitted(two), two.benches["alpha"]
    two.start("alpha")
    until(lambda: alpha.run().text(grants.ASKS))
    assert killed.asked("alpha", "record", f"alpha {alpha.run().path}")
    assert two.watcher().run(waits=True).rc == 0
    until(lambda: two.ran)
    assert two.ran == ["alpha/1"] and standings(two) == {"alpha": "succeeded", "beta": "withdrawn"}
    # Another launch of the name was asked with another one.
    other = two.watcher()
    other.chosen = {"beta": {"launch_name": "job", "arbiter": "f" * 16}}
    assert other.asked("beta", "look") == {}
    other.chosen = {"alpha": {"arbiter": "f" * 16}}
    with pytest.raises(errors.RankzeroError, match=r"arbiter: f{16} selects among the launches"):
        other.asked("alpha", "look", needed=True)


def test_another_order_of_the_clusters_has_another_arbiter_and_is_refused(two: World) -> None:
    submitted(two)
    two.names = ("beta", "alpha")
    other = two.watcher()
    with pytest.raises(errors.RankzeroError, match="was submitted with --first alpha,beta, not beta,alpha"):
        other.run(waits=True)
    two.start("alpha")
    assert not two.ran


def test_a_withdrawn_job_is_granted_nothing_any_more(two: World) -> None:
    two.within = 1
    watcher = submitted(two)
    two.start("beta", wait=True)
    assert two.benches["beta"].run().text(grants.GRANT).startswith("withdrawn no grant came within 1 s; 0.0 node-min")
    # A watcher that had seen it ask comes late.
    winner = f"beta {two.benches['beta'].run().path}"
    assert watcher.asked("alpha", "record", winner)
    with pytest.raises(errors.LaunchFailed, match="beta started it first, and withdrawn no grant"):
        watcher.step()
    assert not two.ran and standings(two) == {"alpha": "withdrawn", "beta": "withdrawn"}


def test_a_generation_that_is_followed_gets_no_winner_any_more(two: World) -> None:
    """The watcher of the generation before knows nothing of the next one."""
    late = submitted(two)
    two.benches["alpha"].leaves("CANCELLED")
    again = submitted(two)
    assert two.benches["alpha"].run().text(grants.WINNER) == "nobody\n"
    two.start("beta")
    with pytest.raises(errors.Refused, match="was followed by another launch"):
        until(late.step)
    assert not two.ran
    until(again.step)
    until(lambda: two.ran)
    assert two.ran == ["beta/1"]


def test_what_failed_on_another_cluster_is_asked_of_all_again(two: World) -> None:
    watcher = submitted(two)
    two.start("beta")
    until(watcher.step)
    until(lambda: two.ran)
    two.benches["beta"].ends(False)
    two.benches["beta"].leaves("FAILED")
    submitted(two)
    assert [len(bench.cluster.jobs) for bench in two.benches.values()] == [2, 2]


def test_no_fault_doubles_a_launch_or_loses_it(
    tmp_path: Path, runtime: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, most, killed, many = random.Random(SEED), 0, 0, 0
    for number in range(FAULTS):
        names = ("alpha", "beta", "gamma")[: draw.choice((2, 3))]
        world = World(tmp_path / str(number), names, runtime)
        monkeypatch.setattr(runtime.processes, "pause", world.pause)
        world.cut = {name for name in names[1:] if draw.random() < 0.2}
        starts = [name for name in names if draw.random() < 0.7]
        watchers = [
            threading.Thread(target=watch, args=(world.watcher(), draw.randint(1, most or 100)), daemon=True)
            for _watcher in range(draw.choice((1, 1, 2, 3)))
        ]
        many += len(watchers) > 1
        for watcher in watchers:
            watcher.start()
        while any(watcher.is_alive() for watcher in watchers):
            for name in starts:
                world.start(name)
            time.sleep(0.001)
        assert len(world.ran) <= 1, (number, world.ran)
        killed += not world.ran
        if draw.random() < 0.5:
            world.cut = set()
        for _again in range(5):
            seen: list[int] = []
            last = threading.Thread(target=watched, args=(world.watcher(), seen), daemon=True)
            last.start()
            while last.is_alive():
                for name in names:
                    if name not in world.cut:
                        world.start(name)
                time.sleep(0.001)
            most = max(most, *seen)
            if world.ran:
                break
        for thread in world.jobs.values():
            thread.join(0.2)
        assert len(world.ran) == 1, (number, world.ran)
    print(
        f"{FAULTS} launches, {FAULTS} runs, 0 doubled; {killed} had not run when the last watcher of them was killed; "
        f"{many} had several watchers; at most {most} lines"
    )
