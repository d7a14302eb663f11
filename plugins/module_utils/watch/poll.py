# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Poll launches from the controller: one shell text over Ansible's connection, and a pure parser of its output.

A poll calls squeue at most once for jobs and once for steps. From each run directory it reads the claim, started.json,
outcome.json and the new bytes of one log. Reading files puts no load on Slurm, so it can be done often. All waits of
one user on one host share a budget of Slurm queries, which a small file on that host counts.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import json_object
from ansible_collections.rankzero.slurm.plugins.module_utils.run import plain_verdict
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import Claim, attempt_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome
from ansible_collections.rankzero.slurm.plugins.module_utils.run.steps import (
    SQUEUE_STEP_COLUMNS,
    from_row,
    is_step,
    job_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import (
    EXTRA_PATH,
    KEPT,
    KEPT_PREFIXES,
    SCRUBBED_PREFIXES,
    CommandResult,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import SQUEUE_COLUMNS, JobRecord, from_squeue
from ansible_collections.rankzero.slurm.plugins.module_utils.watch import budget as counted

LOG_BYTES = 16 * 1024
# A wait for a line of a log reads all of the log, this many bytes at a time.
WHOLE_LOG_BYTES = 256 * 1024
SQUEUE_TIMEOUT = 30
# Longest list of ids in a poll, whose text must stay below the limit of one argument of a command (128 KiB).
JOBS_BYTES = 50_000


@dataclass(frozen=True)
class Target:
    """One launch to read: its run directory, its job, and how far (bytes) its log of `attempt` was read.

    `log`: the name of the log in the attempt's folder; empty selects the one that the job names (rank 0's). `whole`:
    read on from `offset` and skip nothing; otherwise, of more new bytes than one poll returns, only the newest.
    `artifact`: the path of the artifact, where it is to be checked. `state`: that of the last poll, as it returned it.
    """

    run_dir: str
    job_id: str
    attempt: int | None = None
    offset: int = 0
    log: str = ""
    whole: bool = False
    artifact: str = ""
    state: str = ""


@dataclass(frozen=True)
class LogChunk:
    """New bytes of a log: `text` was read from `start` on; `size` is the end of the part that was read or skipped."""

    attempt: int
    start: int
    size: int
    text: str


@dataclass(frozen=True)
class Staging:
    """A copy of code or environment on its way to nodes: how many of them have it, and its size in bytes."""

    kind: str
    done: int
    nodes: int
    size: int


@dataclass(frozen=True)
class View:
    """What one poll read of one target.

    `local`: no job has claimed the run directory, which is on a disk of the host: what a job writes is seen at once.
    `untrusted`: why nothing in its run directory is trusted. `preflight`: before the ranks start, the number of nodes
    that were checked. `staging`: what is being copied to nodes that do not see it. `state`: a word that changes when
    the job writes a file that decides something.
    """

    exists: bool = False
    local: bool = False
    claim: Claim | None = None
    started: Mapping[str, Any] | None = None
    outcome: Outcome | None = None
    log: LogChunk | None = None
    proven: bool = False
    untrusted: str = ""
    preflight: int | None = None
    staging: Staging | None = None
    state: str = ""

    @property
    def launched(self) -> int:
        """The number of nodes on which the ranks were started; 0 before that."""
        started = self.started or {}
        return len(started.get("nodes") or []) if started.get("launched") else 0


@dataclass(frozen=True)
class Poll:
    """One poll. `asked`: squeue ran. `silent`: squeue's error text if it failed. `queue`: its rows by job id.

    `spent`: squeue was due, but the queries of this user and host for this minute are used up. `whole` is False when
    the connection cut the output short: then nothing in it may be used. `held`: how long (seconds) it waited for news.
    """

    whole: bool
    asked: bool = False
    silent: str = ""
    queue: Mapping[str, JobRecord] = field(default_factory=dict)
    views: tuple[View, ...] = ()
    warnings: tuple[str, ...] = ()
    spent: bool = False
    held: float = 0.0


def _scrub_line() -> str:
    """Shell text that unsets every variable that client.scrubbed() would drop."""
    kept = [f"-e '/^{name}=/d'" for name in sorted(KEPT)] + [f"-e '/^{prefix}/d'" for prefix in KEPT_PREFIXES]
    names = [rf"-e 's/^\({prefix}[A-Za-z0-9_]*\)=.*/\1/p'" for prefix in SCRUBBED_PREFIXES]
    return f'for v in $(env | sed -n {" ".join(kept + names)}); do unset "$v"; done'


def poll_script(
    targets: Sequence[Target],
    *,
    marker: str,
    program: str,
    ask_queue: bool,
    python: str = "python3",
    log_bytes: int = LOG_BYTES,
    jobs: Sequence[str] | None = None,
    budget: int = 0,
    hold: float = 0.0,
) -> str:
    """The POSIX shell text of one poll. `marker` is an unguessable word that separates the parts of its output.

    `program`: the source of glance.py as it is sent; `python` runs it. `jobs`: the ids to pass to squeue, by default
    those of the targets; if they are too many for one command, all jobs of the user are listed. `budget`: the maximum
    of queries a minute; 0 sets no limit. `hold`: wait up to this many seconds for a change before reading.

    A poll that does not call squeue is a single process: the shell becomes Python.
    """
    quote = shlex.quote
    lines = [
        f"PATH=$PATH:{':'.join(EXTRA_PATH)}",
        "LC_ALL=C SLURM_TIME_FORMAT=%s",
        "export PATH LC_ALL SLURM_TIME_FORMAT",
        f"m={quote(marker)}",
    ]
    if ask_queue:
        lines.insert(1, _scrub_line())
        lines += [counted.shell(budget)] if budget else ["over="]
        lines.append(f"t=; command -v timeout >/dev/null 2>&1 && t='timeout {SQUEUE_TIMEOUT}'")
        ids = list(dict.fromkeys(jobs if jobs is not None else [target.job_id for target in targets]))
        lines.append('if [ -n "$over" ]; then printf "%s spent\\n" "$m"; else')
        for kind, given, columns, selected in (
            ("queue", [job_id for job_id in ids if not is_step(job_id)], SQUEUE_COLUMNS, "--all --states=all"),
            ("steps", [job_id for job_id in ids if is_step(job_id)], SQUEUE_STEP_COLUMNS, "--steps"),
        ):
            if given:
                listed = ",".join(dict.fromkeys(map(job_of, given)))
                jobs_of = f"--jobs={quote(listed)}" if len(listed) <= JOBS_BYTES else "--user=$(id -u)"
                shown = quote(parse.squeue_format(columns))
                squeue = f"squeue --noheader {selected} {jobs_of} --Format={shown} 2>&1"
                lines.append(f'q=$($t {squeue}); r=$?; printf "%s {kind} %s\\n%s\\n" "$m" "$r" "$q"')
        lines.append("fi")
    request = {
        "marker": marker,
        "log_bytes": log_bytes,
        "whole_bytes": max(log_bytes, WHOLE_LOG_BYTES),
        "hold": hold,
        "targets": [asdict(target) for target in targets],
    }
    look = f"{quote(python)} -I -c {quote(program)} {quote(json.dumps(request))}"
    if ask_queue:
        lines += [look] if targets else []
        lines.append('printf "%s end\n" "$m"')
    else:
        lines.append(f"exec {look}")
    return "\n".join(lines)


def parse_poll(text: str, count: int, marker: str) -> Poll:
    """Parse the output of `poll_script` for `count` targets. Pure. Carriage returns of a terminal are accepted."""
    parts = text.replace("\r\n", "\n").split(f"{marker} ")
    views: list[dict[str, Any]] = [{} for _index in range(count)]
    complete = asked = spent = False
    silent, held = "", 0.0
    queue: dict[str, JobRecord] = {}
    warnings: list[str] = []
    for part in parts[1:]:
        head, _newline, body = part.partition("\n")
        # The script ends each part with an extra newline.
        body = body.removesuffix("\n")
        words = head.split()
        if words[:1] == ["end"]:
            complete = True
        elif words[:1] == ["spent"]:
            spent = True
        elif words[:1] == ["held"]:
            held = float(words[1])
        elif words[:1] == ["state"]:
            views[int(words[1])]["state"] = "".join(words[2:])
        elif words[:1] == ["untrusted"]:
            views[int(words[1])]["untrusted"] = body
        elif words[:1] == ["proven"]:
            views[int(words[1])]["proven"] = True
        elif words[:1] == ["preflight"]:
            views[int(words[1])]["preflight"] = int(words[2])
        elif words[:1] == ["staging"]:
            views[int(words[1])]["staging"] = Staging(words[2], *map(int, words[3:6]))
        elif words[:1] in (["queue"], ["steps"]):
            asked = True
            unanswered, rows, complaints = _parse_queue(int(words[1]), body, steps=words[0] == "steps")
            silent = silent or unanswered
            queue.update(rows)
            warnings += complaints
        elif words[:1] == ["run"]:
            views[int(words[1])].update(exists=True, local=words[2:] == ["local"])
        elif words[:1] == ["file"]:
            view, name = views[int(words[1])], words[2]
            if name == "claim":
                view["claim"] = Claim.of(body)
            elif name == plain_verdict.FILE:
                view["outcome"] = attempt_of(plain_verdict.verdict(body))
            else:
                view[name.removesuffix(".json")] = attempt_of(json_object(body))
        elif words[:1] == ["log"]:
            index, attempt, start, size = map(int, words[1:5])
            views[index]["log"] = LogChunk(attempt, start, size, body)
    return Poll(complete, asked, silent, queue, tuple(View(**view) for view in views), tuple(warnings), spent, held)


def _parse_queue(rc: int, body: str, *, steps: bool) -> tuple[str, dict[str, JobRecord], list[str]]:
    """The error text, rows and warnings of squeue's part. `body` holds both of its output streams."""
    if rc != 0 and "Invalid job id specified" in body:
        return "", {}, []
    if rc != 0:
        answer = CommandResult(("squeue",), rc, "", body, rc == 124)
        return f"no answer within {SQUEUE_TIMEOUT} s" if answer.timed_out else answer.complaint, {}, []
    if steps:
        rows, warnings = parse.parse_records(body, SQUEUE_STEP_COLUMNS)
        return "", {row["StepID"]: from_row(row) for row in rows}, warnings
    rows, warnings = parse.parse_records(body, SQUEUE_COLUMNS)
    return "", {row["JobArrayID"]: from_squeue(row) for row in rows}, warnings
