# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501
"""More wordings than stand beside the patterns, most of them collected before the patterns were written to fit them.

One a row: families that are right (`a/b` where two are) and the text. `#` begins a new line of the log.
`RAISED` ends a traceback, `PRINTED` stands alone, `HEALTHY` is a whole log that only sounds bad.
"""

RAISED = r"""
cuda_oom | torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 39.39 GiB of which 13.06 MiB is free. Process 9 has 39.37 GiB memory in use.
cuda_oom | RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 3; 39.59 GiB total capacity; 36.03 GiB already allocated)
cuda_oom | RuntimeError: [enforce fail at alloc_cuda.cpp] CUDA error: out of memory
cuda_oom | tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__Mul}} failed to allocate memory [Op:Mul]
cuda_oom | jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB (2147483648B) on device ordinal 0
cuda_oom | RuntimeError: NPU out of memory. Tried to allocate 1.66 GiB (NPU 3; 60.96 GiB total capacity; 46.10 GiB already allocated)
cuda_oom | RuntimeError: CUDA driver error: out of memory
cuda_oom | RuntimeError: NCCL Error 1: unhandled cuda error (run with NCCL_DEBUG=INFO for details) CUDA out of memory.
host_oom_killed | MemoryError: Unable to allocate 12.3 GiB for an array with shape (1000, 1000) and data type float32
host_oom_killed | RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)
import_error | ModuleNotFoundError: No module named 'flash_attn_2_cuda'
import_error | ImportError: To support decoding audio data, please install 'torchcodec'.
import_error | ImportError: cannot import name 'LlamaFlashAttention2' from 'mymodels.llama' (/x/mymodels/llama.py)
abi_conflict | ImportError: cannot import name 'cached_download' from 'huggingface_hub' (/x/huggingface_hub/__init__.py)
abi_conflict | ImportError: cannot import name 'is_torch_tpu_available' from 'transformers' (/x/transformers/__init__.py)
abi_conflict | ImportError: /x/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi
abi_conflict | ImportError: cannot import name 'x' from partially initialized module 'utils' (most likely due to a circular import) (/x/utils.py)
exception | TypeError: MyModel.__init__() got an unexpected keyword argument 'hidden'
numpy_abi | AttributeError: module 'numpy' has no attribute 'float'. `np.float` was a deprecated alias for the builtin `float`.
shape_or_divisibility | RuntimeError: mat1 and mat2 shapes cannot be multiplied (2048x4096 and 1024x4096)
shape_or_divisibility | RuntimeError: The size of tensor a (512) must match the size of tensor b (1024) at non-singleton dimension 1
shape_or_divisibility | AssertionError: world size (8) is not divisible by 3
shape_or_divisibility | ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3).
shape_or_divisibility | AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 6
shape_or_divisibility | AssertionError: number of layers (30) should be divisible by pipeline-model-parallel-size (4)
collective_timeout | torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3. Original reason for failure was: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800503 milliseconds before timing out.
collective_timeout | RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.
nccl_network/peer_lost | RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1269, unhandled system error, NCCL version 2.14.3
rendezvous_failure | torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 3/4 clients joined.
rendezvous_failure | torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (node-0, 29500).
rendezvous_failure | jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect. # of tasks that reached the barrier: 1/4.
env_not_set | KeyError: 'MASTER_ADDR'
env_not_set | ValueError: environment variable LOCAL_RANK expected, but not set
env_not_set | KeyError: 'HF_TOKEN'
env_not_set | RuntimeError: Default process group has not been initialized, please make sure to call init_process_group.
address_in_use | RuntimeError: Address already in use
address_in_use | torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use). The server socket has failed to bind to 0.0.0.0:29500 (errno: 98 - Address already in use).
gloo_interface | RuntimeError: [enforce fail at /src/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find interface for: eth1
gloo_interface | RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error
file_missing | FileNotFoundError: [Errno 2] No such file or directory: 'data/train.json'
file_missing | FileNotFoundError: Unable to find '/data/train.jsonl'
file_missing | FileNotFoundError: Directory /data/ds not found
file_missing | ValueError: Can't find a valid checkpoint at out/checkpoint-500
file_missing | AssertionError: Path /data/index.idx does not exist
file_missing | AssertionError: data path /x/y_text_document.bin not found
file_missing | OSError: Not found: "/models/tokenizer.model": No such file or directory Error #2
file_missing | h5py: FileNotFoundError: [Errno 2] Unable to synchronously open file (unable to open file: name = '/x.h5', errno = 2, error message = 'No such file or directory', flags = 0, o_flags = 0)
file_missing | ValueError: Could not find metadata file
file_missing | FileNotFoundError: No files matching '/data/*.parquet' found
hub_auth | wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])
hub_auth | ValueError: Token is required (`token=True`), but no token found. You need to provide a token or be logged in to Hugging Face with `hf auth login` or `huggingface_hub.login`.
hub_limit | requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://x
offline | urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>
disk_full | OSError: [Errno 122] Disk quota exceeded: '/home/me/.cache'
permission_denied | PermissionError: [Errno 13] Permission denied: '/tmp/triton/dump'
permission_denied | OSError: [Errno 30] Read-only file system: '/out'
checkpoint | RuntimeError: Error(s) in loading state_dict for GPT: Missing key(s) in state_dict: "wte.weight".
checkpoint | _pickle.UnpicklingError: invalid load key, 'v'.
checkpoint | _pickle.UnpicklingError: Weights only load failed. In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`.
checkpoint | RuntimeError: PytorchStreamReader failed locating file data.pkl: file not found
data_error | pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.
data_error | pyarrow.lib.ArrowInvalid: JSON parse error: Invalid value. in row 0
data_error | ValueError: Column name ['x'] not in the dataset. Current columns in the dataset: ['y']
data_error | UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte
nan_loss | ValueError: The loss returned in `training_step` is nan or inf.
nan_loss | RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped.
nccl_shm | RuntimeError: DataLoader worker (pid 1021) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.
nccl_shm | RuntimeError: DataLoader worker (pid(s) 1021, 1022) exited unexpectedly
open_files | OSError: [Errno 24] Too many open files
cuda_device | torch.AcceleratorError: CUDA error: unspecified launch failure
cuda_device | ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU with cuda>=11.0
cuda_mismatch | RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver
cuda_mismatch | ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory
cuda_mismatch | OSError: libcublas.so.11: undefined symbol: cublasLtGetStatusString, version libcublasLt.so.11
cuda_mismatch | ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla V100 GPU has compute capability 7.0.
cuda_max_connections | RuntimeError: Using sequence parallelism requires setting the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 1
usage/exception | KeyError: 'qwen3'
usage | ValueError: Loading this model requires you to execute the configuration file in that repo on your local machine. Please pass the argument `trust_remote_code=True` to allow custom code to be run.
usage | argparse.ArgumentError: argument --x: conflicting option string: --x
usage | pydantic.error_wrappers.ValidationError: 1 validation error for DeepSpeedConfig
exception/usage/abi_conflict | AttributeError: 'Namespace' object has no attribute 'foo'
usage | ValueError: You have to specify either input_ids or inputs_embeds
usage | ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:
exception | lightning.pytorch.utilities.exceptions.MisconfigurationException: `Trainer(devices=2)` value is not a valid input
usage/exception | RuntimeError: Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module from meta to a different device.
usage | AssertionError: seq-length must be specified
exception | RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1! (when checking argument for argument index in method wrapper_CUDA__index_select)
exception | RuntimeError: Input type (float) and bias type (c10::Half) should be the same
exception | RuntimeError: expected mat1 and mat2 to have the same dtype, but got: float != c10::BFloat16
exception | RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [4]], which is output 0 of ReluBackward0, is at version 2; expected version 1 instead.
exception | TypeError: iteration over a 0-d tensor
exception | IndexError: list index out of range
exception | IndexError: index out of range in self
exception | KeyError: 'loss'
exception | TypeError: unsupported operand type(s) for +: 'int' and 'str'
exception | ValueError: not enough values to unpack (expected 3, got 2)
exception | ValueError: invalid literal for int() with base 10: 'a'
exception | ValueError: could not convert string to float: 'abc'
exception | AttributeError: 'NoneType' object has no attribute 'shape'
exception | AttributeError: 'str' object has no attribute 'keys'
exception | TypeError: 'float' object cannot be interpreted as an integer
exception | TypeError: cannot unpack non-iterable NoneType object
exception | TypeError: Object of type Tensor is not JSON serializable
exception | TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.
exception | RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.
exception | RuntimeError: "addmm_impl_cpu_" not implemented for 'Half'
exception | RuntimeError: Boolean value of Tensor with more than one value is ambiguous
exception | RecursionError: maximum recursion depth exceeded while calling a Python object
exception | ZeroDivisionError: integer division or modulo by zero
exception | AttributeError: Can't pickle local object 'main.<locals>.<lambda>'
exception | RuntimeError: An attempt has been made to start a new process before the current process has finished its bootstrapping phase.
exception | TypeError: __init__() missing 2 required positional arguments: 'x' and 'y'
exception | TypeError: step() takes 2 positional arguments but 3 were given
exception | AssertionError: expected 4 got 5
exception | torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
exception | torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print)
exception | sqlite3.OperationalError: table predictions has 11 columns but 7 values were supplied
exception | RuntimeError: tensor does not have a device
exception | ValueError: optimizer got an empty parameter list
exception | ValueError: Attempted to frobnicate twice
exception | RuntimeError: The tensor has a non-zero number of elements, but its data is not allocated yet.
exception | ray.exceptions.ActorUnavailableError: The actor d5a12869 is unavailable: The actor is temporarily unavailable: RpcError
filesystem_io | OSError: [Errno 5] Input/output error
build | RuntimeError: Error building extension 'fused_adam'
syntax_error |   File "train.py", line 3#SyntaxError: invalid syntax
cuda_oom | torch.cuda.OutOfMemoryError: Caught OutOfMemoryError in replica 1 on device 1.
cuda_oom | RuntimeError: CUDA out of memory. Try setting max_split_size_mb
import_error | ModuleNotFoundError: No module named 'transformer_engine'
import_error/cuda_mismatch | ImportError: libcusparseLt.so.0: cannot open shared object file: No such file or directory
import_error | ImportError: cannot import name 'build_dataset' from 'data' (/home/me/project/data/__init__.py)
import_error | RuntimeError: Please install apex from https://www.example.org/apex to use FusedAdam
import_error | ModuleNotFoundError: No module named 'fused_layer_norm_cuda'
import_error/exception | NameError: name 'flash_attn_varlen_func' is not defined
abi_conflict | AttributeError: module 'torch.library' has no attribute 'register_fake'
import_error/abi_conflict | ImportError: tokenizers>=0.14,<0.15 is required for a normal functioning of this module, but found tokenizers==0.19.1.
exception | TypeError: train() got an unexpected keyword argument 'foo'
exception | AttributeError: 'Qwen2Config' object has no attribute 'foo'
exception | AttributeError: 'list' object has no attribute 'to'
exception | AttributeError: 'DistributedDataParallel' object has no attribute 'generate'
exception | RuntimeError: Tensor on device meta is not on the expected device cuda:0!
exception/shape_or_divisibility | RuntimeError: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding)
exception | RuntimeError: result type Float can't be cast to the desired output type long int
exception | RuntimeError: "nll_loss_forward_reduce_cuda_kernel_2d_index" not implemented for 'Int'
exception | RuntimeError: grad can be implicitly created only for scalar outputs
exception | RuntimeError: view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.
exception | RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.
exception | RuntimeError: Inplace update to inference tensor outside InferenceMode is not allowed.
exception | TypeError: Cannot interpret '<attribute 'dtype' of 'numpy.generic' objects>' as a data type
exception | KeyError: 'validation_loss'
exception | IndexError: too many indices for tensor of dimension 1
exception | IndexError: tuple index out of range
exception | FileExistsError: [Errno 17] File exists: 'out/run1'
exception | AssertionError: assert loss is not None
exception | TypeError: '<' not supported between instances of 'NoneType' and 'int'
exception | TypeError: string indices must be integers
exception | OverflowError: math range error
exception | ValueError: math domain error
exception | torch._dynamo.exc.InternalTorchDynamoError: RuntimeError: x
exception | RuntimeError: Trying to resize storage that is not resizable
exception/usage | ValueError: Object arrays cannot be loaded when allow_pickle=False
exception | AttributeError: Can't get attribute 'Foo' on <module '__main__' from 'x.py'>
exception | multiprocessing.context.TimeoutError
shape_or_divisibility | RuntimeError: The shape of the mask [4, 512] at index 1 does not match the shape of the indexed tensor [4, 256] at index 1
shape_or_divisibility | AssertionError: hidden_size (1000) must be divisible by num_attention_heads (12)
shape_or_divisibility | ValueError: The global train batch size (8 x 3) must be evenly divisible by the number of generations per prompt (16).
exception | RuntimeError: Index put requires the source and destination dtypes match
file_missing | FileNotFoundError: [Errno 2] No such file or directory: '/home/me/.cache/huggingface/token'
file_missing | OSError: [Errno 2] No such file or directory
file_missing | FileNotFoundError: Couldn't find a dataset script at /x/foo/foo.py or any data file in the same directory.
file_missing/offline | huggingface_hub.utils._errors.LocalEntryNotFoundError: Entry not found
file_missing | OSError: ./model does not appear to have a file named pytorch_model.bin, model.safetensors, tf_model.h5, model.ckpt.index or flax_model.msgpack.
file_missing | RuntimeError: [enforce fail] file /data/x.bin not found
file_missing | AssertionError: Dataset path /data/imagenet/train does not exist!
file_missing | ValueError: Unable to locate the file /x/vocab.txt
file_missing | NotADirectoryError: [Errno 20] Not a directory: '/x/y.tar'
file_missing | ValueError: tokenizer not found at path
file_missing | soundfile.LibsndfileError: Error opening 'a.wav': System error.
hub_auth | OSError: foo/bar is not a local folder and is not a valid model identifier listed on 'https://x/models'. If this is a private repository, make sure to pass a token having permission to this repo
offline | OSError: We couldn't connect to 'https://x' to load the files, and couldn't find them in the cached files.
disk_full | RuntimeError: [enforce fail at inline_container.cc:778] . PytorchStreamWriter failed writing file data/1: file write failed
disk_full | h5py.h5.H5Error: No space left on device
permission_denied | PermissionError: [Errno 13] Permission denied
permission_denied | OSError: PermissionError at /home/me/.cache when downloading x. Check cache directory permissions.
checkpoint | RuntimeError: PytorchStreamReader failed reading zip archive: invalid header or archive is corrupted
checkpoint | ValueError: optimizer state dict does not match: loaded state dict contains a parameter group that doesn't match
data_error | pyarrow.lib.ArrowTypeError: Expected bytes, got a 'int' object
nan_loss | AssertionError: NaN detected in loss
nan_loss | RuntimeError: Gradient contains NaN or Inf
usage | ValueError: Unknown scheduler: foo
usage | ValueError: Attention implementation flash_attention_3 is not supported
exception | RuntimeError: Only Tensors of floating point and complex dtype can require gradients
usage | ValueError: `batch_size` cannot be zero
exception | RuntimeError: Found dtype BFloat16 but expected Float
exception/usage/abi_conflict | AttributeError: 'Namespace' object has no attribute 'local_rank'
cuda_device | RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized
cuda_device | pynvml.NVMLError_DriverNotLoaded: Driver Not Loaded
cuda_mismatch | RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version
nccl_shm/open_files | RuntimeError: unable to open shared memory object </torch_1_2_3> in read-write mode: Too many open files (24)
open_files | RuntimeError: Too many open files. Communication with the workers is no longer possible. Please increase the limit using `ulimit -n` in the shell or change the sharing strategy
cuda_oom | torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity
cuda_oom | RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB
cuda_oom | torch.AcceleratorError: CUDA error: out of memory
cuda_oom | triton.runtime.errors.OutOfMemoryError: out of memory
cuda_mismatch/import_error | ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory
abi_conflict/import_error | ImportError: cannot import name 'packaging' from 'pkg_resources' (/x/__init__.py)
shape_or_divisibility | RuntimeError: The size of tensor a (128) must match the size of tensor b (64) at non-singleton dimension 2
shape_or_divisibility | AssertionError: world_size (8) is not divisible by tensor_model_parallel_size x pipeline_model_parallel_size x context_parallel_size 6
shape_or_divisibility | AssertionError: number of attention heads (30) must be divisible by tensor parallel size 4
shape_or_divisibility | ValueError: Expected input batch_size (32) to match target batch_size (64).
exception | RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float
checkpoint | RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:#	size mismatch for model.embed_tokens.weight: copying a param
checkpoint | RuntimeError: PytorchStreamReader failed reading zip archive: not a ZIP archive
checkpoint | ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group
collective_timeout | torch.distributed.DistBackendError: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, Timeout(ms)=600000) ran for 600000 milliseconds before timing out.
collective_timeout/peer_lost/rendezvous_failure | torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0
peer_lost/nccl_network | torch.distributed.DistBackendError: NCCL error in: /x/NCCLUtils.hpp:275, remote process exited or there was a network error, NCCL version 2.20.5#ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.#Last error:#socketProgress: Connection closed by remote peer n2<45678>
nccl_network | torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:1691, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.19.3#ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. #Last error:#Error: network NOT_THERE not found.
nccl_network | torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:1691, unhandled system error, NCCL version 2.19.3#ncclSystemError: System call failed#Last error:#socketStartConnect: Connect to 10.1.1.1<3445> failed : No route to host
nccl_network | torch.distributed.DistBackendError: NCCL error in: x, unhandled system error#Last error:#Call to ibv_modify_qp failed with error Connection timed out
nccl_shm | torch.distributed.DistBackendError: NCCL error in: x, unhandled system error#Last error:#Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888)
cuda_device/cuda_mismatch | torch.distributed.DistBackendError: NCCL error in: x, unhandled cuda error#ncclUnhandledCudaError: Call to CUDA function failed.#Last error:#Cuda failure 'invalid device function'
cuda_mismatch | torch.distributed.DistBackendError: NCCL error in: x, unhandled cuda error#Last error:#Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'
duplicate_gpu/usage | torch.distributed.DistBackendError: NCCL error in: x, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.21.5#ncclInvalidUsage: This usually reflects invalid usage of NCCL library.#Last error:#Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000
cuda_device/usage | RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`
address_in_use | RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
address_in_use | OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use
rendezvous_failure | RuntimeError: The client socket has timed out after 1800s while trying to connect to (10.0.0.1, 6000).
env_not_set | ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not set
env_not_set | KeyError: 'SLURM_PROCID'
gloo_interface | RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find address for: eth9
file_missing | OSError: Error no file named pytorch_model.bin, model.safetensors, tf_model.h5 found in directory /models/x.
file_missing | FileNotFoundError: Couldn't find any data file at /data/x.
file_missing | AssertionError: /data/gpt2/merges.txt: no such file
file_missing | AssertionError: Checkpoint directory /x does not exist
hub_auth | huggingface_hub.utils._errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1)
hub_auth | OSError: You are trying to access a gated repo.#Make sure to have access to it at https://huggingface.co/meta-llama/Llama-2-7b-hf.
hub_auth | wandb.errors.errors.AuthenticationError: API key verification failed. Make sure your API key is valid.
hub_limit | huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/x
offline | requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url
offline | OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached files
disk_full | OSError: [Errno 28] No space left on device: '/tmp/x'
disk_full | RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 5440 vs 5334
permission_denied | OSError: [Errno 30] Read-only file system: '/opt/x'
nan_loss | RuntimeError: Loss is nan, stopping training
nan_loss | RuntimeError: Rank 3, node n1, device 3, iteration 20: Unexpected result nan (message='found NaN in local forward loss calculation')
nan_loss | ValueError: Training loss is nan at step 100
nccl_shm/host_oom_killed | RuntimeError: DataLoader worker (pid 12345) is killed by signal: Killed.
open_files | RuntimeError: Too many open files. Communication with the workers is no longer possible.
usage | ValueError: --tensor-model-parallel-size must be set
usage | ValueError: FP16 Mixed precision training with AMP or APEX (`--fp16`) can only be used on CUDA devices.
usage/exception | jinja2.exceptions.UndefinedError: x
exception | ValueError: too many values to unpack (expected 2)
exception | TypeError: 'NoneType' object is not subscriptable
exception | AttributeError: 'Trainer' object has no attribute 'foo'
exception | NameError: name 'x' is not defined
exception | UnboundLocalError: local variable 'x' referenced before assignment
exception | AssertionError
exception | RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
exception | RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
exception | RuntimeError: expected scalar type Half but found Float
exception | RuntimeError: Trying to backward through the graph a second time
exception | TypeError: forward() missing 1 required positional argument: 'x'
"""

PRINTED = r"""
host_oom_killed | slurmstepd: error: Detected 3 oom-kill event(s) in StepId=1234.batch cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.
host_oom_killed | srun: error: node01: task 0: Out Of Memory
time_limit | slurmstepd: error: *** STEP 99.0 ON n[1-4] CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***
time_limit | slurmstepd-n1: error: *** JOB 99 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***
time_limit | =>> PBS: job killed: walltime 3618 exceeded limit 3600
preempted_or_cancelled | slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO PREEMPTION ***
launcher | srun: Force Terminated job 12
preempted_or_cancelled | slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE to SIGNAL Terminated ***
node_failure | srun: error: Node failure on gpu-07
node_failure | slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
node_failure | srun: error: Job step aborted: Job/step already completing or completed#srun: error: Node failure on n3
container_start | slurmstepd: error: pyxis: couldn't start container
container_start | slurmstepd: error: pyxis: child 7 failed with error code: 1
container_start | FATAL:   While making image from oci registry: error fetching image to cache: while building SIF from layers: conveyor failed to get: x
container_start | FATAL:   container creation failed: mount /data->/data error: while mounting /data: mount source /data doesn't exist
container_start | ERROR: ld.so: object '/x.so' from LD_PRELOAD cannot be preloaded#slurmstepd: error: pyxis: container start failed with error code: 1
sbatch_rejected | sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)
sbatch_rejected | sbatch: error: invalid partition specified: gpuu
sbatch_rejected | sbatch: error: Unable to open file train.sh
sbatch_rejected | srun: error: Unable to allocate resources: Invalid generic resource (gres) specification
sbatch_rejected | srun: unrecognized option '--mpi=foo'
sbatch_rejected | salloc: error: Job submit/allocate failed: Invalid qos specification
script_error | /var/spool/slurmd/job99/slurm_script: line 7: conda: command not found
script_error | bash: torchrun: command not found
script_error | /bin/bash: -c: line 1: syntax error near unexpected token `('
script_error | EnvironmentNameNotFound: Could not find conda environment: foo
script_error | /home/me/venv/bin/activate: No such file or directory
file_missing | python3: can't open file '/x/train.py': [Errno 2] No such file or directory
file_missing | tar: /data/x.tar: Cannot open: No such file or directory
usage | train.py: error: the following arguments are required: --data
usage | torchrun: error: argument --nproc-per-node/--nproc_per_node: expected one argument
usage | run_clm.py: error: ambiguous option: --model could match --model_name_or_path, --model_revision
usage | main.py: error: argument --dtype: invalid choice: 'fp8' (choose from 'fp16', 'bf16')
usage | Error: Got unexpected extra argument (train)
usage | Could not override 'trainer.foo'.
usage | Error executing job with overrides: ['x=1']#omegaconf.errors.ConfigAttributeError: Key 'x' is not in struct
import_error | /usr/bin/python: No module named pip
build | ERROR: Could not build wheels for flash-attn, which is required to install pyproject.toml-based projects
build/import_error | ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This behaviour is the source of the following dependency conflicts.#x 1 requires y#ModuleNotFoundError: No module named 'x'
build |   x No solution found when resolving dependencies:
build | error: Failed to prepare distributions
build | error: Failed to build: `flash-attn==2.7`
build | error: No virtual environment found; run `uv venv` to create an environment, or pass `--system` to install into a non-virtual environment
nccl_network | n1:1:2 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110
nccl_network | n1:1:2 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<3> with status=5 opcode=0 len=0 vendor err 244 (Recv)
nccl_network | n1:1:2 [0] bootstrap.cc:63 NCCL WARN Bootstrap : no socket interface found
nccl_network | n1:1:2 [1] misc/socket.cc:464 NCCL WARN socketStartConnect: Connect to 10.1.1.1<4> failed : Software caused connection abort
nccl_network | n1:1:2 [0] NCCL WARN NET/OFI Request 0x completed with error. RC: 113. Error: unknown error
nccl_network | n1:1:2 [0] misc/ibvwrap.cc:94 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory
cuda_device | [Fri Jan  1] NVRM: Xid (PCI:0000:4e:00): 48, pid='<unknown>', DBE (double bit error) ECC
cuda_device | Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU
crash | srun: error: n1: task 2: Segmentation fault (core dumped)
crash | [n1:12345] *** Process received signal ***#[n1:12345] Signal: Segmentation fault (11)
rendezvous_failure | [E101 00:00:00.1 socket.cpp:957] [c10d] The client socket has timed out after 60s while trying to connect to (n1, 29500).
collective_timeout | [E ProcessGroupNCCL.cpp:474] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800007 milliseconds before timing out.
disk_full | tee: out.log: No space left on device
disk_full | cp: error writing '/x/y': Disk quota exceeded
permission_denied | mkdir: cannot create directory '/data': Permission denied
permission_denied | bash: ./run.sh: Permission denied
filesystem_io | ls: cannot access '/data': Stale file handle
launcher | ERROR: Training failed with exit code 1
host_oom_killed | slurmstepd: error: Detected 1 oom_kill event in StepId=12.batch. Some of the step tasks have been OOM Killed.
host_oom_killed | /var/spool/slurmd/job12/slurm_script: line 20: 12345 Killed                  python train.py
time_limit | slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***
preempted_or_cancelled | slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2024-01-01T00:00:00 ***
preempted_or_cancelled | WARNING:elastic.agent:Received 15 death signal, shutting down workers
sbatch_rejected | srun: error: Unable to create step for job 12: Requested node configuration is not available
usage | train.py: error: unrecognized arguments: --foo
usage | usage: x#train.py: error: argument --lr: invalid float value: 'a'
script_error | /var/spool/slurmd/job1/slurm_script: line 12: torchrun: command not found
script_error | /var/spool/slurmd/job1/slurm_script: line 3: module: command not found
permission_denied/script_error | /var/spool/slurmd/job1/slurm_script: line 3: ./run.sh: Permission denied
container_start | slurmstepd: error: pyxis: failed to import docker image
container_start | slurmstepd: error: pyxis: child 123 failed with error code: 1
container_start | docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].
container_start | FATAL:   Unable to handle docker://x uri: while building SIF from layers
crash | /bin/bash: line 1: 123 Segmentation fault      (core dumped) python x.py
crash | Fatal Python error: Segmentation fault##Current thread 0x00007f (most recent call first):#  File "x.py", line 3 in f
crash/nccl_shm | Fatal Python error: Bus error
build | error: subprocess-exited-with-error#  x python setup.py egg_info did not run successfully.
build | ERROR: Could not find a version that satisfies the requirement foo==9 (from versions: none)
build | error: Distribution `x @ path` can't be installed because it doesn't have a source distribution or wheel for the current platform
env_not_set | train.sh: line 4: MASTER_ADDR: unbound variable
import_error | /usr/bin/python3: No module named megatron
file_missing | python: can't open file '/x/train.py': [Errno 2] No such file or directory
node_failure/peer_lost | srun: error: Node failure on n7
cuda_device | [12345.6] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.
healthy | 2024-01-01 INFO loss: 2.1#[rank0]:[W101 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before program exit
healthy | srun: error: spank: x11-plugin: not loaded#fine#Training completed
unknown | n1:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.
unknown | WARNING:root:Failed to import apex, falling back: No module named 'apex'
unknown | pip install warning: error: 0 of 12#epoch 1 done, no error
unknown | 2024-01-01 - ERROR - retrying (1/3): HTTPError 503
healthy | Could not load library libcudnn. Continuing without it: No module named 'tensorrt'#iteration 1 loss 2
unknown | I0000 00:00:00.0 1 tf: Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered
unknown | [2024-01-01] [WARNING] [real_accelerator.py:162:get_accelerator] Setting accelerator to CPU. If you have GPU or other accelerator, we were unable to detect it.
"""

HEALTHY = r"""
slurmstepd: error: couldn't chdir to `/data/x': No such file or directory: going to /tmp instead
Epoch 1: 100%|####| 10/10 [00:01<00:00, 9.9it/s, train_error=0.2, val_error=0.3]#Training done
step 1 loss: nan (overflow, skipping step)#step 2 loss: 2.0#step 3 loss: 1.9#done
[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to 2147483648#step 2 loss: 2.0#step 3 loss: 1.9
iteration 1/ 10 | loss scale: 4294967296.0 | number of skipped iterations: 1 | number of nan iterations: 0 |#iteration 2/ 10 | lm loss: 3.1 | number of skipped iterations: 0 | number of nan iterations: 0 |
Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken by 'ReadTimeoutError("x")': /simple/torch/#Successfully installed torch#step 1 loss 2.0
'(MaxRetryError("HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /x"), '(Request ID: x)')' thrown while requesting HEAD https://huggingface.co/x#Retrying in 1s [Retry 1/5].#step 1 loss 2.0#step 2 loss 1.0
WARNING: saving checkpoint failed (attempt 1): [Errno 5] Input/output error, retrying#checkpoint saved#step 9 loss 1.0#Training complete
wandb: WARNING Path ./wandb wasn't writable, using system temp directory.#step 1 loss 2.0
wandb: Network error (ConnectTimeout), entering retry loop.#step 1 loss 2.0#wandb: Synced run
Killed by the reaper: 0 processes#step 1 loss 2.0
/x/torch/utils/data/dataloader.py:617: UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of worker in current system is 4, which is smaller than what this DataLoader is going to create. Please be aware that excessive worker creation might get DataLoader running slow or even freeze#step 1 loss 2.0
[rank0]:[W1010 00:00:00.1 ProcessGroupNCCL.cpp:4561] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect.#step 1 loss 2.0
n1:1:2 [0] NCCL INFO NET/IB : No device found.#n1:1:2 [0] NCCL INFO Failed to open libibverbs.so[.1]#step 1 loss 2.0
n1:1:2 [0] NCCL WARN NET/OFI Failed to initialize sendrecv protocol#n1:1:2 [0] NCCL INFO Using network Socket#step 1 loss 2.0#step 2 loss 1.0#Training completed
n1:1:2 [0] NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!#step 1 loss 2.0
n1:1:2 [0] misc/nvmlwrap.cc:183 NCCL WARN nvmlInit() failed: Driver Not Loaded#step 1 loss 2.0#Training completed
E0000 00:00:1700000000.1 1 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered#step 1 loss 2.0
2024-01-01 00:00:00.1: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT#step 1 loss 2.0
Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file: No such file or directory#step 1 loss 2.0
ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This behaviour is the source of the following dependency conflicts.#foo 1.0 requires bar<2, but you have bar 3 which is incompatible.#Successfully installed bar-3#step 1 loss 2.0#step 2 loss 1.0#Training completed
/var/spool/slurmd/job1/slurm_script: line 3: module: command not found#step 1 loss 2.0#step 2 loss 2.0#step 3 loss 2.0#step 4 loss 2.0#step 5 loss 2.0#step 6 loss 2.0#step 7 loss 2.0#step 8 loss 2.0#step 9 loss 2.0
/etc/profile.d/lang.sh: line 19: warning: setlocale: LC_CTYPE: cannot change locale (C.UTF-8): No such file or directory#step 1 loss 2.0
ls: cannot access '/data/old': No such file or directory#step 1 loss 2.0#step 2 loss 2.0#Training finished
mkdir: cannot create directory 'out': File exists#step 1 loss 2.0
rm: cannot remove 'x': No such file or directory#step 1 loss 2.0#train_runtime': 3.0#'train_runtime': 3.0, 'train_loss': 1.0
Setting ds_accelerator to cuda (auto detect)# [WARNING]  Please specify the CUTLASS repo directory as environment variable $CUTLASS_PATH# [WARNING]  sparse_attn requires a torch version >= 1.5 and < 2.0 but detected 2.1#step 1 loss 2.0
ImportError while loading optional plugin foo: No module named 'foo' (ignored)#step 1 loss 2.0
step 1 loss 2.0#step 2 loss 1.0#Training completed#Traceback (most recent call last):#  File "/usr/lib/python3.10/multiprocessing/queues.py", line 266, in _feed#    send_bytes(obj)#BrokenPipeError: [Errno 32] Broken pipe
step 1 loss 2.0#Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>#Traceback (most recent call last):#  File "x.py", line 1, in __del__#    self._shutdown_workers()#AssertionError: can only test a child process#step 2 loss 2.0
Task exception was never retrieved#future: <Task finished name='Task-1' coro=<f() done> exception=ConnectionResetError('Connection lost')>#Traceback (most recent call last):#  File "x.py", line 1, in f#    await x#ConnectionResetError: Connection lost
--- Logging error ---#Traceback (most recent call last):#  File "/usr/lib/python3.10/logging/__init__.py", line 1100, in emit#    msg = self.format(record)#TypeError: not all arguments converted during string formatting#Call stack:#  File "train.py", line 1, in <module>#Message: 'x'#step 1 loss 2.0
[rank0]:[W CudaIPCTypes.cpp:16] Producer process has been terminated before all shared CUDA tensors released. See Note [Sharing CUDA tensors]#step 1 loss 2.0
accuracy error rate 0.1 | OOM retries 0 | nan 0 | timeouts 0#step 1 loss 2.0
INFO: skipping corrupt image /data/a.jpg: cannot identify image file '/data/a.jpg'#step 1 loss 2.0#step 2 loss 2.0
CUDA out of memory, retrying with batch size 8#step 1 loss 2.0#step 2 loss 2.0#Training completed
slurmstepd: error: Unable to unlink domain socket `/var/spool/x': No such file or directory#step 1 loss 2.0
srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1#step 1 loss 2.0
slurmstepd: error: task_p_pre_launch: Using sched_affinity for tasks#step 1 loss 2.0
srun: error: x11 forwarding disabled#step 1 loss 2.0#step 2 loss 2.0#Training completed
Training completed#srun: error: n1: task 0: Exited with exit code 0
WARNING:torch.distributed.run: Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded#step 1 loss 2.0
tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...#step 1 loss 2.0
Some weights of BertModel were not initialized from the model checkpoint at bert and are newly initialized: ['pooler.dense.weight']#size mismatch is ignored#step 1 loss 2.0
FutureWarning: You are using `torch.load` with `weights_only=False`, which uses the default pickle module implicitly. It is possible to construct malicious pickle data which will execute arbitrary code during unpickling#step 1 loss 2.0
epoch 1 | loss 0.1 | checkpoint not found at out/last.pt, starting from scratch#epoch 2 | loss 0.1
No checkpoint found: FileNotFoundError: [Errno 2] No such file or directory: 'last.pt', starting from scratch#step 1 loss 2.0
Caught KeyboardInterrupt? no. loss 0.3 step 4#step 5 loss 0.2
2024-01-01 00:00:00,000 ERROR: optional metric failed: division by zero#step 1 loss 2.0#step 2 loss 2.0#Training completed
INFO:root:Timeout waiting for lock, trying again#step 1 loss 2.0
error: 0.0012 at step 10#step 11 error 0.0011 loss 0.2
Successfully preprocessed all matching files. Errors: 0 Failed: 0 Killed: 0#step 1 loss 2.0
"""
