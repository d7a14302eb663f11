# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of job files: read every spec, determine where the folder comes from, and report all mistakes together."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import short_list
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.pipeline import Stage, stages
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import (
    Job,
    cluster_settings,
    parse_job_text,
    read_job,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import Roots, repository_root
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.provenance import Origin, repository

ENDINGS = (".yml", ".yaml", ".json")


@dataclass(frozen=True)
class Spec:
    """One job file: its path below the folder, the path to read it by, and its contents."""

    file: str
    path: str
    job: Job


def job_files(folder: str) -> list[str]:
    """The job files below `folder`, as relative paths. Hidden files and folders are ignored; links to folders are not
    followed.
    """
    if not os.path.isdir(folder):
        raise RankzeroError(
            f"jobs: {folder} is not a folder on the controller; name the folder of the job files (a single job file is "
            "launched by the playbook train)"
        )
    paths = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [
            os.path.relpath(os.path.join(place, name), folder)
            for name in sorted(names)
            if name.endswith(ENDINGS) and not name.startswith(".")
        ]
    return sorted(paths)


def inside_code(launches: Sequence[tuple[Spec, Snapshot]]) -> list[str]:
    """The names of launches whose code contains one of their job files."""
    files = [os.path.realpath(spec.path) for spec, _snapshot in launches]
    # Job files below each folder of code. Many launches share one.
    below: dict[str, set[str]] = {}
    names = []
    for spec, snapshot in launches:
        root = os.path.realpath(snapshot.src)
        if root not in below:
            below[root] = {os.path.relpath(file, root) for file in files}
        if not below[root].isdisjoint(entry.path for entry in snapshot.files):
            names.append(spec.job.spec.name)
    return sorted(names)


def refuse_uncommitted(folder: str, origin: Origin, launches: Sequence[tuple[Spec, Snapshot]]) -> None:
    """In CI, raise RankzeroError if the job files or the code are not those of a commit and nothing sets code.dirty.

    What a pull request has shown must be what runs, and what runs must be found again.
    """
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        return
    silent = [(spec, snapshot) for spec, snapshot in launches if not _says_dirty(spec)]
    files = sorted({path for _spec, snapshot in silent for path in snapshot.changed})
    places = [folder] if silent and origin.dirty else []
    if files or places:
        raise RankzeroError(
            f"jobs: CI is set, and {short_list([*places, *files], 8)} differ from commit {str(origin.commit)[:10]}. "
            "Commit the changes, list in .gitignore what the runner writes, or set launch_cluster.code.dirty to allow. "
            "Nothing was done."
        )


def _says_dirty(spec: Spec) -> bool:
    code = spec.job.merged.data.get("code")
    return isinstance(code, Mapping) and "dirty" in code


def read_folder(folder: str, cluster: Parameters | None, cwd: str) -> list[Spec]:
    """Every spec, ordered by file; pipeline files are skipped. Raises RankzeroError with the mistakes of all files.

    An empty folder is an error: otherwise a mistyped path or a failed checkout would mean that all jobs were removed.
    """
    full = os.path.join(cwd, os.path.expanduser(folder))
    there = job_files(full)
    # Checked before any file is read.
    roots = Roots.of(cluster_settings(cluster)[0].code_roots, cwd)
    strangers = {file: problem for file in there if (problem := roots.problem(file, os.path.join(full, file)))}
    files = [file for file in there if file not in strangers and not _is_pipeline(os.path.join(full, file))]
    if not files and not strangers:
        raise RankzeroError(
            f"jobs: {full} contains no job file ({', '.join(ENDINGS)}); to end all jobs of the set, cancel them by hand"
        )
    specs, problems = [], list(strangers.values())
    for file in files:
        path = os.path.join(full, file)
        try:
            specs.append(Spec(file, path, read_job(path, cluster, None, None, cwd)))
        except RankzeroError as error:
            problems.append(f"{file}: {error.message}")
    problems += _doubled(specs)
    problems += _not_here(specs, {os.path.normpath(os.path.join(full, file)) for file in files})
    if problems:
        head = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise RankzeroError(f"jobs: {head} in {full}; nothing was done:\n{listed}", problems=problems)
    return specs


def with_defaults(cluster: Parameters, folder: str, cwd: str) -> JsonObject:
    """The cluster's settings for job files that others may have written. Unless the settings say otherwise, these jobs
    may use files of their repository and no secrets.
    """
    settings = dict(cluster)
    if settings.get("code_roots") is None:
        settings.update(code_roots=[repository_root(folder, cwd)])
    if settings.get("secrets_from") is None:
        settings.update(secrets_from={})
    return settings


def _doubled(specs: list[Spec]) -> list[str]:
    """One sentence for each name that occurs in more than one file."""
    files: dict[str, list[str]] = {}
    for spec in specs:
        files.setdefault(spec.job.spec.name, []).append(spec.file)
    return [
        f"{' and '.join(names)} have one name, {name}: a name is one job; give each its own"
        for name, names in sorted(files.items())
        if len(names) > 1
    ]


def _not_here(specs: list[Spec], known: set[str]) -> list[str]:
    """One sentence for each file that a spec follows and that is not in the folder."""
    return [
        f"{spec.file}: after: {name} is not a job file of this folder; predecessors must be in the folder"
        for spec in specs
        for name in spec.job.spec.after
        if os.path.normpath(os.path.join(spec.job.folder, name)) not in known
    ]


def _is_pipeline(path: str) -> bool:
    """Whether a file is a pipeline file, which only gives an order of jobs."""
    try:
        text = named_text(path, "job")
        # Most files need not be parsed for this. An escape in quotes could hide the word.
        if "jobs" not in text and "\\" not in text:
            return False
        layer = parse_job_text(text, path)
    except (RankzeroError, FileNotFoundError):
        return False
    return "jobs" in layer.data and "name" not in layer.data


def in_order(specs: list[Spec], folder: str, cwd: str) -> list[tuple[Spec, Stage]]:
    """The specs as stages, ordered so that each comes after the jobs it follows (its own `after`, or a pipeline file).

    Raises RankzeroError if the order has a cycle.
    """
    known = {os.path.normpath(spec.path): spec for spec in specs}

    def read(path: str) -> Job:
        if path not in known:
            raise RankzeroError(f"jobs: {path} is not a job file of this folder; predecessors must be in the folder")
        return known[path].job

    after: dict[str, list[str]] = {path: [] for path in known}
    full = os.path.join(cwd, os.path.expanduser(folder))
    for path in (os.path.join(full, file) for file in job_files(full)):
        listed = stages(path, read, os.sep) if _is_pipeline(path) else []
        for stage in listed:
            after[stage.path] += [listed[index].path for index in stage.after]
    ordered = stages([{"job": path, "after": names} for path, names in after.items()], read, os.sep)
    return [(known[stage.path], stage) for stage in ordered]


def provenance_of(folder: str, cwd: str) -> Origin:
    """The origin of the folder; without git all of it is None."""
    full = os.path.normpath(os.path.join(cwd, os.path.expanduser(folder)))
    return repository(full)


def set_name(folder: str, cwd: str, origin: Origin) -> str:
    """The default name of the set that a folder defines: the same in every checkout of one repository."""
    if origin.repository:
        return f"{origin.repository}:{origin.folder}"
    return f"{platform.node()}:{os.path.realpath(os.path.join(cwd, os.path.expanduser(folder)))}"
