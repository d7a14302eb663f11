# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dumps of torch's flight recorder: what is read from good ones, and that hostile ones are refused as data."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import flight_recorder as recorder


def entry(sequence: int, name: str = "0", **more: object) -> dict[str, Any]:
    """One collective, with the names and types that torch 2.13 writes."""
    return {
        "process_group": (name, "default_pg"), "collective_seq_id": sequence, "profiling_name": "gloo:all_reduce",
        "input_sizes": [[10]], "state": "scheduled", "retired": False, "is_p2p": False, "timeout_ms": 1800000,
        "time_created_ns": 1795584759106313366, "frames": [
            {"name": "all_reduce", "filename": "/e/site-packages/torch/distributed/distributed_c10d.py", "line": 3245},
            {"name": "train", "filename": "/code/train.py", "line": 16},
        ], **more,
    }  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_read_as_it_is(protocol: int) -> None:
    document = {"entries": [entry(1, retired=True), entry(2)], "version": "2.10", "x": [None, True, 1.5, (), -(2**40)]}
    assert recorder.plain(pickle.dumps(document, protocol=protocol)) == document


def test_the_collectives_of_each_group_are_read_in_their_order() -> None:
    document = {"entries": [entry(1, retired=True), entry(2), entry(7, "1", state="completed"), entry(9, is_p2p=True)]}
    before, first, second = recorder.collectives_of(recorder.plain(pickle.dumps(document, protocol=2)))
    assert (first.name, first.sequence, first.operation, first.shape) == ("0", 2, "all_reduce", "[[10]]")
    assert first.active and not second.active and (before.name, before.sequence) == ("0", 1)
    assert first.place == "/code/train.py:16, in train"
    many = recorder.collectives_of({"entries": [entry(number) for number in range(9 * recorder.RECENT)]})
    assert [group.sequence for group in many] == list(range(8 * recorder.RECENT, 9 * recorder.RECENT))


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_nothing_in_a_dump_is_executed(tmp_path: Path, protocol: int) -> None:
    dump = pickle.dumps({"entries": [Hostile(tmp_path / "executed")]}, protocol=protocol)
    with pytest.raises(recorder.Refused):
        recorder.plain(dump)
    assert not list(tmp_path.iterdir())


HOSTILE = {
    "empty": b"",
    "no end": b"\x80\x02}",
    "nothing to return": b".",
    "a mark as the value": b"(.",
    "no mark": b"]]e.",
    "no value": b"\x80\x02]a.",
    "a list as a key": b"}(]K\x01u.",
    "an odd number of values": b"}(K\x01u.",
    "into a number": b"K\x01K\x02a.",
    "an unknown memo": b"h\x09.",
    "a text that is longer than the file": b"X" + struct.pack("<I", 0xFFFFFFF0) + b"abc",
    "a text that is no UTF-8": b"X" + struct.pack("<I", 2) + b"\xff\xfe.",
    "a huge number": b"\x8a\xff" + b"\x7f" * 255 + b".",
    "a huge number of another kind": b"\x8b" + struct.pack("<i", 1 << 20) + b"\x7f" * (1 << 20) + b".",
    "a global": b"cos\nsystem\n.",
    "a global from the stack": b"\x8c\x02os\x8c\x06system\x93.",
    "a call": b"cos\nsystem\n(X\x04\x00\x00\x00true tR.",
    "an object": b"(ios\nsystem\n.",
    "an extension": b"\x82\x01.",
    "a persistent id": b"Pabc\n.",
    "an unknown opcode": b"\xfe.",
    "more opcodes than allowed": b"N0" * (recorder.MOST_OPCODES // 2) + b"N" * 9 + b".",
    "more opcodes than allowed, of plain data": b"]" * (recorder.MOST_OPCODES + 9) + b".",
    "larger than allowed": b"N" * (recorder.MOST_BYTES + 1),
}  # fmt: skip


@pytest.mark.parametrize("dump", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_dump_is_refused(dump: bytes) -> None:
    with pytest.raises(recorder.Refused):
        recorder.plain(dump)


def test_a_dump_that_contains_itself_says_nothing() -> None:
    inside: list[Any] = []
    inside.append(inside)
    document = recorder.plain(pickle.dumps({"entries": [entry(3, input_sizes=inside), inside]}, protocol=2))
    assert [group.shape for group in recorder.collectives_of(document)] == [""]


@pytest.mark.parametrize(
    "document",
    [
        None, [], {"entries": None}, {"entries": [1, None, {}]}, {"entries": [entry(True)]},
        {"entries": [entry(1, process_group="0")]}, {"entries": [entry(1, process_group=[])]},
    ],
)  # fmt: skip
def test_values_of_another_type_are_skipped(document: object) -> None:
    assert recorder.collectives_of(document) == ()


def test_only_so_many_groups_are_kept() -> None:
    document = {"entries": [entry(1, str(number)) for number in range(10 * recorder.GROUPS)]}
    assert len(recorder.collectives_of(document)) == recorder.GROUPS
    (group,) = recorder.collectives_of({"entries": [entry(1, "\x1b[31m" + "x" * 999)]})
    assert "\x1b" not in group.name and len(group.name) <= recorder.WIDTH
