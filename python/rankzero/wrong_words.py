# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command answers to a verb or an option that it does not have."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from rankzero.library import importable
from rankzero.options import VERBS
from rankzero.short_names import OTHER_NAMES
from rankzero.verbs import JOB_FILE

#: The verb that is meant -> how other tools call it.
OTHER_VERBS: dict[str, tuple[str, ...]] = {
    "run": ("submit", "sbatch", "srun", "salloc", "launch", "start", "train", "torchrun"),
    "ls": ("status", "queue", "squeue", "sacct", "list", "ps", "jobs"),
    "cancel": ("stop", "kill", "scancel", "abort", "cancel-all"),
    "attach": ("wait", "watch", "follow", "tail"),
    "logs": ("log", "output"),
    "why": ("diagnose", "explain", "debug"),
    "pull": ("get", "fetch", "download", "artifacts"),
    "plan": ("check", "validate", "diff"),
    "shell": ("ssh", "exec", "enter"),
    "reconcile": ("apply", "deploy"),
    "init": ("new", "create", "import"),
}
#: Option of another tool -> ours, beside the names that the job spec declares.
OTHER_OPTIONS = {"--dry-run": "--check", "--force": "--rerun", "--follow": "--wait", "--detached": "--detach"}


def verb(own: Sequence[str], program: Sequence[str]) -> str:
    """The answer to a command line that begins with no verb. `own`: its words before `--`; `program`: those after."""
    word, after = own[0], ["--", *program] if program else []
    meant = next((name for name, others in OTHER_VERBS.items() if word in others), None)
    if word.endswith((*JOB_FILE, ".py")):
        hint = f"; to run it: {shlex.join(['rankzero', 'run', *own, *after])}"
    elif word == "sbatch":
        hint = f"; did you mean run? It takes such a line: {shlex.join(['rankzero', 'run', '--', *own, *program])}"
    else:
        hint = f"; did you mean {meant}?" if meant else nearest(word, VERBS)
    return f"rankzero: {word!r} is not a verb{hint}; verbs: {', '.join(VERBS)}"


def option(own: Sequence[str], word: str, options: Collection[str], program: Sequence[str] | None) -> str:
    """The answer to a word of `own` that its verb does not take. `options`: all of the verb's. `program`: the arguments
    of the program after `--`; None where the verb takes none.
    """
    of = next(each for each in own if each in VERBS)
    name = word.partition("=")[0]
    meant = f"--{OTHER_NAMES.get(name.lstrip('-').replace('-', '_'), '')}".replace("_", "-")
    meant = OTHER_OPTIONS.get(name, meant)
    # An argument of the program is seldom similar to one of ours, so much must be the same.
    likeness = 0.5 if program is None else 0.7
    hint = f"; did you mean {meant}?" if meant in options else nearest(name, options, likeness)
    if program is not None and word in own:
        hint += f"; arguments of the program go after `--`: {_moved(word, own, program, options)}"
    return f"rankzero {of}: {word!r} is not expected{hint}; see rankzero {of} --help"


def _moved(word: str, own: Sequence[str], program: Sequence[str], options: Collection[str]) -> str:
    """The command line with the word, and its value that may follow, after `--`."""
    start = list(own).index(word)
    end = start + 1
    while end < len(own) and own[end].partition("=")[0] not in options:
        end += 1
    return shlex.join(["rankzero", *own[:start], *own[end:], "--", *own[start:end], *program])


def nearest(word: str, names: Collection[str], likeness: float = 0.5) -> str:
    """`; did you mean X?`, by the collection's own answer, or ""."""
    importable()
    from ansible_collections.rankzero.slurm.plugins.module_utils.core import likeness as like

    # `--gpus` means --gpus-per-node, although --gbs has more similar letters.
    longer = sorted((name for name in names if len(word) > 2 and name.startswith(word)), key=len)
    near = longer[0] if longer else like.nearest(word, names, likeness) or like.nearest(word.lower(), names, likeness)
    return like.did_you_mean(near)
