# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`next` of a JSON document: the commands that are likely to be typed after it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

#: Code of an error -> the verbs about its launch.
OF_A_LAUNCH = {"failed": ("why", "logs"), "unfinished": ("attach", "cancel"), "interrupted": ("attach", "cancel")}
#: Those about a launch that is active, and about one that has succeeded.
ACTIVE, SUCCEEDED = ("attach", "cancel"), ("pull", "report")
#: Code of an error -> what helps whatever was typed; SAME stands for the same command.
SAME = "the same command"
OF_AN_ERROR = {
    "no_launch": ("rankzero ls",),
    "unreachable": (SAME,),
    "slurm_silent": (SAME,),
    "no_ansible": ("python3 -m pip install ansible-core", SAME),
    "usage": ("rankzero {verb} --help",),
}
#: Options of a trial run, which the command that does it lacks.
TRIAL = ("--check", "--explain", "--json")
#: Options of `run` that `plan` lacks. The one with a value comes first.
PLANNED = "--planned"
OF_A_RUN = (PLANNED, "--wait", "-d", "--detach", "--rerun")
#: The verbs that act only without --check, and those whose rows are launches to go on with.
TRIED = ("run", "sweep", "pipeline", "reconcile", "pull", "sync", "notify")
GOES_ON = ("run", "attach", "why", "ls", "sweep", "pipeline")
#: A key of the job spec at the beginning of a mistake.
_KEY = re.compile(r"^\s*-?\s*([a-z_]+(?:\.[a-z_]+)*): ", re.M)
#: Of many launches, the first so many are named.
MOST = 3


def commands(
    verb: str,
    words: Sequence[str],
    document: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    where: Sequence[str],
) -> list[str]:
    """The commands after a document. `words`: the command line; `where`: its options that select the cluster."""
    code = document["code"]
    again = shlex.join(["rankzero", *(word for word in words if word != "--json")])
    if code == "job_spec":
        return [f"rankzero spec {key}" for key in _keys(str(document["error"]))] or ["rankzero spec"]
    if code in OF_AN_ERROR:
        return [again if line == SAME else line.format(verb=verb).replace("  ", " ") for line in OF_AN_ERROR[code]]
    if code == "plan_again":
        return [shlex.join(["rankzero", *_without(_other(words, "run", "plan"), OF_A_RUN)])]
    if verb == "plan" and not code:
        return [shlex.join(["rankzero", *_without(_other(words, "plan", "run"))])]
    if "--check" in words and verb in TRIED and not code:
        return [shlex.join(["rankzero", *_without(words)])]
    if verb == "init" and not code:
        return [shlex.join(["rankzero", "plan", str(row["path"])]) for row in rows if row["kind"] == "job"]
    if code in OF_A_LAUNCH or (verb in GOES_ON and not code):
        named = [row for row in rows if row.get("run_dir")][:MOST]
        return [line for row in named for line in _of_a_launch(row, code, where)]
    return []


def _of_a_launch(row: Mapping[str, Any], code: str | None, where: Sequence[str]) -> list[str]:
    status = row.get("status") or {}
    standing = status.get("standing") or row.get("standing")
    if code in OF_A_LAUNCH:
        verbs = OF_A_LAUNCH[code]
    elif standing == "failed":
        verbs = OF_A_LAUNCH["failed"]
    else:
        verbs = SUCCEEDED if status.get("success") or standing == "succeeded" else ACTIVE
    launch = f"{row['name']}/{row['key']}/{row['generation']}"
    return [shlex.join(["rankzero", verb, launch, *where]) for verb in verbs]


def _other(words: Sequence[str], verb: str, other: str) -> list[str]:
    """A command line with another verb."""
    at = list(words).index(verb)
    return [*words[:at], other, *words[at + 1 :]]


def _without(words: Sequence[str], more: Sequence[str] = ()) -> list[str]:
    """A command line without the options of a trial, and more; what follows -- is the program's."""
    cut = list(words).index("--") if "--" in words else len(words)
    gone = {number for number, word in enumerate(words[:cut]) if word in (*TRIAL, *more)}
    gone |= {number + 1 for number in gone if words[number] == PLANNED}
    return [word for number, word in enumerate(words) if number not in gone]


def _keys(error: str) -> list[str]:
    """The keys of the job spec that a message names, each once."""
    from rankzero.spec_keys import rows

    known = {row["key"] for row in rows()}
    return list(dict.fromkeys(key for key in _KEY.findall(error) if key in known))[:MOST]
