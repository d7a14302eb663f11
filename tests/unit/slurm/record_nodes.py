# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records what a release of Slurm says of nodes in several states: `python -m tests.unit.slurm.record_nodes 26.05`.

Boots a lab of that release (as root), as record_states does. Written to data/<release>/nodes.txt.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster as lab_cluster
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import nodes
from tests.unit.slurm.record_states import FOLDERS, Recorder, new_lab, write
from tests.unit.slurm.recorded import DATA


def tell_the_story(it: Recorder) -> None:
    """Nodes 1 to 6: with features, running, draining, drained, down, and idle without any features."""
    it.slurm.call("scontrol", "update", "nodename=node[01-03]", "features=ib,rack-1")
    running = it.submit("running", "--nodelist=node02", "--exclusive")
    draining = it.submit("draining", "--nodelist=node03")
    it.until(running, "RUNNING")
    it.until(draining, "RUNNING")
    it.slurm.call("scontrol", "update", "nodename=node[03-04]", "state=drain", "reason=fan = broken, see #7")
    it.slurm.call("scontrol", "update", "nodename=node05", "state=down", "reason=planted")


def main(release: str) -> None:
    lab = replace(new_lab(release), gpu_type="h100")
    lab_cluster.apply(lab, "absent")
    lab_cluster.apply(lab, "present")
    folder = DATA / FOLDERS.get(release, release)
    folder.mkdir(exist_ok=True)
    try:
        it = Recorder(lab)
        tell_the_story(it)
        said = it.slurm.call("scontrol", *nodes.QUESTION).stdout
        # The kernel and the name of the machine that the lab ran on are nobody's business.
        said = re.sub(r"(?m)^(\s+OS=).*$", r"\1Linux 6.1.0 #1 SMP Debian ", said).replace(
            os.uname().nodename, "machine"
        )
        write(folder / "nodes.txt", said)
    finally:
        lab_cluster.apply(lab, "absent")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except RankzeroError as error:
        raise SystemExit(error.message) from error
