# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook works on: the variables that select its launches. Decided before it acts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import PLAYBOOKS, ROLE_LAUNCH

#: The fact with the names of the variables that select launches. The playbooks read no other selector.
SELECTED = "rankzero_selected"
#: The selectors. One is given by any of its names; in the variables of an inventory the first that is defined counts.
SELECTORS = (
    ("launch_job", "job"),
    ("launch_name",),
    ("job_id",),
    ("run_dir",),
    ("run_dirs",),
    ("logs",),
    ("launches",),
    ("sweep",),
    ("jobs", "reconcile_jobs"),
)
#: Variables that choose among the launches of a name.
REFINING = ("key", "generation")


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
