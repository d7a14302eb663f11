# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics from logs in the formats of common trainers, in bounded memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import from_logs
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_files import (
    read_event_files,
    read_json_lines,
    step_times,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import (
    MetricSet,
    Span,
    read_metrics,
    read_rank,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import parse_metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.series import POINTS, SAMPLES, Series, Spread
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import values_in


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (  # Megatron
            (
                " iteration  10/  100 | elapsed time per iteration (ms): 512.5 | learning rate: 1.5E-04 | "
                "lm loss: 2.312345E+00 | loss scale: 1.0 | grad norm: 0.871 |"
            ),
            {"loss": 2.312345, "step_seconds": 0.5125, "learning rate": 1.5e-4, "grad norm": 0.871, "loss scale": 1.0},
        ),
        (  # the Trainer of Hugging Face
            "{'loss': 2.31, 'grad_norm': 0.5, 'learning_rate': 5e-05, 'epoch': 0.1}",
            {"loss": 2.31, "grad_norm": 0.5, "learning_rate": 5e-05, "epoch": 0.1},
        ),
        (  # Lightning
            "Epoch 0:  10%|#   | 10/100 [00:01<00:09, 10.0it/s, v_num=3, train_loss=2.5]",
            {"loss": 2.5, "step_seconds": 0.1},
        ),
        (  # KempnerForge
            "[step 4000] loss: 2.41 | lr: 3.0e-04 | grad_norm: 0.9 | tok/s: 81,234",
            {"loss": 2.41, "lr": 3e-4, "grad_norm": 0.9, "tokens_per_second": 81234.0},
        ),
        (  # DeepSpeed
            "steps: 10 loss: 3.2500 iter time (s): 1.250 samples/sec: 12.800",
            {"loss": 3.25, "samples/sec": 12.8, "step_seconds": 1.25},
        ),
        ("[Rank 0] step=10, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)] loss=2.0", {"loss": 2.0, "lr": 1e-5}),
        ("step 20/60 loss 2.661 tokens/s 19170", {"loss": 2.661, "tokens_per_second": 19170.0}),
        ('{"step": 7, "loss": 1.5, "acc": 0.75}', {"loss": 1.5, "acc": 0.75}),
        ("step 5 val/loss: 0.25", {"val/loss": 0.25}),
    ],
)
def test_formats(line: str, expected: dict[str, float]) -> None:
    metrics = parse_metrics(line)
    assert metrics is not None
    values = values_in(line, metrics)
    assert {name: values.get(name) for name in expected} == pytest.approx(expected)
    assert not {"step", "iteration", "steps", "v_num", "rank"} & {name.lower() for name in values}
    assert ("loss" in values) == ("loss" in expected)


def test_a_long_series_is_bounded_and_keeps_its_extremes() -> None:
    series = Series()
    for step in range(200_000):
        series.add(step, float(step), 9.0 if step == 77_777 else 1.0, 0)
    assert POINTS / 2 < len(series.points) <= 2 * POINTS
    assert series.count == 200_000
    assert max(point.high or 0 for point in series.points) == 9.0
    assert [point.step for point in series.points] == sorted(point.step for point in series.points)
    assert series.points[-1].step == 199_999


def test_values_that_are_no_numbers_are_counted_and_stay_visible() -> None:
    series = Series()
    for step in range(10_000):
        series.add(step, None, float("nan") if step == 500 else 1.0, 0)
    document = series.as_dict()
    assert (document["not_numbers"], document["first_not_a_number"]) == (1, 500)
    assert None in document["values"]


def test_quantiles_of_many_values_are_bounded() -> None:
    spread = Spread()
    for value in range(100_000):
        spread.add(float(value))
    spread.add(float("inf"))
    low, _q1, middle, _q3, high, highest = spread.quantiles()
    assert len(spread.values) <= 2 * SAMPLES
    assert (low, middle, high) == pytest.approx((5_000, 50_000, 95_000), rel=0.02) and highest == 99_999


def test_attempts_follow_each_other_and_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"step {step} loss {1 / (step + 1):.4f}\n" for step in range(3000)))
    (tmp_path / "b").write_text("".join(f"step {step} loss {1 / (step + 1):.4f}\n" for step in range(2000, 2100)))
    found, root = MetricSet(), Beneath(str(tmp_path))
    read_metrics(found, root, "a", Span(0, 100.0, 200.0))
    read_metrics(found, root, "b", Span(1, 300.0, 400.0))
    document = found.series["loss"].as_dict()
    assert document["count"] == 3100 and set(document["attempts"]) == {0, 1}
    assert document["attempts"] == sorted(document["attempts"])
    assert found.estimated and document["times"][-1] == 400.0
    assert all(100 <= time <= 200 for time, attempt in zip(document["times"], document["attempts"]) if attempt == 0)


def test_a_clock_that_is_hours_apart_is_corrected(tmp_path: Path) -> None:
    stamps = [f"2026-01-02 0{hour}:00:00 step {hour} loss 1.0\n" for hour in range(3)]
    (tmp_path / "log").write_text("".join(stamps))
    real = datetime(2026, 1, 2, 0, 0, 0).timestamp() + 6 * 3600
    found = MetricSet()
    read_metrics(found, Beneath(str(tmp_path)), "log", Span(0, real, real + 3 * 3600))
    assert [point.time for point in found.series["loss"].points] == [real, real + 3600, real + 7200]
    assert found.shifted == 6 * 3600
    steps = read_rank(Beneath(str(tmp_path)), "log", 3, 1 << 20)
    assert (steps.first, steps.last, steps.seconds.quantiles()[2]) == (0, 2, 3600.0)


def test_of_a_large_log_evenly_spaced_parts_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_logs, "PART", 4096)
    monkeypatch.setattr(from_logs, "MOST_OF_A_LOG", 64 * 1024)
    (tmp_path / "log").write_text("".join(f"step {step} loss {step / 1000}\n" for step in range(50_000)))
    found = MetricSet()
    read_metrics(found, Beneath(str(tmp_path)), "log", Span(0, None, None))
    series = found.series["loss"]
    assert series.count < 5_000
    assert series.points[0].step < 500 and series.points[-1].step > 49_900
    gaps = [later.step - earlier.step for earlier, later in zip(series.points, series.points[1:])]
    assert max(gaps) < 50_000 / 10


class Counting(Beneath):
    """Counts the bytes that are read."""

    taken = 0

    @contextlib.contextmanager
    def stream(self, name: str) -> Iterator[Any]:
        with super().stream(name) as stream:
            yield SimpleNamespace(
                fileno=stream.fileno, seek=stream.seek, read=self.counted(stream.read),
                readline=self.counted(stream.readline),
            )  # fmt: skip

    def counted(self, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
        def reading(size: int) -> bytes:
            content = read(size)
            self.taken += len(content)
            return content

        return reading


def test_of_many_steps_no_more_is_read_and_kept_than_the_limits_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, most = 200_000, 8 * from_logs.PART
    monkeypatch.setattr(from_logs, "MOST_OF_A_LOG", most)
    lines = (f"iteration {step}/ {steps} | lm loss: {1 / step:.6E} | grad norm: 1.0\n" for step in range(1, steps + 1))
    (tmp_path / "rank-0000.log").write_text("".join(lines))
    assert (tmp_path / "rank-0000.log").stat().st_size > 4 * most
    found, logs = MetricSet(), Counting(str(tmp_path))
    read_metrics(found, logs, "rank-0000.log", Span(0, 1e9, 1e9 + steps))
    assert most / 2 < logs.taken <= most
    loss = found.series["loss"].as_dict()
    assert POINTS <= len(loss["values"]) <= 2 * POINTS
    assert loss["steps"][0] < 0.01 * steps and loss["steps"][-1] > 0.99 * steps
    logs.taken = 0
    rank = read_rank(logs, "rank-0000.log", 0, most)
    assert logs.taken <= most and (rank.first, rank.last) == (1, steps)


def test_the_throughput_that_a_rank_prints_is_its_own(tmp_path: Path) -> None:
    lines = [f"step {step}/60 loss 2.6 tokens/s {1000 + step}\n" for step in range(50)]
    (tmp_path / "rank-0003.log").write_text("".join(lines))
    rank = read_rank(Beneath(str(tmp_path)), "rank-0003.log", 3, 1 << 20)
    assert rank.throughput.quantiles()[2] == 1025.0 and rank.throughput.quantiles()[-1] == 1049.0
    assert rank.seconds.quantiles() == []


def test_names_are_bounded_and_a_log_without_steps_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "many").write_text("".join(f"step {n} metric{n}=1.0 loss=2\n" for n in range(1000)))
    (tmp_path / "none").write_text("hello\n" * 1000)
    found, root = MetricSet(), Beneath(str(tmp_path))
    read_metrics(found, root, "none", Span(0, 1.0, 2.0))
    read_metrics(found, root, "missing", Span(0, 1.0, 2.0))
    assert found.series == {}
    read_metrics(found, root, "many", Span(0, 1.0, 2.0))
    assert len(found.series) == from_logs.MOST_METRICS and found.dropped > 900
    assert found.series["loss"].count == 1000


def test_lines_that_are_json_objects(tmp_path: Path) -> None:
    rows = [
        '{"step": 1, "loss": 2.5, "ok": true, "_timestamp": 1700000000}',
        "torn {",
        '{"step": 2, "loss": NaN}',
        "[1]",
        '{"step": "three", "loss": 1}',
        f'{{"step": 4, "loss": 1{"0" * 400}}}',
        f'{{"step": 1{"0" * 400}, "loss": 1}}',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows))
    found = MetricSet()
    read_json_lines(found, Beneath(str(tmp_path)), "metrics.jsonl", 0)
    assert list(found.series) == ["loss"]
    assert found.series["loss"].as_dict()["values"] == [2.5, None]
    assert found.series["loss"].points[0].time == 1700000000
    # Only lines with a step and a time tell when a step was made.
    assert step_times(Beneath(str(tmp_path)), 1 << 20) == [(1, 1700000000.0, True)]


def test_event_files_are_read_by_the_installed_reader_or_not_at_all(tmp_path: Path) -> None:
    found = MetricSet()
    assert "event files were not read" in read_event_files(found, str(tmp_path), 0, python="/nonexistent/python")
    package = tmp_path / "tensorboard" / "backend" / "event_processing"
    package.mkdir(parents=True)
    for folder in (package, *list(package.parents)[:2]):
        (folder / "__init__.py").touch()
    (package / "event_accumulator.py").write_text(READER)
    program = tmp_path / "python"
    # As a Python that has the package: PYTHONPATH counts for nothing, nor does the folder in which it starts.
    program.write_text(
        f"#!{sys.executable}\nimport sys\nassert '-I' in sys.argv\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "code = sys.argv[sys.argv.index('-c') + 1]\nsys.argv = ['-c', sys.argv[-1]]\nexec(code)\n"
    )
    program.chmod(0o755)
    assert read_event_files(found, "FOLDER", 2, python=str(program)) == ""
    points = found.series["train/loss"].points
    assert [(point.step, point.time, point.value, point.attempt) for point in points] == [(3, 1.7e9, 2.5, 2)]


# Stands in for TensorBoard, with the part of its interface that is used.
READER = """
from collections import namedtuple
class EventAccumulator:
    def __init__(self, folder, size_guidance):
        assert folder == "FOLDER" and size_guidance == {"scalars": 1000}
    def Reload(self):
        self.loaded = True
    def Tags(self):
        return {"scalars": ["train/loss"]} if self.loaded else {}
    def Scalars(self, tag):
        return [namedtuple("Event", "wall_time step value")(1.7e9, 3, 2.5)]
"""
