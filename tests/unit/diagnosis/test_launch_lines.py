# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What launchers, MPI, XLA, uv and pyxis print where a launch fails: family, root line, and what is said."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.unit.diagnosis.test_facts import diagnosed

STEPS = "".join(f"step {number} loss 0.{number}\n" for number in range(1, 8))
MAIN = 'Traceback (most recent call last):\n  File "/code/fit.py", line 7, in <module>\n    go()\n'
EXITED = "srun: error: n1: task 9: Exited with exit code 1\n"
PREEMPTED = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***\n"
RULER = "-" * 70 + "\n"
ABORTED = f"{RULER}MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 3.\n{RULER}"
SIGKILL = (
    "E0101 10:00:00.1 140 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 1 "
    "(pid: 43) of binary: /x/python\n"
    'Traceback (most recent call last):\n  File "/x/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "Root Cause (first observed failure):\n  traceback : Signal 9 (SIGKILL) received by PID 43\n"
)
WATCHDOGS = "".join(
    f"[rank{rank}]:[E101 00:00:00.1 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=60000) ran for 60003 ms.\n"
    for rank in (2, 3)
)
LOADER = (
    'Traceback (most recent call last):\n  File "/code/fit.py", line 7, in <module>\n    batch = next(batches)\n'
    '  File "/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 701, in __next__\n'
    "    data = self._next_data()\nStopIteration\n"
)
XLA = (
    "XlaRuntimeError: INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error (run with NCCL_DEBUG=INFO "
    "for details). Last NCCL warning(error) log entry (may be unrelated) 'no route to n7'.\n"
)


class Case(NamedTuple):
    """A log, its family, a part of its root line, and words of what is said or advised."""

    log: str
    family: str
    root: str
    words: tuple[str, ...]


CASES = {
    "preempted, and the ranks exit with 1": Case(
        STEPS + PREEMPTED + EXITED, "preempted_or_cancelled", "DUE TO PREEMPTION", ("was preempted",)
    ),
    "torchrun names SIGKILL, watchdogs before": Case(
        WATCHDOGS + SIGKILL, "host_oom_killed", "exitcode: -9", ("signal 9",)
    ),
    "torchrun names SIGKILL, watchdogs after": Case(
        SIGKILL + WATCHDOGS, "host_oom_killed", "exitcode: -9", ("signal 9",)
    ),
    "Gloo's buffers time out": Case(
        MAIN + "RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv "
        "operation to complete\n",
        "collective_timeout",
        "unbound_buffer",
        ("GLOO_SOCKET_IFNAME", "interface"),
    ),
    "Gloo's pair ends without a reason": Case(
        MAIN + "RuntimeError: [/x/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n",
        "gloo_interface",
        "no error",
        ("interface",),
    ),
    "uv has no space": Case(
        "error: Failed to install: torch-2.1-cp311.whl (torch==2.1)\n"
        "  Caused by: failed to write to file `/x/y`: No space left on device (os error 28)\n",
        "disk_full",
        "Caused by",
        ("no space",),
    ),
    "uv has no space, in small letters": Case(
        "error: Failed to prepare distributions\n  Caused by: Failed to fetch wheel: torch==2.1\n"
        "  Caused by: no space left on device (os error 28)\n",
        "disk_full",
        "no space left",
        ("no space",),
    ),
    "uv cannot start a program": Case(
        "error: Failed to spawn: `torchrun`\n  Caused by: No such file or directory (os error 2)\n",
        "script_error",
        "Failed to spawn",
        ("torchrun", "environment.project"),
    ),
    "pyxis is missing": Case(
        "srun: unrecognized option '--container-image=/images/x.sqsh'\n",
        "sbatch_rejected",
        "--container-image",
        ("pyxis", "container.runtime"),
    ),
    "a loader has no further batch": Case(STEPS + LOADER, "data_error", "StopIteration", ("no further batch",)),
    "an error stack of MPICH": Case(
        STEPS + "Fatal error in PMPI_Bcast: Message truncated, error stack:\n"
        "PMPI_Bcast(1600)....: MPI_Bcast(buf=0x7f, count=4, MPI_INT, root=0, MPI_COMM_WORLD) failed\n",
        "mpi_call",
        "Fatal error in PMPI_Bcast",
        ("PMPI_Bcast", "Message truncated"),
    ),
    "an error stack of Intel MPI over OFI": Case(
        "Abort(6040) on node 1 (rank 1 in comm 0): Fatal error in PMPI_Recv: Other MPI error, error stack:\n"
        "MPIDI_OFI_handle_cq_error(1042): OFI poll failed (ofi_events.c:1042:MPIDI_OFI_handle_cq_error:Transport "
        "endpoint is not connected)\n",
        "mpi_call",
        "PMPI_Recv",
        ("PMPI_Recv",),
    ),
    "Hydra's exit code of a crash": Case(
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   EXIT CODE: 139\n", "crash", "139", ("crashed",)
    ),
    "Hydra's exit code of a kill": Case(
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   EXIT CODE: 137\n",
        "host_oom_killed",
        "137",
        ("signal 9",),
    ),
    "Intel's abort": Case(
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   KILLED BY SIGNAL: 6 (Aborted)\n",
        "crash",
        "SIGNAL: 6",
        ("crashed",),
    ),
    "the last words before MPI_Abort": Case(
        "reading the mesh\nthe mesh has 7 cells and not 8\n" + ABORTED, "exception", "7 cells", ("MPI_Abort",)
    ),
    "the words of every rank before MPI_Abort": Case(
        "the mesh has 7 cells and not 8\n" * 3 + "closing the files now\n" + ABORTED,
        "exception",
        "7 cells",
        ("MPI_Abort",),
    ),
    "the words before MPI_Abort of MPICH": Case(
        "the mesh has 7 cells and not 8\nAbort(3) on node 0 (rank 0 in comm 0): application called "
        "MPI_Abort(MPI_COMM_WORLD, 3) - process 0\n",
        "exception",
        "7 cells",
        ("MPI_Abort",),
    ),
    "NCCL below XLA": Case(MAIN + XLA, "nccl_network", "NCCL operation", ("no route to n7",)),
    "NCCL below XLA, of a full GPU": Case(
        MAIN
        + XLA.replace("unhandled system", "unhandled cuda").replace("no route to n7", "Cuda failure 'out of memory'"),
        "cuda_oom",
        "NCCL operation",
        ("GPU's memory",),
    ),
    "HBM is full": Case(
        MAIN + "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 7.1G of 7.0G hbm.\n",
        "cuda_oom",
        "memory space hbm",
        ("HBM",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_line_of_a_launch_is_understood(name: str) -> None:
    case = CASES[name]
    found = diagnosed(case.log)
    assert (found.family, case.root in (found.root.text if found.root else "")) == (case.family, True)
    for word in case.words:
        assert word in f"{found.what} {found.remedy}"


def test_an_end_by_mpi_abort_is_no_exception() -> None:
    assert "exception" not in diagnosed(CASES["the last words before MPI_Abort"].log).what
