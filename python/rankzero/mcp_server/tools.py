# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools: each makes one command line of its arguments, and an answer of its document. Nothing here imports the SDK.

An argument is a word of a fixed form: none can be an option, another command, or a file outside of the jobs' folder.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rankzero import errors
from rankzero.documents import ERROR, written
from rankzero.errors import RankzeroError, UsageError
from rankzero.library import importable
from rankzero.mcp_server.answers import answer
from rankzero.mcp_server.budget import Budget, budget_of
from rankzero.options import VERBS
from rankzero.verbs import JOB_FILE

Document = dict[str, Any]
#: Carries out a command line, and returns its document.
Command = Callable[[Sequence[str]], Document]

#: Tool -> its verb. The others are offered only where the command line allows them.
READING = {"spec": "spec", "plan": "plan", "ls": "ls", "status": "ls", "logs": "logs", "why": "why"}
WRITING = ("run", "cancel")
#: In place of the verb's own purpose.
DOCS = {
    "status": "how one launch stands, with its attempts and the values of its result",
    "logs": "the last lines of one log of a launch, and the names of its other logs",
    "run": "submit what plan has returned, and return at once. Repeat it if the answer was lost: there is one job",
}
_LAUNCH = r"last|\d+([._]\d+)?|[A-Za-z0-9][\w.-]{0,63}(/[0-9a-f]{4,64}(/\d{1,9})?)?"
_WORD = r"[A-Za-z0-9][\w.-]{0,63}/[0-9a-f]{16}/[1-9]\d{0,8}/(any|\d{1,12})"
_KEY = r"[A-Za-z_][\w.-]{0,100}"
Job = Annotated[str, "a job file or batch script, as its path below the folder of jobs"]
Nodes = Annotated[int, "number of nodes; 0: as the job says"]
Launch = Annotated[str, "job id, NAME, NAME/KEY, NAME/KEY/GENERATION, or last: the newest"]
#: Codes of errors that come before anything could be submitted.
BEFORE = ("plan_again", "job_spec", "usage")
SECONDS = 600
MOST_LINES = 500


def asked(words: Sequence[str]) -> Document:
    """Carry out a command line of `rankzero` in a process of its own, whose output is its document."""
    importable()
    from ansible_collections.rankzero.slurm.plugins.module_utils.core import children

    # -P: no file of the current folder is imported.
    argv = [sys.executable, "-P", "-m", "rankzero", *words, "--json"]
    done = children.run(argv, os.environ)
    try:
        document: Document = json.loads(done.out)
    except ValueError:
        return written(ERROR, [], done.returncode or errors.REFUSED, "the command has ended without an answer")
    return document


@dataclass(frozen=True)
class Settings:
    """What a server may do. `where`: the options of every command line; `allowed`: the tools that change something."""

    jobs: str
    where: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    budget: Budget | None = None

    @classmethod
    def of(cls, given: Namespace) -> Settings:
        """The settings of a command line. Raises UsageError."""
        allowed = tuple(given.allow.split(",")) if given.allow else ()
        wrong = [name for name in allowed if name not in WRITING]
        if wrong:
            raise UsageError(f"mcp: --allow {wrong[0]}: what can be allowed is {', '.join(WRITING)}")
        if given.budget is not None and "run" not in allowed:
            raise UsageError(f"mcp: --budget {given.budget} has no effect without --allow run")
        if not os.path.isdir(given.jobs):
            raise UsageError(
                f"mcp: --jobs {given.jobs}: there is no such folder; make it, or name that of your job files"
            )
        pairs = [("-i", place) for place in given.inventory] + [("-e", pair) for pair in given.extra_vars]
        pairs += [("-c", given.cluster)] if given.cluster else []
        where = tuple(word for pair in pairs for word in pair)
        return cls(os.path.realpath(given.jobs), where, allowed, budget_of(given.budget, given.jobs))

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that are offered."""
        return (*READING, *(name for name in WRITING if name in self.allowed))


def purpose(tool: str) -> str:
    """What a tool does, in the words of its verb."""
    text = DOCS.get(tool) or VERBS[tool]
    return f"{text[0].upper()}{text[1:]}."


class Tools:
    """The tools of one server, by the names of their methods. Each returns an answer (answers.py)."""

    def __init__(self, settings: Settings, command: Command = asked) -> None:
        self._settings, self._command = settings, command

    def spec(self, key: Annotated[str, "such as resources.nodes, or a section; empty: all keys"] = "") -> Document:
        """What a key of the job spec means."""
        return self._answered(lambda: self._command(["spec", *([_form(_KEY, "key", key)] if key else [])]))

    def plan(self, job: Job, nodes: Nodes = 0) -> Document:
        """What `run` would submit; its `planned` is the word for `run`."""
        return self._answered(lambda: self._ask("plan", *self._job(job, nodes)), job, nodes)

    def ls(self, active: Annotated[bool, "only those that wait or run"] = False) -> Document:
        """All launches."""
        return self._answered(lambda: self._ask("ls", *(["--active"] if active else [])))

    def status(self, launch: Launch) -> Document:
        """One launch."""
        return self._answered(lambda: self._ask("ls", _launch(launch)))

    def why(self, launch: Launch) -> Document:
        """Why one launch failed or waits."""
        return self._answered(lambda: self._ask("why", _launch(launch)))

    def logs(
        self,
        launch: Launch,
        file: Annotated[str, "one of `names` of an earlier answer; empty: the first rank's newest log"] = "",
        lines: Annotated[int, "how many lines from its end, at most 500"] = 100,
    ) -> Document:
        """The end of one log."""
        return self._answered(lambda: self._logs(_launch(launch), file, lines))

    def run(
        self, job: Job, planned: Annotated[str, "the word `planned` that plan has returned"], nodes: Nodes = 0
    ) -> Document:
        """Submit what was planned."""
        return self._answered(lambda: self._run(job, planned, nodes), job, nodes)

    def cancel(self, launch: Launch) -> Document:
        """Cancel the job of one launch."""
        return self._answered(lambda: self._ask("cancel", _launch(launch)))

    def _answered(self, ask: Callable[[], Document], job: str = "", nodes: int = 0) -> Document:
        try:
            document = ask()
        except RankzeroError as error:
            document = written(ERROR, [], error.code, str(error))
        again = {"job": job, **({"nodes": nodes} if nodes else {})}
        return answer({**document, "next": [*self._next(document, again)]})

    def _ask(self, verb: str, *words: str) -> Document:
        return self._command([verb, *words, *self._settings.where])

    def _job(self, job: str, nodes: int) -> list[str]:
        path = os.path.realpath(os.path.join(self._settings.jobs, job))
        inside = os.path.commonpath([path, self._settings.jobs]) == self._settings.jobs if "\0" not in job else False
        if not (inside and job.endswith(JOB_FILE) and os.path.isfile(path)):
            raise UsageError(f"job: {job!r} is no job file below {self._settings.jobs}; give its path from there")
        if not 0 <= nodes < 10**6:
            raise UsageError(f"nodes: {nodes} is no number of nodes; 0 is what the job says")
        return [path, *(["-n", str(nodes)] if nodes else [])]

    def _run(self, job: str, planned: str, nodes: int) -> Document:
        words = [*self._job(job, nodes), "--planned", _form(_WORD, "planned", planned), "--detach"]
        budget = self._settings.budget
        if budget is None:
            return self._ask("run", *words)
        launch, _slash, minutes = planned.rpartition("/")
        if not minutes.isdecimal():
            raise UsageError(
                f"planned: {planned} has no time limit, and there is a budget; give the job resources.time"
            )
        with budget.held(" ".join([*self._settings.where, launch]), int(minutes)) as hold:
            document = self._ask("run", *words)
            hold.unused = document["code"] in BEFORE
        return document

    def _logs(self, launch: str, file: str, lines: int) -> Document:
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            document = self._ask("logs", launch, "--dest", folder)
            if document["exit_code"]:
                return document
            places = {str(path.relative_to(folder)): path for path in sorted(Path(folder).rglob("*")) if path.is_file()}
            first = [name for name in places if name.endswith("rank-0000.log")] or [*places]
            name = file or (first[-1] if first else "")
            if name not in places:
                raise UsageError(
                    f"file: {file!r} is no log of {launch}; there are {', '.join([*places][:20]) or 'none'}"
                )
            text = places[name].read_text(encoding="utf-8", errors="replace")
            kept = text.splitlines()[-min(max(lines, 1), MOST_LINES) :]
            told = {"file": name, "lines": kept, "lines_in_all": len(text.splitlines()), "names": [*places]}
            rows = [{**row, "dest": None} for row in document["launches"]]
            return {**document, "launches": rows, "log": told}

    def _next(self, document: Document, again: Document) -> list[Document]:
        """`next` of a document as calls of tools that are offered."""
        calls: list[Document] = []
        for line in document["next"]:
            verb, *rest = shlex.split(line)[1:]
            tool = {"attach": "status"}.get(verb, verb)
            if tool not in self._settings.tools:
                continue
            if tool == "run":
                arguments = {**again, "planned": document["launches"][0]["planned"]}
            elif tool in ("plan", "ls"):
                arguments = again if tool == "plan" else {}
            elif tool == "spec":
                arguments = {"key": rest[0]} if rest else {}
            elif rest and re.fullmatch(_LAUNCH, rest[0], re.ASCII):
                arguments = {"launch": rest[0]}
            else:
                continue
            calls.append({"tool": tool, "arguments": arguments})
        return calls


def _form(pattern: str, name: str, value: str) -> str:
    """The value of one argument, which has this form. Raises UsageError."""
    if not re.fullmatch(pattern, value, re.ASCII):
        raise UsageError(f"{name}: {value[:100]!r} has not the form of such a word; see the description of {name}")
    return value


def _launch(launch: str) -> str:
    # A name with the ending of a job file would be read as one.
    return _form(f"(?!.*({'|'.join(map(re.escape, JOB_FILE))})$)(?:{_LAUNCH})", "launch", launch)
