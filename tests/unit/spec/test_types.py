# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every value type: what is right, what is wrong, and what YAML has spoiled before we see it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.artifact import CONDITIONS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.secrets import (
    SECRET_SOURCE,
    SECRETS,
    SecretSource,
)

LINE = t.text(lines=False)
NAME = t.text("[a-z]+", "small letters")


class Tagged(str):
    """As Ansible's own text arrives."""


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        (t.text(), "x", "x"),
        (t.text(), "", ""),
        (t.text(), "two\nlines", "two\nlines"),
        (t.text(), 7, "7"),
        (t.text(), -7, "-7"),
        (NAME, "abc", "abc"),
        (LINE, "é 日本 🚀", "é 日本 🚀"),
        (t.integer(1), 3, 3),
        (t.integer(1), "3", 3),
        (t.integer(1), " 3 ", 3),
        (t.integer(0), "+0", 0),
        (t.integer(0, 5), 5, 5),
        (t.auto_or(t.integer(1)), "auto", None),
        (t.auto_or(t.integer(1)), "2", 2),
        (t.BOOLEAN, True, True),
        (t.BOOLEAN, "yes", True),
        (t.BOOLEAN, "ON", True),
        (t.BOOLEAN, "1", True),
        (t.BOOLEAN, 1, True),
        (t.BOOLEAN, "no", False),
        (t.BOOLEAN, "off", False),
        (t.BOOLEAN, 0, False),
        (t.choice("a", "b"), "b", "b"),
        (t.TIME, "30", "30"),
        (t.TIME, "04:00:00", "04:00:00"),
        (t.TIME, "1-12", "1-12"),
        (t.TIME, "1-12:30:00", "1-12:30:00"),
        (t.listed(NAME), ["a", "b"], ("a", "b")),
        (t.listed(NAME), ("a",), ("a",)),
        (t.listed(NAME), [], ()),
        (t.mapped("[A-Z]+", "capitals", NAME), {"A": "x"}, {"A": "x"}),
        (t.OPTION, "END", "END"),
        (t.OPTION, 3, "3"),
        (t.OPTION, True, True),
        (t.OPTION, "True", True),
        (t.OPTION, "false", False),
        (t.OPTION, "yes", "yes"),
        (CONDITIONS, {"lt": 4.0}, {"lt": 4.0}),
        (
            CONDITIONS,
            {"lt": "4.0", "ge": "-1", "le": ".5", "gt": "1e-3"},
            {"lt": 4.0, "ge": -1, "le": 0.5, "gt": 0.001},
        ),
        (CONDITIONS, {"eq": "true", "ne": "x"}, {"eq": True, "ne": "x"}),
        (CONDITIONS, {"eq": False}, {"eq": False}),
        (CONDITIONS, {}, {}),
        (SECRET_SOURCE, {"from_env": "HF_TOKEN"}, SecretSource("from_env", "HF_TOKEN")),
        (SECRET_SOURCE, {"from_file": "~/.token"}, SecretSource("from_file", "~/.token")),
        (SECRET_SOURCE, {"from_var": "vault_token"}, SecretSource("from_var", "vault_token")),
    ],
)
def test_good(kind: t.Type, value: object, result: object) -> None:
    parsed = kind.parse(value)
    assert parsed == result
    assert type(parsed) is type(result)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (t.text(), None, "must be text, not None"),
        (t.text(), ["x"], "must be text, not ['x']"),
        (t.text(), {"a": 1}, "must be text, not {'a': 1}"),
        (t.text(), "a\0b", "may not contain a NUL character"),
        (
            t.text(),
            "a\ud83d",
            "contains half a surrogate pair, which no file can hold: 'a\\ud83d'; write the character itself",
        ),
        (NAME, "Abc", "must be small letters, not 'Abc'"),
        (NAME, "abc\n", "must be small letters, not 'abc\\n'"),
        (LINE, "a\nb", "must be one line without control characters, not 'a\\nb'"),
        (LINE, "a\x7f", "must be one line without control characters, not 'a\\x7f'"),
        (t.integer(1), 0, "must be a whole number of at least 1, not 0"),
        (t.integer(1), "two", "must be a whole number of at least 1, not 'two'"),
        (t.integer(1), 2.0, "must be a whole number of at least 1, not 2.0"),
        (t.integer(1), True, "must be a whole number of at least 1, not True"),
        (t.integer(1), "", "must be a whole number of at least 1, not ''"),
        (t.integer(1), "9" * 19, "must be a whole number of at least 1, not '9999999999999999999'"),
        (t.integer(1), "٣", "must be a whole number of at least 1, not '٣'"),
        (t.integer(1), None, "must be a whole number of at least 1, not None"),
        (t.integer(0, 5), 6, "must be a whole number from 0 to 5, not 6"),
        (t.auto_or(t.integer(1)), "Auto", "must be a whole number of at least 1, not 'Auto'"),
        (t.BOOLEAN, "maybe", "must be true or false, not 'maybe'"),
        (t.BOOLEAN, 2, "must be true or false, not 2"),
        (t.BOOLEAN, None, "must be true or false, not None"),
        (
            t.choice("srun", "torchrun"),
            "torchrn",
            "must be one of srun, torchrun; not 'torchrn'; did you mean torchrun?",
        ),
        (t.choice("srun"), ["srun"], "must be one of srun; not ['srun']; did you mean srun?"),
        (t.TIME, "soon", "must be a Slurm time such as 30 (minutes), 04:00:00 or 1-12:00:00, not 'soon'"),
        (t.TIME, "1:2:3:4", "must be a Slurm time such as 30 (minutes), 04:00:00 or 1-12:00:00, not '1:2:3:4'"),
        (t.TIME, "٣٠", "must be a Slurm time such as 30 (minutes), 04:00:00 or 1-12:00:00, not '٣٠'"),
        (t.TIME, "0", "must be more than zero, not '0'"),
        (t.TIME, "0-00:00:00", "must be more than zero, not '0-00:00:00'"),
        (t.listed(NAME), "abc", "must be a list, not 'abc'; write [abc]"),
        (t.listed(NAME), {"a": 1}, "must be a list, not {'a': 1}"),
        (t.listed(NAME), ["a", "B"], "item 2 must be small letters, not 'B'"),
        (t.listed(NAME, filled=True), [], "must not be empty"),
        (t.mapped("[A-Z]+", "capitals", NAME), ["A"], "must be a map, not ['A']; write {NAME: VALUE}"),
        (t.mapped("[A-Z]+", "capitals", NAME), {"a": "x"}, "key 'a' must be capitals"),
        (t.mapped("[A-Z]+", "capitals", NAME), {7: "x"}, "key 7 must be capitals"),
        (
            t.mapped("[A-Z]+", "capitals", NAME),
            {"A": "X", "b": "x"},
            "A must be small letters, not 'X'; key 'b' must be capitals",
        ),
        (t.OPTION, "a\nb", "must be one line without control characters, not 'a\\nb'"),
        (t.OPTION, ["x"], "must be text, not ['x']"),
        (CONDITIONS, "4", "must be a map such as {lt: 4.0}, not '4'"),
        (CONDITIONS, {"zz": 4}, "zz: unknown comparison; known: lt, le, gt, ge, eq, ne"),
        (CONDITIONS, {"lte": 4}, "lte: unknown comparison; did you mean lt?; known: lt, le, gt, ge, eq, ne"),
        (CONDITIONS, {"lt": "few"}, "lt must be a number, not 'few'"),
        (CONDITIONS, {"lt": True}, "lt must be a number, not True"),
        (CONDITIONS, {"lt": float("nan")}, "lt must be a finite number, not nan"),
        (CONDITIONS, {"eq": "1e999"}, "eq must be a finite number, not '1e999'"),
        (CONDITIONS, {"eq": [1]}, "must be text, not [1]"),
    ],
)
def test_bad(kind: t.Type, value: object, message: str) -> None:
    with pytest.raises(t.Invalid) as caught:
        kind.parse(value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        # 12:00:00 without quotes
        (t.TIME, 43200),
        # 30 without quotes: nobody can tell it from a time that YAML has turned into seconds
        (t.TIME, 30),
        # no, 1.10, 2026-01-02 without quotes where text is meant
        (t.text(), False),
        (t.text(), 1.1),
        (t.text(), datetime.date(2026, 1, 2)),
        (t.OPTION, 1.5),
        (CONDITIONS, {"eq": datetime.date(2026, 1, 2)}),
    ],
)
def test_what_yaml_has_spoiled_is_refused_with_the_remedy(kind: t.Type, value: object) -> None:
    with pytest.raises(t.Invalid, match=r"quote"):
        kind.parse(value)


@pytest.mark.parametrize(
    ("value", "minutes"),
    [
        ("30", 30),
        ("30:30", 30.5),
        ("01:30:00", 90),
        ("1-0", 1440),
        ("1-2", 1560),
        ("1-2:30", 1590),
        ("1-02:30:30", 1590.5),
    ],
)
def test_minutes_of_a_slurm_time(value: str, minutes: float) -> None:
    assert t.time_minutes(value) == minutes


@pytest.mark.parametrize(
    "value",
    [
        "hf_pasted_by_mistake",
        ["hf_pasted_by_mistake"],
        {"from_env": "hf_pasted-by_mistake"},
        {"from_env": {"x": "hf_pasted_by_mistake"}},
        {"from_file": "hf_pasted_by_mistake"},
        {"from_var": ["hf_pasted_by_mistake"]},
        {"from_env": "A", "from_var": "hf_pasted_by_mistake"},
        {"value": "hf_pasted_by_mistake"},
    ],
)
def test_a_secret_that_stands_in_the_spec_is_not_shown(value: Any) -> None:
    for kind, given in ((SECRET_SOURCE, value), (SECRETS, {"TOKEN": value}), (SECRETS, value)):
        with pytest.raises(t.Invalid) as caught:
            kind.parse(given)
        assert "pasted" not in str(caught.value)
        assert (
            "from_" in str(caught.value) or "NAME -> " in str(caught.value) or "must be the name" in str(caught.value)
        )


def test_text_of_ansible_becomes_plain_text() -> None:
    for kind in (t.text(), t.OPTION, t.choice("x"), NAME):
        assert type(kind.parse(Tagged("x"))) is str


def test_a_long_value_is_cut_in_an_error() -> None:
    assert t.shown("x" * 100) == "'" + "x" * 56 + "..."


@pytest.mark.parametrize(
    ("word", "expected"), [("nods", "; did you mean nodes?"), ("zzz", ""), ("time", "; did you mean time?")]
)
def test_suggestion(word: str, expected: str) -> None:
    assert t.suggestion(word, ["nodes", "time", "partition"]) == expected
