# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command answers to a verb or an option that it does not have."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence

from rankzero.library import importable
from rankzero.options import VERBS
from rankzero.short_names import OTHER_NAMES
from rankzero.verbs import JOB_FILE

#: The verb that is meant -> how other tools call it.
OTHER_VERBS: dict[str, tuple[str, ...]] = {
    "run": ("submit", "sbatch", "srun", "salloc", "launch", "start", "train", "torchrun", "resume", "retry", "restart"),
    "ls": ("status", "queue", "squeue", "sacct", "list", "ps", "jobs"),
    "cancel": ("stop", "kill", "scancel", "abort", "cancel-all", "rm", "remove", "delete", "down"),
    "attach": ("wait", "watch", "follow", "tail"),
    "logs": ("log", "output"),
    "why": ("diagnose", "explain", "debug", "scontrol", "seff"),
    "pull": ("get", "fetch", "download", "artifacts"),
    "plan": ("check", "validate", "diff"),
    "shell": ("ssh", "enter"),
    "reconcile": ("apply", "deploy"),
    "init": ("new", "create", "import"),
    "spec": ("runopts", "describe"),
}
#: Option of another tool -> ours, beside the names that the job spec declares.
OTHER_OPTIONS = {
    "--dry-run": "--check",
    "--force": "--rerun",
    "--follow": "--wait",
    "--detached": "--detach",
    "--limit": "--cluster",
    "-p": "--partition",
    "-t": "--time",
    "-A": "--account",
    "-N": "-n",
    "-j": "--nodes",
    "-q": "--qos",
    "-x": "--exclude",
}
#: Option of another tool -> a key of the job spec that has no short name.
OTHER_KEYS = {"--env": "env.NAME", "--envs": "env.NAME"}


#: Verb of another tool -> what does the same here, where no single verb does.
OTHER_WAYS = {
    "exec": "rankzero run JOB --inside-job JOBID runs a job file in a running allocation, and rankzero shell JOB opens "
    "a shell with its resources",
}
#: How a component of torchx looks, which stands where a job file does.
_COMPONENT = re.compile(r"(dist|utils|serve|metrics)\.[a-z_]+")
#: A rank where `logs` has no place for one: 3, 0,3, rank3.
_RANKS = re.compile(r"(rank)?[0-9][0-9,-]*")


#: Verbs that take a single launch, and words that turn a switch off.
_OF_ONE_LAUNCH = ("attach", "cancel", "logs", "ls", "notify", "why")
_OFF = ("false", "no", "off", "0")


def verb(own: Sequence[str], program: Sequence[str]) -> str:
    """The answer to a command line that begins with no verb. `own`: its words before `--`; `program`: those after."""
    word, after = own[0], ["--", *program] if program else []
    known = next((each for each in own if each in VERBS), None)
    if word.startswith("-") and known:
        rest = [each for each in own if each != known]
        how = f"options go after the verb: {shlex.join(['rankzero', known, *rest, *after])}"
        return f"rankzero: {word!r} stands before the verb; {how}"
    meant = next((name for name, others in OTHER_VERBS.items() if word in others), None)
    if word.endswith((*JOB_FILE, ".py")):
        hint = f"; to run it: {shlex.join(['rankzero', 'run', *own, *after])}"
    elif word in OTHER_WAYS:
        hint = f"; {OTHER_WAYS[word]}"
    elif word == "help":
        hint = "; did you mean --help?"
    elif word == "sbatch":
        hint = f"; did you mean run? It takes such a line: {shlex.join(['rankzero', 'run', '--', *own, *program])}"
    elif known and not meant:
        rest = [*own[own.index(known) :], *after]
        hint = f"; did you mean {shlex.join(['rankzero', *rest])}?"
    elif meant == "run":
        hint = "; did you mean run? It takes a job file or a batch script; rankzero init writes a job file"
    elif meant in _OF_ONE_LAUNCH and len(own) > 1 and not own[-1].startswith("-"):
        hint = f"; did you mean {meant}? {shlex.join(['rankzero', meant, own[-1]])}"
    else:
        hint = f"; did you mean {meant}?" if meant else nearest(word, VERBS, 0.6)
    return f"rankzero: {word!r} is not a verb{hint}; verbs: {', '.join(VERBS)}"


def option(
    own: Sequence[str],
    word: str,
    options: Collection[str],
    program: Sequence[str] | None,
    switches: Collection[str] = (),
) -> str:
    """The answer to a word of `own` that its verb does not take. `options`: all of the verb's. `program`: the arguments
    of the program after `--`; None where the verb takes none. `switches`: the options that take no value.
    """
    of = next(each for each in own if each in VERBS)
    start = f"rankzero {of}: {word!r} is not expected"
    special = _special(own, word, of, switches)
    if special:
        return f"{start}: {special}; see rankzero {of} --help"
    name = word.partition("=")[0]
    meant = f"--{OTHER_NAMES.get(name.lstrip('-').replace('-', '_'), '')}".replace("_", "-")
    meant = OTHER_OPTIONS.get(name, meant)
    # An argument of the program is seldom similar to one of ours, so much must be the same.
    near = nearest(name, options, 0.6 if program is None else 0.75) if name.startswith("-") else ""
    key = _key_of(name) if program is not None and meant not in options and not near else ""
    value = _value(own, word)
    if name == "-j" and re.fullmatch(r"[0-9]+x[0-9]+", value) and meant in options:
        meant = "--nodes {} --ranks-per-node {}".format(*value.split("x"))
    named, equals, text = value.partition("=")
    if key == "env.NAME" and equals:
        key = f"env.{named}={shlex.quote(text)}"
    elif key:
        key += "=..."
    known = f"; did you mean {meant}?" if meant.split(" ")[0] in options else ""
    known = known or (f"; did you mean -s {key}?" if key else "")
    hint = (known or near) + (_further(own, word, options) if known else "")
    if program is not None and word in own and not known:
        hint += f"; arguments of the program go after `--`: {_moved(word, own, program, options)}"
    return f"{start}{hint}; see rankzero {of} --help"


def _value(own: Sequence[str], word: str) -> str:
    """The value of an option: after its `=`, or the next word; "" without one."""
    if "=" in word:
        return word.partition("=")[2]
    after = own[own.index(word) + 1 :] if word in own else ()
    return after[0] if after and not after[0].startswith("-") else ""


def _further(own: Sequence[str], word: str, options: Collection[str]) -> str:
    """What other options of the line are called here that have another tool's name."""
    called = {}
    for each in own[own.index(word) + 1 :] if word in own else ():
        name = each.partition("=")[0]
        short = OTHER_NAMES.get(name.lstrip("-").replace("-", "_"), "").replace("_", "-")
        if name.startswith("--") and name not in options and f"--{short}" in options:
            called[name] = f"--{short}"
    return "".join(f"; {name} is {ours} here" for name, ours in called.items())


def _special(own: Sequence[str], word: str, of: str, switches: Collection[str]) -> str:
    """What is wrong with a word where what stands before it says so; "" elsewhere."""
    if word not in own:
        return ""
    at = list(own).index(word)
    before, first = own[at - 1], own[at - 2] if at > 1 else ""
    component = next((each for each in own if _COMPONENT.fullmatch(each)), None) if of in ("run", "plan") else None
    if component:
        return (
            f"{component} is a component of torchx, and {of} takes a job file; `rankzero init` writes one, whose "
            "options are -n NODES, --ranks-per-node N, --launcher torchrun"
        )
    if of == "logs" and (word.startswith("--rank") or (_RANKS.fullmatch(word) and before != "logs")):
        return (
            "logs brings the logs of all ranks, each in a file of its own (rank-0003.log for rank 3), so omit it; "
            "rankzero why names the rank that failed first"
        )
    if word.startswith("-"):
        nothing = of == "plan" and word in ("-d", "--detach", "--check", "--wait", "--rerun")
        return f"plan submits nothing, run takes {word}" if nothing else ""
    if before.endswith(","):
        return f"a list has no blanks, write {before}{word}"
    if first in ("-s", "--set") and before.endswith(":"):
        return f"write {first} {shlex.quote(f'{before[:-1]}={word}')}"
    if before in switches:
        return f"{before} takes no value, omit {word!r}" + (f" and {before}" if word in _OFF else "")
    if of in ("run", "plan") and word.endswith(JOB_FILE):
        return f"{of} takes one job, several go with pipeline or reconcile"
    if of in _OF_ONE_LAUNCH and not before.startswith("-"):
        return f"{of} takes one launch at a time"
    return ""


def _key_of(option: str) -> str:
    """The key of the job spec that has the name of an option of another tool, or ""."""
    if option in OTHER_KEYS:
        return OTHER_KEYS[option]
    importable()
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.elsewhere import places

    return places().get(option.lstrip("-").replace("-", "_"), "") if option.startswith("--") else ""


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

    # What all options begin with makes none similar, and nothing is similar to a single letter.
    bare = {name.lstrip("-"): name for name in names if len(name.lstrip("-")) > 1}
    word = word.lstrip("-")
    # `--gpus` means --gpus-per-node, although --gbs has more similar letters.
    longer = sorted((name for name in bare if len(word) > 1 and name.startswith(word)), key=len)
    near = longer[0] if longer else like.nearest(word, bare, likeness) or like.nearest(word.lower(), bare, likeness)
    return like.did_you_mean(bare[near] if near else None)
