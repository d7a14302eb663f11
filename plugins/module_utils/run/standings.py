# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The standing of a launch: what has become of it, in one of eight words that every output uses.

run/status.py decides it; everyone else reads it. Three other questions have words of their own. `submission`: what one
call did about the launch (submit/result.py). `slurm_state`: what Slurm calls its job (slurm/states.py). `outcome`: what
the job itself wrote about an attempt. The values are plain text, because they travel through JSON, and Ansible takes no
subclass of it.
"""

from __future__ import annotations

from typing import Literal, get_args

Standing = Literal["waiting", "running", "succeeded", "failed", "withdrawn", "unsubmitted", "unknown", "untrusted"]
STANDINGS: tuple[Standing, ...] = get_args(Standing)

# The job is in the queue, for its first start or for another one.
WAITING: Standing = "waiting"
# The job holds nodes.
RUNNING: Standing = "running"
# The artifact is proven. This is final, regardless of what Slurm does with the job afterwards.
SUCCEEDED: Standing = "succeeded"
# It ended without a proven artifact, was cancelled, or Slurm refused it.
FAILED: Standing = "failed"
# It did not run, because another cluster runs it, or because nobody let it run in time (run/grants.py).
WITHDRAWN: Standing = "withdrawn"
# No job: nothing was submitted, or an intent is recorded and no source knows a job for it. It may be submitted.
UNSUBMITTED: Standing = "unsubmitted"
# Only Slurm can tell, and it was not asked or did not answer.
UNKNOWN: Standing = "unknown"
# Another user could have written its run directory, so nothing in there is believed.
UNTRUSTED: Standing = "untrusted"

# There is a job that has not ended.
ACTIVE: tuple[Standing, ...] = (WAITING, RUNNING)
# It has ended, and nothing is proven.
UNPROVEN: tuple[Standing, ...] = (FAILED, WITHDRAWN)

# What Slurm calls a job whose launch stands so, as a rule.
_USUAL: dict[str, str] = {WAITING: "PENDING", RUNNING: "RUNNING", SUCCEEDED: "COMPLETED", FAILED: "FAILED"}


def withdrawn(grant: str) -> str:
    """Return why a launch was withdrawn, from the text of its grant (run/grants.py); "" if it was not."""
    word, _blank, reason = grant.strip().partition(" ")
    return reason or WITHDRAWN if word == WITHDRAWN else ""


def shown(standing: str, slurm_state: str | None) -> str:
    """Return the standing, followed by Slurm's state where that says more: "failed (TIMEOUT)"."""
    return standing if slurm_state in (None, _USUAL.get(standing)) else f"{standing} ({slurm_state})"
