# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life cycle of a job: its early signal, its restarts, its messages, and what is monitored while it runs."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.checkpoint import (
    EARLY_SIGNAL,
    MOST_LOGS,
    PER_NODE,
    PER_RANK,
    Logs,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Option, time_minutes


class Checkpoint(Aspect):
    """Saving before the end, requeueing and restarts; also sampling of nodes, style of the logs, and messages."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield signals that come too early, folders outside the job's own, and options without effect."""
        asked, limit = spec.checkpoint, spec.resources.time
        early = asked.signal_before_end
        if early and time_minutes(limit) * 60 <= early:
            yield (
                ["checkpoint.signal_before_end", "resources.time"],
                (
                    f"checkpoint.signal_before_end: {early} s is not less than the time limit {limit}; the "
                    "ranks would be told to stop at once"
                ),
            )
        if asked.dir is not None and posixpath.normpath(asked.dir).strip("/") == "":
            yield ["checkpoint.dir"], "checkpoint.dir: / is not allowed; name a folder for the checkpoints of this job"
        if asked.fresh and asked.dir is None:
            yield (
                ["checkpoint.fresh", "checkpoint.dir"],
                "checkpoint.fresh: has no effect without checkpoint.dir; name the folder that holds all of them",
            )
        if asked.progress is not None:
            path = posixpath.normpath(asked.progress)
            if posixpath.isabs(path) or path in (".", "..") or path.startswith("../"):
                yield (
                    ["checkpoint.progress"],
                    (
                        f"checkpoint.progress: {asked.progress!r} is outside the run directory; give a path relative "
                        "to the ranks' working directory"
                    ),
                )
            if not (asked.requeue and early) and not spec.resources.spares:
                yield (
                    ["checkpoint.progress", "checkpoint.requeue", "checkpoint.signal_before_end"],
                    (
                        "checkpoint.progress: has no effect unless checkpoint.requeue is true and "
                        "checkpoint.signal_before_end is given, or there are resources.spares"
                    ),
                )

    def header(self, context: Context) -> Iterator[Option]:
        """Yield the options that the spec sets; for others the site's defaults apply. With spares, a failed node is
        tolerated.
        """
        asked = context.spec.checkpoint
        if asked.signal_before_end:
            yield "signal", f"B:{EARLY_SIGNAL}@{asked.signal_before_end}"
        if asked.requeue is not None:
            yield "requeue" if asked.requeue else "no-requeue", True
        if context.spec.resources.spares:
            yield "no-kill", True

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Yield what the job runtime needs to signal, restart, sample and write logs. Times are in seconds."""
        asked, monitor, logs = context.spec.checkpoint, context.spec.monitor, context.spec.logs
        spares = context.spec.resources.spares
        yield "RANKZERO_MONITOR_HOST", str(monitor.host)
        yield "RANKZERO_MONITOR_GPU", str(monitor.gpu)
        if (logs.style, logs.follow) != (Logs().style, Logs().follow):
            yield "RANKZERO_LOG_STYLE", logs.style
            yield "RANKZERO_LOG_FOLLOW", logs.follow
        many = (context.job.nodes + spares) * context.topology.ranks_per_node > MOST_LOGS
        # A role's log says whether it is ready, and each log of style slurm has the name of its rank.
        shared = many and not context.spec.roles and logs.style == Logs().style
        per = logs.per or (PER_NODE if shared else PER_RANK)
        # With collectors, which also bring the samples; a user's own script has none of both.
        if context.spec.script is None and (many or per != PER_RANK):
            yield "RANKZERO_LOG_PER", per
        if asked.dir:
            yield "RANKZERO_CHECKPOINT_DIR", posixpath.normpath(asked.dir)
        if asked.fresh:
            yield "RANKZERO_CHECKPOINT_FRESH", "1"
        if monitor.timestamps:
            yield "RANKZERO_TIMESTAMPS", str(monitor.timestamps)
        if any(receiver.from_job for receiver in context.spec.notify):
            yield "RANKZERO_NOTIFY", "1"
        if asked.signal_before_end:
            yield "RANKZERO_EARLY_SECONDS", str(asked.signal_before_end)
            yield "RANKZERO_EARLY_SIGNAL", asked.signal
        if asked.requeue:
            yield "RANKZERO_MAX_RESTARTS", str(asked.max_restarts)
        if spares:
            yield "RANKZERO_SPARES", str(spares)
            yield "RANKZERO_SPARE_RESTARTS", str(asked.max_restarts)
        if asked.progress and (asked.requeue or spares):
            yield "RANKZERO_PROGRESS", posixpath.normpath(asked.progress)
