# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a run begins and ends in a file: appended runs, windows of logs, proofs of health, advice by confidence.

The logs are written for the test, in words of their own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import HEALTHY, UNKNOWN
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from tests.unit.diagnosis.test_cause import CHILD, STEPS, WATCHDOG, raised, read, root

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
ENDED = "srun: error: n1: task 0: Exited with exit code 1\n"
KILLED = "run.sh: line 4:  1204 Killed                  python train.py\n"
GAVE_UP = "E0101 00:00:00.1 42 torch/distributed/elastic/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 43)\n"


def top(exception: str, script: str = "fit.py", frame: str = "") -> str:
    """An exception that ends a program."""
    outermost = f'Traceback (most recent call last):\n  File "{script}", line 30, in <module>\n    main()\n'
    return f'{outermost}  File "{frame or script}", line 8, in main\n    go()\n{exception}\n'


def bars(first: int, last: int) -> str:
    rows = [f"Epoch 1:  {step}%|##| {step}/100 [00:10<00:15,  4.00it/s]" for step in range(first, last)]
    return "\r".join(rows) + "\n"


def diagnosed(folder: Path, text: str) -> Diagnosis:
    (folder / "job.log").write_text(text)
    found = scan.scan(scan.find_logs(str(folder)))
    return advice.diagnosis_of(cause.find_cause(found.logs), found, str(folder))


def test_a_program_raises_once_so_another_exception_of_it_is_another_run() -> None:
    assert root(top("KeyError: 'shard'") + top("LookupError: no lamp"))[1] == "LookupError: no lamp"
    # The same in the words of a file that is no valid Python.
    broken = '  File "fit.py", line 71\n    x = (\n        ^\nSyntaxError: invalid syntax\n'
    assert root(broken + top("LookupError: no lamp"))[1] == "LookupError: no lamp"


@pytest.mark.parametrize(
    "later",
    [
        top("LookupError: no lamp", script="score.py"),
        top("LookupError: no lamp", frame="/x/torch/distributed/distributed_c10d.py"),
        "the table of the launcher\n" * 4 + f"  traceback : {top('LookupError: no lamp')}",
    ],
    ids=["the next command of a script", "a process of several", "quoted"],
)
def test_what_is_no_other_run_leaves_the_first_exception(later: str) -> None:
    assert root(top("KeyError: 'shard'") + later)[1] == "KeyError: 'shard'"


def test_ranks_of_one_program_raise_different_things_in_one_run() -> None:
    assert root(top("KeyError: 'shard'") + WATCHDOG + top("LookupError: no lamp") + CHILD)[1] == "KeyError: 'shard'"


def test_a_program_that_raises_after_its_launcher_gave_up_was_started_again() -> None:
    again = top(OOM) + CHILD + top("KeyError: 'shard'")
    assert root(again)[1] == "KeyError: 'shard'"
    # Several launchers under one srun share the file.
    assert root(f"srun: error: n2: task 1: Exited with exit code 1\n{again}")[1] == OOM


def test_steps_that_are_counted_from_the_start_again_open_a_run_after_an_end() -> None:
    steps = "".join(f"epoch: 1, step {number}, loss 2.1\n" for number in range(100, 900, 100))
    again = steps + raised(OOM) + steps
    assert root(again)[0] == HEALTHY
    assert root(again + raised("KeyError: 'shard'"))[1] == "KeyError: 'shard'"
    # What a process held back goes on where it was; another rank of the run may show all of its steps.
    assert root(steps + raised(OOM) + "epoch: 1, step 900, loss 2.1\n")[1] == OOM
    assert root(again + ENDED)[1] == OOM


def test_a_program_that_refused_its_arguments_prints_nothing_long_after() -> None:
    refused = "fit.py: error: unrecognized arguments: --warmth 3\n"
    assert root(refused)[0] == root(refused + "reading\n" * 99)[0] == "usage"
    assert root(refused + "reading\n" * 900)[0] == UNKNOWN


def test_a_progress_bar_at_its_start_opens_a_run_after_an_end() -> None:
    text = raised(OOM) + ENDED + bars(0, 1) + raised("KeyError: 'shard'")
    assert root(text)[1] == "KeyError: 'shard'"
    assert root(raised(OOM) + bars(0, 1) + ENDED)[1] == OOM


def test_a_clock_that_jumps_opens_a_run_after_an_end() -> None:
    first = f"2026-03-01 10:00:00 INFO begin\n{raised(OOM)}2026-03-01 10:00:01 ERROR it failed\n"
    assert root(f"{first}2026-03-01 14:00:00 INFO begin the second\n{STEPS}")[0] == HEALTHY
    late = "2026-03-01 10:31:00 INFO the watchdog saw no progress\n"
    assert root(f"{first}{late}")[1] == OOM


def test_a_progress_bar_that_goes_on_shows_that_a_script_went_on() -> None:
    killed = f"{bars(1, 9)}{raised(OOM)}sweep.sh: line 18: 4242 Killed                  python fit.py --size 2\n"
    assert root(killed)[0] == "cuda_oom"
    assert root(killed + bars(1, 30) + "score 0.5\n")[0] == HEALTHY
    assert root(killed + bars(1, 30) + ENDED)[0] == "cuda_oom"


def test_frames_without_their_header_are_a_traceback() -> None:
    frames = 'Unhandled failure of worker 3:\n  File "a.py", line 3, in get\n    raise self.error\n'
    assert root(f"{frames}fleet.errors.ActorError: the actor ended\n\tid: 7\n")[1].startswith("fleet.errors.ActorError")
    # What merely names a place is none.
    assert root(f"{frames}Loss: 0.5\n{STEPS}")[0] == HEALTHY


def test_a_log_that_ends_within_a_traceback_failed() -> None:
    cut = raised("KeyError: 'shard'").rpartition("KeyError")[0]
    found = cause.find_cause([read(STEPS + cut)])
    assert (found.family, found.confidence) == ("exception", "low")
    launcher = raised("x", frame="/x/torch/distributed/run.py").rpartition("x\n")[0]
    assert root(STEPS + GAVE_UP + launcher)[1] == GAVE_UP.strip()


@pytest.mark.parametrize(
    "words",
    [
        GAVE_UP,
        "LAUNCH ERROR 2026-01-01 00:00:00,000 Container failed !!!\n",
        "ERROR 2026-01-01 00:00:00 launch_utils.py:545] ABORT!!! Out of all 4 trainers, the one with rank=[3]\n",
    ],
)
def test_what_a_launcher_reports_is_never_healthy(words: str) -> None:
    assert root(STEPS + words)[0] == "launcher"


@pytest.mark.parametrize(
    "words",
    [
        "Epoch 0:   0%|          | 0/417 [00:01<?, ?it/s]\n",
        "Loading checkpoint shards: 100%|##########| 4/4 [00:03<00:00,  1.28it/s]\n",
        "Running tokenizer on dataset:  29%|##   | 235/814 [06:21<15:25,  1.60s/it]\n",
    ],
)
def test_what_is_no_step_proves_no_health(words: str) -> None:
    assert root(words)[0] == UNKNOWN
    assert root("Epoch: [0]  [ 10/100]  eta: 0:01:10  lr: 0.1  time: 0.5\n")[0] == HEALTHY


def test_a_command_that_the_shell_lacks_after_the_program_is_no_failure_of_it() -> None:
    lacks = "run.sh: line 41: --workers=0: command not found\n"
    assert root(STEPS + lacks)[0] == HEALTHY
    assert root(lacks)[0] == root(STEPS + lacks + ENDED)[0] == "script_error"


def test_what_cpp_says_of_an_exception_counts_by_its_reason() -> None:
    named = "terminate called after throwing an instance of 'std::runtime_error'\n"
    timeout = (
        "  what():  [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2) ran for 1800509 ms\n"
    )
    assert root(named + timeout)[0] == "collective_timeout"
    assert root(f"{named}  what():  the arena is odd\n")[0] == "crash"


@pytest.mark.parametrize(("code", "family"), [("-9", "host_oom_killed"), ("-11", "crash"), ("1", "launcher")])
def test_a_launcher_tells_the_signal(code: str, family: str) -> None:
    killed = "[INFO] [launch.py:318:sigkill_handler] Killing subprocess 80\n"
    assert (
        root(f"{killed}[ERROR] [launch.py:324] ['/usr/bin/python3', 'fit.py'] exits with return code = {code}\n")[0]
        == family
    )


def test_a_worker_of_the_loader_that_died_is_no_bad_data() -> None:
    frame = "/e/torch/utils/data/dataloader.py"
    assert root(raised("RuntimeError: DataLoader worker (pid(s) 42) exited unexpectedly", frame=frame))[0] == "nccl_shm"
    killed = "RuntimeError: DataLoader worker (pid 42) is killed by signal: Killed. "
    assert root(raised(killed, frame=frame))[0] == "host_oom_killed"


def test_a_shell_tells_who_was_ended() -> None:
    assert root("fit.sh: line 32: 2796136 Terminated              python fit.py\n")[0] == "preempted_or_cancelled"


def test_two_ranks_on_one_gpu_need_another_device_and_no_other_node() -> None:
    error = (
        "torch.distributed.DistBackendError: NCCL error in: /x/NCCLUtils.hpp:275, invalid usage (run with NCCL_DEBUG)"
    )
    told = f"{raised(error)}ncclInvalidUsage: invalid usage\nLast error:\nDuplicate GPU detected : rank 1 and rank 0\n"
    assert root(told)[0] == "duplicate_gpu"
    assert root(raised(error) + CHILD)[0] == "duplicate_gpu"


def test_a_group_that_was_not_initialised_is_a_symptom() -> None:
    symptom = raised("ValueError: Default process group has not been initialized, please make sure to call it.")
    assert root(symptom)[0] == "env_not_set"
    reason = "socketStartConnect: Connect to 10.0.0.7<4242> failed : Software caused connection abort\n"
    assert root(symptom + reason)[0] == "nccl_network"


def test_advice_has_the_strength_of_the_diagnosis(tmp_path: Path) -> None:
    certain = diagnosed(tmp_path, raised(OOM))
    assert certain.confidence == "high" and certain.remedy.startswith("Less memory a GPU")
    symptom = diagnosed(tmp_path, "run.sh: line 4:  1204 Killed                  python train.py\n")
    assert symptom.confidence == "medium" and symptom.remedy.startswith("Not certain. Compare the memory")
    assert "If it is that: More memory a node" in symptom.remedy
    guessed = diagnosed(tmp_path, raised("ValueError: 12 ranks do not fill the device mesh of 8 x 2"))
    assert guessed.confidence == "medium" and "If it is that" not in guessed.remedy
    follows = diagnosed(tmp_path, "RuntimeError: [/x/gloo/pair.cc:534] Connection closed by peer [10.0.0.2]:1234\n")
    assert follows.confidence == "low" and "If it is that" not in follows.remedy


def test_a_node_is_only_blamed_where_the_cause_is_certain(tmp_path: Path) -> None:
    mixed = (
        "node07: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        + raised(OOM)
        + raised("KeyError: 'a'")
    )
    found = diagnosed(tmp_path, mixed + raised("OSError: [Errno 28] No space left on device"))
    assert found.confidence == "medium" and not found.blame


def test_every_family_says_what_to_look_at() -> None:
    assert [one.family for one in SIGNATURES if not one.look.endswith(".") and not one.look.endswith("?")] == []


@pytest.mark.parametrize("first", ["[rankzero] job 7 attempt 0 on n1 n2\n", "", "the fit of the lamp begins\n"])
@pytest.mark.parametrize(
    "again", ["Submitted batch job 8\n", "Epoch 1:   0%|  | 0/100\n", "the fit of the lamp begins\n"]
)
def test_a_file_of_few_lines_can_be_followed(first: str, again: str) -> None:
    """Whatever the file begins with, and however little was read before a run ends."""
    ended = raised("KeyError: 'a'")
    assert root(first + ended + again + again)[1] == "KeyError: 'a'"
    assert root(first + ended + again + raised("LookupError: no lamp"))[1] in ("LookupError: no lamp", "KeyError: 'a'")
    assert root(first + KILLED + again + KILLED)[0] == "host_oom_killed"


@pytest.mark.parametrize(
    ("begins", "goes_on", "family"),
    [
        ("loading the lamp\nthe lamp is on\n", "", "exception"),
        ("loading the lamp\nthe lamp is on\n", "".join(f"part {word} is lit\n" for word in "abcde"), UNKNOWN),
        ("loading the lamp\n", "".join(f"part {word} is lit\n" for word in "abcde"), "exception"),
    ],
)
def test_a_run_without_a_failure_is_one_where_it_begins_like_the_file(begins: str, goes_on: str, family: str) -> None:
    """A script that prints at its end what it printed at its beginning starts no run."""
    opening = "loading the lamp\nthe lamp is on\nthe fit is prepared\n"
    assert root(opening + raised("KeyError: 'a'") + begins + goes_on)[0] == family


def test_lines_that_have_begun_a_failed_run_begin_the_next_one() -> None:
    opening = "loading the lamp\nthe lamp is on\n" + "".join(f"room {word} is warm\n" for word in "abcde")
    assert root(2 * (opening + top("KeyError: 'a'")) + opening)[0] == UNKNOWN
    assert root(opening + top("KeyError: 'a'") + opening)[0] == "exception"


def test_the_usage_of_another_program_begins_a_run() -> None:
    refused = "usage: {0} [-h] --lamps N\n{0}: error: argument --lamps: expected one argument\n"
    assert root(refused.format("fit.py") + refused.format("judge.py"))[1].startswith("judge.py: error")


def test_a_file_that_goes_on_after_the_exception_of_its_only_process_holds_another_run() -> None:
    failed = top("KeyError: 'shard'")
    warning = "/e/lamp.py:30: UserWarning: the lamp is old\n"
    # What the process held back is no proof, nor what Python prints as it ends.
    assert root(failed + "a lamp\n" * 300)[0] == "exception"
    assert root(f"{failed}/e/multiprocessing/resource_tracker.py:2: UserWarning: 1 leaked\n")[0] == "exception"
    assert root(failed + "a lamp\n" * 3000)[0] == root(failed + warning)[0] == UNKNOWN
    # Other processes go on for a while.
    assert root(failed + failed + warning)[0] == "exception"
    assert root(GAVE_UP + failed + warning)[0] == "exception"
    assert root(f"[rank1]: a lamp\n{failed}{warning}")[0] == "exception"


def test_a_signal_ended_nothing_where_the_file_goes_on() -> None:
    signal = "*** SIGTERM received at time=1772795153 on cpu 9 ***\n"
    assert root(signal + "a frame\n" * 30)[0] == "preempted_or_cancelled"
    assert root(signal + "the next trial\n" * 400)[0] == UNKNOWN


def test_the_epilog_of_a_cancelled_job_begins_no_run() -> None:
    cancelled = "slurmstepd: error: *** JOB 37 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
    for job in ("Job ID: 37\n", "Job ID: 36\n"):
        assert root(f"Job ID: 36\na lamp\n{cancelled}Begin epilog\n{job}")[0] == "preempted_or_cancelled"


def test_a_normal_end_is_no_full_disk_of_the_run_before() -> None:
    full = raised("OSError: [Errno 28] No space left on device") + ENDED
    again = f"Submitted batch job 8\n{STEPS}End of training.\nException in thread Thread-8:\n{raised('KeyError: 1')}"
    assert root(full + again)[0] == HEALTHY


def test_a_trial_that_failed_is_no_failure_of_the_search() -> None:
    trial = "[I 2026-05-02 10:08:30,001] Trial {0} finished with value: 0.7\n"
    failed = "[W 2026-05-02 10:09:30,001] Trial 9 failed with parameters: {} because of the following error: x\n"
    trials = "".join(trial.format(number) for number in range(9))
    assert root(trials + failed + raised("ValueError: loss is nan") + trials)[0] == HEALTHY
    assert root(trials + top("KeyError: 'shard'"))[1] == "KeyError: 'shard'"


def test_a_program_that_skips_what_failed_goes_on() -> None:
    skipped = raised("ModuleNotFoundError: No module named 'plotly'") + "skipping plots\n"
    assert root(f"{STEPS}Training finished\n{skipped}")[0] == HEALTHY
    assert root(skipped + raised("KeyError: 'shard'"))[1] == "KeyError: 'shard'"


@pytest.mark.parametrize(
    ("limit", "family"),
    [("mem 8kb", "host_oom_killed"), ("vmem 8kb", "host_oom_killed"), ("walltime 61", "time_limit")],
)
def test_pbs_tells_which_limit_was_exceeded(limit: str, family: str) -> None:
    assert root(f"{STEPS}=>> PBS: job killed: {limit} exceeded limit 4\nExit Status: 271\n")[0] == family


def test_what_a_program_survived_before_it_survives_again() -> None:
    caught = raised("NameError: name 'lamp' is not defined")
    assert (
        root(caught + STEPS + caught + "'loss': 1.0\n" + "Training completed\n" + "{'train_runtime': 9}\n")[0]
        == HEALTHY
    )
    assert root(STEPS + caught)[0] == "exception"


def test_a_program_that_starts_after_one_that_refused_its_arguments_is_another_run() -> None:
    refused = "fit.py: error: argument --lamps: expected one argument\n"
    assert root(refused + top("KeyboardInterrupt"))[0] == "preempted_or_cancelled"
    assert root(refused + CHILD + top("KeyboardInterrupt"))[0] == "usage"


def test_much_text_after_an_exception_is_of_another_run_whoever_writes_it() -> None:
    failed = "world size: 4\n" + top("KeyError: 'shard'")
    assert root(failed + "a lamp is lit\n" * 4000)[0] == "exception"
    assert root(failed + "a lamp is lit\n" * 60000)[0] == UNKNOWN


def test_what_srun_says_of_killed_ranks_begins_no_run() -> None:
    detected = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=3.0. Some of the step tasks have been OOM Killed.\n"
    )
    killed = "srun: error: n1: task 7: Killed\n"
    assert root(f"the lamps of today\n{detected}{killed}the lamps of today\n{killed}")[1] == detected.strip()


def test_a_long_run_after_a_cancelled_one_is_a_run_of_its_own() -> None:
    cancelled = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
    opening = "the fit of the lamp begins\n"
    assert root(opening + cancelled + opening + "a score\n" * 30)[0] == "preempted_or_cancelled"
    assert root(opening + cancelled + opening + "a score\n" * 900)[0] == UNKNOWN
