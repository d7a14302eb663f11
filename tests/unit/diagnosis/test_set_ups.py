# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every failure that the five set-ups warn of: its family, its root line, and the remedy as options of the job spec."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from tests.repository import ROOT
from tests.unit.diagnosis.test_signatures import diagnosed

CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
ENDED = "srun: error: gpu02: task 8: Exited with exit code 1\n"
NOISE = (
    "/opt/venv/lib/python3.12/site-packages/x.py:9: UserWarning: expandable_segments not supported\n"
    "[W1122 10:00:00.1 AllocatorConfig.cpp:28] Warning: an option is deprecated\n"
)


def raised(exception: str, rank: int, frame: str = "train.py", function: str = "main") -> str:
    """The traceback of one rank, as torchrun and srun show it."""
    rows = [
        "Traceback (most recent call last):",
        f'  File "/code/{frame}", line 7, in {function}',
        "    go()",
        exception,
    ]
    return "".join(f"[rank{rank}]: {row}\n" for row in rows)


def waiting(rank: int) -> str:
    """What a rank prints that waited ten minutes for rank 0's NCCL id."""
    return (
        f"[rank{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0]\n"
        "... wait timeout after 600000ms\n"
        "This may indicate a possible application crash on rank 0\n"
    )


UNIQUE_ID = (
    "torch.distributed.DistBackendError: [{0}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] "
    "via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: "
    "/default_pg/0//cuda//0"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB"
GLOO = "[/x/third_party/gloo/gloo/transport/tcp/pair.cc:525] connect() timeout, remote=[10.31.0.12]:41234"
NUMPY = (
    "ValueError: Unable to avoid copy while creating an array as requested.\n"
    "If using `np.array(obj, copy=False)` replace it with `np.asarray(obj)`"
)


class Fixture(NamedTuple):
    """A log as one of the set-ups shows it. `root`: part of the root line; `remedy`: what the advice must name."""

    log: str
    family: str
    root: str
    remedy: tuple[str, ...]
    ranks: tuple[int, ...] = ()


FIXTURES = {
    "bridge: the cache of NeMo is not shared": Fixture(
        NOISE + raised("TypeError: 'NoneType' object is not an iterator", 8, "bridge/train.py", "train_step") + ENDED,
        "cache_not_shared",
        "'NoneType' object is not an iterator",
        ("caches", "NEMO_HOME", "shared"),
        (8,),
    ),
    "bridge: eight tasks each start torchrun": Fixture(
        raised(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
            "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            0,
        )
        + CHILD,
        "address_in_use",
        "EADDRINUSE",
        ("launcher.port", "launcher.kind: torchrun"),
    ),
    "bridge: ranks wait for rank 0's id, printed": Fixture(
        "".join(waiting(rank) for rank in range(8, 16)) + ENDED,
        "collective_timeout",
        "retrieving ncclUniqueId from [0]",
        ("rank 0", "fabric"),
    ),
    "bridge: only that a wait ended": Fixture(
        "starting\n... wait timeout after 600000ms\n" + ENDED,
        "collective_timeout",
        "wait timeout after 600000ms",
        ("rank 0",),
    ),
    "bridge: ranks wait for rank 0's id, raised": Fixture(
        "".join(raised(UNIQUE_ID.format(rank), rank) for rank in range(8, 16)) + CHILD + ENDED,
        "collective_timeout",
        "retrieving ncclUniqueId from [0]",
        ("rank 0", "command"),
        tuple(range(8, 16)),
    ),
    "bridge: the export of rank 0 needs a package": Fixture(
        raised(UNIQUE_ID.format(8), 8)
        + raised("ImportError: This modeling file requires packages: flash_attn", 0, "base.py", "save_artifacts")
        + waiting(9)
        + ENDED,
        "import_error",
        "ImportError: This modeling file",
        ("rank 0", "environment.extras", "timeout"),
        (0,),
    ),
    "bridge: rank 0 has no memory for the export": Fixture(
        raised(OOM, 0, "convert.py", "save_hf_weights") + "".join(waiting(rank) for rank in (8, 9)) + ENDED,
        "cuda_oom",
        "CUDA out of memory",
        ("resources.nodes", "parallelism.expert"),
        (0,),
    ),
    "bridge: experts do not fit": Fixture(
        NOISE
        + "".join(raised(OOM, rank) for rank in range(4))
        + "srun: error: gpu01: tasks 0-3: Exited with exit code 1\n",
        "cuda_oom",
        "CUDA out of memory",
        ("parallelism.expert", "resources.nodes"),
        (0, 1, 2, 3),
    ),
    "bridge: the image's megatron-core comes first": Fixture(
        raised("ModuleNotFoundError: No module named 'megatron.core.tensor_parallel'", 0) + ENDED,
        "import_error",
        "No module named 'megatron.core.tensor_parallel'",
        ("env.PYTHONPATH", "3rdparty/Megatron-LM"),
    ),
    "bridge: FP8 against BF16": Fixture(
        "lm_head.weight ok\nmodel.layers.0.mlp.experts.0.w1.weight FAIL\n"
        + raised("ValueError: Weight mismatch detected", 0, "roundtrip.py"),
        "tolerance",
        "ValueError: Weight mismatch detected",
        ("Expected", "FP8", "command"),
    ),
    "bridge: no WORLD_SIZE": Fixture(
        "This script must be launched with torchrun.\n" + ENDED,
        "env_not_set",
        "must be launched with torchrun",
        ("launcher.kind", "WORLD_SIZE"),
    ),
    "bridge: no account": Fixture(
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n",
        "sbatch_rejected",
        "Invalid account",
        ("resources.account", "resources.partition"),
    ),
    "bridge: no such partition": Fixture(
        "salloc: error: invalid partition specified: interactiv\n",
        "sbatch_rejected",
        "invalid partition",
        ("resources.partition", "cluster_info"),
    ),
    "bridge: the image has no uv": Fixture(
        "bash: line 1: uv: command not found\nsrun: error: gpu01: task 0: Exited with exit code 127\n",
        "script_error",
        "uv: command not found",
        ("environment",),
    ),
    "bridge: the container's own cache is full": Fixture(
        "error: failed to write to `/root/.cache/uv/wheels-v5`: No space left on device (os error 28)\n",
        "disk_full",
        "No space left on device",
        ("caches",),
    ),
    "bridge: killed for memory": Fixture(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: gpu01: task 0: Out Of Memory\n",
        "host_oom_killed",
        "oom_kill",
        ("resources.memory",),
    ),
    "bridge: ended at the time limit": Fixture(
        "slurmstepd: error: *** JOB 7 ON gpu01 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
        "srun: error: gpu02: tasks 8-15: Terminated\n",
        "time_limit",
        "DUE TO TIME LIMIT",
        ("resources.time",),
    ),
    "megatron-lm: the sizes do not multiply": Fixture(
        raised("AssertionError: world_size (8) is not divisible by 6", 0) + CHILD,
        "shape_or_divisibility",
        "not divisible",
        ("parallelism",),
    ),
    "megatron-lm: heads and tensor parallelism": Fixture(
        raised("AssertionError: number of attention heads (30) must be divisible by tensor parallel size 4", 0) + CHILD,
        "shape_or_divisibility",
        "attention heads (30)",
        ("parallelism",),
    ),
    "megatron-lm: the package is not in the environment": Fixture(
        raised("ModuleNotFoundError: No module named 'transformer_engine'", 3) + CHILD,
        "import_error",
        "transformer_engine",
        ("environment.project", "environment.extras"),
    ),
    "megatron-lm: connections to the device": Fixture(
        raised(
            "AssertionError: Using tensor model parallelism or context parallelism require setting the environment "
            "variable CUDA_DEVICE_MAX_CONNECTIONS to 1",
            0,
        ),
        "cuda_max_connections",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        ("parallelism",),
    ),
    "megatron-lm: NCCL fails without a traceback": Fixture(
        "gpu02:11:22 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\n" + ENDED,
        "nccl_network",
        "no socket interface found",
        ("fabric", "NCCL_SOCKET_IFNAME"),
    ),
    "megatron-lm: the head node's name": Fixture(
        raised(
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to "
            "connect to (gpu01, 29500).",
            8,
        ),
        "rendezvous_failure",
        "client socket has timed out",
        ("launcher.port", "launcher.rendezvous"),
    ),
    "kempnerforge: Gloo on the management network, raised": Fixture(
        raised(f"RuntimeError: {GLOO}", 4, "checkpoint.py", "save") + CHILD,
        "gloo_interface",
        "connect() timeout",
        ("GLOO_SOCKET_IFNAME", "fabric"),
        (4,),
    ),
    "kempnerforge: Gloo on the management network, printed": Fixture(
        f"[rank4]:[E1122 10:00:00.1 ProcessGroupGloo.cpp:144] {GLOO}\n" + ENDED,
        "gloo_interface",
        "connect() timeout",
        ("GLOO_SOCKET_IFNAME",),
        (4,),
    ),
    "kempnerforge: nothing but the end of a connection": Fixture(
        "connect() timeout, remote=[10.31.0.12]:41234\n" + ENDED,
        "gloo_interface",
        "connect() timeout",
        ("GLOO_SOCKET_IFNAME",),
    ),
    "kempnerforge: two ranks on one GPU": Fixture(
        "gpu01:11:22 [0] init.cc:800 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000\n",
        "duplicate_gpu",
        "Duplicate GPU detected",
        ("resources.gpus_per_node",),
    ),
    "kempnerforge: more ranks than GPUs": Fixture(
        raised("RuntimeError: CUDA error: invalid device ordinal", 5),
        "cuda_device",
        "invalid device ordinal",
        ("resources.gpus_per_node",),
        (5,),
    ),
    "kempnerforge: the time limit comes before the checkpoint": Fixture(
        "slurmstepd: error: *** STEP 7.0 ON gpu01 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n",
        "time_limit",
        "DUE TO TIME LIMIT",
        ("checkpoint",),
    ),
    "cpu lab: numpy 2 with an old datasets": Fixture(
        raised(NUMPY.split("\n", maxsplit=1)[0], 1, "site-packages/datasets/formatting/np_formatter.py", "_tensorize")
        + CHILD,
        "numpy_abi",
        "Unable to avoid copy",
        ("numpy<2", "environment.project"),
        (1,),
    ),
    "cpu lab: the port is taken": Fixture(
        raised("OSError: [Errno 98] Address already in use", 0),
        "address_in_use",
        "Address already in use",
        ("launcher.port",),
    ),
    "cpu lab: the head node cannot be resolved": Fixture(
        "[W1122 10:00:00.1 socket.cpp:697] [c10d] The IPv6 network addresses of (hpc07, 29500) cannot be retrieved "
        "(gai error: -2 - Name or service not known).\n"
        + raised(
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to "
            "connect to (hpc07, 29500).",
            2,
        ),
        "rendezvous_failure",
        "client socket has timed out",
        ("launcher",),
    ),
    "cpu lab: no network for the tokenizer": Fixture(
        raised(
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the "
            "cached files.",
            0,
        ),
        "offline",
        "couldn't connect",
        ("tokenizer",),
    ),
    "cpu lab: the model cannot be saved": Fixture(
        raised("PermissionError: [Errno 13] Permission denied: './tiny_out'", 0),
        "permission_denied",
        "Permission denied",
        ("checkpoint.dir", "container.mounts"),
        (0,),
    ),
    "enroot: the image is missing": Fixture(
        "slurmstepd: error: pyxis: container start failed with error code: 1\n"
        "slurmstepd: error: pyxis: printing enroot log file:\n"
        "slurmstepd: error: pyxis:     [ERROR] No such file or directory: /containers/pytorch.sqsh\n",
        "container_start",
        "pyxis",
        ("container.image", "shared storage"),
    ),
    "enroot: no InfiniBand on a node": Fixture(
        "gpu03:1:2 [0] transport/net_ib.cc:1000 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<4242> with "
        "status=12 opcode=0 len=0 vendor err 129\n",
        "nccl_network",
        "Got completion",
        ("fabric", "resources.exclude"),
    ),
}


@pytest.mark.parametrize("name", FIXTURES)
def test_a_failure_of_a_set_up_is_recognised(name: str, tmp_path: Path) -> None:
    fixture = FIXTURES[name]
    (tmp_path / "job.log").write_text(fixture.log)
    scanned = scan.scan([str(tmp_path / "job.log")])
    diagnosis = advice.diagnosis_of(cause.find_cause(scanned.logs), scanned)
    assert diagnosis.family == fixture.family, diagnosis.root
    assert diagnosis.root is not None and fixture.root in diagnosis.root.text
    missing = [word for word in fixture.remedy if word not in diagnosis.remedy]
    assert not missing, diagnosis.remedy
    if fixture.ranks:
        assert tuple(diagnosis.ranks) == fixture.ranks


def test_the_page_lists_the_family_of_every_failure() -> None:
    page = Path(ROOT, "docs/set-ups.md").read_text()
    assert {fixture.family for fixture in FIXTURES.values() if f"`{fixture.family}`" not in page} == set()


STEPS = "".join(f"step {step}/40 loss 2.1\n" for step in range(1, 41))


@pytest.mark.parametrize(
    "text",
    [
        "WARNING: must be launched with torchrun to use several GPUs\n",
        "Runs on several GPUs must be launched with torchrun\n" + STEPS,
    ],
)
def test_a_hint_about_launchers_is_no_failure(text: str) -> None:
    assert diagnosed(text).family in (cause.HEALTHY, cause.UNKNOWN)
