# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's own batch script as a job: its #SBATCH lines as values of the job spec, and the part of it that counts.

sbatch reads the lines that begin with #SBATCH up to the first command as one list of words, and its command line after
them. An option with a field in the job spec sets that field, if the field can hold the value; any other one goes to
`resources.sbatch` as it is. Pure; nothing of the script is run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers import pyxis
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sbatch import arrays, others, reader
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sbatch.reader import Given
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import DECLARED, SBATCH, misspelt
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid, clock, did_you_mean, seconds_in

#: Options that are read again and again: each one adds to the ones before.
ADDED = frozenset(["mail-type"])

#: What a script may ask for that would not be one launch -> what to do.
REFUSED = {
    "array": "a launch is one job; `rankzero init --from` makes a sweep of it where it can; else remove it, and launch "
    "a script that uses srun once for each value (program_args), "
    "or write a job whose `shell` runs the script, and whose `sweep` has the values",
    "clusters": "a launch belongs to the cluster of the inventory; choose it there",
    "cluster": "a launch belongs to the cluster of the inventory; choose it there",
    "export-file": "the file is not read; name its variables in `env`",
    "get-user-env": "a job reads no login; use setup.commands",
    "gid": "a launch is its user's own job",
    "input": "a job reads nothing from its standard input; redirect it inside the script",
    "test-only": "nothing would run; use `rankzero plan`",
    "uid": "a launch is its user's own job",
    "wrap": "a script runs itself",
}
#: Options that may not stand under `resources.sbatch` of a script job -> the field, or what to do.
NOT_PASSED_ON = REFUSED
#: What sbatch itself does once; it says nothing about the job.
ONCE = frozenset(["autocomplete", "help", "ignore-pbs", "parsable", "quiet", "usage", "verbose", "version", "wait"])
#: Options under `resources.sbatch` that the job's runtime carries out, because the header's are its own.
CARRIED = ("chdir", "error", "export", "job-name", "open-mode", "output")
#: The value of --export under `resources.sbatch`: the script's own steps get nothing of its environment.
NO_EXPORT = "NONE"
#: What of a cluster's defaults is only for jobs whose ranks the launch itself starts: the layer below the script's.
BELOW: Mapping[str, Any] = {
    "container": None,
    "launcher": None,
    "preflight": {"enabled": False},
    "resources": dict.fromkeys(("nodes", "spares", "gpus_per_node", "gpu_type", "gres", "cpus_per_rank")),
}
#: Options of containers that a script job cannot have -> what to do.
_NO_CONTAINER = {
    "container": "Slurm's own containers are not used; use --container-image, or container.runtime oci in a job file",
    "container-name": "a named container that was interrupted is used half made by the next job; remove it",
    "container-save": "the image is not written; build it with container.build",
}
_HETEROGENEOUS = ("hetjob", "packjob")

# Other names that a field replaces (Declared.instead_of) mean something else: --ntasks is not the ranks of a node.
_PATHS = {row.sbatch.name: row.path for row in DECLARED}
_PATHS["tasks-per-node"] = _PATHS["ntasks-per-node"]
# What an option that is passed on as it is replaces of its other forms.
_REPLACED = {
    **{row.sbatch.name: (row.path,) for row in DECLARED if not row.sbatch.either},
    "gpus-per-node": ("resources.gpus_per_node", "resources.gpu_type"),
    "job-name": (),
    "signal": ("checkpoint.signal_before_end", "checkpoint.signal"),
}
_TYPES = {info.path: info.meta["type"] for info in fields_of(LaunchSpec)}
_COMMAND = re.compile(r"(?:\S*/)?sbatch\s+\S")
_GOES_ON = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
_SIGNAL = re.compile(r"B:(?:SIG)?(?P<name>TERM|INT|HUP|USR1|USR2)@(?P<seconds>[0-9]{1,5})")
_GPU = re.compile(r"(?:(?P<type>[A-Za-z][A-Za-z0-9_.-]*):)?(?P<count>[0-9]{1,9})")


@dataclass
class Header:
    """What the #SBATCH lines of a script say: a layer of a job spec, the line of each value, and the mistakes."""

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)
    #: Whether sbatch is told to leave the lines of other systems alone.
    others_ignored: bool = False

    def set(self, line: int, path: str, value: object) -> None:
        """Set a value by its dotted path. The last one counts, as for sbatch."""
        target, (*parents, leaf) = self.data, path.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = value
        self.lines[path] = line

    def drop(self, path: str) -> None:
        """Take a value back, also that of a lower layer."""
        self.set(0, path, None)
        del self.lines[path]

    @property
    def options(self) -> JsonObject:
        """The options under `resources.sbatch`."""
        options: JsonObject = self.data.setdefault("resources", {}).setdefault("sbatch", {})
        return options

    def further(self, given: Given) -> None:
        """Pass an option on to sbatch as it is: it goes before what an earlier line or layer has set by its field."""
        value = given.value
        if given.name in ADDED and given.name in self.options:
            value = f"{self.options[given.name]},{value}"
        self.set(given.line, f"resources.sbatch.{given.name}", value)
        for path in _REPLACED.get(given.name, ()):
            self.drop(path)

    def refuse(self, given: Given, sentence: str) -> None:
        """Note a mistake in an option."""
        self.problems.append((given.line, f"--{given.name}: {sentence}"))


def is_script(text: str) -> bool:
    """Whether a text is a script and no path of one."""
    return text.startswith(reader.FIRST)


def problem(text: str) -> str | None:
    """Return why sbatch would not take a text as a script; None if it would."""
    if not is_script(text):
        return "the first line must name the script's program, such as #!/bin/bash"
    if "\r\n" in text:
        return "its lines end as on Windows (CR LF), which Slurm refuses; convert it, for example with dos2unix"
    if "\0" in text:
        return "it contains a NUL character: it is no text"
    return None


def body_digest(text: str) -> str:
    """Return a digest of what determines the result: the first line, and all from the first command on.

    Between them are only comments, the #SBATCH lines among them, whose values count where they arrive in the spec. A
    comment after the first command may belong to a here-document, so it counts.
    """
    lines = text.split("\n")
    head = sum(1 for _line in reader.head(text))
    return hashlib.sha256("\n".join([lines[0], *lines[max(head, 1) :]]).encode("utf-8", "surrogatepass")).hexdigest()


def read_header(text: str) -> Header:
    """Read the #SBATCH lines of a script."""
    header = Header()
    words = reader.directives(text, header.problems)
    slurms = bool(words)
    for number, word in words:
        if word in _HETEROGENEOUS:
            header.problems.append((number, f"{word}: a job of several parts; launch one job for each"))
            return header
    while words:
        _take_all(header, words)
        if words:
            number, word = words.pop(0)
            header.problems.append((number, f"{word!r} is no option of sbatch, and would be ignored; remove it"))
    header.problems += others.problems(text, ignored=header.others_ignored, slurms=slurms)
    return header


@dataclass
class CommandLine:
    """A command line of sbatch: its options as a header, its script (a path, or the text of --wrap), and arguments."""

    header: Header
    script: str | None
    arguments: list[str]


def is_command_line(text: str) -> bool:
    """Whether a text is a command line of sbatch and no path: `sbatch --nodes=4 train.sh a b`."""
    return _COMMAND.match(text) is not None


def read_command_line(text: str) -> CommandLine:
    """Read a command line of sbatch, quoted as for a shell. The words after its script are the script's arguments."""
    header = Header()
    try:
        # Python's shlex keeps the end of a line that goes on, as a word.
        words = [(0, word) for word in shlex.split(_GOES_ON.sub(r"\1", text))[1:]]
    except ValueError as error:
        header.problems.append((0, str(error)))
        return CommandLine(header, None, [])
    last = words[-1][1] if words else ""
    wrapped = _take_all(header, words)
    program, *arguments = [word for _line, word in words] or [""]
    if program == ":":
        header.problems.append((0, "a job of several parts; launch one job for each"))
    if wrapped is not None and program:
        header.problems.append((0, f"--wrap: is a script itself; remove {program} or --wrap"))
    elif wrapped is None and not program:
        taken = _taken(header, last)
        header.problems.append((0, f"names no script; a launch reads none from its standard input{taken}"))
    if wrapped is None:
        return CommandLine(header, program or None, arguments)
    if "job-name" not in header.options:
        _job_name(header, reader.Given(0, "job-name", "wrap"))
    # As sbatch writes it.
    script = f"#!/bin/sh\n# This script was created by sbatch by use of --wrap.\n\n{wrapped}\n\n"
    return CommandLine(header, script, [])


def _taken(header: Header, last: str) -> str:
    """What is said of an option that sbatch does not have, and that has taken the last word for its value."""
    name, value = next(reversed(header.options.items()), ("", True))
    if name in SBATCH or value != last:
        return ""
    near = misspelt(name, SBATCH)
    hint = did_you_mean(near and f"--{near}")
    return f"; sbatch has no option --{name}{hint}, and {value} was taken for its value"


def _take_all(header: Header, words: list[tuple[int, str]]) -> str | None:
    """Take the options at the beginning of `words`, up to a word that is none. Return the value of a --wrap of a
    command line.
    """
    wrapped = None
    for given in reader.options(words, reader.SBATCH, SBATCH, header.problems):
        if given.name == "wrap" and not given.line:
            wrapped = str(given.value)
        else:
            _take(header, given)
    return wrapped


def _take(header: Header, given: Given) -> None:
    """Give one option its place in the spec."""
    name, value = given.name, given.value
    if name in REFUSED:
        header.refuse(given, REFUSED[name] + (arrays.as_sweep(str(value)) if name == "array" else ""))
    elif name.removeprefix("no-").startswith("container"):
        _container(header, given)
    elif name in ONCE:
        header.others_ignored |= name == "ignore-pbs"
    elif name in _SPECIAL:
        _SPECIAL[name](header, given)
    elif name in _PATHS and _fits(_PATHS[name], value):
        header.set(given.line, _PATHS[name], value)
    elif name == "time" and (seconds := seconds_in(str(value))):
        header.refuse(given, f"{value} is no time of Slurm; write {clock(seconds)}")
    else:
        header.further(given)


def _fits(path: str, value: object) -> bool:
    try:
        _TYPES[path].parse(value)
    except Invalid:
        return False
    return True


def _job_name(header: Header, given: Given) -> None:
    header.set(given.line, "name", reader.launch_name(str(given.value)))
    # What the script itself sees may have other characters.
    header.further(given)


def _gpus(header: Header, given: Given) -> None:
    match = _GPU.fullmatch(str(given.value))
    if match is None:
        header.further(given)
        return
    header.set(given.line, "resources.gpus_per_node", match["count"])
    if match["type"]:
        header.set(given.line, "resources.gpu_type", match["type"])


def gpus_and_others(gres: str) -> tuple[str | None, list[str]]:
    """Divide a value of --gres into the GPUs of a node (`h100:8`; None without) and the other resources."""
    gpus, others = None, []
    for part in gres.split(","):
        kind, _colon, rest = part.removeprefix("gres/").removeprefix("gres:").partition(":")
        if kind == "gpu" and _GPU.fullmatch(rest or "1"):
            gpus = rest or "1"
        else:
            others.append(part)
    return gpus, others


def _gres(header: Header, given: Given) -> None:
    """The GPUs and the other resources have fields. The header of the job has the option as it was given: with another
    one, Slurm would set other variables.
    """
    gpus, others = gpus_and_others(str(given.value))
    header.further(given)
    if gpus:
        _gpus(header, replace(given, value=gpus))
    # `none` asks for nothing, and the header says so as the script does.
    others = [other for other in others if other != "none"]
    if others and _fits("resources.gres", others):
        header.set(given.line, "resources.gres", others)


def _export(header: Header, given: Given) -> None:
    """`ALL,NAME=VALUE`: the values are the job's. Its other variables come from the plan, not from the submitter.
    Without ALL, Slurm keeps what the script exports from its steps as well.
    """
    parts = re.split(r",(?=[A-Za-z_][A-Za-z0-9_]*(?:=|,|$))", str(given.value))
    for part in parts:
        variable, equals, text = part.partition("=")
        if equals:
            header.set(given.line, f"env.{variable}", text)
    if "ALL" in (part.upper() for part in parts):
        header.drop("resources.sbatch.export")
    else:
        header.set(given.line, "resources.sbatch.export", NO_EXPORT)


def _signal(header: Header, given: Given) -> None:
    """`B:` is for the script, to which only the job's runtime can hand it on. Slurm itself signals the steps."""
    text = str(given.value)
    match = _SIGNAL.fullmatch(text)
    if match:
        header.set(given.line, "checkpoint.signal_before_end", match["seconds"])
        header.set(given.line, "checkpoint.signal", match["name"])
        header.drop("resources.sbatch.signal")
    elif "B" in text.partition(":")[0] and ":" in text:
        sentence = f"the script can get TERM, INT, HUP, USR1 or USR2, as B:USR1@SECONDS; not {text}"
        header.refuse(given, sentence)
    else:
        header.further(given)


def _exclusive(header: Header, given: Given) -> None:
    if given.value is True:
        header.set(given.line, "resources.exclusive", True)
    else:
        header.further(given)


def _container(header: Header, given: Given) -> None:
    """The options of pyxis, by which sbatch runs the whole script in an image."""
    keys = pyxis.section(given.name, str(given.value))
    if keys is None:
        header.refuse(given, _NO_CONTAINER.get(given.name, "has no key in the section `container`; remove it"))
        return
    for key, value in keys.items():
        path = f"container.{key}"
        try:
            _TYPES[path].parse(value)
        except Invalid as error:
            header.refuse(given, f"{path}: {error}")
            return
        header.set(given.line, path, value)


def _exclude(header: Header, given: Given) -> None:
    header.set(given.line, "resources.exclude", [given.value])


def _dependency(header: Header, given: Given) -> None:
    """`singleton` is about jobs of one name, and the job of each launch has its own."""
    if "singleton" in re.split("[,?]", str(given.value)):
        header.refuse(given, "singleton finds no job of another launch; name the job: --dependency=afterany:JOBID")
    else:
        header.set(given.line, "resources.dependency", given.value)


_SPECIAL: Mapping[str, Callable[[Header, Given], None]] = {
    "job-name": _job_name,
    "gpus-per-node": _gpus,
    "gres": _gres,
    "export": _export,
    "signal": _signal,
    "exclusive": _exclusive,
    "exclude": _exclude,
    "dependency": _dependency,
    # Only permits Slurm to requeue; `checkpoint.requeue` would have the job requeue itself.
    "requeue": Header.further,
    "no-requeue": Header.further,
    "no-kill": Header.further,
}


def name_of(path: str) -> str:
    """Return the name of a launch whose script has none: that of its file."""
    return reader.launch_name(os.path.splitext(os.path.basename(path))[0])
