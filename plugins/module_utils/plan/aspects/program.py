# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for a job's program, for the artifact that proves its result, and for the parameters of a sweep."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import short_names
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections import sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.artifact import FORMATS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, suggestion


class Program(Aspect):
    """The program of every rank."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield a mistake unless exactly one of `command`, `shell` and `script` is given."""
        ways = {"command": spec.command, "shell": spec.shell, "script": spec.script}
        given = [name for name, value in ways.items() if value]
        if len(given) > 1:
            yield given, f"{', '.join(given)}: {'both' if len(given) == 2 else 'all'} are given; keep one"
        if not given:
            yield (
                list(ways),
                "command: is required (a list of arguments), or shell (a line for bash), or script (a batch script)",
            )
        if spec.command and not spec.command[0].strip():
            yield ["command"], "command: the program (first item) is empty"


class Artifact(Aspect):
    """The result that proves the launch."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield paths outside the run directory, and options that the format does not have."""
        if spec.artifact is None:
            return
        path = spec.artifact.path
        if posixpath.isabs(path) or path in (".", "..") or path.startswith("../"):
            yield (
                ["artifact.path"],
                (
                    f"artifact.path: {path!r} is outside the run directory; give a path relative to the ranks' working "
                    "directory"
                ),
            )
        if (spec.artifact.format == "directory") != bool(spec.artifact.complete):
            yield (
                ["artifact.complete", "artifact.format"],
                (
                    "artifact.complete: names the file that is written last into a directory; it requires "
                    "artifact.format directory"
                ),
            )
        if spec.artifact.complete and spec.artifact.complete.startswith((".." + "/", "/")):
            yield (
                ["artifact.complete"],
                f"artifact.complete: {spec.artifact.complete!r} is outside the directory; give a path in it",
            )
        own = settings.artifact_formats
        names = [*(kind.name for kind in FORMATS), *own]
        if spec.artifact.format not in names:
            hint = suggestion(spec.artifact.format, names)
            yield (
                ["artifact.format"],
                (
                    f"artifact.format: {spec.artifact.format} is not a format{hint}; known: {', '.join(names)}; a "
                    "cluster declares others in launch_cluster.artifact_formats"
                ),
            )
            return
        readable = [kind.name for kind in FORMATS if kind.values and kind.name not in own]
        readable += [name for name, kind in own.items() if kind.values]
        if spec.artifact.require and spec.artifact.format not in readable:
            yield (
                ["artifact.require", "artifact.format"],
                (
                    f"artifact.require: needs an artifact.format that has values ({', '.join(readable)}), not "
                    f"{spec.artifact.format}"
                ),
            )
        if spec.artifact.grace and spec.artifact.then != "end":
            yield (
                ["artifact.grace", "artifact.then"],
                f"artifact.grace: {spec.artifact.grace} has no effect unless artifact.then is end",
            )


class Sweep(Aspect):
    """The parameters of a sweep."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield methods, parameters and placeholders of the sweep that do not fit."""
        yield from sweep.findings(spec, short_names())
