# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Redis as the package index has it, beside the workers that share it: examples/database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.examples import Example, read_json

#: The process ids of a node's servers, and what the words of their commands are.
SERVERS = "for pid in $(pgrep -x redis-server); do echo $pid; tr '\\0' ' ' </proc/$pid/cmdline; echo; done"


@pytest.fixture
def example(lab: LabCluster, tmp_path: Path) -> Iterator[Example]:
    made = Example(lab, "database", tmp_path)
    yield made
    made.remove()


def test_a_database_that_is_killed_has_kept_what_the_workers_wrote(example: Example) -> None:
    """Rank 0 kills it at its first text; until then the others hold theirs. Each text is counted once."""
    line = '            ask(database, "HSET", '
    kill = "import subprocess; subprocess.run(['pkill', '-9', '-x', 'redis-server']); open('killed', 'x').close()"
    first = f"            if rank == '0' and not os.path.exists('killed'):\n                {kill}\n"
    others = "            while not os.path.exists('killed'):\n                time.sleep(0.1)\n"
    example.edit("work.py", {line: first + others + line})
    done = example.play()
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("database")
    result = read_json(run / "work" / "result.json")
    assert (result["missing"], result["words"]) == (0, 332)
    workers, database = read_json(run / "started.json")["roles"]
    assert database["nodes"] == workers["nodes"][:1] and len(workers["nodes"]) == 2
    assert "starts again (1 of 3)" in next(iter((run / "logs").glob("job.*.log"))).read_text()
    password = run / "work" / "database" / "password"
    assert password.stat().st_mode & 0o077 == 0
    logs = "".join(path.read_text(errors="replace") for path in (run / "logs").rglob("*.log"))
    assert password.read_text() not in logs + (run / "job.sbatch").read_text()
    for node in workers["nodes"]:
        left = example.lab.node(node, ["sh", "-c", SERVERS]).stdout
        assert left == "", f"{node}: {left}"
