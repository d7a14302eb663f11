# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Complete commands for the user to run. Pure except for the working directory."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import TaskVariables, play_of

# Playbooks whose verb of `rankzero` has another name.
VERBS = {"diagnose": "why"}


def playbook_command(playbook: str, task_vars: TaskVariables, *files: str, **variables: str) -> str:
    """The command line that runs one of our playbooks, or the user's playbook file, with the inventories of this run.

    `files`: files of variables.
    """
    words = ["ansible-playbook"]
    for source in play_of(task_vars).inventories:
        beside = os.path.relpath(source) if os.path.isabs(source) else source
        words += ["-i", beside if len(beside) < len(source) else source]
    words.append(playbook if playbook.endswith(".yml") else f"rankzero.slurm.{playbook}")
    for path in files:
        words += ["-e", f"@{path}"]
    for name, value in variables.items():
        words += ["-e", f"{name}={value}"]
    return shlex.join(words)


def launch_command(
    playbook: str,
    run_dir: str,
    task_vars: TaskVariables | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The command line for one launch, with `playbook` attach, cancel or diagnose: of `rankzero` if it started this
    run, otherwise of ansible-playbook. `environment`: the variables to look for it in, by default those of the process.
    """
    environment = os.environ if environment is None else environment
    if "RANKZERO_RECORDS" not in environment:
        return playbook_command(playbook, task_vars or {}, run_dir=run_dir, **_cluster_of(task_vars or {}))
    launch = "/".join(run_dir.rstrip("/").split("/")[-3:])
    words = ["rankzero", VERBS.get(playbook, playbook), launch]
    return f"{shlex.join(words)} {environment.get('RANKZERO_OPTIONS', '')}".rstrip()


def _cluster_of(task_vars: TaskVariables) -> dict[str, str]:
    """`cluster`, if our playbooks would otherwise look for the launch on other hosts of the inventory."""
    play = play_of(task_vars)
    if play.groups is None or play.host == "localhost" or play.groups.get("slurm_login") == [play.host]:
        return {}
    return {"cluster": play.host}


def commands_of(
    run_dir: str, task_vars: TaskVariables | None, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The commands to follow a launch that still runs, and to cancel it. `environment`: as for `launch_command`."""
    return {playbook: launch_command(playbook, run_dir, task_vars, environment) for playbook in ("attach", "cancel")}
