# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics, parse_metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import short_list


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step 10", Metrics(step=10)),
        ("step=10/100 loss=2.31", Metrics(10, 100, 2.31)),
        (
            " iteration       10/     100 | consumed samples: 160 | lm loss: 2.312345E+00 | loss scale: 1.0 |",
            Metrics(10, 100, 2.312345),
        ),
        ("Epoch 0:  10%| global_step=40, reduced_train_loss=2.3, train_step_timing in s=1.2", Metrics(40, None, 2.3)),
        ("{'loss': 2.31, 'grad_norm': 0.5, 'learning_rate': 5e-05, 'epoch': 0.1}", Metrics(None, None, 2.31)),
        ("step 7 loss 3.2 (1,812.5 tokens/s)", Metrics(7, None, 3.2, 1812.5)),
        ("step: 5 | loss: 4.1e+0 | tok/s: 12.5k", Metrics(5, None, 4.1, 12500.0)),
        ("step 20/60 loss 2.661 tokens/s 19170", Metrics(20, 60, 2.661, 19170.0)),
        ("step 5/100 loss 2.5 grad_norm 1.2 lr 1.0e-04 tokens/s 19000", Metrics(5, 100, 2.5, 19000.0)),
        ("step 5 loss 2.5 learning_rate=1e-4 tok/s 12.5k", Metrics(5, None, 2.5, 12500.0)),
        ("step 5 loss 2.5 throughput: 812 tokens/s 45.2 TFLOP/s", Metrics(5, None, 2.5, 812.0)),
        ("step 5 loss 2.5 | 812 tokens/s 45.2 TFLOP/s", Metrics(5, None, 2.5, 812.0)),
        ("loss 2.5, step 7, 812 tokens/s", Metrics(7, None, 2.5, 812.0)),
        # The number is a part of the word before the unit, and another unit stands before it.
        ("step 5 loss 2 tokens/s/gpu1.5e3 tokens/s", Metrics(5, None, 2.0, 1500.0)),
        ("step 5 loss 2.5 1.5 k tokens/s", Metrics(5, None, 2.5, 1500.0)),
        ("loss scale: 1.0 | İ lm loss: 2.5 step 5", Metrics(5, None, 2.5, None)),
        ("step 5 tokens_per_second=88", Metrics(5, None, None, 88.0)),
        (" 12%|█▏        | 12/100 [00:03<00:21,  4.1it/s, loss=1.5]", Metrics(12, 100, 1.5)),
        ("val/loss: 0.25", Metrics(None, None, 0.25)),
        ("loading weights: 10 of 12", None),
        ("footstep 5", None),
        ("Loss scale: 4096", None),
        ("no data loss so far", None),
        ("the next step is hard", None),
        ("", None),
    ],
)
def test_numbers_of_progress(line: str, expected: Metrics | None) -> None:
    assert parse_metrics(line) == expected


def test_a_loss_that_is_not_a_number_is_still_news() -> None:
    found = parse_metrics("step 3 loss: nan")
    assert found is not None and found.loss != found.loss


@given(st.text())
def test_any_line_is_read(line: str) -> None:
    parse_metrics(line)
    assert "\n" not in printable(line) and "\x1b" not in printable(line)


def test_what_goes_to_the_screen_is_harmless_and_short() -> None:
    assert printable("\x1b[31mstep 1\x1b[0m\a\x00 loss\t2\r") == r"step 1\x07\x00 loss 2"
    assert len(printable("x" * 10000, 200)) == 200
    assert short_list(["a", "b", "c", "d"]) == "a, b, c, d"
    assert short_list([f"n{i}" for i in range(8)]) == "n0, n1, n2 and 5 more"
    assert short_list([]) == "none"


@pytest.mark.parametrize(
    "line",
    [
        "Map: 100%|##########| 32/32 [00:00<00:00, 4102.61 examples/s]",
        "Map (num_proc=4):  50%|#####     | 16/32 [00:00<00:00, 41.6 examples/s]",
        "[rank0]: Running tokenizer on dataset:  50%|#####     | 16/32 [00:00<00:00, 41.6ex/s]",
        "  50%|#####     | 16/32 [00:00<00:00, 41.6 examples/s]",
        "model.safetensors:  50%|#####     | 16/32 [00:01<00:01, 20.1MB/s]",
        "Evaluating:  50%|#####     | 16/32 [00:01<00:01, 12.1it/s]",
        "Validation DataLoader 0:  50%|#####     | 16/32 [00:01<00:01, 12.1it/s]",
        "Sanity Checking DataLoader 0:  50%|#####     | 1/2 [00:01<00:01, 12.1it/s]",
        "Loading checkpoint shards:  50%|#####     | 1/2 [00:01<00:01,  1.1s/it]",
    ],
)
def test_a_bar_of_data_or_of_an_evaluation_is_no_step(line: str) -> None:
    metrics = parse_metrics(line)
    assert metrics is None or metrics.step is None


@pytest.mark.parametrize(
    "line",
    [
        " 50%|#####     | 16/32 [00:01<00:01, 12.1it/s]",
        "Epoch 3:  50%|#####     | 16/32 [00:01<00:01, 12.1it/s, v_num=0]",
        "Training:  50%|#####     | 16/32 [00:01<00:01,  2.1s/it]",
        "[rank0]: train 50%|#####     | 16/32 [00:01<00:01, 12.1it/s]",
    ],
)
def test_a_bar_of_the_training_is_a_step(line: str) -> None:
    assert parse_metrics(line) == Metrics(step=16, total=32)


def test_an_evaluation_names_its_own_steps() -> None:
    line = parse_metrics("eval step 16/32 loss 0.5")
    assert line is not None and (line.step, line.loss) == (None, 0.5)


def test_a_shorter_bar_within_the_training_leaves_its_step() -> None:
    trained = Metrics(step=10, total=130)
    assert Metrics(step=4, total=5).after(trained) == trained
    assert Metrics(step=11, total=130).after(trained).step == 11
    # The next part of a program whose first part has ended.
    assert Metrics(step=4, total=5).after(Metrics(step=130, total=130)).step == 4
    assert Metrics(step=4, total=5, loss=0.5).after(trained).step == 4
