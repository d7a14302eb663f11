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
        parser().print_help()
        return errors.USAGE
    if given.verb == "init":
        from rankzero.init import write_project

        for line in write_project(given.folder, given.script, given.login, force=given.force):
            print(line)
        return errors.OK
    if given.verb == "completion":
        from rankzero.completion import script

        print(script(given.shell), end="")
        return errors.OK
    return _played(given)


def _played(given: Namespace) -> int:
    as_json = getattr(given, "json", False)
    # stdout is reserved for the JSON document.
    call = call_of(given)
    played = play(call, verbose=given.verbose, output=sys.stderr if as_json else None)
    code = played.exit_code()
    if code == errors.INTERRUPTED:
        print(f"rankzero: interrupted{_way_back(given, played, call.options)}", file=sys.stderr)
    if as_json:
        import json

        from rankzero.documents import document

        print(json.dumps(document(given.verb, played, code), indent=2))
    return code


def _way_back(given: Namespace, played: Played, options: Sequence[str]) -> str:
    """The command that follows the job again after Ctrl-C; empty where no job is known."""
    launch = getattr(given, "launch", None) if given.verb in ("attach", "logs") else None
    for made in played.results("job"):
        if made.get("run_dir") and made.get("launch_state") in ("submitted", "adopted"):
            launch = f"{made['name']}/{made['key'][:16]}/{made['generation']}"
    if launch is None:
        return ""
    return f"; the job continues, follow it with: {shlex.join(['rankzero', 'attach', launch, *options])}"
