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
        ("loss 2.5, step 7, 812 tokens/s", Metrics(7, None, 2.5, 812.0)),
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
