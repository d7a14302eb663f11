# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers for the output of Slurm's commands. Pure. A line that cannot be parsed becomes a warning, never a crash.

Tables are requested with control characters as separators (unit separator between fields, record separator after the
last one), because job names may contain pipes, spaces and newlines, and any printable separator. `--json` is not used:
its structure differs between Slurm versions, and 22.05 lacks it for half of the commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

FIELD = "\x1f"
RECORD = "\x1e"

JOB_ID = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?")
_UNKNOWN = frozenset({"", "unknown", "n/a", "none", "(null)", "invalid", "none assigned", "not_set"})
_ENDLESS = frozenset({"infinite", "unlimited", "partition_limit"})


@dataclass(frozen=True)
class Submitted:
    """sbatch's answer: the job id, and the cluster if sbatch names it (`--clusters`, federations)."""

    job_id: str
    cluster: str | None = None


@dataclass(frozen=True)
class Gres:
    """One generic resource of a node, such as gpu:h100:8. `type` is None if the site names no type."""

    name: str
    type: str | None
    count: int


_PARSABLE = re.compile(r"^\s*(\d+)(?:;([^\s;]+))?\s*$")
_SENTENCE = re.compile(r"Submitted batch job (\d+)(?: on cluster (\S+))?")


def parse_submitted(stdout: str) -> Submitted | None:
    """Return the job id in the output of `sbatch --parsable`, or None if there is none.

    Login banners and site wrappers add lines, and some sites force the long sentence. The sentence takes precedence
    over a bare number. Of several bare numbers the last one is used, because a banner comes first.
    """
    bare: Submitted | None = None
    for line in stdout.splitlines():
        sentence = _SENTENCE.search(line)
        if sentence:
            return Submitted(sentence.group(1), sentence.group(2))
        match = _PARSABLE.match(line)
        if match:
            bare = Submitted(match.group(1), match.group(2))
    return bare


def squeue_format(columns: Sequence[str]) -> str:
    """Return the argument of `squeue -O` for `columns`: no truncation (size 0), FIELD and RECORD as suffixes."""
    last = len(columns) - 1
    return ",".join(f"{name}:0{RECORD if index == last else FIELD}" for index, name in enumerate(columns))


def sinfo_format(codes: Sequence[str]) -> str:
    """Return the argument of `sinfo -o` for one-letter `codes`."""
    return FIELD.join(f"%{code}" for code in codes) + RECORD


def parse_records(text: str, columns: Sequence[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Parse a table with FIELD and RECORD into rows {column: text}. The free-text column comes last.

    Returns (rows, warnings). Lines before a record (such as a wrapper's notice) become a warning.
    """
    rows: list[dict[str, str]] = []
    warnings: list[str] = []
    chunks = text.split(RECORD)
    tail = chunks.pop()
    for chunk in chunks:
        # The last column may contain anything, so a surplus separator belongs to it.
        values = chunk.split(FIELD, len(columns) - 1)
        noise, _newline, first = values[0].rpartition("\n")
        if noise.strip():
            warnings.append(f"ignored unexpected output: {noise.strip()[:200]!r}")
        if len(values) != len(columns):
            warnings.append(f"ignored a row with {len(values)} of {len(columns)} fields: {chunk.strip()[:200]!r}")
            continue
        rows.append(dict(zip(columns, [first.strip(), *(value.strip(" ") for value in values[1:])])))
    if tail.strip():
        warnings.append(f"ignored unexpected output: {tail.strip()[:200]!r}")
    return rows, warnings


def parse_lines(text: str, columns: Sequence[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Parse `sacct --parsable2 --delimiter=FIELD`: one row per line, free text last. Returns (rows, warnings).

    sacct cannot mark the end of a record. A newline in a job name therefore produces a line without a separator, which
    continues the name in the previous row.
    """
    rows: list[dict[str, str]] = []
    warnings: list[str] = []
    for line in text.split("\n"):
        values = line.split(FIELD, len(columns) - 1)
        if len(values) == len(columns):
            rows.append(dict(zip(columns, values)))
        elif rows and line.strip() and len(values) < len(columns):
            rows[-1][columns[-1]] += "\n" + line
        elif line.strip():
            warnings.append(f"ignored unexpected output: {line.strip()[:200]!r}")
    return rows, warnings


# In `scontrol show` these values extend to the end of their line, because a name or a path may contain spaces and
# `word=`.
_REST_OF_LINE = frozenset({"JobName"})
_REST_IF_FIRST = frozenset(
    {
        "Reason",
        "OS",
        "Comment",
        "AdminComment",
        "SystemComment",
        "Extra",
        "Command",
        "SubmitLine",
        "WorkDir",
        "StdErr",
        "StdIn",
        "StdOut",
    }
)
_PAIR = re.compile(r"(?:(?<=\s)|^)([A-Za-z][\w:/*&-]*)=")


def parse_blocks(text: str) -> list[dict[str, str]]:
    """Parse the objects of `scontrol show job|partition|node` (several lines each, an empty line between) as {key:
    value}.

    A line that does not begin with a key continues the previous value (a job name that contains a newline).
    """
    blocks: list[dict[str, str]] = []
    current: dict[str, str] = {}
    last_key = ""
    for raw in text.split("\n"):
        line = raw.strip()
        if not raw:
            if current:
                blocks.append(current)
            current, last_key = {}, ""
        if not line:  # only blanks: 24.11 prints such a line inside a node
            continue
        begins = _PAIR.match(line)
        if begins is None:
            if last_key:
                current[last_key] += "\n" + raw
            continue
        position = 0
        while True:
            match = _PAIR.match(line, position)
            if match is None:
                break
            key = match.group(1)
            following = _PAIR.search(line, match.end())
            to_line_end = key in _REST_OF_LINE or (position == 0 and key in _REST_IF_FIRST)
            end = len(line) if to_line_end or following is None else following.start()
            current[key] = line[match.end() : end].strip()
            last_key, position = key, end
    if current:
        blocks.append(current)
    return blocks


def parse_config(text: str) -> dict[str, str]:
    """Parse `scontrol show config` as {name: value}; "(null)" becomes an empty string."""
    settings: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and name.strip() and " " not in name.strip():
            settings[name.strip()] = "" if value.strip() == "(null)" else value.strip()
    return settings


_PING = re.compile(r"Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)")


def parse_ping(text: str) -> list[dict[str, object]]:
    """Parse `scontrol ping` as [{role, host, up}]."""
    return [{"role": role, "host": host, "up": word == "UP"} for role, host, word in _PING.findall(text)]


def parse_epoch(text: str) -> float | None:
    """Parse a Slurm time into epoch seconds: seconds (SLURM_TIME_FORMAT=%s) or ISO local time. None if unknown."""
    value = text.strip()
    if value.lower() in _UNKNOWN:
        return None
    if value.isdecimal():
        return float(value) or None
    try:
        return datetime.strptime(value, "%Y-%m-%dT%H:%M:%S").timestamp()
    except ValueError:
        return None


def parse_duration(text: str) -> int | None:
    """Parse a Slurm duration ([days-]hours:minutes:seconds, minutes:seconds) into seconds. None if unlimited or
    unknown.
    """
    value = text.strip().lower()
    if value in _UNKNOWN or value in _ENDLESS:
        return None
    days, dash, clock = value.partition("-")
    if not dash:
        days, clock = "0", value
    parts = clock.split(":")
    if not days.isdecimal() or not all(part.isdecimal() for part in parts) or len(parts) > 3:
        return None
    numbers = [int(part) for part in parts]
    if dash:
        # After days, the parts are hours, minutes and seconds from the left (sbatch --time).
        hours, minutes, seconds = (numbers + [0, 0])[:3]
    elif len(numbers) == 1:
        hours, minutes, seconds = 0, numbers[0], 0
    else:
        hours, minutes, seconds = ([0] + numbers)[-3:]
    return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds


def parse_exit(text: str) -> tuple[int | None, int | None]:
    """Return (exit code, signal) from "3:0" (sacct, scontrol) or from a raw wait status "768" (squeue -O exit_code)."""
    value = text.strip()
    code, colon, number = value.partition(":")
    if colon and code.isdecimal() and number.isdecimal():
        return int(code), int(number)
    if value.isdecimal():
        status = int(value)
        return status >> 8, status & 0x7F
    return None, None


def parse_count(text: str) -> int | None:
    """Parse a count: "8", "16+" (at least), "2K" (2048); "infinite", "UNLIMITED" and "N/A" give None."""
    match = re.match(r"(\d+)([KMGTP]?)\+?$", text.strip())
    if match is None:
        return None
    return int(match.group(1)) << 10 * " KMGTP".index(match.group(2) or " ")


_GRES = re.compile(r"([A-Za-z][\w/-]*)(?::([A-Za-z_][\w.-]*))?(?::(\d+[KMGTP]?))?(?:\((?:CNT:(\d+))?[^)]*\))?$")


def parse_gres(text: str) -> list[Gres]:
    """Parse generic resources: "gpu:h100:8(S:0-1),shard:16" gives name, type and count of each.

    Resources of a job that only have a count are shown as lscratch(CNT:500).
    """
    resources: list[Gres] = []
    if text.strip().lower() in _UNKNOWN:
        return resources
    # A comma inside parentheses belongs to the index list: gpu:a100:2(IDX:0,3).
    for part in re.split(r",(?![^(]*\))", text.strip()):
        match = _GRES.match(part.strip())
        if match:
            name, kind, count, counted = match.groups()
            resources.append(Gres(name, kind, parse_count(count or counted or "1") or 0))
    return resources


def count_gres(held: Iterable[Gres], name: str, kind: str | None = None, *, untyped: bool = False) -> int:
    """Count a generic resource, of one type if given. `untyped`: an entry without a type counts for every type."""
    return sum(g.count for g in held if g.name == name and (kind in (None, g.type) or (untyped and g.type is None)))


def lacking(held: Sequence[Gres], wanted: Iterable[str], *, untyped: bool = False) -> list[tuple[str, int]]:
    """Return the requested resources (as --gres takes them) that are insufficient: (as requested, amount available)."""
    asked = [(text, resource) for text in wanted for resource in parse_gres(text)]
    amounts = [
        (text, resource, count_gres(held, resource.name, resource.type, untyped=untyped)) for text, resource in asked
    ]
    return [(text, there) for text, resource, there in amounts if there < resource.count]


def launch_id(job_id: str) -> str:
    """Return the id of the complete launch: 20 for the component 20+1 of a het job; 13_2 is returned unchanged."""
    return job_id.split("+")[0]


def tasks_of(job_id: str) -> list[str]:
    """Return the ids in a row of an array: 13_[2,4-5%3] is 13_2, 13_4 and 13_5. Any other id is returned unchanged."""
    base, bracket, listed = job_id.partition("_[")
    if not bracket:
        return [job_id]
    tasks = []
    for part in listed.rstrip("]").split("%")[0].split(","):
        first, _dash, rest = part.partition("-")
        last, _colon, step = rest.partition(":")
        if first.isdecimal():
            tasks += [f"{base}_{task}" for task in range(int(first), int(last or first) + 1, int(step) if step else 1)]
    return tasks
