# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where one task is played: an agent's folder, an inventory of a lab's login node, and what came of it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.launching import FINAL, Site
from tests.repository import BIN, CACHE, ROOT

#: Bounds in seconds of what a task's set-up types, and of the wait for a state.
TYPING, WAITING = 240, 120


@dataclass(frozen=True)
class Run:
    """A launch as its run directory tells: `success` and `result` are None and empty while there is no verdict."""

    name: str
    key: str
    generation: int
    nodes: tuple[str, ...]
    success: bool | None
    result: Mapping[str, Any]
    path: Path

    @property
    def spec(self) -> Mapping[str, Any]:
        """The job as it was launched."""
        spec: Mapping[str, Any] = json.loads((self.path / "launch.json").read_text(encoding="utf-8"))["spec"]
        return spec


class Ground:
    """The agent's folder `place`, on a lab of which nobody else uses anything."""

    def __init__(self, site: Site) -> None:
        self.site, self.lab = site, site.lab
        self.place = site.folder / "project"
        self.home = site.folder / "home"
        self.notes: dict[str, Any] = {}
        tools = site.folder / "tools"
        for folder in (self.place, self.home, tools):
            folder.mkdir()
        self._called = tools / "called"
        words = f"PYTHONPATH={shlex.quote(str(ROOT / 'python'))} exec {sys.executable} -m rankzero"
        command = f'#!/bin/sh\necho "$1" >> {shlex.quote(str(self._called))}\n{words} "$@"\n'
        (tools / "rankzero").write_text(command, encoding="utf-8")
        (tools / "rankzero").chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "SLURM_"))}
        kept.pop("CI", None)
        paths = {"PATH": os.pathsep.join(map(str, (tools, BIN, os.environ["PATH"]))), "HOME": str(self.home)}
        own = {"XDG_CACHE_HOME": str(self.home / ".cache"), "ANSIBLE_COLLECTIONS_PATH": str(CACHE / "collections")}
        self.environment = {**kept, **paths, **own}
        login = {
            "ansible_connection": "local",
            "ansible_shell_executable": str(site.lab.shell),
            "ansible_python_interpreter": "/usr/bin/python3",
            "launch_cluster": site.cluster,
            **site.user.variables(),
        }
        self.write("inventory/hosts.json", json.dumps({"slurm_login": {"hosts": {"login": login}}}, indent=1))

        # Of the same launch by another agent.
        self._before = {*self.slurm("squeue", "--noheader", "--states=all", "--Format=JobID:20").split()}

    # Before the agent.

    def write(self, path: str, text: str) -> None:
        """A file in the agent's folder."""
        target = self.place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def types(self, line: str) -> str:
        """What somebody has typed in the folder before; it may fail. What it printed."""
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.place, env=self.environment, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TYPING, check=False,
        )  # fmt: skip
        return done.stdout

    def agent(self, command: str, text: str, seconds: float) -> tuple[int | None, str]:
        """Exit code and output of an agent, which reads its task from its input. None: it was ended after `seconds`."""
        self._called.write_text("", encoding="utf-8")
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=self.place, env=self.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            printed = process.communicate(text, timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
        return process.returncode, printed

    def wait_until(self, true: Callable[[], bool], what: str) -> None:
        """Wait for a state of the lab."""
        self.lab.wait_until(true, WAITING, what)

    def slurm(self, *words: str) -> str:
        """What a command of Slurm's administrator prints on the head."""
        printed: str = self.lab.head([*words]).stdout
        return printed

    # After the agent.

    def runs(self, name: str = "") -> list[Run]:
        """The launches there are, or those of a name."""
        found = []
        for path in self.site.runs():
            own, key = path.parent.parent.name, path.parent.name
            if key.startswith(".") or not path.name.isdecimal():
                # What a sweep's elements share, and half of a removal.
                continue
            verdict = _document(path / "outcome.json")
            artifact = verdict.get("artifact") or {}
            nodes = tuple(_document(path / "started.json").get("nodes") or ())
            result = artifact.get("scalars") or {}
            run = Run(own, key, int(path.name), nodes, verdict.get("success"), result, path)
            found += [run] if name in ("", own) else []
        return found

    def proven(self, name: str) -> list[Run]:
        """The launches of a name that have succeeded."""
        return [run for run in self.runs(name) if run.success]

    def jobs(self, *names: str) -> dict[str, str]:
        """Job id -> state of the jobs of these launches, and of all without one, also of those that have ended."""
        own = {f"{run.name}.{run.key}" for run in self.runs() if not names or run.name in names}
        listed = self.slurm("squeue", "--noheader", "--states=all", "--Format=JobID:20,State:20,Name:200")
        rows = [line.split(maxsplit=2) for line in listed.splitlines()]
        mine = [row for row in rows if row[0] not in self._before and row[2].strip().rpartition(".")[0] in own]
        return {job: state for job, state, _name in mine}

    def active(self, *names: str) -> list[str]:
        """The jobs of these launches that wait or run."""
        return [job for job, state in self.jobs(*names).items() if state not in FINAL and state != "COMPLETING"]

    def answer(self) -> dict[str, Any]:
        """What the agent wrote into answer.json; empty if it is no JSON object."""
        return _document(self.place / "answer.json")

    def calls(self) -> int:
        """How often the command was called since the agent began."""
        return len(self._called.read_text(encoding="utf-8").splitlines())

    def clear(self) -> None:
        """Cancel what is left, and wait for its end."""
        if left := self.active():
            self.lab.head(["scancel", *left], check=False)
            self.wait_until(lambda: not self.active(), "what is left has ended")


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


@dataclass(frozen=True)
class Task:
    """One task. `text`: what the agent is told. `files`: what its folder holds. `before`: what has happened before, as
    lines that are typed, and `prepare`, what is so on the cluster. `check`: yields what is not as it should be.
    `solution`: lines of bash that solve it.
    """

    name: str
    text: str
    check: Callable[[Ground], Iterator[str]]
    solution: str
    files: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    prepare: Callable[[Ground], Callable[[], None]] | None = None

    @contextmanager
    def played(self, ground: Ground) -> Iterator[None]:
        """Make everything as the task wants it, and undo it on the cluster at the end."""
        for path, text in self.files.items():
            ground.write(path, text)
        undo = self.prepare(ground) if self.prepare else None
        try:
            if self.before:
                ground.notes["typed"] = ground.types(self.before)
            yield
        finally:
            ground.clear()
            if undo:
                undo()
