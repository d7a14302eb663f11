# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node asks of the flight recorders, with a stand-in for torch; connections; and the look at a quiet job."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.test_stacks import HOOK, answer, looked_at, ranks

RECORDER = """
import pickle, torch
def _dump_fr_trace(includeCollectives, includeStackTraces, onlyActive):
    # As torch 2.13, which asks for what compiled code has of frames.
    hasattr(torch, "_inductor")
    assert includeCollectives and includeStackTraces and not onlyActive
    frames = [
        {"filename": "/e/site-packages/torch/distributed/distributed_c10d.py", "line": 3245, "name": "all_reduce"},
        {"filename": "/code/train.py", "line": 16, "name": "train"},
    ]
    entry = {"process_group": ("0", "default_pg"), "profiling_name": "gloo:all_reduce", "retired": False, "secret": 1}
    entries = [{**entry, "collective_seq_id": number, "frames": frames} for number in range(1, 200)]
    return pickle.dumps({"entries": entries}, protocol=2)
"""

LAZY = """
import torch.distributed.distributed_c10d, torch.cuda, importlib
def __getattr__(name):
    if name == "_inductor":
        return importlib.import_module("torch._inductor")
    raise AttributeError(name)
"""


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A PYTHONPATH with the hook and a torch that has only a recorder; `torch.cuda` is used where GPU is set."""
    package = tmp_path / "packages" / "torch"
    for folder in ("distributed", "_C"):
        (package / folder).mkdir(parents=True)
        (package / folder / "__init__.py").write_text("")
    (package / "__init__.py").write_text(LAZY)
    (package / "_inductor.py").write_text("import os\nprint('imported', flush=True)\n")
    (package / "cuda.py").write_text("import os\ndef is_initialized():\n    return 'GPU' in os.environ\n")
    (package / "_C" / "_distributed_c10d.py").write_text(RECORDER)
    (package / "distributed" / "distributed_c10d.py").write_text("import torch._C._distributed_c10d\n")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "512")
    return f"{HOOK}:{package.parent}"


def test_the_newest_collectives_are_kept(tmp_path: Path, torch: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with ranks(run, ["import torch\ntime.sleep(600)", "time.sleep(600)"], torch) as started:
        for _again in range(2):
            rows = looked_at(run)
            entries = rows[0]["trace"]["entries"]
            assert [entry["collective_seq_id"] for entry in entries] == list(range(200 - len(entries), 200))
            assert len(entries) > 8 and "secret" not in entries[0]
            assert {entry["place"] for entry in entries} == {"/code/train.py:16, in train"}
            assert rows[1]["trace"] == {}
        assert started[0].poll() is None


def test_a_look_imports_nothing_into_a_program(tmp_path: Path, torch: str) -> None:
    """A part of torch that is imported by being asked for takes 9 s of a CPU. The program still gets it."""
    run = tmp_path / "run"
    run.mkdir()
    seen = "print('looked', '_inductor' in vars(torch), bool(torch._inductor), flush=True)"
    text = f"import torch, pathlib\nwhile not pathlib.Path({str(run / 'go')!r}).exists(): time.sleep(0.1)\n{seen}"
    with ranks(run, [text], torch) as started:
        assert looked_at(run)[0]["trace"]["entries"]
        (run / "go").touch()
        assert started[0].stdout is not None
        assert started[0].stdout.read().splitlines() == ["imported", "looked False True"]


@pytest.mark.parametrize("name", ["GPU", "TORCH_FR_BUFFER_SIZE", "WORLD_SIZE"])
def test_a_process_that_is_to_be_left_alone_says_nothing(
    tmp_path: Path, torch: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, {"GPU": "1", "WORLD_SIZE": "1"}.get(name, "0"))
    run = tmp_path / "run"
    run.mkdir()
    with ranks(run, ["import torch\ntime.sleep(600)"], torch):
        assert not looked_at(run)[0]["trace"].get("entries")


def test_a_program_may_fork_and_end(tmp_path: Path, torch: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    text = "import torch\nif os.fork() == 0:\n    time.sleep(600)\nos.wait()"
    with ranks(run, [text], torch):
        processes: list[dict[str, Any]] = answer(run, f"stacks.sample_processes({{'RANKZERO_RUN_DIR={run}'}})")
        traces = [len(row["trace"].get("entries", [])) for row in sorted(processes, key=lambda row: int(row["pid"]))]
        assert traces[0] > 8 and sum(traces) == traces[0]
        for row in processes[1:]:
            os.kill(row["pid"], 9)


def test_data_that_nobody_takes_is_seen(tmp_path: Path) -> None:
    """From one address of this machine to another: the connection of a rank with itself is none between nodes."""
    with socket.socket() as server:
        server.bind(("127.0.0.2", 0))
        server.listen()
        with socket.create_connection(server.getsockname(), source_address=("127.0.0.3", 0)) as client:
            client.setblocking(False)
            try:
                while client.send(b"x" * 65536):
                    pass
            except BlockingIOError:
                pass
            call = "(lambda traces: traces.stuck(traces.connections()))(__import__('rank.traces').traces)"
            rows = answer(tmp_path, call)
            own = answer(tmp_path, "__import__('rank.traces').traces.own_addresses()")
    assert {"127.0.0.2", "127.0.0.3"} <= set(own)
    (row,) = [row for row in rows if (row["from"], row["to"]) == ("127.0.0.3", "127.0.0.2")]
    assert row["bytes"] > 0


def test_a_node_looks_when_the_log_has_not_grown(tmp_path: Path) -> None:
    logs = tmp_path / "logs" / "0"
    logs.mkdir(parents=True)
    (logs / ".live").write_text("step 1\n")
    times = [0.0, 1.0, 59.0, 61.5, 100.0, 130.0, 131.0]
    call = (
        f"(lambda now: (lambda asked: [asked.quiet(now.pop(0)) for _time in range({len(times) - 1})])"
        f"(stacks.Asked(__import__('os').environ, clock=lambda: now.pop(0))))({times})"
    )
    assert answer(tmp_path, call) == [False, False, True, False, True, False]
    assert json.loads(json.dumps(answer(tmp_path / "gone", call))) == [False] * 6
