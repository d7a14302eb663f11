# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every family knows the lines that stand beside its patterns, and each alternative of a pattern has such a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, events, lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import compiled, model, registry
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import failure_families
from tests.repository import ROOT, bullet_list
from tests.unit.diagnosis import unseen
from tests.unit.diagnosis.alternatives import Alternative, alternatives

TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    go()\n{}\n'
READER = events.Reader(registry.SIGNATURES)


def diagnosed(text: str) -> cause.Cause:
    """The cause that one log's text shows."""
    return cause.find_cause([READER.read("a.log", lines.parse(text.encode().split(b"\n")))])


def misread(rows: Iterable[tuple[str, str]], log: str) -> list[str]:
    """A list of the rows (families, text) whose text, put into `log`, shows a cause of no family of theirs."""
    given = list(rows)
    assert given
    results = [(families, diagnosed(log.format(text)).family, text) for families, text in given]
    return [
        f"{text!r} is taken for {family}, not {families}"
        for families, family, text in results
        if family not in families.split("/")
    ]


FOLDER = "plugins/module_utils/diagnosis/families"
DECLARED = failure_families.declared([FOLDER], str(ROOT), ours=())
WORDINGS = [(family, match) for family in DECLARED for kind in model.WHERE for match in family.get(kind) or ()]


def is_alone(match: Mapping[str, Any]) -> bool:
    """Whether a line that a pattern knows decides on the family by itself."""
    return "frames" not in match and not match.get("strength", "cause").startswith(("weak", "echo", "meant"))


def test_a_family_knows_its_examples() -> None:
    unknown = []
    for family, match in WORDINGS:
        for example in match["examples"] if is_alone(match) else ():
            raised = TRACEBACK.format(example)
            found = {diagnosed(f"starting\n{example}\n").family, diagnosed(f"starting\n{raised}").family}
            if family["family"] not in found:
                unknown.append(f"{family['family']}: {example!r} is taken for {found}")
    assert not unknown, bullet_list(unknown)


def test_each_alternative_of_a_pattern_matches_a_line_beside_it() -> None:
    """A part that several patterns of a family share is shown once."""
    shown: dict[tuple[str, str, str], bool] = {}
    for family, match in WORDINGS:
        regex = failure_families.pattern(match["regex"], family.get("parts") or {})
        for every in (Alternative("", regex, regex), *alternatives(regex)):
            key = (family["family"], every.group, every.text)
            if not shown.get(key):
                shown[key] = any(map(re.compile(every.alone).search, match["examples"]))
    bare = [f"{family}: {text!r} of {group[:80]!r}" for (family, group, text), line in shown.items() if not line]
    assert not bare, bullet_list(bare)
    assert len(shown) > 2000, "the alternatives were not found: this test would pass on anything"


def test_each_line_has_a_fixed_string_of_its_pattern() -> None:
    """Lines without one are never compared with the pattern."""
    without = []
    for family in DECLARED:
        for match, sent in zip(family.get("says") or (), failure_families.compiled(family)["says"]):
            without += [
                f"{family['family']}: {line!r}"
                for line in match["examples"]
                if re.search(sent["regex"], line) and not any(needle in line for needle in sent["needles"])
            ]
    assert not without, bullet_list(without)


def test_a_family_stands_in_the_file_of_its_name_and_says_what_to_do() -> None:
    files = {path.stem for path in Path(ROOT, FOLDER).glob("*.yml")}
    assert files == {signature.family for signature in registry.SIGNATURES}
    assert all(signature.matches and len(signature.remedy) > 40 for signature in registry.SIGNATURES)


def test_what_the_cluster_reads_has_no_examples() -> None:
    assert '"examples"' not in compiled.FAMILIES and DECLARED[0]["family"] in compiled.FAMILIES


def rows(block: str) -> list[tuple[str, str]]:
    """Families and text of each row, with its `#` as line ends."""
    parts = [row.split(" | ", 1) for row in block.strip().splitlines()]
    return [(families, text.replace("#", "\n")) for families, text in parts]


LISTS = {
    "raised": (rows(unseen.RAISED), "start\n" + TRACEBACK),
    "printed": (rows(unseen.PRINTED), "start\n{}\n"),
    "only-sounds-bad": (
        [("healthy/unknown", text.replace("#", "\n")) for text in unseen.HEALTHY.strip().splitlines()],
        "start\n{}\n",
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_every_wording_of_a_list_is_understood(name: str) -> None:
    """The end of a traceback, and a line of its own; of both a longer list; and what only sounds bad."""
    wrong = misread(*LISTS[name])
    assert not wrong, bullet_list(wrong)
