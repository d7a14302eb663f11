# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dataset from a web server: resumed, restarted where it has to be, refused in words. The server counts its bytes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import DATASET
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.ensure import ensure_dataset
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources import base
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.select import check
from tests.webserver import BLOCK, WebServer

BIG = random.Random(7).randbytes(20 * BLOCK + 123)
SMALL = b"small"
#: Runs a staging in a process of its own, to be killed.
PROGRAM = """
import json, sys
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.ensure import ensure_dataset
ensure_dataset(json.loads(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.time, "sleep", lambda _seconds: None)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer({"d/big.bin": BIG, "d/sub/small.txt": SMALL}).running() as served:
        yield served


def options(server: WebServer, root: Path, **changes: Any) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in DATASET.items()}
    given = {"name": "web", "source": "http", "src": f"{server.url}d/", "files": ["big.bin", "sub/small.txt"]}
    return {**defaults, **given, "store_root": str(root / "store"), **changes}


def ensure(server: WebServer, root: Path, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
    given = options(server, root, **changes)
    check(given)
    return ensure_dataset(given, check_mode=check_mode)


def content(root: Path, name: str = "big.bin") -> bytes:
    return (root / "store" / "datasets" / "by-name" / "web" / name).read_bytes()


def test_files_below_a_folder(server: WebServer, tmp_path: Path) -> None:
    assert ensure(server, tmp_path, check_mode=True)["ref"]["digest"] is None
    assert server.asked == []
    result = ensure(server, tmp_path)
    assert (content(tmp_path), content(tmp_path, "sub/small.txt")) == (BIG, SMALL)
    assert result["moved"] == len(BIG) + len(SMALL) == sum(server.sent.values())
    asked = len(server.asked)
    assert not ensure(server, tmp_path)["changed"] and len(server.asked) == asked
    assert not ensure(server, tmp_path, update=True)["changed"] and sum(server.sent.values()) == result["moved"]


def test_one_file_whose_sum_is_known_is_known_before_it_is_there(server: WebServer, tmp_path: Path) -> None:
    one = {"src": f"{server.url}d/big.bin?token=secret", "files": [], "sha256": hashlib.sha256(BIG).hexdigest()}
    foretold = ensure(server, tmp_path, check_mode=True, **one)
    done = ensure(server, tmp_path, **one)
    assert done["ref"] == {**foretold["ref"], "present": True} and done["ref"]["digest"]
    assert "secret" not in str(done) and content(tmp_path) == BIG


def test_a_killed_run_is_gone_on_with(server: WebServer, tmp_path: Path) -> None:
    server.slow["d/big.bin"] = 0.05
    given = options(server, tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PROGRAM, json.dumps(given)], env=environment) as process:
        deadline = time.monotonic() + 60
        while server.sent.get("d/big.bin", 0) < 8 * BLOCK and time.monotonic() < deadline:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "store" / "datasets" / "by-name").exists()
    server.slow.clear()
    result = ensure_dataset(given)
    assert content(tmp_path) == BIG
    [asked] = [line for line in server.asked if "bytes=" in line]
    offset = int(asked.partition("bytes=")[2].rstrip("-"))
    # What was on its way when the process was killed comes again, and no more.
    assert offset >= 4 * BLOCK and result["moved"] in (len(BIG) - offset, len(BIG) - offset + len(SMALL))


def test_broken_connections_are_gone_on_with_in_one_run(server: WebServer, tmp_path: Path) -> None:
    server.breaks["d/big.bin"] = [5 * BLOCK, 3 * BLOCK, 0, 0, 2 * BLOCK]
    result = ensure(server, tmp_path)
    assert content(tmp_path) == BIG
    assert result["moved"] == len(BIG) + len(SMALL) and result["notes"] == []


def test_a_connection_that_brings_nothing_ends_in_words_and_keeps_what_came(server: WebServer, tmp_path: Path) -> None:
    server.breaks["d/big.bin"] = [5 * BLOCK] + [0] * 10
    with pytest.raises(RankzeroError, match=f"big.bin: the connection ended after {5 * BLOCK} bytes of {len(BIG)}"):
        ensure(server, tmp_path)
    server.breaks.clear()
    assert ensure(server, tmp_path)["moved"] == len(BIG) - 5 * BLOCK


def test_a_server_that_cannot_go_on_starts_again_and_that_is_said(tmp_path: Path) -> None:
    with WebServer({"d/big.bin": BIG}, ranges=False).running() as server:
        server.breaks["d/big.bin"] = [5 * BLOCK]
        result = ensure(server, tmp_path, files=["big.bin"])
    assert content(tmp_path) == BIG
    assert result["notes"] == ["big.bin: the source cannot resume a file; its transfer starts again"]


def test_a_file_that_changed_meanwhile_starts_again(server: WebServer, tmp_path: Path) -> None:
    server.breaks["d/big.bin"] = [5 * BLOCK] + [0] * 10
    with pytest.raises(RankzeroError):
        ensure(server, tmp_path)
    server.breaks.clear()
    server.files["d/big.bin"] = other = BIG[::-1]
    result = ensure(server, tmp_path)
    assert content(tmp_path) == other
    assert result["notes"] == ["big.bin changed at its source since the last run: it starts again"]


def test_a_file_that_changes_while_it_comes_starts_again(server: WebServer, tmp_path: Path) -> None:
    other = BIG[::-1]
    server.breaks["d/big.bin"] = [5 * BLOCK]
    real = server._send

    def send(request: Any, path: str, content: bytes) -> None:
        real(request, path, content)
        server.files["d/big.bin"] = other

    server._send = send  # type: ignore[method-assign]
    result = ensure(server, tmp_path, files=["big.bin"])
    assert content(tmp_path) == other
    assert result["notes"] == ["big.bin changed at its source meanwhile: it starts again"]


@pytest.mark.parametrize(("ranges", "etags", "head"), [(True, False, True), (True, True, False), (False, False, False)])
def test_servers_that_say_less(tmp_path: Path, ranges: bool, etags: bool, head: bool) -> None:
    with WebServer({"d/big.bin": BIG}, ranges=ranges, etags=etags, head=head).running() as server:
        server.breaks["d/big.bin"] = [BLOCK] if head else [0, BLOCK]
        assert ensure(server, tmp_path, files=["big.bin"])["changed"]
    assert content(tmp_path) == BIG


def test_a_list_of_sums_names_the_files(server: WebServer, tmp_path: Path) -> None:
    lines = [f"{hashlib.sha256(body).hexdigest()} *{name[2:]}\n" for name, body in server.files.items()]
    server.files["d/SHA256SUMS"] = "".join(lines).encode()
    result = ensure(server, tmp_path, files=[], checksums="SHA256SUMS")
    assert result["dataset"]["files"] == 2 and content(tmp_path) == BIG
    (tmp_path / "store" / "datasets" / "by-name" / "web" / "sub" / "small.txt").unlink()
    mended = ensure(server, tmp_path, files=[], checksums="SHA256SUMS")
    assert (mended["repaired"], mended["moved"]) == ({"sub/small.txt": "is missing"}, len(SMALL))
    server.files["d/SHA256SUMS"] = f"{'a' * 64}  ../../etc/passwd\n".encode()
    with pytest.raises(RankzeroError, match=r"names '../../etc/passwd'"):
        ensure(server, tmp_path, files=[], checksums="SHA256SUMS", update=True)


def test_a_wrong_sum_keeps_what_came_aside(server: WebServer, tmp_path: Path) -> None:
    one = {"src": f"{server.url}d/big.bin", "files": [], "sha256": "0" * 64}
    with pytest.raises(RankzeroError, match=r"big.bin: has the sha256 [0-9a-f]{64}, but 0{64} was expected") as raised:
        ensure(server, tmp_path, **one)
    kept = Path(str(raised.value).partition("kept as ")[2].partition(";")[0])
    assert kept.read_bytes() == BIG


def test_a_login_and_a_token(server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.login = "Bearer abc"
    with pytest.raises(RankzeroError, match=r"the server answered 401 .*~/.netrc .* or give token_file"):
        ensure(server, tmp_path)
    token = tmp_path / "token"
    token.write_text("abc\n")
    assert ensure(server, tmp_path, token_file=str(token))["changed"]
    server.login = "Basic " + base64.b64encode(b"me:pass").decode()
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password pass\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert ensure(server, tmp_path, name="other")["changed"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"files": ["nothing"]}, "d/nothing: the server answered 404 .* src or files"),
        ({"files": ["a/../../x"]}, "'a/../../x' is not a plain relative path"),
        ({"files": []}, "is a folder, .* give files or checksums"),
        ({"src": "ftp://host/x"}, "src: 'ftp://host/x' is not a URL"),
        ({"src": "http://me:pw@host/x"}, "src: the URL contains a password"),
        ({"src": "http://127.0.0.1:9/x/"}, "http://127.0.0.1:9/x/big.bin cannot be reached: .*refused"),
    ],
)
def test_bad_input(server: WebServer, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RankzeroError, match=message):
        ensure(server, tmp_path, **changes)
