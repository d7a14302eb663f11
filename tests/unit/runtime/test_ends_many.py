# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a step at the very moment of a signal, many times: bash 5.2 loses a child there if it waits for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.launching import RUNTIME

#: One end of a job's step, with a holder beside it that ends only when the script has let go of it.
ONE = """\
set -u
export RANKZERO_RUNTIME=$1 RANKZERO_RUN_DIR=$2 SLURM_JOB_ID=1 RANKZERO_RUNTIME_PYTHON=$2/watcher
. "$1/job.sh"
sleep 60 &
holder=$!
rankzero_early=''
{setting}
rankzero_run {step}
kill "$holder"
echo "$rankzero_ended_by $rankzero_exit_code"
"""
#: The stand-in of `outcome.py watch`: the signal, and its own end within the same microseconds.
WATCHER = """\
#!/bin/bash
read -r -t 0.0$((RANDOM % 3)) <> <(:)
kill -USR1 "${@: -1}"
"""
#: Ends that follow one another, and how many such rows run beside each other: more than there are cores.
ENDS, ROWS = 30, 4
BOUND = 20

CASES = {
    "the watcher ends": ("RANKZERO_ARTIFACT_THEN=end", "sleep 60", {"artifact 143"}),
    "the step ends": (
        "signal=$$; export signal",
        "/bin/bash -c 'read -r -t 0.0$((RANDOM % 3)) <> <(:); kill -TERM \"$signal\"; exit 5'",
        {"signal 5", "signal 143", "program 5"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_no_end_is_lost_at_the_moment_of_a_signal(tmp_path: Path, case: str) -> None:
    setting, step, expected = CASES[case]
    script = ONE.replace("{setting}", setting).replace("{step}", step)
    (tmp_path / "one.sh").write_text(script, encoding="utf-8")
    (tmp_path / "watcher").write_text(WATCHER, encoding="utf-8")
    (tmp_path / "watcher").chmod(0o755)
    row = 'for ((i = 0; i < $4; i++)); do timeout -s KILL "$3" /bin/bash "$2/one.sh" "$1" "$2" || exit 9; done'
    words = ["/bin/bash", "-c", row, "row", RUNTIME, str(tmp_path), str(BOUND), str(ENDS)]
    rows = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _number in range(ROWS)]
    said = [process.communicate()[0] for process in rows]
    assert [process.returncode for process in rows] == [0] * ROWS, "an end was lost, and waited for"
    ends = [line for text in said for line in text.splitlines() if not line.startswith("[rankzero] ")]
    assert len(ends) == ENDS * ROWS
    assert set(ends) <= expected
