# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lint of stated facts: a sentence about what happened is said only where its evidence is in the logs.

FACTS names for each such statement the words that prove it. They are looked for in the line that is shown as the root,
and in the other lines of the same failure.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, lines, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import registry
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import failure_families
from tests.repository import bullet_list
from tests.unit.diagnosis import unseen
from tests.unit.diagnosis.test_signatures import DECLARED, READER, TRACEBACK, rows

RECORDED = Path(__file__).resolve().parents[2] / "diagnosis" / "recorded"
FEW = 12
_NO_MEMORY = r"oom|OOM|Out Of Memory|OUT_OF_MEMORY|out-of-memory|ut of memory"
# What a sentence states -> the words of a log that prove it.
FACTS = {
    "kernel killed": _NO_MEMORY,
    "killed by signal 9": r"-9\b|137|[Kk]illed|KILLED|SIGKILL|signal 9|Getötet|Processus|Terminado|Ucciso|Morto|杀死|"
    "終了",
    "more memory on the host than its limit": r"[Mm]emory limit|MEMLIMIT|mem \S+ exceeded",
    "memory on the host was refused": r"alloc|MemoryError",
    "Java": "java",
    r"\bRay\b": r"(?i)\bray\b|raylet|memory pressure|heartbeats",
    "Kubernetes": "low on resource",
    "was preempted$": r"(?i)preempt",
    "was requeued": "(?i)requeue",
    "was cancelled": r"(?i)cancel",
    "cancelled it": r"(?i)cancel|interrupt|revoked|terminat|SIGCONT|Ctrl",
    "signal ended the program": r"(?i)signal|SIG|Terminated|Hangup|Interrupt|kill",
    "time limit": r"(?i)time.?limit|TIMEOUT|DEADLINE|RUNLIMIT|walltime|wall clock|SLURM_JOB_END|DUE TO TIME",
    "port is taken": r"(?i)address|in use|EADDRINUSE|\bport(?:\b|_)|bind",
    "GPU's memory is full": r"(?i)memory|alloc|\bOOM\b|KV cache|RESOURCE_EXHAUSTED|ResourceExhausted",
    "sees no GPU|no GPU is visible|is visible": r"(?i)gpu|cuda|device|driver|hip|npu|visible",
    "cuBLAS": "(?i)cublas",
    "message of the kernel": "Xid|NVRM",
    "/dev/shm": r"(?i)shm|shared memory|Bus error|No space left|posix_fallocate|torch_|ftruncate",
    "too many open files": r"(?i)too many open files|Errno 24|ancdata|file descriptor",
    "no further process or thread": r"(?i)thread|fork|Resource temporarily|Errno 11|pthread",
    "no space or quota": r"(?i)space|quota|Errno (?:28|122)|StorageFull|failed writing|unexpected pos|ephemeral|"
    "write failed|fwrite|inode|and 0 written|Wrote only|disk is full",
    "certificate": "(?i)certificate|SSL",
    "download was cut off": r"(?i)closed|reset|broken|Incomplete|disconnect|aborted|EOF|truncat",
    "server closed": r"(?i)closed|reset|broken|disconnect|aborted|EOF",
    "limits the rate": r"(?i)429|rate|too many requests|limit|quota|503|throttl|busy",
    "number is not a multiple|not a multiple of": r"(?i)divisib|divid|multiple|%|heads|must be",
    "is not a number|not numbers": r"(?i)nan|inf|not finite|non-finite|overflow|diverge|FloatingPoint",
    "numpy 2|numpy 1": r"(?i)numpy|np\.|_ARRAY_API|dtype size|avoid copy",
    "Slurm does not know": "unrecognized option",
    "NCCL failed below XLA": "NCCL operation",
    "memory \\(HBM\\)": r"hbm|bottom of memory",
    "the MPI call": "Fatal error in ",
    "same GPU": "(?i)duplicate|same GPU",
    "Docker": "(?i)docker",
    "by ssh": "(?i)ssh|publickey|Host key",
    "mpirun|MPI": r"(?i)mpi|orte|prte|pmi|ompi|ucx|hydra|slots|btl|process or daemon",
    r"\bNCCL could not": "(?i)nccl|ncclSystem|ncclInternal|ib_|IB |ibv|mlx|rdma|socket|NET plugin|network|connect to",
    r"\bGloo\b": "(?i)gloo|connectFullMesh|remote=|find address|makeDevice",
    "Slurm could not|Slurm refused|part of Slurm": "(?i)slurm|sbatch|srun|salloc|job|tmp|batch|step|node|QOS",
    "node failed": r"(?i)node|host|NODE_FAIL|slurmd|daemon|prted|orted|ORTE|communication",
    "syntax error": r"(?i)syntax|indent|tab",
    "crashed": r"(?i)segfault|segmentation|SIG|signal|abort|core dumped|corrupt|bus error|illegal|fatal|free\(|"
    r"exit(?:ed|code)?\D*-\d|Speicherzugriffsfehler|段错误|セグメン|"
    r"segment[ao]|smash|Unhandled|fault|terminate called|-11|-6|-7|139|134|135|crash|assert",
    "permission is denied": r"(?i)permission|denied|EACCES|EPERM|not permitted|read-only|Errno (?:1|13|30)\b|forbidden|"
    "privileges|not writable",
    "lost, broken or not visible": r"(?i)gpu|cuda|device|nvml|driver|hip|npu|ecc|xid|nvidia|nvlink|accelerator",
    "uses the TPU": "TPU is already in use",
    "operation on the GPU": r"(?i)cuda|cudnn|cublas|hip|npu|gpu|device|kernel|triton",
    "less memory free": r"(?i)memory",
    "worker process was ended from outside": r"TerminatedWorker|SIGKILL",
    "network adapter": r"(?i)ib_|ibv|mlx|verbs|ofi|libfabric|ucx|uct|rdma|qp|roce|cq|memlock|efa|psm",
    "somebody, or the batch system": "TERM_|condor",
    "job was preempted or cancelled": r"(?i)preempt|cancel",
    "job was ending|job that has ended": r"(?i)job|step",
    "worker ended unexpectedly": "exited unexpectedly",
    "mapped into memory": "mmap",
    "loss scale": "loss scale",
    "distribution got values": "invalid values",
    "loss diverged": "[Ll]oss",
}
# In these families a sentence only repeats in other words what the line itself says.
OF_THE_LINE = (
    "abi_conflict", "build", "cache_not_shared", "checkpoint", "collective_timeout", "container_start",
    "cuda_max_connections", "cuda_mismatch", "data_error", "device_assert", "env_not_set", "file_missing",
    "filesystem_io", "hub_auth", "import_error", "offline", "peer_lost", "rendezvous_failure", "script_error",
    "shape_or_divisibility", "tolerance", "unused_parameters", "usage",
)  # fmt: skip


def diagnosed(text: str) -> Diagnosis:
    """The diagnosis of one log's text."""
    read = READER.read("logs/a.log", lines.parse(text.encode().split(b"\n")))
    return advice.diagnosis_of(cause.find_cause([read]), scan.Scan(logs=[read]))


def unproven(found: Diagnosis, text: str) -> list[str]:
    """The facts that a diagnosis states without their evidence, in its lines or in a log of FEW lines."""
    told = [line.text for line in found.evidence if line.family == found.family]
    shown = "\n".join([*told, text if text.count("\n") <= FEW else ""])
    return [fact for fact, proof in FACTS.items() if re.search(fact, found.what) and not re.search(proof, shown)]


def corpus() -> dict[str, str]:
    """Name -> a log: the recorded runs, and every line that a family knows or that a list has collected."""
    texts = {path.name: path.read_text(errors="replace") for path in sorted(RECORDED.glob("*.log"))}
    for family in DECLARED:
        for example in failure_families.examples_of(family):
            texts[f"{family['family']} printed {example}"] = f"starting\n{example}\n"
            texts[f"{family['family']} raised {example}"] = f"starting\n{TRACEBACK.format(example)}"
    texts.update({f"raised {text}": f"start\n{TRACEBACK.format(text)}" for _families, text in rows(unseen.RAISED)})
    texts.update({f"printed {text}": f"start\n{text}\n" for _families, text in rows(unseen.PRINTED)})
    return texts


def test_no_fact_is_stated_without_its_evidence() -> None:
    stated: set[str] = set()
    wrong: list[str] = []
    for name, text in corpus().items():
        found = diagnosed(text)
        stated.update(fact for fact in FACTS if found.root is not None and re.search(fact, found.what))
        wrong += [
            f"{name!r}: {found.what!r} without {fact}" for fact in unproven(found, text) if found.root is not None
        ]
    assert not wrong, bullet_list(wrong)
    assert len(stated) >= len(FACTS) - 3, sorted(set(FACTS) - stated)


def test_each_sentence_names_the_evidence_that_it_needs() -> None:
    bare = []
    for family in registry.SIGNATURES:
        sentences = {family.what, *(match.what for match in family.matches if match.what)}
        if family.family not in OF_THE_LINE:
            bare += [f"{family.family}: {text}" for text in sentences if not any(re.search(f, text) for f in FACTS)]
    assert not bare, bullet_list(bare)
    assert set(OF_THE_LINE) <= {family.family for family in registry.SIGNATURES}


LOST = "nslookup: can't resolve 'job-master-{}': Name does not resolve"


@pytest.mark.parametrize(("tries", "retry"), [(1, True), (2, True), (3, False), (9, False)])
def test_a_launch_is_not_tried_again_where_its_program_tried_again_and_again(tries: int, retry: bool) -> None:
    found = diagnosed("start\n" + "".join(f"{LOST.format(number)}\n" for number in range(tries)))
    assert (found.family, found.retry) == ("rendezvous_failure", retry)


def test_the_same_complaint_of_many_ranks_is_one_try_of_each() -> None:
    found = diagnosed("".join(f"[rank{rank}]: {LOST.format(0)}\n" for rank in range(8)))
    assert (found.family, found.retry, len(found.ranks)) == ("rendezvous_failure", True, 8)
