# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501
"""More wordings, collected before the patterns were written to fit them: how well do these generalise?

One a row: families that are right (`a/b` where two are) and the text. `#` begins a new line of the log.
`RAISED` ends a traceback, `PRINTED` stands alone, `HEALTHY` is a whole log that only sounds bad.
"""

RAISED = r"""
cuda_oom | torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 39.39 GiB of which 13.06 MiB is free. Process 9 has 39.37 GiB memory in use.
cuda_oom | RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 3; 39.59 GiB total capacity; 36.03 GiB already allocated)
cuda_oom | RuntimeError: [enforce fail at alloc_cuda.cpp] CUDA error: out of memory
cuda_oom | RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED
cuda_oom | tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:
cuda_oom | tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__Mul}} failed to allocate memory [Op:Mul]
cuda_oom | jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 34359738368 bytes.
cuda_oom | jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB (2147483648B) on device ordinal 0
cuda_oom | ValueError: Free memory on device (10.2/79.2 GiB) on startup is less than desired GPU memory utilization (0.9, 71.3 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.
cuda_oom | RuntimeError: NPU out of memory. Tried to allocate 1.66 GiB (NPU 3; 60.96 GiB total capacity; 46.10 GiB already allocated)
cuda_oom | torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 63.98 GiB.
cuda_oom | RuntimeError: CUDA driver error: out of memory
cuda_oom | RuntimeError: Triton Error [CUDA]: out of memory
cuda_oom | cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: 33,554,432 bytes).
cuda_oom | RuntimeError: NCCL Error 1: unhandled cuda error (run with NCCL_DEBUG=INFO for details) CUDA out of memory.
cuda_oom | ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (12.5 GiB).
host_oom_killed | MemoryError: Unable to allocate 12.3 GiB for an array with shape (1000, 1000) and data type float32
host_oom_killed | RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to allocate 68719476736 bytes.
host_oom_killed | RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)
host_oom_killed | OSError: [Errno 12] Cannot allocate memory
host_oom_killed | ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
import_error | ModuleNotFoundError: No module named 'flash_attn_2_cuda'
abi_conflict/import_error | ImportError: accelerate>=0.26.0 is required for a normal functioning of this module, but found accelerate==0.20.3.
import_error | ImportError: Using `low_cpu_mem_usage=True` or a `device_map` requires Accelerate: `pip install 'accelerate>=0.26.0'`
import_error | ImportError: To support decoding audio data, please install 'torchcodec'.
import_error | ImportError: This modeling file requires the following packages that were not found in your environment: einops. Run `pip install einops`
import_error | ImportError: cannot import name 'LlamaFlashAttention2' from 'mymodels.llama' (/x/mymodels/llama.py)
abi_conflict | ImportError: cannot import name 'cached_download' from 'huggingface_hub' (/x/huggingface_hub/__init__.py)
abi_conflict | ImportError: cannot import name 'SAVE_STATE_WARNING' from 'torch.optim.lr_scheduler' (/x/torch/optim/lr_scheduler.py)
abi_conflict | ImportError: cannot import name 'is_torch_tpu_available' from 'transformers' (/x/transformers/__init__.py)
abi_conflict | ImportError: /x/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi
abi_conflict | ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /x/libzmq.so)
abi_conflict | RuntimeError: Failed to import transformers.models.llama.modeling_llama because of the following error (look up to see its traceback):
abi_conflict | RuntimeError: operator torchvision::nms does not exist
abi_conflict | AttributeError: module 'transformers' has no attribute 'AutoModelForImageTextToText'
abi_conflict | AttributeError: partially initialized module 'torch' has no attribute 'compile' (most likely due to a circular import)
abi_conflict | ImportError: cannot import name 'x' from partially initialized module 'utils' (most likely due to a circular import) (/x/utils.py)
abi_conflict | AttributeError: 'DynamicCache' object has no attribute 'seen_tokens'
abi_conflict | TypeError: SFTTrainer.__init__() got an unexpected keyword argument 'tokenizer'
abi_conflict | TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'
abi_conflict | TypeError: LlamaForCausalLM.__init__() got an unexpected keyword argument 'use_flash_attention_2'
abi_conflict | TypeError: Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'
exception | TypeError: MyModel.__init__() got an unexpected keyword argument 'hidden'
numpy_abi | ImportError: numpy.core.multiarray failed to import
numpy_abi | AttributeError: module 'numpy' has no attribute 'float'. `np.float` was a deprecated alias for the builtin `float`.
numpy_abi | AttributeError: _ARRAY_API not found
numpy_abi | ImportError: cannot import name 'ComplexWarning' from 'numpy.core.numeric'
shape_or_divisibility | RuntimeError: mat1 and mat2 shapes cannot be multiplied (2048x4096 and 1024x4096)
shape_or_divisibility | RuntimeError: Given groups=1, weight of size [64, 3, 7, 7], expected input[8, 1, 224, 224] to have 3 channels, but got 1 channels instead
shape_or_divisibility | RuntimeError: The size of tensor a (512) must match the size of tensor b (1024) at non-singleton dimension 1
shape_or_divisibility | RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 4 but got size 3 for tensor number 1 in the list.
shape_or_divisibility | RuntimeError: stack expects each tensor to be equal size, but got [512] at entry 0 and [256] at entry 1
shape_or_divisibility | ValueError: operands could not be broadcast together with shapes (3,) (4,)
shape_or_divisibility | RuntimeError: shape mismatch: value tensor of shape [10] cannot be broadcast to indexing result of shape [8]
shape_or_divisibility | RuntimeError: split_with_sizes expects split_sizes to sum exactly to 12 (input tensor's size at dimension 0), but got split_sizes=[4, 4]
shape_or_divisibility | RuntimeError: The expanded size of the tensor (4096) must match the existing size (2048) at non-singleton dimension 2.
shape_or_divisibility | AssertionError: world size (8) is not divisible by 3
shape_or_divisibility | AssertionError: global batch size (100) is not divisible by micro batch size (3) times data parallel size (8)
shape_or_divisibility | AssertionError: num_query_groups (2) must be divisible by tensor_model_parallel_size (4)
shape_or_divisibility | ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3).
shape_or_divisibility | AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 6
shape_or_divisibility | AssertionError: number of layers (30) should be divisible by pipeline-model-parallel-size (4)
shape_or_divisibility | RuntimeError: einsum(): subscript i has size 12 for operand 1 which does not broadcast with previously seen size 8
shape_or_divisibility | einops.EinopsError:  Error while processing rearrange-reduction pattern "b (h w) c -> b c h w".
shape_or_divisibility | ValueError: all the input array dimensions except for the concatenation axis must match exactly, but along dimension 1, the array at index 0 has size 4 and the array at index 1 has size 5
shape_or_divisibility | RuntimeError: Tensors must have same number of dimensions: got 3 and 2
shape_or_divisibility | ValueError: Using a target size (torch.Size([4])) that is different to the input size (torch.Size([4, 1])) is deprecated.
shape_or_divisibility | RuntimeError: Mesh should not be bigger than default world size 4, but found 8 ranks!
shape_or_divisibility | AssertionError: Invalid parallel dims: dp_replicate(1) * dp_shard(4) * cp(1) * tp(4) * pp(1) != WORLD_SIZE(8)
shape_or_divisibility | TypeError: dot_general requires contracting dimensions to have the same shape, got (4,) and (5,).
shape_or_divisibility | ValueError: One of pjit arguments was given the sharding of NamedSharding, which implies that the global size of its dimension 0 should be divisible by 8, but it is equal to 10
collective_timeout | torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3. Original reason for failure was: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800503 milliseconds before timing out.
collective_timeout | RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.
collective_timeout | RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 30000 ms
nccl_network/peer_lost | RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1269, unhandled system error, NCCL version 2.14.3
peer_lost | RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [10.0.0.3]:41812: Connection reset by peer
rendezvous_failure | torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 3/4 clients joined.
rendezvous_failure | torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (node-0, 29500).
rendezvous_failure | RuntimeError: Unable to initialize backend 'cuda': DEADLINE_EXCEEDED: Barrier timed out
rendezvous_failure | jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect. # of tasks that reached the barrier: 1/4.
env_not_set | KeyError: 'MASTER_ADDR'
env_not_set | ValueError: environment variable LOCAL_RANK expected, but not set
env_not_set | KeyError: 'HF_TOKEN'
env_not_set | RuntimeError: Default process group has not been initialized, please make sure to call init_process_group.
env_not_set | ValueError: Default process group has not been initialized, please make sure to call init_process_group.
address_in_use | RuntimeError: Address already in use
address_in_use | torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use). The server socket has failed to bind to 0.0.0.0:29500 (errno: 98 - Address already in use).
address_in_use | ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing it. Please specify a different port (such as using the `--main_process_port` flag or specifying a different `main_process_port` in your config file) and rerun your script.
gloo_interface | RuntimeError: [enforce fail at /src/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find interface for: eth1
gloo_interface | RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error
file_missing | FileNotFoundError: [Errno 2] No such file or directory: 'data/train.json'
file_missing | FileNotFoundError: Unable to find '/data/train.jsonl'
file_missing | FileNotFoundError: Directory /data/ds not found
file_missing | OSError: Incorrect path_or_model_id: '/models/Llama-2'. Please provide either the path to a local folder or the repo_id of a model on the Hub.
file_missing | huggingface_hub.utils._validators.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/x'. Use `repo_type` argument if needed.
file_missing | OSError: Unable to load vocabulary from file. Please check that the provided vocabulary is accessible and not corrupted.
file_missing | ValueError: Can't find a valid checkpoint at out/checkpoint-500
file_missing | ValueError: No valid checkpoint found in output directory (out)
file_missing | datasets.exceptions.DatasetNotFoundError: Dataset 'foo/bar' doesn't exist on the Hub or cannot be accessed.
file_missing | AssertionError: Path /data/index.idx does not exist
file_missing | AssertionError: data path /x/y_text_document.bin not found
file_missing | ValueError: Can't find 'adapter_config.json' at '/out/adapter'
file_missing | RuntimeError: Error opening '/data/a.wav': System error.
file_missing | OSError: Not found: "/models/tokenizer.model": No such file or directory Error #2
file_missing | tensorflow.python.framework.errors_impl.NotFoundError: /data/x.tfrecord; No such file or directory
file_missing | h5py: FileNotFoundError: [Errno 2] Unable to synchronously open file (unable to open file: name = '/x.h5', errno = 2, error message = 'No such file or directory', flags = 0, o_flags = 0)
file_missing | ValueError: Could not find metadata file
file_missing | FileNotFoundError: No files matching '/data/*.parquet' found
file_missing | cv2.error: OpenCV(4.8.0) /io/opencv/modules/imgproc/src/color.cpp:182: error: (-215:Assertion failed) !_src.empty() in function 'cvtColor'
hub_auth | OSError: You are trying to access a gated repo.
hub_auth | huggingface_hub.utils._errors.GatedRepoError: 403 Client Error. (Request ID: x)
hub_auth | wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])
hub_auth | wandb.errors.CommError: It appears that you do not have permission to access the requested resource. Please reach out to the project owner to grant you access.
hub_auth | wandb.errors.errors.CommError: user is not logged in
hub_auth | ValueError: Token is required (`token=True`), but no token found. You need to provide a token or be logged in to Hugging Face with `hf auth login` or `huggingface_hub.login`.
hub_auth | huggingface_hub.errors.LocalTokenNotFoundError: Token is required (write-access action) but no token found.
hub_auth | openai.OpenAIError: The api_key client option must be set either by passing api_key to the client or by setting the OPENAI_API_KEY environment variable
hub_auth | botocore.exceptions.NoCredentialsError: Unable to locate credentials
hub_limit | requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://x
hub_limit | openai.RateLimitError: Error code: 429 - {'error': {'message': 'Rate limit reached'}}
offline | requests.exceptions.ConnectionError: HTTPSConnectionPool(host='cdn-lfs.x.co', port=443): Read timed out.
offline | urllib.error.URLError: <urlopen error [Errno 101] Network is unreachable>
offline | urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>
offline | huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/api/x: offline mode is enabled. To disable it, please unset the `HF_HUB_OFFLINE` environment variable.
offline | ConnectionError: Offline mode is enabled.
offline | wandb.errors.CommError: Run initialization has timed out after 90.0 sec.
offline | urllib3.exceptions.ProtocolError: ('Connection broken: IncompleteRead(10 bytes read, 90 more expected)', IncompleteRead(10 bytes read, 90 more expected))
offline | requests.exceptions.ConnectionError: (ProtocolError('Connection aborted.', RemoteDisconnected('Remote end closed connection without response')), '(Request ID: x)')
offline | socket.timeout: The read operation timed out
offline | httpcore.ConnectTimeout: [Errno 110] Connection timed out
disk_full | OSError: [Errno 122] Disk quota exceeded: '/home/me/.cache'
disk_full | RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0
disk_full | OSError: 4096 requested and 0 written
disk_full | OSError: Not enough disk space. Needed: Unknown size (download: 1 GB, generated: 2 GB)
permission_denied | PermissionError: [Errno 13] Permission denied: '/tmp/triton/dump'
permission_denied | PermissionError: [Errno 1] Operation not permitted: '/data/x'
permission_denied | OSError: [Errno 30] Read-only file system: '/out'
permission_denied | tensorflow.python.framework.errors_impl.PermissionDeniedError: /x/y; Permission denied
checkpoint | RuntimeError: Error(s) in loading state_dict for GPT: Missing key(s) in state_dict: "wte.weight".
checkpoint | safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer
checkpoint | _pickle.UnpicklingError: invalid load key, 'v'.
checkpoint | _pickle.UnpicklingError: Weights only load failed. In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`.
checkpoint | _pickle.UnpicklingError: pickle data was truncated
checkpoint | RuntimeError: PytorchStreamReader failed locating file data.pkl: file not found
checkpoint | OSError: Unable to load weights from pytorch checkpoint file for '/x/pytorch_model.bin' at '/x/pytorch_model.bin'.
checkpoint | RuntimeError: Invalid magic number; corrupt file?
checkpoint | torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0, 1])
checkpoint | RuntimeError: Missing key in checkpoint state_dict: optimizer.param_groups.0.lr.
checkpoint | ValueError: Size mismatch between saved torch.Size([4]) and current: torch.Size([8]) for model.x
checkpoint | megatron.core.dist_checkpointing.core.CheckpointingException: Global shape mismatch for loaded (torch.Size([4])) and expected ((8,)) tensor for key x
checkpoint | ValueError: Trying to set a tensor of shape torch.Size([1024]) in "weight" (which has shape torch.Size([2048])), this looks incorrect.
checkpoint | RuntimeError: You set `ignore_mismatched_sizes` to `False`, thus raising an error. For details look at the above report!
checkpoint | KeyError: "filename 'storages' not found"
checkpoint | zipfile.BadZipFile: File is not a zip file
data_error | pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.
data_error | pyarrow.lib.ArrowInvalid: JSON parse error: Invalid value. in row 0
data_error | json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 120)
data_error | PIL.UnidentifiedImageError: cannot identify image file '/data/x.jpg'
data_error | OSError: image file is truncated (5 bytes not processed)
data_error | datasets.exceptions.DatasetGenerationCastError: An error occurred while generating the dataset
data_error | ValueError: num_samples should be a positive integer value, but got num_samples=0
data_error | pandas.errors.EmptyDataError: No columns to parse from file
data_error | pandas.errors.ParserError: Error tokenizing data. C error: Expected 3 fields in line 5, saw 4
data_error | KeyError: "['label'] not in index"
data_error | KeyError: "None of [Index(['a'], dtype='object')] are in the [columns]"
data_error | ValueError: Column name ['x'] not in the dataset. Current columns in the dataset: ['y']
data_error | ValueError: Unknown split "train". Should be one of ['train_sft', 'test_sft'].
data_error | ValueError: Instruction "validation" corresponds to no data!
data_error | UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte
data_error | ValueError: BuilderConfig 'x' not found. Available: ['default']
nan_loss | RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.
nan_loss | ValueError: The loss returned in `training_step` is nan or inf.
nan_loss | RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped.
nan_loss | ValueError: Expected parameter loc (Tensor of shape (4, 2)) of distribution Normal(loc: torch.Size([4, 2])) to satisfy the constraint Real(), but found invalid values:
nan_loss | ValueError: Input contains NaN, infinity or a value too large for dtype('float32').
nan_loss | Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.
nan_loss | FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.
nccl_shm | RuntimeError: DataLoader worker (pid 1021) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.
nccl_shm | RuntimeError: DataLoader worker (pid(s) 1021, 1022) exited unexpectedly
nccl_shm | RuntimeError: unable to mmap 128 bytes from file </torch_12_13>: Cannot allocate memory (12)
open_files | OSError: [Errno 24] Too many open files
nccl_shm | RuntimeError: unable to write to file </torch_1021_1>: No space left on device (28)
cuda_device | RuntimeError: CUDA error: an illegal memory access was encountered
cuda_device | torch.AcceleratorError: CUDA error: unspecified launch failure
cuda_device | RuntimeError: No CUDA GPUs are available
cuda_device | RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.
cuda_device | RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED
cuda_device | RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable
cuda_device | RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU.
cuda_device | AssertionError: Invalid device id
cuda_device | ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU with cuda>=11.0
cuda_device | lightning.fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend found!
cuda_device | RuntimeError: Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU devices.
cuda_device | lightning_fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [0, 1, 2, 3] But your machine only has: [0]
cuda_device | RuntimeError: HIP error: no ROCm-capable device is detected
cuda_device | RuntimeError: Unsloth cannot find any torch accelerator? You need a GPU.
cuda_mismatch | RuntimeError: CUDA error: no kernel image is available for execution on the device
cuda_mismatch | RuntimeError: The detected CUDA version (11.8) mismatches the version that was used to compile PyTorch (12.1). Please make sure to use the same CUDA versions.
cuda_mismatch | RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver
cuda_mismatch | ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory
cuda_mismatch | OSError: libcublas.so.11: undefined symbol: cublasLtGetStatusString, version libcublasLt.so.11
cuda_mismatch | RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.
cuda_mismatch | RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED
cuda_mismatch | ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla V100 GPU has compute capability 7.0.
cuda_mismatch | AssertionError: Torch not compiled with CUDA enabled
cuda_mismatch | RuntimeError: Found NVIDIA TITAN which is too old to be supported by the triton GPU compiler, which is used as the backend. Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability 6.1
cuda_mismatch | RuntimeError: NCCL version mismatch
cuda_mismatch | RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (8, 9, 2) but found runtime version (8, 7, 0).
cuda_mismatch | ValueError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')
cuda_max_connections | RuntimeError: Using sequence parallelism requires setting the environment variable CUDA_DEVICE_MAX_CONNECTIONS to 1
usage | ValueError: Tokenizer class Qwen2Tokenizer does not exist or is not currently imported.
usage | ValueError: The checkpoint you are trying to load has model type `qwen3` but Transformers does not recognize this architecture. This could be because of an issue with the checkpoint, or because your version of Transformers is out of date.
usage/exception | KeyError: 'qwen3'
usage | ValueError: Asking to pad but the tokenizer does not have a padding token. Please select a token to use as `pad_token`
usage | ValueError: Cannot use chat template functions because tokenizer.chat_template is not set and no template argument was passed!
usage | ValueError: Loading this model requires you to execute the configuration file in that repo on your local machine. Please pass the argument `trust_remote_code=True` to allow custom code to be run.
usage/file_missing | ValueError: Target modules {'q_proj', 'v_proj'} not found in the base model. Please check the target modules and try again.
usage | ValueError: Please specify `target_modules` in `peft_config`
usage | ValueError: You cannot perform fine-tuning on purely quantized models. Please attach trainable adapters on top of the quantized model to correctly perform fine-tuning.
usage | ValueError: --load_best_model_at_end requires the save and eval strategy to match, but found
usage | ValueError: FlashAttention only support fp16 and bf16 data type
usage | ValueError: Some specified arguments are not used by the HfArgumentParser: ['--foo']
usage | argparse.ArgumentError: argument --x: conflicting option string: --x
usage | pydantic.error_wrappers.ValidationError: 1 validation error for DeepSpeedConfig
usage | omegaconf.errors.MissingMandatoryValue: Missing mandatory value: trainer.max_steps
usage | hydra.errors.MissingConfigException: Cannot find primary config 'x'. Check that it's in your config search path.
usage | yaml.scanner.ScannerError: mapping values are not allowed here
exception/usage/abi_conflict | AttributeError: 'Namespace' object has no attribute 'foo'
usage | ValueError: You have to specify either input_ids or inputs_embeds
usage | deepspeed.runtime.config_utils.DeepSpeedConfigError: x
usage | ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:
exception | lightning.pytorch.utilities.exceptions.MisconfigurationException: `Trainer(devices=2)` value is not a valid input
usage/exception | RuntimeError: Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module from meta to a different device.
usage | RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method
usage | AssertionError: You must specify --micro-batch-size
usage | AssertionError: seq-length must be specified
usage | jsonargparse._util.ArgumentError: x
usage | absl.flags._exceptions.UnrecognizedFlagError: Unknown command line flag 'foo'
exception | RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1! (when checking argument for argument index in method wrapper_CUDA__index_select)
exception | RuntimeError: Input type (float) and bias type (c10::Half) should be the same
exception | RuntimeError: expected mat1 and mat2 to have the same dtype, but got: float != c10::BFloat16
exception | RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [4]], which is output 0 of ReluBackward0, is at version 2; expected version 1 instead.
unused_parameters | RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter outside the `forward` function.
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
filesystem_io | OSError: [Errno 16] Device or resource busy: '.nfs000000'
filesystem_io | BlockingIOError: [Errno 11] Unable to synchronously open file (unable to lock file, errno = 11, error message = 'Resource temporarily unavailable')
filesystem_io | OSError: [Errno 108] Cannot send after transport endpoint shutdown
filesystem_io | sqlite3.OperationalError: disk I/O error
build | RuntimeError: Error building extension 'fused_adam'
build | torch._inductor.exc.InductorError: CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/main.c', '-O3']' returned non-zero exit status 1.
build | RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set triton.knobs.build.impl.
syntax_error |   File "train.py", line 3#SyntaxError: invalid syntax
syntax_error | IndentationError: unexpected indent
cuda_oom | RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`
cuda_oom | torch.cuda.OutOfMemoryError: Caught OutOfMemoryError in replica 1 on device 1.
cuda_oom | RuntimeError: Failed to allocate GPU memory for optimizer states
cuda_oom | ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.
cuda_oom | RuntimeError: CUDA out of memory. Try setting max_split_size_mb
host_oom_killed | numpy.core._exceptions.MemoryError: Unable to allocate 7.45 GiB for an array
host_oom_killed/nccl_shm | RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed.
import_error | ModuleNotFoundError: No module named 'transformer_engine'
import_error/cuda_mismatch | ImportError: libcusparseLt.so.0: cannot open shared object file: No such file or directory
import_error | ImportError: Please install the deepspeed package
import_error | ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: flash attention 2 is not installed.
import_error | ImportError: cannot import name 'build_dataset' from 'data' (/home/me/project/data/__init__.py)
import_error | RuntimeError: Please install apex from https://www.example.org/apex to use FusedAdam
import_error | ModuleNotFoundError: No module named 'fused_layer_norm_cuda'
import_error/exception | NameError: name 'flash_attn_varlen_func' is not defined
abi_conflict/cuda_mismatch | ImportError: /x/torch/lib/libtorch_cuda.so: undefined symbol: ncclMemFree
abi_conflict | RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA major versions.
abi_conflict | ImportError: cannot import name 'Cache' from 'transformers' (/x/transformers/__init__.py)
abi_conflict | AttributeError: module 'torch.library' has no attribute 'register_fake'
abi_conflict | AttributeError: module 'pkgutil' has no attribute 'ImpImporter'. Did you mean: 'zipimporter'?
import_error/abi_conflict | ImportError: tokenizers>=0.14,<0.15 is required for a normal functioning of this module, but found tokenizers==0.19.1.
abi_conflict | TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'
abi_conflict | TypeError: GRPOConfig.__init__() got an unexpected keyword argument 'max_prompt_length'
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
exception | StopIteration
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
shape_or_divisibility | RuntimeError: size mismatch, m1: [32 x 512], m2: [256 x 10] at /x/THCTensorMathBlas.cu:290
shape_or_divisibility | ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 64])
shape_or_divisibility | RuntimeError: Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than actual input size
shape_or_divisibility | RuntimeError: Expected 4-dimensional input for 4-dimensional weight [64, 3, 7, 7], but got 3-dimensional input of size [3, 224, 224] instead
shape_or_divisibility | RuntimeError: input.size(-1) must be equal to input_size. Expected 128, got 64
shape_or_divisibility | ValueError: setting an array element with a sequence. The requested array has an inhomogeneous shape after 1 dimensions.
shape_or_divisibility | RuntimeError: The shape of the mask [4, 512] at index 1 does not match the shape of the indexed tensor [4, 256] at index 1
shape_or_divisibility | IndexError: The shape of the mask [4, 512] at index 1 does not match the shape of the indexed tensor [4, 256] at index 1
shape_or_divisibility | ValueError: Shapes must be equal rank, but are 2 and 1
shape_or_divisibility | TypeError: add got incompatible shapes for broadcasting: (4,), (5,).
shape_or_divisibility | AssertionError: hidden_size (1000) must be divisible by num_attention_heads (12)
shape_or_divisibility | ValueError: `hidden_size` must be divisible by `num_heads` (got 1024 and 12).
shape_or_divisibility | AssertionError: number of GPUs (6) should be a multiple of tensor parallel size
shape_or_divisibility | ValueError: The global train batch size (8 x 3) must be evenly divisible by the number of generations per prompt (16).
exception | RuntimeError: Index put requires the source and destination dtypes match
shape_or_divisibility/data_error | RuntimeError: The tensor has size 10 but index 12 is out of bounds
file_missing | FileNotFoundError: [Errno 2] No such file or directory: '/home/me/.cache/huggingface/token'
file_missing | OSError: [Errno 2] No such file or directory
file_missing | FileNotFoundError: Couldn't find a dataset script at /x/foo/foo.py or any data file in the same directory.
file_missing | huggingface_hub.errors.EntryNotFoundError: 404 Client Error. (Request ID: x)
file_missing/offline | huggingface_hub.utils._errors.LocalEntryNotFoundError: Entry not found
file_missing | OSError: ./model does not appear to have a file named pytorch_model.bin, model.safetensors, tf_model.h5, model.ckpt.index or flax_model.msgpack.
file_missing | RuntimeError: [enforce fail] file /data/x.bin not found
file_missing | AssertionError: Dataset path /data/imagenet/train does not exist!
file_missing | ValueError: Unable to locate the file /x/vocab.txt
file_missing | NotADirectoryError: [Errno 20] Not a directory: '/x/y.tar'
file_missing | ValueError: tokenizer not found at path
file_missing | soundfile.LibsndfileError: Error opening 'a.wav': System error.
data_error | decord._ffi.base.DECORDError: [00:00:00] /x/video_reader.cc:151: Check failed: st_nb >= 0 (-1381258232 vs. 0) ERROR cannot find video stream with wanted index: -1
hub_auth | huggingface_hub.errors.HfHubHTTPError: 401 Client Error: Unauthorized for url: https://x
hub_auth | huggingface_hub.errors.HfHubHTTPError: 403 Forbidden: You must be authenticated
hub_auth | OSError: foo/bar is not a local folder and is not a valid model identifier listed on 'https://x/models'. If this is a private repository, make sure to pass a token having permission to this repo
hub_auth | wandb.errors.AuthenticationError: The API key you provided is either invalid or missing.
hub_auth | wandb.errors.errors.UsageError: No API key configured. Use `wandb login` to log in.
hub_auth | datasets.exceptions.DatasetNotFoundError: Dataset 'x/y' is a gated dataset on the Hub. You must be authenticated to access it.
offline | requests.exceptions.ReadTimeout: (ReadTimeoutError("HTTPSConnectionPool(host='x', port=443): Read timed out. (read timeout=10)"), '(Request ID: x)')
offline | urllib3.exceptions.MaxRetryError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: /x (Caused by NameResolutionError)
offline | requests.exceptions.HTTPError: 504 Server Error: Gateway Time-out for url: https://x
offline | OSError: We couldn't connect to 'https://x' to load the files, and couldn't find them in the cached files.
offline | aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected
disk_full | RuntimeError: [enforce fail at inline_container.cc:778] . PytorchStreamWriter failed writing file data/1: file write failed
disk_full | sqlite3.OperationalError: database or disk is full
disk_full | h5py.h5.H5Error: No space left on device
permission_denied | PermissionError: [Errno 13] Permission denied
permission_denied | OSError: PermissionError at /home/me/.cache when downloading x. Check cache directory permissions.
permission_denied | RuntimeError: Parent directory /x is not writable
checkpoint | RuntimeError: PytorchStreamReader failed reading zip archive: invalid header or archive is corrupted
checkpoint | EOFError: Ran out of input
checkpoint | ValueError: optimizer state dict does not match: loaded state dict contains a parameter group that doesn't match
checkpoint/file_missing | OSError: Error no file named model.safetensors found in directory ckpt.
checkpoint | safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization
checkpoint | RuntimeError: unexpected EOF, expected 12345 more bytes. The file might be corrupted.
data_error | ValueError: Couldn't cast
data_error | pyarrow.lib.ArrowTypeError: Expected bytes, got a 'int' object
data_error | TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'NoneType'>
data_error | ValueError: expected sequence of length 512 at dim 1 (got 300)
data_error | ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True' 'truncation=True' to have batched tensors with the same length.
data_error | PIL.Image.DecompressionBombError: Image size (300000000 pixels) exceeds limit
data_error | OSError: broken data stream when reading image file
data_error | ValueError: The train dataset is empty
data_error | csv.Error: line contains NUL
nan_loss | AssertionError: NaN detected in loss
nan_loss | RuntimeError: Gradient contains NaN or Inf
nan_loss | ValueError: loss is NaN at step 12
usage | ValueError: Unrecognized configuration class <class 'transformers.x'> for this kind of AutoModel: AutoModelForCausalLM.
usage | ValueError: Unknown scheduler: foo
usage | ValueError: `pad_token_id` must be set
usage | ValueError: Attention implementation flash_attention_3 is not supported
usage | ValueError: invalid choice: 'foo'
usage | RuntimeError: FSDP does not support x
usage | AssertionError: --seq-length should be set
exception | RuntimeError: Only Tensors of floating point and complex dtype can require gradients
usage | KeyError: 'Unknown model name: foo'
data_error | ValueError: You should supply an encoding or a list of encodings to this method that includes input_ids, but you provided ['label']
usage | ValueError: `batch_size` cannot be zero
usage | omegaconf.errors.InterpolationKeyError: Interpolation key 'x' not found
exception | RuntimeError: Found dtype BFloat16 but expected Float
exception/usage/abi_conflict | AttributeError: 'Namespace' object has no attribute 'local_rank'
cuda_device | RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized
cuda_device | RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`
device_assert | RuntimeError: CUDA error: device-side assert triggered
cuda_device | RuntimeError: Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 1. Please use torch.load with map_location to map your storages to an existing device.
cuda_device | AssertionError: CUDA is not available
cuda_device | pynvml.NVMLError_DriverNotLoaded: Driver Not Loaded
cuda_mismatch | RuntimeError: Tensor Core FP8 requires compute capability 8.9 or higher
cuda_mismatch | RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version
cuda_mismatch | RuntimeError: Failed to find nvcc
cuda_mismatch | RuntimeError: FlashAttention only supports Ampere GPUs or newer.
build | RuntimeError: Ninja build failed
build | distutils.errors.CompileError: command '/usr/bin/g++' failed with exit code 1
rendezvous_failure | RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: store_based_barrier_key:1 (world_size=8, worker_count=4, timeout=0:30:00)
rendezvous_failure/collective_timeout | torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /worker/attempt_0/default/0
rendezvous_failure | ConnectionRefusedError: [Errno 111] Connection refused
nccl_shm/open_files | RuntimeError: unable to open shared memory object </torch_1_2_3> in read-write mode: Too many open files (24)
open_files | RuntimeError: Too many open files. Communication with the workers is no longer possible. Please increase the limit using `ulimit -n` in the shell or change the sharing strategy
"""

PRINTED = r"""
host_oom_killed | slurmstepd: error: Detected 3 oom-kill event(s) in StepId=1234.batch cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.
host_oom_killed | slurmstepd: error: Detected 1 oom_kill event in StepId=99.0. Some of the step tasks have been OOM Killed.
host_oom_killed | slurmstepd: error: Exceeded job memory limit
host_oom_killed | slurmstepd: error: Job 12 exceeded memory limit (105 > 100), being killed
host_oom_killed | srun: error: node01: task 0: Out Of Memory
host_oom_killed | [  123.4] Out of memory: Killed process 3141 (python3) total-vm:1kB
host_oom_killed | oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/slurm
host_oom_killed | srun: error: n3: tasks 0-3: Killed
host_oom_killed | run.sh: line 12: 28123 Killed                  torchrun --nproc_per_node=4 train.py
host_oom_killed | terminate called after throwing an instance of 'std::bad_alloc'
host_oom_killed | (raylet) A worker died or was killed while executing a task by an unexpected system error. (1) The process is killed by SIGKILL by OOM killer due to high memory usage.
time_limit | slurmstepd: error: *** STEP 99.0 ON n[1-4] CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***
time_limit | slurmstepd-n1: error: *** JOB 99 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***
time_limit | =>> PBS: job killed: walltime 3618 exceeded limit 3600
time_limit | TERM_RUNLIMIT: job killed after reaching LSF run time limit.
preempted_or_cancelled | slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO PREEMPTION ***
preempted_or_cancelled | slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 ***
preempted_or_cancelled | scancel: Terminating job 12
preempted_or_cancelled | srun: Job has been cancelled
launcher | srun: Force Terminated job 12
preempted_or_cancelled | slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE to SIGNAL Terminated ***
node_failure | srun: error: Node failure on gpu-07
node_failure | slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
node_failure | srun: error: Job step aborted: Job/step already completing or completed#srun: error: Node failure on n3
container_start | slurmstepd: error: pyxis: couldn't start container
container_start | slurmstepd: error: pyxis: child 7 failed with error code: 1
container_start | slurmstepd: error: pyxis: no such container: foo
container_start | [ERROR] No such file or directory: /images/foo.sqsh
container_start | enroot-nsenter: failed to create user namespace: No space left on device
container_start | FATAL:   While making image from oci registry: error fetching image to cache: while building SIF from layers: conveyor failed to get: x
container_start | FATAL:   container creation failed: mount /data->/data error: while mounting /data: mount source /data doesn't exist
container_start | FATAL:   "torchrun": executable file not found in $PATH
container_start | docker: Error response from daemon: pull access denied for foo, repository does not exist or may require 'docker login'.
container_start | Error: unable to copy from source docker://foo: initializing source: reading manifest latest in registry.example.org/foo: requested access to the resource is denied
container_start | nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown
container_start | ERROR: ld.so: object '/x.so' from LD_PRELOAD cannot be preloaded#slurmstepd: error: pyxis: container start failed with error code: 1
sbatch_rejected | sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)
sbatch_rejected | sbatch: error: invalid partition specified: gpuu
sbatch_rejected | sbatch: error: Unable to open file train.sh
sbatch_rejected | srun: error: Unable to create step for job 12: Job/step already completing or completed
sbatch_rejected | srun: error: Unable to allocate resources: Invalid generic resource (gres) specification
sbatch_rejected | srun: unrecognized option '--mpi=foo'
sbatch_rejected | srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.
sbatch_rejected | srun: error: Couldn't find the specified plugin name for mpi/pmi3 looking at all files
sbatch_rejected | salloc: error: Job submit/allocate failed: Invalid qos specification
script_error | /var/spool/slurmd/job99/slurm_script: line 7: conda: command not found
script_error | bash: torchrun: command not found
script_error | /usr/bin/env: 'python': No such file or directory
script_error | /bin/bash: -c: line 1: syntax error near unexpected token `('
script_error | train.sh: line 3: $'\r': command not found
script_error | CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.
script_error | EnvironmentNameNotFound: Could not find conda environment: foo
script_error | Lmod has detected the following error: The following module(s) are unknown: "cuda/12.9"
script_error | ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'cuda/99'
script_error | slurmstepd: error: execve(): run.sh: Exec format error
script_error | /home/me/venv/bin/activate: No such file or directory
file_missing | python3: can't open file '/x/train.py': [Errno 2] No such file or directory
file_missing | cp: cannot stat '/data/x.tar': No such file or directory
file_missing | tar: /data/x.tar: Cannot open: No such file or directory
file_missing | Error: Path '/data/x' does not exist.
usage | train.py: error: the following arguments are required: --data
usage | torchrun: error: argument --nproc-per-node/--nproc_per_node: expected one argument
usage | run_clm.py: error: ambiguous option: --model could match --model_name_or_path, --model_revision
usage | main.py: error: argument --dtype: invalid choice: 'fp8' (choose from 'fp16', 'bf16')
usage | Error: No such option: --foo
usage | Error: Got unexpected extra argument (train)
usage | Could not override 'trainer.foo'.
usage | LexerNoViableAltException: x=[
usage | Error executing job with overrides: ['x=1']#omegaconf.errors.ConfigAttributeError: Key 'x' is not in struct
import_error | /usr/bin/python: No module named pip
data_error | `Trainer.fit` stopped: No training batches.
build | target lamp: failed to solve: process "/bin/sh -c make" did not complete successfully: exit code: 2
import_error | Error while finding module specification for 'torch.distributed.run' (ModuleNotFoundError: No module named 'torch')
import_error | python: error while loading shared libraries: libpython3.10.so.1.0: cannot open shared object file: No such file or directory
build | ERROR: Could not build wheels for flash-attn, which is required to install pyproject.toml-based projects
build/import_error | ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This behaviour is the source of the following dependency conflicts.#x 1 requires y#ModuleNotFoundError: No module named 'x'
build |   x No solution found when resolving dependencies:
build | error: Failed to prepare distributions
build | error: Failed to build: `flash-attn==2.7`
build | error: externally-managed-environment
build | error: No virtual environment found; run `uv venv` to create an environment, or pass `--system` to install into a non-virtual environment
build | ninja: build stopped: subcommand failed.
build | error: command '/usr/local/cuda/bin/nvcc' failed with exit code 1
nccl_network | n1:1:2 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110
nccl_network | n1:1:2 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<3> with status=5 opcode=0 len=0 vendor err 244 (Recv)
nccl_network | n1:1:2 [0] bootstrap.cc:63 NCCL WARN Bootstrap : no socket interface found
nccl_network | n1:1:2 [1] misc/socket.cc:464 NCCL WARN socketStartConnect: Connect to 10.1.1.1<4> failed : Software caused connection abort
nccl_network | n1:1:2 [0] NCCL WARN NET/OFI Request 0x completed with error. RC: 113. Error: unknown error
nccl_network | n1:1:2 [0] misc/ibvwrap.cc:94 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory
cuda_device | [Fri Jan  1] NVRM: Xid (PCI:0000:4e:00): 48, pid='<unknown>', DBE (double bit error) ECC
cuda_device | Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error
cuda_device | Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU
cuda_mismatch | Failed to initialize NVML: Driver/library version mismatch
crash | srun: error: n1: task 2: Segmentation fault (core dumped)
crash | [n1:12345] *** Process received signal ***#[n1:12345] Signal: Segmentation fault (11)
crash | *** SIGSEGV received at time=1700000000 on cpu 3 ***
crash | free(): invalid pointer
crash | corrupted double-linked list
crash | !!!!!!! Segfault encountered !!!!!!!
crash | E0101 00:00:00.1 42 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -7) local_rank: 0 (pid: 43) of binary: /usr/bin/python
crash | Process Process-3: terminated by signal SIGSEGV
rendezvous_failure | [E101 00:00:00.1 socket.cpp:957] [c10d] The client socket has timed out after 60s while trying to connect to (n1, 29500).
collective_timeout | [E ProcessGroupNCCL.cpp:474] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800007 milliseconds before timing out.
hub_auth | wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)
hub_auth | remote: Invalid username or password.
nan_loss | Loss is nan, stopping training
disk_full | tee: out.log: No space left on device
disk_full | cp: error writing '/x/y': Disk quota exceeded
permission_denied | mkdir: cannot create directory '/data': Permission denied
permission_denied | bash: ./run.sh: Permission denied
filesystem_io | ls: cannot access '/data': Stale file handle
launcher | ERROR: Training failed with exit code 1
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
