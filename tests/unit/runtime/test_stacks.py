# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stacks of ranks, with real processes: who is asked, what is written, and that no program is disturbed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import standstill, stragglers
from ansible_collections.rankzero.slurm.plugins.module_utils.run import rank_looks
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from tests.unit.runtime.harness import runtime_parts
from tests.unit.runtime.test_collector import opens

RUNTIME = Path(__file__).resolve().parents[3] / "plugins" / "runtime"
HOOK = RUNTIME / "hook"
LOOK = "import json, sys; sys.path.insert(0, sys.argv[1]); from rank import stacks; print(json.dumps(%s))"
READY = "import sys, time, os, signal\nprint('ready', flush=True)\n"


def environment(run: Path, rank: int, hook: str = str(HOOK)) -> dict[str, str]:
    own = {"RANK": str(rank), "RANKZERO_RUN_DIR": str(run), "RANKZERO_ATTEMPT": "0", "PYTHONPATH": hook}
    return {**os.environ, **own}


@contextlib.contextmanager
def ranks(run: Path, programs: list[str], hook: str = str(HOOK)) -> Iterator[list[subprocess.Popen[str]]]:
    """Programs that say when they are ready, one a rank."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", READY + text], env=environment(run, rank, hook), stdout=subprocess.PIPE, text=True
        )
        for rank, text in enumerate(programs)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            while process.stdout.readline().strip() != "ready":
                assert process.poll() is None
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def answer(run: Path, call: str, **more: str) -> Any:
    """What the collector says, run as on a node: with no name of its own in the launch."""
    environ = {**environment(run, 0), "SLURMD_NODENAME": "node01", "PYTHONPATH": "", **more}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", LOOK % call, str(RUNTIME)],
        env=environ, check=True, stdout=subprocess.PIPE, text=True, timeout=120,
    )  # fmt: skip
    return json.loads(done.stdout)


def looked_at(run: Path) -> dict[int, dict[str, Any]]:
    mine = {f"RANKZERO_RUN_DIR={run}", "RANKZERO_ATTEMPT=0"}
    return {row["rank"]: row for row in answer(run, f"stacks.sample_processes({mine!r})")}


def until_stopped(pid: int) -> None:
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_each_rank_shows_its_stacks_and_goes_on(tmp_path: Path) -> None:
    waiting = "def batch():\n    time.sleep(600)\nbatch()"
    with ranks(tmp_path, [waiting, "os.kill(os.getpid(), signal.SIGSTOP)"]) as started:
        until_stopped(started[1].pid)
        for _again in range(2):
            rows = looked_at(tmp_path)
            assert 'line 4 in batch\n  File "<string>", line 5 in <module>\n' in rows[0]["stack"]
            assert rows[0]["stack"].count("in batch") == 1
            assert (rows[1]["state"], rows[1]["stack"]) == ("T", "")
        assert started[0].poll() is None
        assert not list(tmp_path.iterdir())


def test_what_a_rank_waits_for_is_of_the_moment_of_its_stacks(tmp_path: Path) -> None:
    """One that is only slow does something else by the time when its stacks are read."""
    text = """
import threading
def written():
    targets = {number: f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")}
    return any(os.path.islink(path) and "rankzero-stacks" in os.readlink(path) and os.fstat(int(number)).st_size
               for number, path in targets.items())
def late():
    while not written():
        time.sleep(0.2)
late()
lock = threading.Lock()
lock.acquire()
lock.acquire()"""
    with ranks(tmp_path, [text]):
        row = looked_at(tmp_path)[0]
        assert "in late" in row["stack"] and "nanosleep" in row["waits_in"], row
        assert "futex" in looked_at(tmp_path)[0]["waits_in"]


def test_a_process_without_the_hook_is_not_signalled(tmp_path: Path) -> None:
    """Neither one that ignores PYTHONPATH, nor one that has taken the signal back, nor the fork of one that has it."""
    released = "import faulthandler\nfaulthandler.unregister(43)\nprint('again', flush=True)\ntime.sleep(600)"
    with ranks(tmp_path, [released]) as started, ranks(tmp_path, ["time.sleep(600)"], hook="") as plain:
        assert started[0].stdout is not None and started[0].stdout.readline() == "again\n"
        processes = [
            row["stack"] for row in answer(tmp_path, f"stacks.sample_processes({{'RANKZERO_RUN_DIR={tmp_path}'}})")
        ]
        assert processes == ["", ""]
        assert started[0].poll() is None and plain[0].poll() is None


def test_the_programs_own_sitecustomize_runs(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("OWN = 1\nimport sys\nsys.marked = True\n")
    shown = "import sys; print(sys.marked, sys.modules['sitecustomize'].OWN, any('/hook' in p for p in sys.path))"
    done = subprocess.run(
        [sys.executable, "-c", shown], env=environment(tmp_path, 0, f"{HOOK}:{own}"), check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True 1 False\n", "")


@pytest.mark.parametrize("hook", [str(HOOK), f"{HOOK}:/nowhere"])
def test_a_signal_of_the_program_stays_its_own(tmp_path: Path, hook: str) -> None:
    text = "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('mine'))\nsignal.raise_signal(signal.SIGUSR1)"
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment(tmp_path, 0, hook), check=True, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("mine\n", "")


def test_a_node_answers_each_request_once_and_the_time_limit(tmp_path: Path) -> None:
    folder = tmp_path / "stacks" / "0"
    folder.mkdir(parents=True)
    (folder / "request").write_text("old")
    call = (
        "[(request := stacks.Request(__import__('os').environ, clock=lambda: 1000.0)).serve(), "
        f"open('{folder}/request', 'w').write('new') and request.serve(), request.serve()]"
    )
    with ranks(tmp_path, ["time.sleep(600)"]):
        assert answer(tmp_path, call) == [False, True, False]
        document = json.loads((folder / "node01.json").read_text())
        assert (document["request"], document["node"], document["limit"]) == ("new", "node01", False)
        assert [row["rank"] for row in document["processes"]] == [0]
        # The request is the same as before: what is due is the time limit.
        assert answer(tmp_path, call, SLURM_JOB_END_TIME="1020") == [True, False, False]
        assert json.loads((folder / "node01.json").read_text())["limit"] is True
        assert not list(folder.glob("*.new"))


def test_a_node_with_a_collector_asks_no_shared_storage(tmp_path: Path) -> None:
    """It reads what the collector was told, and answers another word once."""
    spool, run = tmp_path / "spool", tmp_path / "run"
    spool.mkdir()
    run.mkdir()
    (spool / "asked").write_text("0 old")
    call = (
        f"[(request := stacks.Request(__import__('os').environ, spool={str(spool)!r})).serve(), "
        f"seen.clear() or [request.serve() for _ in range(5)] and list(seen), "
        f"open('{spool}/asked', 'w').write('0 new') and request.serve(), request.serve()]"
    )
    hook = (
        "(seen := [], sys.addaudithook(lambda event, about: event in ('open', 'os.listdir') and "
        f"str(about[0]).startswith({str(run)!r}) and seen.append(about[0])))[0] and 0 or "
    )
    assert answer(run, hook + call) == [False, [], True, False]
    assert json.loads((run / "stacks" / "0" / "node01.json").read_text())["request"] == "new"


def test_the_signal_is_no_standard_one() -> None:
    assert signal.SIGRTMIN < 43 < signal.SIGRTMAX


def test_what_is_swapped_is_read_as_the_kernel_writes_it(tmp_path: Path) -> None:
    counted = next(
        (int(line.split()[1]) for line in Path("/proc/vmstat").read_text().splitlines() if line.startswith("pswpin ")),
        0,
    )
    assert answer(tmp_path, "stacks.swapped_in()") >= counted
    assert answer(tmp_path, "stacks.swapped(os.getpid())".replace("os", "stacks.os")) >= 0
    text = "Name:\\tfit\\nVmSwap:\\t  204800 kB\\n"
    call = f"(setattr(stacks, 'text_of', lambda *_: '{text}'), stacks.swapped(1))[1]"
    assert answer(tmp_path, call) == 204800


@pytest.mark.parametrize(
    ("text", "still"),
    [("import threading; threading.Lock().acquire(); time.sleep(600)", True), ("while True: time.sleep(0.01)", False)],
    ids=["it sleeps", "it polls"],
)
def test_several_looks_tell_who_does_nothing_at_all(tmp_path: Path, text: str, still: bool) -> None:
    folder = tmp_path / "stacks" / "0"
    folder.mkdir(parents=True)
    (folder / "request").write_text("old")
    with ranks(tmp_path, [text]):
        served = (
            "[(request := stacks.Request(__import__('os').environ)).serve(), "
            f"open('{folder}/request', 'w').write('1 8'), request.serve()]"
        )
        assert answer(tmp_path, served)[-1] is True
    (document,) = rank_looks.recorded(RunDirectory(str(tmp_path)), 0)
    looks = rank_looks.looks_of([document])
    assert len(looks) == len(document["earlier"]) + 1 >= stragglers.STILL_LOOKS
    states = [state for look in looks for state in standstill.states_of(look)]
    assert {state.frames[-1].name for state in states} == {"<module>"}
    assert stragglers.frozen(looks, [0]) is stragglers.frozen(looks, []) is still
    assert not stragglers.frozen(looks, [1]) and not stragglers.frozen(looks[:2], [0])


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_silent_node_asks_nothing_of_shared_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conductor looks for all of them, and says what is new. Where it has gone, each looks itself."""
    with runtime_parts("rank.stacks") as stacks:
        from core import processes
        from core.state import Job as Conductor
        from rank import teller

        clock, touched = Clock(), []
        environ = {"RANKZERO_RUN_DIR": str(tmp_path), "RANKZERO_ATTEMPT": "0", "RANKZERO_MASTER_ADDR": "127.0.0.1"}
        environ.update(SLURMD_NODENAME="n0", RANKZERO_MONITOR_HOST="1")
        conductor = Conductor(env=dict(environ), runtime="", nodes=["n0", "n1"])
        monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=clock))
        told = teller.begin(conductor)
        with ThreadPoolExecutor() as pool:
            made = [pool.submit(stacks.Request, {**conductor.env, "SLURMD_NODENAME": node}) for node in ("n0", "n1")]
            while not all(each.done() for each in made):
                told.tell_nodes(conductor)
            nodes = [each.result() for each in made]
        for name in ("stat", "lstat"):
            real = getattr(os, name)
            monkeypatch.setattr(
                os, name, lambda path, *more, real=real, **words: (touched.append(path), real(path, *more, **words))[1]
            )
        with opens(str(tmp_path), touched):
            for _look in range(60):
                assert not any(node.serve() for node in nodes)
            assert not touched
            (tmp_path / "stacks" / "0").mkdir(parents=True)
            (tmp_path / "stacks" / "0" / "request").write_text("abc")
            touched.clear()
            clock.now += 2
            told.tell_nodes(conductor)
            assert len(touched) == 2, "the log that is followed, and the request, for all nodes"
        monkeypatch.setattr(stacks, "sample_node", lambda *_: {})
        deadline = time.monotonic() + 20
        heard: list[bool] = [False, False]
        while not all(heard):
            assert time.monotonic() < deadline
            heard = [was or node.serve() for was, node in zip(heard, nodes)]
        assert {json.loads(path.read_text())["request"] for path in (tmp_path / "stacks" / "0").glob("*.json")} == {
            "abc"
        }
        teller.finish(conductor, told)
        (tmp_path / "stacks" / "0" / "request").write_text("def")
        while not nodes[0].serve():
            assert time.monotonic() < deadline


def test_strangers_take_the_place_of_no_node_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node has four places; one that finds none looks itself, after a while."""
    with runtime_parts("rank.asked") as asked:
        looked: list[bool] = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            monkeypatch.setattr(asked, "FIRST_SECONDS", 0.2)
            hearer = asked.Hearer(f"127.0.0.1:{port}", lambda: looked.append(True) or "0 abc")
            assert hearer() == "0 abc" and looked
        assert asked.Hearer(f"127.0.0.1:{port}", lambda: "1 x")() == "1 x", "nobody listens there any more"
        assert asked.Hearer("", lambda: "2 y")() == "2 y"
