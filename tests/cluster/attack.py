# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two ordinary users of one cluster, one of whom attacks the other: what the attack tests have in their hands.

Fixture `attack_lab` (conftest.py) gives each test an `AttackLab`. On the lab's head and on every node there are

    victim, attacker    two accounts, each with a group of its own, a home below /shared/home, and the group `project`
    root                the lab's root, for whom `as_root` runs a command: an administrator who looks at users' runs

and all of them run commands, launch, and submit jobs:

    attack_lab.as_attacker(["ln", "-s", "/etc/shadow", path])            on the head
    attack_lab.as_victim(["cat", path], node="node01", umask=0o002)      on a node
    attack_lab.write_as(ATTACKER, path, text, mode=0o666)                a file, and the folders above it
    attack_lab.launch_as(VICTIM, attack_lab.job("true"))                 a playbook; the modules run on the head as her
    attack_lab.task_as(VICTIM, "job_info", run_dir=path)                 one module (or action) as that user
    attack_lab.shared_folder(mode=0o2775, group="project")               a folder that both may write
    canary = attack_lab.canary()                                         canary.command is what the attacker plants
    assert canary.owners() == []                                         who has run it, by name

`ROOT` is a user like the others for `launch_as` and `task_as`. Everything of a test lies in folders of its own
(`home_of(user)`, `state_root(user)`, `store_root(user)`). Paths are those inside the lab; `host_path` gives the same
path as this machine sees it. **Hostile things are done by `as_attacker` and `write_as(ATTACKER, ...)` only**: the
process that runs the tests is root of the machine, and never opens what the attacker has made but through them.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.launching import Played, Site

PROJECT, PROJECT_GID = "project", 260020


@dataclass(frozen=True)
class User:
    """An account of the lab: its group has its name and number."""

    name: str
    uid: int

    @property
    def home(self) -> str:
        return "/root" if self.uid == 0 else f"/shared/home/{self.name}"


ROOT, VICTIM, ATTACKER = User("root", 0), User("victim", 260011), User("attacker", 260012)
PEOPLE = (VICTIM, ATTACKER)


@dataclass(frozen=True)
class Canary:
    """A command that leaves a mark in the name of whoever runs it."""

    lab: Any
    folder: str

    @property
    def command(self) -> str:
        """A line for the shell, for whatever executes what the attacker has written."""
        return f": > {shlex.quote(self.folder)}/$(id -un)"

    @property
    def python(self) -> str:
        """The same as a statement of Python."""
        return f"import os, pwd; open(os.path.join({self.folder!r}, pwd.getpwuid(os.geteuid())[0]), 'w').close()"

    def owners(self) -> list[str]:
        """Who has run it, judged by the owner of the mark and not by its name."""
        listed = self.lab.head(["find", self.folder, "-mindepth", "1", "-printf", "%u\n"]).stdout
        return sorted(set(listed.split()))


def add_accounts(lab: Any) -> None:
    """The accounts on the head and every node of a running lab. What the machine itself has is never touched: each has
    a mount namespace of its own, and gets other files over its own ones. Nothing happens where they are there.
    """
    place = lab.shared / ".accounts"
    place.mkdir(mode=0o755, exist_ok=True)
    members = ",".join(user.name for user in PEOPLE)
    added = {
        "passwd": [f"{user.name}:*:{user.uid}:{user.uid}:a user of the lab:{user.home}:/bin/bash" for user in PEOPLE],
        "group": [*(f"{user.name}:*:{user.uid}:" for user in PEOPLE), f"{PROJECT}:*:{PROJECT_GID}:{members}"],
    }
    for name, lines in added.items():
        if not (place / name).exists():
            known = lab.head(["cat", f"/etc/{name}"]).stdout
            (place / name).write_text("\n".join([*known.splitlines(), *lines]) + "\n", encoding="utf-8")
            (place / name).chmod(0o644)
    over = " && ".join(f"mount --bind {lab.shared_inside}/.accounts/{name} /etc/{name}" for name in added)
    mount = ["sh", "-c", f"grep -q '^{VICTIM.name}:' /etc/passwd || {{ {over}; }}"]
    lab.head(mount)
    for node in lab.nodes:
        lab.node(node, mount)
    homes = lab.shared / "home"
    for user in PEOPLE:
        home = homes / user.name
        if not home.exists():
            lab.head(["install", "-d", "-m", "755", "-o", user.name, "-g", user.name, user.home])


class AttackLab:
    """A lab with a victim, an attacker and an administrator, for one test."""

    def __init__(self, lab: Any, folder: Path, name: str) -> None:
        self.lab = lab
        self.site = Site(lab, folder, name, root=True)
        self.token = self.site.token
        self._folders = 0

    # Places.

    def home_of(self, user: User) -> str:
        """The folder of this test below a user's home."""
        return f"{user.home}/{self.site.slug}-{self.token}"

    def state_root(self, user: User) -> str:
        return f"{self.home_of(user)}/state"

    def store_root(self, user: User) -> str:
        return f"{self.home_of(user)}/store"

    def host_path(self, inside: str) -> Path:
        return self.site.host_path(inside)

    def shared_folder(self, mode: int = 0o1777, group: str = "root", owner: str = "root") -> str:
        """A new folder that both can reach, as an administrator makes one; by default as open as /tmp."""
        self._folders += 1
        path = f"{self.lab.shared_inside}/between-{self.token}-{self._folders}"
        self.lab.head(["sh", "-c", f"mkdir {path} && chown {owner}:{group} {path} && chmod {mode:o} {path}"])
        return path

    def canary(self) -> Canary:
        return Canary(self.lab, self.shared_folder())

    # People.

    def run_as(
        self,
        user: User,
        argv: Sequence[str],
        *,
        node: str = "",
        umask: int = 0o022,
        check: bool = True,
        input: str | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a user, as after a login, on the head or on a node."""
        command = [*_become(user), "sh", "-c", f'umask {umask:o}; cd; exec "$@"', "sh", *argv]
        options: dict[str, Any] = {"check": check, "input": input, "timeout": timeout}
        done: subprocess.CompletedProcess[str] = (
            self.lab.node(node, command, **options) if node else self.lab.head(command, **options)
        )
        return done

    def as_victim(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run_as(VICTIM, argv, **options)

    def as_attacker(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run_as(ATTACKER, argv, **options)

    def as_root(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run_as(ROOT, argv, **options)

    def write_as(self, user: User, path: str, text: str, *, mode: int = 0o644, node: str = "") -> str:
        """A file written by a user; folders that are missing above it are made. Returns `path`."""
        script = 'mkdir -p "${1%/*}" && cat > "$1" && chmod "$2" "$1"'
        self.run_as(user, ["sh", "-c", script, "sh", path, f"{mode:o}"], input=text, node=node)
        return path

    # Launches.

    def job(self, program: str | Sequence[str], name: str = "", **spec: Any) -> dict[str, Any]:
        """A job spec, as Site.job makes it."""
        return self.site.job(program, name, **spec)

    def play_as(
        self, user: User, job: Mapping[str, Any] | str | None, *arguments: str, umask: int = 0o022, **options: Any
    ) -> Played:
        """Run a playbook (train, unless `playbook` names another) whose modules run on the head as that user, with
        that umask. `options` are those of Site.start. The state and store are the user's own unless launch_cluster
        says otherwise.
        """
        options.setdefault("launch_cluster", self.cluster_of(user))
        return self.site.play(job, *arguments, **self.connection(user, umask), **options)

    def launch_as(self, user: User, job: Mapping[str, Any] | str, *arguments: str, **options: Any) -> dict[str, Any]:
        """Launch as that user without waiting; it has to succeed. What module job returned."""
        played = self.play_as(user, job, *arguments, **options)
        assert played.rc == 0, played.output
        return played.launch()

    def task_as(self, user: User, module: str, *, umask: int = 0o022, **arguments: Any) -> dict[str, Any]:
        """Run one module of the collection as that user. Its result, with `failed`."""
        play = [
            {
                "hosts": "slurm_login",
                "gather_facts": False,
                "tasks": [{f"rankzero.slurm.{module}": arguments, "ignore_errors": True}],
            }
        ]
        playbook = str(self.site.folder / self.site.write(play, f"task-{len(self.site.plays)}.yml"))  # type: ignore[arg-type]
        played = self.site.play(None, playbook=playbook, **self.connection(user, umask))
        results = played.results(f"rankzero.slurm.{module}")
        assert results, played.output
        return results[-1]

    def cluster_of(self, user: User) -> dict[str, Any]:
        return {"state_root": self.state_root(user), "store_root": self.store_root(user)}

    def outcome_of(self, launch: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for the verdict of a launch."""
        return self.site.outcome(launch)

    def close(self) -> None:
        """Cancel what runs, and remove these users' files from the nodes' shared folders, where other tests look."""
        self.site.close()
        whose = ["(", "-user", VICTIM.name, "-o", "-user", ATTACKER.name, ")"]
        take = ["find", "/tmp", "/var/tmp", "-mindepth", "1", "-maxdepth", "1", *whose, "-exec", "rm", "-rf", "{}", "+"]
        for node in self.lab.nodes:
            # A process that the cancellation ends may still write there.
            what = f"the users' files are gone from {node}"
            self.lab.wait_until(lambda node=node: not self.lab.node(node, take, check=False).returncode, 30, what)

    def connection(self, user: User, umask: int = 0o022) -> dict[str, Any]:
        """Variables with which Ansible's local connection is that user on the head, as the inventory of a site lab has
        them for its user. Ansible's become calls the shell a second time, inside: it sets the umask there.
        """
        shell = self.lab.dir / "bin" / f"sh-{umask:03o}"
        if not shell.exists():
            inside = f'[ ! -e {self.lab.shared_inside}/.accounts/passwd ] || exec /bin/sh "$@"'
            text = f'#!/bin/sh\numask {umask:o}\n{inside}\nexec {self.lab.shell} "$@"\n'
            shell.write_text(text, encoding="utf-8")
            shell.chmod(0o755)
        become = {
            "ansible_become": True,
            "ansible_become_method": "ansible.builtin.su",
            "ansible_become_user": user.name,
            "ansible_pipelining": True,
        }
        return {"ansible_shell_executable": str(shell), **(become if user.uid else {})}


def _become(user: User) -> list[str]:
    if user.uid == 0:
        return ["env", "HOME=/root", "USER=root", "LOGNAME=root"]
    ids = [f"--reuid={user.uid}", f"--regid={user.uid}", "--init-groups"]
    return ["setpriv", *ids, "env", f"HOME={user.home}", f"USER={user.name}", f"LOGNAME={user.name}"]


def skip_without_users(lab: Any) -> None:
    """Skip a test where two users cannot be had."""
    if lab.way != "realistic":
        pytest.skip("in a lab of the simple way everybody is one user; the realistic way needs root")
