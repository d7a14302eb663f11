# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a job are gone. Slurm may take minutes to see that, and some sites let a node back that has started
again: it says itself for how long it is up, because its clock, which Slurm's BootTime is from, may be wrong. Standard
library only.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from core import components, processes, slurm
from core.clearing import remove_tree
from core.state import Job

# How long a node may take to answer a step that does nothing.
ANSWER_SECONDS = 30
_GONE = re.compile(r"^(DOWN|FAIL)|NOT_RESPONDING|\*$|POWERED_DOWN|POWERING_DOWN")
# The name of the answer has all of it: other nodes may see the contents of a new file late.
ANSWER = 'read -r up rest < /proc/uptime || up=inf; : > "$1/$up $SLURMD_NODENAME"'
# The same, by a node that holds something: one that has started again has nothing of this job. What others say of their
# processes, which root can read, is not asked.
ANSWER_IF_HELD = (
    'held=; for file in $(grep -lsz "^SLURM_JOB_ID=$SLURM_JOB_ID$" /proc/[0-9]*/environ); do [ -O "$file" ] &&'
    ' grep -qsz "^RANKZERO_HOLDS=1$" "$file" && held=1; done; [ "$held" ] || exit 0; ' + ANSWER
)


def among(job: Job, nodes: Sequence[str], held: bool = False) -> list[str]:
    """Those of these nodes that are gone: by Slurm's word, because they have been up for less time than this script, or
    because they start no task. `held`: also those without a process that holds something there for this job.
    """
    words = ["scontrol", "show", "node", "--oneliner", ",".join(nodes)]
    told = processes.output_of(slurm.SECONDS, words, job.env)[1]
    shown = {slurm.field(line, "NodeName"): line for line in told.splitlines()}
    dead = [node for node in nodes if node in shown and _GONE.search(slurm.field(shown[node], "State"))]
    left = [node for node in nodes if node not in dead]
    folder = job.path("preflight", f"{job.attempt}.alive")
    if not left:
        return dead
    if os.path.isdir(folder):
        remove_tree(folder)
    os.makedirs(folder, exist_ok=True)
    age = time.monotonic() - job.begun_at
    program = ["/bin/bash", "-c", ANSWER_IF_HELD if held else ANSWER, "alive", folder]
    words = components.placed(job, [*slurm.on_each(left, "none"), "--no-kill", *program])
    processes.output_of(ANSWER_SECONDS, words, job.env)
    answers = {node: float(up) for up, _space, node in (name.partition(" ") for name in os.listdir(folder))}
    # Of a step that nobody answered, the step is to blame.
    return dead + [node for node in left if answers and answers.get(node, -1.0) < age]
