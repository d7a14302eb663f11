# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's memory, or the job's share of it, is full: the kernel kills a process, or an allocation is refused."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    DECISIVE,
    WEAK,
    Signature,
    raises,
    says,
)

# The shell says it in the language of the user.
_KILLED = r"Getötet|Processus arrêté|Terminado \(killed\)|Ucciso|Morto|已杀死|強制終了"
# What other lines than the kernel's and Slurm's of a full memory prove.
SIGNAL_9 = "a process was killed by signal 9, which the kernel sends when the memory of the host is full"
_RAY = "the memory of the node is nearly full and Ray ended a worker"
_LIMIT = "the job used more memory on the host than its limit"
_REFUSED = "an allocation of memory on the host was refused"
_ASKS_LESS = (
    "The line that raised shows what it allocates: less at once, or more memory a node (`resources.memory`; 0 is all "
    "of it). A limit on the address space (`ulimit -v`) refuses as well."
)

SIGNATURE = Signature(
    family="host_oom_killed",
    what="the job's memory on the host is full and the kernel killed a process",
    remedy=(
        "More memory a node (`resources.memory`; 0 is all of it), fewer data loader workers, or less read "
        "into memory at once."
    ),
    look=(
        "Compare the memory that the step used with its request (`sacct -j JOB -o "
        "JobID,MaxRSS,ReqMem,State`). Far below it, somebody or another program killed the process."
    ),
    matches=(
        says(
            r"[Dd]etected \d+ oom[-_]kill event|Some of your (?:processes|"
            "step tasks) may have been killed by the cgroup out-of-memory handler|"
            r"task \d+: Out Of Memory|oom_kill event",
            "oom-kill",
            "oom_kill",
            "out-of-memory handler",
            "Out Of Memory",
            strength=DECISIVE,
        ),
        says("(?:Memory cgroup o|O)ut of memory: Kill(?:ed)? process", "ut of memory: Kill", strength=DECISIVE),
        says(
            "Exceeded (?:job|step) memory limit|slurmstepd.*(?:exceeded memory limit|memory limit exceeded)|"
            r"^TERM_MEMLIMIT: |PBS: job killed: p?v?mem \S+ exceeded",
            "TERM_MEMLIMIT",
            "PBS: job killed",
            "emory limit",
            strength=DECISIVE,
            what=_LIMIT,
        ),
        raises(
            r"java\.lang\.OutOfMemoryError",
            strength=CAUSE + 2,
            what="the heap of a Java process is full",
            remedy="Give that process a larger heap (`-Xmx`), and the job the memory for it: `resources.memory`.",
        ),
        raises(
            r"\bMemoryError\b|_ArrayMemoryError|DefaultCPUAllocator: (?:can\'t|not enough)|"
            "Cannot allocate memory|std::bad_alloc",
            what=_REFUSED,
            remedy=_ASKS_LESS,
        ),
        # Programs in Rust.
        says(
            r"^memory allocation of .*bytes failed",
            "memory allocation of",
            strength=WEAK + 5,
            what=_REFUSED,
            remedy=_ASKS_LESS,
        ),
        says(
            r"what\(\):\s+std::bad_alloc|instance of 'std::bad_alloc'|fork: Cannot allocate memory",
            "std::bad_alloc",
            "fork: Cannot allocate",
            what=_REFUSED,
            remedy=_ASKS_LESS,
        ),
        says(
            r"exitcode: -9\)? ?|[Ss]ignal 9 \(SIGKILL\) received|task[s]? [\d,-]+: Killed|"
            r"exit(?:ed with)?(?: exit)? (?:code|status) 137\b|EXIT CODE: 137\b",
            "EXIT CODE: 137",
            "exitcode: -9",
            "ignal 9 (SIGKILL)",
            ": Killed",
            "code 137",
            "status 137",
            strength=WEAK + 6,
            what=SIGNAL_9,
        ),
        # The shell writes it behind a progress line that has no end yet.
        says(r"^(?:\S+: line \d+: +\d+ )?Killed\b(?! by)|[\d\])%]Killed$", "Killed", strength=WEAK + 5, what=SIGNAL_9),
        says(
            rf": \D{{1,8}}\d+\D{{0,2}}: +\d+ (?:{_KILLED})",
            "Getötet",
            "Processus arrêté",
            "(killed)",
            "Ucciso",
            "Morto",
            "已杀死",
            "強制終了",
            strength=WEAK + 5,
            what=SIGNAL_9,
        ),
        says(
            # Kubernetes; Ray also lists reasons that are possible.
            "Reason: +OOMKilled|oom-kill:constraint=|^(?!.*potential root cause).*killed by SIGKILL by OOM killer",
            "oom-kill:",
            "OOMKilled",
            "by OOM killer",
            strength=DECISIVE,
        ),
        says(
            "low on resource: memory",
            "on resource: memory",
            strength=DECISIVE,
            what="the memory of the node was nearly full, and Kubernetes ended the pod",
        ),
        says("exceeded memory limit", "exceeded memory limit", strength=DECISIVE, what=_LIMIT),
        # Ray counts the workers that it ended.
        says(
            r"\b[1-9]\d* Workers \(tasks / actors\) killed due to memory pressure",
            "killed due to memory pressure",
            strength=WEAK + 6,
            what=_RAY,
        ),
        # joblib's workers.
        raises(
            r"TerminatedWorkerError|SIGKILL\(-9\)",
            strength=WEAK + 6,
            what="a worker process was ended from outside, as the kernel does when the memory of the host is full",
        ),
        raises(
            "due to the node running low on memory",
            strength=CAUSE + 2,
            what=_RAY,
            remedy=(
                "More memory a node (`resources.memory`; 0 is all of it), or fewer and smaller workers on it; the "
                "message lists what used it most. Ray counts the whole node, also what other jobs use there."
            ),
        ),
        raises(
            r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) is killed by signal: Killed", strength=CAUSE - 3, what=SIGNAL_9
        ),
        says(
            r"terminat\w+ (?:with|by) signal SIGKILL|died with <Signals\.SIGKILL|code (?:= )?-9\b|"
            r"exited on signal 9\b|died with exit code -9\b|KILLED BY SIGNAL: 9\b|EXIT STRING: Killed",
            "signal SIGKILL",
            "on signal 9",
            "died with exit code -9",
            "BY SIGNAL: 9",
            "EXIT STRING: Killed",
            "Signals.SIGKILL",
            "code -9",
            "code = -9",
            strength=WEAK + 6,
            what=SIGNAL_9,
        ),
    ),
    examples=(
        "(raylet) node_manager.cc:32: 2 Workers (tasks / actors) killed due to memory pressure (OOM)",
        "job.sh: Zeile 31: 4242 Getötet                python fit.py",
        "job.sh: 行 12: 4242 已杀死               python fit.py",
        "The node was low on resource: memory.",
        "java.lang.OutOfMemoryError: Java heap space",
        "memory allocation of 2097152 bytes failed",
        "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process was ended",
        "=>> PBS: job killed: mem 8kb exceeded limit 4kb",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may have "
            "been killed by the cgroup out-of-memory handler."
        ),
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 4 GiB for an array",
        "srun: error: n1: task 3: Out Of Memory",
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
        "[12.0] Memory cgroup out of memory: Killed process 4242 (python)",
    ),
)
