# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the rules between the values of a spec, all at once, before anything is rendered. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.registry import ASPECTS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding


def validated(
    merged: Merged, known_problems: Sequence[str] = (), settings: ClusterSettings | None = None
) -> LaunchSpec:
    """Return the spec of merged layers.

    Raises SpecError with all mistakes: the known ones, those in single values and those between values. `settings`:
    what the cluster declares, such as its fabrics and launchers.
    """
    parsed, declared = parse(merged), settings or ClusterSettings()
    problems = [*known_problems, *parsed.problems]
    for paths, sentence in _findings(parsed.spec, declared):
        if not any(_touches(path, parsed.bad_paths) for path in paths):
            origins = list(dict.fromkeys(origin for path in paths if (origin := merged.origin(path))))
            problems.append(sentence + (f" (set in {', '.join(origins)})" if origins else ""))
    if problems:
        raise SpecError(problems)
    return parsed.spec


def _findings(spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
    """Yield the findings of all aspects; those of a role that does not decide name it, where they are its own."""
    of_launch = [finding for aspect in ASPECTS for finding in aspect.findings(spec, settings)]
    yield from of_launch
    sentences = {sentence for _paths, sentence in of_launch}
    for role in [*spec.roles.values()][1:]:
        for aspect in ASPECTS:
            for paths, sentence in aspect.findings(role.spec, settings):
                if sentence not in sentences:
                    yield [*(f"roles.{role.name}.{path}" for path in paths), *paths], f"roles.{role.name}.{sentence}"


def _touches(path: str, bad_paths: set[str]) -> bool:
    return any(path == bad or path.startswith(bad + ".") or bad.startswith(path + ".") for bad in bad_paths)
