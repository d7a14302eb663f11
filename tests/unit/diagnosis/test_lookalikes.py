# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501
"""Messages that sound like a family and are not of it, and those that belong to one by their meaning.

All are written for the test. One a row: the families that would be wrong (`NOT`) or right (`IS`), `a/b` where there are
two, the file and the function that raised it, and the message. `P/` is the folder of the installed packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis
from tests.repository import bullet_list
from tests.unit.diagnosis.test_signatures import diagnosed

TRACEBACK = (
    'start\nTraceback (most recent call last):\n  File "/home/me/train.py", line 3, in <module>\n    main()\n'
    '  File "{file}", line 9, in {function}\n    run(it)\n{message}\n'
)
PACKAGES = "/env/lib/python3.11/site-packages/"

NOT = """
file_missing | app/registry.py build | KeyError: 'resnet9' not found in registry
file_missing | app/head.py build | ValueError: Criterion focal2 not found.
file_missing | app/scene.py look | AssertionError: camera left not found in scene
file_missing | app/load.py load | KeyError: Parameter not found: head.bias
file_missing | app/table.py load | ValueError: the column speed was not found
file_missing | P/peft/model.py delete | ValueError: Adapter red does not exist
file_missing | app/tokens.py pick | ValueError: Could not find token 7 of the vocabulary
usage | app/model.py forward | ValueError: hidden states must be given where the mask is
usage | app/model.py forward | RuntimeError: CUDA error: invalid argument
usage | P/numpy/linalg.py solve | ValueError: part argument must be 'L' or 'U'
usage | P/pandas/core/frame.py join | ValueError: option inner is not supported for an index
usage | P/torch/nn/functional.py pad | RuntimeError: padding option reflect is not supported for 5 dimensions
usage | app/ops.py run | ValueError: unsupported dtype of the mask
usage | app/ops.py run | RuntimeError: cuDNN error: configuration is unsupported
usage | app/model.py build | AssertionError: invalid type for the norm, must be a tensor
usage | app/model.py loss_of | RuntimeError: a cell with projections is not supported by this backend option
usage | app/model.py loss_of | RuntimeError: unknown layout of the second operand
checkpoint | P/torch/utils/checkpoint.py backward | RuntimeError: torch.utils.checkpoint is incompatible with .grad()
shape_or_divisibility | app/conf.py f | ValueError: the platform of weights is different from types
usage | app/model.py fit | errors_impl.InvalidArgumentError: Graph execution error:
env_not_set | app/conf.py get | KeyError: 'OUTPUT_DIR'
abi_conflict | app/conf.py get | AttributeError: 'Config' object has no attribute 'max_tokens'
hub_auth | /usr/lib/python3.11/multiprocessing/connection.py answer | multiprocessing.context.AuthenticationError: digest received was wrong
rendezvous_failure | /usr/lib/python3.11/http/client.py connect | ConnectionRefusedError: [Errno 111] Connection refused
nccl_network | app/client.py open | OSError: [Errno 113] No route to host
offline | P/torch/distributed/rendezvous.py create | TimeoutError: [Errno 110] Connection timed out
file_missing | app/h5.py open | OSError: Unable to open file (truncated file: eof = 96)
cuda_device | app/jit.py load | RuntimeError: the cubin was not loaded: CUDA_ERROR_NO_BINARY_FOR_GPU
file_missing | app/lsf.py rank | ValueError: Environment variable `JOB_RANK` not found. Make sure to run it with jrun
host_oom_killed | P/cudf/core/frame.py copy | MemoryError: std::bad_alloc: out_of_memory: CUDA error at: rmm/mr/cuda.hpp
file_missing | app/plot.py draw | AttributeError: the model was not found, run create() first
offline | P/urllib3/util.py load | ssl.SSLError: folders of certificates are not supported
permission_denied | app/push.py push | PermissionError: Authentication failed during the upload
import_error | app/cuda.py check | ImportError: fused attention requires a GPU or an XPU
import_error/cuda_mismatch | app/a.py f | RuntimeError: the part was installed twice
abi_conflict | app/model.py build | TypeError: Block.__init__() got an unexpected keyword argument 'drop'
abi_conflict | app/data.py build | TypeError: DatasetOfMine.__init__() got an unexpected keyword argument 'root'
abi_conflict | P/torch/nn/modules/module.py __getattr__ | AttributeError: 'Net' object has no attribute 'first'
abi_conflict | P/numpy/core/numeric.py __getattr__ | AttributeError: module 'numpyx' has no attribute 'foo'
abi_conflict | app/store.py get | ValueError: the digest of version 1.25 was found, another was expected
data_error | app/rotation.py __getitem__ | ValueError: rotations are None
data_error | P/more_itertools/more.py __getitem__ | TypeError: the index argument is no slice
data_error | P/torch/utils/data/dataloader.py __init__ | ValueError: timeout argument must be positive
checkpoint | P/requests/utils.py check | requests.exceptions.InvalidHeader: header X-A has a line break
checkpoint | P/distlib/wheel.py install | DistlibException: size mismatch for a file of the wheel
cuda_device | app/kernels.py norm | RuntimeError: the fused norm requires CUDA tensors
cuda_device | app/attn.py pack | NotImplementedError: packing requires a GPU with at least Hopper architecture
container_start | app/data.py load | ValueError: [ERROR] processor of images not found
data_error | app/registry.py get | KeyError: 'RedLamps is not in the dataset registry'
data_error | app/data.py size | AttributeError: 'lamp_dataset' object has no attribute 'oil'
data_error | app/data.py size | AttributeError: the batch has no attribute 'oil'
data_error | app/table.py go | RuntimeError: the split is not initialized
file_missing | app/check.py keys | KeyError: 'the repository /data/lamps/a misses nothing, missing required keys: oil'
file_missing | app/check.py keys | ValueError: rows of /data/lamps/a.csv with missing values
nan_loss | app/store.py open | Exception: the file store is in maintenance mode, please migrate
nan_loss | app/loss.py add | AssertionError: the financial loss is unknown
nccl_shm | P/triton/run.py launch | RuntimeError: out of resources: shared memory limit, GPU has 101376 bytes
nccl_shm | app/mlp.py run | RuntimeError: insufficient shared memory available on the GPU
nccl_shm/data_error | P/torch/utils/data/dataloader.py _try_get_data | RuntimeError: DataLoader worker (pid 7) is killed by signal: Terminated.
nccl_shm/data_error | P/torch/utils/data/dataloader.py _try_get_data | RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault.
nccl_shm/data_error | P/torch/utils/data/dataloader.py _try_get_data | RuntimeError: DataLoader worker (pid 7) is killed by signal: Aborted.
hub_limit | app/bucket.py fill | AssertionError: the rate limit of the bucket is not kept
offline | P/wandb/run.py use | TypeError: an artifact cannot be used in offline mode
permission_denied | app/attr.py put | AttributeError: attribute x of the object is not writable
rendezvous_failure | app/lock.py enter | RuntimeError: Timed out waiting for lock of the cache
rendezvous_failure | P/torch/distributed/distributed_c10d.py check | TypeError: Expected timeout argument to be a timedelta
script_error | P/jinja2/lexer.py read | TemplateSyntaxError: unexpected end of the template
shape_or_divisibility | app/back.py pick | ValueError: the platform of the backend is different from that of the lowering
hub_auth | P/urllib3/connection.py tunnel | OSError: Tunnel connection failed: 403 Forbidden
shape_or_divisibility | app/serve.py wait | ValueError: no answer in 9 s, command=['serve', '--tp-size', '8', '--dp-size', '2']
launcher | P/lamps/build.py make | subprocess.CalledProcessError: Command '['/usr/bin/gcc', 'a.c', '-I/usr/include/python3.11']' returned non-zero exit status 1.
shape_or_divisibility | app/grad.py check | AssertionError: Expected input to have requires_grad set, but got one without
"""

IS = """
file_missing | app/vocab.py load | ValueError: a vocabulary file was not found at /data/v.txt
file_missing | app/data.py list | AssertionError: no tar shards found for the split train
file_missing | app/conf.py read | OSError: config file(conf/a.yml) doesnt exist
file_missing | app/norm.py get | ValueError: Norm statistics not found. Make sure to run `stats.py --config-name=NAME`.
file_missing | app/data.py open | ValueError: Cannot open /data/train.jsonl
file_missing | app/data.py open | RuntimeError: the dataset folder /data/coco is missing
usage | app/registry.py get | ValueError: Optimizer lion9 not found in registry
usage | app/registry.py get | KeyError: 'RedLamps is not in the model registry'
file_missing | app/data.py open | NotADirectoryError: [Errno 20] Not a directory: '/data/lamps.tar/a.txt'
offline | app/client.py ask | requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('no response'))
usage | app/opt.py build | ValueError: 'warm' is not one of the available options: cosine, linear
import_error | P/fast/kernels.py load | RuntimeError: this layer requires `kernels` to be installed
import_error | P/log/board.py start | ValueError: the board callback was chosen, but wandb is not installed
import_error | app/plot.py draw | AssertionError: matplotlib is needed: `pip install matplotlib`
abi_conflict | P/trl/trainer.py make | TypeError: Loader.__init__() got an unexpected keyword argument 'even'
abi_conflict | P/tf/utils.py check | ImportError: tokens>=0.22 is required, but found tokens==0.19.1
abi_conflict | P/mega/te.py init | AssertionError: at least version 2.7 of torch is required
env_not_set | /usr/lib/python3.11/os.py __getitem__ | KeyError: 'OUTPUT_DIR'
rendezvous_failure | P/torch/distributed/rendezvous.py create | TimeoutError: [Errno 110] Connection timed out
data_error | app/h5.py open | OSError: Unable to open file (truncated file: eof = 96)
cuda_mismatch | app/jit.py load | RuntimeError: the cubin was not loaded: CUDA_ERROR_NO_BINARY_FOR_GPU
cuda_oom | app/net.py run | OSError: (External) CUDA error(2), out of memory.
unused_parameters | P/lightning/ddp.py step | RuntimeError: the module has parameters that were not used in producing the loss of the step
env_not_set | app/lsf.py rank | ValueError: Environment variable `JOB_RANK` not found. Make sure to run it with jrun
checkpoint | app/load.py load | KeyError: model3 not found in state_dict
checkpoint | P/fab/fsdp.py load | ValueError: the folder /c/last is an incomplete checkpoint
checkpoint | P/torch/serialization.py load | _pickle.UnpicklingError: Weights only load failed: the class is unknown
data_error | app/table.py load | ValueError: label column not found in the table
env_not_set | P/megatron/core/parallel_state.py get | AssertionError: tensor model parallel group is not initialized
env_not_set | app/conf.py get | OSError: Environment variable 'DATA_HOME' is not set
cuda_mismatch | P/torch/distributed/distributed_c10d.py new | RuntimeError: Distributed package doesn't have NCCL built in
cuda_mismatch | app/attn.py pack | NotImplementedError: packing requires a GPU with at least Hopper architecture
cuda_device | app/main.py main | AssertionError: DDP requires CUDA
hub_auth | app/llm.py start | ValueError: No Together API key provided
nan_loss | app/clip.py clip | ValueError: Audio contains NaN values
shape_or_divisibility | app/mask.py check | ValueError: the size of the mask (7) differs from the features (9)
rendezvous_failure | P/jax/_src/distributed.py initialize | jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: failed to connect to all addresses
address_in_use | app/serve.py wait | ValueError: port_of_lamp at 7000 is used by another process
address_in_use | app/serve.py wait | RuntimeError: Port 7000 of the server is already taken by pid 12
build | P/lamps/build.py make | subprocess.CalledProcessError: Command '['/usr/bin/c++', 'a.cc', '-I/usr/include/python3.11']' returned non-zero exit status 1.
offline | P/urllib3/connection.py tunnel | OSError: Tunnel connection failed: 403 Forbidden
collective_timeout | P/jax/_src/distributed.py shutdown | jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: Shutdown::3
"""


def rows(block: str) -> Iterator[tuple[list[str], str, str]]:
    """Families, log and message of each row."""
    for row in block.strip().splitlines():
        families, place, message = row.split(" | ", 2)
        file, function = place.replace("P/", PACKAGES).rsplit(" ", 1)
        yield families.split("/"), TRACEBACK.format(file=file, function=function, message=message), message


def test_what_only_sounds_like_a_family_is_not_of_it() -> None:
    found = [(families, diagnosed(log).family, message) for families, log, message in rows(NOT)]
    wrong = [f"{message!r} is taken for {family}" for families, family, message in found if family in families]
    assert len(found) > 40 and not wrong, bullet_list(wrong)


def test_what_means_the_same_in_other_words_is_of_the_family() -> None:
    found = [(families, diagnosed(log).family, message) for families, log, message in rows(IS)]
    wrong = [f"{message!r} is taken for {family}" for families, family, message in found if family not in families]
    assert len(found) > 20 and not wrong, bullet_list(wrong)


def test_an_operation_refuses_no_setting_where_a_check_of_the_program_does() -> None:
    """What an operation of a compiled library refuses is no setting, in the same words."""
    log = TRACEBACK.format(
        file="app/conf.py", function="build", message="RuntimeError: the mode of backend x is unsupported"
    )
    assert diagnosed(log).family == "exception"
    assert diagnosed(log.replace("run(it)", 'raise RuntimeError(f"the mode of")')).family == "usage"


def advised(folder: Path, text: str) -> Diagnosis:
    (folder / "job.log").write_text(text)
    found = scan.scan(scan.find_logs(str(folder)))
    return advice.diagnosis_of(cause.find_cause(found.logs), found, str(folder))


ADVISED = (
    ("ImportError: cannot import name 'a_loss' from 'transformers' (/x/__init__.py)", "spelled", "LD_LIBRARY_PATH"),
    ("RuntimeError: Error(s) in loading state_dict for Net:", "configuration", "cut short"),
    ("ImportError: /lib/libc.so.6: version `GLIBC_2.34' not found (required by a.so)", "container.image", "lock torch"),
    ("RuntimeError: No CUDA GPUs are available", "gpus_per_node", "exclude"),
    ("ImportError: cannot import name 'a' from partially initialized module 'utils' (/x)", "rename", "LD_LIBRARY_PATH"),
    (
        "ImportError: cannot import name 'a_loss' from 'mylib' (/e/lib/python3.11/site-packages/mylib/__init__.py)",
        "lacks",
        "another Python runs",
    ),
    ("ImportError: cannot import name 'a_loss' from 'mylib' (/home/me/mylib.py)", "not defined there", "lock it"),
    ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory", "system", "extras"),
    ("ValueError: Default process group has not been initialized", "init_process_group", "MASTER_ADDR"),
    ("OSError: [Errno 24] Too many open files", "ulimit -n", "df -h"),
    ("RuntimeError: can't start new thread", "OMP_NUM_THREADS", "df -h"),
    ("OSError: m/x is not a local folder and is not a valid model identifier", "shared storage", "WANDB"),
    ("openai.RateLimitError: Error code: 429", "fewer requests", "HF_HUB_OFFLINE"),
    ("requests.exceptions.SSLError: certificate verify failed", "SSL_CERT_FILE", "HF_HUB_OFFLINE"),
    ("ValueError: Input X contains NaN.", "data", "gradient clipping"),
    ("SyntaxError: invalid syntax", "environment.python", "setup.commands"),
    ("ValueError: Mel spectrogram contains NaN", "data first", "bf16"),
    (
        "ValueError: Unrecognized model in /m/x. Should have a `model_type` key",
        "older than the model",
        "line says which",
    ),
    ("ValueError: the chat_template is not set", "tokenizer", "line says which"),
    ("AssertionError: Megatron requires CUDA.", "gpus_per_node", "exclude"),
    ("_pickle.UnpicklingError: Weights only load failed", "weights_only=False", "parallelism"),
    ("ImportError: No module named lamps.red", "Python 2", "lacks that part"),
    ("ModuleNotFoundError: No module named 'lamps.red'", "lacks that part", "Python 2"),
    ("ImportError: cannot import name 'red' from 'torch' (unknown location)", "folder", "versions that fit"),
    ("ImportError: cannot import name 'red' from 'lamps' (unknown location)", "folder", "not defined there"),
    ("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0", "precision", "gradient clipping"),
    ("http.client.RemoteDisconnected: Remote end closed connection without response", "its own log", "HF_HUB_OFFLINE"),
)


@pytest.mark.parametrize(("message", "named", "unnamed"), ADVISED)
def test_a_wording_gets_the_advice_that_its_own_cause_needs(
    tmp_path: Path, message: str, named: str, unnamed: str
) -> None:
    told = advised(tmp_path, TRACEBACK.format(file="app/main.py", function="main", message=message))
    assert named in told.remedy and unnamed not in told.remedy, told.remedy
    assert not told.blame


WORDED = (
    ("ImportError: cannot import name 'a_loss' from 'transformers' (/x/__init__.py)", "no such name", "extension"),
    ("RuntimeError: Error(s) in loading state_dict for Net:", "another configuration", "damaged"),
    ("RuntimeError: No CUDA GPUs are available", "sees no GPU", "broken"),
    ("ImportError: /lib/libc.so.6: version `GLIBC_2.34' not found (required by a.so)", "system library", "extension"),
    ("ValueError: Free memory on device (1/80 GiB) on startup is less than desired GPU memory", "server", "full"),
    ("OSError: [Errno 24] Too many open files", "open files", "/dev/shm"),
    ("RuntimeError: can't start new thread", "thread", "/dev/shm"),
    ("ValueError: Input X contains NaN.", "value", "gradient"),
    ("SyntaxError: invalid syntax", "Python file", "batch script"),
    ("ValueError: Default process group has not been initialized", "process group", "variable"),
    ("OSError: m/x is not a local folder and is not a valid model identifier", "folder", "token"),
    ("requests.exceptions.SSLError: certificate verify failed", "certificate", "without a network"),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", "operation", "lost"),
    ("RuntimeError: Error building extension 'lamps'", "compiled", "installed"),
    ("NotADirectoryError: [Errno 20] Not a directory: '/data/a.egg/b'", "not a folder: /data/a.egg/b", "missing"),
    ("ray.exceptions.OutOfMemoryError: ended due to the node running low on memory", "Ray", "kernel"),
    ("aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected", "server closed", "without a network"),
    ("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0", "probabilities", "gradient"),
)


@pytest.mark.parametrize(
    ("file", "function", "message", "named", "unnamed"),
    [
        ("torch/optim/adamw.py", "step", "RuntimeError: The size of tensor a (9) must match 3", "optimizer", "batch"),
        ("torch/serialization.py", "__init__", "RuntimeError: File out/a.pt cannot be opened.", "written", "damaged"),
        ("torch/serialization.py", "save", "RuntimeError: Parent directory out does not exist.", "written", "missing"),
    ],
)
def test_where_it_was_raised_decides_what_is_said(
    tmp_path: Path, file: str, function: str, message: str, named: str, unnamed: str
) -> None:
    told = advised(tmp_path, TRACEBACK.format(file=f"/x/site-packages/{file}", function=function, message=message))
    assert named in told.what and unnamed not in told.what + told.remedy, told


def test_ssh_that_finds_no_node_is_no_download(tmp_path: Path) -> None:
    told = advised(tmp_path, "ssh: Could not resolve hostname worker-1: Name or service not known\n")
    assert told.family == "rendezvous_failure" and "srun" in told.remedy
    told = advised(tmp_path, "ssh: Could not resolve hostname lm-job-worker-5.lm-job: Name or service not known\n")
    assert told.family == "rendezvous_failure" and "srun" in told.remedy
    told = advised(tmp_path, "ssh: Could not resolve hostname git.example: Name or service not known\n")
    assert told.family == "offline"


def test_logs_that_show_nothing_are_not_said_to_show_no_failure(tmp_path: Path) -> None:
    told = advised(tmp_path, "loading\n")
    assert told.family == "unknown" and "known" in told.what


@pytest.mark.parametrize(("message", "named", "unnamed"), WORDED)
def test_a_wording_is_described_by_what_it_means_itself(tmp_path: Path, message: str, named: str, unnamed: str) -> None:
    told = advised(tmp_path, TRACEBACK.format(file="app/main.py", function="main", message=message))
    assert named in told.what and unnamed not in told.what, told.what


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: Task launch for StepId=12.0 failed on node n3: Communication connection failure",
        "srun: error: Task launch for StepId=12.0 failed on node n3: Slurmd could not set up the environment",
        "srun: error: Unable to create step for job 12: Unable to contact slurm controller (connect failure)",
        "srun: error: Application launch failed: Zero Bytes were transmitted or received",
    ],
)
def test_a_launch_that_slurm_does_not_answer_is_no_refused_option(tmp_path: Path, line: str) -> None:
    told = advised(tmp_path, f"start\n{line}\nsrun: error: Timed out waiting for job step to complete\n")
    assert (told.family, told.root and told.root.text) == ("sbatch_rejected", line)
    assert "resources.exclude" in told.remedy and "partition" not in told.remedy
    refused = advised(tmp_path, "srun: error: Unable to create step for job 1: More processors requested\n")
    assert "resources.partition" in refused.remedy
    asked = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    told = advised(tmp_path, asked + TRACEBACK.format(file="app/a.py", function="f", message="KeyError: 'a'"))
    assert told.family == "exception", "a command of the batch script asked"


def test_a_step_of_a_job_that_has_ended_is_no_refused_option(tmp_path: Path) -> None:
    line = "srun: error: Unable to confirm allocation for job 12: Invalid job id specified\n"
    assert "SLURM_JOB_ID" in advised(tmp_path, line).remedy
    line = "srun: error: Unable to create step for job 12: Job/step already completing or completed\n"
    told = advised(tmp_path, line)
    assert told.confidence == "medium" and "what ended the job" in told.remedy and "partition" not in told.remedy


def test_the_reason_of_a_container_counts_more_than_the_report_that_it_did_not_start() -> None:
    report = "slurmstepd: error: pyxis: {}\n"
    reasons = ["mkdir: cannot create directory '/raid': Permission denied", "[ERROR] URL https://a returned error: 401"]
    for reason in reasons:
        found = diagnosed(
            report.format("child 42 failed with error code: 1")
            + report.format("printing enroot log file:")
            + report.format("    [INFO] Querying the registry")
            + report.format(f"    {reason}")
            + report.format("couldn't start container")
        )
        assert found.family == "container_start" and found.root and found.root.text.endswith(reason)


def test_an_error_of_a_fortran_program_is_no_crash_unless_it_names_a_signal() -> None:
    for line in (
        "error (200): program aborting due to window-CLOSE event",
        "severe (24): end-of-file during read, unit 7",
    ):
        assert diagnosed(f"start\nforrtl: {line}\n").family != "crash"
    assert diagnosed("start\nforrtl: severe (174): SIGSEGV, segmentation fault occurred\n").family == "crash"


def test_an_error_in_columns_is_of_no_container() -> None:
    assert diagnosed("start\nERROR  : the table has no rows\n").family != "container_start"
    assert diagnosed("start\nERROR  : Failed to create user namespace: it is disabled\n").family == "container_start"


def test_a_library_that_refuses_a_keyword_itself_fits_its_caller() -> None:
    message = "TypeError: pop() got an unexpected keyword argument 'sorted'"
    log = TRACEBACK.format(file=f"{PACKAGES}table/core.py", function="pop", message=message)
    assert diagnosed(log).family == "abi_conflict"
    assert diagnosed(log.replace("run(it)", "raise TypeError(")).family == "exception"


def test_the_end_of_jax_by_its_service_points_to_another_task() -> None:
    fatal = "2026-01-01 00:00:00.1: F external/xla/client.h:80] {}\n"
    ends = fatal.format("Terminating process because the JAX distributed service detected fatal errors.")
    assert diagnosed("start\n" + ends).family == "peer_lost"
    gone = fatal.replace(" F ", " E ").format("coordination service: UNAVAILABLE: task:1 heartbeat timeout")
    assert diagnosed("start\n" + gone).family == "peer_lost"
    lost = fatal.replace(" F ", " E ").format("Failed to connect to coordination service. UNAVAILABLE")
    assert diagnosed("start\n" + lost).family == "rendezvous_failure"


def test_what_an_operation_refuses_is_no_argument_however_long_its_traceback_is() -> None:
    message = "RuntimeError: the option `groups` is not supported"
    log = TRACEBACK.format(file=f"{PACKAGES}lamps/ops.py", function="apply", message=message)
    deep = "".join(f'  File "{PACKAGES}lamps/{line}.py", line 8, in outer\n    inner()\n' for line in range(60))
    long = log.replace('  File "/home', deep + '  File "/home')
    assert diagnosed(log).family == diagnosed(long).family == "exception"
    checked = [text.replace("run(it)", "raise RuntimeError(message)") for text in (log, long)]
    assert [diagnosed(text).family for text in checked] == ["usage", "usage"]
