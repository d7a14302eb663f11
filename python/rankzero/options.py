# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: verbs and their options."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from rankzero.errors import UsageError
from rankzero.short_names import SHORT_NAMES

#: The title of the options that the field table of the job spec declares.
SHORT = "short names of the job spec"
VERBS: dict[str, str] = {
    "init": "write a job file and an inventory, and prove that the cluster can launch",
    "plan": "show what would be submitted, and why",
    "run": "submit a job exactly once, wait for its result, fetch the logs",
    "ls": "list launches and how they stand",
    "attach": "follow a launch to its end",
    "logs": "fetch the logs of every rank",
    "why": "say why a launch failed, or why it waits",
    "compare": "compare the results of launches",
    "report": "write a page about a launch, a comparison, a sweep, or all launches",
    "sync": "upload what wandb has logged offline, from the login node",
    "notify": "send the messages about launches that are due, for a timer",
    "usage": "sum up the node-hours of launches, and what they went to",
    "cancel": "cancel the active job of a launch",
    "pull": "fetch the artifact or other outputs, verified",
    "shell": "open a shell with the resources and the environment of a job",
    "sweep": "run a sweep, and compare its results",
    "pipeline": "run jobs that depend on each other, each once",
    "reconcile": "make a cluster match a folder of job files",
    "lab": "boot or remove a Slurm cluster on this machine",
    "completion": "print a shell's completion script",
    "mcp": "offer verbs as tools to programs that speak the Model Context Protocol",
    "skill": "show or install what an assistant reads about this command",
    "spec": "say what a key of the job spec means, without a cluster",
}


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises an exception instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise argparse's error as UsageError."""
        raise UsageError(f"{self.prog}: {message}; see {self.prog} --help")


def parser() -> Parser:
    """The complete command line. The program's arguments, after --, are removed before."""
    top = Parser(
        prog="rankzero",
        description="Launch multi-node training on Slurm exactly once. Every verb runs a playbook of the Ansible "
        "collection rankzero.slurm; -v shows the command line.",
        epilog="Exit codes: 0 done, 1 the launch failed, 2 refused, 3 the wait ended before the launch, 4 the cluster "
        "cannot be reached, 64 wrong usage, 130 Ctrl-C (the job continues).",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="show the version and exit")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
    for verb, purpose in VERBS.items():
        verb_parser = verbs.add_parser(
            verb, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.", allow_abbrev=False
        )
        globals()[f"_{verb}"](verb_parser)
        if verb not in ("completion", "skill", "spec"):
            _everywhere(verb_parser)
        verb_parser.add_argument("--json", action="store_true", help="print one JSON document; the rest goes to stderr")
    return top


def _everywhere(parser: Parser) -> None:
    parser.add_argument("-c", "--cluster", metavar="NAME", help="the cluster, by its name in the inventory")
    parser.add_argument(
        "-i", "--inventory", action="append", default=[], help="inventory; default: ./inventory if it exists"
    )
    parser.add_argument(
        "-e", "--extra-vars", action="append", default=[], metavar="NAME=VALUE", help="passed to the playbook"
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="show the ansible-playbook line and Ansible's own output; -vv: more",
    )


def _job(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", nargs="?", help="job file or batch script; or -- sbatch OPTIONS SCRIPT")
    parser.add_argument("-n", "--nodes", metavar="N", help="number of nodes")
    parser.add_argument(
        "-s", "--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the job spec"
    )
    parser.add_argument(
        "arguments", nargs="*", default=[], metavar="-- ARGUMENT", help="further arguments of the program"
    )
    short = parser.add_argument_group(SHORT)
    for name, (key, switch) in SHORT_NAMES.items():
        if name != "nodes":
            kind: dict[str, Any] = {"action": "store_const", "const": True} if switch else {"metavar": "VALUE"}
            short.add_argument(f"--{name.replace('_', '-')}", dest=name, help=key, **kind)


def _launch(parser: Parser, *, optional: bool = False) -> None:
    text = "job id, NAME, NAME/KEY, NAME/KEY/GENERATION, run directory, job file, or last: the newest"
    parser.add_argument("launch", metavar="LAUNCH", nargs="?" if optional else None, help=text)


def _launching(parser: Parser) -> None:
    _job(parser)
    parser.add_argument("--rerun", action="store_true", help="run a launch again that has succeeded")
    parser.add_argument("--check", action="store_true", help="submit nothing, show what would be done")
    wait = parser.add_mutually_exclusive_group()
    wait.add_argument("--wait", action="store_true", default=None, dest="wait", help="wait for the result, also in CI")
    wait.add_argument(
        "-d", "--detach", action="store_false", default=None, dest="wait", help="return once it is queued"
    )


def _run(parser: Parser) -> None:
    _launching(parser)
    text = "only the launch that plan --json has named so, in its `planned`; for anything else: plan again"
    parser.add_argument("--planned", metavar="WORD", help=text)
    _first(parser)
    text = "with --first: how long a job waits on its nodes until somebody lets it run; default 600"
    parser.add_argument("--grant-within", metavar="SECONDS", type=_seconds, help=text)
    _explain(parser)


def _first(parser: Parser) -> None:
    text = "several clusters of the inventory, of which the one that starts the launch first runs it"
    parser.add_argument("--first", metavar="NAME,NAME", help=text)


def _sweep(parser: Parser) -> None:
    _launching(parser)
    parser.add_argument("--elements", metavar="N,M", help="only these elements")


def _pipeline(parser: Parser) -> None:
    _launching(parser)


def _plan(parser: Parser) -> None:
    _job(parser)
    _explain(parser)


def _explain(parser: Parser) -> None:
    text = "also show the code, what is taken from where, the checks, and each variable of the ranks with its reason"
    parser.add_argument("--explain", action="store_true", help=text)


def _shell(parser: Parser) -> None:
    _job(parser)
    parser.add_argument("--role", metavar="NAME", help="the role whose program it is for (default: the deciding one)")
    served = parser.add_mutually_exclusive_group()
    served.add_argument("--jupyter", action="store_true", help="Jupyter of the job's environment, for you alone")
    served.add_argument("--code", action="store_true", help="keep the session open for VS Code and ssh")
    parser.add_argument("--name", metavar="NAME", help="what squeue calls it: JOB.NAME (default: shell)")
    parser.add_argument("--show", action="store_true", help="only show the commands to type")
    parser.add_argument("--check", action="store_true", help="show them, and write nothing")


def _ls(parser: Parser) -> None:
    _launch(parser, optional=True)
    parser.add_argument("--active", action="store_true", help="only pending and running launches")
    parser.add_argument("--all", action="store_true", help="also earlier generations")
    parser.add_argument(
        "--sort", metavar="NAME", help="by a column, or by a number of the results; --sort=-NAME: the largest first"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="the N most recent ended launches (default 100; 0: all)")


def _attach(parser: Parser) -> None:
    _launch(parser)
    parser.add_argument(
        "--until", choices=("started", "artifact", "finished"), help="what to wait for; default finished"
    )
    _first(parser)
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=_seconds, help="stop waiting after this time; the job continues"
    )


def _seconds(text: str) -> str:
    """A whole number of seconds."""
    if text.isdecimal():
        return text
    number, factor = text[:-1], {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    example = int(number) * factor if factor and number.isdecimal() and len(number) < 9 else 300
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds; write {example}")


def _logs(parser: Parser) -> None:
    _launch(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="show new lines until the job ends")
    parser.add_argument("--merge", action="store_true", help="merge all logs by time into one file")
    parser.add_argument("--dest", metavar="FOLDER", help="where the logs go; default runs")


def _why(parser: Parser) -> None:
    _launch(parser, optional=True)
    parser.add_argument("--logs", metavar="PATH", help="logs of any launcher instead, on the cluster")


def _compare(parser: Parser) -> None:
    text = (
        "job id, NAME, NAME/KEY, NAME/KEY/GENERATION, run directory or last; a single name: all its keys with a result"
    )
    parser.add_argument("launches", metavar="LAUNCH", nargs="+", help=text)
    parser.add_argument("--time", metavar="NUMBER", help="the number of the artifacts that is the time, or wall_time")


def _report(parser: Parser) -> None:
    text = "launches as for compare; one gives its page, several a comparison, none a list of all"
    parser.add_argument("launches", metavar="LAUNCH", nargs="*", default=[], help=text)
    parser.add_argument("--sweep", metavar="NAME", help="show a sweep, by its name or folder")
    parser.add_argument("-o", "--output", metavar="FILE", help="the HTML file; default: below runs/")
    parser.add_argument("--limit", type=int, metavar="N", help="list at most this many launches that have ended")


def _sync(parser: Parser) -> None:
    text = "launches as for compare; default: all that are recorded"
    parser.add_argument("launches", metavar="LAUNCH", nargs="*", default=[], help=text)
    parser.add_argument("--wandb", metavar="PATH", help="the program wandb on the cluster's login node")
    parser.add_argument("--api-key-file", metavar="PATH", help="a file on the login node with the API key")
    parser.add_argument("--check", action="store_true", help="upload nothing, show what would be uploaded")


def _notify(parser: Parser) -> None:
    _launch(parser, optional=True)
    parser.add_argument("--metrics-file", metavar="FILE", help="also write numbers for node-exporter to this file")
    parser.add_argument("--metrics-hours", type=int, metavar="N", help="count what ended in so many hours; default 24")
    parser.add_argument("--check", action="store_true", help="send nothing, show what would be sent")


def _usage(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="only launches with this name")
    parser.add_argument("--by", metavar="GROUP,...", help="user, account, month, name; default user,account,month")
    parser.add_argument("--since", metavar="YEAR-MONTH", help="only launches of this month and later")
    parser.add_argument("--until", metavar="YEAR-MONTH", help="only launches of this month and earlier")
    parser.add_argument("--csv", metavar="FILE", help="also write the rows to this file")


def _cancel(parser: Parser) -> None:
    _launch(parser)
    parser.add_argument("--all", action="store_true", help="every active job of that name, if there are several")


def _pull(parser: Parser) -> None:
    _launch(parser)
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        default=[],
        help="file or folder in the working directory; default: the artifact",
    )
    parser.add_argument("--dest", metavar="FOLDER", help="where the files go; default runs")
    parser.add_argument("--check", action="store_true", help="fetch nothing, show what would be fetched")


def _reconcile(parser: Parser) -> None:
    parser.add_argument("jobs", metavar="FOLDER", help="folder of job files")
    parser.add_argument("--check", action="store_true", help="launch nothing, show what would be done")
    parser.add_argument(
        "--markdown",
        action="store_true",
        help="print the plan as Markdown, for a pull request",
    )


def _lab(parser: Parser) -> None:
    parser.add_argument(
        "state",
        choices=("up", "stop", "down"),
        nargs="?",
        default="up",
        help="default: up, which boots eight nodes; stop keeps its data, down does not",
    )
    parser.add_argument("--name", help="another instance")


def _init(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="the project; default: this folder")
    parser.add_argument(
        "--from", dest="script", metavar="SCRIPT", help="the job of this sbatch script, or the script as a job"
    )
    parser.add_argument(
        "--arg",
        dest="arguments_of_script",
        metavar="VALUE",
        action="append",
        default=[],
        help="an argument of the script",
    )
    parser.add_argument(
        "--set",
        dest="variables",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a variable that the script reads",
    )
    text = "also write an inventory: ask Slurm on this login node, find a folder that the nodes share, and launch hello"
    parser.add_argument("--login", metavar="[USER@]HOST", help=text)
    text = "with --login: a folder on the cluster that the nodes share"
    parser.add_argument("--shared", metavar="FOLDER", action="append", default=[], help=text)
    parser.add_argument("--force", action="store_true", help="replace an existing job file")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="then run script and job on the cluster, with programs that only note how they are called, and list what "
        "differs",
    )


def _completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def _mcp(parser: Parser) -> None:
    text = "what may change something, of run,cancel; default: nothing"
    parser.add_argument("--allow", metavar="VERB,...", help=text)
    text = "with --allow run: what its launches may use in all (nodes x time x attempts), as node_hours=4"
    parser.add_argument("--budget", metavar="NAME=NUMBER", help=text)
    text = "the folder whose job files may be planned and run; default jobs"
    parser.add_argument("--jobs", metavar="FOLDER", default="jobs", help=text)


def _skill(parser: Parser) -> None:
    parser.add_argument("action", choices=("list", "install"), nargs="?", default="list", help="default: list")
    text = "install: the folder that gets a folder for each; default .agents/skills"
    parser.add_argument("--dest", metavar="FOLDER", default=".agents/skills", help=text)
    parser.add_argument("--force", action="store_true", help="install: replace files with another content")


def _spec(parser: Parser) -> None:
    text = "a key such as resources.nodes, a short name, or a section; default: all keys"
    parser.add_argument("key", metavar="KEY", nargs="?", help=text)
