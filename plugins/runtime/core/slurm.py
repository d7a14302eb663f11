# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm's commands say, as far as the conductor asks: every question has a time limit. Standard library only."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from core import processes
from core.log import log_line
from core.state import Job

# How long Slurm's commands get.
SECONDS = 60
#: What the batch script has where a number of CPUs belongs.
AUTO = "auto"


def query(job: Job, *words: str, seconds: float = SECONDS, both: bool = False) -> tuple[int, str]:
    return processes.output_of(seconds, words, job.env, both)


def host_names(job: Job, names: str) -> list[str]:
    """The nodes of a node list; empty where scontrol cannot expand it. One name is no list."""
    if names and "[" not in names and "," not in names:
        return [names]
    code, text = query(job, "scontrol", "show", "hostnames", names)
    return text.split() if code == 0 else []


def show_job(job: Job) -> str:
    """One line about this job; empty where Slurm does not answer."""
    code, text = query(job, "scontrol", "show", "job", "--oneliner", job.slurm_job)
    return text if code == 0 else ""


def field(text: str, name: str) -> str:
    """The value of a field in what scontrol said; empty where it is not set."""
    match = re.search(rf"(?:^|\s){re.escape(name)}=(\S*)", text)
    return match[1] if match and match[1] != "(null)" else ""


def temporary_folder(job: Job) -> str:
    """Slurm's own idea of where a node has room (TmpFS); asked once."""
    if job.slurm_tmp is None:
        text = query(job, "scontrol", "show", "config")[1]
        match = re.search(r"^TmpFS *= *(.*)$", text, re.MULTILINE)
        job.slurm_tmp = match[1].strip() if match else ""
    return job.slurm_tmp


def memory(job: Job) -> str:
    """Megabytes of memory that the job has on a node, 0 where it is not said."""
    return job.get("SLURM_MEM_PER_NODE") or str(job.number("SLURM_MEM_PER_CPU") * job.number("SLURM_CPUS_ON_NODE", 1))


def on_each(nodes: Sequence[str], output: str) -> list[str]:
    """srun and its options for a small step of one task on each of the nodes, beside whatever else runs there."""
    count = len(nodes)
    words = ["srun", "--overlap", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--cpus-per-task=1"]
    words += ["--mem=0", "--gres=none", f"--nodelist={','.join(nodes)}", "--kill-on-bad-exit=0", "--wait=0"]
    return [*words, "--export=ALL", f"--output={output}"]


def beside(words: Sequence[str]) -> list[str]:
    """srun's words for a step on nodes that an ended one may still hold: Slurm keeps its place on all of them until its
    dead node answers, which it never does. A step that shares is not exclusive, and has one size of its memory.
    """
    options = list(itertools.takewhile(lambda word: word.startswith("-"), words[1:]))
    kept = [word for word in options if word not in ("--overlap", "--exclusive")]
    memory = [] if any(word.startswith("--mem") for word in kept) else ["--mem=0"]
    return [words[0], "--overlap", *memory, *kept, *words[1 + len(options) :]]


def too_few(job: Job, without: str) -> str:
    """Why the job cannot start again without some nodes; empty where enough are left, and where sinfo does not say."""
    for number in range(len(job.components) or 1):
        of = f"_HET_GROUP_{number}" if job.components else ""
        partition, wanted = job.get(f"SLURM_JOB_PARTITION{of}"), job.number(f"SLURM_JOB_NUM_NODES{of}")
        words = ("sinfo", "--noheader", "--Node", f"--partition={partition}", "--format=%N")
        left = len(set(query(job, *words)[1].split()) - set(host_names(job, without)))
        # None is a sinfo that does not answer, or a partition without anything left: either way Slurm decides.
        if 0 < left < wanted:
            return f"without {without} partition {partition} has {left} nodes, and the job needs {wanted}"
    return ""


def have_common_node(job: Job, first: str, second: str) -> bool:
    """Whether two node lists have a node in common."""
    return bool(set(host_names(job, first)) & set(host_names(job, second)))


def preempted(job: Job) -> bool:
    """Whether Slurm has preempted this attempt; what it shows of the job is in `shown`. Inside another job that is the
    other job's affair.
    """
    if job.attached:
        return False
    env = {**job.env, "SLURM_TIME_FORMAT": "standard"}
    code, job.slurm_shown = processes.output_of(SECONDS, ["scontrol", "--oneliner", "show", "job", job.slurm_job], env)
    if code != 0:
        return False
    # An attempt before this one may have been the preempted one. Times are written so that text compares.
    when = field(job.slurm_shown, "PreemptTime")
    return when[:1].isdigit() and when >= field(job.slurm_shown, "StartTime")


def requeues_by_itself(job: Job) -> bool:
    """Newer Slurms requeue a preempted job when its script ends, whatever its exit code; 24.11 would requeue it once
    more, after the next attempt's success, for a requeue of ours. Seen on 24.11 and 26.05; 22.05 does not do it.
    """
    match = re.search(r" (\d+)\.0*(\d+)", query(job, "scontrol", "--version", seconds=20)[1])
    return match is not None and int(match[1]) * 100 + int(match[2]) >= 2411


def count_cpus(job: Job) -> None:
    """Share the CPUs of the job's smallest node among the ranks of a node. Slurm names them as 96(x2),64."""
    if job.get("RANKZERO_CPUS_PER_NODE") != AUTO:
        return
    counts = [part.partition("(")[0] for part in job.get("SLURM_JOB_CPUS_PER_NODE").split(",")]
    least = min((int(number) for number in counts if number.isdecimal()), default=1)
    ranks = job.number("RANKZERO_RANKS_PER_NODE", 1)
    each = max(1, least // ranks)
    # A task gets whole cores: an uneven share would ask for more of them than the node has.
    shown = query(job, "scontrol", "show", "node", "--oneliner", job.nodes[0])[1] if job.nodes else ""
    threads = field(shown, "ThreadsPerCore")
    if threads.isdecimal() and each > int(threads) > 0:
        each -= each % int(threads)
    job.export("RANKZERO_CPUS_PER_NODE", each * ranks)
    job.export("RANKZERO_CPUS_PER_RANK", each)
    log_line(f"cpus: {each} for each of {ranks} ranks of a node, of {least} (resources.cpus_per_rank: auto)")


def with_cpus(job: Job, words: Sequence[str]) -> list[str]:
    """The words of a step, with the CPUs of a task. The threads of a rank are as many, unless the job says so."""
    each = job.number("RANKZERO_CPUS_PER_RANK")
    if each and job.get("OMP_NUM_THREADS") == AUTO:
        job.export("OMP_NUM_THREADS", each)
    task = each if job.tasks_are_ranks else job.number("RANKZERO_CPUS_PER_NODE")
    return [f"--cpus-per-task={task}" if word == f"--cpus-per-task={AUTO}" else word for word in words]
