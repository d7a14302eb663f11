# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source of Event-Driven Ansible, as the asyncio program that it is, with a command that answers."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.repository import ROOT, load_yaml
from tests.warm_playbooks import lives

PATH = ROOT / "extensions" / "eda" / "plugins" / "event_source" / "launches.py"


@pytest.fixture(scope="module")
def source() -> ModuleType:
    spec = importlib.util.spec_from_file_location("launches", PATH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch(state: str, generation: int = 1) -> dict[str, Any]:
    ended = state in ("failed", "proven")
    status = {
        "completed": ended, "success": state == "proven", "active": not ended, "attempt": 0, "message": state,
        "started_at": None if state == "submitted" else 5.0, "exit_code": 3 if state == "failed" else None,
        "nodes": ["node01"], "result": None,
    }  # fmt: skip
    run_dir = f"/state/runs/gpt/0123456789abcdef/{generation}"
    identity = {"name": "gpt", "key": "0123456789abcdef", "generation": generation, "job_id": "7", "run_dir": run_dir}
    return {"cluster": "lab", **identity, "status": status}


def command(folder: Path, answers: Sequence[str]) -> list[str]:
    """A command that gives one answer after the other, and the last one from then on."""
    for number, answer in enumerate(answers):
        (folder / f"answer-{number}").write_text(answer, encoding="utf-8")
    program = folder / "rankzero"
    program.write_text(
        f'#!/bin/sh\ncd {folder} && echo "$@" >> words\nn=$(($(wc -l < words) - 1))\n'
        f"[ -e answer-$n ] || n={len(answers) - 1}\ncat answer-$n\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return [str(program)]


def said(*launches: dict[str, Any]) -> str:
    return json.dumps({"schema": "rankzero/ls/1", "exit_code": 0, "error": None, "launches": list(launches)})


def asked(folder: Path, times: int) -> Callable[[], bool]:
    """Whether the command has been asked that often: one look less is over."""
    words = folder / "words"
    return lambda: words.exists() and words.read_text(encoding="utf-8").count("\n") >= times


def events(source: ModuleType, count: int, until: Callable[[], bool], **args: Any) -> list[dict[str, Any]]:
    """The first events of the source. There must be no more of them until a condition holds."""

    async def run() -> list[dict[str, Any]]:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        task = asyncio.create_task(source.main(queue, {"interval": 0.01, **args}))
        found = []
        try:
            for _number in range(count):
                found.append((await asyncio.wait_for(queue.get(), 30))["launch"])
            while not until():  # noqa: ASYNC110  # what a command has written tells
                await asyncio.sleep(0.01)
            assert queue.empty(), queue.get_nowait()
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=30)
            assert task.cancelled(), "a cancelled source goes on"
        return found

    return asyncio.run(run())


def test_each_change_is_one_event(source: ModuleType, tmp_path: Path) -> None:
    """What was there before is none, a repeated state is none, and trouble in between loses nothing."""
    old = launch("failed", 9)
    answers = [
        said(old), said(old, launch("submitted")), said(old, launch("submitted")), "no JSON",
        said(old, launch("started")),
        json.dumps({"exit_code": 6, "error": "no route", "launches": []}), said(old, launch("failed")),
        said(old, launch("failed"), launch("submitted", 2)), said(old, launch("failed"), launch("proven", 2)),
    ]  # fmt: skip
    until = asked(tmp_path, len(answers) + 3)
    found = events(source, 5, until, command=command(tmp_path, answers), inventory=["a", "b"])
    assert [(event["event"], event["generation"]) for event in found] == [
        ("submitted", 1), ("started", 1), ("failed", 1), ("submitted", 2), ("proven", 2)
    ]  # fmt: skip
    assert (
        set(found[2]) == {*source.NAMES, *source.FIELDS, "event"}
        and found[2]["exit_code"] == 3
        and found[2]["cluster"] == "lab"
    )
    assert (tmp_path / "words").read_text(encoding="utf-8").splitlines()[0] == "ls --json -i a -i b"


def test_a_source_that_was_stopped_goes_on_where_it_was(source: ModuleType, tmp_path: Path) -> None:
    memory = tmp_path / "seen.json"
    first = command(tmp_path, [said(launch("started"))])

    def seen(count: int, words: list[str]) -> list[str]:
        (tmp_path / "words").unlink(missing_ok=True)
        found = events(source, count, asked(tmp_path, 3), command=words, remember=str(memory))
        return [event["event"] for event in found]

    assert seen(0, first) == []
    again = command(tmp_path, [said(launch("failed"))])
    assert seen(1, again) == ["failed"]
    assert seen(0, again) == []
    memory.write_text("{", encoding="utf-8")
    assert seen(0, again) == [], "a damaged file is a first look"


def test_a_command_that_is_missing_or_hangs_ends_nothing_and_is_told_once(
    source: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, look = [], source.launches_now

    async def counted(args: Any) -> Any:
        looks.append(args)
        return await look(args)

    monkeypatch.setattr(source, "launches_now", counted)
    for words, message in (
        (["/nowhere/rankzero"], "No such file or directory"),
        (["/bin/sh", "-c", "exec sleep 60"], "no answer within 0.05 s"),
    ):
        looks.clear()
        assert events(source, 0, lambda: len(looks) > 3, command=words, timeout=0.05) == []
        assert capsys.readouterr().out.count(message) == 1


def test_a_look_that_is_cancelled_leaves_no_process(source: ModuleType, tmp_path: Path) -> None:
    """Neither the command nor what it has started, at whatever moment it is cancelled."""
    child = tmp_path / "child"
    words = ["/bin/sh", "-c", f"sleep 600 & echo $! > {child}; wait"]

    async def look() -> None:
        begun = lambda: child.exists() and child.read_text(encoding="utf-8").endswith("\n")  # noqa: E731
        task = asyncio.create_task(source.launches_now({"command": words}))
        while not begun():
            await asyncio.sleep(0)
            assert not task.done()
        task.cancel()
        await asyncio.wait([task], timeout=60)
        assert task.cancelled()

    asyncio.run(look())
    number = child.read_text(encoding="utf-8").strip()
    until = time.monotonic() + 30
    while lives(number) and time.monotonic() < until:
        time.sleep(0.01)
    assert not lives(number)


HOSTILE = ('{{ lookup("pipe", "id") }}', "{% if 1 %}", "7\n", "7" * 300, "7; id", "\u0667", None, ["7"])


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["cluster", "name", "key", "generation", "job_id"])
def test_a_launch_with_a_name_that_none_can_have_is_no_event(source: ModuleType, name: str, text: Any) -> None:
    assert len(source.changes([launch("failed")], {})) == 1
    without_job = name == "job_id" and text is None
    assert len(source.changes([{**launch("failed"), name: text}], {})) == without_job


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["message", "result", "nodes", "attempt", "exit_code", "reason"])
def test_no_text_of_the_cluster_is_in_an_event(source: ModuleType, name: str, text: Any) -> None:
    bad = launch("failed")
    bad["status"][name] = bad["logs_dir"] = text
    (event,) = source.changes([bad], {})
    assert text is None or text not in event["launch"].values()


def test_the_rulebook_and_the_play_fit_the_source(source: ModuleType) -> None:
    """Every value that the rules read is one that an event has."""
    (rulebook,) = load_yaml("examples/monitoring/rulebook.yml")
    variables = load_yaml("examples/monitoring/vars.yml")
    (options,) = [each["rankzero.slurm.launches"] for each in rulebook["sources"]]
    known = load_options(source)
    assert set(options) <= known and set(variables) == {"inventories", "jobs", "most", "interval", "remember"}
    text = json.dumps(rulebook)
    asked = {word.split()[0].rstrip('"') for word in text.replace("}}", " ").split("event.launch.")[1:]}
    assert asked <= {*source.NAMES, *source.FIELDS, "event"} and "generation" in asked
    passed = set(rulebook["rules"][0]["action"]["run_playbook"]["extra_vars"])
    play = (ROOT / "examples" / "monitoring" / "relaunch.yml").read_text(encoding="utf-8")
    assert all(name in play for name in passed)


def load_options(source: ModuleType) -> set[str]:
    import yaml

    return set(yaml.safe_load(source.DOCUMENTATION)["options"])
