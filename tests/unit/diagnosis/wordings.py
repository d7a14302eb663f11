# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How libraries and Slurm word their failures, beyond the examples that stand beside each family's patterns.

Written from memory of how the libraries word them, not read off their sources. `RAISED` ends a traceback, `PRINTED`
stands alone. Where two families are both right, both are named.
"""

from __future__ import annotations

RAISED: list[tuple[str, str]] = [
    (
        "cuda_oom",
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78"
            " GiB total capacity"
        ),
    ),
    ("cuda_oom", "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB"),
    ("cuda_oom", "torch.AcceleratorError: CUDA error: out of memory"),
    ("cuda_oom", "triton.runtime.errors.OutOfMemoryError: out of memory"),
    (
        "cuda_oom",
        (
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilizati"
            "on` when initializing the engine."
        ),
    ),
    ("import_error", "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"),
    (
        "cuda_mismatch|import_error",
        "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory",
    ),
    ("abi_conflict|import_error", "ImportError: cannot import name 'packaging' from 'pkg_resources' (/x/__init__.py)"),
    ("import_error", "ImportError: cannot import name 'foo' from 'mylib' (/x/__init__.py)"),
    ("abi_conflict", "AttributeError: module 'torch' has no attribute 'float8_e8m0fnu'"),
    ("numpy_abi", "RuntimeError: Numpy is not available"),
    ("numpy_abi", "AttributeError: module 'numpy' has no attribute 'bool'."),
    ("shape_or_divisibility", "RuntimeError: shape '[8, 512, 12, 64]' is invalid for input of size 1572864"),
    (
        "shape_or_divisibility",
        ("RuntimeError: The size of tensor a (128) must match the size of tensor b (64) at non-singleton dimension 2"),
    ),
    (
        "shape_or_divisibility",
        (
            "AssertionError: world_size (8) is not divisible by tensor_model_parallel_size x pipeline_m"
            "odel_parallel_size x context_parallel_size 6"
        ),
    ),
    (
        "shape_or_divisibility",
        "AssertionError: number of attention heads (30) must be divisible by tensor parallel size 4",
    ),
    ("shape_or_divisibility", "ValueError: Expected input batch_size (32) to match target batch_size (64)."),
    ("exception", "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float"),
    (
        "checkpoint",
        (
            "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:\n\tsize mismatch for mode"
            "l.embed_tokens.weight: copying a param"
        ),
    ),
    ("checkpoint", "RuntimeError: PytorchStreamReader failed reading zip archive: not a ZIP archive"),
    ("checkpoint", "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded"),
    (
        "checkpoint",
        ("ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group"),
    ),
    ("checkpoint", "ValueError: loaded state dict has a different number of parameter groups"),
    ("checkpoint", "EOFError: Ran out of input"),
    (
        "collective_timeout",
        (
            "torch.distributed.DistBackendError: [Rank 0] Watchdog caught collective operation timeout:"
            " WorkNCCL(SeqNum=1, OpType=BROADCAST, Timeout(ms)=600000) ran for 600000 milliseconds befo"
            "re timing out."
        ),
    ),
    (
        "collective_timeout|peer_lost|rendezvous_failure",
        (
            "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncc"
            "lUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wai"
            "t timeout after 600000ms, keys: /default_pg/0//cuda//0"
        ),
    ),
    (
        "peer_lost|nccl_network",
        (
            "torch.distributed.DistBackendError: NCCL error in: /x/NCCLUtils.hpp:275, remote process ex"
            "ited or there was a network error, NCCL version 2.20.5\nncclRemoteError: A call failed poss"
            "ibly due to a network error or a remote process exiting prematurely.\nLast error:\nsocketPro"
            "gress: Connection closed by remote peer n2<45678>"
        ),
    ),
    (
        "nccl_network",
        (
            "torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:1691, unhandled"
            " system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.19.3\nncclSystemError:"
            " System call (e.g. socket, malloc) or external library call failed or device error. \nLast "
            "error:\nError: network NOT_THERE not found."
        ),
    ),
    (
        "nccl_network",
        (
            "torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:1691, unhandled"
            " system error, NCCL version 2.19.3\nncclSystemError: System call failed\nLast error:\nsocketS"
            "tartConnect: Connect to 10.1.1.1<3445> failed : No route to host"
        ),
    ),
    (
        "nccl_network",
        (
            "torch.distributed.DistBackendError: NCCL error in: x, unhandled system error\nLast error:\nC"
            "all to ibv_modify_qp failed with error Connection timed out"
        ),
    ),
    (
        "nccl_shm",
        (
            "torch.distributed.DistBackendError: NCCL error in: x, unhandled system error\nLast error:\nE"
            "rror while creating shared memory segment /dev/shm/nccl-abc (size 9637888)"
        ),
    ),
    (
        "cuda_device|cuda_mismatch",
        (
            "torch.distributed.DistBackendError: NCCL error in: x, unhandled cuda error\nncclUnhandledCu"
            "daError: Call to CUDA function failed.\nLast error:\nCuda failure 'invalid device function'"
        ),
    ),
    (
        "cuda_mismatch",
        (
            "torch.distributed.DistBackendError: NCCL error in: x, unhandled cuda error\nLast error:\nCud"
            "a failure 'CUDA driver version is insufficient for CUDA runtime version'"
        ),
    ),
    (
        "duplicate_gpu|usage",
        (
            "torch.distributed.DistBackendError: NCCL error in: x, invalid usage (run with NCCL_DEBUG=W"
            "ARN for details), NCCL version 2.21.5\nncclInvalidUsage: This usually reflects invalid usag"
            "e of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA dev"
            "ice 1000"
        ),
    ),
    ("device_assert", "RuntimeError: CUDA error: device-side assert triggered"),
    ("cuda_device", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    (
        "cuda_device",
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions "
            "before calling NumCudaDevices()"
        ),
    ),
    ("cuda_device", "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"),
    ("cuda_device|usage", "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
    (
        "address_in_use",
        (
            "RuntimeError: The server socket has failed to listen on any local network address. The ser"
            "ver socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
        ),
    ),
    (
        "address_in_use",
        ("OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"),
    ),
    (
        "rendezvous_failure",
        (
            "torch.distributed.DistNetworkError: The client socket has failed to connect to any network"
            " address of (node01, 29500). The client socket has failed to connect to 10.0.0.1:29500 (er"
            "rno: 110 - Connection timed out)."
        ),
    ),
    (
        "rendezvous_failure",
        ("RuntimeError: The client socket has timed out after 1800s while trying to connect to (10.0.0.1, 6000)."),
    ),
    ("rendezvous_failure", "socket.gaierror: [Errno -2] Name or service not known"),
    (
        "env_not_set",
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: environment vari"
            "able RANK expected, but not set"
        ),
    ),
    ("env_not_set", "KeyError: 'SLURM_PROCID'"),
    (
        "gloo_interface",
        (
            "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa !="
            " nullptr. Unable to find address for: eth9"
        ),
    ),
    (
        "gloo_interface",
        (
            "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pai"
            "r.cc:144] no error"
        ),
    ),
    (
        "file_missing",
        (
            "OSError: Can't load tokenizer for '/models/x'. If you were trying to load it from 'https:/"
            "/huggingface.co/models'"
        ),
    ),
    (
        "file_missing",
        (
            "OSError: Error no file named pytorch_model.bin, model.safetensors, tf_model.h5 found in di"
            "rectory /models/x."
        ),
    ),
    ("file_missing", "FileNotFoundError: Couldn't find any data file at /data/x."),
    ("file_missing", "AssertionError: /data/gpt2/merges.txt: no such file"),
    ("file_missing", "NotADirectoryError: [Errno 20] Not a directory: '/x'"),
    ("file_missing", "AssertionError: Checkpoint directory /x does not exist"),
    ("hub_auth", "huggingface_hub.utils._errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1)"),
    (
        "hub_auth",
        (
            "OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://"
            "huggingface.co/meta-llama/Llama-2-7b-hf."
        ),
    ),
    (
        "hub_auth",
        ("wandb.errors.errors.AuthenticationError: API key verification failed. Make sure your API key is valid."),
    ),
    (
        "hub_limit",
        (
            "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https:"
            "//huggingface.co/api/x"
        ),
    ),
    (
        "offline",
        (
            "requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='huggingface.co', port=443): "
            "Max retries exceeded with url"
        ),
    ),
    ("offline", "httpx.ConnectError: [Errno -3] Temporary failure in name resolution"),
    (
        "offline",
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find "
            "it in the cached files"
        ),
    ),
    ("offline", "ConnectionError: Couldn't reach 'wikitext' on the Hub (LocalEntryNotFoundError)"),
    ("disk_full", "OSError: [Errno 28] No space left on device: '/tmp/x'"),
    ("disk_full", "RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 5440 vs 5334"),
    (
        "disk_full",
        (
            "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: St"
            'orageFull, message: "No space left on device" })'
        ),
    ),
    ("permission_denied", "OSError: [Errno 30] Read-only file system: '/opt/x'"),
    ("data_error", "datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset"),
    ("data_error", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte"),
    ("data_error", "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
    ("data_error", "KeyError: \"Column text not in the dataset. Current columns in the dataset: ['a']\""),
    ("nan_loss", "RuntimeError: Loss is nan, stopping training"),
    (
        "nan_loss",
        (
            "RuntimeError: Rank 3, node n1, device 3, iteration 20: Unexpected result nan (message='fou"
            "nd NaN in local forward loss calculation')"
        ),
    ),
    ("nan_loss", "ValueError: Training loss is nan at step 100"),
    ("nan_loss", "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"),
    ("nccl_shm|host_oom_killed", "RuntimeError: DataLoader worker (pid 12345) is killed by signal: Killed."),
    ("open_files", "RuntimeError: Too many open files. Communication with the workers is no longer possible."),
    ("usage", "hydra.errors.ConfigCompositionException: Could not override 'x'"),
    ("usage", "ValueError: --tensor-model-parallel-size must be set"),
    (
        "usage",
        ("ValueError: FP16 Mixed precision training with AMP or APEX (`--fp16`) can only be used on CUDA devices."),
    ),
    ("usage|exception", "jinja2.exceptions.UndefinedError: x"),
    ("exception", "ValueError: too many values to unpack (expected 2)"),
    ("exception", "TypeError: 'NoneType' object is not subscriptable"),
    ("exception", "AttributeError: 'Trainer' object has no attribute 'foo'"),
    ("exception", "NameError: name 'x' is not defined"),
    ("exception", "UnboundLocalError: local variable 'x' referenced before assignment"),
    ("exception", "AssertionError"),
    (
        "exception",
        (
            "RuntimeError: Expected all tensors to be on the same device, but found at least two device"
            "s, cuda:0 and cpu!"
        ),
    ),
    ("exception", "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"),
    (
        "unused_parameters",
        (
            "RuntimeError: Expected to have finished reduction in the prior iteration before starting a"
            " new one. This error indicates that your module has parameters that were not used in produ"
            "cing loss."
        ),
    ),
    ("exception", "RuntimeError: expected scalar type Half but found Float"),
    ("exception", "RuntimeError: Trying to backward through the graph a second time"),
    ("exception", "TypeError: forward() missing 1 required positional argument: 'x'"),
    ("build", "RuntimeError: Error compiling objects for extension"),
    ("build", "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1."),
    (
        "cuda_mismatch",
        (
            "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed"
            " CUDA version 11.8 does not match the version torch was compiled with 12.1"
        ),
    ),
    ("cuda_mismatch", "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
    ("filesystem_io", "OSError: [Errno 116] Stale file handle"),
]

PRINTED: list[tuple[str, str]] = [
    (
        "host_oom_killed",
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=12.batch. Some of the step tasks ha"
            "ve been OOM Killed."
        ),
    ),
    ("host_oom_killed", "/var/spool/slurmd/job12/slurm_script: line 20: 12345 Killed                  python train.py"),
    ("time_limit", "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***"),
    ("preempted_or_cancelled", "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2024-01-01T00:00:00 ***"),
    (
        "node_failure",
        (
            "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO NODE FAILURE, "
            "SEE SLURMCTLD LOG FOR DETAILS ***"
        ),
    ),
    ("sbatch_rejected", "sbatch: error: Batch job submission failed: Requested node configuration is not available"),
    ("sbatch_rejected", "srun: error: Unable to create step for job 12: Requested node configuration is not available"),
    ("usage", "train.py: error: unrecognized arguments: --foo"),
    ("usage", "usage: x\ntrain.py: error: argument --lr: invalid float value: 'a'"),
    ("script_error", "/var/spool/slurmd/job1/slurm_script: line 12: torchrun: command not found"),
    ("script_error", "/var/spool/slurmd/job1/slurm_script: line 3: module: command not found"),
    ("script_error|file_missing", "slurmstepd: error: execve(): torchrun: No such file or directory"),
    ("permission_denied|script_error", "/var/spool/slurmd/job1/slurm_script: line 3: ./run.sh: Permission denied"),
    ("container_start", "slurmstepd: error: pyxis: failed to import docker image"),
    ("container_start", "slurmstepd: error: pyxis: child 123 failed with error code: 1"),
    (
        "container_start",
        ('docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'),
    ),
    ("container_start", "FATAL:   Unable to handle docker://x uri: while building SIF from layers"),
    ("crash", "/bin/bash: line 1: 123 Segmentation fault      (core dumped) python x.py"),
    (
        "crash",
        (
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
            '  File "x.py", line 3 in f'
        ),
    ),
    ("crash|nccl_shm", "Fatal Python error: Bus error"),
    ("build", "error: subprocess-exited-with-error\n  x python setup.py egg_info did not run successfully."),
    ("build", "ERROR: Could not find a version that satisfies the requirement foo==9 (from versions: none)"),
    (
        "build",
        (
            "error: Distribution `x @ path` can't be installed because it doesn't have a source distrib"
            "ution or wheel for the current platform"
        ),
    ),
    ("env_not_set", "train.sh: line 4: MASTER_ADDR: unbound variable"),
    ("import_error", "/usr/bin/python3: No module named megatron"),
    ("file_missing", "python: can't open file '/x/train.py': [Errno 2] No such file or directory"),
    ("node_failure|peer_lost", "srun: error: Node failure on n7"),
    ("cuda_device", "[12345.6] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."),
    (
        "healthy",
        (
            "2024-01-01 INFO loss: 2.1\n[rank0]:[W101 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destr"
            "oy_process_group() was not called before program exit"
        ),
    ),
    ("healthy", "srun: error: spank: x11-plugin: not loaded\nfine\nTraining completed"),
    ("unknown", ("n1:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.")),
    ("unknown", "WARNING:root:Failed to import apex, falling back: No module named 'apex'"),
    ("unknown", "pip install warning: error: 0 of 12\nepoch 1 done, no error"),
    ("unknown", "2024-01-01 - ERROR - retrying (1/3): HTTPError 503"),
    (
        "healthy",
        ("Could not load library libcudnn. Continuing without it: No module named 'tensorrt'\niteration 1 loss 2"),
    ),
    (
        "unknown",
        (
            "I0000 00:00:00.0 1 tf: Unable to register cuDNN factory: Attempting to register factory fo"
            "r plugin cuDNN when one has already been registered"
        ),
    ),
    (
        "unknown",
        (
            "[2024-01-01] [WARNING] [real_accelerator.py:162:get_accelerator] Setting accelerator to CP"
            "U. If you have GPU or other accelerator, we were unable to detect it."
        ),
    ),
]
