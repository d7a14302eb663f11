# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DeepSpeed's own launcher, with the words of its record: it starts every rank, under the names that the record says.

A launcher of a node needs no Slurm: both nodes are this machine. Others are in tests/cluster/test_real_programs.py.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import PLACES, RANK, STARTERS
from tests.repository import CACHE, run

# DeepSpeed needs torch, which takes a gigabyte.
pytestmark = pytest.mark.more

SECONDS = 600
PROGRAM = """#!/usr/bin/env python3
import json, os
with open("rank-" + os.environ["RANK"], "w") as stream:
    json.dump(dict(os.environ), stream)
"""


@pytest.fixture(scope="module")
def python() -> str:
    """A Python with DeepSpeed and torch for CPUs; RANKZERO_TEST_DEEPSPEED names an environment that exists."""
    place = Path(os.environ.get("RANKZERO_TEST_DEEPSPEED") or CACHE / "deepspeed")
    program = place / "bin" / "python"
    if not program.exists():
        run("uv", "venv", "--python", "3.11", place)
        run("uv", "pip", "install", "--python", program, "--torch-backend", "cpu", "torch", "numpy")
        run("uv", "pip", "install", "--python", program, "deepspeed")
    return str(program)


def test_deepspeed_starts_every_rank_with_its_names(python: str, tmp_path: Path) -> None:
    (record,) = [starter for starter in STARTERS if starter.kind == "deepspeed"]
    (tmp_path / "program").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "hosts").write_text("node01 slots=2\nnode02 slots=2\n", encoding="ascii")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    values = {
        "python": python, "hostfile": "hosts", "nodes": "2", "ranks_per_node": "2", "master_addr": "127.0.0.1",
        "master_port": str(port),
    }  # fmt: skip
    by_variable = {PLACES.get(name, name): value for name, value in values.items()}
    started = []
    for node in ("0", "1"):
        filled = {**by_variable, PLACES.get("node", "node"): node, RANK.strip("{}"): "./program"}
        words = [re.sub(r"\{(\w+)\}", lambda match: filled[match[1]], word) for word in record.words("static")]  # noqa: B023
        started.append(
            subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    for process in started:
        output = process.communicate(timeout=SECONDS)[0]
        assert process.returncode == 0, output[-3000:]
    ranks = [json.loads((tmp_path / f"rank-{rank}").read_text(encoding="utf-8")) for rank in range(4)]
    for name, expected in {
        "RANK": "0123", "LOCAL_RANK": "0101", "NODE_RANK": "0011", "WORLD_SIZE": "4444", "LOCAL_WORLD_SIZE": "2222",
    }.items():  # fmt: skip
        assert "".join(rank[record.sources[name]] for rank in ranks) == expected, name
