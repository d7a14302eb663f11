# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a batch script may have that the collection declares: options of sbatch, and launchers."""

from __future__ import annotations

import re

from rankzero.library import importable

importable()

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import launchers  # noqa: E402
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of  # noqa: E402
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import Resources  # noqa: E402
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import BOOLEAN, Type  # noqa: E402


def _kind(of: Type) -> str:
    return "switch" if of is BOOLEAN else "list" if of.schema.get("type") == "array" else "text"


#: Option of sbatch -> (the key of `resources` that it sets, the kind of value: text, list or switch).
OPTIONS: dict[str, tuple[str, str]] = {
    info.meta["sbatch"].name: (info.path, _kind(info.meta["type"]))
    for info in fields_of(Resources)
    if info.meta["sbatch"]
}


def starter(row: launchers.Starter) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """What has one task of Slurm, the first words of a launcher's command, and its options: name -> what of the launch
    it is set to, `value` for another one, "" for a switch.
    """
    ways = [word for words in row.rendezvous.values() for word in words]
    words = [each for word in row.command for each in (ways if word == launchers.RENDEZVOUS else [word])]
    count = next((at for at, word in enumerate(words) if at and word.startswith("-") and word != "-m"), len(words))
    count = min(count, words.index(launchers.RANK) if launchers.RANK in words else count)
    options: dict[str, str] = {}
    for word, after in zip(words[count:], words[count + 1 :]):
        match = re.fullmatch(r"--?([A-Za-z][\w-]*)(=.*)?", word)
        if match:
            alone = not match[2] and (after.startswith("-") or after == launchers.RANK)
            value = (match[2] or f"={after}")[1:]
            place = re.fullmatch(r"\{([a-z_]+)\}", value)
            options[match[1].replace("-", "_")] = "" if alone else place[1] if place else "value"
    return row.per, tuple(words[:count]), options


#: launcher.kind -> what `starter` says of it.
STARTERS = {row.kind: starter(row) for row in launchers.STARTERS}
#: Programs of the launchers that are packages of Python: an environment has them.
PACKAGED = tuple(name for row in launchers.STARTERS if row.packages for name in row.called)
