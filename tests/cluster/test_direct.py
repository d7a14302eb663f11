# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""plan and logs on real Slurm, with and without ansible-playbook: the same requests, and the same files.

The inventory is a plain one: what stands there for the login node's shell makes the words of both ways the user's.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from rankzero import command, errors
from rankzero.playbook import Played
from tests.cluster.launching import RESULT, UNTIL_GO, Site
from tests.repository import CACHE

#: The folder of a task on the host, which only a playbook makes.
TASK_FOLDER = re.compile(r'"folder": (null|"[^"]*")')

#: Of the inventory, in another order than ansible-inventory gives.
LAYER = {"resources": {"time": "00:09:00"}, "env": {"ZED": 1, "ABC": "2"}}


class Typist:
    """Types a verb both ways, in a folder with a plain inventory. What arrives at the login node is noted."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
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
        out, err = (re.sub(r"start it at [\d-]+ [\d:]+", "start it at", text) for text in shown)
        return {"code": code, "out": out, "err": err, "asked": asked}

    def same(self, *words: str) -> dict[str, Any]:
        """What both ways do and say. Fails where they differ."""
        directly, played = self.types(*words, playbook=False), self.types(*words, playbook=True)
        assert directly["asked"] == played["asked"]
        assert directly["out"].splitlines() == played["out"].splitlines()
        assert directly == played
        return directly


@pytest.fixture
def typist(site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Typist:
    typist = Typist(site, monkeypatch, capfd)
    # The first call of a user leaves the code on the host.
    typist.types("ls", playbook=False)
    return typist


def test_a_plan_is_the_same_call_by_both_ways(typist: Typist) -> None:
    site = typist.site
    proven = {"require": {"loss": {"lt": 2}}}
    job = site.write(site.job(RESULT, artifact=proven))
    # No other test has brought this code to the cluster.
    (site.folder / "code" / "own.txt").write_text(site.token, encoding="utf-8")
    assert "to be built first: code" in typist.same("plan", job)["out"]
    assert site.play(job, wait=True).rc == 0
    planned = typist.same("plan", job, "-n", "2")
    assert "generation 1 would be submitted" in planned["out"] and len(planned["asked"]) == 1
    typist.same("plan", job, "--json", "--explain", "-s", 'artifact.require={"loss": {"lt": 1e-05}}')
    typist.same("plan", job, "-c", "login", "-s", "env={Z: 1, A: 2}")
    long = site.write(site.job(f"touch begun; {UNTIL_GO}", "long", artifact=proven), "long.yml")
    (launch,) = json.loads(typist.types("run", long, "-d", "--json", playbook=True)["out"])["launches"]
    site.wait_for(site.run_dir(launch) / "work" / "begun")
    assert "already there and active" in typist.same("plan", long)["out"]
    site.go(launch)
    assert typist.same("plan", "nowhere.yml")["code"] == errors.REFUSED


def test_logs_are_the_same_by_both_ways(typist: Typist) -> None:
    site = typist.site
    job = site.write(site.job(f"echo a line; {RESULT}", artifact={"require": {"loss": {"lt": 2}}}))
    assert site.play(job, wait=True).rc == 0
    shutil.rmtree("runs")
    directly = typist.types("logs", job, "--merge", playbook=False)
    taken = files("runs")
    assert any("a line" in text for text in taken.values())
    shutil.rmtree("runs")
    played = typist.types("logs", job, "--merge", playbook=True)
    assert directly == played and files("runs") == taken
    assert "nothing new to fetch" in typist.same("logs", job)["out"]
    assert typist.same("logs", "nobody")["code"] == errors.REFUSED


def files(folder: str) -> dict[str, str]:
    """The texts in a folder, by their paths."""
    return {str(path): path.read_text() for path in sorted(Path(folder).rglob("*")) if path.is_file()}
