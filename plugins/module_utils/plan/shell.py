# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn a plan into the commands of an interactive session: one allocates what the job would get, one opens a shell.
Pure.

salloc gets the job's header without the options that only make sense in a batch script. The shell is one task on the
first node with everything that the node's ranks would have, in their container. Its set-up is in a separate script
(templates/shell.sh.j2), so that no value of the job appears on a command line.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import (
    inside_job,
    parallelism,
    sealed_environment,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import Entry, entry
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import mounted
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import ON_NODES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import (
    BATCH_ONLY,
    OF_SESSIONS,
    PLAIN,
)

SCRIPT = "shell.sh"
#: The name of a session, and of one that has no other.
NAME, UNNAMED = t.text(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "a name of letters, digits, _ and -, at most 64"), "shell"


@dataclass(frozen=True)
class Session:
    """An interactive session as commands.

    `folder`: the session's own folder on the cluster. `allocate`: empty if the session runs inside a running job.
    """

    folder: str
    allocate: tuple[str, ...]
    shell: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """The commands as a user types them."""
        return [shlex.join(command) for command in (self.allocate, self.shell) if command]

    @property
    def command(self) -> tuple[str, ...]:
        """One command that opens the shell and releases the allocation when the shell ends."""
        return (*self.allocate, *self.shell)


def folder_of(plan: Plan) -> str:
    """Return the folder of the session's script, home and working directory: <state_root>/shells/<name>/<key>."""
    state_root = plan.runs_dir().rsplit("/", 3)[0]
    return f"{state_root}/shells/{plan.name}/{short_key(plan.key)}"


def container_of(plan: Plan) -> Entry | None:
    """Return the ranks' container for the session, with the session's folder in place of the run directory."""
    if plan.container is None:
        return None
    return entry(
        plan.spec,
        runs_dir=folder_of(plan),
        built=plan.container.image,
        places=[
            *mounted(plan.refs),
            *(source.folder for source in plan.spec.data.values()),
            *([plan.spec.environment.path] if plan.spec.environment.path else []),
        ],
        variables=plan.container.variables,
        writable=[plan.caches] if plan.caches else [],
        environments=plan.environments_inside,
    )


def values_of(plan: Plan, role: str = "") -> list[tuple[str, str]]:
    """Return the variables for the parallelism sizes, the checkpoint folder and the datasets, those for a sealed
    environment, and the name of the role.
    """
    folders = [
        (name, value)
        for name, value in plan.exports
        if name == "RANKZERO_CHECKPOINT_DIR" or name.startswith("RANKZERO_DATA_")
    ]
    sealed = [pair for pair in plan.exports if plan.sealed and pair[0] in sealed_environment.VARIABLES]
    return [*parallelism.exports(plan.spec), *folders, *sealed, *([("RANKZERO_ROLE", role)] if role else [])]


def programs(plan: Plan) -> tuple[str, ...]:
    """Return the files of the job's runtime that the session needs. They are copied to its own folder."""
    enter = plan.container.kind.programs if plan.container else ()
    adopt = ("start/adopt.sh",) if plan.spec.environment.mode in ("path", "conda") else ()
    secrets = ("rank/secrets.sh",) if plan.spec.secrets else ()
    return ("start/serve.sh", *secrets, *enter, *(sealed_environment.PROGRAMS if plan.sealed else adopt))


def session(plan: Plan, nodes: Sequence[str] = (), serves: Sequence[str] = (), name: str = UNNAMED) -> Session:
    """Return the commands. `nodes`: where the launch would run inside the job that the spec names. `serves`: what the
    session serves in place of a shell, and for which host of ssh. `name`: what its job, or its step, is called.
    """
    folder, inside = folder_of(plan), plan.spec.launcher.inside_job
    called = f"--job-name={plan.name}.{name}"
    words = ["srun", "--pty", *([f"--jobid={inside}", called] if inside else [])]
    words += [f"--nodelist={node}" for node in nodes[:1] if inside]
    container = container_of(plan)
    entered = [_option(name, value) for name, value in container.step] if container else []
    words += [*step(plan, folder), *entered, "/bin/bash", f"{folder}/{SCRIPT}", *serves]
    return Session(folder, () if inside else _allocate(plan, called), tuple(words))


def _allocate(plan: Plan, called: str) -> tuple[str, ...]:
    spec = plan.spec
    words = ["salloc", called]
    # One session cannot wait for several allocations: of several alternatives it takes the first.
    first: dict[str, str] = next(iter(spec.resources.any_of), {})
    own = {**{row.sbatch.name: row.for_salloc(spec) for row in PLAIN}, **first}
    for name, line in {**dict(plan.header), **first}.items():
        value = own.get(name, line)
        if value and name not in BATCH_ONLY and (name != "comment" or name in spec.resources.sbatch):
            words.append(_option(name, value))
    return tuple(words)


def step(plan: Plan, folder: str) -> tuple[str, ...]:
    """Return the options of a step on one node, which has what all ranks of the node have, and those of launcher.srun
    that mean something for one task.
    """
    # --overlap: other steps in the allocation do not wait for the shell to end.
    words = ["--overlap", "--nodes=1", "--ntasks=1"]
    # Without a number, the step has all CPUs of its node.
    words += [] if plan.topology.all_cpus else [f"--cpus-per-task={plan.topology.cpus_per_node}"]
    words += [_option(name, value) for name, value in inside_job.step(plan.spec) if name != "overlap"]
    own = sorted(plan.spec.launcher.srun.items())
    words += [_option(name, value) for name, value in own if value is not False and name not in OF_SESSIONS]
    container = container_of(plan)
    seen = "TERM,LANG,HOME" if container and container.kind.home else "TERM,LANG"
    return (*words, "--cpu-bind=none", f"--export={seen}", f"--chdir={folder}/work")


def _option(name: str, value: str | bool) -> str:
    return f"--{name}" if value is True else f"--{name}={value}"


def brought(plan: Plan) -> dict[str, str]:
    """Return the secrets that are brought to a session that is opened: name -> the file on the cluster, or "" for one
    whose value the controller has. A shell outside of a container reads such a file itself.
    """
    sources = sorted(plan.spec.secrets.items())
    own = {name: source.name if source.kind == "from_file" else "" for name, source in sources}
    return {name: path for name, path in own.items() if plan.container or not path}


def notes(plan: Plan, opened: bool = False) -> list[str]:
    """Return notes on what the ranks have and the shell does not. `opened`: it is not typed by hand."""
    spec, lines = plan.spec, []
    hidden = [] if opened else list(brought(plan))
    if hidden:
        lines.append(
            f"not in the shell: the secrets {', '.join(hidden)}, which a session has that is opened for you (run=true, "
            "rankzero shell)"
        )
    # Such a runtime enters the container before any line of a script runs.
    entered = plan.container is not None and not plan.container.words
    if entered and (spec.setup.modules or spec.setup.commands):
        lines.append("not in the shell: setup, which is done on the node before the container is entered")
    if entered and plan.sealed:
        lines.append("not in the shell: the environment, which a job mounts before it enters the container")
    if spec.environment.mode in ON_NODES and not plan.environments_inside:
        lines.append(
            f"not in the shell: the environment, which each node makes for a job's time (environment.mode "
            f"{spec.environment.mode})"
        )
    left_out = [name for name, value in sorted(spec.launcher.srun.items()) if value and name in OF_SESSIONS]
    if left_out:
        lines.append(f"not in the shell: {', '.join(left_out)} of launcher.srun, which the session decides itself")
    return lines


def described(session: Session) -> dict[str, object]:
    """Return a session as module job_shell returns it."""
    return {**dataclasses.asdict(session), "commands": session.lines}
