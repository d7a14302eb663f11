# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Artifacts of every format, judged by the program as the job runs it: whole or half written, met or not."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT

RUNTIME = ROOT / "plugins" / "runtime"


def program(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"rankzero_{name}", RUNTIME / "artifact" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


outcome, formats, of_yaml = program("outcome"), program("formats"), program("of_yaml")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / ".attempt").write_text("0\n")
    return tmp_path


def judged(run: Path, kind: str, content: bytes, require: dict[str, Any] | None = None, name: str = "x") -> Any:
    """The report on an artifact with some content."""
    (run / "work" / name).write_bytes(content)
    return outcome.inspect(run, {"path": name, "format": kind, "complete": None, "require": require or {}})


def tensors(metadata: dict[str, str] | None = None) -> bytes:
    """A safetensors file with a matrix of six halves and a vector of four bytes."""
    header = {
        "w": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]},
        "b.bias": {"dtype": "I8", "shape": [4], "data_offsets": [12, 16]},
        **({"__metadata__": metadata} if metadata else {}),
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"x" * 16


WHOLE = {
    "json": b'{"loss": 1.5, "name": "gpt"}',
    "yaml": b"# result\nloss: 1.5\nname: gpt\nnested:\n  deep: 3\n",
    "csv": b"step,loss,name\n1,2.5,gpt\n2,1.5,gpt\n",
    "safetensors": tensors({"loss": "1.5", "name": "gpt"}),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_the_values_of_each_format_are_read_and_compared(run: Path, kind: str) -> None:
    report = judged(run, kind, WHOLE[kind], {"loss": {"lt": 4.0, "gt": 1}, "name": {"eq": "gpt"}})
    assert (report["valid"], report["errors"]) == (True, [])
    assert report["scalars"]["loss"] == 1.5 and report["bytes"] == len(WHOLE[kind])
    report = judged(run, kind, WHOLE[kind], {"loss": {"lt": 1}, "accuracy": {}})
    assert report["errors"] == ["accuracy: is missing", "loss: 1.5 is not lt 1"]


@pytest.mark.parametrize("kind", WHOLE)
def test_no_half_of_a_file_is_accepted_for_the_whole(run: Path, kind: str) -> None:
    """Cut at every byte, a file that asks for its last value is never valid."""
    whole = WHOLE[kind]
    last: dict[str, dict[str, Any]] = {
        "json": {"name": {"eq": "gpt"}},
        "yaml": {"nested.deep": {"eq": 3}},
        "csv": {"step": {"eq": 2}},
    }
    for end in range(len(whole)):
        assert not judged(run, kind, whole[:end], last.get(kind))["valid"], whole[:end]
    assert judged(run, kind, whole, last.get(kind))["valid"]


def test_safetensors_tell_their_tensors_and_nothing_is_appended(run: Path) -> None:
    report = judged(run, "safetensors", tensors(), {"w": {}, "b.bias": {}, "tensors": {"eq": 2}})
    assert report["valid"] and report["scalars"] == {"tensors": 2}
    assert "and its header asks for" in judged(run, "safetensors", tensors() + b"x")["errors"][0]
    for nonsense in (b"", b"12345678", struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 3) + b'{"a'):
        assert not judged(run, "safetensors", nonsense)["valid"]


def test_a_table_counts_its_rows_and_reads_the_last(run: Path) -> None:
    report = judged(run, "csv", b"\xef\xbb\xbfstep, loss\r\n1,9\r\n\r\n2,1e-1\r\n", {"rows": {"ge": 2}})
    assert report["valid"] and report["scalars"] == {"rows": 2, "step": 2, "loss": 0.1}
    assert judged(run, "csv", b"a,b\n")["errors"] == ["has no row below its header"]
    assert judged(run, "csv", b"a,b\n1\n")["errors"] == ["is incomplete: its last row has 1 values, and its header 2"]


@pytest.mark.parametrize("content", [b"loss: .nan\n", b"loss: .inf\n", b"- 1\n- 2\n", b"loss: [1\n", b"\xff\n"])
def test_what_is_no_map_of_numbers_proves_nothing_in_yaml(run: Path, content: bytes) -> None:
    report = judged(run, "yaml", content, {"loss": {"lt": 4}})
    assert not report["valid"] and len(report["errors"]) == 1


def test_yaml_is_read_the_same_without_pyyaml() -> None:
    yaml = pytest.importorskip("yaml", reason="compares with PyYAML")
    text = (
        "---\n# comment\nloss: 1.5   # falls\nname: 'it: is'\n\"q\": yes please\nn: -3\ne: 1.5e-3\nok: true\n"
        "none: null\na b: c\neval:\n  deep:\n    x: 1\n  y: 2\nlast: 7\n"
    )
    assert of_yaml.plain_yaml(text) == yaml.safe_load(text) | {"e": 0.0015}
    with pytest.raises(ValueError, match="line 2 is not"):
        of_yaml.plain_yaml("a: 1\n  what is this\n")


def test_a_directory_is_complete_with_the_file_that_is_written_last(run: Path) -> None:
    place = run / "work" / "ckpt"
    artifact = {"path": "ckpt", "format": "directory", "complete": "meta.json", "require": {"step": {"ge": 10}}}
    assert outcome.inspect(run, artifact)["errors"] == ["cannot be read: No such file or directory"]
    place.mkdir()
    (place / "shard-0").write_bytes(b"x" * 100)
    assert outcome.inspect(run, artifact)["errors"] == ["is incomplete: it does not contain meta.json"]
    (place / "meta.json").write_text('{"step": 3}')
    assert outcome.inspect(run, artifact)["errors"] == ["step: 3 is not ge 10"]
    (place / "meta.json").write_text('{"step": 12}')
    report = outcome.settled(run, artifact)
    assert report["valid"] and report["scalars"] == {"step": 12} and report["path"] == str(place)
    # One of an earlier attempt.
    os.utime(place / "meta.json", (1, 1))
    assert outcome.settled(run, artifact)["errors"] == ["is older than this attempt"]
    # An empty mark will do where nothing is required.
    (place / "meta.json").write_text("")
    assert outcome.inspect(run, {**artifact, "require": {}})["valid"]
    assert sorted(path.name for path in place.iterdir()) == ["meta.json", "shard-0"], "nothing of ours stays there"


def test_a_pipe_in_the_place_of_an_artifact_is_not_waited_for(run: Path) -> None:
    """Also where it takes that place after the file was looked at."""
    os.mkfifo(run / "work" / "result")
    for read in (lambda path: outcome.read(path, keep=True), formats.of_safetensors):
        with pytest.raises(OSError, match="not a regular file"):
            read(str(run / "work" / "result"))
    wanted = {"path": "result", "format": "json", "complete": None, "require": {}}
    assert outcome.inspect(run, wanted)["errors"] == ["is not a regular file"]
