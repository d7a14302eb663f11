# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The components of a heterogeneous job, one for the roles whose nodes are alike in partition, account and kind. srun
has to be told which it means. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.slurm import host_names
from core.state import Job


def allocated(job: Job) -> list[str]:
    """The nodes that Slurm has given the job, those of the component with the deciding role first; empty where scontrol
    cannot expand their list.
    """
    if not job.get("RANKZERO_COMPONENTS"):
        return host_names(job, job.get("SLURM_JOB_NODELIST"))
    lists = [job.get(f"SLURM_JOB_NODELIST_HET_GROUP_{number}") for number in range(job.number("SLURM_HET_SIZE"))]
    job.components = [host_names(job, names) for names in lists]
    # srun would take them for its own options, of which each step has what its component has.
    for name in [name for name in job.env if name.startswith("SLURM_GPUS_PER_NODE")]:
        job.drop(name)
    nodes = list(dict.fromkeys(node for names in job.components for node in names))
    # Two components may have a node in common.
    job.export("RANKZERO_NODES", len(nodes))
    return nodes


def gpus(job: Job) -> str:
    """The GPUs that the job has on each node, as the preflight reads them: a number, or NODE=NUMBER of each."""
    if not job.components:
        return job.get("RANKZERO_GPUS_PER_NODE")
    counts: dict[str, str] = {}
    for count, names in zip(job.get("RANKZERO_COMPONENTS").split(), job.components):
        counts.update({node: count for node in names if node not in counts})
    return ",".join(f"{node}={count}" for node, count in counts.items())


def placed(job: Job, words: Sequence[str], component: int | None = None) -> list[str]:
    """The words of a step that a job of several components wants: of srun for the component of its nodes (`component`;
    else the first that has them), or for each of several, one after the other. Its tasks are numbered through.
    """
    if not job.components:
        return list(words)
    count = next((number for number, word in enumerate(words[1:], 1) if not word.startswith("-")), len(words))
    options, program = words[1:count], words[count:]
    given = dict(word.partition("=")[::2] for word in options)
    left = given["--nodelist"].split(",") if "--nodelist" in given else list(job.nodes)
    tasks, made = int(given["--ntasks"]) // int(given["--nodes"]), [words[0]]
    for number, (names, gpus_of_node) in enumerate(zip(job.components, job.get("RANKZERO_COMPONENTS").split())):
        own = [node for node in left if node in names]
        if not own or component not in (None, number):
            continue
        left = [node for node in left if node not in own]
        # Where the step does not say it, srun would take what the first component has.
        of_gpus = (
            {}
            if "--gres" in given
            else {"--gres": "none"}
            if gpus_of_node == "0"
            else {"--gpus-per-node": gpus_of_node}
        )
        more = {"--mem": "0", **of_gpus}
        differ = {"--het-group": number, "--nodes": len(own), "--ntasks": tasks * len(own), "--nodelist": ",".join(own)}
        kept = [word for word in options if word.partition("=")[0] not in differ]
        made += [":"] if len(made) > 1 else []
        made += [f"{name}={value}" for name, value in {**more, **differ}.items() if name not in given or name in differ]
        made += [*kept, *program]
    return made
