# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the command of a launcher begins, and which of its options have no value.

It imports nothing of this package: it also lies beside the stand-ins on a cluster (stand_in.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
#: Options by which a launcher starts a module instead of a file.
MODULES = frozenset(("module", "m"))
#: Options of the launchers without a value.
_SWITCHES = MODULES | {
    *("standalone", "no_python", "run_path", "use_env", "multi_gpu", "use_deepspeed", "use_fsdp", "cpu"),
    *("same_network", "no_ssh", "no_local_rank", "save_pid"),
}
#: kind -> (what has one task of Slurm, the first words of its command, its options), as in declared.py.
Starters = Mapping[str, tuple[str, tuple[str, ...], Mapping[str, str]]]


def launcher_of(words: Sequence[str], starters: Starters) -> tuple[str, int]:
    """(launcher.kind, how many words are its command's first ones) of a command by a launcher that the collection
    declares; ("", 0) for any other one. The options of one that starts the ranks of all nodes (mpirun) are read by no
    table: its script stays as it is.
    """
    named = ["{python}" if PYTHON.fullmatch(word) else os.path.basename(word) for word in words]
    if named[:1] == ["torchrun"]:
        return "torchrun", 1
    module = words.index("-m") + 1 if named[:1] == ["{python}"] and "-m" in words[1:3] else 0
    if module and "".join(words[module : module + 1]).startswith("torch.distributed."):
        return "torchrun", module + 1
    for kind, (per, first, _options) in starters.items():
        if not first or per == "job" or kind in ("torchrun", "standalone"):
            continue
        if named[: len(first)] == list(first):
            return kind, len(first)
        if named[0] == kind:
            return kind, 2 if named[1:2] == ["launch"] else 1
    return "", 0


def switches(wanted: Mapping[str, str]) -> frozenset[str]:
    """The options without a value of a launcher, in both spellings. wanted: its options, as in declared.py."""
    plain = _SWITCHES | {name for name, value in wanted.items() if not value}
    return plain | {name.replace("_", "-") for name in plain}
