# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first hour on a cluster: from the wheel and a script of one's own, through a real sshd, to a proven result."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rankzero import errors
from tests import wheels
from tests.cluster.conftest import LabCluster
from tests.cluster.door import Door
from tests.cluster.launching import Site
from tests.repository import BIN, CACHE

SECONDS = 300
PROGRAM = """\
import json, os
if os.environ["RANK"] == "0":
    json.dump({"loss": 0.5}, open("result.json", "w"))
"""
WAITS = """\
import os, time
while not os.path.exists("go"):
    time.sleep(0.1)
"""
#: A head without Slurm: its commands cannot be executed there.
WITHOUT_SLURM = (
    'for name in scontrol sinfo squeue sbatch; do mount --bind /dev/null $(command -v $name) || exit 1; done; exec "$@"'
)


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.installed(wheels.built(tmp_path_factory.mktemp("wheel")), tmp_path_factory.mktemp("venv"))


class Newcomer:
    """Somebody with the wheel, a key, a home of his own, and an empty folder but for his program."""

    def __init__(self, folder: Path, command: Path, home: Path) -> None:
        self.project, self.home, self.folder = folder / "project", home, folder
        self.project.mkdir()
        (self.project / "train.py").write_text(PROGRAM, encoding="utf-8")
        self.doors: list[Door] = []
        self.config = ["StrictHostKeyChecking accept-new", f"UserKnownHostsFile {folder}/known"]
        tools = folder / "tools"
        tools.mkdir()
        # OpenSSH takes ~/.ssh/config from the home in the system's list of users, not from $HOME.
        (tools / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n', encoding="utf-8")
        (tools / "ssh").chmod(0o755)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_") and name != "CI"},
            "HOME": str(home),
            "PATH": os.pathsep.join(map(str, (tools, command.parent, BIN, "/usr/bin", "/bin"))),
            "PYTHONPATH": "",
        }
        self.typed: list[str] = []

    def door(
        self, name: str, lab: LabCluster, onto: Sequence[str], *more: str, key: Path | None = None, **options: bool
    ) -> Door:
        """A host of ~/.ssh/config: an sshd, the key that is offered to it, and `more` lines; `options` of the sshd."""
        door = Door(self.folder / f"door-{name}", lab, onto, **options)
        self.doors.append(door)
        lines = [
            *more,
            f"HostName 127.0.0.1\n  Port {door.port}\n  IdentityFile {key or door.key}\n  IdentitiesOnly yes",
        ]
        self.config.append(f"Host {name}\n  " + "\n  ".join(lines))
        (self.folder / "config").write_text("\n".join(self.config) + "\n", encoding="utf-8")
        return door

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.typed.append(" ".join(words))
        return subprocess.run(
            words, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip

    def files(self) -> dict[str, str]:
        """What he has, by its path: without the fetched logs."""
        return {
            str(path.relative_to(self.project)): path.read_text(encoding="utf-8")
            for path in self.project.rglob("*")
            if path.is_file() and "runs" not in path.relative_to(self.project).parts
        }

    def started(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on; its output and its errors are one text."""
        return subprocess.Popen(
            words, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def logs_in(self, words: Sequence[str], door: Door) -> None:
        """Type a command, and the code that it asks for."""
        answer = self.folder / "answer"
        answer.write_text(f"#!/bin/sh\necho {door.code()}\n", encoding="utf-8")
        answer.chmod(0o755)
        typed = {"SSH_ASKPASS": str(answer), "SSH_ASKPASS_REQUIRE": "force"}
        # The process that keeps the connection holds the messages open.
        done = subprocess.run(
            words, env={**self.environment, **typed}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, door.log.read_text()

    def wait_for_launch(self, name: str, site: Site) -> Path:
        """The run directory of his launch of that name, once its ranks may look for a file in it."""
        seen: list[str] = []

        def there() -> bool:
            listed = json.loads(self.types("rankzero", "ls", "--all", "--json").stdout)["launches"]
            seen[:] = [launch["run_dir"] for launch in listed if launch["name"] == name and launch["status"]["active"]]
            return bool(seen) and (site.host_path(seen[0]) / "started.json").exists()

        site.lab.wait_until(there, 60, f"{name} starts")
        return site.host_path(seen[0])

    def hang_up(self) -> None:
        """End the connections that are kept open, as a site does after some hours."""
        for master in (self.home / ".ansible" / "cp").glob("*"):
            ended = ["ssh", "-o", f"ControlPath={master}", "-O", "exit", "any"]
            subprocess.run(ended, capture_output=True, check=False)

    def close(self) -> None:
        self.hang_up()
        for door in self.doors:
            door.close()


@pytest.fixture
def newcomer(command: Path, tmp_path: Path) -> Iterator[Newcomer]:
    # A path of pytest is too long for the socket of an SSH connection.
    with tempfile.TemporaryDirectory(prefix="rankzero-", dir="/tmp") as home:
        made = Newcomer(tmp_path, command, Path(home))
        yield made
        made.close()


def shell_of(site: Site) -> list[str]:
    """A shell of the lab's user on the head, as sshd gives him one."""
    return [str(site.lab.dir / "bin" / "head"), *site.user.become(), "/bin/sh"]


def command_in(told: str) -> list[str]:
    """The command that a refusal gives, which the width of the screen may break."""
    (command,) = set(re.findall(r"ssh -o ControlMaster=.*? true\b", " ".join(told.split())))
    return shlex.split(command)


def test_from_a_script_to_a_proven_result(newcomer: Newcomer, site: Site) -> None:
    newcomer.door("cluster", site.lab, shell_of(site))
    first = newcomer.types("rankzero", "init", "--login", "cluster")
    assert first.returncode == errors.OK, first.stdout + first.stderr
    assert "hello" in first.stdout and "Proven" in first.stdout and "nodes 2 (= 2)" in first.stdout, first.stdout
    ran = newcomer.types("rankzero", "run", "jobs/project.yml")
    assert ran.returncode == errors.OK and "Proven" in ran.stdout, ran.stdout + ran.stderr
    assert len(newcomer.typed) <= 3
    listed = json.loads(newcomer.types("rankzero", "ls", "--all", "--json").stdout)["launches"]
    mine = [launch for launch in listed if launch["name"] in ("hello", "project")]
    assert len(mine) == 2 and all(launch["status"]["success"] for launch in mine), listed

    # The same again: no file of his is touched, and hello is the same launch.
    (newcomer.project / "jobs" / "project.yml").write_text("mine", encoding="utf-8")
    before = newcomer.files()
    again = newcomer.types("rankzero", "init", "--login", "cluster")
    assert again.returncode == errors.OK, again.stdout + again.stderr
    assert newcomer.files() == before
    assert again.stdout.count("it was left as it is") == 2 and "has succeeded already" in again.stdout, again.stdout


def test_what_is_wrong_is_said_and_nothing_is_written(newcomer: Newcomer, site: Site, tmp_path: Path) -> None:
    alone, shell = site.on_the_head(), shell_of(site)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    newcomer.door("cluster", site.lab, shell)
    newcomer.door("locked", site.lab, shell, key=tmp_path / "other")
    head = ["unshare", "--mount", "sh", "-c", WITHOUT_SLURM, "sh"]
    newcomer.door("plain", site.lab, [shell[0], *head, *shell[1:]])
    wrong = {
        ("--login", "nowhere.invalid"): (errors.UNREACHABLE, "Could not resolve hostname nowhere.invalid"),
        ("--login", "locked"): (errors.UNREACHABLE, "Permission denied (publickey)"),
        ("--login", "plain"): (errors.REFUSED, "the Slurm command 'scontrol' is not on host"),
        ("--login", "cluster", "--shared", alone): (errors.REFUSED, f"--shared {alone}: the nodes do not see"),
        ("--login", "cluster; true"): (errors.USAGE, "expected HOST or USER@HOST"),
    }
    before = newcomer.files()
    for words, (code, told) in wrong.items():
        done = newcomer.types("rankzero", "init", *words)
        assert done.returncode == code and told in done.stderr, (words, done.stdout + done.stderr)
        assert newcomer.files() == before
    assert not os.listdir(alone), "what the look has made is removed"


def test_a_jump_host_and_a_second_factor(newcomer: Newcomer, site: Site) -> None:
    """Nothing types a code, and nothing hangs: each refusal gives the command that opens the connection that is used,
    and a wait that lost its own ends. The job goes on, and the same command follows it.
    """
    jump = newcomer.door("jump", site.lab, ["/bin/false"])
    door = newcomer.door("cluster", site.lab, shell_of(site), "ProxyJump jump", two_factors=True)
    (newcomer.project / "train.py").write_text(WAITS + PROGRAM, encoding="utf-8")
    before = newcomer.files()
    refused = newcomer.types("rankzero", "init", "--login", "cluster")
    assert refused.returncode == errors.UNREACHABLE and newcomer.files() == before, refused.stderr
    log_in = command_in(refused.stderr)
    newcomer.logs_in(log_in, door)
    made = newcomer.types("rankzero", "init", "--login", "cluster")
    assert made.returncode == errors.OK and "Proven" in made.stdout, made.stdout + made.stderr
    assert "Accepted publickey" in jump.log.read_text() and "keyboard-interactive/pam" in door.log.read_text()

    run = ("rankzero", "run", "jobs/project.yml")
    newcomer.hang_up()
    refused = newcomer.types(*run)
    assert refused.returncode == errors.UNREACHABLE and command_in(refused.stdout + refused.stderr) == log_in
    play = ("ansible-playbook", "-i", "inventory", "rankzero.slurm.train", "-e", "job=jobs/project.yml")
    newcomer.environment["ANSIBLE_COLLECTIONS_PATH"] = str(CACHE / "collections")
    refused = newcomer.types(*play)
    assert refused.returncode and command_in(refused.stdout) == log_in, refused.stdout + refused.stderr
    del newcomer.environment["ANSIBLE_COLLECTIONS_PATH"]

    newcomer.logs_in(log_in, door)
    known = site.jobs("")
    with newcomer.started(*run) as running:
        mine = newcomer.wait_for_launch("project", site)
        newcomer.hang_up()
        told = running.communicate(timeout=SECONDS)[0]
    assert running.returncode and command_in(told) == log_in, told
    assert "not affected" in " ".join(told.split()) and not (mine / "outcome.json").exists(), told
    newcomer.logs_in(log_in, door)
    (mine / "work" / "go").touch()
    again = newcomer.types(*run)
    assert again.returncode == errors.OK and "Proven" in again.stdout, again.stdout + again.stderr
    assert len({*site.jobs("")} - {*known}) == 1, "the same command follows the job"
