# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a log ends: its last words, what followed from an interrupt, and what a program or a script lived with.

The logs are written for the test, in words of their own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import HEALTHY, UNKNOWN
from tests.unit.diagnosis.test_appended import KILLED, diagnosed, top
from tests.unit.diagnosis.test_cause import CHILD, raised, read, root

INTERRUPT = top("KeyboardInterrupt")
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"
FUNCTION = "  File \"fit.py\", line 8, in go\n    go()\nKeyError: 'a'\n"
ERROR = "2026-02-01 10:00:0{},1 - lamps - ERROR - [lamps.py:7] - {}\n"


def test_the_text_of_a_last_word_says_no_more_than_is_known(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, "start\n" + ERROR.format(1, "the lamp is broken"))
    assert (told.family, told.confidence) == ("exception", "low") and "logged" in told.what
    told = diagnosed(tmp_path, 'Traceback (most recent call last):\n  File "fit.py", line 3, in <module>\n    go()\n')
    assert (told.family, told.confidence) == ("exception", "low") and "within a traceback" in told.what


def test_a_ruler_below_the_last_error_is_not_the_error() -> None:
    box = ERROR.format(1, "=" * 40) + ERROR.format(1, "the lamp is broken") + ERROR.format(1, "=" * 40)
    assert root("start\n" + box)[1].endswith("the lamp is broken")


def test_an_error_that_the_program_logged_before_and_went_on_is_no_last_word() -> None:
    rows = [f"[{number}/90] {'ERROR' if number % 3 else 'OK'} - item i{number} is gone\n" for number in range(1, 9)]
    assert root("".join(rows))[0] == UNKNOWN
    # Two loggers write the same line.
    assert root("start\n" + ERROR.format(1, "a lamp is broken") * 2)[0] == "exception"
    assert root(ERROR.format(1, "a lamp is broken") + "start\n" + ERROR.format(2, "no lamp is left"))[0] == "exception"


def test_a_bar_is_no_line_of_a_traceback() -> None:
    torn = 'Traceback (most recent call last):\n  File "fit.py", line 3, in go\n    go()\n'
    assert root(torn + "  4%|4   | 40/900 [00:10<01:15,  4.00it/s]\n")[0] in (UNKNOWN, HEALTHY)
    assert root(torn + "    x = lamp(7)\n")[0] == "exception"


def test_an_exception_that_python_ignores_is_no_last_word() -> None:
    ignored = "Exception ignored in: <function Lamp.__del__ at 0x1>\n" + raised("KeyError: 'a'")
    assert root("start\n" + ignored)[0] == UNKNOWN
    assert root("start\n" + raised("KeyError: 'a'"))[0] == "exception"


@pytest.mark.parametrize(
    "lost",
    [
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "FileNotFoundError: [Errno 2] No such file or directory",
    ],
)
def test_what_a_process_says_whose_peer_is_gone_follows_from_its_end(lost: str) -> None:
    rows = raised(lost).splitlines(keepends=True)
    rows[-1:-1] = [
        '  File "/usr/lib/python3.11/multiprocessing/connection.py", line 634, in SocketClient\n',
        "    x()\n",
    ]
    assert root("".join(rows) + INTERRUPT)[0] == "preempted_or_cancelled"
    assert root(raised(lost) + INTERRUPT)[1] == lost


def test_who_interrupts_a_program_that_tries_again_ended_it() -> None:
    refused = raised("ConnectionRefusedError: [Errno 111] Connection refused", frame="/usr/lib/python3.11/socket.py")
    assert root(refused + DURING + INTERRUPT)[0] == "preempted_or_cancelled"
    # Another rank only followed.
    assert root(refused + DURING + raised("KeyboardInterrupt"))[1].startswith("ConnectionRefusedError")


def test_a_module_that_is_compiled_ahead_need_not_be_valid() -> None:
    listed = '***   File "./lib/lamps/new.py", line 4\n    async lamp\n         ^\nSyntaxError: invalid syntax\n\n'
    assert root("Listing './lib/lamps'...\n" + listed + "Listing './lib/more'...\n")[0] == UNKNOWN
    assert root(listed[6:])[0] == "syntax_error"


def test_a_script_goes_on_where_it_says_so() -> None:
    copy = "+ cp /tmp/lamps.py /app/\ncp: cannot stat '/tmp/lamps.py': No such file or directory\n"
    assert root(copy + "+ true\nstarting\n")[0] == UNKNOWN
    assert root(copy)[0] == "file_missing"


def test_a_library_that_a_build_finds_does_not_fail() -> None:
    for line in ("  -- NVRTC: /opt/cuda/lib64/libnvrtc.so", "    Failed to compute shorthash for libnvrtc.so"):
        assert root(f"{line}\n")[0] == UNKNOWN, line
    missing = "ImportError: libnvrtc.so.12: cannot open shared object file: No such file or directory"
    assert root(raised(missing))[0] == "cuda_mismatch"
    assert root("Error in dlopen: could not load library libnvrtc.so.12\n")[0] == "cuda_mismatch"


def test_what_a_shell_said_within_another_text_is_no_complaint_of_the_script() -> None:
    shell = "/bin/bash: -c: line 0: syntax error near unexpected token `<'"
    assert (
        root(f"results: [['failure : {shell} /bin/bash: -c: line 0: `ulimit -S', 'lamp'" + " x" * 90 + "]]\n")[0]
        == UNKNOWN
    )
    assert root(f"{shell}\n")[0] == "script_error"


def test_a_user_who_may_not_use_docker_is_told_so(tmp_path: Path) -> None:
    line = "docker: permission denied while trying to connect to the Docker daemon socket at unix:///run/docker.sock\n"
    ended = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
    told = diagnosed(tmp_path, line + ended)
    assert told.family == "container_start" and "Docker" in told.what and "pyxis" in told.remedy


WELL = "2026-02-01 10:00:09,1 - lamps - INFO - {}\n"
LOGGED = "2026-02-01 10:00:01,1 - lamps - ERROR - Full traceback: Traceback (most recent call last):\n" + FUNCTION


@pytest.mark.parametrize(
    "end", ["All lamps completed successfully.", "the store stopped successfully", "build succeeded"]
)
def test_what_a_program_caught_and_logged_before_it_says_that_all_went_well_is_no_cause(end: str) -> None:
    assert root(ERROR.format(1, "no lamp") + raised("KeyError: 'a'") + WELL.format(end))[0] == HEALTHY
    assert root(LOGGED + WELL.format(end))[0] == HEALTHY
    # The script says so, whatever the program did.
    assert root(top("KeyError: 'a'") + WELL.format(end))[1] == "KeyError: 'a'"
    assert root(KILLED + WELL.format(end))[0] == "host_oom_killed"
    # Not the last that it says, or something else.
    assert root(WELL.format(end) + raised("KeyError: 'a'"))[0] == "exception"
    assert root(raised("KeyError: 'a'") + WELL.format(f"if {end}"))[0] == "exception"
    assert root(raised("KeyError: 'a'") + WELL.format(f"not {end}"))[0] == "exception"
    assert root(raised("KeyError: 'a'") + WELL.format(end) + WELL.format("the fit failed"))[0] == "exception"


def test_a_traceback_that_a_launcher_quotes_was_not_caught() -> None:
    quoted = "  traceback : Traceback (most recent call last):\n" + FUNCTION
    assert root(quoted + WELL.format("the store stopped successfully"))[0] == "exception"


def test_a_library_that_catches_what_its_import_raises_goes_on() -> None:
    library = "/env/lib/python3.11/site-packages/lamps/__init__.py"
    read_one = read(top("KeyError: 'a'", script=library)).events[0]
    assert read_one.caught and not read_one.top
    # `python -m lamps`
    head = 'Traceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\n'
    run = read(top("KeyError: 'a'", script=library).replace("Traceback (most recent call last):\n", head)).events[0]
    assert run.top and not run.caught


def test_what_a_tracker_logs_of_itself_ends_no_program() -> None:
    tracker = ERROR.format(1, "loop closed") + raised(
        "lamps.RouterClosedError", frame="/x/site-packages/wandb/router.py"
    )
    assert root(tracker)[0] == UNKNOWN
    assert root(ERROR.format(1, "loop closed") + raised("lamps.RouterClosedError"))[0] == "exception"
    known = tracker.replace("lamps.RouterClosedError", "wandb.errors.CommError: user is not logged in")
    assert root(known)[0] == "hub_auth"
    thread = raised("OSError: handle is closed").replace("train.py", "/x/site-packages/tensorboardX/writer.py")
    assert root("Exception in thread Thread-1:\n" + thread)[0] == UNKNOWN
    assert root("Exception in thread Thread-1:\n" + raised("OSError: handle is closed"))[0] == "exception"
    called = raised("ValueError: no project").replace("train.py", "/x/site-packages/wandb/run.py")
    assert (
        root(called.replace("  File", '  File "fit.py", line 1, in <module>\n    fit()\n  File', 1))[0] == "exception"
    )


@pytest.mark.parametrize("lost", ["BrokenPipeError: [Errno 32] Broken pipe", "ConnectionResetError: lost", "EOFError"])
def test_a_closed_connection_that_a_program_logs_is_not_the_end_of_a_rank(lost: str) -> None:
    assert root(ERROR.format(1, "cannot send") + raised(lost))[0] == UNKNOWN
    assert root(top(lost))[0] == "launcher"


def test_what_one_process_of_several_caught_and_logged_ends_only_what_says_so() -> None:
    actor = raised("TypeError: no lamp", prefix="(Actor pid=42) ")
    others = "(Actor pid=43) a lamp is lit\n" * 9
    assert root(actor + others)[0] == UNKNOWN
    assert root(actor)[1] == root(actor + others + top("ValueError: the actor died"))[1] == "TypeError: no lamp"
    assert root(actor + others + CHILD)[1] == "TypeError: no lamp"
    # What is known to end a process did.
    full = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", prefix="(Actor pid=42) ")
    assert root(full + others)[0] == "cuda_oom"


def test_an_exception_without_a_name_of_its_own_is_read_behind_the_level_of_a_logger() -> None:
    prefix = "(Engine pid=7) ERROR 01-02 10:00:00 [core.py:11] "
    assert root(raised("Exception: the engine could not start", prefix=prefix)) == (
        "exception",
        "Exception: the engine could not start",
    )


def test_a_worker_that_the_kernel_killed_counts_even_if_python_says_so_at_its_exit() -> None:
    at_exit = "Error in atexit._run_exitfuncs:\n" + raised("{}")
    killed = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."
    assert root("start\n" + at_exit.format(killed))[0] == "host_oom_killed"
    assert root("start\n" + at_exit.format("RuntimeError: can't start new lamp"))[0] == UNKNOWN


def test_what_a_program_wrote_before_it_aborted_goes_before_the_report_of_the_signal() -> None:
    thrown = "terminate called after throwing an instance of 'lamps::error'\n"
    signal = "[n1:42] *** Process received signal ***\n[n1:42] Signal: {}\n"
    assert root(thrown + signal.format("Aborted (6)"))[1] == thrown.strip()
    assert root(signal.format("Segmentation fault (11)"))[0] == "crash"


def test_a_script_that_goes_on_without_a_package_ends_by_what_ends_it() -> None:
    pip, end = "error: subprocess-exited-with-error\n", "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT {}\n"
    end = end.format("2026-01-01T00:00:00 DUE TO TIME LIMIT ***")
    served = "".join(f"request {number} of a lamp\n" for number in range(600))
    assert root(pip + served + end)[0] == "time_limit"
    assert root(pip + served)[0] == UNKNOWN
    assert root(pip + end)[0] == "build"
    assert root(pip + served + raised("ModuleNotFoundError: No module named 'lamps'"))[0] == "build"


def test_a_command_that_the_script_did_not_find_is_no_cause_where_the_program_writes_on() -> None:
    module = "ERROR: Unable to locate a modulefile for 'lamps'\n"
    assert root(module + "a row of the table\n" * 40)[0] == UNKNOWN
    assert root(module + "a row of the table\n" * 9)[0] == "script_error"


def test_a_run_that_goes_on_after_refused_arguments_is_the_next_one() -> None:
    refused = "usage: fit.py [-h] [-r RESUME]\nfit.py: error: argument -r/--resume: expected one argument\n"
    warning = "/e/lamp.py:30: UserWarning: the lamp is old\n"
    assert root(refused)[0] == "usage"
    assert root(refused + warning + "created\n")[0] == UNKNOWN
    # Other ranks of the same program.
    assert root(refused + warning + refused)[0] == "usage"


def test_a_chain_of_exceptions_of_the_same_program_is_of_the_next_run() -> None:
    chain = raised("KeyError: 'lamp'", frame="/x/site-packages/lamps.py") + DURING + top("LookupError: no lamp")
    assert root(top("ValueError: no row") + chain)[1] == "KeyError: 'lamp'"
    assert root(top("ValueError: no row") + chain.replace(DURING, DIRECT))[1] == "KeyError: 'lamp'"
    # A chain is one run, also where the program itself raised all of it, and those of two programs are of one script.
    assert root(top("ModuleNotFoundError: No module named 'lamp'") + DURING + top("ValueError: b"))[0] == "import_error"
    assert root(top("ValueError: no row", script="first.py") + chain)[1] == "ValueError: no row"


def test_steps_that_name_their_epoch_are_compared_with_such_steps() -> None:
    steps = "".join(f"\titers: {number}00, epoch: 1 | loss: 1.2\n\tspeed: 0.7s/iter\n" for number in range(1, 9))
    other = "\titers: 700, speed: 0.3s/iter, left time: 3s, loss: 1.1\n"
    first = steps + other + top("KeyError: 'a'")
    assert root(first)[0] == "exception"
    assert root(first + steps)[0] == HEALTHY


def test_what_hydra_reports_below_a_good_end_is_the_end() -> None:
    trained = "Epoch 9, global step 90: 'loss' reached 0.1\n`max_epochs=9` reached.\n"
    failed = "Error executing job with overrides: []\nError in call to target 'app.sample':\nTypeError(\"no lamp\")\n"
    assert root(trained)[0] == HEALTHY
    assert root(trained + failed) == ("exception", "Error in call to target 'app.sample':")
    # The exception itself says more.
    assert root(trained + failed + top("KeyError: 'a'"))[1] == "KeyError: 'a'"


def test_a_program_that_ends_in_order_after_a_signal_did_not_end_well() -> None:
    signal = "*** SIGTERM received at time=1700000000 on cpu 3 ***\n"
    ending = "wandb: Waiting for W&B process to finish... (success).\nTraining finished\n"
    assert root(f"step 1 loss 3\n{ending}")[0] == HEALTHY
    assert root(f"step 1 loss 3\n{signal}{ending}")[0] == "preempted_or_cancelled"
    # Of another process: steps follow.
    assert root(f"{signal}step 1 loss 3\n{ending}")[0] == HEALTHY
