# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launch multi-node training on Slurm exactly once, from Python or with the command `rankzero`.

    import rankzero

    launch = rankzero.run("jobs/train.yml", nodes=4)   # returns when the job is queued
    print(launch.wait().result["loss"])

Everything is done by the playbooks of the Ansible collection rankzero.slurm, which this package contains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankzero.api import Attempt, Diagnosis, Launch, Plan, Series, Status, attach, launches, plan, run
    from rankzero.errors import LaunchFailed, RankzeroError, Refused, Unfinished, Unreachable, UsageError
    from rankzero.functions import submit, submit_each
    from rankzero.many import Comparison, Launches, Waited, as_completed, compare, submit_many, sweep, wait

#: Name -> the module that it is in.
_PLACES = {
    **dict.fromkeys(("Attempt", "Diagnosis", "Launch", "Plan", "Series", "Status"), "api"),
    **dict.fromkeys(("attach", "launches", "plan", "run"), "api"),
    **dict.fromkeys(("LaunchFailed", "RankzeroError", "Refused", "Unfinished", "Unreachable", "UsageError"), "errors"),
    **dict.fromkeys(("submit", "submit_each"), "functions"),
    **dict.fromkeys(("Comparison", "Launches", "Waited"), "many"),
    **dict.fromkeys(("as_completed", "compare", "submit_many", "sweep", "wait"), "many"),
}
__all__ = [
    "Attempt",
    "Comparison",
    "Diagnosis",
    "Launch",
    "LaunchFailed",
    "Launches",
    "Plan",
    "RankzeroError",
    "Refused",
    "Series",
    "Status",
    "Unfinished",
    "Unreachable",
    "UsageError",
    "Waited",
    "as_completed",
    "attach",
    "compare",
    "launches",
    "plan",
    "run",
    "submit",
    "submit_each",
    "submit_many",
    "sweep",
    "wait",
]


def __getattr__(name: str) -> Any:
    """Load the API on first use, because the command does not need it."""
    if name == "__version__":
        from rankzero.version import version

        return version()
    if name not in _PLACES:
        raise AttributeError(f"module 'rankzero' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"rankzero.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
