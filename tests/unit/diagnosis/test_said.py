# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of lines that one family knows for several causes, and of logs that are cut or carry prefixes."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import parse_line
from tests.unit.diagnosis.test_facts import diagnosed
from tests.unit.diagnosis.test_signatures import TRACEBACK

FRAMES = 'Traceback (most recent call last):\n  File "/w/fit.py", line 4, in <module>\n    lamp()\n'
CREATION = "FATAL:   container creation failed: "
# Of one family: the line, and words of what is said and of what is to be done.
CONTAINERS = [
    (
        "FATAL:   While checking container encryption: could not open image /x.sif: lstat /x.sif: no such file",
        "image was not found",
        "container.image",
    ),
    (
        "FATAL:   While checking container encryption: could not open image /x.sif: image format not recognized",
        "cannot be mounted",
        "build or import it again",
    ),
    ("Error: reading manifest 1 in r.invalid/x: manifest unknown", "image was not found", "container.image"),
    ("slurmstepd: error: pyxis:     [ERROR] No such file or directory: /x.sqsh", "image was not", "shared storage"),
    ("Error response from daemon: toomanyrequests: rate limit", "registry limits", "before the job"),
    (f"{CREATION}mount /a->/a error: while mounting /a: mount source /a doesn't exist", "mounted", "container.mounts"),
    (
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]]',
        "GPUs",
        "toolkit",
    ),
    (f'{CREATION}exec: "/usr/bin/nvidia-container-cli": stat: no such file', "GPUs", "toolkit"),
    (
        "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory",
        "does not have the program",
        "command",
    ),
    (
        f"{CREATION}mount /proc/self/fd/3->/r error: can't mount image /proc/self/fd/3: failed to mount squashfs: x",
        "cannot be mounted",
        "build or import it again",
    ),
    (
        f"{CREATION}mount /proc/self/fd/3->/r error: failed to find loop device: no loop devices available",
        "does not let this user",
        "administrators",
    ),
    (
        "slurmstepd: error: pyxis:     mkdir: cannot create directory '/run/enroot': Permission denied",
        "does not let this user",
        "administrators",
    ),
]


@pytest.mark.parametrize(("line", "what", "remedy"), CONTAINERS)
def test_a_container_that_did_not_start_has_the_remedy_of_its_own_cause(line: str, what: str, remedy: str) -> None:
    found = diagnosed(f"slurmstepd: error: pyxis: container start failed with error code: 1\n{line}\n")
    assert (found.family, what in found.what, remedy in found.remedy) == ("container_start", True, True), found


@pytest.mark.parametrize(
    "line",
    [
        "Could not open image /data/0012.jpg, skipping it",
        "INFO Could not open image /data/0012.jpg",
        "2026-01-01 00:00:00,1 [ERROR] Invalid image: x.jpg, skipped",
        "worker 3 [ERROR] URL https://img.x/7.jpg timed out",
        "WARNING could not select device driver for camera 3",
        "SOCIETY: fit is not found in $PATH, and not needed",
    ],
)
def test_what_a_program_says_of_a_picture_or_a_camera_is_of_no_container(line: str) -> None:
    found = diagnosed(f"{line}\n" + TRACEBACK.format("KeyError: 'lamp'"))
    assert found.root and found.root.text == "KeyError: 'lamp'", found
    steps = "".join(f"step {number}/8 loss 1.{number}\n" for number in range(1, 9))
    assert diagnosed(f"{line}\n{steps}").healthy


def test_an_image_without_a_slash_is_looked_for_in_a_registry() -> None:
    failed = (
        "slurmstepd: error: pyxis: failed to import docker image\nsrun: error: n1: task 0: Exited with exit code 1\n"
    )
    found = diagnosed(f"pyxis: importing docker image: lamps.sqsh\n{failed}")
    assert "lamps.sqsh is taken for the name" in found.what and "full path" in found.remedy
    assert "registry" not in diagnosed(f"pyxis: importing docker image: lamps:1.2\n{failed}").what


@pytest.mark.parametrize(
    ("text", "family", "what"),
    [
        # A shape is wrong where no GPU has as much.
        (
            TRACEBACK.format(
                "RuntimeError: CUDA out of memory. Tried to allocate 98304.50 GiB (GPU 0; 79.15 GiB total)"
            ),
            "cuda_oom",
            "one tensor of 98304.50 GiB",
        ),
        (
            TRACEBACK.format("RuntimeError: CUDA out of memory. Tried to allocate 96.50 GiB (GPU 0; 79.15 GiB total)"),
            "cuda_oom",
            "memory is full",
        ),
        (
            (
                "2026-01-01 00:00:00.1: E xla/x.cc:8]   (1) RESOURCE_EXHAUSTED: Attempting to reserve 7.48G at "
                "the bottom of memory."
            ),
            "cuda_oom",
            "HBM",
        ),
        (TRACEBACK.format("RuntimeError: Could not infer dtype of numpy.int64"), "numpy_abi", "numpy 2"),
        (
            (
                'Traceback (most recent call last):\n  File "/x/synchronize.py", line 162, in '
                "__init__\n    SemLock.__init__(self, 1)\nOSError: [Errno 28] No space left on device"
            ),
            "nccl_shm",
            "/dev/shm",
        ),
        (
            (
                "ERROR: pip's dependency resolver does not currently take into account all the packages.\n"
                "lamps 1.0 requires bulbs==2.3, but you have bulbs 2.2 which is incompatible."
            ),
            "build",
            "lamps 1.0 requires bulbs==2.3",
        ),
        (
            "init.cc:1 NCCL WARN Mismatched collective detected, please check your calls at and around rank 3.",
            "collective_timeout",
            "different collectives",
        ),
        (
            (
                "The actor is dead because its worker process has died. (1) The process is killed "
                "by SIGKILL by OOM killer due to high memory usage."
            ),
            "peer_lost",
            "does not know why",
        ),
        (
            "[n1:4:0:4] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_2:1/IB (synd 0x15 vend 0x81)",
            "nccl_network",
            "did not answer",
        ),
        (
            "[1.2] [n2:7:0]  ib_device.c:1163 UCX  ERROR   ibv_create_ah(dlid=4 sl=0) for UD connect failed: x",
            "nccl_network",
            "refused",
        ),
        (
            "EH9999: 2026-01-01-11:28:40.1  wait for compute device to finish failed, runtime result = 107020.[FUNC:x]",
            "cuda_device",
            "NPU",
        ),
        (
            ("MisconfigurationException: You requested gpu: [0, 1]\n But your machine only has: [0]"),
            "cuda_device",
            "",
        ),
        ("MisconfigurationException: No `training_step()` method defined. It expects", "usage", "training_step"),
        (
            "MisconfigurationException: ModelCheckpoint(monitor='lux') not found in the returned metrics: []",
            "usage",
            "does not log",
        ),
        ("                 NVRM: fallen off the bus and is not responding to commands.", "cuda_device", "kernel"),
        (
            "An ORTE daemon has unexpectedly failed after launch and before\ncommunicating back to mpirun.",
            "rendezvous_failure",
            "daemons",
        ),
        (
            "submitit WARNING (2026-01-01 00:00:00,1) - Caught signal SIGUSR1 on n1: this job is preempted.",
            "preempted_or_cancelled",
            "preempted",
        ),
        (
            (
                "  (0) Unknown: This is probably because cuDNN failed to initialize, so try "
                "looking to see if a warning was printed above."
            ),
            "cuda_device",
            "cuDNN",
        ),
        (
            TRACEBACK.format(
                "subprocess.CalledProcessError: Command 'ssh n2 hostname' returned non-zero exit status 255."
            ),
            "rendezvous_failure",
            "by ssh",
        ),
        ("Failed to initialize NVML: Driver/library version mismatch", "cuda_mismatch", "has not been restarted"),
        (
            (
                "2026-01-01 00:00:00.1: E x/cuda_dnn.cc:393] possibly insufficient driver version: 384.1.0\n"
                "2026-01-01 00:00:00.1: F x/conv_ops.cc:717] Check failed: stream->parent()\nAborted (core dumped)"
            ),
            "cuda_mismatch",
            "too old",
        ),
        (TRACEBACK.format("RuntimeError: Cannot find a working triton installation."), "import_error", "triton"),
        (
            "socketStartConnect: Connect to fe80::42:a2%ib1<17943> failed : Software caused connection abort",
            "nccl_network",
            "only its own node",
        ),
        (TRACEBACK.format("wandb.errors.CommError: Error uploading run: returned error 404"), "hub_auth", "refused"),
    ],
)
def test_a_line_is_told_as_what_it_is(text: str, family: str, what: str) -> None:
    found = diagnosed(f"start\n{text}\n")
    assert (found.family, what in found.what) == (family, True), found


BUILT = (
    "      Traceback (most recent call last):\n"
    '        File "/x/setuptools/build_meta.py", line 331, in get_requires_for_build_wheel\n'
    "          return self._get_build_requires(settings)\n"
    '        File "<string>", line 22, in <module>\n'
    "      ModuleNotFoundError: No module named 'bulbs'\n"
)


@pytest.mark.parametrize(
    "before", ["  \u00d7 Failed to build `lamps==2.8`\n  The build backend returned an error\n", ""]
)
@pytest.mark.parametrize("after", ["", "ERROR: Failed to build 'lamps' when getting requirements to build wheel\n"])
def test_what_a_build_lacks_is_said_and_not_only_that_it_failed(before: str, after: str) -> None:
    found = diagnosed(f"Resolved 44 packages\n{before}{BUILT}{after}")
    assert (found.family, "imports bulbs" in found.what, "isolation" in found.remedy) == ("build", True, True), found
    assert diagnosed(TRACEBACK.format("ModuleNotFoundError: No module named 'bulbs'")).family == "import_error"


@pytest.mark.parametrize(
    ("above", "line"),
    [
        ("Could not load the lamp library: it is of another make", 2),
        ("/x/cuda/Indexing.cu:1284: lookUp: block: [3,0,0], thread: [9,0,0] Assertion `at < size` failed.", 2),
    ],
)
@pytest.mark.parametrize("cut", [FRAMES, FRAMES + '  File "/w/lamp.py", line 379, in forw', FRAMES[:-11]])
def test_a_complaint_above_a_cut_traceback_counts_more_than_its_last_frame(above: str, line: int, cut: str) -> None:
    found = diagnosed(f"start\n{above}\n{cut}")
    assert found.root and (found.root.line, found.root.text) == (line, above)
    ranked = "".join(f"[rank0]: {text}\n" for text in cut.splitlines())
    assert diagnosed(f"start\n{above}\n{ranked}").root == found.root


def test_a_traceback_that_is_cut_below_other_words_is_shown_itself() -> None:
    for words in ("the lamps are on", "WARNING: could not find a lamp", "Failed lamp 3: retrying\n" + 9 * "on\n"):
        found = diagnosed(f"start\n{words}\n{FRAMES}")
        assert found.root and found.root.text == "    lamp()" and "within a traceback" in found.what


@pytest.mark.parametrize(
    "prefix", ["vllm-1  | ", "lamps_api_1   | ", "vllm-1  | ERROR 11-18 18:07:28 engine.py:366] ", "ERROR:    "]
)
@pytest.mark.parametrize(
    ("last", "family"),
    [
        ("ValueError: No available memory for the cache blocks. Try increasing it.", "cuda_oom"),
        ("PermissionError: [Errno 13] Permission denied: '/app/.lamp'", "permission_denied"),
    ],
)
def test_well_known_prefixes_hide_no_line_from_any_family(prefix: str, last: str, family: str) -> None:
    for lines in (TRACEBACK.format(last).splitlines(), TRACEBACK.format(last).splitlines()[1:], [last]):
        found = diagnosed("".join(f"{prefix}{line}\n" for line in lines))
        assert (found.family, found.root and found.root.text) == (family, last), lines


def test_a_step_and_a_table_have_no_service_before_them() -> None:
    for name in ("epoch-{}", "global_step-{}", "EPOCH-{} ", "global_step-{} ", "batch_{}  "):
        steps = [f"{name.format(number)} | loss 1.{number} | lr 0.1" for number in range(1, 9)]
        assert diagnosed("".join(f"{step}\n" for step in steps)).healthy
        assert [parse_line(1, step.encode()).text for step in steps] == steps
    table = (
        "layer_1          | Linear            | 4.2 M  | train",
        "encoder_layer_2  | MultiheadAttn     | 12.6 M | train",
        "recall_5         | 0.4121",
        "top-1            |  71.3% |",
        "loss_2           | 1.5e-3 | 0.2",
        "resnet-50        | 25.6M  | 76.1",
        "block_3          | nan",
    )
    assert [parse_line(1, row.encode()).text for row in table] == list(table)
    assert {parse_line(1, row.encode()).process for row in table} == {""}
    # docker compose writes two blanks at least.
    model = parse_line(1, b"resnet-50 | loss 0.4")
    assert (model.text, model.process) == ("resnet-50 | loss 0.4", "")
    assert diagnosed("ERROR: Exception:\nTraceback (most recent call last):\n").family == "build"


@pytest.mark.parametrize(
    "said",
    [
        "step 3 | loss 0.4",
        "2 GPUs are used",
        "2026-01-01 00:00:00.000 | ERROR    | __main__:fit:3 - no",
        "RuntimeError: no | yes",
        "    | ValueError: no",
        "",
    ],
)
def test_what_a_service_of_docker_compose_says_is_read_without_its_name(said: str) -> None:
    line = parse_line(1, f"vllm-1  | {said}".encode())
    assert (line.text, line.process) == (said.removeprefix("    | "), "vllm-1"), line


def test_a_warning_before_the_cause_is_not_said_to_follow_it() -> None:
    warned = "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.0 as it may crash.\n"
    found = diagnosed(warned + TRACEBACK.format("KeyError: 'lamp'"))
    assert found.root and found.root.text == "KeyError: 'lamp'" and len(found.chain) == 1
    assert len(diagnosed(TRACEBACK.format("KeyError: 'lamp'") + warned).chain) == 2


def test_a_lost_peer_is_named_though_it_stands_before_the_cause() -> None:
    lost = "torch.distributed.DistBackendError: NCCL error in: x, ncclRemoteError: A call failed in a remote process"
    killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=4.0. Some of the step tasks have been OOM Killed."
    found = diagnosed(f"{lost}\n{killed}\n")
    assert found.family == "host_oom_killed" and len(found.chain) == 2, found.chain
