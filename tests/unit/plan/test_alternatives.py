# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several submissions of one launch (resources.any_of): what the script of all of them says, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.plan.test_plan import planned
from tests.unit.plan.test_validate import problems

TWO = [{"account": "a"}, {"partition": "b", "time": "00:30:00"}]
LATE = {"signal_before_end": 1800}
ROLES = {"trainer": {"partition": "x", "command": ["a.py"]}, "b": {"partition": "y", "command": ["b.py"]}}


@pytest.mark.parametrize("own", [None, "afterok:1"])
def test_the_jobs_of_a_launch_do_not_wait_for_each_other(own: str | None) -> None:
    made = planned(resources={"any_of": TWO, "dependency": own})
    assert dict(made.header).get("dependency") == own
    assert dict(made.exports)["RANKZERO_ANY_OF"] == "account partition time"


@pytest.mark.parametrize(
    ("ways", "more", "message"),
    [
        (TWO, {}, None),
        (TWO[:1], {}, "any_of: has one alternative; give two or more, or write its values in resources"),
        ([{"account": "a"}, {"time": "02:00:00"}], {}, "any_of, item 2: time 02:00:00 is more than resources.time"),
        (TWO, {"checkpoint": LATE}, "any_of, item 2: time 00:30:00 is not more than signal_before_end, 1800 s"),
        (TWO, {"launcher": {"inside_job": "7"}}, "any_of: not with launcher.inside_job"),
        (TWO, {"sweep": {"parameters": {"lr": ["1", "2"]}}, "program_args": ["{lr}"]}, "any_of: not with sweep"),
        (TWO, {"roles": ROLES, "command": None}, "any_of: not with roles, which on nodes of several kinds are one job"),
    ],
)
def test_what_goes_with_alternatives(ways: list[dict[str, str]], more: dict[str, Any], message: str | None) -> None:
    told = problems(**{"resources": {"any_of": ways}, **more})
    if message is None:
        assert told == []
    else:
        assert [text for text in told if text.startswith(f"resources.{message}")], told
