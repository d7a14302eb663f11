# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init`: the files that a project needs to launch itself."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence

from rankzero.errors import RankzeroError
from rankzero.project import REQUIREMENTS, Project, project_of

NEW_JOB = """\
# What runs, where, and what it must prove. Paths are relative to this file. Every key: docs/job-spec.md.
name: {name}
resources:
  nodes: 2
  cpus_per_rank: 1
  time: "01:00:00"
launcher:
  kind: {launcher}
  ranks_per_node: 1
command: [{program}]
code:
  src: .. # job files, inventories, ansible.cfg and fetched logs are left out
{environment}# The file that proves success, and what must be true of it:
{artifact}"""
ENVIRONMENT = """\
environment:
  project: ..
  mode: sealed # built once from {file}, as one file that every node mounts
"""
ARTIFACT = """\
artifact:
  path: {path}
  # require: {{loss: {{lt: 4.0}}}}
"""
INVENTORY = """\
slurm_login:
  hosts:
    {host}:
      launch_cluster:
        state_root: ~/.rankzero/state # private to you, on storage that the nodes share; small, never purged
        store_root: ~/.rankzero/store # large: code and environments; scratch is a good place
        # resources: {{account: ml, partition: batch}} # defaults for every job on this cluster
"""


def write_project(given: Namespace) -> tuple[str, list[str]]:
    """Write jobs/NAME.yml, and inventory/hosts.yml if a login node is given. Returns (job file, lines on that).

    given: the options of the verb. Raises RankzeroError.
    """
    folder = given.folder
    if given.script is None and (given.arguments_of_script or given.variables):
        raise RankzeroError("--arg and --set are for a script: give it with --from SCRIPT")
    if given.script is None and given.compare:
        raise RankzeroError("--compare is for a script: give it with --from SCRIPT")
    if given.script is not None:
        from rankzero.sbatch.convert import Asked, converted

        asked = Asked(tuple(given.arguments_of_script), _variables(given.variables))
        job = converted(given.script, os.path.join(folder, "jobs"), asked)
        name, text, notes = job.name, job.text, job.notes
    else:
        name = _name_of(folder)
        project = project_of(folder)
        text, notes = _job_of(name, project), list(project.notes)
    path = os.path.normpath(os.path.join(folder, "jobs", f"{name}.yml"))
    _write(path, text, replace=given.force)
    done = [f"{path}: written", *(f"  {note}" for note in notes)]
    hosts = os.path.normpath(os.path.join(folder, "inventory", "hosts.yml"))
    if given.login:
        _write(hosts, INVENTORY.format(host=given.login), replace=False)
        done.append(f"{hosts}: written, with the login node {given.login}")
    elif not os.path.exists(os.path.dirname(hosts)):
        done.append(f"{hosts}: not written; say where the cluster is with --login HOST, or later with -i INVENTORY")
    return path, [*done, f"next: rankzero plan {path}"]


def _job_of(name: str, project: Project) -> str:
    """The job file of a project, from what its own files say."""
    environment = ENVIRONMENT.format(file=project.packages) if project.packages else ""
    environment += f"  requirements: {project.packages}\n" if project.packages == REQUIREMENTS else ""
    artifact = ARTIFACT.format(path=project.result or "result.json")
    return NEW_JOB.format(
        name=name,
        launcher="torchrun" if project.torch else "srun",
        program=project.program,
        environment=environment,
        artifact=artifact if project.result else "".join(f"# {line}\n" for line in artifact.splitlines()),
    )


def _variables(pairs: Sequence[str]) -> dict[str, str]:
    """`--set NAME=VALUE` as variables. No value is shown: it may be a secret."""
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier() or not name.isascii():
            raise RankzeroError(f"--set {name}: expected NAME=VALUE, a variable that the script reads")
        variables[name] = value
    return variables


def _name_of(folder: str) -> str:
    from rankzero.sbatch.options import launch_name

    return launch_name(os.path.basename(os.path.abspath(folder)), "train")


def _write(path: str, text: str, *, replace: bool) -> None:
    link = next((place for place in (os.path.dirname(path), path) if os.path.islink(place)), None)
    if link:
        raise RankzeroError(f"{link} is a link, which may have come with the project; nothing was written. Remove it.")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w" if replace else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise RankzeroError(f"{path} exists already; it was left as it is (--force replaces a job file)") from None
    except OSError as error:
        raise RankzeroError(f"{path} cannot be written: {error.strerror}") from None
