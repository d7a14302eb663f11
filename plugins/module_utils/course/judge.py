# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run proves: its claims checked against Slurm's records. Pure.

Each piece of evidence names its source. `slurm`: accounting or the queue, which no student can write. `system`: when
the file system recorded a file's last change, which no user can set. `student`: the run directory, in which its owner
can write anything. A task is passed if nothing contradicts it. If Slurm cannot be queried, it is at most unproven,
never passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.course.claims import Claims
from ansible_collections.rankzero.slurm.plugins.module_utils.course.key import Unknowable, code_of, key_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord

PASSED, FAILED, UNPROVEN = "passed", "failed", "unproven"
SLURM, SYSTEM, STUDENT = "slurm", "system", "student"
RUN_TASKS = ("record", "key", "preflight", "sanity", "world_size", "saved")
EPOCH_TIME = "epoch_time"
# Values in a column of the preflight's table that mean that the node has what it needs.
_FIT = frozenset({"ok", "staged", "made", "sealed", "mounted"})
_SHOWN = 4
_LOST = "accounting has lost the job's name: it heard of a step before it heard of the job"


@dataclass(frozen=True)
class Evidence:
    """One observation. `ok`: it supports the task (True), contradicts it (False), or could not be made (None)."""

    ok: bool | None
    source: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """One task of one student. `nodes` is None for a task that compares runs."""

    task: str
    nodes: int | None
    evidence: tuple[Evidence, ...]

    @property
    def result(self) -> str:
        """FAILED if any evidence contradicts the task, UNPROVEN if some is missing, else PASSED."""
        answers = [evidence.ok for evidence in self.evidence]
        if False in answers:
            return FAILED
        return UNPROVEN if None in answers or not answers else PASSED


@dataclass(frozen=True)
class Word:
    """Slurm's record of one job. `job` is None if Slurm does not know it; `silent`: why it could not be queried."""

    job: JobRecord | None = None
    nodes: tuple[str, ...] = ()
    steps: tuple[JobRecord, ...] = ()
    silent: str = ""


@dataclass(frozen=True)
class Expected:
    """What a run should be. `account`: None if the class has no accounts. `code`: permitted digests; empty: any."""

    nodes: int
    ranks_per_node: int
    user: str
    account: str | None
    saved: Sequence[str] = ()
    artifact: str = "result.json"
    code: Sequence[str] = ()
    clock_slack: float = 10.0
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.nodes * self.ranks_per_node


def judge(run: Claims, word: Word, expected: Expected) -> list[Verdict]:
    """A verdict for each of RUN_TASKS, in that order."""
    judged = {
        "record": _record,
        "key": _key,
        "preflight": _preflight,
        "sanity": _sanity,
        "world_size": _world_size,
        "saved": _saved,
    }
    return [Verdict(task, expected.nodes, tuple(judged[task](run, word, expected))) for task in RUN_TASKS]


def missing(nodes: int, why: str, *, unreadable: bool) -> list[Verdict]:
    """The verdicts for a missing run, or for one that may be in a directory that the reader cannot read."""
    return [Verdict(task, nodes, (Evidence(None if unreadable else False, STUDENT, why),)) for task in RUN_TASKS]


def _record(run: Claims, word: Word, expected: Expected) -> list[Evidence]:
    if not run.job_id:
        return [Evidence(False, STUDENT, "no job has claimed this run")]
    if run.job_id in expected.others:
        return [Evidence(False, STUDENT, f"job {run.job_id} is the run of {expected.others[run.job_id]}")]
    job = word.job
    if job is None and word.silent:
        return [Evidence(None, STUDENT, f"job {run.job_id}, only from the student's files: {word.silent}")]
    if job is None:
        return [Evidence(False, SLURM, f"accounting has no job {run.job_id}")]
    evidence = [
        _named(run, job),
        _same("user", job.user, expected.user),
        *([_same("account", job.account, expected.account)] if expected.account else []),
        *([_same("working directory", job.work_dir, run.path)] if job.work_dir else []),
        _same("nodes", job.nodes, expected.nodes),
        Evidence(
            job.state == "COMPLETED" and job.exit_code == 0,
            SLURM,
            f"{job.state}, exit code {job.exit_code}, {job.elapsed} s on {job.node_list or 'no node'}",
        ),
        _times(run, job, expected.clock_slack),
        Evidence(
            run.outcome.get("success") is True, STUDENT, f"outcome.json: {_short(run.outcome.get('message', 'none'))}"
        ),
    ]
    if word.steps:
        widest = max(word.steps, key=lambda step: (step.nodes or 0, step.elapsed or 0))
        text = f"step {widest.job_id} ran on {widest.nodes} nodes for {widest.elapsed} s"
        evidence.append(Evidence(widest.nodes == expected.nodes, SLURM, text))
    elif job.source == "sacct":
        evidence.append(Evidence(False, SLURM, "no step of this job ever ran"))
    return evidence


def _same(what: str, actual: object, wanted: object) -> Evidence:
    if actual == wanted:
        return Evidence(True, SLURM, f"{what} {_short(actual)}")
    return Evidence(False, SLURM, f"{what} is {_short(actual or 'not known')}, not {_short(wanted)}")


def _named(run: Claims, job: JobRecord) -> Evidence:
    """Check the job's name. If accounting has lost it, the job's working directory is equally good evidence."""
    if not job.nameless:
        return _same("job name", job.name, run.job_name)
    if job.work_dir == run.path:
        return Evidence(True, SLURM, f"{_LOST}; it worked in this run's directory")
    return Evidence(None, SLURM, _LOST)


def _key_of_job(job: JobRecord) -> str | None:
    """The key by which Slurm knows a job: from its name, <name>.<key>.<generation>, or from its working directory,
    runs/<name>/<key>/<generation>. None if accounting has lost both.
    """
    if job.nameless and not job.work_dir:
        return None
    parts = job.work_dir.split("/") if job.nameless else job.name.split(".")
    return parts[-2] if len(parts) > 1 else ""


def _times(run: Claims, job: JobRecord, slack: float) -> Evidence:
    """Check that the job's own start and end times are within those of Slurm."""
    began, ended = _number(run.started.get("time")), _number(run.outcome.get("time"))
    if began is None or ended is None or job.start is None or job.end is None:
        return Evidence(False, STUDENT, "started.json and outcome.json do not say when the job began and ended")
    if job.start - slack <= began <= ended <= job.end + slack:
        return Evidence(True, SLURM, "started and ended at the times in the run directory")
    off = max(job.start - began, ended - job.end, began - ended)
    return Evidence(False, SLURM, f"the times in started.json and outcome.json are {off:.0f} s off Slurm's")


def _key(run: Claims, word: Word, expected: Expected) -> list[Evidence]:
    if not run.launch:
        return [Evidence(False, STUDENT, "launch.json is missing")]
    try:
        key = key_of(run.launch)
    except Unknowable as error:
        return [Evidence(None if error.fair else False, STUDENT, f"launch.json {_short(str(error), 160)}")]
    evidence = [
        Evidence(
            key.startswith(run.key) and len(run.key) == 16,
            STUDENT,
            f"launch.json has key {key[:16]}" + ("" if key.startswith(run.key) else f", its folder says {run.key}"),
        )
    ]
    if word.job is not None:
        job_key, where = _key_of_job(word.job), "folder" if word.job.nameless else "name"
        if job_key is None:
            evidence.append(Evidence(None, SLURM, _LOST))
        else:
            has = job_key == key[:16]
            text = f"the job's {where} {'has' if has else 'does not have'} the key of the record"
            evidence.append(Evidence(has, SLURM, text))
    code = code_of(run.launch)
    if expected.code:
        known = code in expected.code
        text = f"code {_short(code[:12])}" + ("" if known else ", which is not the code that was handed out")
        evidence.append(Evidence(known, STUDENT, text))
    else:
        evidence.append(Evidence(True, STUDENT, f"code {_short(code[:12])}"))
    return evidence + _untouched(run, word, ["launch.json"], expected.clock_slack, written_by_job=False)


def _preflight(run: Claims, word: Word, expected: Expected) -> list[Evidence]:
    lines = {line.split(" ", 1)[0]: line for line in reversed(run.preflight) if "=" in line.split(" ", 2)[-1]}
    nodes = _nodes(run, word)
    unfit = [line for line in run.preflight if line.startswith("unfit ") and line.split(" ")[1].rstrip(":") in nodes]
    fit = [node for node in nodes if node in lines and _is_fit(lines[node])]
    evidence = [
        Evidence(
            bool(nodes) and len(fit) == len(nodes) == expected.nodes and not unfit,
            STUDENT,
            f"{len(fit)} of {expected.nodes} nodes ok"
            + (f" ({_some(fit)})" if fit else "")
            + "".join(f"; {_short(line, 120)}" for line in unfit[:_SHOWN]),
        )
    ]
    return evidence + _untouched(run, word, [f"preflight/{run.attempt}/table"], expected.clock_slack)


def _is_fit(line: str) -> bool:
    """Whether a node's line reports code, environment and a writable run directory."""
    columns = dict(word.partition("=")[::2] for word in line.split()[1:])
    return all(columns.get(name, "ok") in _FIT for name in ("proj", "env", "img")) and columns.get("run") == "ok"


def _sanity(run: Claims, word: Word, expected: Expected) -> list[Evidence]:
    nodes = _nodes(run, word)
    hosts: dict[str, int] = {}
    for line in run.sanity:
        hosts[line.host] = hosts.get(line.host, 0) + 1
    silent = [node for node in nodes if node not in hosts]
    foreign = [host for host in hosts if host not in nodes]
    uneven = [host for host, count in hosts.items() if host in nodes and count != expected.ranks_per_node]
    text = f"{len(run.sanity)} ranks reported their node, on {len(hosts)} of {expected.nodes} nodes"
    text += f"; nothing from {_some(silent)}" if silent else ""
    text += f"; {_some(foreign)} did not belong to the job" if foreign else ""
    text += f"; not {expected.ranks_per_node} ranks on {_some(uneven)}" if uneven else ""
    complete = len(hosts) == expected.nodes and not (silent or foreign or uneven)
    source = SLURM if word.nodes else STUDENT
    evidence = [Evidence(complete, STUDENT, text)]
    if nodes:
        evidence.append(Evidence(len(nodes) == expected.nodes, source, f"the job's nodes: {_some(nodes)}"))
    return evidence + _untouched(run, word, [line.file for line in run.sanity], expected.clock_slack)


def _world_size(run: Claims, word: Word, expected: Expected) -> list[Evidence]:
    world, result = expected.world_size, run.result
    ranks = sorted(line.rank for line in run.sanity)
    wrong = sorted({line.world_size for line in run.sanity} - {world})
    logs = f"the ranks' logs: {len(set(ranks))} of {world} ranks"
    logs += (
        f" with WORLD_SIZE {', '.join(map(str, wrong[:_SHOWN]))}, not {world}" if wrong else f" with WORLD_SIZE {world}"
    )
    evidence = [Evidence(ranks == list(range(world)) and not wrong, STUDENT, logs)]
    if not result:
        return [*evidence, Evidence(False, STUDENT, f"{expected.artifact} is missing or is not a JSON object")]
    proven = (
        _is(result.get("world_size"), world)
        and result.get("ranks") == list(range(world))
        and result.get("world_size_proven") is True
        and result.get("models_identical") is True
    )
    text = f"{expected.artifact}: world_size {_short(result.get('world_size'))}, {_count(result.get('ranks'))} ranks, "
    text += "proven by each, one model" if proven else "not proven by all of them with one model"
    evidence.append(Evidence(proven, STUDENT, text))
    if word.nodes:
        same = sorted(map(str, result.get("hosts", []) if isinstance(result.get("hosts"), list) else [])) == sorted(
            word.nodes
        )
        evidence.append(Evidence(same, SLURM, f"its hosts are {'the' if same else 'not the'} nodes of the job"))
    read = [*(line.file for line in run.sanity), f"work/{expected.artifact}"]
    return evidence + _untouched(run, word, read, expected.clock_slack)


def _saved(run: Claims, word: Word, expected: Expected) -> list[Evidence]:
    evidence = []
    for name in expected.saved:
        file = run.files.get(f"work/{name}")
        size = file.size if file else 0
        evidence.append(Evidence(size > 0, STUDENT, f"{name} has {size} bytes" if file else f"{name} is missing"))
    artifact, recorded = run.files.get(f"work/{expected.artifact}"), run.outcome.get("artifact")
    recorded = recorded if isinstance(recorded, dict) else {}
    same = artifact is not None and bool(artifact.sha256) and artifact.sha256 == recorded.get("sha256")
    text = "is what the job found at its end" if same else "is not the file that the job found at its end"
    evidence.append(Evidence(same and recorded.get("valid") is True, STUDENT, f"{expected.artifact} {text}"))
    files = [f"work/{name}" for name in (*expected.saved, expected.artifact)]
    return evidence + _untouched(run, word, [*files, "outcome.json"], expected.clock_slack)


def _untouched(
    run: Claims, word: Word, names: Iterable[str], slack: float, *, written_by_job: bool = True
) -> list[Evidence]:
    """Check change times: the job did not write files that changed before it began or after it ended."""
    job = word.job
    there = {name: run.files[name] for name in names if name in run.files}
    if job is None or job.start is None or job.end is None or not there:
        return []
    latest = job.end if written_by_job else job.start
    late = {name: file.changed - latest for name, file in there.items() if file.changed > latest + slack}
    early = [name for name, file in there.items() if written_by_job and file.changed < job.start - slack]
    if late:
        worst = max(late, key=lambda name: late[name])
        when = f"{late[worst]:.0f} s after the job's {'end' if written_by_job else 'start'}"
        return [Evidence(False, SYSTEM, f"{_some(late)} changed, " + (f"{worst} " if len(late) > 1 else "") + when)]
    if early:
        return [Evidence(False, SYSTEM, f"{_some(early)} older than the job")]
    what = next(iter(there)) if len(there) == 1 else f"{len(there)} files"
    return [Evidence(True, SYSTEM, f"{what} not changed since")]


def epoch_time(
    runs: Mapping[int, tuple[Claims, Word]], wanted: Sequence[int], name: str, artifact: str, slack: float
) -> Verdict:
    """Compare the time of an epoch on each number of nodes. More nodes need not be faster."""
    evidence: list[Evidence] = []
    times = []
    for nodes in wanted:
        run, word = runs.get(nodes, (None, Word()))
        evidence += _untouched(run, word, [f"work/{artifact}"], slack) if run else []
        seconds = _number(run.result.get(name)) if run else None
        epochs = _number(run.result.get("epochs")) if run else None
        if seconds is None or seconds <= 0:
            evidence.append(Evidence(False, STUDENT, f"{nodes} nodes: no {name}"))
            continue
        times.append(seconds)
        evidence.append(Evidence(True, STUDENT, f"{nodes} nodes: {seconds * 1000:.4g} ms"))
        if word.job is not None and word.job.elapsed is not None and epochs is not None:
            took = seconds * epochs
            fits = 0 < took <= word.job.elapsed + 1
            how = "fit" if fits else "do not fit"
            text = f"{epochs:.0f} epochs of that {how} into the {word.job.elapsed} s of the job"
            evidence.append(Evidence(fits, SLURM, text))
        elif word.job is None and word.silent:
            evidence.append(Evidence(None, STUDENT, f"{nodes} nodes: {word.silent}"))
    if len(times) == len(wanted):
        text = f"an epoch on {wanted[-1]} nodes takes {times[-1] / times[0]:.3g} times as long as on {wanted[0]}"
        evidence.append(Evidence(True, STUDENT, text))
    return Verdict(EPOCH_TIME, None, tuple(evidence))


def _nodes(run: Claims, word: Word) -> list[str]:
    """The job's nodes, from Slurm, or else from the run's own record."""
    if word.nodes:
        return list(word.nodes)
    nodes = run.started.get("nodes")
    return [str(node) for node in nodes] if isinstance(nodes, list) else []


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is(value: object, number: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == number


def _count(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


def _short(value: Any, most: int = 80) -> str:
    """An untrusted value, shortened and made printable for one line."""
    return printable(value, most)


def _some(names: Iterable[str]) -> str:
    listed = [_short(name) for name in names]
    more = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
