# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that each playbook of the collection accepts, and errors for others on the command line. Pure.

Ansible accepts any name after `-e`. Without this check, a misspelt name would have no effect, and the job would be
submitted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.elsewhere import places, short_names
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import ARGUMENTS, SHORT_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import nearest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs import role_options
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.clusters import ONE_CLUSTER

#: Names of variables that a user's inventory, play or command line defines for itself.
DECLARED = "launch_variables"
#: The types of the options of role launch. The playbook train checks them with its other variables, in the place of a
#: task that Ansible would insert.
TYPES: Mapping[str, Mapping[str, str]] = {
    name: {"type": kind} for name, kind in role_options.LAUNCH.items() if kind != "raw"
}
# The settings of role launch may be in one file for all playbooks (-e @site.yml).
SETTINGS = tuple(name for name in TYPES if name != "launch_cluster")
#: Their names for people.
KINDS = {"dict": "map, such as {state_root: ~/.rankzero/state}", "bool": "true or false", "int": "whole number"}
EVERYWHERE = ("cluster", "slurm_cluster", "launch_cluster", *SETTINGS, DECLARED)
SELECTION = ("launch_name", "key", "generation", "job_id", "run_dir")
JOB = ("job", "launch_job")
ROLE_LAUNCH = (*JOB, "rerun", "explain")
#: Option of the modules that launch -> its name on the command line, and the role's variable for inventories and plays.
COMMAND_LINE: Mapping[str, tuple[str, str]] = {
    "job": ("job", "launch_job"),
    "relaunch": ("rerun", "launch_relaunch"),
    "explain": ("explain", "launch_explain"),
}
COURSE = tuple(name for name in role_options.COURSE if name != "course_state")
# One file holds the folder and the tasks of a class, so each of the two playbooks accepts the other's variables too.
CHECKOFF = tuple(name for name in role_options.CHECKOFF if name not in COURSE)
FABRIC = (
    *("group", "nodes", "method", "all_reduce_perf", "mpi", "sizes", "rounds", "seconds", "candidates", "share"),
    *("mads", "expected", "output", "overwrite", "exclude"),
)
LAB_CLUSTER = role_options.LAB_CLUSTER

#: Playbook -> its own variables, in addition to EVERYWHERE and `ansible_...`.
PLAYBOOKS: Mapping[str, tuple[str, ...]] = {
    "train": ROLE_LAUNCH,
    "plan": ROLE_LAUNCH,
    "cancel": (*SELECTION, "job", "all"),
    "sweep": (*JOB, "rerun", "state", "elements"),
    "pipeline": (*JOB, "rerun", "state"),
    "shell": (*JOB, "role", "serve", "session", "run"),
    "first": (*SELECTION, "step", "clusters", "winner", "arbiter"),
    "attach": (*SELECTION, "run_dirs", "first", "wait_until", "pattern", "log", "wait_timeout"),
    "pull": (*SELECTION, "dest", "paths"),
    "logs": (*SELECTION, "dest", "tail_bytes", "head_bytes", "merge", "follow", "redact"),
    "diagnose": (*SELECTION, "logs", "stall_factor", "stall_seconds", "families"),
    "status": (*SELECTION, "all", "active", "limit", "single", "sort", "width"),
    "notify": (*SELECTION, "metrics_file", "metrics_hours"),
    "compare": ("launches", "time"),
    "both_ways": (
        *(*JOB, "script", "script_arguments", "stand_ins", "compared_as"),
        *("setup", "mounts", "minutes", "dest", "stop"),
    ),
    "report": ("launches", "sweep", "time", "limit", "dest", "annotations"),
    "sync": ("launches", "wandb", "api_key_file"),
    "usage": ("by", "launch_name", "since", "up_to", "csv"),
    "prune": ("older_than", "max_size", "owners", "kinds"),
    "reconcile": ("jobs", "removed", "changed", "relaunch", *role_options.RECONCILE),
    "fabric": (*(f"fabric_{name}" for name in FABRIC), "rerun", "explain"),
    "lab": ("lab", "state", *LAB_CLUSTER),
    "course": ("lab", *LAB_CLUSTER, *COURSE, "course_state", *CHECKOFF),
    "checkoff": ("students", "pick", "evidence", *CHECKOFF, "lab", *LAB_CLUSTER, *COURSE, "course_state"),
}
#: Playbooks that accept the short names of the job spec (`-e nodes=8`).
LAUNCHING = ("train", "plan", "cancel", "sweep", "pipeline", "shell", "fabric")
#: Names that users try, with the intended ones, where no accepted name is similar enough.
MEANT = {
    "state": "to cancel a job, use the playbook rankzero.slurm.cancel",
    "cancel": "to cancel a job, use the playbook rankzero.slurm.cancel",
    "wait": "did you mean launch_wait?",
}


def known_names(playbook: str | None) -> tuple[str, ...]:
    """The variables that a playbook of ours accepts. None: a user's play that launches a job. Raises RankzeroError."""
    own = ROLE_LAUNCH if playbook is None else PLAYBOOKS.get(playbook)
    if own is None:
        raise RankzeroError(f"playbook: must be one of {', '.join(PLAYBOOKS)}; not {playbook!r}")
    short = () if playbook and playbook not in LAUNCHING else (*short_names(), ARGUMENTS, SHORT_ARGUMENTS)
    return tuple(dict.fromkeys([*own, *short, *EVERYWHERE, ONE_CLUSTER]))


def refuse_unknown(playbook: str | None, extra: Collection[str], own: Collection[str]) -> None:
    """Raise RankzeroError for extra variables that neither the playbook accepts nor the user (`own`) defines."""
    known = known_names(playbook)
    unknown = [name for name in extra if name not in known and name not in own and not name.startswith("ansible_")]
    if not unknown:
        return
    count = "1 extra variable is" if len(unknown) == 1 else f"{len(unknown)} extra variables are"
    where = f"rankzero.slurm.{playbook}" if playbook else "a launch"
    shown = [name for name in known if name not in (SHORT_ARGUMENTS, ONE_CLUSTER)]
    hints = {name: _meant(name, known) for name in unknown}
    lines = [f"{count} not known to {where}, and nothing was done:"]
    lines += [f"  - -e {name}: unknown{'; ' if hint else ''}{hint}" for name, hint in hints.items()]
    lines += [f"It takes: {', '.join(shown)}."]
    lines += [
        "A value for your program belongs into `command` or `program_args`. List your own variables in the inventory",
    ]
    mine = [name for name in unknown if not hints[name]] or unknown
    raise RankzeroError("\n".join([*lines, f"or the play: {DECLARED}: [{', '.join(mine)}]"]))


def _meant(name: str, known: Collection[str]) -> str:
    # Match words of a name before similar letters: `wait_timeout` means launch_wait_timeout.
    parts = [candidate for candidate in known if f"_{name}_" in f"_{candidate}_"]
    elsewhere = places().get(name)
    short = next((key for key, path in short_names().items() if path == elsewhere and key in known), None)
    if short:
        return f"did you mean {short}?"
    close = min(parts, key=len) if parts and name not in MEANT else nearest(name, list(known), likeness=0.7)
    if close:
        return f"did you mean {close}?"
    sentence = MEANT.get(name, "")
    asked = sentence.rpartition(" ")[2].rstrip("?")
    return sentence if asked in known or not sentence.endswith("?") else ""
