# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long work in a process of its own: it is followed, its errors arrive, and nothing old is taken for its result."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import lives
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work import background
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.background import run_or_follow, written
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

LIMIT = 30.0


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def ask(ensure: Callable[..., dict[str, Any]], *, again: bool = False, seconds: float = 0.0) -> dict[str, Any]:
    request = {"name": "it", "follow": seconds, "again": again}
    return run_or_follow("builds it", ensure, {"x_request": request}, check_mode=False)


def until_done(ensure: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return ask(ensure, again=True, seconds=LIMIT)


def test_without_a_wish_for_progress_it_is_done_in_this_process() -> None:
    def ensure(options: Any, request: Any, *, check_mode: bool, meter: Meter) -> dict[str, Any]:
        return {"request": request, "process": os.getpid()}

    asked = run_or_follow("builds it", ensure, {"x_request": {"name": "it"}}, check_mode=False)
    assert asked == {"request": {"name": "it"}, "process": os.getpid()}
    # In check mode nothing is built, so there is nothing to follow.
    checked = run_or_follow("builds it", ensure, {"x_request": {"follow": 1}}, check_mode=True)
    assert checked["process"] == os.getpid()


def test_progress_and_then_the_result(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def ensure(options: Any, request: Any, *, check_mode: bool, meter: Meter) -> dict[str, Any]:
        meter.begin("installing", files=40, unit="packages", measure=lambda: 12)
        while not gate.exists():
            time.sleep(0.02)
        return {"request": request, "process": os.getpid()}

    going = ask(ensure)
    until = time.monotonic() + LIMIT
    while not going["going"].get("files") and time.monotonic() < until:
        going = ask(ensure, again=True, seconds=0.1)
    known = going["going"]
    assert [known[name] for name in ("phase", "files_done", "files", "unit")] == ["installing", 12, 40, "packages"]
    gate.touch()
    result = until_done(ensure)
    assert result["request"] == {"name": "it"} and result["process"] != os.getpid()


def test_every_follower_gets_the_result_however_late_it_asks(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def ensure(options: Any, request: Any, *, check_mode: bool, meter: Meter) -> dict[str, Any]:
        (tmp_path / "tries").open("a").write("x")
        while not gate.exists():
            time.sleep(0.02)
        return {"process": os.getpid()}

    # Three callers follow one work, and ask for its end one after the other.
    for _follower in range(3):
        assert "going" in ask(ensure)
    gate.touch()
    results = [until_done(ensure) for _follower in range(3)]
    assert results[0] == results[1] == results[2]
    assert (tmp_path / "tries").read_text() == "x"
    # Whoever begins after it was read gets a try of its own; a late follower of the first one gets an answer still.
    assert ask(ensure, seconds=LIMIT)["process"] != results[0]["process"]
    assert "process" in until_done(ensure)


def test_an_error_reaches_every_follower(tmp_path: Path) -> None:
    def ensure(options: Any, request: Any, *, check_mode: bool, meter: Meter) -> dict[str, Any]:
        time.sleep(0.3)
        raise RankzeroError("packages: numpy has no wheel", missing=["numpy"])

    ask(ensure)
    for _follower in range(3):
        with pytest.raises(RankzeroError, match="no wheel"):
            until_done(ensure)


def test_a_caller_that_looks_before_another_one_begins_joins_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, tries = tmp_path / "gate", tmp_path / "tries"

    def ensure(options: Any, request: Any, *, check_mode: bool, meter: Meter) -> dict[str, Any]:
        tries.open("a").write("x")
        while not gate.exists():
            time.sleep(0.02)
        return {"process": os.getpid()}

    usable = background._usable

    def overtaken(desk: background.WorkFolder) -> bool:
        monkeypatch.setattr(background, "_usable", usable)
        usable_then = usable(desk)
        assert "going" in ask(ensure)
        return usable_then

    monkeypatch.setattr(background, "_usable", overtaken)
    assert "going" in ask(ensure)
    gate.touch()
    assert "process" in until_done(ensure)
    assert tries.read_text() == "x"


def test_what_was_begun_at_once_is_done_once(tmp_path: Path) -> None:
    script = tmp_path / "caller.py"
    script.write_text(
        "import os, sys, time\n"
        "from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.background import run_or_follow\n"
        "def ensure(options, request, *, check_mode, meter):\n"
        "    open(sys.argv[2], 'a').write('x')\n"
        "    while not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
        "    return {'process': os.getpid()}\n"
        "request = {'follow': 0.0, 'again': False}\n"
        "run_or_follow('builds it', ensure, {'x_request': request}, check_mode=False)\n"
        "print('asked', flush=True)\n"
        "request = {'follow': 30.0, 'again': True}\n"
        "sys.stdin.readline()\n"
        "print(run_or_follow('builds it', ensure, {'x_request': request}, check_mode=False)['process'])\n"
    )
    gate, tries = tmp_path / "gate", tmp_path / "tries"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    callers = [
        subprocess.Popen(
            [sys.executable, str(script), str(gate), str(tries)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _caller in range(4)
    ]
    for caller in callers:
        assert caller.stdout and caller.stdout.readline() == "asked\n"
    gate.touch()
    ends = [caller.communicate("\n")[0] for caller in callers]
    assert len(set(ends)) == 1 and ends[0].strip().isdigit(), ends
    assert tries.read_text() == "x"


def test_results_are_removed_a_day_after_the_last_call(tmp_path: Path) -> None:
    def ensure(options: Any, request: Any, *, check_mode: bool, meter: Meter) -> dict[str, Any]:
        return {"made": request["name"]}

    ask(ensure, seconds=LIMIT)
    [old] = (tmp_path / "cache").rglob("*.work")
    other = {"name": "other", "follow": LIMIT}
    run_or_follow("builds it", ensure, {"x_request": other}, check_mode=False)
    assert old.exists() and len(list(old.parent.iterdir())) == 2
    os.utime(old / "lease", (time.time() - 90000,) * 2)
    run_or_follow("builds it", ensure, {"x_request": other}, check_mode=False)
    assert not old.exists() and len(list(old.parent.iterdir())) == 1
    # Even then a follower that has asked before gets its answer: the work is done again.
    assert until_done(ensure) == {"made": "it"}


def test_an_error_arrives_with_its_facts_and_is_not_kept(tmp_path: Path) -> None:
    def ensure(options: Any, request: Any, *, check_mode: bool, meter: Meter) -> dict[str, Any]:
        time.sleep(0.5)
        (tmp_path / "tries").open("a").write("x")
        raise RankzeroError("packages: numpy has no wheel", missing=["numpy"])

    with pytest.raises(RankzeroError, match="no wheel") as caught:
        ask(ensure, seconds=LIMIT)
    assert caught.value.partial == {"missing": ["numpy"]}
    # Nobody reads the error of the next one: whoever comes later gets a new try.
    ask(ensure)
    [desk] = (owner.parent for owner in (tmp_path / "cache").rglob("owner") if not (owner.parent / "read").exists())
    until = time.monotonic() + LIMIT
    while not (desk / "result.json").exists() and time.monotonic() < until:
        time.sleep(0.02)
    owner = (desk / "owner").read_text()
    while time.monotonic() < until and lives(owner):
        time.sleep(0.02)
    with pytest.raises(RankzeroError, match="no wheel"):
        ask(ensure, seconds=LIMIT)
    assert (tmp_path / "tries").read_text() == "xxx"


def test_a_killed_one_is_told_apart(tmp_path: Path) -> None:
    def ensure(options: Any, request: Any, *, check_mode: bool, meter: Meter) -> dict[str, Any]:
        time.sleep(LIMIT)
        return {}

    ask(ensure)
    [owner] = (tmp_path / "cache").rglob("owner")
    os.kill(int(owner.read_text()), signal.SIGKILL)
    with pytest.raises(RankzeroError, match="that builds it on the host was killed") as caught:
        until_done(ensure)
    assert caught.value.partial == {"killed": True}
    with pytest.raises(RankzeroError, match="was killed"):
        until_done(ensure)
    # The next first call tries again.
    assert "going" in ask(ensure)
    for owner in (tmp_path / "cache").rglob("owner"):
        if lives(owner.read_text()):
            os.kill(int(owner.read_text()), signal.SIGKILL)


def test_bytes_are_counted_of_programs_too(tmp_path: Path) -> None:
    size = 3_000_000
    program = f"open({str(tmp_path / 'out')!r}, 'wb').write(bytes({size}))"
    before = written()
    meter = Meter(written=written)
    meter.begin("packing")
    with subprocess.Popen(
        [sys.executable, "-c", f"{program}; print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        assert written() - before >= size, "while it runs"
        process.communicate(b"\n")
    assert size <= meter.reading().written < 2 * size, "once it has ended"


@pytest.mark.parametrize("place", ["cache", "cache/rankzero", "cache/rankzero/work"])
def test_a_result_that_others_could_have_left_is_not_believed(tmp_path: Path, place: str) -> None:
    """In a cache that a group shares, the name of the work's folder can be computed by everybody."""

    def ensure(options: Any, request: Any, *, check_mode: bool, meter: Meter) -> dict[str, Any]:
        return {"process": os.getpid()}

    assert ask(ensure, seconds=LIMIT)["process"] != os.getpid()
    records = tmp_path / "cache" / "rankzero" / "work"
    (works,) = records.iterdir()
    forged = works / "99" / "result.json"
    forged.parent.mkdir()
    forged.write_text('{"result": {"process": "forged"}}')
    assert ask(ensure, seconds=LIMIT) == {"process": "forged"}, "where it is looked for"
    shutil.rmtree(forged.parent)
    forged.parent.mkdir()
    forged.write_text('{"result": {"process": "forged"}}')
    (tmp_path / place).chmod(0o777)
    if place != "cache/rankzero/work":
        # Who may write above it puts a folder of his own there, or a link.
        records.rename(tmp_path / "aside")
        records.symlink_to(tmp_path / "aside")
    assert ask(ensure, seconds=LIMIT)["process"] == os.getpid()
