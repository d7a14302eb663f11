# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each value of `artifact.format`, and everything that has to know it: one that a consumer forgets fails here."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.artifact import FORMATS, Format
from tests.repository import read
from tests.unit.plan.containers import problems
from tests.unit.runtime.test_formats import formats, outcome

every_format = pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
_HEADER = b'{"__metadata__": {"loss": "0.5"}}'
#: A whole artifact with a loss of 0.5 where the format has values, and one that was cut off.
WHOLE = {
    "json": (b'{"loss": 0.5}', b'{"loss": 0.'),
    "yaml": (b"loss: 0.5\n", b"loss: 0."),
    "csv": (b"step,loss\n7,0.5\n", b"step,loss\n7,0."),
    "safetensors": (struct.pack("<Q", len(_HEADER)) + _HEADER, struct.pack("<Q", len(_HEADER)) + _HEADER[:-3]),
    "directory": (b'{"loss": 0.5}', None),
    "any": (b"x", b""),
}


def test_the_job_and_those_who_write_it_know_the_same_formats() -> None:
    assert set(formats.FORMATS) == {kind.name for kind in FORMATS} == set(WHOLE)


@every_format
def test_the_pages_and_the_schema_know_it(kind: Format) -> None:
    schema = json.loads(read("docs/job-spec.schema.json"))["properties"]["artifact"]["properties"]
    assert kind.name in schema["format"]["examples"]
    assert f"| `{kind.name}` | {kind.whole} |" in read("docs/watching.md")


@every_format
def test_requirements_are_taken_where_the_reader_has_values(kind: Format) -> None:
    assert bool(kind.values) == (formats.FORMATS[kind.name].read is not None)
    artifact = {"path": "x", "format": kind.name, "require": {"loss": {"lt": 1}}}
    if formats.FORMATS[kind.name].folder:
        artifact["complete"] = "done.json"
    assert (problems({}, artifact=artifact) == []) == bool(kind.values)


@every_format
def test_the_job_takes_a_whole_one_and_reads_its_values(kind: Format, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / ".attempt").touch()
    artifact: dict[str, Any] = {"path": "x", "format": kind.name, "complete": None, "require": {}}
    path = tmp_path / "work" / "x"
    if formats.FORMATS[kind.name].folder:
        path.mkdir()
        artifact["complete"], path = "done.json", path / "done.json"
    if kind.values:
        artifact["require"] = {"loss": {"lt": 1}}
    whole, cut = WHOLE[kind.name]
    path.write_bytes(whole)
    report = outcome.inspect(str(tmp_path), artifact)
    assert (report["valid"], report["errors"]) == (True, [])
    assert not kind.values or report["scalars"]["loss"] == 0.5
    if cut is not None:
        path.write_bytes(cut)
        assert outcome.inspect(str(tmp_path), artifact)["valid"] is False
