# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster a play acts on: one, unless somebody has chosen several. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, TaskVariables, play_of

#: Set for a host once the variables of its playbook have been checked: for which command and hosts.
CHECKED = "rankzero_variables_checked"
#: Given by the Python API, whose caller gets one launch: a group with several clusters is no choice.
ONE_CLUSTER = "rankzero_one_cluster"
#: Playbooks that show or serve all clusters of an inventory.
OF_ALL = ("status", "usage", "notify", "lab")


def checked_for(command: str, task_vars: TaskVariables) -> str:
    """The value of CHECKED. A cache of facts outlives a command, and a later play may have other hosts.

    `command`: the folder for temporary files, which each command has for itself.
    """
    return " ".join([command, *(play_of(task_vars).hosts)])


def refuse_clusters(playbook: str | None, extra: JsonObject, task_vars: TaskVariables) -> None:
    """Raise RankzeroError if a playbook of ours, or a user's own play (None), would act on several clusters unasked.

    `-e cluster=` is the choice; it may be a group. A folder of job files for each cluster is one, too. In a user's own
    play it is the variable `cluster`, which names them all: `hosts` may be a group that has grown.
    """
    hostvars = task_vars.get("hostvars") or {}
    # The localhost that Ansible adds by itself has no variables there.
    hosts = {name: hostvars.get(name) or {} for name in play_of(task_vars).hosts}
    first: dict[str, str] = {}
    for name, variables in hosts.items():
        first.setdefault(str(variables.get("slurm_cluster") or name), name)
    single = bool(extra.get(ONE_CLUSTER))
    if len(first) < 2 or (playbook and not single and ("cluster" in extra or playbook in OF_ALL)):
        return
    chosen_hosts = _named(str(task_vars.get("cluster", "")), play_of(task_vars).groups or {})
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
