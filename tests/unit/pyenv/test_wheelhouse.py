# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half: choosing and downloading wheels for another host. The only server is one of this test."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import Needs, Request, build
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.lock import LockedFile, LockedPackage
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import failure
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import Target, WheelFile
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import wheelhouse as controller_side
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.wheelhouse import (
    Chosen,
    after_the_host,
    collect,
    download,
    select,
)

HOST = Target((3, 11), "x86_64", (2, 28))
MARKERS = {"sys_platform": "linux", "python_version": "3.11", "platform_machine": "x86_64"}
CONTENT = b"not really a wheel"
SHA = hashlib.sha256(CONTENT).hexdigest()


def package(name: str, *filenames: str, marker: str = "", source: str = "wheels") -> LockedPackage:
    files = tuple(LockedFile(f"https://files.example/x/{filename}", "0" * 64) for filename in filenames)
    return LockedPackage(name, "1", marker, files, source)


def test_select_by_marker_and_by_tag() -> None:
    chosen = select(
        [
            package("a", "a-1-cp310-cp310-manylinux_2_17_x86_64.whl", "a-1-cp311-cp311-manylinux_2_17_x86_64.whl"),
            package("b", "b-1-py3-none-any.whl", marker="sys_platform == 'win32'"),
            package("c", "c-1-py3-none-any.whl", marker="python_version >= '3.10' and extra != 'x'"),
        ],
        HOST,
        MARKERS,
    )
    assert [(one.name, one.file.filename) for one in chosen] == [
        ("a", "a-1-cp311-cp311-manylinux_2_17_x86_64.whl"),
        ("c", "c-1-py3-none-any.whl"),
    ]


def test_where_both_fail_the_error_says_what_each_has_asked() -> None:
    host = (
        "environment: a package source cannot be reached:\n  error: Failed to fetch: https://site/simple/\n  dns error"
    )
    with pytest.raises(RankzeroError) as caught, after_the_host(host):
        raise failure("resolving", 2, "error: Failed to fetch: https://here/simple/\n  cause: tcp connect error")
    for part in ("https://here/simple/", "tcp connect error", "host: https://site/simple/: dns error", "pip.conf"):
        assert part in caught.value.message


def test_all_packages_without_a_wheel_are_named() -> None:
    with pytest.raises(RankzeroError) as caught:
        select(
            [package("new", "new-1-cp311-cp311-manylinux_2_34_x86_64.whl"), package("mine", source="vcs")],
            HOST,
            MARKERS,
        )
    for part in ("new 1", "mine 1 (vcs)", "Python 3.11", "glibc 2.28", "find-links"):
        assert part in caught.value.message


class Files(BaseHTTPRequestHandler):
    """Serves /good; /secret with a login; /flaky is cut the first time; anything else is missing."""

    hits: list[str] = []

    def do_GET(self) -> None:
        Files.hits.append(self.path)
        expected = "Basic " + base64.b64encode(b"user:pass word").decode()
        if "secret" in self.path and self.headers.get("Authorization") != expected:
            self.send_error(401)
        elif "missing" in self.path:
            self.send_error(404)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            cut = "flaky" in self.path and Files.hits.count(self.path) == 1
            self.wfile.write(CONTENT[:5] if cut else CONTENT)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    Files.hits = []
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


def one(url: str, sha256: str = SHA) -> list[Chosen]:
    return [Chosen("a", "1", LockedFile(url, sha256))]


def test_download_once(server: str, tmp_path: Path) -> None:
    url = f"{server}/good/a-1-py3-none-any.whl"
    (got,) = download(one(url), {})
    assert Path(got.path).read_bytes() == CONTENT
    path = tmp_path / "cache" / "rankzero" / "wheels" / SHA[:32] / "a-1-py3-none-any.whl"
    assert got == WheelFile("a", "1", "a-1-py3-none-any.whl", SHA, len(CONTENT), str(path))
    assert download(one(url), {}) == [got]
    assert len(Files.hits) == 1
    Path(got.path).write_bytes(b"damaged")
    assert download(one(url), {}) == [got]
    assert Path(got.path).read_bytes() == CONTENT


def test_a_cut_connection_is_tried_again(server: str) -> None:
    download(one(f"{server}/flaky/a.whl"), {})
    assert len(Files.hits) == 2


def test_wrong_content_is_refused_and_not_kept(server: str, tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match="has the sha256 "):
        download(one(f"{server}/good/a.whl", "1" * 64), {})
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_missing_is_said_at_once(server: str) -> None:
    with pytest.raises(RankzeroError, match="cannot be downloaded: HTTP Error 404"):
        download(one(f"{server}/missing/a.whl"), {})
    assert len(Files.hits) == 1


def test_login_from_the_index_url_or_netrc(server: str, tmp_path: Path) -> None:
    url = f"{server}/secret/a.whl"
    index = server.replace("://", "://user:pass%20word@") + "/simple"
    download(one(url), {"UV_INDEX_URL": index})
    with pytest.raises(RankzeroError, match="401"):
        download(one(f"{server}/secret/b.whl"), {"NETRC": str(tmp_path / "none")})
    netrc = tmp_path / "netrc"
    netrc.write_text('machine 127.0.0.1 login user password "pass word"\n', encoding="utf-8")
    netrc.chmod(0o600)
    download(one(f"{server}/secret/b.whl"), {"NETRC": str(netrc)})


def test_local_wheels_stay_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a b+cpu.whl"
    path.write_bytes(CONTENT)
    (got,) = download(one(f"file://{tmp_path}/a%20b%2Bcpu.whl"), {})
    assert got.path == str(path)
    with pytest.raises(RankzeroError, match="has changed since it was locked"):
        download(one(f"file://{path}", "2" * 64), {})
    with pytest.raises(RankzeroError, match="is locked and cannot be read"):
        download(one(f"file://{tmp_path}/gone.whl"), {})


@pytest.fixture
def controller(wheelhouse: str, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller whose pip has a directory of wheels and no index."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {**clean, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheelhouse}.items():
        monkeypatch.setenv(name, value)


def needs_of(store: str) -> Needs:
    wanted = recipe('[project]\nname = "p"\nversion = "1"\ndependencies = ["alpha"]\n')
    needs = build(Request(wanted, store, download="controller", controller_sources="s"))
    assert isinstance(needs, Needs)
    return made_of(Needs, json.loads(json.dumps(asdict(needs))))


def test_from_need_to_environment(controller: None, wheelhouse: str, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    wanted = recipe('[project]\nname = "p"\nversion = "1"\ndependencies = ["alpha"]\n')
    needs = needs_of(store)
    brought = collect(wanted, needs)
    assert [wheel.path for wheel in brought.wheels] == [
        f"{wheelhouse}/alpha-1.0-py3-none-any.whl",
        f"{wheelhouse}/beta-2.0-py3-none-any.whl",
    ]
    assert brought.tool is None
    made = build(Request(wanted, store, brought=brought))
    assert isinstance(made, dict)
    assert made["packages"] == {"alpha": "1.0", "beta": "2.0"}
    # The next time the store has the lock, and nothing is resolved.
    assert needs_of(store).lock == brought.lock


def test_a_controller_without_uv_says_how_to_get_it(
    controller: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = needs_of(str(tmp_path / "store"))
    monkeypatch.setattr(controller_side, "own_uv", lambda **_given: None)
    with pytest.raises(RankzeroError, match=f"{sys.executable} -m pip install uv"):
        collect(recipe("[project]\n"), needs)


def test_a_host_without_glibc(controller: None, tmp_path: Path) -> None:
    needs = needs_of(str(tmp_path / "store"))
    needs.python["target"], needs.python["libc"] = None, "musl"
    with pytest.raises(RankzeroError, match="musl"):
        collect(recipe("[project]\n"), needs)


def test_where_uv_is_is_told_without_starting_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(controller_side.uv, "usual_places", lambda _environ: [])
    assert controller_side.uv_place() is None
    (tmp_path / "uv").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "uv").chmod(0o755)
    assert controller_side.uv_place() == str(tmp_path / "uv")


def test_what_the_host_tried_is_shown_with_its_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is uv's, and uv says at the end what went wrong: a wrong version is no missing network."""
    monkeypatch.setattr(controller_side, "own_uv", lambda **_given: None)
    said = "uv pip compile failed:\n  x No solution found\n  hint: there is no version of torch==99"
    with pytest.raises(RankzeroError) as caught:
        collect(recipe("[project]\n"), Needs(said, python={}, uv=False, lock=None, lock_key=None))
    assert "hint: there is no version of torch==99" in caught.value.message
    assert "No solution found" in caught.value.message and "package source" not in caught.value.message
