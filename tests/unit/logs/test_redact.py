# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in logs: found, starred byte for byte, whatever the bounds of a block; and no more than secrets."""

from __future__ import annotations

import base64
import io
import json
import random
import tarfile
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.logs import redact
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import (
    BLOCK,
    PLAIN,
    collect,
    fetch_plan,
    plan,
    write_archive,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import Redactor, redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest, Holding, Part
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.secrets import sums
from ansible_collections.rankzero.slurm.plugins.module_utils.run.secrets.sums import (
    FILE,
    LONGEST,
    KnownSecrets,
    sums_of,
    values_of,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import holdings, unpack
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place

# Made of parts, so that no scanner takes this file for a leak.
HUB = b"hf" + b"_" + b"abcdefghijklmnopqrstuvwxyz"
GIT = b"gh" + b"p_" + b"0123456789abcdefghijABCDEFGHIJ"


def knowing(*values: bytes) -> Redactor:
    """The redactor of a launch that had these secrets."""
    return Redactor(KnownSecrets(sums_of(values)))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (b"logging in with " + HUB + b" done", HUB),
        (b"remote: " + GIT, GIT),
        (b"export WANDB_API_KEY=0123456789abcdef", b"0123456789abcdef"),
        (b'{"HF_TOKEN": "plain-words"}', b"plain-words"),
        (b"Authorization: Bearer abcdef.ghi", b"abcdef.ghi"),
        (b"password = hunter22", b"hunter22"),
        (b"cloning https://me:tok3n@git.example.org/x.git", b"tok3n"),
        (b"value s3cr3t-value of the launch", b"s3cr3t-value"),
        (b"authorization: TOKEN abcdefgh", b"abcdefgh"),
        (b"Api-Key: abcdefgh, and more", b"abcdefgh"),
        (b"AWS_SECRET_ACCESS_KEY='abcdefgh'", b"abcdefgh"),
        (b"A_TOKEN=TOKEN=abcdefgh", b"TOKEN=abcdefgh"),
    ],
)
def test_a_secret_is_starred_and_everything_else_stays(text: bytes, secret: bytes) -> None:
    redactor, expected = knowing(b"s3cr3t-value"), text.replace(secret, b"*" * len(secret))
    assert redactor.clean(text) == expected
    # A large piece is asked for the bytes that it has before it is searched.
    pad = b" 0" * redact._LARGE
    assert redactor.clean(pad + text + pad) == pad + expected + pad


def test_a_secret_of_several_lines_is_starred_in_a_log_that_ranks_share() -> None:
    cleaned = knowing(b"-----KEY\nabcdefghij\nxy\n").clean(b"3: -----KEY\n4: other\n3: abcdefghij\n3: xy\n")
    assert cleaned == b"3: ********\n4: other\n3: **********\n3: xy\n"


@pytest.mark.parametrize(
    "text",
    [
        b"pad_token: <|endoftext|> eos_token='</s>' tokenizer: /shared/models/tokenizer.json",
        b"iteration 10/100 | tokens per second: 81234.5 | lm loss: 2.3E+00",
        b"NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>  tcp://10.0.0.1:29500",
        b"\xff\x00\xfebinary \x80 bytes",
        b"hf_short",
        b"task-0123456789abcdefghij disk-0123456789abcdefghij",
        b"API_KEYS are not shown; PASSWORD: none; api_keyring=loaded",
        b"HTTP://host:8080/path ab://user:secret@host",
    ],
)
def test_what_training_logs_are_full_of_is_no_secret(text: bytes) -> None:
    assert Redactor().clean(text) == text


def test_any_block_of_a_file_is_cleaned_as_the_whole(tmp_path: Path) -> None:
    chance = random.Random(7)
    whole = b"".join(
        chance.choice([HUB, b"HF_TOKEN=very-secret-word", b"words of a line ", b"\xff\x00", b"\n"]) + b" "
        for _number in range(200)
    )
    redactor = knowing(b"words of")
    clean = redactor.clean(whole)
    assert len(clean) == len(whole) and HUB not in clean and b"very-secret" not in clean
    stream = io.BytesIO(whole)
    for _number in range(200):
        start = chance.randrange(len(whole))
        count = chance.randrange(1, 300)
        assert redactor.read(stream, start, count) == clean[start : start + count]


def test_a_secret_across_the_blocks_of_an_archive_is_starred(tmp_path: Path) -> None:
    chance = random.Random(13)
    whole = bytearray(b"step 1 loss 2.5\n" * (4 * BLOCK // 16))
    for border in range(BLOCK, len(whole), BLOCK):
        secret = chance.choice([HUB, GIT, b"HF_TOKEN=very-secret-word", b"password: hunter22", b"s3cr3t-value"])
        at = border - chance.randrange(len(secret) + 1)
        whole[at - 1 : at + len(secret) + 1] = b" " + secret + b" "
    (tmp_path / "log").write_bytes(whole)
    redactor, size, target = knowing(b"s3cr3t-value"), len(whole), tmp_path / "logs.tar.gz"
    write_archive(Beneath(str(tmp_path)), [Part("log", 0, size, size, True)], str(target), redactor)
    with tarfile.open(target) as archive, archive.extractfile("log") as packed:
        fetched = packed.read()
    assert fetched == redactor.clean(bytes(whole)) and fetched.count(b"*****") and b"s3cr3t" not in fetched


def test_a_stream_is_clean_in_pieces_of_any_size_from_any_place() -> None:
    chance = random.Random(11)
    whole = b"".join(
        chance.choice([HUB, b"words of", b"of two\nlines", b"words of a line ", b"\xff\x00", b"\n"]) + b" "
        for _number in range(300)
    )
    redactor = knowing(b"words of", b"of two\nlines")
    clean = redactor.clean(whole)
    assert clean.count(b"\n") == whole.count(b"\n") and b"of two" not in clean
    stream, read = redactor.stream(io.BytesIO(whole)), b""
    while piece := stream.read(chance.randrange(1, 300)):
        read += piece
    assert read == clean
    for _number in range(100):
        start, count = chance.randrange(len(whole)), chance.randrange(1, 300)
        assert stream.seek(start) == stream.tell() == start
        assert stream.read(count) == clean[start : start + count]
        assert stream.tell() == min(len(whole), start + count)
    assert (stream.seek(0, 2), stream.read()) == (len(whole), b"")
    assert (stream.seek(0), stream.read()) == (0, clean)


def test_the_launch_s_own_values_are_known_after_its_end(tmp_path: Path) -> None:
    assert values_of("") == []
    lines = b"A=" + base64.b64encode(b"open sesame") + b"\nB=" + base64.b64encode(b"x") + b"\nC=!\n"
    assert values_of(lines.decode()) == [b"open sesame", b"x"]
    (tmp_path / FILE).write_text(sums_of(values_of(lines.decode())))
    assert b"open sesame" not in (tmp_path / FILE).read_bytes()
    assert redactor_of(RunDirectory(str(tmp_path))).clean(b"say open sesame, x") == b"say ***********, x", (
        "one letter is no secret"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"p&ss/w\xc3\xb6rd", b"p%26ss%2Fw%C3%B6rd"),
        (b'say "it" twice', b'say \\"it\\" twice'),
        (bytes(range(32, 256)) * 5, bytes(range(32, 256)) * 5),
        (b"x" * LONGEST + b"end", b"x" * LONGEST + b"end"),
        (b"six by", b"six by"),
    ],
)
def test_a_value_is_known_however_it_is_quoted_and_however_long_it_is(value: bytes, shown: bytes) -> None:
    whole = b"before " + shown + b" after"
    stream = io.BytesIO(b"x " * 50_000 + whole)
    at = 100_000 + len(b"before ")
    assert knowing(value).read(stream, at, len(shown)) == b"*" * len(shown)
    assert knowing(value).clean(whole) == b"before " + b"*" * len(shown) + b" after"


def test_the_sums_tell_two_launches_of_one_secret_apart() -> None:
    assert sums_of([b"open sesame"]) != sums_of([b"open sesame"])


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"salt": "zz", "rows": []}', '{"salt": "00", "rows": [7]}'])
def test_sums_that_are_none_know_nothing(text: str) -> None:
    assert Redactor(KnownSecrets(text)).clean(b"open sesame") == b"open sesame"


def test_sums_of_anybody_end_and_say_nothing() -> None:
    rows = [[-1, "00", "x"], [10**9, "00", "x"], [6, "", "x"], [8, "00", "x"]]
    assert Redactor(KnownSecrets(json.dumps({"salt": "00", "rows": rows}))).clean(b"a" * 1000) == b"a" * 1000


def test_every_text_of_a_document_is_clean() -> None:
    document = {"lines": ["say open sesame", ("open sesame", 1)], "open": None, "ok": True, "odd": "\ud800"}
    assert knowing(b"open sesame").document(document) == {
        "lines": ["say ***********", ["***********", 1]], "open": None, "ok": True, "odd": "\ud800",
    }  # fmt: skip


def fetch(logs: Path, dest: Path, redactor: Redactor, folder: Path, **bounds: int) -> list[Part]:
    """One round, as module and action do it."""
    files, _notes = collect(Beneath(str(logs)))
    parts, more = plan(Beneath(str(logs)), files, holdings(Place.of(str(dest))), redactor=redactor, **bounds)
    assert not more
    target = folder / f"archive-{len(list(folder.iterdir()))}"
    parts = write_archive(Beneath(str(logs)), parts, str(target), redactor)
    with target.open("rb") as stream:
        unpack(stream, parts, Place.of(str(dest)))
    return parts


def test_redacted_logs_are_fetched_by_new_bytes_too(tmp_path: Path) -> None:
    logs, dest, archives = tmp_path / "logs", tmp_path / "dest", tmp_path / "archives"
    for folder in (logs, dest, archives):
        folder.mkdir()
    log = logs / "rank-0000.log"
    log.write_bytes(b"start " + HUB + b"\n")
    (first,) = fetch(logs, dest, Redactor(), archives)
    assert first.restart and HUB not in (dest / "rank-0000.log").read_bytes()
    assert fetch(logs, dest, Redactor(), archives) == []
    with log.open("ab") as stream:
        stream.write(b"step 1\n")
    (second,) = fetch(logs, dest, Redactor(), archives)
    assert (second.bytes, second.restart) == (7, False), "new bytes only"
    assert (dest / "rank-0000.log").read_bytes() == Redactor().clean(log.read_bytes())
    # Without redaction the same log is another text, and fetched whole.
    (third,) = fetch(logs, dest, PLAIN, archives)
    assert third.restart and (dest / "rank-0000.log").read_bytes() == log.read_bytes()


def test_both_ends_of_a_giant_log(tmp_path: Path) -> None:
    logs, dest, archives = tmp_path / "logs", tmp_path / "dest", tmp_path / "archives"
    for folder in (logs, dest, archives):
        folder.mkdir()
    log = logs / "rank-0000.log"
    log.write_bytes(b"begin" + b"x" * 100_000 + b"end")
    parts = fetch(logs, dest, PLAIN, archives, tail_bytes=3, head_bytes=5)
    assert [(part.path, part.bytes, part.origin) for part in parts] == [
        ("rank-0000.log.head", 5, "rank-0000.log"),
        ("rank-0000.log", 3, "rank-0000.log"),
    ]
    assert (dest / "rank-0000.log").read_bytes() == b"end" and (dest / "rank-0000.log.head").read_bytes() == b"begin"
    with log.open("ab") as stream:
        stream.write(b"12")
    assert [part.path for part in fetch(logs, dest, PLAIN, archives, tail_bytes=3, head_bytes=5)] == ["rank-0000.log"]
    assert (dest / "rank-0000.log").read_bytes() == b"end12"
    with log.open("ab") as stream:
        stream.write(b"y" * 1000 + b"END")
    assert [part.path for part in fetch(logs, dest, PLAIN, archives, tail_bytes=3, head_bytes=5)] == ["rank-0000.log"]
    assert (dest / "rank-0000.log").read_bytes() == b"END", "the beginning is here already"


def test_the_module_s_half_redacts(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(HUB)
    request = FetchRequest(budget=1000, folder=str(tmp_path))
    fetched = fetch_plan(Beneath(str(tmp_path)), request, write=True, redactor=Redactor())
    dest = tmp_path / "dest"
    with open(str(fetched.archive), "rb") as stream:
        unpack(stream, fetched.parts, Place.of(str(dest)))
    assert (dest / "a.log").read_bytes() == b"*" * len(HUB)
    held = holdings(Place.of(str(dest)))["a.log"]
    assert held == Holding(len(HUB), len(HUB), held.digest)


def test_sums_that_somebody_else_has_written_cost_a_reader_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of a run directory may write the sums, and a log to go with them: every place would be digested."""
    digested = 0
    digest = sums._digest

    def counted(salt: bytes, value: bytes) -> str:
        nonlocal digested
        digested += 1
        return digest(salt, value)

    own = json.loads(sums.sums_of([b"aaaaaaaa", b"correct horse"]))
    length, bits, _digest = next(row for row in own["rows"] if row[0] == 8)
    alike = [[length, bits, f"{number:064x}"] for number in range(5000)]
    short = [[512, "00", "0" * 64], [512, "01", "0" * 64], [6, "0", "0"]]
    log = b"a" * 100_000 + b" correct horse\n"
    monkeypatch.setattr(sums, "_digest", counted)
    for rows in (alike, short, short * 2000, [[10, bits[:2] * 10, ""], *own["rows"]]):
        digested = 0
        Redactor(sums.KnownSecrets(json.dumps({**own, "rows": rows}))).clean(log)
        assert digested <= len(log) // 4 + 10_001
    assert b"correct horse" not in Redactor(sums.KnownSecrets(json.dumps(own))).clean(log)


@pytest.mark.parametrize(
    "row", ['[Infinity, "00", ""]', '[1e999, "00", ""]', '[NaN, "00", ""]', '["9", "00", ""]', "[[]]"]
)
def test_sums_that_are_damaged_know_no_secret(row: str) -> None:
    text = '{"salt": "00", "rows": [' + row + "]}"
    assert not list(sums.KnownSecrets(text).spans(b"nothing to find"))
