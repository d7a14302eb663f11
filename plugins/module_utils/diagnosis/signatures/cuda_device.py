# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU is lost, broken or not visible, or was used incorrectly."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    WEAK,
    Signature,
    raises,
    says,
)

_FEWER = (
    "The rank asks for a GPU that it does not see: compare `resources.gpus_per_node` with the processes that the "
    "program starts on a node, set no `CUDA_VISIBLE_DEVICES` in `env`, and let each rank use the device of its "
    "LOCAL_RANK."
)
_NONE = (
    "The rank sees no GPU: `resources.gpus_per_node`, no `CUDA_VISIBLE_DEVICES` in `env`, and a build of torch (or "
    "jax) with CUDA in `environment.project` or `container.image`. A program that need not use one has an argument for "
    "it."
)
_KERNEL = (
    "Mostly a kernel reads outside of its memory: `env.CUDA_LAUNCH_BLOCKING: 1` shows which operation. Only if one "
    "node alone fails so again, exclude it: `resources.exclude`."
)

_FAULT = "an operation on the GPU failed"

SIGNATURE = Signature(
    family="cuda_device",
    what="a GPU is lost, broken or not visible",
    remedy=(
        "If it happens on the same node again, exclude the node: `resources.exclude`. No device at all: "
        "`resources.gpus_per_node`, and no `CUDA_VISIBLE_DEVICES` in `env`."
    ),
    look=(
        "Compare `nvidia-smi -L` and CUDA_VISIBLE_DEVICES on that node with what the rank asked for; `dmesg` "
        "shows an Xid if the GPU is broken."
    ),
    matches=(
        # The kernel does not write into the log of a rank: what a program prints there is no fact about a node.
        says(
            r"NVRM: Xid|\bXid \(PCI",
            "NVRM: Xid",
            "Xid (PCI",
            strength=CAUSE,
            what="a program printed a message of the kernel about a GPU",
            remedy=(
                "Compare it with `dmesg` on that node, which only the kernel writes. If it is there, exclude the node: "
                "`resources.exclude`."
            ),
        ),
        says(
            r"[Uu]ncorrectable (?:ECC|NVLink)(?! errors?:? *0\b)|GPU (?:is lost|has fallen off the bus)|double bit ECC",
            "ncorrectable",
            "is lost",
            "fallen off the bus",
            "double bit ECC",
            strength=CAUSE,
        ),
        says(
            r"CUDA error\((?:7\d\d|46|100|999)\), |"
            "CUDA error: (?:unknown error|"
            "initialization error|all CUDA-capable devices are busy|"
            "system not yet initialized|hardware stack error|mapping of buffer|"
            "driver shutting down|uncorrectable)|"
            r"Cuda failure (?:\d+ )?\'(?!out of memory|driver shutting)",
            "CUDA error",
            "Cuda failure",
        ),
        says(
            r"CUDA error: (?:an illegal (?:memory access|instruction)|unspecified launch failure|misaligned address)|"
            r"CU(?:BLAS|DNN)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)",
            "_STATUS_",
            "CUDA error",
            strength=RAISED + 3,
            remedy=_KERNEL,
            what=_FAULT,
        ),
        says(
            r"\bCUDA_ERROR_(?:ILLEGAL_ADDRESS|LAUNCH_FAILED|MISALIGNED_ADDRESS)\b|Memory access fault by GPU node",
            "CUDA_ERROR_",
            "Memory access fault by",
            strength=RAISED + 3,
            remedy=_KERNEL,
            what=_FAULT,
        ),
        says(
            "Set visible device failed, invalid device|NPU function error",
            "invalid device",
            "NPU function",
            strength=WEAK + 5,
        ),
        says(
            r"The TPU is already in use by",
            "TPU is already in use",
            strength=CAUSE + 2,
            what="another process uses the TPU",
            remedy="End the process that the line names, or start one process of the program on a node.",
        ),
        says(
            r"CUDA error: (?:invalid device ordinal|no CUDA-capable device)|Invalid CUDAPlace\(",
            "CUDA error",
            "CUDAPlace(",
            remedy=_FEWER,
        ),
        raises(
            r"CUDA_ERROR_(?:ILLEGAL|LAUNCH|MISALIGNED|INVALID_(?:VALUE|HANDLE|CONTEXT))|"
            r"cudaError(?:Illegal|Launch|Misaligned|InvalidValue|InvalidConfiguration|InvalidResourceHandle)",
            strength=RAISED + 3,
            remedy=_KERNEL,
            what=_FAULT,
        ),
        raises(
            "support bf16/gpu",
            what="no GPU that computes in bf16 is visible",
            remedy=(
                "bf16 needs an Ampere GPU or a newer one: fp16 in `command`, or another `resources.gpu_type`. If the "
                "node has one, the rank does not see it: set no `CUDA_VISIBLE_DEVICES` in `env`."
            ),
        ),
        raises(r"invalid device ordinal|But your machine only has", strength=CAUSE + 2, remedy=_FEWER),
        raises(
            "No CUDA GPUs are available|No CUDA runtime is found|Found no NVIDIA driver|no NVIDIA GPU",
            what="the rank sees no GPU",
            remedy=_NONE,
        ),
        raises(
            "Unexpected error from cudaGetDeviceCount|"
            "CUDA_ERROR_(?!OUT_OF|ASSERT|ILLEGAL|LAUNCH|MISALIGNED|INVALID_(?:VALUE|HANDLE|CONTEXT|PTX|IMAGE|"
            "SOURCE)|NO_BINARY|"
            "UNSUPPORTED)|"
            "CUDA-capable device|Cannot (?:access|find) (?:accelerator|GPU)|"
            "Unable to initialize backend '(?:cuda|gpu|rocm)'(?!.*DEADLINE)|HIP error"
        ),
        raises("CudaSupportError|CUDA driver library cannot be found", remedy=_NONE),
        raises("(?:cuda|CUDA|GPU) is (?:not |un)available", remedy=_NONE),
        raises(
            r"on a CUDA device but torch\.cuda\.is_available\(\) is False",
            strength=CAUSE + 1,
            what="a file with tensors of a GPU is read where no GPU is visible",
            remedy=_NONE,
        ),
        raises(
            r"CUDA unknown error|"
            r"Invalid device id|no ROCm-capable device|cudaError(?:NoDevice|ECC|Device\w*Unavail|InvalidDevice\b|"
            r"SystemNotReady|Unknown|Initialization|HardwareStack|Nvlink)\w*|"
            r"cudaSetDevice|"
            r"CUDA (?:failure|exception|initiali[sz]ation)|NVML.*(?:not found|Uninitialized|Unknown)|NVMLError",
            strength=CAUSE + 1,
        ),
        raises(
            r"[Nn]o supported gpu backend|[Nn]o visible (?:GPU|CUDA|cuda|gpu)|cannot find any torch accelerator|"
            r"You need a GPU|[Nn]o (?:GPU|CUDA)s? (?:device )?(?:found|available|detected)|"
            r"GPUs? (?:is|are) (?:not available|required)|"
            r"requires? (?:an? )?(?:NVIDIA )?(?:CUDA(?:[- ]capable)?|GPUs?)(?: GPUs?| devices?| support| accelerator)?"
            r"(?:[.,;:!]| but\b| to\b| or\b|\s*$)",
            strength=CAUSE + 1,
            remedy=_NONE,
        ),
        # TensorFlow and JAX warn of it, and then have no GPU. Where there is none (NO_DEVICE), they may mean the CPU.
        says(
            r"unable to create StreamExecutor|\bCUDA_ERROR_(?:INVALID_DEVICE|DEVICE_UNAVAILABLE|ECC_UNCORRECTABLE|"
            r"SYSTEM_NOT_READY|DEVICE_NOT_LICENSED)\b",
            "unable to create StreamExecutor",
            "CUDA_ERROR_",
        ),
        says(r"THCudaCheck FAIL (?!.*out of memory)", "THCudaCheck FAIL", strength=WEAK + 6),
        says(r"Unable to determine the device handle for", "determine the device handle", strength=WEAK + 6),
        raises(
            "CUBLAS_STATUS_NOT_INITIALIZED",
            strength=CAUSE + 1,
            what="cuBLAS could not start on the GPU",
            remedy=(
                "Mostly the memory of the GPU is full when it starts: see who uses it (`monitor.gpu`), and take less. "
                "Else compare the versions of the driver, CUDA and torch on that node."
            ),
        ),
        raises(r"on CUDA device \d+ but torch\.cuda\.device_count", strength=CAUSE + 1),
    ),
    examples=(
        "numba.cuda.cudadrv.error.CudaSupportError: Error at driver init:",
        "Set visible device failed, invalid device=2, input visible devices: 0",
        "failed to query event: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access",
        "THCudaCheck FAIL file=a.cu line=25 error=46 : all devices are busy",
        "Memory access fault by GPU node-4 on address 0x7",
        "RuntimeError: ABORTED: The TPU is already in use by process with pid 7",
        "ValueError: Your setup doesn't support bf16/gpu.",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: CUDA error: invalid device ordinal",
    ),
    retry=True,
    blames_node=True,
)
