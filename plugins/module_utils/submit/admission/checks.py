# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run all checks before a job is queued, with as few commands as possible, and report all problems at once.

Every submission runs one sinfo, which also proves that slurmctld answers. Data that rarely changes (settings,
partitions, accounts, QOS) is cached for ten minutes under state_root and may let a launch pass. Before a launch is
refused, Slurm is asked again. In check mode `sbatch --test-only` decides: it uses up a job id and includes the site's
job_submit plugin, but it ignores a partition's AllowAccounts and AllowQos, its state DOWN, and a time limit above the
partition's or the association's (Slurm 22.05, EnforcePartLimits=NO). A real sbatch refuses everything that --test-only
refuses except too many nodes, which is simple arithmetic. Therefore a real submission does not run --test-only first,
unless the site hides its nodes (PrivateData).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    RankzeroError,
    SlurmError,
    SlurmMissing,
    SlurmUnavailable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import associations, container_support, parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import ContainerNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.partitions import ClusterLimits, from_rules, limits
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import (
    Informed,
    Knowledge,
    parse_table,
    whoami,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import limits as admission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import storage, topology
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds, StorageNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request

_WOULD_START = re.compile(r"Job \d+ to start at (\S+) using \d+ processors on nodes (\S+)")
# Slurm gives a start time at least this far in the future for a job that a limit holds forever.
_NEVER_SECONDS = 20 * 31_556_952.0
# The columns of sshare(1): an account's minutes, those used, and those that running jobs may still use.
SHARES = ("Account", "User", "GrpTRESMins", "GrpTRESRaw", "TRESRunMins")


@dataclass
class Checked:
    """The result of the checks. `unknown`: sentences on what could not be checked."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, other: Checked, of: str) -> None:
        """Add the result of the checks of another submission of the launch. `of`: its own options of sbatch."""
        for mine, more in zip(self._lists(), other._lists()):
            mine += [
                text for text in (f"{of}: {sentence}" if of else sentence for sentence in more) if text not in mine
            ]

    def _lists(self) -> tuple[list[str], ...]:
        return self.problems, self.notes, self.facts, self.unknown

    def result(self) -> dict[str, list[str]]:
        """Return the result as module `job` returns it under `checks`."""
        return {"facts": self.facts, "notes": self.notes, "unknown": self.unknown}


class Checks:
    """The checks of one request. `asked` is Request.limits, `where` Request.places, `containers` Request.containers."""

    def __init__(
        self,
        slurm: Slurm,
        asked: ResourceNeeds,
        *,
        where: StorageNeeds,
        containers: Sequence[ContainerNeeds],
        check_mode: bool,
        clock: Callable[[], float],
    ) -> None:
        self.slurm = slurm
        self.ask = asked
        self.where = where
        self.containers = containers
        self.user, self.groups = whoami()
        state_root = where.roots.get("state_root")
        folder = os.path.join(state_root, "cache", "cluster") if state_root else None
        self.informed = Informed(slurm, self.user, folder, clock=clock)
        self.check_mode = check_mode

    def run(self, script: str | None = None, *, building: bool = False, options: Sequence[str] = ()) -> Checked:
        """Run all checks.

        `script`: the rendered script, for Slurm's own check in check mode; `options`: sbatch's options. `building`:
        something must be built, so the store must be writable. Raises `SlurmUnavailable` and `SlurmMissing`.
        """
        refused, cluster_limits = "", None
        try:
            cluster_limits = limits(self.slurm)
        except (SlurmUnavailable, SlurmMissing):
            raise
        except SlurmError as error:
            # PrivateData=nodes or partitions: a site may hide sinfo from its users.
            refused = error.message
        known = self.informed.recall()
        if refused:
            cluster_limits = from_rules(known.partitions) if known.partitions else None
        verdict = self._judge(cluster_limits, known)
        if verdict.problems and self.informed.from_memory:
            known = self.informed.afresh()
            verdict = self._judge(cluster_limits, known)
        thorough = not self.informed.from_memory
        problems, notes, facts = storage.check_folders(self.slurm, self.where, thorough=thorough, building=building)
        checked = Checked(
            verdict.problems + problems, verdict.notes + notes, verdict.facts + facts, list(known.unknown)
        )
        if not self.informed.from_memory or self.check_mode:
            checked.problems += self._too_many(known, verdict) + self._minutes_left(known, verdict)
        if self.ask.segment or self.ask.group_nodes > 1:
            self._topology(known, checked)
        for needs in self.containers:
            checked.problems += container_support.check(self.slurm, needs)
        # If the nodes are hidden, only Slurm can tell that there are too few, and sbatch itself would not.
        if (self.check_mode or refused) and script is not None and not checked.problems:
            refused = "" if self._last_word(script, options, checked) else refused
        checked.unknown += [f"nodes: {refused}"] if refused else []
        for sentence in checked.notes:
            self.slurm.note(sentence)
        if checked.unknown:
            self.slurm.note("not checked before the submission: " + "; ".join(checked.unknown))
        return checked

    def _judge(self, limits: ClusterLimits | None, known: Knowledge) -> admission.Verdict:
        """Judge each component of the job; the account is that of the first."""
        first, *others = [
            admission.judge(limits, known, ask, user=self.user, groups=self.groups) for ask in self.ask.components
        ]
        for verdict in others:
            first.problems += [text for text in verdict.problems if text not in first.problems]
            first.notes += [text for text in verdict.notes if text not in first.notes]
            first.facts += [text for text in verdict.facts if text not in first.facts]
        return first

    def reasons(self) -> str:
        """Return the limits that explain why sbatch refused the job, one line each, after asking Slurm again."""
        try:
            known = self.informed.afresh()
            verdict = self._judge(limits(self.slurm), known)
            problems = verdict.problems + self._too_many(known, verdict)
        except RankzeroError:
            return ""
        return "".join(f"\n  - {sentence}" for sentence in problems)

    def _too_many(self, known: Knowledge, verdict: admission.Verdict) -> list[str]:
        """Return problems with limits on the number of jobs. The queue is read only if there is such a limit."""

        def over(jobs: list[tuple[str, str]]) -> list[str]:
            return list(associations.over_count(known, verdict.who, verdict.partition_qos, jobs))

        # A number of jobs that exceeds any limit shows whether there is a limit.
        who = verdict.who
        if not over([(who.account or "", who.qos or "")] * 100_000):
            return []
        answer = self.slurm.attempt("squeue", "--noheader", f"--user={self.user}", "--array", "--format=%a|%q")
        if answer.rc != 0:
            return []
        pairs = (line.strip().partition("|") for line in answer.stdout.splitlines() if line.strip())
        return over([(account, qos) for account, _pipe, qos in pairs])

    def _minutes_left(self, known: Knowledge, verdict: admission.Verdict) -> list[str]:
        """Return problems with what is left of an account's minutes. sshare is run only if there may be a limit."""
        row = verdict.who.association
        if row is None or not known.enforces("limits") or not (row.get("GrpTRESMins") or self.ask.budget):
            return []
        if self.slurm.find("sshare") is None:
            return []
        shown = f"--format={','.join(SHARES)}"
        account = f"--accounts={verdict.who.account}"
        answer = self.slurm.attempt("sshare", "--noheader", "--parsable2", account, f"--users={self.user}", shown)
        if answer.rc != 0:
            return []
        rows = parse_table(answer.stdout, SHARES)
        seconds = None if self.ask.time_minutes is None else self.ask.time_minutes * 60
        return list(associations.over_what_is_left(verdict.who.account, rows, admission.amounts(self.ask), seconds))

    def _topology(self, known: Knowledge, checked: Checked) -> None:
        """Add what the cluster's topology means for the job. A cluster that is known to have none costs no command."""
        there, ask = topology.Topology(), self.ask
        if known.settings.get("TopologyPlugin", "") not in topology.FLAT:
            answer = self.slurm.attempt("scontrol", "show", "topology")
            if answer.rc != 0:
                checked.unknown.append(f"topology: scontrol show topology {answer.complaint}")
                return
            there = topology.parse(answer.stdout)
        problem, note = topology.judge(there, ask.nodes, ask.segment, ask.switches, ask.group_nodes)
        checked.problems += [problem] if problem else []
        checked.notes += [note] if note else []

    def _last_word(self, script: str, options: Sequence[str], checked: Checked) -> bool:
        """Add the result of sbatch --test-only to `checked`; return whether Slurm answered."""
        answer = self.slurm.attempt("sbatch", "--test-only", *options, stdin=script)
        start = _WOULD_START.search(f"{answer.stdout}\n{answer.stderr}")
        moment = parse.parse_epoch(start[1]) if start else None
        if start and moment is not None:
            if moment - self.informed.clock() > _NEVER_SECONDS:
                checked.notes.append("Slurm gives no start time in the near future: a limit may block the job forever")
            else:
                when = time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
                checked.facts.append(f"Slurm would start it at {when} on {start[2]} (sbatch --test-only)")
        elif answer.silent:
            checked.unknown.append(f"Slurm's answer: sbatch --test-only {answer.complaint}")
            return False
        elif answer.rc != 0:
            checked.problems.append(f"Slurm says (sbatch --test-only): {answer.complaint}.")
        return True


def of(request: Request, slurm: Slurm, *, check_mode: bool, clock: Callable[[], float]) -> Checks:
    """Return the checks for a submission."""
    where, containers = request.places, request.containers
    return Checks(slurm, request.limits, where=where, containers=containers, check_mode=check_mode, clock=clock)


def raise_for(problems: list[str]) -> None:
    """Raise RankzeroError with all problems, if there are any."""
    if problems:
        raise RankzeroError("\n".join(["the cluster cannot run this job:", *(f"  - {text}" for text in problems)]))
