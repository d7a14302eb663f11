# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which line is the root: causal order, echoes, chains, normal ends. The logs here are written for the test."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, events, lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES


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
        "",
        "\n\n\n",
        "loading\n" + STEPS + "training finished\n",
        STEPS + "Exception ignored in: <function f>\n" + raised("FileNotFoundError: [Errno 2] No such file: 'x.tmp'"),
        raised("ImportError: No module named 'optional'") + STEPS + "Training completed\n",
        "UserWarning: CUDA out of memory may follow\n[W101 00:00:00.1 TCPStore.cpp:131] recvValue got 0 bytes\n",
        STEPS + "Training completed\n[rank1]:[W101 00:00:00.1 TCPStore.cpp:131] sendBytes failed: Broken pipe\n",
        "OSError is what we catch here: no error, no timeout, 0 errors, oom_score 0, nan_check off\n" + STEPS,
    ],
)
def test_a_healthy_log_is_healthy(text: str) -> None:
    assert root(text) == ("healthy", "")


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
    assert root("job.sh: line 15:  1204 Killed                  sleep 100\ndone\n")[0] == cause.HEALTHY
    assert root("job.sh: line 15:  1204 Killed                  python train.py\n")[0] == "host_oom_killed"


def test_a_sign_of_windows_stays_in_the_name_that_it_belongs_to() -> None:
    line = "slurmstepd-n1: error: execve(): bad interpreter(/bin/bash\r): No such file or directory\n"
    assert root(line) == ("script_error", line.strip().replace("\r", "^M"))


def test_a_store_that_waits_for_the_first_key_of_the_group_is_a_rendezvous() -> None:
    for keys, family in (("/default_pg/0//cpu//0/0", "rendezvous_failure"), ("weights/ready", "collective_timeout")):
        assert root(raised(f"torch.distributed.DistStoreError: wait timeout after 10000ms, keys: {keys}"))[0] == family
