# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `rankzero`."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rankzero import errors
from rankzero.direct import directly, output_to, why_not
from rankzero.options import VERBS, parser
from rankzero.parsing import own_words, parse
from rankzero.playbook import Played, play
from rankzero.verbs import call_of

#: The rows of a document.
Made = list[dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words[:1] == ["__complete"]:
            from rankzero.completion import candidates

            print("\n".join(candidates(words[1:])))
            return errors.OK
        return _carry_out(parse(words), words)
    except errors.RankzeroError as error:
        return _refused(words, str(error).removeprefix("rankzero: "), error.code)
    except KeyboardInterrupt:
        if "--json" in own_words(words):
            _print(words, [], errors.INTERRUPTED, "interrupted")
        return errors.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.OK
    except OSError as error:
        # A traceback would end with the exit code of a launch that has failed.
        place = f"{error.filename}: " if error.filename else ""
        return _refused(words, f"{place}{error.strerror or error}", errors.REFUSED)


def _refused(words: Sequence[str], text: str, code: int) -> int:
    """Say why nothing was done, on stderr, and with --json as a document, too."""
    print(f"rankzero: {text}", file=sys.stderr)
    if "--json" in own_words(words):
        _print(words, [], code, text)
    return code


def _carry_out(given: Namespace, words: Sequence[str]) -> int:
    if given.version:
        from rankzero.version import version

        print(f"rankzero {version()}")
        return errors.OK
    if not given.verb:
        parser().print_help(sys.stderr)
        return errors.USAGE
    if given.verb not in LOCAL:
        return _played(given, words)
    # stdout is reserved for the JSON document, also for what a playbook of the verb says.
    out = sys.stderr if given.json else sys.stdout
    with output_to(sys.stderr if given.json else None), contextlib.redirect_stdout(out):
        code, rows = LOCAL[given.verb](given)
    if given.json:
        _print(words, rows, code)
    return code


def _init(given: Namespace) -> tuple[int, Made]:
    from rankzero.init import set_up

    return set_up(given)


def _completion(given: Namespace) -> tuple[int, Made]:
    from rankzero.completion import script

    print(script(given.shell), end="")
    return errors.OK, [{"shell": given.shell, "script": script(given.shell)}]


def _skill(given: Namespace) -> tuple[int, Made]:
    from rankzero.skills import carry_out

    return carry_out(given)


def _spec(given: Namespace) -> tuple[int, Made]:
    from rankzero.spec_keys import lines, rows

    shown = rows(given.key)
    print("\n".join(lines(shown)))
    return errors.OK, shown


def _mcp(given: Namespace) -> tuple[int, Made]:
    from rankzero.mcp_server.server import serve

    return serve(given)


#: Verb that runs no playbook, or more than one -> what does it: exit code, and the rows of its document.
LOCAL: dict[str, Callable[[Namespace], tuple[int, Made]]] = {
    "init": _init,
    "completion": _completion,
    "mcp": _mcp,
    "skill": _skill,
    "spec": _spec,
}


def _print(
    words: Sequence[str], rows: Made, code: int, error: str | None = None, more: Mapping[str, Any] | None = None
) -> None:
    """Print the JSON document of a command line. `more`: its `error_code`, and the options that select the cluster."""
    import json

    from rankzero.afterwards import commands
    from rankzero.documents import ERROR, written

    named = next((word for word in own_words(words) if not word.startswith("-")), "")
    verb, more = named if named in VERBS else ERROR, more or {}
    document = written(verb, rows, code, error, more.get("error_code"))
    document["next"] = commands(named if named in VERBS else "", words, document, rows, more.get("options", ()))
    print(json.dumps(document, indent=2))


def _played(given: Namespace, words: Sequence[str]) -> int:
    as_json, as_markdown = given.json, getattr(given, "markdown", False)
    if as_json and as_markdown:
        raise errors.UsageError("--markdown: --json is given, too; choose one")
    # stdout is reserved for the document.
    call = call_of(given)
    output = sys.stderr if as_json or as_markdown else None
    if given.verbose:
        print(f"rankzero: with ansible-playbook: {why_not(call) or '-v shows its output'}", file=sys.stderr, flush=True)
    if getattr(given, "first", None):
        from rankzero.first import raced

        within = getattr(given, "grant_within", None)
        played: Played | None = raced(call, given.first, int(within) if within else None, output, given.verbose)
    else:
        played = None if given.verbose else directly(call, output)
    if played is None:
        played = play(call, verbose=given.verbose, output=output)
    code = played.exit_code()
    if code == errors.INTERRUPTED:
        follow = _commands_after(given, played, call.options)
        print("rankzero: interrupted" + ("; the job continues" if follow else ""), file=sys.stderr)
        for label, command in follow.items():
            # One line for each, however long, so that it can be copied.
            print(f"{label} {command}", file=sys.stderr)
    elif code and not as_json and _apart():
        # The playbook's output, which is stdout, may be in a file.
        print(f"rankzero: {played.error()}", file=sys.stderr)
    if as_markdown:
        from rankzero.library import importable

        importable()
        from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.plan import plan_markdown

        print(plan_markdown({host: played.told("reconcile", host) for host in played.hosts()}, played.error()), end="")
    if as_json:
        from rankzero.documents import rows_of

        more = {"error_code": played.error_code(), "options": call.options}
        _print(words, rows_of(given.verb, played), code, played.error() if code else None, more)
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
