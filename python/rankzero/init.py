# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init`: the files that a project needs to launch itself, and the first launch on a cluster."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rankzero import errors
from rankzero.errors import RankzeroError
from rankzero.project import REQUIREMENTS, Project, project_of

if TYPE_CHECKING:
    from rankzero.first_look import Cluster

NEW_JOB = """\
# What runs, where, and what it must prove. Paths are relative to this file. Every key: docs/job-spec.md.
name: {name}
resources:
  nodes: {nodes}
  cpus_per_rank: 1
{gpus}  time: {time}
launcher:
  kind: {launcher}
  ranks_per_node: {ranks}
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
#: What a new job file says of its size where no cluster was asked.
SIZE = {"nodes": "2", "time": '"01:00:00"', "gpus": "", "ranks": "1"}


def set_up(given: Namespace) -> tuple[int, list[dict[str, Any]]]:
    """Write jobs/NAME.yml, and with a login node inventory/hosts.yml, and launch hello on it. Returns the exit code,
    and the rows of the document: the files, and what is told of each.

    given: the options of the verb. Raises RankzeroError.
    """
    hosts = os.path.normpath(os.path.join(given.folder, "inventory", "hosts.yml"))
    _refuse_link(hosts)
    cluster, inventory = None, ""
    if given.shared and not given.login:
        raise RankzeroError("--shared is for a cluster: give its login node with --login HOST")
    if given.login:
        from rankzero.first_look import ask_cluster

        known = os.path.exists(hosts)
        cluster = ask_cluster(given.login, None if known else given.shared)
        inventory = "" if known else cluster.inventory()
    path, lines = write_project(given, cluster)
    rows = [_row("job", path, lines)]
    if cluster is None and not os.path.exists(os.path.dirname(hosts)):
        lines.append(f"{hosts}: not written; say where the cluster is with --login HOST, or later with -i INVENTORY")
    elif cluster is not None and inventory:
        _write(hosts, inventory, replace=False)
        more = [f"{hosts}: written, with what Slurm says:", *(f"  {line}" for line in cluster.lines())]
        rows.append(_row("inventory", hosts, more))
        lines += more
    elif cluster is not None:
        lines.append(f"{hosts}: exists already; it was left as it is")
        rows.append(_row("inventory", hosts, lines[-1:]))
    print("\n".join(lines), flush=True)
    code = _hello(given, cluster, os.path.dirname(hosts))
    if code == errors.OK and given.compare:
        code = _compared(given, path)
    print(f"next: rankzero plan {shlex.quote(path)}")
    return code, rows


def _row(kind: str, path: str, lines: Sequence[str]) -> dict[str, Any]:
    """A file in the document. The first line says whether it was written."""
    written = lines[0].startswith(f"{path}: written")
    return {"kind": kind, "path": path, "written": written, "notes": [line.strip() for line in lines[1:]]}


def _hello(given: Namespace, cluster: Cluster | None, inventory: str) -> int:
    if cluster is None:
        return errors.OK
    from rankzero.first_look import hello

    return hello(given, cluster, inventory)


def _compared(given: Namespace, path: str) -> int:
    from rankzero import both_ways

    print("\n".join(both_ways.plan(given, path)), flush=True)
    lines, code = both_ways.compare(given, path)
    print("\n".join(lines))
    return code


def write_project(given: Namespace, cluster: Cluster | None = None) -> tuple[str, list[str]]:
    """(the job file, lines on it) of a script or of the project. One that exists is left where a cluster was asked."""
    folder = given.folder
    if os.path.isfile(folder):
        how = f"; a job of a script: rankzero init --from {shlex.quote(folder)}" if given.script is None else ""
        raise RankzeroError(f"{folder} is a file, and init takes the folder of the project{how}")
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
        text, notes = _job_of(name, project, cluster.job(project.torch) if cluster else SIZE), list(project.notes)
    path = os.path.normpath(os.path.join(folder, "jobs", f"{name}.yml"))
    if cluster is not None and os.path.exists(path) and not given.force:
        return path, [f"{path}: exists already; it was left as it is (--force replaces it)"]
    _write(path, text, replace=given.force)
    return path, [f"{path}: written", *(f"  {note}" for note in notes)]


def _job_of(name: str, project: Project, size: Mapping[str, str]) -> str:
    """The job file of a project, from what its own files say."""
    environment = ENVIRONMENT.format(file=project.packages) if project.packages else ""
    environment += f"  requirements: {project.packages}\n" if project.packages == REQUIREMENTS else ""
    artifact = ARTIFACT.format(path=project.result or "result.json")
    return NEW_JOB.format(
        **size,
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
    _refuse_link(path)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w" if replace else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise RankzeroError(f"{path} exists already; it was left as it is (--force replaces a job file)") from None
    except OSError as error:
        raise RankzeroError(f"{path} cannot be written: {error.strerror}") from None


def _refuse_link(path: str) -> None:
    link = next((place for place in (os.path.dirname(path), path) if os.path.islink(place)), None)
    if link:
        raise RankzeroError(f"{link} is a link, which may have come with the project; nothing was written. Remove it.")
