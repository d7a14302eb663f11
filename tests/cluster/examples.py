# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples as a user runs them: a copy of the folder, its own playbook, a lab in the place of the cluster. The user
is the lab's ordinary one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.conftest import LabCluster
from tests.cluster.lab_user import LabUser
from tests.repository import BIN, ROOT

EXAMPLES = ROOT / "examples"
#: Ansible's own output, which has every line of a launch. The screen of the examples is tested in test_screen.py.
ALL_LINES = {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}


class Example:
    """A copy of an example, whose runs lie in a state_root of its own. `store` is shared by all: what one has built."""

    def __init__(self, lab: LabCluster, name: str, folder: Path, *, root: bool = False, **cluster: Any) -> None:
        self.lab = lab
        self.user = LabUser(lab, root)
        self.name = name
        self.folder = folder / name
        ignored = shutil.ignore_patterns("runs", "__pycache__", ".ansible")
        shutil.copytree(EXAMPLES / name, self.folder, ignore=ignored)
        place = self.user.place("example")
        self.state_root = f"{place}/state-{name}-{os.getpid()}"
        self.cluster = {"state_root": self.state_root, "store_root": f"{place}/store_root", **cluster}

    def edit(self, path: str, changes: Mapping[str, str]) -> None:
        """Replace what a test cannot have; each text must be there."""
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        for old, new in changes.items():
            assert old in text, f"{path} has no {old!r}"
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")

    def play(
        self, *arguments: str, playbook: str = "train.yml", env: Mapping[str, str] | None = None, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        extra = json.dumps({"launch_cluster": self.cluster, **variables})
        where = ["-i", "inventory/lab.yml", *self.user.inventory(self.folder)]
        return subprocess.run(
            [str(BIN / "ansible-playbook"), *where, playbook, "-e", extra, *arguments],
            cwd=self.folder,
            env={**os.environ, **ALL_LINES, "RANKZERO_LAB": str(self.lab.dir), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )

    def own(self, inside: str) -> Path:
        """A folder of the user's below what the lab shares, made where it is missing, as this machine sees it."""
        place = self.host_path(inside)
        place.mkdir(parents=True, exist_ok=True)
        self.user.give(place)
        return place

    def host_path(self, inside: str) -> Path:
        """A path below /shared as this machine sees it."""
        return self.lab.shared / inside[len(self.lab.shared_inside) + 1 :]

    def runs(self, name: str) -> list[Path]:
        """The run directories of a job's launches, the oldest first."""
        found = self.host_path(self.state_root).glob(f"runs/{name}/*/[0-9]*")
        return sorted(found, key=lambda path: path.stat().st_ctime)

    def remove(self) -> None:
        shutil.rmtree(self.host_path(self.state_root), ignore_errors=True)


def packages(pyproject: Path) -> list[str]:
    """What the project of an example needs."""
    found = re.search(r"^dependencies = \[\n(.*?)^\]", pyproject.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    return sorted(found[1].split())


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
