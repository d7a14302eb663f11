# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words that a shell would replace, where no shell reads them: the plan names them, and `shell`."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import summary
from tests.unit.plan.containers import planned


def warned(**given: Any) -> list[str]:
    return [line for line in summary(planned({}, **given)) if line.startswith("warning: ")]


@pytest.mark.parametrize(
    "word",
    [
        *("$SLURM_NODEID", "--rank=$SLURM_PROCID", "tcp://$MASTER_ADDR:$MASTER_PORT", "${SLURM_NODEID}", "${HOME:-/x}"),
        *("$(hostname)", "~", "~/data", "~ann/data", "--out=~/x", "/d/*.tar", "*.tar", "data/shard-??.bin", "runs/*"),
        *("{a,b}.bin", "--files={a,b}.bin", "/d/shard-{000..127}.tar", "|", "2>&1", "&&", ">"),
    ],
)
def test_a_word_of_a_command_that_only_a_shell_replaces_is_named(word: str) -> None:
    (line,) = warned(command=["train.py", "--steps", "3", word])
    assert line.startswith("warning: command: ") and f" {word} " in line and "`shell`" in line


@pytest.mark.parametrize(
    "word",
    [
        # What programs read themselves: options of Hydra, regular expressions, JSON, lists, prices.
        *("${now:%Y-%m-%d}", "${oc.env:x}", "+model.layers=*", ".*attention.*", "module/.*", '{"a": 1, "b": 2}'),
        *("{a:1,b:2}", "[1,2]", "5$", "$1", "$", "a~b", "what?", "1*2", "x|y", "a;b", "{lr}", "backup~"),
    ],
)
def test_a_word_that_programs_have_a_use_for_is_left_alone(word: str) -> None:
    assert warned(command=["train.py", word]) == []


def test_a_line_that_a_shell_reads_is_left_alone() -> None:
    assert warned(command=["bash", "-lc", "echo $SLURM_NODEID > ~/x"]) == []
    assert warned(command=["env", "A=1", "/bin/sh", "-c", "echo $SLURM_NODEID"]) == []
    line = {"command": None, "shell": "train.py $SLURM_NODEID ~/data *.tar"}
    assert warned(**line) == []


def test_a_variable_of_env_is_named_with_what_is_not_replaced_and_no_more_of_its_value() -> None:
    lines = warned(env={"FOO": "s3cret $SLURM_NODEID", "PLACE": "~/x", "PATTERN": "*.tar", "PLAIN": "a$"})
    assert [line.split(": ")[1] for line in lines] == ["env.FOO", "env.PLACE"]
    assert "$SLURM_NODEID" in lines[0] and "`shell`" in lines[0] and "s3cret" not in lines[0]


def test_many_words_are_one_line() -> None:
    (line,) = warned(command=["train.py", *(f"/d/{number}/*.tar" for number in range(100)), "$" + "A" * 10_000])
    assert "/d/4/*.tar" in line and "/d/5/*.tar" not in line
