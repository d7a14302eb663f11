# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch on a lab of many nodes beside plain sbatch and srun: requests to slurmctld (sdiag), and files."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import MOST_NODES
from tests.cluster.conftest import LabCluster, booted, instance_name, lab_of
from tests.cluster.launching import Site

#: The part of sdiag's output that counts the requests by their kind.
COUNTED = re.compile(r"Remote Procedure Call statistics by message type(.*?)Remote Procedure Call", re.DOTALL)
#: The measuring itself.
OWN = "REQUEST_STATS_INFO"
#: Requests of the last daemons come after the job's end.
SETTLING = 3.0


def requests(lab: LabCluster) -> int:
    """How many requests slurmctld has served from clients and daemons since it was started."""
    time.sleep(SETTLING)
    part = COUNTED.search(lab.head(["sdiag"]).stdout)
    assert part, "sdiag counts requests by type"
    counts = re.findall(r"(\w+)\s*\(\s*[0-9]+\)\s*count:([0-9]+)", part[1])
    return sum(int(count) for name, count in counts if name != OWN)


def measured(nodes: int) -> dict[str, float]:
    """The figures of one launch with one rank on each node, after one that has brought its code and runtime."""
    way = "simple" if nodes > MOST_NODES["realistic"] else "auto"
    # Two processors serve all the daemons.
    patient = ["SlurmdTimeout=60", "MessageTimeout=60"] if way == "simple" else []
    lab = lab_of(
        instance_name("scale"), way=way, nodes=nodes, cpus=4, memory=2000, gpus=0, accounting="none",
        slurm_conf=patient,
    )  # fmt: skip
    with booted(lab) as there, tempfile.TemporaryDirectory(prefix="scale-") as folder:
        site = Site(there, Path(folder), "scale")
        try:
            site.ended(site.launch(site.job("true", "warm"))["job_id"])
            before = requests(there)
            there.run_job(f"--nodes={nodes}", "--ntasks-per-node=1", script="srun true", timeout=300)
            plain = requests(there)
            launch = site.launch(site.job("true", resources={"nodes": nodes, "time": "00:10:00"}))
            assert site.outcome(launch)["success"]
            site.ended(launch["job_id"])
            after = requests(there)
            files = [path for path in site.run_dir(launch).rglob("*") if path.is_file()]
            rows: dict[str, float] = {"requests to slurmctld: plain sbatch --wait and srun": plain - before}
            rows["requests to slurmctld: launch, preflight and run"] = after - plain
            for part in ("preflight", "logs", "ended", "monitor"):
                rows[f"files of the run: {part}"] = sum(f"/{part}/" in str(path) for path in files)
            rows["files of the run: all"] = len(files)
            rows["bytes of the run"] = sum(path.stat().st_size for path in files)
            return rows
        finally:
            site.close()
