# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's memory, or the job's share of it, is full: the kernel kills a process, and Slurm reports it."""

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
        says(
            "(?:Memory cgroup o|O)ut of memory: Kill(?:ed)? process|Exceeded (?:job|step) memory limit|"
            "slurmstepd.*(?:exceeded memory limit|memory limit exceeded)|^TERM_MEMLIMIT: |"
            r"PBS: job killed: p?v?mem \S+ exceeded",
            "ut of memory: Kill",
            "TERM_MEMLIMIT",
            "PBS: job killed",
            "emory limit",
            strength=DECISIVE,
        ),
        raises(r"java\.lang\.OutOfMemoryError", strength=CAUSE + 2),
        raises(
            r"\bMemoryError\b|_ArrayMemoryError|DefaultCPUAllocator: (?:can\'t|not enough)|"
            "Cannot allocate memory|std::bad_alloc"
        ),
        # Programs in Rust.
        says(r"^memory allocation of .*bytes failed", "memory allocation of", strength=WEAK + 5),
        says(
            r"what\(\):\s+std::bad_alloc|instance of 'std::bad_alloc'|fork: Cannot allocate memory",
            "std::bad_alloc",
            "fork: Cannot allocate",
        ),
        says(
            r"exitcode: -9\)? ?|[Ss]ignal 9 \(SIGKILL\) received|task[s]? [\d,-]+: Killed|"
            r"exit(?:ed with)?(?: exit)? (?:code|status) 137\b",
            "exitcode: -9",
            "ignal 9 (SIGKILL)",
            ": Killed",
            "code 137",
            "status 137",
            strength=WEAK + 6,
        ),
        # The shell writes it behind a progress line that has no end yet.
        says(r"^(?:\S+: line \d+: +\d+ )?Killed\b(?! by)|[\d\])%]Killed$", "Killed", strength=WEAK + 5),
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
        ),
        says(
            # Kubernetes; Ray also lists reasons that are possible.
            r"low on resource: memory|Reason: +OOMKilled|oom-kill:constraint=|exceeded memory limit|"
            "^(?!.*potential root cause).*killed by SIGKILL by OOM killer",
            "oom-kill:",
            "on resource: memory",
            "OOMKilled",
            "by OOM killer",
            "exceeded memory limit",
            strength=DECISIVE,
        ),
        # Ray counts the workers that it ended.
        says(
            r"\b[1-9]\d* Workers \(tasks / actors\) killed due to memory pressure",
            "killed due to memory pressure",
            strength=WEAK + 6,
        ),
        # joblib's workers.
        raises(r"TerminatedWorkerError|SIGKILL\(-9\)", strength=WEAK + 6),
        raises(
            "due to the node running low on memory",
            strength=CAUSE + 2,
            what="the memory of the node is nearly full and Ray ended a worker",
            remedy=(
                "More memory a node (`resources.memory`; 0 is all of it), or fewer and smaller workers on it; the "
                "message lists what used it most. Ray counts the whole node, also what other jobs use there."
            ),
        ),
        raises(r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) is killed by signal: Killed", strength=CAUSE - 3),
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
