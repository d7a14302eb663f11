# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a command line, and refuse what is wrong in it."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from typing import Any

from rankzero.errors import UsageError
from rankzero.options import VERBS, Parser, parser

#: What may stand in place of a verb.
TOP = ("--version", "--help", "-h")


def own_words(arguments: Sequence[str]) -> list[str]:
    """The words of the command itself: those before --, which the program's follow."""
    words = list(arguments)
    return words[: words.index("--")] if "--" in words else words


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of the command. Raises UsageError, which suggests the nearest verb or option."""
    own, program = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, program = own[:cut], own[cut + 1 :]
    if own and own[0] not in (*VERBS, *TOP):
        raise UsageError(_wrong().verb(own, program))
    top = parser()
    given, unknown = top.parse_known_args(own)
    taken: Any = getattr(given, "arguments", None)
    wrong = [*unknown, *(taken or ())]
    if given.verb and wrong:
        after = None if taken is None else program
        raise UsageError(_wrong().option(own, wrong[0], _options(top, given.verb), after, _switches(top, given.verb)))
    if unknown:
        raise UsageError(f"rankzero: {unknown[0]!r} is not expected; see rankzero --help")
    if program and taken is None:
        raise UsageError(f"rankzero {given.verb}: takes no arguments of a program after --")
    if taken is not None:
        _name_job(given, program)
    return given


def _wrong() -> Any:
    """The answers to wrong words, which are imported only for one."""
    import rankzero.wrong_words

    return rankzero.wrong_words


def _name_job(given: argparse.Namespace, program: list[str]) -> None:
    """What follows after -- is the job itself, as a command line of sbatch, or the arguments of its program."""
    if given.job is not None:
        given.arguments = program
    elif program and os.path.basename(program[0]) == "sbatch":
        if len(program) == 1:
            raise UsageError(
                f"rankzero {given.verb}: sbatch has no script: name it, as in -- sbatch --nodes=2 train.sh"
            )
        given.job, given.arguments = shlex.join(program), []
    else:
        raise UsageError(
            f"rankzero {given.verb}: JOB is missing: a job file, a batch script, or after -- a command line of sbatch"
            + (f", not of {program[0]}" if program else "")
        )


def _options(top: Parser, verb: str) -> list[str]:
    return [option for action in verb_parser(top, verb)._actions for option in action.option_strings]


def _switches(top: Parser, verb: str) -> list[str]:
    return [word for action in verb_parser(top, verb)._actions if action.nargs == 0 for word in action.option_strings]


def verb_parser(top: Parser, verb: str) -> argparse.ArgumentParser:
    """The parser of one verb."""
    (choices,) = [action.choices for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    chosen: argparse.ArgumentParser = choices[verb]
    return chosen
