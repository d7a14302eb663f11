# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which line is the root: causal order, echoes, chains, normal ends. The logs here are written for the test."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, events, lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from tests.unit.diagnosis import unseen


def read(text: str, file: str = "a.log") -> events.FileEvents:
    return events.Reader(SIGNATURES).read(file, lines.parse(text.encode().split(b"\n")))


def root(text: str) -> tuple[str, str]:
    """Family and text of the root that one log shows."""
    found = cause.find_cause([read(text)])
    return found.family, found.root.text if found.root else ""


def raised(exception: str, prefix: str = "", frame: str = "train.py") -> str:
    rows = ["Traceback (most recent call last):", f'  File "{frame}", line 3, in step', "    go()", exception]
    return "".join(f"{prefix}{row}\n" for row in rows)


WATCHDOG = (
    "[rank0]:[E101 00:10:00.1 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600003 milliseconds before timing out.\n"
)
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
STEPS = "".join(
    f"iteration {number}/ 99 | elapsed time per iteration (ms): 5.0 | lm loss: 2.1\n" for number in range(20)
)


def test_the_rank_that_died_goes_before_the_ranks_that_waited() -> None:
    text = WATCHDOG + raised("ZeroDivisionError: division by zero", "[rank5]: ") + WATCHDOG + CHILD
    assert root(text) == ("exception", "ZeroDivisionError: division by zero")


def test_the_earliest_of_many_exceptions_is_the_root() -> None:
    first = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "[rank3]: ")
    text = first + raised("RuntimeError: something else", "[rank1]: ") + CHILD
    family, line = root(text)
    assert family == "cuda_oom"
    assert "out of memory" in line


def test_tracebacks_that_others_lines_split_are_followed() -> None:
    mine = raised("KeyError: 'x'", "[rank1]: ").splitlines(keepends=True)
    other = raised("ConnectionResetError: [Errno 104] Connection reset by peer", "[rank2]: ").splitlines(keepends=True)
    text = "".join(line for pair in zip(other, mine) for line in pair)
    assert root(text) == ("exception", "KeyError: 'x'")


def test_of_a_direct_chain_the_first_is_the_root() -> None:
    text = (
        raised("OSError: [Errno 28] No space left on device")
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + raised("RuntimeError: saving failed")
    )
    assert root(text)[0] == "disk_full"


def test_of_an_accidental_chain_the_known_wording_is_the_root() -> None:
    text = (
        raised("KeyError: 'cache'")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + raised("PermissionError: [Errno 13] Permission denied: '/data'")
    )
    assert root(text) == ("permission_denied", "PermissionError: [Errno 13] Permission denied: '/data'")


def test_an_oom_kill_goes_before_the_exceptions_that_it_caused() -> None:
    text = (
        raised("RuntimeError: DataLoader worker (pid 4) is killed by signal: Killed.")
        + "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0.\n"
    )
    assert root(text)[0] == "host_oom_killed"


@pytest.mark.parametrize(
    "text",
    [
        "loading\n" + STEPS + "training finished\n",
        STEPS + "Exception ignored in: <function f>\n" + raised("FileNotFoundError: [Errno 2] No such file: 'x.tmp'"),
        raised("ImportError: No module named 'optional'") + STEPS + "Training completed\n",
        STEPS + "Training completed\n[rank1]:[W101 00:00:00.1 TCPStore.cpp:131] sendBytes failed: Broken pipe\n",
        "OSError is what we catch here: no error, no timeout, 0 errors, oom_score 0, nan_check off\n" + STEPS,
    ],
)
def test_a_healthy_log_is_healthy(text: str) -> None:
    assert root(text) == ("healthy", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n",
        "loading the model\nthe mesh has 8 devices\n",
        "UserWarning: CUDA out of memory may follow\n[W101 00:00:00.1 TCPStore.cpp:131] recvValue got 0 bytes\n",
        STEPS + "saving\n" * 100,
    ],
)
def test_without_a_proof_no_log_is_healthy(text: str) -> None:
    assert root(text) == (cause.UNKNOWN, "")


def test_steps_to_the_end_prove_less_than_a_normal_end() -> None:
    assert cause.find_cause([read(STEPS)]).confidence == "medium"
    assert cause.find_cause([read(STEPS + "Training completed\n")]).confidence == "high"


def test_what_is_known_to_have_failed_is_never_healthy() -> None:
    survived = raised("ImportError: No module named 'optional'") + STEPS + "Training completed\n"
    found = cause.find_cause([read(survived)], failed=True)
    assert (found.family, found.confidence) == ("import_error", "low")
    assert cause.find_cause([read(STEPS)], failed=True).family == cause.UNKNOWN


def test_only_echoes_mean_that_the_cause_is_elsewhere() -> None:
    found = cause.find_cause([read("RuntimeError: [x/gloo/pair.cc:534] Connection closed by peer [10.0.0.2]:1\n")])
    assert (found.family, found.confidence) == ("peer_lost", "low")


def test_of_two_attempts_in_one_file_the_newest_counts() -> None:
    first = "[rankzero] job 7 attempt 0 on n1; master n1:1\n" + raised(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB"
    )
    second = "[rankzero] job 7 attempt 1 on n1; master n1:1\n" + raised("ModuleNotFoundError: No module named 'x'")
    assert root(first + second)[0] == "import_error"
    assert root(first + "[rankzero] job 7 attempt 1 on n1; master n1:1\n" + STEPS)[0] == "healthy"


def test_the_cause_is_found_in_whichever_file_it_stands() -> None:
    logs = [
        read(WATCHDOG, "rank0.log"),
        read("2026-01-01 00:00:00 start\n" + STEPS, "rank1.log"),
        read(raised("ValueError: 2026-01-01 00:00:05 my own mistake"), "rank2.log"),
    ]
    found = cause.find_cause(logs)
    assert found.root is not None
    assert (found.root.file, found.family) == ("rank2.log", "exception")


def test_an_exception_that_only_carries_another_gives_way_to_it() -> None:
    text = raised("KeyError: Caught KeyError in DataLoader worker process 0.") + "Original " + raised("KeyError: 'x'")
    assert root(text) == ("exception", "KeyError: 'x'")
    assert root(raised("KeyError: Caught KeyError in DataLoader worker process 0."))[1].startswith("KeyError: Caught")


def test_the_record_of_an_exception_gives_way_to_the_exception() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    record = f'E0101 00:00:00.1 9 errors/error_handler.py:141] {{"message": {{"message": "{oom}"}}}}\n'
    assert root(record + raised(oom) + CHILD) == ("cuda_oom", oom)


def test_what_follows_from_a_lost_peer_is_no_cause() -> None:
    text = (
        raised("RuntimeError: [x/gloo/pair.cc:534] Connection closed by peer [10.0.0.2]:1")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + raised("AttributeError: 'NoneType' object has no attribute 'close'")
    )
    assert root(text)[0] == "peer_lost"


NAN = "".join(f"step {number} | loss: nan | lr: 1e-4\n" for number in range(20, 40))


def test_a_loss_that_stays_no_number_is_the_cause() -> None:
    text = STEPS + NAN
    assert root(text) == ("nan_loss", "step 20 | loss: nan | lr: 1e-4")


def test_a_loss_that_recovers_is_none() -> None:
    assert root(STEPS + NAN + "step 41 | loss: 2.1 | lr: 1e-4\n") == ("healthy", "")


def test_a_wrappers_done_after_a_killed_process_changes_nothing() -> None:
    text = STEPS + "run.sh: line 7: 99 Killed                  python train.py\nTraining finished\n"
    assert root(text)[0] == "host_oom_killed"


def test_a_symptom_that_the_run_outlived_is_none() -> None:
    assert root("run.sh: line 3: module: command not found\n" + STEPS) == ("healthy", "")


def stamped(time: str, exception: str) -> str:
    return f"2026-01-01 {time} step\n" + raised(exception)


def test_clocks_of_two_nodes_may_differ_by_minutes() -> None:
    # rank 1's clock is two minutes behind: its own words for rank 0's failure seem to come first.
    logs = [
        read(stamped("00:05:00", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB"), "rank0.log"),
        read(stamped("00:03:00", "RuntimeError: the other side is gone"), "rank1.log"),
    ]
    assert cause.find_cause(logs).family == "cuda_oom"
    late = [logs[0], read(stamped("23:00:00", "ZeroDivisionError: x").replace("2026-01-01", "2025-12-31"), "r.log")]
    assert cause.find_cause(late).family == "exception"


def test_an_event_without_a_time_has_that_of_the_lines_before_it() -> None:
    event = read(stamped("00:00:09", "KeyError: 'x'")).events[0]
    assert event.time is not None
    assert event.time % 60 == 9


#: What stands around the exception of one rank, in logs of different launchers.
SURROUNDINGS = {
    "torchrun": ("[rank1]: ", STEPS, WATCHDOG + CHILD + "srun: error: n1: task 0: Exited with exit code 1\n"),
    "srun --label": ("2: ", "0: 10%|#| 1/9\r20%|##| 2/9\n", "srun: error: n2: task 2: Exited with exit code 1\n"),
    "deepspeed": (
        "n1: [rank3]: ",
        STEPS,
        "n1: [2026-01-01] [ERROR] [launch.py:325] ['x'] exits with return code = 1\n",
    ),
    "colours": ("\x1b[31m[default4]:", "\x1b[34mINFO\x1b[0m start\n", "[rank1]:[W1 TCPStore.cpp:1] recvValue failed\n"),
    "nemo-run": ("llm.pretrain/0 [default0]:[rank0]: ", STEPS, CHILD),
    "cluster times": ("2026-01-01T00:00:01.5Z ", STEPS, ""),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_the_cause_is_found_in_any_surroundings(name: str) -> None:
    prefix, before, after = SURROUNDINGS[name]
    for row in unseen.RAISED.strip().splitlines()[2::9]:
        exception = row.split(" | ", 1)[1]
        alone = root(raised(exception))
        assert alone[1] == exception
        assert root(before + raised(exception, prefix) + after) == alone


@pytest.mark.parametrize(
    "words",
    [
        "attempt 1 of 3 failed: FileNotFoundError; retrying in 5 s",
        "the vocabulary is optional: going on without",
        "will retry",
        "falling back to the default",
    ],
)
def test_what_its_writer_lives_with_at_once_is_no_cause(words: str) -> None:
    complaint = raised("FileNotFoundError: [Errno 2] No such file or directory: '/x'")
    assert root(f"{complaint}{words}\n{STEPS}")[0] == cause.HEALTHY
    # Without these words steps alone are no proof: they may come out of a buffer.
    assert root(complaint + STEPS)[0] == "file_missing"
    assert root(f"{complaint}{words}\n{STEPS}" + raised("KeyError: 'x'"))[1] == "KeyError: 'x'"


def test_who_is_killed_after_a_cancelled_step_was_not_killed_for_memory() -> None:
    cancelled = "slurmstepd: error: *** STEP 8.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
    killed = "srun: error: n1: tasks 0-1: Killed\n"
    assert root(cancelled + killed)[0] == "preempted_or_cancelled"
    assert root(killed + cancelled)[0] == "host_oom_killed"


def test_a_helper_that_the_script_ends_is_no_failure() -> None:
    assert root("job.sh: line 15:  1204 Killed                  sleep 100\ndone\n")[0] in (cause.HEALTHY, cause.UNKNOWN)
    assert root("job.sh: line 15:  1204 Killed                  python train.py\n")[0] == "host_oom_killed"


def test_a_sign_of_windows_stays_in_the_name_that_it_belongs_to() -> None:
    line = "slurmstepd-n1: error: execve(): bad interpreter(/bin/bash\r): No such file or directory\n"
    assert root(line) == ("script_error", line.strip().replace("\r", "^M"))


def test_a_store_that_waits_for_the_first_key_of_the_group_is_a_rendezvous() -> None:
    for keys, family in (("/default_pg/0//cpu//0/0", "rendezvous_failure"), ("weights/ready", "collective_timeout")):
        assert root(raised(f"torch.distributed.DistStoreError: wait timeout after 10000ms, keys: {keys}"))[0] == family


BARRED = "".join(f"{step:3d}%|##   | {step}/99 [00:10<00:10, 3.2it/s]\n" for step in range(1, 60))


def test_a_bar_that_goes_on_shows_that_a_new_run_was_appended() -> None:
    before = "python: can't open file '/x/train.py': [Errno 2] No such file or directory\n"
    assert root(before + BARRED) == ("healthy", "")
    assert root(before + BARRED.replace("%|", "% loading|"))[0] == "file_missing"
    assert root(before + BARRED + CHILD)[0] == "file_missing"


def test_what_a_job_says_after_slurm_took_it_back_is_the_next_attempts() -> None:
    requeued = "slurmstepd: error: *** JOB 8 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB REQUEUE ***\n"
    ended = "srun: error: n1: tasks 0-1: Terminated\n"
    assert root(STEPS + requeued + ended)[0] == "preempted_or_cancelled"
    assert root(STEPS + requeued + ended + STEPS)[0] == cause.HEALTHY
    assert root(STEPS + requeued + ended + STEPS + raised("KeyError: 'x'"))[1] == "KeyError: 'x'"
    # Slurm 22.05 may fail to start the next attempt before its script runs.
    missing = "slurmstepd-n1: error: container_p_join: open failed for /var/c/n1/8/.ns: No such file or directory\n"
    failed = "slurmstepd-n1: error: container_g_join failed: 8\n"
    assert root(STEPS + requeued + ended + missing + failed) == ("private_tmp", missing.strip())


def test_what_is_swept_up_after_the_last_step_is_no_failure() -> None:
    steps = "".join(f"step {number}/12 loss 2.1\n" for number in range(1, 13))
    assert root(steps + "rm: cannot remove '/tmp/x': No such file or directory\n")[0] == cause.HEALTHY
    assert root(steps + raised("PermissionError: [Errno 13] Permission denied: '/x'"))[0] == "permission_denied"
    assert (
        root(steps[:-1] + "rm: cannot remove '/tmp/x': No such file\nsrun: error: n1: task 0: Killed\n")[0]
        != cause.HEALTHY
    )


def test_a_last_step_after_all_complaints_is_a_normal_end_unless_a_launcher_complains() -> None:
    steps = "".join(f"step {number}/12 loss 2.1\n" for number in range(1, 13))
    complaint = raised("OSError: the store is busy")
    assert root(complaint + steps)[0] == cause.HEALTHY
    assert root(complaint + steps + CHILD)[0] == "exception"
    assert root(complaint + steps.replace("/12", "/99"))[0] == "exception"
