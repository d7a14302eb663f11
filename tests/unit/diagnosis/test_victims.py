# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is no cause although it sounds like one, and what stands behind a progress bar.

The logs are written for the test.
"""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, lines
from tests.unit.diagnosis.test_cause import CHILD, STEPS, raised, root

CHDIR = "slurmstepd: error: couldn't chdir to `/scratch/job': {why}: going to /tmp instead\n"
INIT = "n1:10:12 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Init COMPLETE\n"
KILLED = "run.sh: line 4:  1204 Killed                  python train.py\n"


@pytest.mark.parametrize("why", ["No such file or directory", "Permission denied"])
def test_a_complaint_that_names_its_own_fallback_is_no_cause(why: str) -> None:
    complaint = CHDIR.format(why=why)
    assert root(complaint + raised("KeyError: 'a'"))[1] == "KeyError: 'a'"
    assert root(complaint + KILLED)[0] == "host_oom_killed"
    assert root(complaint + STEPS)[0] == cause.HEALTHY


@pytest.mark.parametrize(
    "words",
    [
        "ras/ras.cc:120 NCCL WARN Call to bind failed: Address already in use",
        "NCCL WARN TUNER/Plugin: failed to load the tuner",
        "NCCL WARN CollNet: no device, failed",
        "NCCL WARN NET/Plugin: SHARP init failed: error -1",
    ],
)
def test_optional_parts_of_nccl_are_no_cause(words: str) -> None:
    assert root(f"n1:10:11 [0] {words}\n" + raised("ValueError: b"))[1] == "ValueError: b"
    assert root(f"n1:10:11 [0] {words}\n" + CHILD)[0] == "launcher"


def test_what_nccl_warns_of_before_its_communicator_is_complete_is_no_cause() -> None:
    warning = "n1:10:11 [0] NCCL WARN NET/OFI failed to open the device\n"
    assert root(warning + CHILD)[0] == "nccl_network"
    assert root(warning + INIT + CHILD)[0] == "launcher"
    # The communicator of another process proves nothing.
    assert root(warning + INIT.replace("n1:10:", "n1:11:") + CHILD)[0] == "nccl_network"
    assert root(INIT + warning + CHILD)[0] == "nccl_network"


@pytest.mark.parametrize(
    ("ended", "family"),
    [
        (
            "slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TASK FAILURE ***\n",
            "launcher",
        ),
        ("srun: error: n1: task 3: Exited with exit code 1\nsrun: Terminating StepId=8.0\n", "launcher"),
        ("srun: error: n1: task 3: Aborted (core dumped)\n", "crash"),
    ],
)
def test_ranks_that_the_launcher_killed_did_not_lack_memory(ended: str, family: str) -> None:
    killed = "srun: error: n2: tasks 4-7: Killed\n"
    assert root(ended + killed)[0] == family
    assert root(killed + ended)[0] == "host_oom_killed"
    # What the kernel reports counts wherever it stands.
    assert root(ended + "srun: error: n2: task 4: Out Of Memory\n")[0] == "host_oom_killed"


BAR = " 45%|####      | 450/1000 [10:00<12:00,  1.33s/it]"


@pytest.mark.parametrize(
    "before", [BAR, f"{BAR}\r{BAR}", f"{BAR}\rsaving\r{BAR}", "\r".join([BAR] * 400), f"[rank0]: {BAR}"]
)
@pytest.mark.parametrize("after", ["\n", f"\r{BAR}\n", f"\n{BAR}\r{BAR}\n"])
@pytest.mark.parametrize(
    ("message", "family"),
    [
        ("Killed", "host_oom_killed"),
        ("run.sh: line 4:  1204 Killed                  python train.py", "host_oom_killed"),
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", "time_limit"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.", "host_oom_killed"),
        ("run.sh: line 4:  1204 Segmentation fault      (core dumped) python train.py", "crash"),
        ("Bus error (core dumped)", "crash"),
        ("OSError: [Errno 28] No space left on device", "disk_full"),
    ],
)
def test_a_message_behind_a_progress_bar_is_read(message: str, family: str, before: str, after: str) -> None:
    assert root(before + message + after)[0] == family


def test_all_messages_of_a_line_with_carriage_returns_are_read() -> None:
    raw = f"{BAR}\rfirst\r{BAR}\r[rank2]: second\r{BAR}".encode()
    assert [(line.number, line.text, line.rank) for line in lines.parse_lines(7, raw)] == [
        (7, "first", None),
        (7, "second", 2),
    ]
    assert [line.text for line in lines.parse_lines(7, f"{BAR}\r{BAR}".encode())] == [BAR]
    assert [line.text for line in lines.parse_lines(7, f"{BAR} loss: 2.1".encode())] == [f"{BAR} loss: 2.1"]


PADDLE_ENDS = (
    "\n--------------------------------------\nC++ Traceback (most recent call last):\n"
    "--------------------------------------\n0   a::b(char const*)\n\nError Message Summary:\n"
    "FatalError: `{0}` is detected by the operating system.\n  [SignalInfo: *** received by PID 7 ***]\n"
)
ENDED_BY_RANK = "srun: error: n1: task 3: Exited with exit code 1\n"
CONNECTS = "I1219 0{0}:51:12.4 30{0} gen_comm_id_helper.cc:205] Server listening on: 127.0.0.1:51379 successful.\n"


@pytest.mark.parametrize("signal", ["Process abort signal", "Segmentation fault"])
def test_what_paddle_prints_last_is_no_cause_after_an_exception(signal: str) -> None:
    assert root(raised("LookupError: no such lamp") + PADDLE_ENDS.format(signal))[1] == "LookupError: no such lamp"
    assert root(PADDLE_ENDS.format(signal))[0] == "crash"
    reader = "Exception in thread Thread-1:\n" + raised("LookupError: no such lamp")
    killed = raised("SystemError: (Fatal) Blocking queue is killed because the data reader raises an exception.")
    assert root(reader + killed + PADDLE_ENDS.format(signal))[1] == "LookupError: no such lamp"


def test_paddle_connects_once_in_each_run() -> None:
    first, second = CONNECTS.format(1), CONNECTS.format(2)
    failed = first + raised("LookupError: no such lamp")
    assert root(failed + second + "the lamp is on\n")[0] == cause.UNKNOWN
    assert root(failed + second + raised("KeyError: 'a'"))[1] == "KeyError: 'a'"
    # Without a connection before it, it may be that of a slower rank.
    assert root(raised("LookupError: no such lamp") + second)[1] == "LookupError: no such lamp"


def test_a_script_that_names_another_job_begins_a_run() -> None:
    named = "SLURM_JOB_ID={0}\n"
    failed = named.format(41) + raised("LookupError: no such lamp")
    assert root(failed + named.format(42) + "the lamp is on\n")[0] == cause.UNKNOWN
    assert root(failed + named.format(41) + "the lamp is on\n")[1] == "LookupError: no such lamp"


@pytest.mark.parametrize(
    ("line", "family"),
    [
        ("E1125 11:43:59.0 42 pybind.cc:15] Invalid CUDAPlace(3), must inside [0, 2)", "cuda_device"),
        ("F1125 11:43:59.0 42 queue.cc:15] Check failed: size > 0\n*** stack ***\n  @ 0x1 f()", "exception"),
        ("2026-01-01 10:00:00.1: F x/y/layout.cc:7] Check failed: rank == 2", "exception"),
        ("E1125 11:43:59.0 42 lamp.cc:15] no lamp answers", "launcher"),
        ("2026-01-01 10:00:00.1: E x/coordination_service.cc:7] task:0 is in ERROR: heartbeat timeout.", "peer_lost"),
        (
            "[rank1]:[E101 ProcessGroupNCCL.cpp:9] its watchdog got stuck for 4\n80 seconds without",
            "collective_timeout",
        ),
        ("An MPI communication peer process has unexpectedly disconnected.  This", "peer_lost"),
        ("[INFO] [launch.py:9:sigkill_handler] Main process received SIGINT, exiting", "preempted_or_cancelled"),
        ("the hub received SIGTERM, shutting down", "preempted_or_cancelled"),
    ],
)
def test_a_line_that_is_no_exception_explains_the_end(line: str, family: str) -> None:
    assert root(f"the lamp is on\n{line}\n")[0] == family


def test_an_error_that_c_code_logs_is_no_failure_of_a_run_that_goes_on() -> None:
    logged = "E1125 11:43:59.0 42 lamp.cc:15] no lamp answers\n"
    assert root(logged + "the lamp is on\n")[0] == cause.UNKNOWN
    assert root(logged + STEPS)[0] == cause.HEALTHY
    assert root(STEPS + logged)[0] == cause.HEALTHY


def test_an_actor_that_cannot_be_imported_is_explained_by_its_import() -> None:
    outer = raised("RuntimeError: The actor with name Lamp failed to import on the worker. It may lack libraries:")
    inner = raised("ImportError: /x/lamp_cuda.so: undefined symbol: _ZN3c10")
    assert root(outer + "\n" + inner)[1].startswith("ImportError")


def test_what_a_worker_catches_and_logs_is_no_failure_of_a_run_that_ends_normally() -> None:
    caught = "ERROR: sample 7 is skipped\n" + raised("LookupError: no such lamp")
    assert root(caught + "Training completed\n")[0] == cause.HEALTHY
    assert root(caught + "Training completed\n" + ENDED_BY_RANK)[1] == "LookupError: no such lamp"
    assert root(caught)[1] == "LookupError: no such lamp"
    uncaught = caught.replace("in step", "in <module>")
    assert root(uncaught + "Training completed\n")[1] == "LookupError: no such lamp"


def test_a_traceback_within_a_quoted_text_belongs_to_its_exception() -> None:
    quoted = (
        r"KeyError: 'worker 1 caught it:\nTraceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 7'"
    )
    assert root(raised(quoted))[1] == quoted


def test_what_a_process_raises_because_of_a_signal_is_the_signal() -> None:
    worker = "RuntimeError: DataLoader worker (pid 27) is killed by signal: Terminated. "
    frame = "/e/torch/utils/data/_utils/signal_handling.py"
    assert root(f"[rank: 2] Received SIGTERM: 15\n{raised(worker, frame=frame)}")[0] == "preempted_or_cancelled"
    assert root(raised("lightning.pytorch.utilities.exceptions.SIGTERMException"))[0] == "preempted_or_cancelled"
    assert root(raised("KeyError: 'a'") + raised(worker, frame=frame))[1] == "KeyError: 'a'"


def test_a_cancelled_job_is_not_blamed_on_a_module_that_is_unknown() -> None:
    unknown = "Lmod has detected the following error: The following module(s) are unknown:\n"
    cancelled = "[2026-03-17T20:29:32.229] error: *** JOB 8 ON n1 CANCELLED AT 2026-03-17T20:29:32"
    assert root(f"{unknown}Starting\n{cancelled} DUE to SIGNAL Terminated ***\n")[0] == "preempted_or_cancelled"
    assert root(unknown)[0] == "script_error"


def test_the_reasons_that_ray_lists_are_none() -> None:
    lists = (
        "There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer. (2) Another one.\n"
    )
    assert root(lists + raised("KeyError: 'a'"))[1] == "KeyError: 'a'"
    assert root("(raylet) worker 7 was killed by SIGKILL by OOM killer\n")[0] == "host_oom_killed"


@pytest.mark.parametrize(
    ("signal", "family"), [("9 (Killed)", "host_oom_killed"), ("11 (Segmentation fault)", "crash")]
)
def test_mpirun_tells_the_signal(signal: str, family: str) -> None:
    noticed = f"mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal {signal}.\n"
    assert root(noticed)[0] == family
    assert root(raised("KeyError: 'a'") + noticed)[1] == "KeyError: 'a'"


def test_processes_that_go_on_after_the_driver_prove_no_health() -> None:
    interrupted = (
        'Traceback (most recent call last):\n  File "fit.py", line 3, in <module>\n    go()\nKeyboardInterrupt\n'
    )
    steps = "".join(f"(fit pid=7) {line}\n" for line in STEPS.splitlines())
    assert root(steps + interrupted + steps)[0] == "preempted_or_cancelled"


def test_a_signal_in_the_words_of_a_caller_is_read() -> None:
    died = "An error occurred: Command '['python', 'fit.py']' died with <Signals.{0}>.\n"
    assert root(STEPS + died.format("SIGBUS: 7"))[0] == "crash"
    assert root(STEPS + died.format("SIGKILL: 9"))[0] == "host_oom_killed"


def test_an_exception_whose_message_follows_carries_what_it_says() -> None:
    message = "  #define LAMPS 8\nNCCL WARN Cuda failure 2 'out of memory'\n"
    assert root(raised("RuntimeError:") + message)[0] == "cuda_oom"
    assert root(raised("RuntimeError:"))[0] == "exception"


@pytest.mark.parametrize("words", ["NCCL communicator was aborted on rank 3.", "asyncio.exceptions.CancelledError"])
def test_what_follows_an_end_is_no_cause(words: str) -> None:
    error = words if "CancelledError" in words else f"RuntimeError: {words}"
    assert root(raised(error) + raised("KeyError: 'a'"))[1] == "KeyError: 'a'"


def test_what_runs_as_the_interpreter_ends_is_no_cause() -> None:
    at_exit = raised("OSError: [Errno 16] Device or resource busy: '.nfs7'").replace("in step", "in _run_finalizers")
    assert root(f"{STEPS}Finished training.\n{at_exit}")[0] == cause.HEALTHY
    assert root(raised("KeyError: 'a'") + at_exit)[1] == "KeyError: 'a'"
    assert root(f"Exception in thread Thread-4:\n{raised('ConnectionResetError: [Errno 104] reset')}{STEPS}")[0] == (
        cause.HEALTHY
    )


def test_a_service_on_the_node_itself_is_no_missing_network() -> None:
    refused = (
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='{0}', port=8097): Max retries exceeded with url"
    )
    inner = "urllib3.exceptions.NewConnectionError: <HTTPConnection object>: Failed to establish a new connection"
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert root(raised(inner) + during + raised(refused.format("hub.example")))[0] == "offline"
    assert root(raised(inner) + during + raised(refused.format("localhost")))[0] == "exception"


def test_a_wrapper_that_calls_the_program_is_no_library_of_another_version() -> None:
    error = "TypeError: Lamp.forward() got an unexpected keyword argument 'oil'"
    library = raised(error, frame="/e/lib/python3.12/site-packages/lamps/post.py")
    assert root(library)[0] == "abi_conflict"
    assert root(library.replace("in step", "in _call_impl"))[0] == "exception"


def test_what_a_batch_script_did_not_prepare_is_the_cause_of_what_its_program_lacks() -> None:
    inactive = "job.sh: line 8: /env/bin/activate: No such file or directory\n"
    lacks = raised("ModuleNotFoundError: No module named 'torch'")
    assert root(inactive + lacks)[1] == inactive.strip()
    assert root("[rank0]: a lamp\n" + lacks)[0] == "import_error"
    nowhere = "job.sh: line 8: cd: project: No such file or directory\n"
    assert (
        root(nowhere + "python: can't open file 'fit.py': [Errno 2] No such file or directory\n")[1] == nowhere.strip()
    )
    assert root(inactive + raised("KeyError: 'a'"))[1] == "KeyError: 'a'"


def test_srun_lines_at_the_beginning_begin_no_run_again() -> None:
    step = "srun: error: n1: task 0: Exited with exit code 2\nsrun: Terminating StepId=6.0\n"
    missing = "[2026-12-11T02:29:03.160] error: execve(): bash: No such file or directory\n"
    assert root(step + missing + step + missing + step)[0] == "script_error"


def test_a_signal_after_which_steps_follow_ended_another_process() -> None:
    signal = "FatalError: `Termination signal` is detected by the operating system.\n"
    limit = "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026-01-10T15:27:25 DUE TO TIME LIMIT ***\n"
    assert root(STEPS + signal + STEPS)[0] == cause.HEALTHY
    assert root(STEPS + signal)[0] == "preempted_or_cancelled"
    assert root(STEPS + limit + "[rank: 0] Received SIGTERM: 15\n" + "'loss': 1.0\n")[0] == "time_limit"


def test_a_rank_that_srun_killed_does_not_explain_the_one_that_failed() -> None:
    step = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    killed = "srun: error: n1: tasks 0,2-3: Killed\n"
    failed = "srun: error: n1: task 1: Exited with exit code 1\n"
    assert root(step + killed + "srun: Terminating StepId=3.0\n" + failed)[1] == failed.strip()


def test_a_crash_that_glog_writes_as_a_warning_is_one() -> None:
    crash = "W1212 04:02:33.403934 24044 init.cc:205] *** SIGSEGV (@0x0) received by PID 24044; stack trace: ***\n"
    assert root(crash)[0] == "crash"
