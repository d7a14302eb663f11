# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the example's program, and of the fabric check's, with real torch. Not collected by itself:
test_environment_example.py runs this file with the Python of the environment that the example has built, which has no
more than torch besides pytest.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "first_run" / "train.py"


@pytest.fixture
def program() -> ModuleType:
    specification = importlib.util.spec_from_file_location("train", PROGRAM)
    assert specification is not None
    assert specification.loader is not None
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def alone(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "RANKZERO_ARTIFACT"):
        monkeypatch.delenv(name, raising=False)
    before, train, kept = signal.getsignal(signal.SIGTERM), program.train, []

    def in_a_group_of_its_own(options: Any) -> Any:
        """A group that is freed may wait for its own thread for ever: the program leaves it, and so do the tests."""
        result = train(options)
        kept.append(program.dist.group.WORLD)
        program.dist.destroy_process_group()  # fails where the program has done it
        return result

    monkeypatch.setattr(program, "train", in_a_group_of_its_own)
    yield program
    signal.signal(signal.SIGTERM, before)


def test_shards_are_disjoint_equal_and_cover_the_text(program: ModuleType) -> None:
    windows = program.windows_of(bytes(range(256)) * 5, context=16)
    assert windows.shape == (79, 17)
    assert windows[3].tolist() == [(48 + i) % 256 for i in range(17)]
    # One number a window that tells it apart, so that the shards can be compared as sets.
    windows[:, 0] = program.torch.arange(len(windows))
    shards = [{int(window[0]) for window in program.shard(windows, rank, 4)} for rank in range(4)]
    assert [len(one) for one in shards] == [19] * 4
    assert len(set.union(*shards)) == 76


def test_a_pass_reads_every_window_once_and_the_next_in_another_order(program: ModuleType) -> None:
    windows = program.torch.arange(12).view(12, 1)
    batches = [program.batch_at(windows, step, 4, seed=1).flatten().tolist() for step in range(6)]
    passes = [[*batches[0], *batches[1], *batches[2]], [*batches[3], *batches[4], *batches[5]]]
    for order in passes:
        assert sorted(order) == list(range(12))
    assert passes[0] != passes[1]
    assert len(program.batch_at(windows, 0, 100, seed=1)) == 12


def test_learning_rate_rises_and_falls(program: ModuleType) -> None:
    rates = [program.learning_rate(step, 100, 1.0) for step in range(100)]
    top = rates.index(max(rates))
    assert 0 < top <= 10
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert 0.1 <= rates[-1] < 0.12


def test_the_hash_sees_one_changed_bit(program: ModuleType) -> None:
    model = program.LanguageModel(context=8, width=8, layers=1, heads=2)
    before = program.parameter_hash(model)
    assert program.parameter_hash(model) == before
    with program.torch.no_grad():
        model.head.weight[0, 0] += 1e-6
    assert program.parameter_hash(model) != before


def test_alone_it_learns_and_proves_it(alone: ModuleType, tmp_path: Path) -> None:
    options = alone.parse(
        ["--steps", "30", "--context", "32", "--width", "32", "--layers", "1", "--result", str(tmp_path / "r.json")]
    )
    result = alone.train(options)
    assert result["first_loss"] == pytest.approx(5.545, abs=0.2)
    assert result["loss"] < 3.5
    assert (result["world_size"], result["rank_sum"], result["parameters_identical"]) == (1, 0, True)
    alone.write_result(options.result, result)
    assert json.loads(options.result.read_text(encoding="utf-8")) == result
    assert os.listdir(tmp_path) == ["r.json"]


def test_interrupted_it_ends_where_it_would_have_ended(
    alone: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same steps with the same batches: the parameters are equal to the last bit."""
    small = ["--steps", "12", "--context", "16", "--width", "16", "--layers", "1", "--save-every", "5"]
    whole = alone.train(alone.parse([*small, "--checkpoint", str(tmp_path / "whole.pt")]))
    assert whole is not None
    broken = alone.parse([*small, "--checkpoint", str(tmp_path / "broken.pt")])
    batch_at = alone.batch_at

    def told_at_step_7(windows: Any, step: int, size: int, seed: int) -> Any:
        if step == 7:
            signal.raise_signal(signal.SIGTERM)
        return batch_at(windows, step, size, seed)

    with monkeypatch.context() as patch:
        patch.setattr(alone, "batch_at", told_at_step_7)
        assert alone.train(broken) is None
    # The step during which the signal came is not lost.
    assert " saved checkpoint at step 5\n" in capsys.readouterr().out
    assert alone.torch.load(broken.checkpoint, weights_only=True)["step"] == 8
    resumed = alone.train(broken)
    assert " resumed at step 8\n" in capsys.readouterr().out
    assert resumed is not None
    assert resumed["parameter_hashes"] == whole["parameter_hashes"]
    assert resumed["loss"] == whole["loss"]
    assert sorted(os.listdir(tmp_path)) == ["broken.pt", "whole.pt"]


def test_the_fabric_check_measures_all_reduces_over_gloo(tmp_path: Path) -> None:
    """Two ranks over the loop-back: the first one prints a row a size, the other nothing."""
    folder = PROGRAM.parents[2] / "playbooks" / "files" / "fabric"
    # They meet at a file: a port that is free now may be somebody else's when they come, and they would wait for ever.
    meet = f"file://{tmp_path / 'meet'}"
    given = {"backend": "gloo", "meet": meet, "ranks": 2, "local": 0, "sizes": [1024, 1 << 20], "seconds": 120}
    running = [
        subprocess.Popen(
            [sys.executable, "-B", str(folder / "fabric_torch.py"), json.dumps({**given, "rank": rank})],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=300)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0]
    rows = [json.loads(line) for line in said[0].splitlines()]
    assert [(row["size"], row["cut"]) for row in rows] == [(1024, False), (1 << 20, False)]
    for row in rows:
        assert row["bus"] == pytest.approx(row["size"] / row["seconds"])
    assert said[1] == ""
