# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories with programs in every place that git knows, and what became of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import provenance
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import take_snapshot

FILES = ("a.txt", "b.txt", "d.txt", "dir/c.txt", "e.txt", "f.txt")


def git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **(environment or {})}
    for role in ("AUTHOR", "COMMITTER"):
        clean.update({f"GIT_{role}_NAME": "T", f"GIT_{role}_EMAIL": "t@example.org"})
    command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, cwd=folder, env=clean, check=True, capture_output=True, text=True).stdout


class Trap:
    """Scripts that leave their own name, and repositories with committed and then changed files."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.top = place / "checkout"
        self.sprung_by = place / "sprung"
        for folder in ("sprung", "payloads"):
            (place / folder).mkdir()

    def payload(self, name: str) -> str:
        path = self.place / "payloads" / name.replace(" ", "-")
        path.write_text(f"#!/bin/sh\ntouch '{self.sprung_by / path.name}'\nexit 1\n")
        path.chmod(0o755)
        return str(path)

    def sprung(self) -> list[str]:
        return sorted(os.listdir(self.sprung_by))

    def repository(self, folder: Path, attributes: str = "") -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q")
        for name in FILES:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("one\n")
        if attributes:
            (folder / ".gitattributes").write_text(attributes)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "first")
        self.change(folder)
        return folder

    @staticmethod
    def change(folder: Path) -> None:
        for name in FILES:
            (folder / name).write_text("changed\n")

    def configure(self, folder: Path, settings: Mapping[str, str]) -> None:
        """`git config`, without a process for each."""
        with (folder / ".git/config").open("a") as stream:
            for name, value in settings.items():
                section, _dot, rest = name.partition(".")
                below, _dot, key = rest.rpartition(".")
                head = f'{section} "{below}"' if below else section
                stream.write(f'[{head}]\n\t{key} = "{value}"\n')

    def look(self, folder: Path) -> None:
        """Everything that the collection asks git. What cannot be read may be refused."""
        for ask in (self._snapshot, provenance.repository):
            with contextlib.suppress(RankzeroError):
                ask(str(folder))

    @staticmethod
    def _snapshot(folder: str) -> None:
        provenance.diff(take_snapshot(folder))
