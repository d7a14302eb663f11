# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at launches from afar: one shell line over Ansible's connection, and a pure parser of its answer.

At most one squeue for any number of jobs, and of each run directory the claim, started.json, outcome.json and the new
bytes of rank 0's log. Files cost Slurm nothing, so they can be looked at often.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import (
    EXTRA_PATH,
    KEPT,
    KEPT_PREFIXES,
    SCRUBBED_PREFIXES,
    CommandResult,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.journal import Claim, json_object
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.lookup import SQUEUE_COLUMNS, JobRecord, from_squeue
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.steps import SQUEUE_STEP_COLUMNS, from_row, is_step

LOG_BYTES = 16 * 1024
SQUEUE_TIMEOUT = 30
FILES = ("claim", "started.json", "outcome.json")


@dataclass(frozen=True)
class Target:
    """One launch to look at: where, which job, and how far (bytes) its rank 0's log of `attempt` was read."""

    run_dir: str
    job_id: str
    attempt: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class LogChunk:
    """New bytes of rank 0's log: `text` was read from `start` on; the file had `size` bytes."""

    attempt: int
    start: int
    size: int
    text: str


@dataclass(frozen=True)
class View:
    """What one poll saw of one target."""

    exists: bool = False
    claim: Claim | None = None
    started: Mapping[str, Any] | None = None
    outcome: Mapping[str, Any] | None = None
    log: LogChunk | None = None


@dataclass(frozen=True)
class Poll:
    """One poll. `asked`: squeue ran. `silent`: why it gave no answer, in its words. `queue`: its rows by job id.

    `whole` is False when the connection cut the answer short: then nothing in it may be believed.
    """

    whole: bool
    asked: bool = False
    silent: str = ""
    queue: Mapping[str, JobRecord] = field(default_factory=dict)
    views: tuple[View, ...] = ()
    warnings: tuple[str, ...] = ()


def _scrub_line() -> str:
    """Shell: unset every variable that client.scrubbed() would drop."""
    kept = [f"-e '/^{name}=/d'" for name in sorted(KEPT)] + [f"-e '/^{prefix}/d'" for prefix in KEPT_PREFIXES]
    names = [rf"-e 's/^\({prefix}[A-Za-z0-9_]*\)=.*/\1/p'" for prefix in SCRUBBED_PREFIXES]
    return f'for v in $(env | sed -n {" ".join(kept + names)}); do unset "$v"; done'


def poll_script(targets: Sequence[Target], *, marker: str, ask_queue: bool, log_bytes: int = LOG_BYTES) -> str:
    """The POSIX shell text of one poll. `marker` is an unguessable word that separates the parts of its output."""
    quote = shlex.quote
    lines = [
        f"PATH=$PATH:{':'.join(EXTRA_PATH)}",
        _scrub_line(),
        "LC_ALL=C SLURM_TIME_FORMAT=%s",
        "export PATH LC_ALL SLURM_TIME_FORMAT",
        f"m={quote(marker)}",
    ]
    if ask_queue:
        lines.append(f"t=; command -v timeout >/dev/null 2>&1 && t='timeout {SQUEUE_TIMEOUT}'")
        ids = list(dict.fromkeys(target.job_id for target in targets))
        for kind, given, columns, selection in (
            ("queue", [one for one in ids if not is_step(one)], SQUEUE_COLUMNS, "--all --states=all --jobs"),
            ("steps", [one for one in ids if is_step(one)], SQUEUE_STEP_COLUMNS, "--steps"),
        ):
            if given:
                shown = quote(parse.squeue_format(columns))
                squeue = f"squeue --noheader {selection}={quote(','.join(given))} --Format={shown} 2>&1"
                lines.append(f'q=$($t {squeue}); r=$?; printf "%s {kind} %s\\n%s\\n" "$m" "$r" "$q"')
    for index, target in enumerate(targets):
        attempt = "none" if target.attempt is None else str(target.attempt)
        lines += [
            f'd={quote(target.run_dir)}; ls "$d" >/dev/null 2>&1 && printf "%s run {index}\\n" "$m"',
            # Only what the listing names is asked for: a network file system remembers that a name was missing.
            (
                f'for f in $(ls "$d" 2>/dev/null | grep -xF {" ".join(f"-e {name}" for name in FILES)}); do '
                f'printf "%s file {index} %s\\n" "$m" "$f"; cat "$d/$f"; echo; done'
            ),
            'a=$(ls "$d/logs" 2>/dev/null | grep -x "[0-9][0-9]*" | sort -n | tail -n 1); l=',
            # The rank to follow says so itself. One that could not, or an older run, has its name at least.
            'for n in $(ls -A "$d/logs/${a:-none}" 2>/dev/null | grep -xF -e .live -e rank-0000.log | sort -r); do',
            '[ ! -f "$d/logs/$a/$n" ] || l="$d/logs/$a/$n"; done',
            'if [ -n "$l" ]; then',
            # Its size is asked anew where stat can do that; nobody minds where it cannot.
            'stat --dereference --cached=never "$l" >/dev/null 2>&1',
            f's=$(wc -c < "$l"); s=$((s + 0)); o={target.offset}',
            # Another attempt has another log; a log that shrank was written anew.
            f'[ "$a" = {attempt} ] || o=0; [ "$o" -le "$s" ] || o=0',
            # A chatty program may write more than one poll shows: then the newest part is what counts.
            f'n=$((s - o)); [ "$n" -le {log_bytes} ] || {{ n={log_bytes}; o=$((s - n)); }}',
            f'printf "%s log {index} %s %s %s\\n" "$m" "$a" "$o" "$s"; tail -c "+$((o + 1))" "$l" | head -c "$n"; echo',
            "fi",
        ]
    lines.append('printf "%s end\\n" "$m"')
    return "\n".join(lines)


def parse_poll(text: str, count: int, marker: str) -> Poll:
    """What the output of `poll_script` for `count` targets says. Pure. A terminal's carriage returns do no harm."""
    parts = text.replace("\r\n", "\n").split(f"{marker} ")
    views: list[dict[str, Any]] = [{} for _index in range(count)]
    whole = asked = False
    silent = ""
    queue: dict[str, JobRecord] = {}
    warnings: list[str] = []
    for part in parts[1:]:
        head, _newline, body = part.partition("\n")
        # The script ends each part with a newline of its own.
        body = body.removesuffix("\n")
        words = head.split()
        if words[:1] == ["end"]:
            whole = True
        elif words[:1] in (["queue"], ["steps"]):
            asked = True
            unanswered, rows, complaints = _parse_queue(int(words[1]), body, steps=words[0] == "steps")
            silent = silent or unanswered
            queue.update(rows)
            warnings += complaints
        elif words[:1] == ["run"]:
            views[int(words[1])]["exists"] = True
        elif words[:1] == ["file"]:
            view, name = views[int(words[1])], words[2]
            if name == "claim":
                view["claim"] = Claim.of(body)
            else:
                view[name.removesuffix(".json")] = json_object(body)
        elif words[:1] == ["log"]:
            index, attempt, start, size = map(int, words[1:5])
            views[index]["log"] = LogChunk(attempt, start, size, body)
    return Poll(whole, asked, silent, queue, tuple(View(**view) for view in views), tuple(warnings))


def _parse_queue(rc: int, body: str, *, steps: bool) -> tuple[str, dict[str, JobRecord], list[str]]:
    """Silence, rows and warnings of squeue's part. The output of both its streams comes together."""
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
