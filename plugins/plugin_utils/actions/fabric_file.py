# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the file of a measured choice on the controller, unless that would replace a user's own file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable_lines
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.group_vars import is_ours
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place


def is_read(dest: str, inventories: Iterable[str]) -> bool:
    """Whether Ansible reads the file with these inventories, if it is in a folder `group_vars`; else True."""
    above, folder, _file = dest.rpartition(f"{os.sep}group_vars{os.sep}")
    beside = {path if os.path.isdir(path) else os.path.dirname(path) for path in map(os.path.abspath, inventories)}
    return not folder or above in beside


@dataclass(frozen=True)
class Written:
    """A file of group variables, before and after. `backup`: the copy of a file that was not ours and was replaced."""

    dest: str
    before: str
    after: str
    backup: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the text differs."""
        return self.before != self.after

    def result(self) -> ModuleResult:
        """The part of the task's result."""
        diff = difference(self.dest, printable_lines(self.before), self.after)
        backup = {"backup": self.backup} if self.backup else {}
        return {"dest": self.dest, **backup, "changed": self.changed, "diff": diff}


def write_file(dest: str, text: str, *, overwrite: bool, pretend: bool) -> Written:
    """Write the file, with a backup if one that was not ours is replaced. `pretend` writes nothing.

    Raises RankzeroError if such a file must be kept, or if nothing can be written.
    """
    backup = None
    try:
        folder, name = Place.of_file(dest)
        before = folder.read(name) or ""
        if before and not is_ours(before) and before != text:
            if not overwrite:
                raise RankzeroError(
                    f"dest: {dest} was written or changed by something else and is left unchanged; move what you want "
                    "to keep to another file of the same folder, or replace it with overwrite: true (-e "
                    "fabric_overwrite=true), which keeps a backup"
                )
            backup = f"{dest}.{time.strftime('%Y%m%dT%H%M%S')}~"
        written = Written(dest, before, text, backup)
        if written.changed and not pretend:
            with folder.opened() as opened:
                if backup:
                    opened.write(os.path.basename(backup), before, like=name)
                opened.write(name, text)
            folder.record(name)
    except OSError as error:
        raise RankzeroError(f"dest: {dest} cannot be written: {error.strerror or error}") from error
    return written
