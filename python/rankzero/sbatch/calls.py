# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs of a job have noted of how they were called, and in what two jobs of one script differ. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rankzero.sbatch.secret_words import hidden, is_secret_name, values_in, values_of

#: Differs between any two jobs: numbers, ports, processes, the choice of nodes and cores.
OF_ONE_JOB = re.compile(
    r"SLURM_(JOB_?ID|TASK_PID|(JOB_|STEP_)?NODELIST|STEP_LAUNCHER_PORT|SRUN_COMM_(PORT|HOST)|LAUNCH_NODE_IPADDR|"
    r"(JOB_|STEP_)GPUS|STEP_?ID|TOPOLOGY_ADDR|CPU_BIND(_LIST|_VERBOSE|_TYPE)?|JOB_(START|END)_TIME)|"
    r"SLURMD_NODENAME|HOST(NAME)?|PWD|OLDPWD|_|(CUDA|ROCR)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK"
)
#: What only the launch has, and what only a submission by hand has: options of the two headers, and of the login.
OF_ONE_WAY = re.compile(r"RANKZERO_.*|SLURM_(EXPORT_ENV|GET_USER_ENV|JOB_DEPENDENCY|OPEN_MODE)|MAIL|SHELL|SHLVL")
#: Who the two are, in the lines about a difference.
BY_HAND, LAUNCHED = "sbatch", "the job"
#: Where a rank finds its number: as its launcher counts, else as Slurm does.
_RANK = ("RANK", "SLURM_PROCID")
#: So many characters of a value are shown.
_SHOWN = 200


@dataclass(frozen=True, order=True)
class Call:
    """A call of a program: its name, its arguments, its folder, and its environment, sorted by name."""

    program: str
    arguments: tuple[str, ...]
    folder: str
    environment: tuple[tuple[str, str], ...]

    @property
    def who(self) -> str:
        """The program and its rank, for people."""
        variables = dict(self.environment)
        rank = next((variables[name] for name in _RANK if name in variables), "")
        return f"{self.program}, rank {rank}" if rank else self.program


def calls(texts: Iterable[str], names: Mapping[str, str], random: str = "") -> list[Call]:
    """The calls of one job, sorted, without what differs between any two jobs.

    texts: JSON objects with `program`, `arguments`, `folder` and `environment`, one for each call. names: text that
    differs -> what stands for it. random: a regular expression of further variables whose values are of one job.
    """
    noted = []
    for text in texts:
        for name, common in names.items():
            text = text.replace(name, common)
        noted.append(_call(json.loads(text), random))
    return sorted(noted)


def _call(said: Mapping[str, Any], random: str) -> Call:
    environment: Mapping[str, str] = said["environment"]
    chosen = [value for name, value in environment.items() if re.fullmatch(random, name) and value]
    kept = {
        name: value
        for name, value in environment.items()
        if not OF_ONE_JOB.fullmatch(name) and not OF_ONE_WAY.fullmatch(name) and not re.fullmatch(random, name)
    }
    arguments = tuple(_without(chosen, word) for word in said["arguments"])
    return Call(said["program"], arguments, said["folder"], tuple(sorted(kept.items())))


def _without(chosen: Iterable[str], word: str) -> str:
    for value in chosen:
        word = word.replace(value, "CHOSEN")
    return word


def differences(by_hand: Iterable[Call], launched: Iterable[Call]) -> list[str]:
    """What differs between the calls of the two ways, with the ranks. No line has the value of a secret."""
    plain, job = Counter(by_hand), Counter(launched)
    secrets = {value for call in (*plain, *job) for value in _secrets(call)}
    left, right = _by_caller(plain - job), _by_caller(job - plain)
    found: dict[str, list[str]] = {}
    for who in sorted({*left, *right}):
        ours, theirs = left.get(who, []), right.get(who, [])
        count = min(len(ours), len(theirs))
        lines = [line for pair in zip(ours, theirs) for line in _lines(*pair, secrets)]
        lines += [_only(BY_HAND, call, secrets) for call in ours[count:]]
        lines += [_only(LAUNCHED, call, secrets) for call in theirs[count:]]
        for line in lines:
            found.setdefault(line, []).append(who)
    return [f"{_callers(callers)}: {line}" for line, callers in found.items()]


def _by_caller(counted: Counter[Call]) -> dict[str, list[Call]]:
    groups: dict[str, list[Call]] = {}
    for call in sorted(counted.elements()):
        groups.setdefault(call.who, []).append(call)
    return groups


def _lines(ours: Call, theirs: Call, secrets: set[str]) -> Iterator[str]:
    """What differs between two calls of one program."""
    for what, one, other in (
        ("arguments", shlex.join(ours.arguments), shlex.join(theirs.arguments)),
        ("folder", ours.folder, theirs.folder),
    ):
        if one != other:
            yield f"{what}: {BY_HAND} {_shown(one, secrets)}; {LAUNCHED} {_shown(other, secrets)}"
    one_has, other_has = dict(ours.environment), dict(theirs.environment)
    for name in sorted({*one_has, *other_has}):
        if one_has.get(name) == other_has.get(name):
            continue
        values = [
            "not set"
            if name not in has
            else "a secret that is not shown"
            if is_secret_name(name)
            else _shown(has[name], secrets)
            for has in (one_has, other_has)
        ]
        yield f"{name}: {BY_HAND} {values[0]}; {LAUNCHED} {values[1]}"


def _only(way: str, call: Call, secrets: set[str]) -> str:
    words = shlex.join([call.program, *call.arguments])
    return f"only {way} calls it: {_shown(words, secrets)} in {_shown(call.folder, secrets)}"


def _secrets(call: Call) -> set[str]:
    return values_of(call.environment) | values_in(shlex.join(call.arguments))


def _shown(text: str, secrets: set[str]) -> str:
    text = repr(hidden(text, secrets))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"


def _callers(callers: list[str]) -> str:
    """`python, rank 0` and `python, rank 1` as one; several calls of one rank are one caller."""
    ranks: dict[str, list[str]] = {}
    for who in dict.fromkeys(callers):
        program, _comma, rank = who.rpartition(", rank ")
        ranks.setdefault(program or who, []).extend([rank] if program else [])
    return "; ".join(
        f"{program}, rank{'s' * (len(numbers) > 1)} {', '.join(numbers)}" if numbers else program
        for program, numbers in ranks.items()
    )


#: What a rank is -> where it may stand.
_LAYOUT = {
    "RANK": ("RANK", "SLURM_PROCID"),
    "LOCAL_RANK": ("LOCAL_RANK", "SLURM_LOCALID"),
    "WORLD_SIZE": ("WORLD_SIZE", "SLURM_NTASKS"),
    "NODE_RANK": ("SLURM_NODEID",),
}
#: How ranks meet, and what only a launcher or Slurm itself reads.
_OF_A_LAUNCHER = re.compile(
    r"SLURM\w*|MASTER_(ADDR|PORT)|GROUP_RANK|LOCAL_WORLD_SIZE|TORCHELASTIC_\w+|PMI\w*|PATH|TMPDIR|ENVIRONMENT|LS_COLORS"
)


def of_ranks(noted: Iterable[Call]) -> list[Call]:
    """Calls with the place of their ranks in the place of what Slurm and a launcher say of it: of a script and of a job
    that says the same in other words.
    """
    return sorted(_of_rank(call) for call in noted)


def _of_rank(call: Call) -> Call:
    has = dict(call.environment)
    kept = {name: value for name, value in has.items() if not _OF_A_LAUNCHER.fullmatch(name) and name not in _LAYOUT}
    for name, places in _LAYOUT.items():
        value = next((has[place] for place in places if place in has), None)
        if value is not None:
            kept[name] = value
    return Call(call.program, call.arguments, call.folder, tuple(sorted(kept.items())))


def added(by_hand: Iterable[Call], launched: Iterable[Call]) -> tuple[list[str], list[Call]]:
    """(the variables that only the launch sets, the launch's calls without them)."""
    known = {name for call in by_hand for name, _value in call.environment}
    calls_ = list(launched)
    further = sorted({name for call in calls_ for name, _value in call.environment} - known)
    rest = [
        Call(call.program, call.arguments, call.folder, tuple(pair for pair in call.environment if pair[0] in known))
        for call in calls_
    ]
    return further, sorted(rest)
