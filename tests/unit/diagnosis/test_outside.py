# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ends a program from outside, what it says while it ends, and what did not end it at all.

The logs are written for the test, in words of their own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from tests.unit.diagnosis.test_appended import bars, diagnosed, top
from tests.unit.diagnosis.test_cause import CHILD, STEPS, WATCHDOG, raised, read, root

SCRIPT = "/var/spool/slurmd/job7/slurm_script: line {0}: {1}: command not found\n"
CANCELLED = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
STEP_GONE = (
    "srun: error: n1: task 2: Exited with exit code 1\nsrun: Terminating StepId=7.0\n"
    "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
)
PROSE = "".join(f"the model has a layer named block{number}\n" for number in range(80))


def found(text: str) -> tuple[str, str, str]:
    diagnosis = cause.find_cause([read(text)])
    return diagnosis.family, diagnosis.confidence, diagnosis.root.text if diagnosis.root else ""


def test_a_script_that_ran_its_program_all_the_same_is_no_cause() -> None:
    complaint = SCRIPT.format(3, "module")
    assert root(complaint + bars(1, 9) + CANCELLED)[0] == "preempted_or_cancelled"
    assert root(complaint + PROSE)[0] == cause.UNKNOWN
    # Without the program itself, what follows is no work of it.
    assert root(SCRIPT.format(3, "torchrun") + PROSE)[0] == "script_error"
    assert root(complaint + "done\n")[0] == "script_error"


def test_what_processes_raise_after_srun_has_ended_their_step_follows_from_it() -> None:
    words = "Renderer: unable to find the device 2 among 7\n"
    late = raised("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded")
    assert root(words + STEP_GONE + late + CANCELLED) == ("launcher", words.strip())
    # Where nothing was said before, the rank's own words came late.
    assert root(STEP_GONE + raised("KeyError: 'a'"))[1] == "KeyError: 'a'"


def test_a_thread_that_dies_does_not_end_the_program() -> None:
    thread = "Exception in thread Thread-4:\n" + raised("RuntimeError: failed finding central directory")
    preempted = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***\n"
    assert root(thread + preempted)[0] == "preempted_or_cancelled"
    twice = "Exception in thread Exception in thread Thread-5Thread-4:\n:\n" + 2 * raised("EOFError: Ran out of input")
    assert root(twice + preempted)[0] == "preempted_or_cancelled"
    # Nothing else ended it.
    assert root(thread)[1] == "RuntimeError: failed finding central directory"
    assert root(thread + raised("KeyError: 'a'"))[1] == "KeyError: 'a'"


@pytest.mark.parametrize(("number", "family", "confidence"), [(1, "preempted_or_cancelled", "high"), (15, "", "low")])
def test_a_signal_that_torchrun_got(number: int, family: str, confidence: str) -> None:
    frames = '  File "/x/bin/torchrun", line 8, in <module>\n'
    error = f"torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: {number}\n"
    diagnosis = found(f"Traceback (most recent call last):\n{frames}{error}")
    assert diagnosis[:2] == (family or "preempted_or_cancelled", confidence)
    # srun sends SIGTERM because another rank has failed.
    earlier = raised("KeyError: 'a'")
    assert found(f"{earlier}Traceback (most recent call last):\n{frames}{error}")[2] == "KeyError: 'a'"


@pytest.mark.parametrize(
    "last_words",
    [
        raised("_pickle.UnpicklingError: pickle data was truncated", frame="/usr/lib/multiprocessing/spawn.py"),
        "terminate called without an active exception\nFatalError: `Process abort signal` is detected by the system.\n",
        raised("RuntimeError: the queue is closed"),
    ],
)  # fmt: skip
def test_what_a_program_says_after_ctrl_c_is_no_cause(last_words: str) -> None:
    assert root(raised("KeyboardInterrupt") + last_words)[0] == "preempted_or_cancelled"


def test_a_failure_before_ctrl_c_or_in_a_later_run_counts() -> None:
    assert root(raised("KeyError: 'a'") + raised("KeyboardInterrupt"))[1] == "KeyError: 'a'"
    assert root(raised("KeyboardInterrupt") + STEPS + raised("KeyError: 'a'"))[1] == "KeyError: 'a'"


def test_a_process_that_the_watchdog_aborts_did_not_crash_by_itself() -> None:
    assert root(WATCHDOG + " in Fatal Python error: _feedAborted\nterminate called recursively\n")[0] == (
        "collective_timeout"
    )
    assert root("Fatal Python error: Segmentation fault\n" + WATCHDOG)[0] == "crash"


def test_an_exception_of_the_program_counts_after_the_end_of_a_part_of_its_work() -> None:
    trained = STEPS + "Training completed.\n"
    assert root(trained + top("TypeError: ones() needs a tensor"))[1] == "TypeError: ones() needs a tensor"
    # What a child or a destructor raises while the program ends does not.
    child = raised("TypeError: ones() needs a tensor").replace('"train.py"', '"/usr/lib/python3.11/queue.py"')
    assert root(trained + child)[0] == cause.HEALTHY


def test_a_cause_after_which_its_file_goes_on_is_not_certain() -> None:
    oom = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert found(oom)[1] == "high"
    assert found(oom + PROSE)[1] == "medium"


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: Expected tensor for argument #2 'rows' to have one of these scalar types: Long; but got Half",
        "TypeError: zeros() received a wrong combination of arguments",
        "ValueError: only supports writing to a path, but got <class 'io.BytesIO'>",
        "ValueError: (InvalidArgument) The input of mean should be a float",
        "NotImplementedError: Could not run 'aten::bmm' with arguments from the 'Meta' backend.",
    ],
)
def test_a_mistake_in_the_program_is_of_no_family(message: str) -> None:
    log = raised(message, frame="train.py").replace("in step", "in tokenize_and_go")
    assert root(log) == ("exception", message)


def test_a_list_of_errors_names_its_first_one() -> None:
    listed = (
        "tensorflow.python.framework.errors_impl.NotFoundError: 2 root error(s) found.\n"
        "  (0) Not found:  shards/0007.bin; No such file or directory\n\t [[{{node Read}}]]\n"
    )
    assert root(raised(listed.rstrip())) == (
        "file_missing",
        "  (0) Not found:  shards/0007.bin; No such file or directory",
    )


@pytest.mark.parametrize(
    "died",
    [
        "RuntimeError: CUDA error: device-side assert triggered",
        "torch.AcceleratorError: CUDA error: device-side assert triggered at line 7",
        "OSError: (External) CUDA error(710), device-side assert triggered.",
    ],
)
def test_an_index_out_of_range_in_a_kernel_is_no_broken_gpu(tmp_path: Path, died: str) -> None:
    found = diagnosed(tmp_path, raised(died, "node07: "))
    assert (found.family, found.confidence, found.blame, found.retry) == ("device_assert", "high", [], False)
    assert "CUDA_LAUNCH_BLOCKING" in found.remedy and "exclude" not in found.remedy


@pytest.mark.parametrize(
    ("died", "blame"),
    [
        ("RuntimeError: CUDA error: uncorrectable NVLink error", ["node07"]),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", []),
        ("RuntimeError: CUDA error: invalid device ordinal", []),
    ],
)
def test_only_a_broken_gpu_blames_its_node(tmp_path: Path, died: str, blame: list[str]) -> None:
    """And only where a witness says so."""
    assert diagnosed(tmp_path, raised(died, "node07: ")).blame == []
    logs = scan.scan(scan.find_logs(str(tmp_path)))
    for log in logs.logs:
        log.events = [replace(event, witness=True) for event in log.events]
    found = advice.diagnosis_of(cause.find_cause(logs.logs), logs)
    assert (found.family, found.blame) == ("cuda_device", blame)


@pytest.mark.parametrize(
    ("message", "code", "parallel"),
    [
        ("RuntimeError: stack expects each tensor to be equal size, but got [7] at entry 0 and [9]", "stack(b)", False),
        ("ValueError: operands could not be broadcast together with shapes (3,) (4,)", "a + b", False),
        ("RuntimeError: shape '[7, 9, 5]' is invalid for input of size 64", "x.view(7, 9, 5)", False),
        ("RuntimeError: shape '[7, 9, 5]' is invalid for input of size 64", "x.view(7, self.heads, 5)", True),
        ("ValueError: 30 heads are not divisible by 4", "check()", True),
        ("AssertionError: world size (8) is not divisible by 3", "check()", True),
    ],
)
def test_sizes_concern_the_parallelism_only_where_they_speak_of_it(
    tmp_path: Path, message: str, code: str, parallel: bool
) -> None:
    rows = (
        f'  File "fit.py", line 31, in go\n    {code}\n  File "/x/site-packages/torch/f.py", line 2, in f\n    {code}\n'
    )
    found = diagnosed(tmp_path, f"Traceback (most recent call last):\n{rows}{message}\n")
    assert (found.family, "parallelism" in found.remedy) == ("shape_or_divisibility", parallel)
    assert "fit.py:31" in found.what


@pytest.mark.parametrize(
    ("message", "family"),
    [
        ("lightning.MisconfigurationException: `val_step` must be defined to use `Trainer.validate`", "exception"),
        ("NotImplementedError: the mode `drift` of this sampler", "exception"),
        (
            "RuntimeError: Expected to mark a variable ready only once. DDP does not support such uses in default.",
            "unused_parameters",
        ),
        ("absl.flags._exceptions.UnrecognizedFlagError: Unknown command line flag 'hue'", "usage"),
    ],
)
def test_only_a_parser_refuses_arguments(message: str, family: str) -> None:
    assert root(top(message))[0] == family


def test_a_complaint_with_a_fallback_needs_a_failure() -> None:
    chdir = "3: slurmstepd: error: couldn't chdir to `/work/me': No such file or directory: going to /tmp instead\n"
    assert root(chdir * 9 + "3: rank 3 of 8 is ready\n")[0] == cause.UNKNOWN
    assert root(chdir * 9 + CHILD)[0] == "file_missing"
    assert cause.find_cause([read(chdir)], failed=True).family == "file_missing"


@pytest.mark.parametrize(
    "complaint",
    [
        "/var/spool/slurmd/job9/slurm_script: line 4: activate: No such file or directory\n",
        "mkdir: cannot create directory '/opt/out': Permission denied\n",
    ],
)
def test_a_helper_that_a_script_lacked_is_no_cause_if_the_program_ran(complaint: str) -> None:
    warning = "/opt/env/lib/python3.9/site-packages/hue/f.py:7: UserWarning: hue is deprecated\n"
    assert root(complaint)[0] in ("file_missing", "permission_denied")
    assert root(complaint + warning)[0] == cause.UNKNOWN
    assert root(complaint + STEPS + "Training completed\n")[0] == cause.HEALTHY
    assert root(complaint + warning + top("KeyError: 'a'"))[1] == "KeyError: 'a'"


def test_a_compiler_explains_why_its_program_is_missing() -> None:
    missing = "run.sh: line 9: ./lattice: No such file or directory\n"
    made = "make: *** [lattice] Error 2\n"
    for first in ("lattice.cu:31:9: error: expected a ';'\n", "nvlink fatal   : no candidate for sm_20\n"):
        assert root(first + made + missing) == ("build", first.strip())
    assert root(made + missing) == ("build", made.strip())


@pytest.mark.parametrize(
    ("last", "family"),
    [
        ("12/40 [==>....] - left: 0:31 - loss: 0.5120 - secs: 1.75Killed", "host_oom_killed"),
        ("*** SIGTERM received at time=1700000000 on cpu 3 ***", "preempted_or_cancelled"),
        ("elastic.agent: [WARNING] Received Signals.SIGHUP death", "preempted_or_cancelled"),
        ("WARNING:elastic.agent:Received 15 death signal, shutting down", "preempted_or_cancelled"),
    ],
)
def test_a_signal_at_the_end_is_no_normal_end(last: str, family: str) -> None:
    work = "".join(f"round {number} done, accuracy 0.{number}\n" for number in range(10, 30))
    assert found(f"{work}{last}\n")[0] == family
    assert found(f"{bars(1, 9)}{last}\n")[0] == family
    assert found(f"{work}the one who Killed the process said so\n")[0] != family


def test_what_slurm_says_of_the_private_tmp_of_a_job_that_it_ended_is_no_cause() -> None:
    gone = "slurmstepd-n1: error: container_p_join: open failed for /var/tmp/n1/7/.ns: No such file or directory\n"
    for why in ("", "DUE TO TIME LIMIT "):
        ended = f"slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 {why}***\n"
        assert root(STEPS + ended + gone)[1] == ended.strip()
        assert root(gone + ended)[0] == "private_tmp"


def test_what_a_warning_of_python_names_is_no_cause_where_another_is_known() -> None:
    warned = "/e/lamp.py:7: RuntimeWarning: could not light '/run/a': [Errno 5] Input/output error: '/run/a'\n"
    assert root(warned + "a lamp\n" + CANCELLED)[1] == CANCELLED.strip()
    assert root(warned + raised("OSError: [Errno 5] Input/output error"))[1].startswith("OSError")
    assert root(warned)[0] == "filesystem_io"


def test_an_attempt_that_is_made_again_is_no_cause_in_any_exception_of_its_chain() -> None:
    retry = "2026-01-01 10:00:00,1 INFO lamp Thread-1: Retry attempt failed:\n"
    direct = "\nThe above exception was the direct cause of the following exception:\n\n"
    inner = raised("TimeoutError: timed out")
    outer = raised("requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='hub.example'): Max retries exceeded")
    chain = inner + direct + outer
    assert root(retry + chain)[0] == root(chain)[0] == "offline"
    assert root(retry + chain + "a lamp\n" + raised("KeyError: 'a'"))[1] == "KeyError: 'a'"
    assert root(chain + "a lamp\n" + raised("KeyError: 'a'"))[0] == "offline"
    program = outer.replace("in step", "in <module>")
    assert root(retry + inner + direct + program + raised("KeyError: 'a'"))[0] == "offline"


def test_a_command_of_the_batch_script_before_its_ranks_is_no_cause_of_their_end() -> None:
    tool = raised("ModuleNotFoundError: No module named 'lamp'").replace("in step", "in <module>")
    ranks = "".join(f"{rank}: /e/lamp.py:30: UserWarning: the lamp is old\n" for rank in (0, 1))
    limit = "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-01-10T15:27:25 DUE TO TIME LIMIT ***\n"
    assert root(tool + ranks + limit)[0] == "time_limit"
    assert root(tool + ranks + raised("KeyError: 'a'", "1: "))[1] == "KeyError: 'a'"
    lacks = raised("FileNotFoundError: [Errno 2] No such file or directory: '/data/lamp'", "1: ")
    assert root(tool + ranks + lacks)[0] == "import_error", "it should have written the file"
    assert root(tool + limit)[0] == "import_error"


@pytest.mark.parametrize(
    "quoted",
    [
        "the solution of lamp 7 exceeded time limit",
        "The job was preempted 0 times",
        "lamps: 3, job was preempted: False",
        "+ grep 'Detected 1 oom_kill event' lamp.out",
        "++ echo 'No space left on device'",
        "uncorrectable ECC errors: 0",
    ],
)
def test_words_of_a_failure_in_other_places_are_none(quoted: str) -> None:
    assert root(f"a lamp\n{quoted}\n")[0] == cause.UNKNOWN
    assert root(f"{STEPS}{quoted}\n")[0] in (cause.HEALTHY, cause.UNKNOWN)


@pytest.mark.parametrize(
    "quoted",
    [
        "assistant: `Disk quota exceeded` means that your home is full",
        "Stale file handle: what NFS says of a lamp that was moved",
        '{"text": "if a lamp says CUDA error: device-side assert triggered, count the labels"}',
        "2026-01-01 10:00:00 INFO asked: what is [Errno 28] No space left on device",
    ],
)
def test_a_line_that_may_be_a_quotation_is_certain_only_at_the_end(quoted: str) -> None:
    assert found(f"a lamp\n{quoted}\n")[1] == "high"
    assert found(f"a lamp\n{quoted}\n" + "a lamp\n" * 9)[1] == "medium"
    assert found(f"a lamp\n{quoted}\n" + "a lamp\n" * 9 + CHILD)[1] == "high", "a launcher reports a failure"


def test_what_slurm_or_a_parser_says_last_stays_certain_before_an_epilogue() -> None:
    for last in (
        "fit.py: error: unrecognized arguments: --lamp",
        "python: can't open file '/home/me/fit.py': [Errno 2] No such file or directory",
        "sbatch: error: Batch job submission failed: Invalid partition name specified",
        "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-01-10T15:27:25 DUE TO TIME LIMIT ***",
    ):
        assert found(f"a lamp\n{last}\n" + "a lamp\n" * 9)[1] == "high", last


def test_a_chain_that_another_of_several_processes_raises_begins_no_run() -> None:
    first = top("RuntimeError: CUDA error: out of memory")
    chain = raised("OSError: no lamp") + "\nThe above exception was the direct cause of the following exception:\n\n"
    log = first + "a lamp\n" * 3 + chain + top("KeyError: 'lamp'")
    assert root("dist_world_size=4\n" + log)[0] == "cuda_oom"
    assert root(log)[1] == "OSError: no lamp"
