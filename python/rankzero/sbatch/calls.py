# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs of a job have noted of how they were called, and in what two jobs of one script differ. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankzero.sbatch.secret_words import hidden, is_secret_name, values_in, values_of

#: Differs between any two jobs: numbers, ports, processes, the choice of cores.
OF_ONE_JOB = re.compile(
    r"SLURM_(JOB_?ID|TASK_PID|STEP_LAUNCHER_PORT|SRUN_COMM_(PORT|HOST)|LAUNCH_NODE_IPADDR|"
    r"(JOB_|STEP_)GPUS|STEP_?ID|TOPOLOGY_ADDR|CPU_BIND(_LIST|_VERBOSE|_TYPE)?|JOB_(START|END)_TIME)|"
    r"HOST(NAME)?|PWD|OLDPWD|_|(CUDA|ROCR)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK"
)
#: The nodes of a job in a list of Slurm's: a name, or several names with numbers in brackets.
_IN_BRACKETS = re.compile(r"([A-Za-z0-9._-]*)\[([0-9,-]+)\]")
_MOST_NODES = 65536
#: A port: a variable named so, or what follows a node.
_PORT_NAME, _PORT_OF_NODE = re.compile(r"\w*PORT"), re.compile(r"\b(?:NODE|ADDRESS)\d+:(\d{4,5})\b")
_PLACE = re.compile(r"\b(?:NODE|ADDRESS)\d+\b")
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


def calls(texts: Iterable[str], names: Mapping[str, str], random: str = "", script: str | None = None) -> list[Call]:
    """The calls of one job, sorted, without what differs between any two jobs: its nodes and their addresses are NODE0,
    NODE1 and ADDRESS0 as Slurm lists them.

    texts: JSON objects with `program`, `arguments`, `folder` and `environment`, one for each call, and `address`, the
    one of its node, where that is known. names: text that differs -> what stands for it. random: a regular expression
    of further variables whose values are of one job. script: where it is given, so is a port that is not in this text.
    """
    noted = [json.loads(text) for text in texts]
    addresses = {call["environment"].get("SLURMD_NODENAME", ""): call.get("address", "") for call in noted}
    plain = [_replaced(call, {**names, **_places(call, addresses)}) for call in noted]
    ports = _ports(plain, script) if script is not None else {}
    return sorted(_call(_replaced(call, ports), random) for call in plain)


def _places(call: Mapping[str, Any], addresses: Mapping[str, str]) -> dict[str, str]:
    """The names and addresses of the nodes of a call's job -> what stands for them. Requeued, a job may get others."""
    nodes = _expanded(call["environment"].get("SLURM_JOB_NODELIST", "")).split(",")
    numbered = {name: number for number, name in enumerate(nodes) if name}
    places = {addresses[name]: f"ADDRESS{number}" for name, number in numbered.items() if addresses.get(name)}
    return places | {name: f"NODE{number}" for name, number in numbered.items()}


def _expanded(text: str) -> str:
    """A text with each list of Slurm's, `node[02-03]`, as names with commas: `node02,node03`."""

    def each(found: re.Match[str]) -> str:
        names = []
        for part in found[2].split(","):
            first, dash, last = part.partition("-")
            numbers = range(int(first), int(last if dash else first) + 1) if first and (last or not dash) else ()
            # More nodes than Slurm can have: it is no list of them.
            names += [f"{found[1]}{number:0{len(first)}}" for number in numbers[:_MOST_NODES]]
        return ",".join(names) or found[0]

    return _IN_BRACKETS.sub(each, text)


def _ports(noted: Iterable[Mapping[str, Any]], script: str) -> dict[str, str]:
    """The ports that a job has chosen."""
    found: set[str] = set()
    for call in noted:
        found |= {value for name, value in call["environment"].items() if _PORT_NAME.fullmatch(name)}
        for text in (*call["arguments"], *call["environment"].values()):
            found |= set(_PORT_OF_NODE.findall(text))
    return {port: "PORT" for port in found if re.fullmatch(r"\d{4,5}", port) and port not in script}


def _replaced(call: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A call with other words in the place of `names`, where these stand alone."""
    longest = sorted(names, key=len, reverse=True)
    alone = re.compile("|".join(_alone(name) for name in longest) or "(?!)")

    def without(text: str) -> str:
        # Where the expanded list has no name of these, the text stays as it was.
        expanded = _expanded(text)
        return alone.sub(lambda found: names[found[0]], expanded if alone.search(expanded) else text)

    environment = {name: without(value) for name, value in call["environment"].items()}
    arguments = [without(word) for word in call["arguments"]]
    return {**call, "arguments": arguments, "folder": without(call["folder"]), "environment": environment}


def _alone(name: str) -> str:
    """A regular expression: a number within no other number, a name within no other name, a path that ends there."""
    if name.startswith("/"):
        return rf"{re.escape(name)}(?![A-Za-z0-9])"
    others = r"\d" if name[:1].isdigit() else "A-Za-z0-9"
    return rf"(?<![{others}]){re.escape(name)}(?![{others}])"


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
        # The number of a process may be a part of any other number.
        word = re.sub(_alone(value), "CHOSEN", word)
    return word


def differences(by_hand: Iterable[Call], launched: Iterable[Call]) -> list[str]:
    """What differs between the calls of the two ways, with the ranks. No line has the value of a secret."""
    plain, job = Counter(by_hand), Counter(launched)
    secrets = {value for call in (*plain, *job) for value in _secrets(call)}
    left, right = _by_caller(plain - job), _by_caller(job - plain)
    found: dict[str, list[str]] = {}
    for who in sorted({*left, *right}):
        ours, theirs = left.get(who, []), right.get(who, [])
        if _only_elsewhere(ours, theirs):
            continue
        count = min(len(ours), len(theirs))
        lines = [line for pair in zip(ours, theirs) for line in _lines(*pair, secrets)]
        lines += [_only(BY_HAND, call, secrets) for call in ours[count:]]
        lines += [_only(LAUNCHED, call, secrets) for call in theirs[count:]]
        for line in lines:
            found.setdefault(line, []).append(who)
    return [f"{_callers(callers)}: {line}" for line, callers in found.items()]


def _only_elsewhere(ours: Sequence[Call], theirs: Sequence[Call]) -> bool:
    """Whether several steps have run at once, of which Slurm has chosen on which node each one is."""

    def changed_places(calls_of_way: Sequence[Call]) -> tuple[Counter[str], Counter[tuple[str, ...]]]:
        texts = [repr(call) for call in calls_of_way]
        return Counter(_PLACE.sub("NODE", text) for text in texts), Counter(
            tuple(_PLACE.findall(text)) for text in texts
        )

    return len(ours) > 1 and changed_places(ours) == changed_places(theirs)


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
