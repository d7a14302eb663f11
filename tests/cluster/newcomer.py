# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Somebody who has the wheel and a key, and reaches the head of a lab through a real sshd."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.door import Door
from tests.cluster.launching import Site
from tests.repository import BIN

if TYPE_CHECKING:
    from tests.cluster.conftest import LabCluster

SECONDS = 300
PROGRAM = """\
import json, os
if os.environ["RANK"] == "0":
    json.dump({"loss": 0.5}, open("result.json", "w"))
"""


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


def shell_of(site: Site) -> list[str]:
    """A shell of the lab's user on the head, as sshd gives him one."""
    return [str(site.lab.dir / "bin" / "head"), *site.user.become(), "/bin/sh"]
