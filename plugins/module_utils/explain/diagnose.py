# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain why a launch failed, does not start or stalls, from its logs, its job and Slurm.

This module combines the rooms `diagnosis` and `slurm`, which may not import each other.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath, regular
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import HANG, Event, FileEvents
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import links, standstill, stragglers
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs.flight_recorder import Group
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import registry
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    LIMIT,
    WEAK,
    Signature,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import (
    evidence,
    job_sizes,
    rank_stacks,
    role_logs,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnosis_report import DiagnosisReport, screen
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.digest import digest_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import by_rank, node_of, rank_of, ranks_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import Redactor, redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import checklist, monitor, slowdown
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import STALL_FACTOR, STALL_SECONDS
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.silence import find_silence, find_stall
from ansible_collections.rankzero.slurm.plugins.module_utils.run import rank_looks
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import final_report
from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import roles_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import choice_made, one_run
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import WAITING
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import write_text
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import Limits
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.launch_ledger import Reading, ledger_of

DIAGNOSIS = "diagnosis.json"
# The families whose report shows the sizes of the job.
MEMORY = ("cuda_oom",)
# The families of what ends a job that stands still.
ENDS = ("preempted_or_cancelled", "time_limit", "collective_timeout", "peer_lost")


class _Logs(NamedTuple):
    """What was read in the logs of a launch: their events, and what both ends of each rank's log tell."""

    scanned: scan.Scan
    ranks: Mapping[int, checklist.RankFacts]


@dataclasses.dataclass(frozen=True)
class _Request:
    """How to diagnose: the options that matter after a launch was chosen, and what its caller decides."""

    processes: int
    signatures: Sequence[Signature]
    stall_factor: float
    stall_seconds: float
    write: bool
    check_mode: bool
    now: float
    paces: Sequence[float] = ()
    digest: bool = False


def diagnose(slurm: Slurm, options: Parameters, *, check_mode: bool = False) -> ModuleResult:
    """The result of module job_diagnosis for DIAGNOSIS_SPEC. Raises `RankzeroError` where nothing can be read."""
    request = _Request(
        processes=options["processes"] or min(4, os.cpu_count() or 1),
        signatures=registry.with_own(options["x_families"]),
        stall_factor=options["stall_factor"],
        stall_seconds=options["stall_seconds"],
        write=options["write"],
        check_mode=check_mode,
        now=time.time(),
        paces=options.get("x_paces") or (),
        digest=bool(options.get("x_digest")),
    )
    if options.get("path"):
        return _of_path(os.path.expanduser(options["path"]), request)
    run = one_run(options, slurm)
    choice = choice_made(slurm, options, run)
    # Slurm's and the job's own words may quote a secret as well.
    result: ModuleResult = redactor_of(run).document(_of_launch(slurm, run, request))
    return {**result, "lines": [choice, *result["lines"]]} if choice else result


def _of_launch(slurm: Slurm, run: RunDirectory, request: _Request) -> ModuleResult:
    """The diagnosis of a pending, running or ended launch."""
    launch = final_report(slurm, run)
    if launch.standing == WAITING:
        return _of_pending(run, launch)
    logs_scan = scan.scan(
        newest_logs(run.file("logs"), launch.attempt),
        request.processes,
        request.signatures,
        redactor_of(run).stream,
        run.shown().at,
    )
    ranks = checklist.all_facts(_rank_logs(logs_scan), (run.started() or {}).get("time"), run.shown().at)
    nodes = {name.partition(".")[0] for name in launch.nodes}
    roles = roles_of(run.started())
    for log in logs_scan.logs:
        role_logs.read_srun_of_others(log, roles)
        # In a log that ranks share, the line names the rank, and the file its node.
        rank = rank_of(log.file)
        node = ranks[rank].host if rank is not None else node_of(log.file)
        log.events = [advice.with_rank(_of_launch_node(event, nodes), rank, node) for event in log.events]
    started = run.started() or {}
    logs = _Logs(logs_scan, {rank: facts for rank, facts in ranks.items() if rank < 0 or _decides(started, rank)})
    if not launch.completed:
        return _of_running(run, launch, logs, request)
    return _of_end(slurm, run, launch, logs, request)


def _of_launch_node(event: Event, nodes: Collection[str]) -> Event:
    """The event without a node that is none of the launch's: a program can write the name of any node into its log."""
    foreign = event.node is not None and nodes and event.node.partition(".")[0] not in nodes
    return dataclasses.replace(event, node=None) if foreign else event


def _of_path(path: str, request: _Request) -> dict[str, Any]:
    path = os.path.realpath(path) if os.path.isdir(path) else path
    if not os.path.exists(path):
        raise RankzeroError(f"path: {path} does not exist on this host. Name a log or a folder of logs.")
    logs = scan.find_logs(path)
    if not logs:
        raise RankzeroError(f"path: {path} contains no logs (*.log, *.out, *.err, *.txt, their .gz and .zst)")
    # The user has named the file or the folder, which may be a link. He has not named what is in the folder.
    base = path if os.path.isdir(path) else os.path.dirname(path)
    opener = Beneath(path).at if base == path else regular
    logs_scan = scan.scan(logs, request.processes, request.signatures, Redactor().stream, opener)
    diagnosis = advice.diagnosis_of(cause.find_cause(logs_scan.logs), logs_scan, base)
    # Logs of no single rank get negative numbers; they answer the questions that do not depend on the rank.
    others = {-1 - place: log for place, log in enumerate(logs) if not ranks_of(log)}
    ranks = checklist.all_facts({**others, **by_rank(logs)}, opener=opener)
    result = _result(DiagnosisReport(diagnosis, checklist.answers(ranks)), logs_scan, changed=False)
    return {**result, "digest": digest_of(diagnosis, logs_scan, base, opener, Redactor())} if request.digest else result


def _of_pending(run: RunDirectory, launch: LaunchReport) -> dict[str, Any]:
    """A job that does not start: the scheduler's reason explains it."""
    no_logs = scan.Scan()
    testimony = evidence.of_pending(launch, launch.reason_code)
    diagnosis = advice.diagnosis_of(cause.find_cause(testimony.logs), no_logs, run.path)
    return _result(DiagnosisReport(diagnosis, launch=launch, facts=testimony.facts), no_logs, changed=False)


def _of_running(run: RunDirectory, launch: LaunchReport, logs: _Logs, request: _Request) -> dict[str, Any]:
    """A running job: the checklist, a stall, and failures that its logs already show."""
    scanned, ranks = logs
    started = run.started() or {}
    begun = started.get("time")
    # The file system's clock may be ahead of this host's clock.
    now = max([request.now, *(log.modified for log in ranks.values())])
    nodes = monitor.read_samples(run.shown(os.path.join("monitor", str(launch.attempt))))
    stall = find_stall(ranks, now, request.stall_factor, request.stall_seconds)
    if stall is not None:
        stall = dataclasses.replace(stall, nodes=tuple(monitor.idle_nodes(nodes)))
    silence = find_silence(ranks, begun, now, request.stall_seconds) if stall is None else None
    diagnosis = advice.diagnosis_of(cause.find_cause(scanned.logs), scanned, run.path)
    answers = checklist.answers(ranks, world=started.get("world_size"), begun=begun, now=now, proven=False)
    facts: dict[str, object] = {"samples": [usage.as_dict() for usage in nodes.values()]}
    if request.write and not request.check_mode:
        culprit = _held_up(run, launch.attempt, started, steady=stall is None) if stall or silence else None
        # While the nodes were asked, a step may have come.
        newest = checklist.all_facts(_rank_logs(scanned), begun, run.shown().at).values()
        facts["step"] = max((rank.progress.step for rank in newest if rank.progress), default=None)
        if culprit is not None or stall is not None:
            # Of a log whose steps have no time, ranks that are at work show no stall.
            stall = stall or (silence if culprit is not None and culprit.kind != standstill.WORK else None)
            facts["standstill"] = culprit.as_dict() if culprit else None
        else:
            slow = slowdown.find_slowdown(checklist.ends_by_rank(_rank_logs(scanned), opener=run.shown().at))
            slow = slow or (slowdown.Slowdown(request.paces[0], request.paces[1]) if len(request.paces) == 2 else None)
            facts.update(_slowness(run, launch.attempt, slow, monitor.odd_nodes(nodes)))
    roles = roles_of(started)
    diagnosis_report = DiagnosisReport(diagnosis, answers, launch, facts, running=True, stall=stall, roles=roles)
    return _result(diagnosis_report, scanned, changed=False, story=run.file("logs"))


def _decides(started: Mapping[str, Any], rank: int) -> bool:
    """Whether a rank is one of those that work together: of several roles, those of the one that decides."""
    world = started.get("world_size")
    return not started.get("roles") or not isinstance(world, int) or rank < world


def _held_up(run: RunDirectory, attempt: int, started: Mapping[str, Any], *, steady: bool) -> standstill.Verdict | None:
    """Which rank holds the others up now. `steady`: only if a second look shows the same, with no collective more.

    A program that prints nothing may be at work.
    """
    dumps = rank_stacks.dumps(run, attempt)
    looks = [rank_looks.query_ranks(run, attempt) for _look in range(2 if steady else 1)]
    if steady and not standstill.same(*map(standstill.states_of, looks)):
        return None
    culprit = _culprit(looks[-1], started, dumps)
    if culprit is not None and culprit.at_work:
        # Where nothing of it moves it is no evaluation, whatever its functions are called.
        again = rank_looks.query_ranks(run, attempt, seconds=stragglers.STILL_SECONDS)
        if stragglers.frozen(rank_looks.looks_of(again), [rank.rank for rank in culprit.ranks]):
            culprit = dataclasses.replace(culprit, frozen=True)
    # At the start, one rank comes first, and the others may compute for long.
    return None if steady and culprit is not None and culprit.kind == "alone" else culprit


def _slowness(
    run: RunDirectory, attempt: int, slow: slowdown.Slowdown | None, odd: Mapping[str, str]
) -> dict[str, object]:
    """Where the steps take longer than before, or those of a rank longer than the others': who keeps them waiting."""
    if slow is None:
        return {}
    answers = [] if slow.ranks else rank_looks.query_ranks(run, attempt, seconds=stragglers.SECONDS)
    late = stragglers.straggler(rank_looks.looks_of(answers), odd, slow.ranks)
    why = late.message if late else "no rank or node stands out"
    return {"slow": {"message": f"{slow.sentence}; {why}", "straggler": late.as_dict() if late else None}}


def _culprit(
    stacks: Sequence[JsonObject], started: Mapping[str, Any], dumps: Mapping[int, tuple[Group, ...]]
) -> standstill.Verdict | None:
    """Which rank holds the others up, from what the nodes answered and what NCCL's timeout left (`dumps`)."""
    ranks = [rank for rank in standstill.states_of(stacks) if _decides(started, rank.rank)]
    nodes = {str(node) for node in started.get("nodes") or []}
    return standstill.verdict(
        [rank if rank.recent else dataclasses.replace(rank, recent=dumps.get(rank.rank, ())) for rank in ranks],
        started.get("world_size"),
        sorted(nodes - {str(document.get("node")) for document in stacks}),
        links.slow_nodes(stacks),
    )


def _of_hang(run: RunDirectory, launch: LaunchReport, logs: _Logs) -> dict[str, object]:
    """Add a hang, if the job stood still when its nodes last looked at the ranks and no step followed. Its end by a
    person or a limit is then a consequence. Returns the facts.
    """
    started = run.started() or {}
    stacks = rank_looks.recorded(run, launch.attempt)
    seen = max((when for answer in stacks if isinstance(when := answer.get("time"), (int, float))), default=0.0)
    stall = find_stall(logs.ranks, seen, STALL_FACTOR, STALL_SECONDS) if stacks else None
    silence = find_silence(logs.ranks, started.get("time"), seen, STALL_SECONDS) if stacks else None
    stall = stall or silence
    culprit = _culprit(stacks, started, rank_stacks.dumps(run, launch.attempt)) if stall is not None else None
    if stall is None or culprit is None or culprit.kind == standstill.WORK:
        return {}
    for log in logs.scanned.logs:
        log.events = [
            dataclasses.replace(event, strength=min(event.strength, WEAK)) if event.family in ENDS else event
            for event in log.events
        ]
    since = f"no step for {stall.age:.0f} s" if stall.median else stall.sentence
    text = f"{since}; {culprit.message}"
    known = (("message", text), ("remedy", culprit.remedy))
    first = culprit.ranks[0] if culprit.ranks else None
    rank, node = (first.rank, first.node or None) if first else (None, None)
    file = run.file(os.path.join("stacks", str(launch.attempt)))
    hang = Event(HANG, LIMIT + 2, text, 1, file=file, rank=rank, node=node, captured=known)
    logs.scanned.logs.append(FileEvents(file, [hang], lines=1))
    return {"standstill": culprit.as_dict()}


def _of_end(slurm: Slurm, run: RunDirectory, launch: LaunchReport, logs: _Logs, request: _Request) -> dict[str, Any]:
    scanned, ranks = logs
    testimony = evidence.Testimony()
    chosen = cause.Cause(cause.HEALTHY, None, "high")
    if not launch.success:
        role_logs.only_of(scanned.logs, roles_of(run.started()), _ended_by(launch))
        testimony = evidence.of_end(slurm, run, launch, scanned.signatures)
        scanned.logs += testimony.logs
        testimony.facts.update(_of_hang(run, launch, logs))
        chosen = cause.find_cause(scanned.logs, failed=True)
    diagnosis = advice.diagnosis_of(chosen, scanned, run.path)
    if diagnosis.family in MEMORY:
        testimony.facts["memory"] = _memory(run, launch, diagnosis.nodes)
    started = run.started() or {}
    answers = checklist.answers(ranks, world=started.get("world_size"), proven=launch.success)
    reading = Reading(Limits(request.stall_factor, request.stall_seconds))
    hours = ledger_of(run, launch, request.now, slurm, reading)
    diagnosis_report = DiagnosisReport(
        diagnosis, answers, launch, testimony.facts, ledger=hours, roles=roles_of(started)
    )
    changed = False
    # Never write into a run directory of another user.
    write = request.write and not run.foreign
    if write:
        # With its text, which the report on the launch shows (page_data.py).
        document = redactor_of(run).document({**diagnosis_report.as_dict(), "lines": screen(diagnosis_report)})
        text = json.dumps(document, indent=1, sort_keys=True) + "\n"
        changed = bool(write_text(run.file(DIAGNOSIS), text, check_mode=request.check_mode)["changed"])
    result = _result(
        diagnosis_report, scanned, changed=changed, story=run.file(DIAGNOSIS) if write else run.file("logs")
    )
    asked = request.digest and not launch.success
    digest = digest_of(diagnosis, scanned, run.path, run.shown().at, redactor_of(run)) if asked else ""
    return {**result, "digest": digest} if digest else result


def _ended_by(launch: LaunchReport) -> str:
    """The role that has ended a launch in the place of the deciding one; "" where none has."""
    return str((launch.outcome or {}).get("role") or "")


def _rank_logs(scanned: scan.Scan) -> dict[int, str]:
    """Rank -> the path of its log."""
    return by_rank(log.file for log in scanned.logs)


def _memory(run: RunDirectory, launch: LaunchReport, nodes: Sequence[str]) -> dict[str, object]:
    """What decides how much memory of the GPUs the job needs, and the most that the monitor saw."""
    spec = (run.document("launch.json") or {}).get("spec")
    sizes = job_sizes.sizes(spec) if isinstance(spec, dict) else {}
    samples = monitor.read_samples(run.shown(os.path.join("monitor", str(launch.attempt))))
    peak = job_sizes.peak_memory(samples, nodes)
    where = {"peak_mb": peak[0], "node": peak[1], "gpu": peak[2]} if peak else {}
    return {"sizes": sizes, **where, "text": job_sizes.sentence(sizes, peak)}


def _result(report: DiagnosisReport, scanned: scan.Scan, *, changed: bool, story: str = "") -> dict[str, Any]:
    lines = screen(report, story)
    return {"changed": changed, "families": len(scanned.signatures), "diagnosis": report.as_dict(), "lines": lines}


def newest_logs(logs_dir: str, attempt: int) -> list[str]:
    """The logs of one attempt by rank, then the logs of the whole job, which contain all attempts."""
    newest = os.path.join(logs_dir, str(attempt))
    # A launch never creates links here; the target of a link is no log of this launch.
    if os.path.islink(logs_dir) or os.path.islink(newest):
        return []
    own = [path for path in scan.find_logs(newest) if _is_log(path)]
    shared = [os.path.join(logs_dir, name) for name in Beneath(logs_dir).names("")]
    ranks = sorted((path for path in own if ranks_of(path)), key=ranks_of)
    return [*ranks, *(path for path in own if not ranks_of(path)), *(p for p in shared if _is_log(p))]


def _is_log(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)
