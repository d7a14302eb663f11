# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A script of somebody else is read by `rankzero init --from` in bounded time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rankzero.sbatch.text import LONGEST, commands, filled

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n"
BOMB = "A=" + "x" * 100 + "\n" + "".join(f"{chr(66 + level)}={f'${chr(65 + level)}' * 10}\n" for level in range(20))
SCRIPTS = {
    "one apostrophe": HEAD + "echo don't\n" + "echo a line of the script\n" * 20_000,
    "a bomb of variables": HEAD + BOMB + "srun python $U\n",
    "many quotes": HEAD + "echo '\"' \"'\" " * 20_000 + "\n",
}
READ = """
import sys
from rankzero.sbatch.convert import converted
try:
    converted(sys.argv[1], sys.argv[2])
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=list(SCRIPTS))
def test_no_script_takes_for_ever(tmp_path: Path, script: str) -> None:
    """The child is killed only where it would run for hours, and gets less memory than a bomb takes."""
    source = tmp_path / "job.sbatch"
    source.write_text(script)

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    done = subprocess.run(
        [sys.executable, "-c", READ, str(source), str(tmp_path / "jobs")],
        env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, timeout=300, check=True,
        preexec_fn=little,
    )  # fmt: skip
    assert done.stdout.strip() in ("", "RankzeroError")


def test_the_values_of_variables_add_a_bounded_text() -> None:
    known = {"A": "x" * (LONGEST // 2)}
    assert len(filled("$A" * 1000, known)) < 2 * LONGEST and filled("$A", known) == known["A"]


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("echo 'a\nb'\necho c\n", [1, 3]),
        ('echo "a # b\nc"\necho c\n', [1, 3]),
        ("echo a # don't\necho c\n", [1, 2]),
        ('echo "a \\" b"\necho c\n', [1, 2]),
        ("echo 'a\\'\necho c\n", [1, 2]),
        ("echo a\\'b\necho c\n", [1, 2]),
    ],
)
def test_a_command_ends_where_its_quotes_do(script: str, lines: list[int]) -> None:
    assert [command.line for command in commands(script)] == lines
