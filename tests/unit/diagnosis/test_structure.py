# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the structure of a log says: quoted tracebacks, ranks that write over each other, runs in one file, last words.

The logs are written for the test, in words of their own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, phrases, scan, streams
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis
from tests.unit.diagnosis.test_cause import CHILD, STEPS, raised, read, root

KEY = "KeyError: 'a'"
ENDED = "srun: error: n1: task 0: Exited with exit code 1\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
BAR = "Epoch 2:  40%|####      | 40/100 [00:10<00:15,  4.00it/s]"
FRAMES = '  File "worker.py", line 8, in run\n    go()\n'
INDENTED = '      File "worker.py", line 8, in run\n        go()\n'
LONG = "".join(f"iteration {number}/ 9999 | lm loss: 2.1 | grad norm: 0.311 | lr: 1.0e-4\n" for number in range(800))


def test_a_traceback_that_the_launcher_quotes_is_read_at_its_own_indentation() -> None:
    quoted = (
        f"{CHILD}train.py FAILED\n  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 77)\n"
        "  traceback : Traceback (most recent call last):\n"
        '    File "/x/record.py", line 355, in wrapper\n      return f(*args)\n'
        '    File "train.py", line 9, in main\n      raise LookupError("no shard for this rank")\n'
        "  LookupError: no shard for this rank\n\n============\n"
    )
    assert root(quoted) == ("exception", "LookupError: no shard for this rank")


@pytest.mark.parametrize(
    "carried",
    [
        f"fleet.RemoteError: task 4 on worker 2 raised\n{FRAMES}KeyError: 'shard'\n",
        f"fleet.RemoteError: task 4:\n\nOriginal Traceback (most recent call last):\n{FRAMES}KeyError: 'shard'\n",
        f"fleet.ActorError: it failed\n    Traceback of it (most recent call last):\n{INDENTED}    KeyError: 'shard'\n",
    ],
)
def test_an_exception_whose_message_goes_on_with_a_traceback_only_carries_another(carried: str) -> None:
    first = 'Traceback (most recent call last):\n  File "driver.py", line 3, in main\n    get()\n'
    assert root(first + carried) == ("exception", "KeyError: 'shard'")


def test_two_ranks_that_fail_in_turn_are_no_carriers() -> None:
    assert root(raised(OOM) + raised("KeyError: 'a'"))[1] == OOM


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("LookupErrorLookupError: : no such shardno such shard", "LookupError: no such shard"),
        (": ImportErrorImportError: no cutlass", "ImportError: no cutlass"),
        ("^^^^ImportError^^^: ^^^the kernel is missing", "ImportError: the kernel is missing"),
        ("KeyErrorValueError: a", "KeyErrorValueError: a"),
        ("ValueError: LookupErrorLookupError", "ValueError: LookupErrorLookupError"),
    ],
)
def test_what_ranks_wrote_over_each_other_is_stitched(text: str, once: str) -> None:
    assert phrases.stitched(text) == once


def test_a_name_and_its_message_on_two_lines_belong_together() -> None:
    head = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n'
    assert root(head + head + "LookupError\n: no such shard\n")[1] == "LookupError: no such shard"


@pytest.mark.parametrize(
    ("behind", "family"),
    [
        ("run.sh: line 4:  1204 Killed                  python train.py", "host_oom_killed"),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", "time_limit"),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
            "host_oom_killed",
        ),
        (OOM, "cuda_oom"),
    ],
)
def test_what_is_glued_to_a_progress_bar_is_read(behind: str, family: str) -> None:
    units = (BAR.replace("it/s", "image/s"), BAR.replace("4.00it/s", "7.00s/file"))
    for bar in (BAR, BAR.replace("Epoch 2:", ""), f"{BAR}\r{BAR}", "29948it [35:34,  7.00s/it]", *units):
        assert root(f"{bar}{behind}\n")[0] == family, bar
        assert root(f"loading\n{bar}\r{behind}\r{BAR}\n")[0] == family, bar
    # The end of a line is read where its middle is cut out.
    assert root(f"{BAR}\r" * 300 + behind)[0] == family


def test_the_first_lines_of_a_file_open_another_run_after_an_end() -> None:
    start = "reading configs/small.yaml for host 12\nusing 4 workers\n"
    first = start + raised("KeyError: 'shard'") + ENDED
    assert root(first + start + STEPS)[0] == cause.HEALTHY
    assert root(first + start + raised("LookupError: other"))[1] == "LookupError: other"
    # What seems to begin, and then shows nothing, does not hide the failure.
    assert root(first + start)[1] == "KeyError: 'shard'"


def test_a_launcher_that_starts_again_opens_another_run() -> None:
    banner = "W1 x/run.py:1] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    assert root(banner + raised(OOM) + CHILD + banner + raised("KeyError: 'a'") + CHILD)[1] == "KeyError: 'a'"


def test_another_job_in_the_same_file_is_another_run() -> None:
    ended = "slurmstepd: error: *** JOB {0} ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    assert root(raised(OOM) + ended.format(7) + raised("KeyError: 'a'") + ended.format(9))[1] == "KeyError: 'a'"
    assert root(raised(OOM) + ended.format(7) + ended.format(7))[1] == OOM


def test_steps_until_the_end_prove_more_than_a_buffer() -> None:
    assert root(raised("KeyError: 'a'") + LONG)[0] == cause.HEALTHY
    assert root(raised("KeyError: 'a'") + LONG[:6000])[1] == "KeyError: 'a'"
    assert root(raised("KeyError: 'a'") + LONG + ENDED)[1] == "KeyError: 'a'"


def test_a_failure_long_after_a_normal_end_belongs_to_another_program() -> None:
    healthy = STEPS + "Training completed\n"
    failed = "exporting\n" * 150 + raised("KeyError: 'a'")
    assert root(healthy + failed)[1] == "KeyError: 'a'"
    assert root(healthy + "exporting\n" * 150)[0] == cause.UNKNOWN


def test_the_newest_of_many_failures_is_kept() -> None:
    many = "".join(f"{raised(KEY)}iteration {number}/99 | lm loss: 2.1\n" for number in range(40))
    log = read(many + raised("KeyError: 'last'"))
    assert log.events[-1].text == "KeyError: 'last'"
    assert len(log.events) < 20


def test_a_file_of_very_many_runs_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST", 30)
    log = read("".join(raised(KEY) + STEPS for _number in range(90)) + raised("KeyError: 'last'"))
    assert (log.runs, log.events[-1].text, len(log.events)) == (89, "KeyError: 'last'", 31)


@pytest.mark.parametrize(
    ("reason", "family"),
    [
        ("socketStartConnect: Connect to 10.0.0.7<4242> failed : Software caused connection abort", "nccl_network"),
        ("socketProgress: Connection closed by remote peer n2<4242>", "peer_lost"),
    ],
)
def test_only_a_remote_reason_of_nccl_means_that_another_rank_went_away(reason: str, family: str) -> None:
    error = "torch.distributed.DistBackendError: NCCL error in: /x/ProcessGroupNCCL.cpp:1970, unhandled system error"
    told = raised(error) + f"ncclSystemError: System call or external library call failed. \nLast error:\n{reason}\n"
    found = cause.find_cause([read(told + CHILD)])
    assert found.family == family or (family == "peer_lost" and found.confidence == "low")


def test_a_connection_to_a_server_is_no_rendezvous() -> None:
    error = "requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='example.org', port=443): Timed out waiting"
    assert root(raised(error))[0] != "rendezvous_failure"


@pytest.mark.parametrize(
    ("exception", "family"),
    [
        ("RuntimeError: this kernel requires a driver of version 550.1 or later, found 535.2", "abi_conflict"),
        ("ValueError: 12 ranks do not fill the device mesh of 8 x 2", "shape_or_divisibility"),
        ("AssertionError: context parallel degree 3 and world size 16", "shape_or_divisibility"),
        ("ValueError: expected 3 dimensions but the batch has 2", "shape_or_divisibility"),
        ("ValueError: the version is odd", "exception"),
        ("AssertionError: the loss must be a scalar tensor", "exception"),
        ("AttributeError: 'Namespace' object has no attribute 'warmth'", "exception"),
    ],
)
def test_an_unknown_message_is_understood_by_what_it_is_about(exception: str, family: str) -> None:
    assert root(raised(exception))[0] == family


def test_an_error_of_a_network_adapter_is_none_of_a_file_system() -> None:
    adapter = "[1.5] [n1:7:0] mm.c:9  UCX  ERROR failed to register the region: Input/output error\n"
    assert root(adapter + "srun: error: n1: task 0: Segmentation fault\n")[0] == "crash"
    assert root("cp: error reading '/data/x': Input/output error\n")[0] == "filesystem_io"


def test_a_path_makes_no_family() -> None:
    assert root(raised("RuntimeError: odd state", frame="/x/dist_checkpointing/strategies/a.py"))[0] == "exception"


@pytest.mark.parametrize(
    "words",
    [
        "\u2502 Unrecognized options: --warmth                \u2502",
        "E0325 12:00:01.000000  77 pool.cc:12] Reserving arena of 9 GiB failed",
        "FATAL: the shard index could not be opened by the loader",
    ],
)
def test_where_only_the_launcher_reports_a_failure_the_last_words_are_shown(words: str) -> None:
    found = cause.find_cause([read(f"loading\n{words}\n{CHILD}")])
    assert found.root is not None
    assert found.root.text == words.strip()
    # A warning and the launcher's own words are no last words.
    assert root(f"WARNING: tuner not found\n{CHILD}")[1] == CHILD.strip()


def test_a_signal_from_outside_goes_before_what_a_program_says_while_it_ends() -> None:
    limit = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    assert root(raised("RuntimeError: worker (pid 9) is killed by signal: Terminated. ") + limit)[0] == "time_limit"
    assert root(raised(OOM) + limit)[1] == OOM


def test_a_warning_of_the_socket_code_is_no_cause_where_the_job_is_cancelled() -> None:
    warned = "[W socket.cpp:464] [c10d] The server socket has failed to bind (errno: 98 - Address already in use).\n"
    cancelled = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
    assert root(warned + STEPS + cancelled)[0] == "preempted_or_cancelled"


def test_the_cut_file_that_a_full_disk_left_is_not_the_cause() -> None:
    start = "exporting the weights of step 800\n"
    full = raised("OSError: [Errno 28] No space left on device")
    cut = raised("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)")
    assert root(start + full + start + cut)[0] == "disk_full"


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_counters_of_a_step_are_no_recovery(place: str) -> None:
    """Megatron counts its skipped iterations on every line: nobody goes on without anything."""
    step = "iteration 7/ 9999 | lm loss: 2.1 | number of skipped iterations: 0 | number of nan iterations: 0 |\n"
    log = f"{step}{raised(OOM)}" if place == "before" else f"{raised(OOM)}{step}"
    found = cause.find_cause([read(log)])
    assert (found.family, found.confidence) == ("cuda_oom", "high")


def test_each_process_of_ray_has_tracebacks_of_its_own() -> None:
    """The traceback that another process writes next is not the one that an exception carries."""
    other = "".join(f"(Worker pid=7) {line}\n" for line in raised("RuntimeError: b").splitlines())
    header = f"(Worker pid=7) the worker failed: {other.removeprefix('(Worker pid=7) ')}"
    assert root(raised("KeyError: 'a'") + header)[1] == "KeyError: 'a'"
    mixed = [line for pair in zip(raised("KeyError: 'a'").splitlines(), other.splitlines()) for line in pair]
    assert root("\n".join(mixed) + "\n")[1] == "KeyError: 'a'"


@pytest.mark.parametrize(("level", "family"), [("ERROR", "exception"), ("WARNING", cause.UNKNOWN)])
def test_a_traceback_that_a_logger_writes_counts_by_its_level(level: str, family: str) -> None:
    prefix = f"(Core_0 pid=11) {level} 06-25 16:32:09 [core.py:408] "
    logged = "".join(f"{prefix}{line}\n" for line in raised("KeyError: 'a'").splitlines())
    assert root(f"{logged}(Core_0 pid=11) INFO 06-25 16:32:19 [core.py:72] ready\n")[0] == family
    assert cause.find_cause([read(logged)], failed=True).family == "exception"


@pytest.mark.parametrize(
    "prefix",
    ["[2026-11-29 11:04:57,788] torch._dynamo.convert_frame: [{0}] ", "{1}1129 11:04:57.7880 42 torch/a.py:8] [0/0] "],
)
def test_what_torch_writes_as_a_warning_did_not_end_the_program(prefix: str) -> None:
    trace = raised("backend.BackendFailed: the backend raised:") + "FileNotFoundError: [Errno 2] no such: 'ld'\n"
    warned = "".join(f"{prefix.format('WARNING', 'W')}{line}\n" for line in trace.splitlines())
    limit = "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\n"
    assert root(warned + "the fit goes on\n")[0] == cause.UNKNOWN
    assert root(warned + limit)[0] == "time_limit"
    assert root(warned.replace("WARNING", "ERROR").replace("W1129", "E1129"))[0] == "file_missing"


def test_an_exception_torn_from_its_message_carries_it() -> None:
    torn = raised("RuntimeError") + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert root(torn)[0] == "cuda_oom"
    assert root(raised("AssertionError") + raised("KeyError: 'a'"))[1] == "AssertionError"


def test_what_came_before_a_step_is_no_last_word() -> None:
    complaint = "the dataset could not be found on the hub\n"
    ended = "srun: error: n1: task 0: Exited with exit code 3\n"
    assert root(complaint + ended)[1] == complaint.strip()
    assert root(complaint + STEPS + ended)[1] == ended.strip()


def test_what_python_says_of_its_own_hook_is_no_cause() -> None:
    hook = "Error in sys.excepthook:\n" + raised("UnicodeEncodeError: no such character")
    original = raised("KeyError: 7")
    assert root(f"{hook}\nOriginal exception was:\n{original}")[1] == "KeyError: 7"


def test_a_name_of_its_own_is_no_missing_package(tmp_path: Path) -> None:
    def told(message: str) -> Diagnosis:
        (tmp_path / "job.log").write_text(raised(message))
        found = scan.scan(scan.find_logs(str(tmp_path)))
        return advice.diagnosis_of(cause.find_cause(found.logs), found, str(tmp_path))

    assert "PYTHONPATH" in told("ModuleNotFoundError: No module named 'utils'").remedy
    assert "extras" in told("ModuleNotFoundError: No module named 'lightning'").remedy
    assert "lacks that part" in told("ModuleNotFoundError: No module named 'lightning.lamps'").remedy
    assert "another Python" in told("ModuleNotFoundError: No module named 'numpy.core._multiarray_umath'").remedy
    assert "python -m" in told("ImportError: attempted relative import with no known parent package").remedy
    newer = told("ModuleNotFoundError: No module named 'numpy._core'")
    assert "numpy>=2" in newer.remedy and "numpy 1" in newer.what


def test_the_innermost_frames_of_a_long_traceback_are_kept() -> None:
    deep = "".join(f'  File "/e/lib/python3/site-packages/layers.py", line {line}, in forward\n' for line in range(400))
    header, _, rest = raised("RuntimeError: Socket Timeout").partition("\n")
    inner = '  File "/e/torch/distributed/rendezvous.py", line 8, in _rendezvous\n'
    assert root(header + "\n" + deep + rest)[0] == "exception"
    exception = "RuntimeError: Socket Timeout\n"
    assert root(header + "\n" + deep + rest.replace(exception, inner + exception))[0] == "rendezvous_failure"


def test_an_error_that_a_logger_writes_last_is_the_last_word() -> None:
    error = "2026-02-01 10:00:00,1 - root - ERROR - Error running the fit: name 'lamp' is not defined\n"
    assert root("the lamp is lit\n" + error + "shutting down\n") == ("exception", error.strip())
    assert root(error + "using a fallback image\n")[0] == cause.UNKNOWN
    assert root(error + "a lamp\n" * 9)[0] == cause.UNKNOWN
    assert root(STEPS + error)[0] == cause.UNKNOWN
    assert root("2026-02-01 10:00:00,1 - root - INFO - 0 ERROR messages\n")[0] == cause.UNKNOWN


@pytest.mark.parametrize(
    ("printed", "family"),
    [
        ("Error: the lamp has no oil", "exception"),
        ("An error occurred: Command '['lamp', '-x']' returned non-zero exit status 1.", "exception"),
        ("Error reading the file /data/lamp.parquet: not known", "exception"),
        ("Lamp pipeline failed: light() got an unexpected keyword argument 'oil'\n\nTotal time: 3.1 s", "exception"),
        ("Error: no oil, using a fallback", cause.UNKNOWN),
        ("2026-02-01 10:00:00 INFO Error: 0.31", cause.UNKNOWN),
        ("the mean error of all lamps: 0.31", cause.UNKNOWN),
        ("0 of 8 lamps failed", cause.UNKNOWN),
    ],
)
def test_an_error_that_a_program_prints_last_is_the_last_word(printed: str, family: str, tmp_path: Path) -> None:
    assert root(f"a lamp\n{printed}\n")[0] == family
    assert root(f"{printed}\n" + "a lamp\n" * 9)[0] == cause.UNKNOWN
    assert root(f"{STEPS}{printed}\nthe lamp is lit\n")[0] == cause.HEALTHY
    (tmp_path / "job.log").write_text(f"a lamp\n{printed}\n")
    found = scan.scan([str(tmp_path / "job.log")])
    told = advice.diagnosis_of(cause.find_cause(found.logs), found)
    assert "raceback above" not in told.remedy and "raised" not in told.what


def test_a_message_that_another_rank_tore_from_its_name_is_read() -> None:
    assert root("AssertionError\n: The dimension 0 of size (1) is not a multiple of world size (2)\n")[0] == (
        "shape_or_divisibility"
    )


def test_what_ranks_say_at_their_barrier_of_the_end_is_no_cause() -> None:
    reason = "n1:1:2 [0] NCCL INFO x\nmisc/socket.cc:441 NCCL WARN socketStartConnect: Connect to 10.0.0.7<4> failed\n"
    barrier = raised("RuntimeError: Socket Timeout").replace("in step", "in _exit_barrier")
    assert root(reason + barrier)[0] == "nccl_network"


def test_a_command_of_the_batch_script_in_python_is_another_program() -> None:
    called = 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
    asked = called + "ModuleNotFoundError: No module named 'a'\n"
    warning = "/e/lamp.py:30: UserWarning: the lamp is old\n"
    assert root(asked)[0] == "import_error"
    assert root(asked + warning)[0] == cause.UNKNOWN
    child = asked.replace("<module>\n", '<module>\n  File "/e/multiprocessing/spawn.py", line 8, in spawn_main\n')
    assert root(child + warning)[0] == "import_error"


def test_an_exception_in_the_last_line_is_the_last_word() -> None:
    assert root("a lamp\nlamps.StatusError: no balance\n") == ("exception", "lamps.StatusError: no balance")
    assert root("lamps.StatusError: no balance\na lamp\n" * 2)[0] == cause.UNKNOWN
    assert root(STEPS + "lamps.StatusError: no balance\n")[0] == cause.UNKNOWN


def test_the_reason_below_an_exception_of_nccl_goes_before_it() -> None:
    error = (
        "torch.distributed.DistBackendError: NCCL error in: /x/NCCLUtils.cpp:93, invalid usage (run with NCCL_DEBUG)"
    )
    reason = "ncclInvalidUsage: invalid usage.\nLast error:\nFailed to initialize any NET plugin\n"
    assert root(raised(error) + reason)[0] == "nccl_network"
    assert root(raised(error) + "a lamp\n" * 20 + reason)[0] == "duplicate_gpu"


def test_a_syntax_error_at_the_end_of_a_file_is_no_damaged_checkpoint() -> None:
    assert (
        root('  File "fit.py", line 3\n    (\n    ^\nSyntaxError: unexpected EOF while parsing\n')[0] == "syntax_error"
    )
