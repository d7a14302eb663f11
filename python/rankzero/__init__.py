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
    from rankzero.api import Attempt, Diagnosis, Launch, Plan, Status, attach, launches, plan, run
    from rankzero.errors import LaunchFailed, RankzeroError, Refused, Unfinished, Unreachable

__all__ = [
    "Attempt",
    "Diagnosis",
    "Launch",
    "LaunchFailed",
    "Plan",
    "RankzeroError",
    "Refused",
    "Status",
    "Unfinished",
    "Unreachable",
    "attach",
    "launches",
    "plan",
    "run",
]


def __getattr__(name: str) -> Any:
    """Load the API on first use, because the command does not need it."""
    if name == "__version__":
        from rankzero.version import version

        return version()
    if name not in __all__:
        raise AttributeError(f"module 'rankzero' has no attribute {name!r}")
    from rankzero import api, errors

    return getattr(api, name, None) or getattr(errors, name)


def __dir__() -> list[str]:
    return sorted(__all__)
