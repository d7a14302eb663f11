# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the command of a launcher or a container begins, and which of its options have no value.

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
#: What starts a program in an image, by the words exec or run; its options without a value, and its short ones.
APPTAINERS = ("apptainer", "singularity")
APPTAINER_SWITCHES = frozenset(
    (
        *("nv", "nvccli", "rocm", "cleanenv", "contain", "containall", "no-home", "writable", "writable-tmpfs"),
        *("no-mount-home", "fakeroot", "ipc", "pid"),
    )
)
APPTAINER_LETTERS = {"-B": "bind", "-e": "cleanenv", "-c": "contain", "-C": "containall", "-W": "workdir", "-H": "home"}
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


def taken(given: list[str], switches: frozenset[str], letters: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """(options by long name, the words after them) of a command other than Slurm's.

    switches: long names without a value; their value is "". letters: short option -> long name.
    """
    values: dict[str, str] = {}
    rest = list(given)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name = letters.get(word[:2], word[1:2])
            value = word[2:].removeprefix("=")
            equals = "=" if value else ""
        if not equals and name not in switches and rest:
            value = rest.pop(0)
        values[name] = f"{values[name]},{value}" if name in values and name == "bind" else value
    return values, rest


def in_an_image(words: Sequence[str]) -> tuple[dict[str, str], list[str]] | None:
    """(options, the image and the words after it) of a command that starts a program in an image; None of any other."""
    if os.path.basename(words[0]) not in APPTAINERS or words[1:2] not in (["exec"], ["run"]):
        return None
    return taken(list(words[2:]), APPTAINER_SWITCHES, APPTAINER_LETTERS)
