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
from tests.unit.diagnosis.test_appended import diagnosed, top
from tests.unit.diagnosis.test_cause import raised, root

INTERRUPT = top("KeyboardInterrupt")
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
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
