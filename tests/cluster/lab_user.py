# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who the cluster tests are: the lab's ordinary user, as who launches is one.

A test that needs root says why: `pytest.mark.needs_root("why")` (tests/quality/test_lab_users.py counts them).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile


class LabUser:
    """Who works on a lab: its ordinary user. `root` where a test needs root; in a lab of the simple way nobody is."""

    def __init__(self, lab: Any, root: bool = False) -> None:
        self.lab = lab
        self.ordinary = lab.way == "realistic" and not root
        self.name, self.uid = (profile.USER, profile.UID) if self.ordinary else ("root", os.getuid())

    def become(self) -> Sequence[str]:
        """The words before a command on the head or a node that make it his, as after a login."""
        return profile.become_user(self.lab.lab) if self.ordinary else ()

    def variables(self) -> dict[str, str | bool]:
        """What a host of an inventory says so that Ansible works as him."""
        return profile.become_variables(self.lab.lab) if self.ordinary else {}

    def inventory(self, folder: Path) -> list[str]:
        """Options of Ansible's programs: whatever the inventory says, its login nodes are worked on as him."""
        if not self.ordinary:
            return []
        path = folder / ".user.json"
        # Once: a play that begins while it is written again reads an empty file, and works as root.
        if not path.exists():
            path.write_text(json.dumps({"slurm_login": {"vars": self.variables()}}), encoding="utf-8")
        return ["-i", str(path)]

    def place(self, name: str) -> str:
        """A folder of his own below what the lab shares, made where it is missing; its path on the lab."""
        inside = f"{self.lab.shared_inside}/{name if self.ordinary else f'{name}-root'}"
        here = Path(self.lab.shared) / Path(inside).name
        here.mkdir(exist_ok=True)
        if self.ordinary:
            os.chown(here, profile.UID, profile.UID)
        return inside

    def give(self, *paths: Path) -> None:
        """Make what a test has written into his places, with all that is below it, his."""
        if self.ordinary:
            own = ["chown", "-hR", f"{profile.UID}:{profile.UID}", "--", *map(str, paths)]
            subprocess.run(own, check=True)
