# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's own batch script as a job: its #SBATCH lines as values of the job spec, and the part of it that counts.

sbatch reads the lines that begin with #SBATCH up to the first command as one list of words, which getopt_long(3)
takes apart: an option may be abbreviated, and its value may be the next word. An option with a field in the job spec
sets that field, if the field can hold the value; any other one goes to `resources.sbatch` as it is. Pure;
nothing of the script is run.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import NAME, LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import DECLARED, SBATCH, abbreviated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid

FIRST, DIRECTIVE = "#!", "#SBATCH"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Short options of sbatch(1) -> long ones.
LETTERS = {
    "A": "account", "a": "array", "B": "extra-node-info", "b": "begin", "C": "constraint", "c": "cpus-per-task",
    "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "h": "help",
    "i": "input", "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution",
    "N": "nodes", "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos",
    "S": "core-spec", "s": "oversubscribe", "t": "time", "V": "version", "v": "verbose", "W": "wait",
    "w": "nodelist", "x": "exclude",
}  # fmt: skip
#: Options that never have a value, and those that have one only after `=` (22.05 to 26.05).
SWITCHES = _names(
    "autocomplete consolidate-segments contiguous container-entrypoint container-mount-home container-readonly "
    "container-remap-root container-writable exact help hold ignore-pbs interactive label no-container-entrypoint "
    "no-container-mount-home no-container-remap-root no-requeue overcommit overlap oversubscribe parsable quiet reboot "
    "requeue share spread-job spread-segments stepmgr test-only unbuffered usage use-min-nodes verbose version "
    "wait whole"
)
OPTIONAL = _names("exclusive get-user-env kill-on-bad-exit nice no-kill oom-kill-step propagate x11")
#: Options that are read again and again: each one adds to the ones before.
ADDED = frozenset(["mail-type"])

#: What a script may ask for that would not be one launch -> what to do.
REFUSED = {
    "array": "a launch is one job; run the values as a sweep (docs/sweeps.md)",
    "clusters": "a launch belongs to the cluster of the inventory; choose it there",
    "cluster": "a launch belongs to the cluster of the inventory; choose it there",
    "export-file": "the file is not read; name its variables in `env`",
    "get-user-env": "a job reads no login; use setup.commands",
    "gid": "a launch is its user's own job",
    "input": "a job reads nothing from its standard input; redirect it inside the script",
    "uid": "a launch is its user's own job",
    "wrap": "a script runs itself",
}
#: Options that may not stand under `resources.sbatch` of a script job -> the field, or what to do.
NOT_PASSED_ON = {**REFUSED, "export": "env"}
#: What sbatch itself does once; it says nothing about the job.
ONCE = _names("autocomplete help ignore-pbs parsable quiet test-only usage verbose version wait")
#: Options under `resources.sbatch` that the job's runtime carries out, because the header's are its own.
CARRIED = ("chdir", "error", "job-name", "open-mode", "output")
#: What of a cluster's defaults is only for jobs whose ranks the launch itself starts: the layer below the script's.
BELOW: Mapping[str, Any] = {
    "container": None,
    "launcher": None,
    "preflight": {"enabled": False},
    "resources": dict.fromkeys(("nodes", "spares", "gpus_per_node", "gpu_type", "gres", "cpus_per_rank")),
}
_HETEROGENEOUS = ("hetjob", "packjob")

# Other names that a field replaces (Declared.instead_of) mean something else: --ntasks is not the ranks of a node.
_PATHS = {row.sbatch.name: row.path for row in DECLARED}
_PATHS["tasks-per-node"] = _PATHS["ntasks-per-node"]
_TYPES = {info.path: info.meta["type"] for info in fields_of(LaunchSpec)}
_SIGNAL = re.compile(r"B:(?:SIG)?(?P<name>TERM|INT|HUP|USR1|USR2)@(?P<seconds>[0-9]{1,5})")
_GPU = re.compile(r"(?:(?P<type>[A-Za-z][A-Za-z0-9_.-]*):)?(?P<count>[0-9]{1,9})")


@dataclass
class Header:
    """What the #SBATCH lines of a script say: a layer of a job spec, the line of each value, and the mistakes."""

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def set(self, line: int, path: str, value: object) -> None:
        """Set a value by its dotted path. The last one counts, as for sbatch."""
        target, (*parents, leaf) = self.data, path.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = value
        self.lines[path] = line

    @property
    def options(self) -> JsonObject:
        """The options under `resources.sbatch`."""
        options: JsonObject = self.data.setdefault("resources", {}).setdefault("sbatch", {})
        return options

    def further(self, line: int, name: str, value: str | bool) -> None:
        """Pass an option on to sbatch as it is."""
        if name in ADDED and name in self.options:
            value = f"{self.options[name]},{value}"
        self.set(line, f"resources.sbatch.{name}", value)


def is_script(text: str) -> bool:
    """Whether a text is a script and no path of one."""
    return text.startswith(FIRST)


def problem(text: str) -> str | None:
    """Return why sbatch would not take a text as a script; None if it would."""
    if not is_script(text):
        return "the first line must name the script's program, such as #!/bin/bash"
    if "\r\n" in text:
        return "its lines end as on Windows (CR LF), which Slurm refuses; convert it, for example with dos2unix"
    if "\0" in text:
        return "it contains a NUL character: it is no text"
    return None


def _head(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over the numbered lines before the first command."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            return
        yield number, line


def body_digest(text: str) -> str:
    """Return a digest of what determines the result: the first line, and all from the first command on.

    Between them are only comments, the #SBATCH lines among them, whose values count where they arrive in the spec. A
    comment after the first command may belong to a here-document, so it counts.
    """
    lines = text.split("\n")
    head = sum(1 for _line in _head(text))
    return hashlib.sha256("\n".join([lines[0], *lines[max(head, 1) :]]).encode("utf-8", "surrogatepass")).hexdigest()


def read_header(text: str) -> Header:
    """Read the #SBATCH lines of a script."""
    header = Header()
    words: list[tuple[int, str]] = []
    for number, line in _head(text):
        if not line.startswith(DIRECTIVE):
            continue
        try:
            words += [(number, word) for word in _words(line[len(DIRECTIVE) :])]
        except Invalid as error:
            header.problems.append((number, str(error)))
    for number, word in words:
        if word in _HETEROGENEOUS:
            header.problems.append((number, f"{word}: a job of several parts; launch one job for each"))
            return header
    for number, name, value in _options(words, header):
        _take(header, number, name, value)
    return header


def _words(text: str) -> list[str]:
    """Split a line into words as sbatch does: quotes group, a backslash escapes, # begins a comment. Raises Invalid."""
    words: list[str] = []
    word: str | None = None
    quote, escaped = "", False
    for character in text:
        if escaped:
            word, escaped = (word or "") + character, False
        elif character == "\\":
            escaped = True
        elif quote:
            word, quote = (word or "") + ("" if character == quote else character), "" if character == quote else quote
        elif character in "'\"":
            word, quote = word or "", character
        elif character == "#":
            break
        elif character.isspace():
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + character
    if quote:
        raise Invalid(f"the quote {quote} is not closed")
    return words if word is None else [*words, word]


def _options(words: list[tuple[int, str]], header: Header) -> Iterator[tuple[int, str, str | bool]]:
    """Iterate over (line, long name, value) as getopt_long finds them. Words that are no options are mistakes."""
    rest = list(words)
    while rest:
        number, word = rest.pop(0)
        if word.startswith("--") and len(word) > 2:
            name, equals, given = word[2:].partition("=")
            meant = abbreviated(name, SBATCH)
            if len(meant) > 1:
                header.problems.append((number, f"--{name}: may mean {', '.join(meant[:5])}; write the full name"))
                continue
            name = meant[0] if meant else name
            yield number, name, given if equals else _value(name, rest)
        elif word.startswith("-") and len(word) > 1:
            yield from _letters(number, word[1:], rest, header)
        else:
            header.problems.append((number, f"{word!r} is no option of sbatch, and would be ignored; remove it"))


def _value(name: str, rest: list[tuple[int, str]]) -> str | bool:
    """Take the value of an option from the words that follow."""
    return True if name in SWITCHES or name in OPTIONAL or not rest else rest.pop(0)[1]


def _letters(
    number: int, letters: str, rest: list[tuple[int, str]], header: Header
) -> Iterator[tuple[int, str, str | bool]]:
    """Iterate over short options that are written together, the last one with its value: -N4, -Hk, -t 10."""
    while letters:
        letter, letters = letters[0], letters[1:]
        name = LETTERS.get(letter)
        if name is None:
            header.problems.append((number, f"-{letter} is no option of sbatch; remove it"))
            return
        if name in SWITCHES or (name in OPTIONAL and not letters):
            yield number, name, True
            continue
        # getopt_long leaves an `=` in the value of a short option, and sbatch then refuses most of them.
        yield number, name, letters.removeprefix("=") or _value(name, rest)
        return


def _take(header: Header, line: int, name: str, value: str | bool) -> None:
    """Give one option its place in the spec."""
    if name in REFUSED:
        header.problems.append((line, f"--{name}: {REFUSED[name]}"))
    elif name.removeprefix("no-").startswith("container"):
        instead = "give the container to the script's own srun lines, or write a job with `command` and `container`"
        header.problems.append((line, f"--{name}: a script cannot run in a container yet; {instead}"))
    elif name in ONCE:
        return
    elif name in _SPECIAL:
        _SPECIAL[name](header, line, name, value)
    elif name in _PATHS and _fits(_PATHS[name], value):
        header.set(line, _PATHS[name], value)
    else:
        header.further(line, name, value)


def _fits(path: str, value: object) -> bool:
    try:
        _TYPES[path].parse(value)
    except Invalid:
        return False
    return True


def _job_name(header: Header, line: int, name: str, value: str | bool) -> None:
    header.set(line, "name", valid_name(str(value)))
    # What the script itself sees may have other characters.
    header.further(line, name, value)


def _gpus(header: Header, line: int, name: str, value: str | bool) -> None:
    match = _GPU.fullmatch(str(value))
    if match is None:
        header.further(line, name, value)
        return
    header.set(line, "resources.gpus_per_node", match["count"])
    if match["type"]:
        header.set(line, "resources.gpu_type", match["type"])


def _gres(header: Header, line: int, name: str, value: str | bool) -> None:
    """`gpu:h100:8` is the GPUs of a node; the others stay."""
    others = []
    for part in str(value).split(","):
        kind, _colon, rest = part.removeprefix("gres/").removeprefix("gres:").partition(":")
        match = _GPU.fullmatch(rest or "1") if kind == "gpu" else None
        if match:
            _gpus(header, line, name, rest or "1")
        else:
            others.append(part)
    if others and _fits("resources.gres", others):
        header.set(line, "resources.gres", others)
    elif others:
        header.further(line, name, value)


def _export(header: Header, line: int, name: str, value: str | bool) -> None:
    """`ALL,NAME=VALUE`: the values are the job's. Its other variables come from the plan, not from the submitter."""
    for part in re.split(r",(?=[A-Za-z_][A-Za-z0-9_]*(?:=|,|$))", str(value)):
        variable, equals, text = part.partition("=")
        if equals:
            header.set(line, f"env.{variable}", text)


def _signal(header: Header, line: int, name: str, value: str | bool) -> None:
    """`B:` is for the script, to which only the job's runtime can hand it on. Slurm itself signals the steps."""
    match = _SIGNAL.fullmatch(str(value))
    if match:
        header.set(line, "checkpoint.signal_before_end", match["seconds"])
        header.set(line, "checkpoint.signal", match["name"])
    elif "B" in str(value).partition(":")[0] and ":" in str(value):
        text = "the script can get TERM, INT, HUP, USR1 or USR2, as B:USR1@SECONDS"
        header.problems.append((line, f"--signal={value}: {text}"))
    else:
        header.further(line, name, value)


def _exclusive(header: Header, line: int, name: str, value: str | bool) -> None:
    if value is True:
        header.set(line, "resources.exclusive", True)
    else:
        header.further(line, name, value)


def _exclude(header: Header, line: int, name: str, value: str | bool) -> None:
    header.set(line, "resources.exclude", [value])


_SPECIAL: Mapping[str, Callable[[Header, int, str, str | bool], None]] = {
    "job-name": _job_name,
    "gpus-per-node": _gpus,
    "gres": _gres,
    "export": _export,
    "signal": _signal,
    "exclusive": _exclusive,
    "exclude": _exclude,
    # Only permits Slurm to requeue; `checkpoint.requeue` would have the job requeue itself.
    "requeue": Header.further,
    "no-requeue": Header.further,
    "no-kill": Header.further,
}


def valid_name(text: str) -> str:
    """Return a name for the launch that is as close as can be to the text that a script uses."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64]
    return name if re.fullmatch(NAME, name) else "script"


def name_of(path: str) -> str:
    """Return the name of a launch whose script has none: that of its file."""
    return valid_name(os.path.splitext(os.path.basename(path))[0])
