# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every family knows its own examples, and no other's; the registry holds every file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, events, lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import registry
from tests.repository import ROOT, bullet_list
from tests.unit.diagnosis import unseen, wordings

TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    go()\n{}\n'


def diagnosed(text: str) -> cause.Cause:
    """The cause that one log's text shows."""
    read = events.Reader(registry.SIGNATURES).read("a.log", lines.parse(text.encode().split(b"\n")))
    return cause.find_cause([read])


def misread(rows: Iterable[tuple[str, str]], log: str, separator: str) -> list[str]:
    """A list of the rows (families, text) whose text, put into `log`, shows a cause of no family of theirs."""
    given = list(rows)
    assert given
    results = [(families, diagnosed(log.format(text)).family, text) for families, text in given]
    return [
        f"{text!r} is taken for {family}, not {families}"
        for families, family, text in results
        if family not in families.split(separator)
    ]


def test_a_family_knows_its_examples() -> None:
    unknown = []
    for signature in registry.SIGNATURES:
        for example in signature.examples:
            raised = TRACEBACK.format(example)
            found = {diagnosed(f"starting\n{example}\n").family, diagnosed(f"starting\n{raised}").family}
            if signature.family not in found:
                unknown.append(f"{signature.family}: {example!r} is taken for {found}")
    assert not unknown, bullet_list(unknown)


def test_the_registry_holds_every_file() -> None:
    folder = Path(ROOT, "plugins/module_utils/diagnosis/signatures")
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "model", "registry"}
    assert files == {signature.family for signature in registry.SIGNATURES}
    assert len(files) >= 37


def test_a_family_says_what_to_do_in_the_words_of_the_job_spec() -> None:
    for signature in registry.SIGNATURES:
        assert signature.examples and signature.matches and signature.what, signature.family
        assert len(signature.remedy) > 40, signature.family
        wording = [match for match in signature.matches if match.where == events.ANYWHERE]
        assert all(match.needles for match in wording), (
            f"{signature.family}: a pattern for any line needs fixed strings for the prefilter"
        )


def rows(block: str) -> list[tuple[str, str]]:
    """Families and text of each row, with its `#` as line ends."""
    parts = [row.split(" | ", 1) for row in block.strip().splitlines()]
    return [(families, text.replace("#", "\n")) for families, text in parts]


LISTS = {
    "raised": (wordings.RAISED, "start\n" + TRACEBACK, "|"),
    "printed": (wordings.PRINTED, "start\n{}\n", "|"),
    "raised-unseen": (rows(unseen.RAISED), "start\n" + TRACEBACK, "/"),
    "printed-unseen": (rows(unseen.PRINTED), "start\n{}\n", "/"),
    "only-sounds-bad": (
        [("healthy/unknown", text.replace("#", "\n")) for text in unseen.HEALTHY.strip().splitlines()],
        "start\n{}\n",
        "/",
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_every_wording_of_a_list_is_understood(name: str) -> None:
    """The end of a traceback, and a line of its own; of both a longer list; and what only sounds bad."""
    wrong = misread(*LISTS[name])
    assert not wrong, bullet_list(wrong)
