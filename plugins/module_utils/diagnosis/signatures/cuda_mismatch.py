# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver, CUDA, NCCL, GPU architecture and binaries are not compatible."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="cuda_mismatch",
    what="driver, CUDA, NCCL or GPU architecture do not fit the binaries",
    remedy=(
        "Take a build for this GPU and driver: another `container.image`, `setup.modules`, or torch index "
        "in the project; `resources.gpu_type` chooses the GPU."
    ),
    look=(
        "Compare the versions of the driver (`nvidia-smi`), of CUDA and of torch on that node, and the GPU's "
        "compute capability."
    ),
    matches=(
        says(
            "no kernel image is available for execution|kernel image is invalid|CUDA driver version is insufficient|"
            "driver on your system is too old|unsupported toolchain|"
            "forward compatibility was attempted on non supported HW|"
            "not implemented for CUDA below version|libnvrtc\\S*: cannot open|"
            "(?:open|load|find|dlopen)(?:ing)? .{0,40}libnvrtc|undefined symbol: (?:_*nvJitLink|cu(?:blas|"
            r"dnn|sparse|solver|fft)|nccl)\S*|nvrtc: error: invalid value for --gpu-arch|"
            r"NCCL WARN .* is neither AF_INET|NCCL version mismatch|mismatched NCCL|Mismatched? (?:NCCL|"
            "CUDA) version",
            "kernel image is",
            "no kernel image",
            "driver version is insufficient",
            "system is too old",
            "unsupported toolchain",
            "forward compatibility was",
            "not implemented for CUDA below",
            "undefined symbol",
            "is neither AF_INET",
            "NCCL version",
            "ismatched",
            "libnvrtc",
            "nvrtc: error",
            strength=CAUSE + 1,
        ),
        raises(
            "CUDAMismatchException|does not match the version torch was compiled|"
            "detected CUDA version .*mismatches|only supports? (?:Ampere|Hopper|Turing|Volta|Ada|"
            "Blackwell)|(?:requires?|needs?) (?:a )?(?:GPU|device)s? with compute capability|"
            "[Cc]ompute capability|GPU arch|Torch not compiled with CUDA enabled|lib(?:cuda|cudart|cudnn|"
            r"cublas|nccl|nvrtc|cusparse|cufft|nvJitLink)\S*\.so|CUDNN_STATUS_(?:NOT_INITIALIZED|VERSION|"
            "SUBLIBRARY)|[Ff]ailed to initialize NVML: Driver/library version mismatch|"
            "CUDA_HOME (?:environment variable )?is not set|CUDA_HOME does not exist|[Cc]annot find CUDA_HOME|"
            "CUDA_ERROR_(?:NO_BINARY_FOR_GPU|INVALID_PTX|INVALID_IMAGE|UNSUPPORTED_PTX_VERSION|SYSTEM_DRIVER_MISMATCH)|"
            "cudaError(?:NoKernelImage|InsufficientDriver|UnsupportedPtx|InvalidPtx|NoBinary|SystemDriverMismatch)"
        ),
        raises(
            r"too old to be supported by|cuDNN version incompatib|not supported in this architecture|"
            r"CUDA (?:version )?mismatch|"
            r"(?<!also )requires? (?:CUDA|cuda|cuDNN|NCCL|driver) (?:version )?(?:>=|at least|\d)|"
            r"[Uu]nsupported (?:gpu|GPU) arch|sm_\d+ is not compatible|"
            r"(?:does not|doesn't) support (?:CUDA )?(?:sm_?\d+|capability)|PTX|ptxas",
            strength=CAUSE + 2,
        ),
        says(r"Failed to initialize NVML: Driver/library version mismatch", "initialize NVML", strength=WEAK + 6),
        says(
            r"(?:HIP|CUDA) error: invalid device function|Cuda failure (?:\d+ )?'invalid device function",
            "invalid device function",
            strength=CAUSE + 2,
        ),
        raises(r"not supported on CUDA arch|[Uu]nsupported (?:CUDA|GPU) (?:arch|capab)", strength=CAUSE + 2),
        raises(r"Failed to find nvcc|Distributed package doesn't have \w+ built in"),
        raises(r"requires? (?:an? )?(?:NVIDIA )?GPU with at least (?:Ampere|Hopper|Turing|Volta|Ada|Blackwell)"),
    ),
    examples=(
        "RuntimeError: CUDA error: device kernel image is invalid",
        "nvrtc: error: invalid value for --gpu-architecture (-arch)",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "AssertionError: Torch not compiled with CUDA enabled",
    ),
)
