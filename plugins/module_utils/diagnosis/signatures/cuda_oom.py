# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of a GPU is full; PyTorch, JAX, NCCL and the CUDA runtime each use their own wording."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    LIMIT,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="cuda_oom",
    what="the GPU's memory is full",
    remedy=(
        "Less memory a GPU: a smaller micro batch in `command`, activation checkpointing, or more GPUs to "
        "share the state (`resources.nodes`, `parallelism.tensor`, `parallelism.pipeline`, "
        "`parallelism.expert`). `env: {PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True}` helps where "
        "much is reserved but unallocated. If the message names another process, or this one has allocated much less "
        "than the capacity, the GPU was not free: `resources.exclusive: true`, and a GPU of its own for each rank "
        "(LOCAL_RANK)."
    ),
    look="See how much memory the GPU had and who used it: the message and `monitor.gpu` show it.",
    matches=(
        raises(
            "[Rr]an out of memory in memory space hbm|Exceeded hbm capacity|"
            r"Attempting to (?:reserve|allocate) \S+ at the bottom of memory",
            strength=CAUSE + 2,
            what="the accelerator's memory (HBM) is full",
        ),
        says("^out of memory$", "out of memory", strength=WEAK + 6),
        # A program may print it, and go on with less.
        says(
            "(?:CUDA|HIP|XPU|MPS backend|"
            r"NPU) out of memory\.? ?\(?Tried to allocate (?P<size>[\d.]+ \w+)?|(?:CUDA|HIP|NPU) out of memory",
            "out of memory. Tried to allocate",
            "CUDA out of memory",
            "HIP out of memory",
            "NPU out of memory",
            "backend out of memory",
            strength=LIMIT - 1,
        ),
        raises(
            r"(?:CUDA|HIP|XPU|NPU|MPS backend) out of memory(?:\.? ?\(?Tried to allocate (?P<size>[\d.]+ \w+)?)?",
            strength=CAUSE,
        ),
        says(
            r"(?:CUDA|HIP)(?: runtime)? (?:API )?error:? (?:2 )?:?[('\"]?out of memory|(?:Cuda|"
            r"HIP) failure (?:2 )?\'out of memory\'",
            "error: out of memory",
            "error 2",
            "failure 'out of memory",
            "failure 2 'out of memory",
        ),
        says(r"Failed to CUDA (?:calloc|malloc|host alloc)\w*", "Failed to CUDA "),
        says("CU(?:BLAS|DNN|SOLVER|FFT)_STATUS_ALLOC_FAILED", "_STATUS_ALLOC_FAILED"),
        raises(
            r"RESOURCE_EXHAUSTED: .*(?:[Oo]ut of memory|[Aa]llocat)|CUDA_ERROR_OUT_OF_MEMORY|"
            r"cudaErrorMemoryAllocation|CUDA error\(2\)|"
            r"(?<!lang\.)\bOutOfMemoryError\b|OOM when allocating tensor"
        ),
        raises("No available memory for the cache blocks"),
        raises(
            r"(?:CUDA|HIP)(?: driver)? error: out of memory|Triton Error \[(?:CUDA|HIP)\]: out of memory|"
            "cupy.*Out of memory allocating|ResourceExhaustedError",
        ),
        raises(
            r"[Ff]ree memory on device .*less than desired GPU memory",
            what="the GPU has less memory free than the server takes at its start",
            remedy=(
                "Another process uses the GPU: `monitor.gpu` shows how much, `resources.exclusive: true` keeps others "
                "away. Else let the server take less (vLLM: `--gpu-memory-utilization` in `command`)."
            ),
        ),
        raises(
            "larger than the available KV cache memory|cannot fit in the available KV cache",
        ),
        raises("larger than the maximum number of tokens that can be stored in KV cache|Out of memory allocating"),
        # More than the same class says of the host.
        raises(r"MemoryError: .*\b(?:GPU|device|CUDA) memory\b", strength=CAUSE + 1),
        raises("Failed to allocate (?:GPU|device|CUDA) memory|cudaMalloc (?:retry )?failed: out of memory"),
        # RAPIDS' memory manager.
        raises(r"std::bad_alloc: (?:out_of_memory: )?CUDA error", strength=CAUSE + 1),
        says(r"std::bad_alloc: (?:out_of_memory: )?CUDA error", "std::bad_alloc: ", strength=WEAK + 6),
        # Paddle and MindSpore write it below the exception.
        says(
            r"Out of memory error on GPU \d|Malloc for kernel (?:output|workspace) failed, Memory isn't enough|"
            r"Out of Memory!!! Request memory size|\bcudaMalloc\w*(?:\([^)]*\))? failed: out of memory|"
            "THCudaCheck FAIL .*out of memory|EXCEPTION .*CUDA OOM|Out of GPU memory trying to allocate|"
            "BFCArena.*Failed to allocate memory for requested buffer",
            "Out of memory error on",
            "Malloc for kernel",
            "Out of Memory!!!",
            "failed: out of memory",
            "THCudaCheck FAIL",
            "CUDA OOM",
            "Out of GPU memory",
            "BFCArena",
        ),
    ),
    examples=(
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 7.1G of 7.0G hbm.",
        "MemoryError: Error allocating 5310 bytes of device memory (out of memory).",
        "NPU out of memory. NPUWorkspaceAllocator tried to allocate 216.00 MiB",
        "Error: CUDA error 2 'out of memory' - a.cu:38: cudaMalloc(&p, n)",
        "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 8",
        "ERROR: LoadError: Out of GPU memory trying to allocate 8 MiB",
        "cudaMallocAsync(size=8) failed: out of memory",
        "mxnet.base.MXNetError: cudaMalloc retry failed: out of memory",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: no memory",
        "Out of memory error on GPU 0. Cannot allocate 8MB memory on GPU 0",
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capac"
            "ity of 79.10 GiB"
        ),
        "RuntimeError: CUDA error: out of memory",
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 8 bytes) at: rmm/mr/cuda.hpp",
        "Failed to CUDA calloc async 1024 bytes",
        "node1:11:22 [0] include/alloc.h:99 NCCL WARN Cuda failure 2 'out of memory'",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 123 bytes."),
    ),
)
