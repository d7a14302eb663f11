# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook works on: the variables that select its launches, and one cluster. Decided before it acts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, TaskVariables
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import (
    ONE_CLUSTER,
    PLAYBOOKS,
    ROLE_LAUNCH,
)

#: The fact with the names of the variables that select launches. The playbooks read no other selector.
SELECTED = "rankzero_selected"
#: The selectors. One is given by any of its names; in the variables of an inventory the first that is defined counts.
SELECTORS = (
    ("launch_job", "job"),
    ("launch_name",),
    ("job_id",),
    ("run_dir",),
    ("logs",),
    ("launches",),
    ("sweep",),
    ("jobs", "reconcile_jobs"),
)
#: Variables that choose among the launches of a name.
REFINING = ("key", "generation")
#: Playbooks that show or serve all clusters of an inventory.
OF_ALL = ("status", "usage", "notify", "lab")


def selected(playbook: str | None, extra: Collection[str], defined: Collection[str]) -> list[str]:
    """The names of the variables that select what a playbook works on.

    A selector on the command line (`extra`) goes before every other variable (`defined`): what the inventory says then
    selects nothing. `playbook`: as in `known_names`. Raises RankzeroError for two selectors.
    """
    known = ROLE_LAUNCH if playbook is None else PLAYBOOKS[playbook]
    rows = [[name for name in row if name in known] for row in SELECTORS]
    refining = [name for name in REFINING if name in known]
    given = [name for row in rows for name in row if name in extra]
    refined = [name for name in refining if name in extra]
    if refined and not given:
        # They refine the name of the inventory.
        return [*(name for name in ("launch_name",) if name in defined), *refined]
    _refuse_two([*given, *(refined if given and given != ["launch_name"] else [])], "on the command line")
    if given:
        return [*given, *refined]
    others = [next((name for name in row if name in defined), "") for row in rows]
    _refuse_two([name for name in others if name], "in the variables of the inventory or the play")
    return [
        *(name for name in others if name),
        *(name for name in refining if name in defined and "launch_name" in others),
    ]


def _refuse_two(names: Sequence[str], where: str) -> None:
    if len(names) > 1:
        raise RankzeroError(
            f"{', '.join(names[:-1])} and {names[-1]}: each selects launches, and they are given together {where}. "
            "Nothing was done; give one of them."
        )


def refuse_clusters(playbook: str | None, extra: JsonObject, task_vars: TaskVariables) -> None:
    """Raise RankzeroError if a playbook of ours, or a user's own play (None), would act on several clusters unasked.

    `-e cluster=` is the choice; it may be a group. A folder of job files for each cluster is one, too. In a user's own
    play it is the variable `cluster`, which names them all: `hosts` may be a group that has grown.
    """
    hostvars = task_vars.get("hostvars") or {}
    # The localhost that Ansible adds by itself has no variables there.
    hosts = {name: hostvars.get(name) or {} for name in task_vars.get("ansible_play_hosts_all") or []}
    first: dict[str, str] = {}
    for name, variables in hosts.items():
        first.setdefault(str(variables.get("slurm_cluster") or name), name)
    single = bool(extra.get(ONE_CLUSTER))
    if len(first) < 2 or (playbook and not single and ("cluster" in extra or playbook in OF_ALL)):
        return
    chosen_hosts = _named(str(task_vars.get("cluster", "")), task_vars.get("groups") or {})
    if playbook is None and set(hosts) <= chosen_hosts:
        return
    if playbook == "reconcile" and not {"jobs", "reconcile_jobs"} & set(extra):
        folders = [str(hosts[name].get("reconcile_jobs")) for name in first.values()]
        if len(set(folders)) == len(folders):
            return
    named = [cluster if cluster == name else f"{cluster} (host {name})" for cluster, name in first.items()]
    if playbook is None:
        raise RankzeroError(
            f"the hosts of the play are {len(first)} clusters: {', '.join(named)}. Nothing was done; name one host in "
            "`hosts` or with --limit HOST, or choose them all by the variable `cluster` of the play: "
            "`vars: {cluster: GROUP}`."
        )
    chosen = f"cluster: {extra['cluster']!r} is" if "cluster" in extra else "the inventory has"
    raise RankzeroError(
        f"{chosen} {len(first)} clusters: {', '.join(named)}. Nothing was done; choose one with -e cluster=HOST "
        f'(rankzero: -c HOST, Python: cluster="HOST"){"" if single else ", or all with -e cluster=slurm_login"}'
    )


def _named(chosen: str, groups: Mapping[str, Sequence[str]]) -> set[str]:
    """The hosts of such a choice: names of groups and hosts, with colons or commas between them."""
    words = chosen.replace(",", ":").split(":")
    return {host for word in words for host in groups.get(word.strip(), [word.strip()])}
