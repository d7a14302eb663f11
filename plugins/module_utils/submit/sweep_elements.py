# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The elements of a sweep and their generations.

An element is an ordinary launch in <runs>/<name>/<key>/<generation>/. Its newest intent names its array and its task in
the array. The array's own journal contains the job id.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, generations
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import keys_of


@dataclass(frozen=True)
class Element:
    """One element as the cluster knows it: its number in the sweep, its key, its values, its line of the script."""

    number: int
    key: str
    point: Mapping[str, str]
    line: str = ""
    checkpoint_dir: str | None = None

    @property
    def short(self) -> str:
        """The first 16 digits of its key."""
        return self.key[:16]


def numbers_of(elements: Sequence[Element], names: Sequence[str]) -> set[int]:
    """Return the numbers of the named elements; without names, of all.

    A name is a number, or a prefix of a key (at least 6 digits). Raises `RankzeroError` for an unknown name.
    """
    known = {name: element for element in elements for name in (str(element.number), element.short)}
    numbers: set[int] = set()
    for name in names:
        matches = [known[name]] if name in known else []
        if not matches and len(name) >= 6:
            matches = [element for element in elements if element.key.startswith(name)]
        if not matches:
            raise RankzeroError(
                f"elements: {name} is not an element of this sweep; give its number (0 to {len(elements) - 1}), or its "
                "key or the beginning of that"
            )
        numbers.update(element.number for element in matches)
    return numbers if names else {element.number for element in elements}


def newest_generations(runs: str, wanted: Sequence[Element]) -> dict[int, RunDirectory]:
    """Return, by number, the newest generation of each element below `runs` (<state_root>/runs/<name>) that has one."""
    present = set(keys_of(os.path.dirname(os.path.dirname(runs)), os.path.basename(runs)))
    return {
        element.number: known[-1]
        for element in wanted
        if element.short in present and (known := generations(os.path.join(runs, element.short)))
    }
