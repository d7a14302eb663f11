# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every family knows its own examples, and no other's; the registry holds every file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, events, lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import registry
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import Signature
from tests.repository import ROOT
from tests.unit.diagnosis import unseen, wordings

EXAMPLES = [(signature, example) for signature in registry.SIGNATURES for example in signature.examples]


def diagnosed(text: str) -> cause.Cause:
    """The cause that one log's text shows."""
    read = events.Reader(registry.SIGNATURES).read("a.log", lines.parse(text.encode().split(b"\n")))
    return cause.find_cause([read])


@pytest.mark.parametrize(("signature", "example"), EXAMPLES, ids=lambda value: str(getattr(value, "family", ""))[:40])
def test_a_family_knows_its_examples(signature: Signature, example: str) -> None:
    raised = f'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n    main()\n{example}\n'
    found = {diagnosed(f"starting\n{example}\n").family, diagnosed(f"starting\n{raised}").family}
    assert signature.family in found


def test_the_registry_holds_every_file() -> None:
    folder = Path(ROOT, "plugins/module_utils/diagnosis/signatures")
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "model", "registry"}
    assert files == {signature.family for signature in registry.SIGNATURES}
    assert len(files) >= 37


@pytest.mark.parametrize("signature", registry.SIGNATURES, ids=lambda signature: signature.family)
def test_a_family_says_what_to_do_in_the_words_of_the_job_spec(signature: Signature) -> None:
    assert signature.examples and signature.matches and signature.what
    assert len(signature.remedy) > 40
    wording = [match for match in signature.matches if match.where == events.ANYWHERE]
    assert all(match.needles for match in wording), "a pattern for any line needs fixed strings for the prefilter"


@pytest.mark.parametrize(("families", "text"), wordings.RAISED, ids=lambda value: str(value)[:50])
def test_the_end_of_a_traceback_is_understood(families: str, text: str) -> None:
    found = diagnosed(
        f'start\nTraceback (most recent call last):\n  File "t.py", line 1, in <module>\n    go()\n{text}\n'
    )
    assert found.family in families.split("|")


@pytest.mark.parametrize(("families", "text"), wordings.PRINTED, ids=lambda value: str(value)[:50])
def test_a_line_of_its_own_is_understood(families: str, text: str) -> None:
    assert diagnosed(f"start\n{text}\n").family in families.split("|")


def rows(block: str) -> list[tuple[str, str]]:
    """Families and text of each row, with its `#` as line ends."""
    parts = [row.split(" | ", 1) for row in block.strip().splitlines()]
    return [(families, text.replace("#", "\n")) for families, text in parts]


@pytest.mark.parametrize(("families", "text"), rows(unseen.RAISED), ids=lambda value: str(value)[:50])
def test_an_exception_of_the_longer_list_is_understood(families: str, text: str) -> None:
    found = diagnosed(
        f'start\nTraceback (most recent call last):\n  File "t.py", line 1, in <module>\n    go()\n{text}\n'
    )
    assert found.family in families.split("/")


@pytest.mark.parametrize(("families", "text"), rows(unseen.PRINTED), ids=lambda value: str(value)[:50])
def test_a_line_of_the_longer_list_is_understood(families: str, text: str) -> None:
    assert diagnosed(f"start\n{text}\n").family in families.split("/")


@pytest.mark.parametrize("text", unseen.HEALTHY.strip().splitlines(), ids=lambda value: str(value)[:50])
def test_what_only_sounds_bad_is_healthy(text: str) -> None:
    assert diagnosed("start\n" + text.replace("#", "\n") + "\n").family == "healthy"
