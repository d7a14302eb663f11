# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives that somebody has made to write elsewhere: nothing outside of the folder changes, and nothing is half there.

Every archive is unpacked into `target`, beside which lies `outside`, the only place that a hostile name here leads to.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.core import extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.extraction import Damaged, Refused, Rules
from ansible_collections.rankzero.slurm.plugins.module_utils.image import unsquash
from ansible_collections.rankzero.slurm.plugins.module_utils.store import archive

ANY = Rules(links="any", special="skip", control=True)
INSIDE = Rules(links="inside")


class Place:
    """`target` to unpack into, and `outside` beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target, self.outside = folder / "target", folder / "outside"
        self.outside.mkdir(parents=True)
        (self.outside / "sentinel").write_text("as it was", encoding="utf-8")
        self.target.mkdir()
        self.before = self.seen()

    def seen(self) -> dict[str, tuple[int, int, str]]:
        """All that lies outside, with modes, link counts and contents."""
        found = {}
        for path in [self.outside, *self.outside.rglob("*")]:
            status = path.lstat()
            content = path.read_text(encoding="utf-8") if stat.S_ISREG(status.st_mode) else ""
            found[str(path)] = (status.st_mode, status.st_nlink, content)
        return found

    def untouched(self) -> bool:
        return self.seen() == self.before and sorted(os.listdir(self.folder)) == ["outside", "target"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


def member(name: str, content: bytes | None = b"written", **more: object) -> tuple[tarfile.TarInfo, bytes | None]:
    info = tarfile.TarInfo(name)
    info.size = len(content or b"")
    info.mode = 0o644
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes | None]:
    return member(name, None, type=kind, linkname=target)


def packed(*members: tuple[tarfile.TarInfo, bytes | None]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as out:
        for info, content in members:
            out.addfile(info, None if content is None else io.BytesIO(content))
    stream.seek(0)
    return stream


UP = "../outside/sentinel"
HOSTILE = {
    "a name that leads out": [member("a"), member(UP)],
    "an absolute name": [member("/outside/sentinel")],
    "a name that leads out in the middle": [member("a/../../outside/sentinel")],
    "a link, then a file through it": [link("a", "../outside"), member("a/sentinel")],
    "a file below a link that comes later": [member("a/sentinel"), link("a", "../outside")],
    "a link, then a file in its place": [link("a", UP), member("a")],
    "a hard link to a file outside": [link("a", UP, tarfile.LNKTYPE), member("a")],
    "a hard link to a link": [link("a", UP), link("b", "a", tarfile.LNKTYPE)],
    "a hard link to what comes later": [link("a", "b", tarfile.LNKTYPE), member("b")],
    "a name twice": [member("a"), member("a")],
    "a name twice, written differently": [member("a"), member("./a")],
    "a folder in the place of a file": [member("a"), member("a/", None, type=tarfile.DIRTYPE)],
    "a file below a file": [member("a"), member("a/b")],
    "a pipe": [member("a", None, type=tarfile.FIFOTYPE)],
    "a device": [member("a", None, type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "a name with an end of line": [member("a\nb")],
    "a name that speaks to the terminal": [member("a\x1b]0;title\x07")],
    "a name that is too long": [member("a" * 300)],
    "a path that is too deep": [member("/".join(["a"] * 200))],
    "a link that leads out": [link("a", "../outside")],
    "an absolute link": [link("a", "/outside")],
    "links that lead out together": [member("d/f"), link("d/up", ".."), link("out", "d/up/../outside")],
    "links that go round": [link("a", "b"), link("b", "a")],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_nothing_is_written_of_what_is_hostile(place: Place, what: str) -> None:
    with pytest.raises(Refused):
        extraction.untar(packed(member("first"), *HOSTILE[what]), str(place.target), INSIDE)
    assert os.listdir(place.target) == [], "not even what came before it"
    assert place.untouched()


def test_a_name_with_a_nul(place: Place) -> None:
    """A plain header cannot hold one; an extended one can."""
    info, content = member("a")
    info.pax_headers = {"path": "b\0/../../outside/sentinel"}
    with pytest.raises((Refused, Damaged)):
        extraction.untar(packed((info, content)), str(place.target), ANY)
    assert os.listdir(place.target) == [] and place.untouched()


def test_what_is_kept(place: Place) -> None:
    found = extraction.untar(
        packed(
            member("bin/", None, type=tarfile.DIRTYPE, mode=0o777),
            member("./bin/program", b"#!", mode=0o6755, uid=0, uname="root"),
            link("bin/other", "bin/program", tarfile.LNKTYPE),
            link("lib/link", "../bin/program"),
        ),
        str(place.target),
        INSIDE,
    )
    assert [(one.name, one.kind, one.executable) for one in found] == [
        ("bin/program", "file", True),
        ("bin/other", "file", True),
        ("lib/link", "link", False),
    ]
    program = place.target / "bin" / "program"
    assert stat.S_IMODE(program.stat().st_mode) & 0o7022 == 0, "no setuid, and nobody else may write"
    assert program.samefile(place.target / "bin" / "other") and program.samefile(place.target / "lib" / "link")


def test_a_folder_that_was_a_link_before_is_not_entered(place: Place) -> None:
    (place.target / "a").symlink_to(place.outside)
    for name in ("a/sentinel", "a/new"):
        with pytest.raises(OSError):
            extraction.untar(packed(member(name)), str(place.target))
    assert place.untouched()


def endless(count: int) -> Iterator[extraction.Member]:
    for number in range(count):
        yield extraction.Member(f"f{number}", extraction.FILE)


def test_a_million_members(place: Place) -> None:
    """Counted as they come: neither all of their headers are kept, nor is one written."""
    with pytest.raises(Refused, match="more than 1000 members"):
        extraction.check(endless(10**6), Rules(members=1000), 1)
    many = packed(*(member(f"f{number}", b"") for number in range(200)))
    with pytest.raises(Refused, match="more than 100 members"):
        extraction.untar(many, str(place.target), Rules(members=100))
    assert os.listdir(place.target) == []


def test_more_bytes_than_an_archive_can_hold(place: Place) -> None:
    """A megabyte that becomes a terabyte: zeros, holes, and headers that lie."""
    zeros = gzip.compress(packed(member("zeros", bytes(1 << 22))).getvalue())
    with pytest.raises(Refused, match="more than 1000000 bytes"):
        extraction.untar(io.BytesIO(zeros), str(place.target), Rules(size=1_000_000))
    huge, _content = member("huge", None, size=1 << 40)
    with pytest.raises(Refused, match="too much for an archive"):
        extraction.untar(io.BytesIO(huge.tobuf(tarfile.GNU_FORMAT) + bytes(1024)), str(place.target))
    hole, _content = member("hole", None, type=tarfile.GNUTYPE_SPARSE, size=512)
    block = bytearray(hole.tobuf(tarfile.GNU_FORMAT))
    block[483:495] = b"%011o\0" % (1 << 40)
    block[148:156] = b"%06o\0 " % sum(block[:148] + b" " * 8 + block[156:])
    with pytest.raises(Refused, match="too much for an archive"):
        extraction.untar(io.BytesIO(bytes(block) + bytes(2048)), str(place.target))
    assert os.listdir(place.target) == [] and place.untouched()


def test_a_header_as_large_as_memory_is_not_read(place: Place) -> None:
    info, _content = member("x", None, type=tarfile.XHDTYPE, size=1 << 36)
    with pytest.raises(Refused, match="a header claims"):
        extraction.untar(io.BytesIO(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096)), str(place.target))


def test_headers_of_headers_without_end(place: Place) -> None:
    header = member("x", None, type=tarfile.XHDTYPE, size=512)[0].tobuf(tarfile.GNU_FORMAT)
    content = b"11 a=bcdef\n".ljust(512, b"\0")
    with pytest.raises((Refused, Damaged)):
        extraction.untar(io.BytesIO((header + content) * 5000), str(place.target))


@pytest.mark.parametrize("cut", [0, 1, 700, 1300])
def test_an_archive_that_was_cut(place: Place, cut: int) -> None:
    for data in (
        packed(member("a", bytes(2000))).getvalue(),
        gzip.compress(packed(member("a", os.urandom(2000))).getvalue()),
    ):
        with pytest.raises(Damaged):
            extraction.untar(io.BytesIO(data[:cut]), str(place.target))


@pytest.mark.parametrize("name", [UP, "/outside/sentinel", "a/../../outside/sentinel", "a\x1bb"])
def test_a_zip_that_leads_out(place: Place, tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as out:
        out.writestr("first", "1")
        out.writestr(name, "written")
    with pytest.raises(Refused):
        archive.unzip(str(tmp_path / "bad.zip"), str(place.target))
    assert os.listdir(place.target) == [] and place.untouched()


def test_a_zip_that_is_a_bomb_or_holds_links(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "ALWAYS_FITS", 1 << 20)
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as out:
        out.writestr(info, str(place.outside))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("zeros", bytes(8 << 20))
    for name, said in (("link", "is a link"), ("bomb", "too much for an archive")):
        with pytest.raises(Refused, match=said):
            archive.unzip(str(tmp_path / f"{name}.zip"), str(place.target))
    assert os.listdir(place.target) == [] and place.untouched()


LISTED = "drwxr-xr-x 0/0  58 2026-01-01 00:00 /t\n"


@pytest.mark.parametrize(
    "line",
    [
        "-rw-r--r-- 0/0  1 2026-01-01 00:00 /t/../outside",
        "-rw-r--r-- 0/0  1 2026-01-01 00:00 /outside",
        "-rw-r--r-- 0/0  1 2026-01-01 00:00 /t/new\nline",
        "lrwxrwxrwx 0/0  1 2026-01-01 00:00 /t/a -> ../outside -> b",
        "lrwxrwxrwx 0/0  1 2026-01-01 00:00 /t/a -> ../outside\n-rw-r--r-- 0/0  1 2026-01-01 00:00 /t/a/b",
        "-rw-r--r-- 0/0  1 2026-01-01 00:00 /t/a\n-rw-r--r-- 0/0  1 2026-01-01 00:00 /t/a",
        "crw-r--r-- 0/0  1,  3 2026-01-01 00:00 /t/null",
        "-rw-r--r-- 0/0  1099511627776 2026-01-01 00:00 /t/a",
    ],
)
def test_a_squashfs_is_judged_by_its_listing(line: str) -> None:
    rules = Rules(links="any", control=True)
    with pytest.raises(Refused):
        extraction.check(extraction.of_listing(f"{LISTED}{line}\n", "/t"), rules, 4096)
    fine = "-rwsr-xr-x 0/0  3 2026-01-01 00:00 /t/a -> b\nlrwxrwxrwx 0/0  3 2026-01-01 00:00 /t/l -> /bin\n"
    found = extraction.check(extraction.of_listing(f"{LISTED}{fine}", "/t"), rules, 4096)
    assert [(one.name, one.kind, one.target) for one in found] == [("a -> b", "file", ""), ("l", "link", "/bin")]


@pytest.mark.skipif(not shutil.which("mksquashfs") or not shutil.which("unsquashfs"), reason="no squashfs-tools here")
def test_unsquashfs_writes_what_has_passed(place: Place, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin" / "su").write_text("#!", encoding="utf-8")
    (tree / "bin" / "link").symlink_to("/bin/su")
    for name, pipe in (("good", False), ("bad", True)):
        if pipe:
            os.mkfifo(tree / "pipe")
        words = ["mksquashfs", str(tree), str(tmp_path / name), "-quiet", "-no-progress"]
        subprocess.run(words, check=True, capture_output=True)
    rules, tool = Rules(links="any", control=True), shutil.which("unsquashfs") or ""
    unsquash.unpack(tool, str(tmp_path / "good"), str(place.target / "root"), rules)
    assert (place.target / "root" / "bin" / "link").readlink() == Path("/bin/su")
    with pytest.raises(Refused, match="'pipe' is a special file"):
        unsquash.unpack(tool, str(tmp_path / "bad"), str(place.target / "other"), rules)
    with pytest.raises(Damaged):
        unsquash.unpack(tool, str(tree / "bin" / "su"), str(place.target / "other"), rules)
    assert sorted(os.listdir(place.target)) == ["root"] and place.untouched()


NAMES = st.sampled_from(
    [
        "a",
        "a/b",
        "a/b/c",
        "b",
        "./a",
        "a/",
        "..",
        UP,
        "/outside/x",
        "a/../../outside/x",
        "b/sentinel",
        "c\n",
        "",
        ".",
        "a//b",
    ]
)
TARGETS = st.sampled_from(["a", "b", "a/b", ".", "..", "../outside", "/outside", "../target", "b/../..", UP, ""])
KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
MEMBERS = st.lists(st.tuples(NAMES, KINDS, TARGETS, st.sampled_from([0o644, 0o4755, 0o000, 0o777])), max_size=7)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(members=MEMBERS, rules=st.sampled_from([INSIDE, ANY, Rules(links="skip", special="skip"), Rules()]))
def test_whatever_is_packed_nothing_outside_changes(tmp_path_factory: pytest.TempPathFactory, members, rules) -> None:  # type: ignore[no-untyped-def]
    place = Place(tmp_path_factory.mktemp("hostile"))
    made = [
        member(name or "x", b"written" if kind == tarfile.REGTYPE else None, type=kind, linkname=target, mode=mode)
        for name, kind, target, mode in members
    ]
    refused = False
    try:
        extraction.untar(packed(*made), str(place.target), rules)
    except Refused:
        refused = True
    assert place.untouched()
    inside = list(place.target.rglob("*"))
    assert not (refused and inside), "refused before the first byte"
    for path in inside:
        status = path.lstat()
        assert stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
        assert stat.S_ISLNK(status.st_mode) or not status.st_mode & 0o7022
        if rules is INSIDE and path.is_symlink():
            assert str(path.resolve()).startswith(str(place.target.resolve()))
