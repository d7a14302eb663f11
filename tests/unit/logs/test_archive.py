# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.logs import archive as logs
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest, Part, Round
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import (
    holdings,
    left_out,
    mark,
    place_of,
    unpack,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from tests.writers import Run


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    folder = tmp_path / "remote"
    (folder / "0").mkdir(parents=True)
    (folder / "job.7.log").write_bytes(b"begin\n")
    for rank in range(3):
        (folder / "0" / f"rank-{rank:04d}.log").write_bytes(f"rank {rank}\n".encode() * 10)
    return folder


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return tmp_path / "local"


def fetch(remote: Path, local: Path, tail_bytes: int = 0, budget: int = logs.ROUND_BYTES) -> dict[str, Any]:
    """All rounds, as the action does them."""
    total: dict[str, Any] = {"bytes": 0, "rounds": 0, "paths": [], "left": []}
    while True:
        request = FetchRequest(holdings(Place.of(str(local))), tail_bytes, budget=budget, folder=str(remote.parent))
        assert FetchRequest.of(json.loads(json.dumps(request.arguments()))) == request
        fetched = logs.fetch_plan(Beneath(str(remote)), request, write=True)
        if fetched.archive:
            assert os.stat(fetched.archive).st_mode & 0o777 == 0o600
            with open(fetched.archive, "rb") as stream:
                total["bytes"] += unpack(stream, fetched.parts, Place.of(str(local)))
            assert fetched.archive_bytes == os.path.getsize(fetched.archive)
        total["rounds"] += 1
        total["paths"] += [part.path for part in fetched.parts]
        total["left"].append(fetched.left)
        if not fetched.more:
            return total


def test_the_answer_of_a_round_is_read_as_it_was_written(remote: Path) -> None:
    fetched = logs.fetch_plan(Beneath(str(remote)), FetchRequest(budget=2**62), write=False)
    answer = Round("/runs/gpt/0123456789abcdef/1", "0123456789abcdef", False, None, fetched)
    assert Round.of(json.loads(json.dumps(answer.result()))) == answer


def same(remote: Path, local: Path) -> bool:
    names = {path for path, _size in logs.collect(Beneath(str(remote)))[0]}
    assert names == {path for path, _size in logs.collect(Beneath(str(local)))[0]}
    return all((remote / name).read_bytes() == (local / name).read_bytes() for name in names)


def test_all_ranks_and_only_new_bytes_the_second_time(remote: Path, local: Path) -> None:
    first = fetch(remote, local)
    assert first["bytes"] == 6 + 3 * 70 and same(remote, local)
    assert fetch(remote, local) == {"bytes": 0, "rounds": 1, "paths": [], "left": [0]}
    with (remote / "0" / "rank-0001.log").open("ab") as stream:
        stream.write(b"\xff\x00 more")
    assert fetch(remote, local) == {"bytes": 7, "rounds": 1, "paths": ["0/rank-0001.log"], "left": [0]}
    assert same(remote, local)


@pytest.mark.parametrize(
    "content",
    [b"", b"short", b"another beginning, much longer than before " * 10, b"rank 1\n" * 9 + b"rank X\n"],
    ids=["emptied", "truncated", "rotated", "rewritten"],
)
def test_a_log_that_does_not_continue_is_fetched_anew(remote: Path, local: Path, content: bytes) -> None:
    fetch(remote, local)
    (remote / "0" / "rank-0001.log").write_bytes(content)
    again = fetch(remote, local)
    assert (again["paths"], again["bytes"]) == (["0/rank-0001.log"], len(content))
    assert same(remote, local)


def test_a_copy_that_was_edited_is_fetched_anew(remote: Path, local: Path) -> None:
    fetch(remote, local)
    (local / "job.7.log").write_bytes(b"note by a person\n")
    assert fetch(remote, local)["paths"] == ["job.7.log"]
    assert same(remote, local)


def test_new_attempts_and_files_of_no_bytes(remote: Path, local: Path) -> None:
    fetch(remote, local)
    (remote / "1").mkdir()
    (remote / "1" / "rank-0000.log").write_bytes(b"")
    assert fetch(remote, local)["bytes"] == 0
    assert same(remote, local)


def test_many_rounds_when_there_is_much(remote: Path, local: Path) -> None:
    (remote / "big.log").write_bytes(os.urandom(10000))
    total = fetch(remote, local, budget=3000)
    assert total["rounds"] >= 4 and total["bytes"] == 6 + 3 * 70 + 10000
    assert total["left"][0] == total["bytes"] - 3000 and total["left"][-1] == 0
    assert same(remote, local)


def test_the_end_of_giant_logs(remote: Path, local: Path) -> None:
    giant = remote / "0" / "rank-0000.log"
    giant.write_bytes(b"0123456789" * 1000)
    assert fetch(remote, local, tail_bytes=100)["bytes"] == 6 + 2 * 70 + 100
    assert (local / "0" / "rank-0000.log").read_bytes() == b"0123456789" * 10
    assert fetch(remote, local, tail_bytes=100)["bytes"] == 0, "what was left out is not new"
    giant.write_bytes(giant.read_bytes() + b"end")
    assert fetch(remote, local, tail_bytes=100)["bytes"] == 3
    assert (local / "0" / "rank-0000.log").read_bytes() == b"0123456789" * 10 + b"end"
    giant.write_bytes(giant.read_bytes() + b"x" * 500)
    assert fetch(remote, local, tail_bytes=100)["bytes"] == 100
    assert (local / "0" / "rank-0000.log").read_bytes() == b"x" * 100
    assert fetch(remote, local, tail_bytes=100, budget=30)["bytes"] == 0


def test_what_stays_on_the_cluster_is_said_and_can_be_fetched(remote: Path, local: Path) -> None:
    giant, here = remote / "0" / "rank-0000.log", Place.of(str(local))
    giant.write_bytes(b"0123456789" * 1000)
    assert left_out(holdings(here)) is None
    fetch(remote, local, tail_bytes=100)
    said = left_out(holdings(here))
    assert said and "10 kB of 0/rank-0000.log" in said and "tail_bytes=0" in said and "rank-0001" not in said
    assert fetch(remote, local, tail_bytes=200)["bytes"] == 200, "more of its end is asked for"
    assert fetch(remote, local, tail_bytes=100)["bytes"] == 0, "less is here already"
    assert fetch(remote, local, budget=3000)["bytes"] == 10000
    assert same(remote, local) and left_out(holdings(here)) is None


def test_a_torn_index_costs_bytes_and_nothing_else(remote: Path, local: Path) -> None:
    (remote / "job.7.log").write_bytes(b"a" * 50 + b"b" * 50)
    fetch(remote, local, tail_bytes=80)
    (local / logs.INDEX).write_text("{ torn")
    fetch(remote, local)
    assert same(remote, local)


@given(st.lists(st.binary(max_size=50), max_size=6), st.integers(1, 200))
def test_any_growth_arrives_whole(tmp_path_factory: pytest.TempPathFactory, writes: list[bytes], budget: int) -> None:
    base = tmp_path_factory.mktemp("growth")
    remote, local = base / "remote", base / "local"
    remote.mkdir()
    for data in writes:
        with (remote / "a.log").open("ab") as stream:
            stream.write(data)
        fetch(remote, local, budget=budget)
    assert same(remote, local) if writes else not local.exists() or same(remote, local)


def test_links_and_odd_names_stay_there(remote: Path, local: Path) -> None:
    (remote / "secret").symlink_to("/etc/passwd")
    (remote / "folder").symlink_to("/etc")
    (remote / "two\nlines").write_bytes(b"x")
    os.mkfifo(remote / "pipe")
    found, notes = logs.collect(Beneath(str(remote)))
    assert [path for path, _size in found] == [
        "job.7.log",
        "0/rank-0000.log",
        "0/rank-0001.log",
        "0/rank-0002.log",
    ]
    assert notes == ["skipped a file whose name is not plain text: 'two\\nlines'"]


@pytest.mark.parametrize("at", ["gpt", "gpt/key", "gpt/key/1", "gpt/key/1/logs"])
def test_a_link_anywhere_on_the_way_to_the_logs_is_not_followed(tmp_path: Path, at: str) -> None:
    """Whoever owns the runs could have put it there since they were looked up."""
    private, runs = tmp_path / "private", tmp_path / "runs"
    rest = "gpt/key/1/logs"[len(at) :].strip("/")
    (private / rest).mkdir(parents=True)
    (private / rest / "job.7.log").write_bytes(b"private")
    (runs / at).parent.mkdir(parents=True)
    (runs / at).symlink_to(private)
    source = Beneath(str(runs), inside="gpt/key/1/logs")
    assert logs.collect(source) == ([], [])
    with pytest.raises(OSError), source.stream("job.7.log"):
        pass


def test_a_folder_that_becomes_a_link_while_it_is_listed_is_not_followed(remote: Path, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "key.log").write_bytes(b"private")

    def wanted(_path: str) -> bool:
        if not (remote / "0").is_symlink():
            (remote / "0").rename(tmp_path / "away")
            (remote / "0").symlink_to(private)
        return True

    assert logs.collect(Beneath(str(remote)), wanted) == ([("job.7.log", (remote / "job.7.log").stat().st_size)], [])


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a//b", "", ".", "a/./b", "a\nb", logs.INDEX])
def test_an_archive_cannot_write_elsewhere(tmp_path: Path, path: str) -> None:
    dest = tmp_path / "dest"
    with pytest.raises(RankzeroError):
        unpack(archive(path), [Part(path, 0, 4, 4, True)], Place.of(str(dest)))
    assert not list(tmp_path.glob("x")) and not [p for p in dest.rglob("*") if p.is_file()]


def archive(path: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"evil") -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        entry = tarfile.TarInfo(path)
        entry.type, entry.size, entry.linkname = kind, len(content) if kind == tarfile.REGTYPE else 0, "/etc/passwd"
        tar.addfile(entry, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def test_an_archive_holds_only_what_the_manifest_names(tmp_path: Path) -> None:
    part = Part("a.log", 0, 4, 4, True)
    with pytest.raises(RankzeroError, match="unrequested files"):
        unpack(archive("b.log"), [part], Place.of(str(tmp_path)))
    with pytest.raises(RankzeroError, match="unrequested files"):
        unpack(archive("a.log", tarfile.SYMTYPE), [part], Place.of(str(tmp_path)))
    with pytest.raises(RankzeroError, match="ends early"):
        unpack(archive("a.log"), [part, Part("b.log", 0, 1, 1, True)], Place.of(str(tmp_path)))


@pytest.mark.parametrize("restart", [True, False])
def test_a_link_in_the_folder_here_is_not_written_through(tmp_path: Path, restart: bool) -> None:
    outside, dest = tmp_path / "outside", tmp_path / "dest"
    outside.mkdir()
    dest.mkdir()
    (dest / "0").symlink_to(outside)
    (dest / "a.log").symlink_to(outside / "a.log")
    for path in ("0/a.log", "a.log"):
        with pytest.raises(RankzeroError, match=r"/(0|a\.log) is a link"):
            unpack(archive(path), [Part(path, 0, 4, 4, restart)], Place.of(str(dest)))
    assert list(outside.iterdir()) == []


def test_a_log_that_shrinks_while_it_is_packed(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"abc")
    target = tmp_path / "archive"
    parts = logs.write_archive(Beneath(str(tmp_path)), [Part("a.log", 0, 10, 10, True)], str(target))
    assert parts == [Part("a.log", 0, 3, 10, True)]
    with target.open("rb") as stream:
        assert unpack(stream, parts, Place.of(str(tmp_path / "dest"))) == 3
    assert (tmp_path / "dest" / "a.log").read_bytes() == b"abc"


def test_a_look_writes_nothing(remote: Path) -> None:
    fetched = logs.fetch_plan(Beneath(str(remote)), FetchRequest(budget=2**62), write=False)
    assert (fetched.archive, fetched.archive_bytes, len(fetched.parts)) == (None, 0, 4)


def test_no_logs_yet(tmp_path: Path) -> None:
    fetched = logs.fetch_plan(Beneath(str(tmp_path / "none")), FetchRequest(budget=1), write=True)
    assert (fetched.parts, fetched.more, fetched.archive) == ([], False, None)


def test_two_runs_of_one_name_key_and_generation_have_a_folder_each(tmp_path: Path) -> None:
    launches = [Run.below(tmp_path / cluster) for cluster in ("a", "b")]
    runs = [launch.path for launch in launches]
    for number, launch in enumerate(launches):
        launch.journal({"event": "intent", "time": number}, {"event": "submitted"})
    first, second = (logs.origin_of(str(run)) for run in runs)
    here = Place.of(str(tmp_path / "here"), "1")
    assert place_of(here) == place_of(here, first) == here.below("logs")
    mark(place_of(here, first), first)
    mark(place_of(here, second), second)
    for _time in (1, 2):
        assert place_of(here, first).path == f"{here.path}/logs"
        assert place_of(here, second).path == f"{here.path}-{second[:8]}/logs"
    # It is the run's own for good: what comes after the first record changes nothing.
    launches[0].journal({"event": "cancelled"})
    assert logs.origin_of(str(runs[0])) == first != second
    # A cluster that was made anew has other runs at the same path.
    (runs[0] / "journal.jsonl").unlink()
    launches[0].journal({"event": "intent", "time": 7})
    assert logs.origin_of(str(runs[0])) not in (first, second)
    (runs[0] / "journal.jsonl").unlink()
    assert len(logs.origin_of(str(runs[0]))) == 16
