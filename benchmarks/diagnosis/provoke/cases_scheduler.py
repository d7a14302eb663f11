# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs ended by Slurm, the kernel or a person: memory, time, preemption, nodes, refusals, signals."""

from __future__ import annotations

from typing import Any

from benchmarks.diagnosis.provoke.case import Case, trainer

_EATS = """import sys
print("reading the index", flush=True)
held = [bytearray(64 << 20) for _ in range(40)]
print(len(held))
"""
_SLOW = "time.sleep(0.5)"
_HANGS = "if step == 5:\n    time.sleep(900)"


def cancel(ground: Any, job: str, _nodes: list[str]) -> None:
    ground.head(["scancel", job])


def cancel_step(ground: Any, job: str, _nodes: list[str]) -> None:
    ground.head(["scancel", f"{job}.0"])


def preempt(ground: Any, _job: str, nodes: list[str]) -> None:
    """Start a job in a partition of higher priority, which takes the nodes."""
    ground.head(
        [
            "sbatch",
            "--partition=urgent",
            f"--nodes={len(nodes)}",
            f"--nodelist={','.join(nodes)}",
            "--exclusive",
            "--output=/dev/null",
            "--wrap",
            "sleep 3",
        ]
    )


def requeue(ground: Any, job: str, _nodes: list[str]) -> None:
    ground.head(["scontrol", "requeue", job])


def requeue_and_cancel(ground: Any, job: str, _nodes: list[str]) -> None:
    ground.head(["scontrol", "requeue", job])
    ground.head(["scancel", job])


def power_off(ground: Any, _job: str, nodes: list[str]) -> None:
    ground.faults.power_off(nodes[-1])


def mark_down(ground: Any, _job: str, nodes: list[str]) -> None:
    ground.head(["scontrol", "update", f"nodename={nodes[-1]}", "state=down", "reason=gpu fell off"])


def kill_rank(number: int) -> str:
    return f"if step == 5 and rank == 1:\n    import signal\n    os.kill(os.getpid(), {number})"


# A table: one case per row, with its program.
# fmt: off
CASES = (
    Case("oom-batch", "host_oom_killed", r"oom[-_]kill", "$PYTHON train_index.py\n", "batch", site=True,
         header=("--mem=300M",), files={"train_index.py": _EATS}, alike=r"Killed"),
    Case("oom-step", "host_oom_killed", r"oom[-_]kill|Out Of Memory", _EATS, "srun", ranks=2, site=True,
         header=("--mem=300M",), alike=r"Out Of Memory|oom[-_]kill"),
    Case("oom-label", "host_oom_killed", r"oom[-_]kill|Out Of Memory", _EATS, "label", nodes=2, ranks=1, site=True,
         header=("--mem=300M",), alike=r"Out Of Memory|oom[-_]kill"),
    Case("oom-torchrun", "host_oom_killed", r"oom[-_]kill", trainer(
             "if step == 6 and rank == 1:\n    held = [bytearray(64 << 20) for _ in range(90)]"),
         "torchrun", nodes=1, ranks=2, site=True, header=("--mem=3000M",), alike=r"exitcode\s*: -9|Signal 9"),
    Case("memory-error", "host_oom_killed", r"^MemoryError", _EATS, "srun", ranks=1,
         before="ulimit -v 800000"),
    Case("memory-numpy", "host_oom_killed", r"_ArrayMemoryError|MemoryError: Unable", """import numpy
print("building the index", flush=True)
table = numpy.zeros((1 << 18, 1 << 16), dtype=numpy.float32)
""", "label", ranks=2, before="ulimit -v 3000000", env={"OPENBLAS_NUM_THREADS": "1"}),
    Case("memory-torch", "host_oom_killed", r"DefaultCPUAllocator", trainer(
            "if step == 4:\n    cache = torch.empty(1 << 40)"), "torchrun", nodes=1, ranks=2),
    Case("time-limit", "time_limit", r"DUE TO TIME LIMIT", trainer(_SLOW, steps=900), "srun", header=("--time=1",)),
    Case("time-limit-hang", "time_limit", r"DUE TO TIME LIMIT", trainer(_HANGS, timeout=900), "torchrun",
         header=("--time=1",)),
    Case("cancelled", "preempted_or_cancelled", r"CANCELLED AT", trainer(_SLOW, steps=900), "srun", nodes=2, ranks=1,
         act=cancel, when="step 4/", alike=r"CANCELLED AT"),
    Case("cancelled-torchrun", "preempted_or_cancelled", r"CANCELLED AT", trainer(_SLOW, steps=900), "torchrun",
         act=cancel, when="step 4/", alike=r"CANCELLED AT|SignalException|got signal: 15"),
    Case("step-cancelled", "preempted_or_cancelled", r"CANCELLED AT", trainer(_SLOW, steps=900), "label",
         act=cancel_step, when="step 4/", alike=r"CANCELLED AT"),
    Case("preempted", "preempted_or_cancelled", r"DUE TO PREEMPTION|CANCELLED AT", trainer(_SLOW, steps=900), "srun", nodes=2,
         ranks=1, header=("--no-requeue",), act=preempt, when="step 4/", alike=r"CANCELLED AT"),
    Case("requeued-then-cancelled", "preempted_or_cancelled", r"JOB REQUEUE|CANCELLED AT", trainer(_SLOW, steps=900),
         "srun", header=("--requeue",), act=requeue_and_cancel, when="step 4/", alike=r"CANCELLED AT"),
    Case("node-dead", "node_failure", r"[Nn]ode failure|NODE FAIL|Communication connection failure",
         trainer(_SLOW, steps=900, timeout=900), "srun", nodes=3, ranks=1, header=("--no-requeue",), act=power_off,
         when="step 4/", alike=r"[Nn]ode failure|NODE FAIL|ommunication connection failure|due to node failure"),
    Case("node-dead-torchrun", "node_failure", r"[Nn]ode failure|NODE FAIL|Communication connection failure",
         trainer(_SLOW, steps=900, timeout=900), "torchrun", nodes=2, ranks=1, header=("--no-requeue",),
         act=power_off, when="step 4/", alike=r"[Nn]ode failure|NODE FAIL|ommunication connection failure"),
    Case("node-down", "node_failure", r"NODE FAILURE|[Nn]ode failure", trainer(_SLOW, steps=900), "label", nodes=2,
         ranks=1, header=("--no-requeue",), act=mark_down, when="step 4/", alike=r"NODE FAILURE|[Nn]ode failure"),
    Case("killed-rank", "host_oom_killed", r"task 1: Killed", trainer(kill_rank(9)), "srun", also=("crash",),
         alike="Killed"),
    Case("killed-torchrun", "host_oom_killed", r"exitcode: -9", trainer(kill_rank(9)), "torchrun",
         also=("crash",), alike=r"exitcode\s*: -9|Signal 9"),
    Case("segfault", "crash", r"Segmentation fault", trainer(
            "if step == 5 and rank == 1:\n    import ctypes\n    ctypes.string_at(0)"), "srun"),
    Case("segfault-torchrun", "crash", r"exitcode: -11", trainer(
            "if step == 5 and rank == 1:\n    import ctypes\n    ctypes.string_at(0)"), "torchrun", nodes=2, ranks=1,
         alike=r"exitcode\s*: -11|Signal 11|SIGSEGV"),
    Case("segfault-faulthandler", "crash", r"Fatal Python error: Segmentation fault", trainer(
            "if step == 5 and rank == 1:\n    import ctypes\n    ctypes.string_at(0)"), "label", nodes=2, ranks=1,
         env={"PYTHONFAULTHANDLER": "1"}, alike=r"Segmentation fault"),
    Case("bus-error", "crash", r"Bus error", trainer("""if step == 5 and rank == 0:
    import mmap
    with open("cache.bin", "w+b") as stream:
        stream.truncate(8192)
        view = mmap.mmap(stream.fileno(), 8192)
        stream.truncate(0)
        stream.flush()
        print(view[4096])"""), "srun"),
    Case("abort-cpp", "crash", r"terminate called after throwing", "g++ -o loader loader.cc && srun --label -n 2 ./loader\n",
         "batch", files={"loader.cc": "#include <stdexcept>\n#include <cstdio>\nint main() {\n  puts(\"opening shards\");"
                                     " fflush(stdout);\n  throw std::out_of_range(\"vector::_M_range_check: __n (which is"
                                     " 8) >= this->size() (which is 8)\");\n}\n"}, alike=r"Aborted|what\(\)"),
    Case("double-free", "crash", r"double free", "gcc -O0 -w -o worker worker.c && srun ./worker\n", "batch",
         files={"worker.c": "#include <stdlib.h>\nint main() { char *p = malloc(64); free(p); free(p); return 0; }\n"},
         alike="Aborted"),
    Case("bad-partition", "sbatch_rejected", r"[Ii]nvalid partition", "sbatch --partition=gpu --wrap true", "head",
         alike="Batch job submission failed"),
    Case("bad-time", "sbatch_rejected", r"Invalid --time", "sbatch --partition=short --time=never --nodes=1 --wrap true", "head", alike="submission failed|Invalid --time"),
    Case("no-account", "sbatch_rejected", r"this site charges every job", "sbatch --nodes=1 --wrap true", "head", site=True,
         alike="submission failed"),
    Case("bad-account", "sbatch_rejected", r"Invalid account", "sbatch --account=nobody --nodes=1 --wrap true", "head",
         site=True, alike="submission failed"),
    Case("too-many-nodes", "sbatch_rejected", r"srun: error: (?:Only allocated|Requested|Unable to create)",
         "echo starting\nsrun --nodes=4 --ntasks=4 hostname\n", "batch", alike="srun: error"),
    Case("more-tasks-than-cpus", "sbatch_rejected", r"srun: error: ", "srun --ntasks=2 --cpus-per-task=30 hostname\n",
         "batch", alike="srun: error"),
    Case("srun-container-option", "container_start", r"unrecognized option '--container-image",
         "srun --container-image=nvcr.io/nvidia/pytorch:25.01-py3 python train.py\n", "batch", also=("sbatch_rejected",)),
    Case("mpi-pmix", "sbatch_rejected", r"mpi|MPI", "srun --mpi=pmix_v9 -n 2 hostname\n", "batch", alike="srun: error"),
    Case("no-chdir", "file_missing", r"couldn't chdir", "echo started in $PWD\nls data.txt\n", "batch",
         header=("--chdir=/shared/provoke/nowhere",), alike="can't cd|No such file"),
)
