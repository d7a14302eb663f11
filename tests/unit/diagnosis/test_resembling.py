# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wordings that resemble those of another cause: the family, what is said, what helps, and whether another try does."""

from __future__ import annotations

import pytest

from tests.unit.diagnosis.test_facts import diagnosed
from tests.unit.diagnosis.test_signatures import TRACEBACK

NCCL, MPI = "n1:4:5 [0] NCCL WARN", "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Terminated (signal 15)"
NO_TABLE = TRACEBACK.format("pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays")
OPENED = TRACEBACK.format("RuntimeError: unable to open shared memory object </torch_4_2> in read-write mode")
PADDLE = 'ImportError: NOTE: You may need to run "export LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH"\n\
/lib64/libc.so.6: version `GLIBC_2.14\' not found (required by /x/core.so)'


@pytest.mark.parametrize(
    ("text", "family", "what", "remedy", "retry"),
    [
        # Slurm's daemons, and what srun starts.
        ("srun: error: Task launch for 4.0 failed on node n1: Job prolog failed",
         "node_failure", "prolog", "exclude", True),
        ("srun: error: Task launch for 4.0 failed on node n1: Job credential expired",
         "sbatch_rejected", "credential", "munge", True),
        ("srun: error: slurm_receive_msgs: [[n1]:6818] failed: Socket timed out on send",
         "sbatch_rejected", "answer", "daemon", True),
        ("slurmstepd: error: execve(): torchrun: No such file or directory",
         "script_error", "did not find", "PATH", False),
        ("slurmstepd: error: execve(): fit.sh: Permission denied", "permission_denied", "executed", "chmod", False),
        ("slurmstepd: error: execve(): /w/fit.sh: Permission denied", "permission_denied", "executed", "chmod", False),
        ("FATAL:   exec /opt/fit.sh failed: permission denied", "permission_denied", "executed", "chmod", False),
        # The GPUs of one node.
        (f"{NCCL} failed to open CUDA IPC handle : 217 peer access is not supported",
         "cuda_device", "two GPUs", "NCCL_P2P", False),
        ("E x/cuda_dnn.cc:439] \n\nCould not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
         "cuda_device", "cuDNN", "versions", False),
        (TRACEBACK.format("XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed."),
         "cuda_device", "cuDNN", "versions", False),
        (f"{NCCL} Cuda failure 'initialization error'", "cuda_device", "could not start", "forked", False),
        ("  (0) Failed precondition: The TPU system has not been initialized.", "cuda_device", "TPU", "again", True),
        ("hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
         "cuda_mismatch", "no code", "gfx", False),
        ("Attempting to reserve 3.95G at the bottom of memory. That was not possible.",
         "cuda_oom", "HBM", "batch", False),
        ("E0101 00:00:00.1 4 x.cc:3] Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while",
         "cuda_oom", "full", "batch", False),
        (TRACEBACK.format("RuntimeError: NCCL error: invalid usage (run with x)"),
         "duplicate_gpu", "two ranks", "LOCAL_RANK", False),
        # Libraries.
        ("./fit: error while loading shared libraries: libmpi.so.40: cannot open",
         "import_error", "library could not", "no Python", False),
        (TRACEBACK.format("ImportError: libGL.so.1: cannot open shared object file"),
         "import_error", "libGL.so.1", "no Python", False),
        (TRACEBACK.format(PADDLE), "abi_conflict", "not loaded", "last line", False),
        (NO_TABLE, "data_error", "too large", "batch_size", False),
        # Connections: who refuses was reached, and a broken one follows from its other end.
        (TRACEBACK.format("RuntimeError: [x/gloo/pair.cc:7] connect [10.0.0.2]:4: Connection refused"),
         "gloo_interface", "listened", "new_group", True),
        (TRACEBACK.format("RuntimeError: Gloo connectFullMesh failed with [x/gloo/pair.h:3] Connect timeout"),
         "gloo_interface", "in time", "firewall", True),
        (TRACEBACK.format("RuntimeError: Gloo connectFullMesh failed with [x/pair.cc:1] no error"),
         "gloo_interface", "interface", "IFNAME", False),
        (f"{NCCL} Net : Call to recv from 10.0.0.2<4> failed : Broken pipe", "peer_lost", "went away", "", True),
        (TRACEBACK.format("DistBackendError: x, but store->get('0') got error: Connection reset by peer"),
         "peer_lost", "rank 0", "rank 0", True),
        (TRACEBACK.format("Exception: WorkerProc initialization failed due to an exception in a background process."),
         "peer_lost", "worker", "", False),
        ("[E1 x.cpp:7] Received a dump signal due to a collective timeout from  rank 13 and we will try",
         "collective_timeout", "rank 13", "rank 13", True),
        (f"{NCCL} Call to ibv_create_cq failed", "nccl_network", "refused a queue", "ulimit -l", False),
        (f"{NCCL} Call to ibv_create_qp failed", "nccl_network", "refused a queue", "ulimit -l", False),
        (f"{NCCL} NET/IB : Got completion from peer 10.0.0.1<4> with error 4, opcode 1, len 7",
         "nccl_network", "memory", "peermem", False),
        (f"{NCCL} NET/IB : Got completion from peer 10.0.0.1<4> with error 12, opcode 1",
         "nccl_network", "network", "fabric", True),
        (f"{NCCL} NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
         "nccl_network", "network", "fabric", False),
        # The first complaint is not the one that explains the others.
        (OPENED, "open_files", "open files", "ulimit -n", False),
        (f"=   EXIT CODE: 134\n{MPI}", "crash", "crashed", "", True),
        ("terminate called after throwing an instance of 'std::runtime_error'\n  what():  NCCL error: internal error",
         "nccl_network", "internal error", "warnings", True),
        ("bash: /opt/mpi/bin/orted: No such file or directory\nORTE was unable to reliably start one or more daemons.",
         "script_error", "daemon", "--prefix", False),
        # MPI.
        ("It looks like MPI runtime init failed for some reason; your parallel process is",
         "rendezvous_failure", "MPI", "mpi=list", False),
        ("*** The MPI_Comm_rank() function was called before MPI_INIT was invoked.",
         "mpi_call", "MPI_Comm_rank before", "mistake", False),
    ],
)  # fmt: skip
def test_a_wording_that_others_resemble_has_its_own_cause_and_remedy(
    text: str, family: str, what: str, remedy: str, retry: bool
) -> None:
    found = diagnosed(f"start\n{text}\n")
    assert (found.family, found.retry, what in found.what, remedy in found.remedy) == (family, retry, True, True), found
