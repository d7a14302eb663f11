# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `rankzero`."""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence

from rankzero import errors
from rankzero.direct import directly, why_not
from rankzero.options import parse, parser
from rankzero.playbook import Played, play
from rankzero.verbs import call_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words[:1] == ["__complete"]:
            from rankzero.completion import candidates

            print("\n".join(candidates(words[1:])))
            return errors.OK
        return _carry_out(parse(words))
    except errors.RankzeroError as error:
        print(f"rankzero: {str(error).removeprefix('rankzero: ')}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.OK


def _carry_out(given: Namespace) -> int:
    if given.version:
        from rankzero.version import version

        print(f"rankzero {version()}")
        return errors.OK
    if not given.verb:
        parser().print_help(sys.stderr)
        return errors.USAGE
    if given.verb == "init":
        from rankzero.init import set_up

        return set_up(given)
    if given.verb == "completion":
        from rankzero.completion import script

        print(script(given.shell), end="")
        return errors.OK
    return _played(given)


def _played(given: Namespace) -> int:
    as_json = getattr(given, "json", False)
    # stdout is reserved for the JSON document.
    call = call_of(given)
    output = sys.stderr if as_json else None
    if given.verbose:
        print(f"rankzero: with ansible-playbook: {why_not(call) or '-v shows its output'}", file=sys.stderr, flush=True)
    played = None if given.verbose else directly(call, output)
    if played is None:
        played = play(call, verbose=given.verbose, output=output)
    code = played.exit_code()
    if code == errors.INTERRUPTED:
        commands = _commands_after(given, played, call.options)
        print("rankzero: interrupted" + ("; the job continues" if commands else ""), file=sys.stderr)
        for label, command in commands.items():
            # One line for each, however long, so that it can be copied.
            print(f"{label} {command}", file=sys.stderr)
    elif code and not as_json and _apart():
        # The playbook's output, which is stdout, may be in a file.
        print(f"rankzero: {played.error()}", file=sys.stderr)
    if as_json:
        import json

        from rankzero.documents import document

        print(json.dumps(document(given.verb, played, code), indent=2))
    return code


def _apart() -> bool:
    """Whether the error stream leads to another place than the output, which nobody may be reading."""
    try:
        out, err = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return (out.st_dev, out.st_ino, out.st_rdev) != (err.st_dev, err.st_ino, err.st_rdev)


def _commands_after(given: Namespace, played: Played, options: Sequence[str]) -> dict[str, str]:
    """{label: command} to follow the job again, or to stop it, after Ctrl-C; empty where no job is known."""
    launch = getattr(given, "launch", None) if given.verb in ("attach", "logs") else None
    for result in played.results("job"):
        if result.get("run_dir") and result.get("submission") in ("submitted", "adopted"):
            launch = f"{result['name']}/{result['key'][:16]}/{result['generation']}"
    if launch is None:
        return {}
    verbs = {"follow:": "attach", "stop:  ": "cancel"}
    return {label: shlex.join(["rankzero", verb, launch, *options]) for label, verb in verbs.items()}
