# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labs of the golden files, and everything that is rendered for one."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import agents, slurmconf, wrappers
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import SITE_PARTITIONS, Lab, Partition
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import network
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host

GOLDEN = Path(__file__).parent / "golden"
PYTHON = "/usr/bin/python3"

ENFORCED: dict[str, bool | str] = dict.fromkeys(
    ("cgroups", "affinity", "private_tmp", "job_submit", "network_share"), True
)

LABS = {
    "realistic": (Lab("lab", "/var/lib/rankzero-lab/lab"), Host("vm", "slurm", 0, "/var/lib/rankzero-lab/lab/run")),
    "realistic-small": (
        Lab(
            "small",
            "/srv/small",
            nodes=1,
            cpus=3,
            memory=1000,
            gpus=0,
            accounting="none",
            job_comments=True,
            internet=False,
            partitions=(Partition("one"), Partition("two", "2-00:00:00", True)),
            slurm_conf=("PrivateData=jobs",),
            gres=("lscratch:500",),
            binds=("/data",),
        ),
        Host("vm", "slurm", 0, "/srv/small/run"),
    ),
    "newer": (
        Lab("newer", "/srv/newer", nodes=2, gpus=0, binds=("/data",), slurm="26.05"),
        Host("vm", "slurm", 0, "/srv/newer/run"),
    ),
    "site": (
        Lab(
            "site",
            "/var/lib/rankzero-lab/site",
            nodes=2,
            cpus=2,
            profile="site",
            gpu_type="h100",
            partitions=SITE_PARTITIONS,
            internet=False,
        ),
        Host("vm", "slurm", 0, "/var/lib/rankzero-lab/site/run", ENFORCED, "/usr/lib/openssh/sftp-server"),
    ),
    "site-that-cannot": (
        Lab("poor", "/srv/poor", nodes=1, cpus=2, gpus=0, profile="site", accounting="none", internet=False),
        Host("vm", "slurm", 0, "/srv/poor/run", dict.fromkeys(ENFORCED, "this machine cannot")),
    ),
    "simple": (
        Lab("lab", "/home/user/.local/share/rankzero-lab/lab", way="simple", nodes=2, gpus=2, job_comments=True),
        Host("vm", "user", 12300, "/tmp/rankzero-lab-1000-0123abcd"),
    ),
}


def rendered(lab: Lab, host: Host) -> str:
    """Every text that a lab writes, one after the other, under headings."""
    parts = {f"etc/slurm/{name}": text for name, text in slurmconf.render(lab, host).items()}
    parts.update({f"etc/{name}": text for name, text in agents.static_files(lab).items()})
    for name, config in agents.render(lab, host, PYTHON).items():
        if name in (agents.SUPERVISOR, "head", "node01"):
            parts[agents.config_path(lab, name)] = _one_entry_a_line(config)
    parts.update(wrappers.render(lab, host, PYTHON))
    parts["inventory.yml"] = wrappers.inventory(lab)
    if lab.realistic:
        parts["ip -batch on the head"] = network.head_batch(lab) + network.cable_batch({"node01": 4711})
        parts["ip -batch on node01"] = network.node_batch(lab, "node01")
    return "".join(f"=== {name}\n{parts[name]}\n" for name in sorted(parts))


def _one_entry_a_line(config: dict[str, object]) -> str:
    lines = []
    for key, value in config.items():
        entries = value if isinstance(value, list) else value.items() if isinstance(value, dict) else [value]
        lines.append(f"{key}:")
        lines.extend(f"  {json.dumps(entry)}" for entry in entries)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":  # rewrite the golden files, to be looked at before they are committed
    for label, (a_lab, its_host) in LABS.items():
        (GOLDEN / f"{label}.txt").write_text(rendered(a_lab, its_host), encoding="utf-8")
