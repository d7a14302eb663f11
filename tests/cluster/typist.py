# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Somebody who types a verb with and without ansible-playbook, in a folder with a plain inventory.

What stands there for the login node's shell makes the words of both ways the user's.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from rankzero import command
from rankzero.playbook import Played
from tests.cluster.launching import Site
from tests.repository import CACHE

#: The folder of a task on the host, which only a playbook makes.
TASK_FOLDER = re.compile(r'"folder": (null|"[^"]*")')

#: What a look at a launch that runs has, and no other call. And what a wait asks by how it went: how often it has asked
#: Slurm, and for how long Slurm may still have to close the job. If that had ended before, it asks once, else twice.
LOOKS = '"x_poll": {'
WAITED = re.compile(r'"(x_asked|x_settle)": (null|[\d.]+)')

#: A row that is shown while something goes on, as of a task that says nothing for ten seconds: whether there is any
#: depends on the machine. And what the hours went to.
RUNNING = re.compile(r"^ *>  .*\n", re.MULTILINE)
HOURS = re.compile(r"^[\d.]+ node-minutes: .*")

#: Of the inventory, in another order than ansible-inventory gives.
LAYER = {"resources": {"time": "00:09:00"}, "env": {"ZED": 1, "ABC": "2"}}


class Typist:
    """Types a verb both ways, in a folder with a plain inventory. What arrives at the login node is noted."""

    def __init__(
        self, site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], **more: str
    ) -> None:
        self.site, self._patch, self._capfd = site, monkeypatch, capfd
        self.noted = site.folder / "noted"
        self.noted.mkdir()
        enter = shlex.join([str(site.lab.lab.path("bin", "head")), *site.user.become(), "/bin/sh"])
        shell = site.program("user", f'n={self.noted}/$(ls {self.noted} | wc -l)\ntee "$n" | {enter} "$@"')
        own = {
            "ansible_connection": "local",
            "ansible_shell_executable": shell,
            "ansible_python_interpreter": "/usr/bin/python3",
            "launch_cluster": {**site.cluster, **LAYER},
            **more,
        }
        (site.folder / "inventory").mkdir()
        content = {"slurm_login": {"hosts": {"login": own}}}
        (site.folder / "inventory" / "hosts.json").write_text(json.dumps(content), encoding="utf-8")
        for name in [name for name in os.environ if name.startswith(("ANSIBLE_", "RANKZERO_"))]:
            monkeypatch.delenv(name)
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(CACHE / "collections"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(site.folder / ".cache"))
        monkeypatch.chdir(site.folder)

    def types(self, *words: str, playbook: bool) -> dict[str, Any]:
        """All that a command says and asks: by a playbook, or without one."""

        def other(*_given: Any, **_options: Any) -> Played | None:
            if playbook:
                return None
            raise AssertionError(f"{words} ran a playbook")

        shutil.rmtree(self.noted)
        self.noted.mkdir()
        with self._patch.context() as patch:
            patch.setattr(command, "directly" if playbook else "play", other)
            if playbook:
                # Ansible takes its own home for that of a user of this machine.
                patch.setenv("ANSIBLE_REMOTE_TMP", "/tmp/rankzero-test-$(id -u)")
            code = command.main(list(words))
        shown = self._capfd.readouterr()
        calls = [path.read_text() for path in sorted(self.noted.iterdir(), key=lambda path: int(path.name))]
        asked = [TASK_FOLDER.sub('"folder": null', text) for text in calls if text.startswith("{")]
        # Slurm is asked twice, and the minute may change between.
        out, err = (re.sub(r"start it at [\d-]+ [\d:]+", "start it at", RUNNING.sub("", text)) for text in shown)
        return {"code": code, "out": out, "err": err, "asked": asked}

    def afresh(self, *words: str) -> dict[str, Any]:
        """As `same`, of a launch that is submitted by both ways: each finds no launch. Only looks at one that runs, of
        which each way has as many as it takes, are left out.
        """
        seen = []
        for playbook in (False, True):
            shutil.rmtree(self.site.host_path(self.site.state_root), ignore_errors=True)
            shutil.rmtree("runs", ignore_errors=True)
            way = self.types(*words, playbook=playbook)
            asked = [WAITED.sub(r'"\1": 0', text) for text in way["asked"] if LOOKS not in text]
            asked = [text for text, _same in itertools.groupby(asked)]
            files = sorted(str(path) for path in Path("runs").rglob("rank-*") if path.is_file())
            seen.append({**{name: _masked(way[name]) for name in ("out", "err")}, "code": way["code"]})
            seen[-1].update(asked=asked, files=[_masked(path) for path in files])
        directly, played = seen
        return _equal(directly, played)

    def same(self, *words: str) -> dict[str, Any]:
        """What both ways do and say. Fails where they differ."""
        directly, played = self.types(*words, playbook=False), self.types(*words, playbook=True)
        return _equal(directly, played)


def _equal(directly: dict[str, Any], played: dict[str, Any]) -> dict[str, Any]:
    """The first of two that are the same. Fails where they differ, and shows both."""
    assert directly["asked"] == played["asked"], _first(directly["asked"], played["asked"])
    for name, value in directly.items():
        assert value == played[name], f"{name}: {value} <> {played[name]}"
    return directly


def _masked(text: str) -> str:
    """A text without what is another in each job: its number, when it ran, and how long."""
    text = "\n".join(line for line in text.splitlines() if not HOURS.match(line))
    text = re.sub(r"\b(job |job_id\": \"|slurm-|job-)\d+", r"\1N", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+(\+[\d:]+)?", "then", text)
    text = re.sub(r"\b\d+(\.\d+)? (s|ms|min)\b", "a while", text)
    text = re.sub(r"queued .* -> ", "", text)
    # A row has its duration only where that is worth a column.
    text = re.sub(r" {2,}a while$", "", text, flags=re.MULTILINE)
    return re.sub(r"\b[0-9]+\.[0-9]{2,}\b", "0.0", text)


def _first(ours: list[str], theirs: list[str]) -> str:
    """Where two lists of requests differ first: a request is large."""
    pairs = zip(ours, theirs)
    number, pair = next(((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1]), (0, ("", "")))
    at = next((n for n, (a, b) in enumerate(zip(*pair)) if a != b), min(map(len, pair)))
    return f"{len(ours)} and {len(theirs)} requests; the first that differs is {number}: " + " <> ".join(
        text[max(0, at - 120) : at + 120] for text in pair
    )
