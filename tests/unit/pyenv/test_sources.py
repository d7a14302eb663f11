# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.pip_settings import (
    PipSettings,
    identity,
    parse_pip_settings,
    pip_files,
    read_pip_settings,
    redact,
    uv_environment,
    uv_options,
)


def test_files_are_layers_and_variables_win() -> None:
    system = "[global]\nindex-url = https://a.example/simple\ntimeout = 5\n"
    user = "[global]\nfind_links =\n    /wheels\n    https://b.example/files\n[install]\nindex-url = https://c.example/simple\n"
    environ = {"PIP_TIMEOUT": "9", "PIP_EXTRA_INDEX_URL": "https://d.example/s file:///e/simple", "PIP_CERT": ""}
    assert parse_pip_settings([system, user], environ) == PipSettings(
        index_url="https://c.example/simple",
        extra_index_urls=("https://d.example/s", "file:///e/simple"),
        find_links=("/wheels", "https://b.example/files"),
        timeout="9",
    )


@pytest.mark.parametrize("text", ["", "no section\n", "[global\n", "[global]\nx\n", "[global]\nindex-url = %(x)s\n"])
def test_a_strange_file_is_no_disaster(text: str) -> None:
    assert parse_pip_settings([text], {}).find_links == ()


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("true", True), ("Yes", True), ("0", False), ("no", False)]
)
def test_no_index(value: str, expected: bool) -> None:
    assert parse_pip_settings([], {"PIP_NO_INDEX": value}).no_index is expected


def test_where_pip_looks() -> None:
    assert pip_files({"HOME": "/h", "PIP_CONFIG_FILE": "/dev/null"}) == []
    assert pip_files({"HOME": "/h", "PIP_CONFIG_FILE": "/x/pip.conf", "XDG_CONFIG_DIRS": "/a:/b"}) == [
        "/b/pip/pip.conf",
        "/a/pip/pip.conf",
        "/etc/pip.conf",
        "/h/.pip/pip.conf",
        "/h/.config/pip/pip.conf",
        "/x/pip.conf",
    ]


def test_local_places_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    (tmp_path / "wheels").mkdir()
    config.write_text(
        f"[global]\nextra-index-url = file://{tmp_path}/none/simple https://a.example/simple\n"
        f"find-links = {tmp_path}/wheels {tmp_path}/gone\ncert = {tmp_path}/gone.pem\n",
        encoding="utf-8",
    )
    found = read_pip_settings({"PIP_CONFIG_FILE": str(config), "HOME": str(tmp_path), "XDG_CONFIG_DIRS": "/none"})
    assert found.extra_index_urls == ("https://a.example/simple",)
    assert found.find_links == (f"{tmp_path}/wheels",)
    assert found.directories() == [f"{tmp_path}/wheels"]
    assert found.cert != f"{tmp_path}/gone.pem"


def test_directories_are_the_local_ones() -> None:
    pip = PipSettings(find_links=("/a b", "file:///c%20d", "https://x.example/"))
    assert pip.directories() == ["/a b", "/c d"]


def test_uv_gets_what_pip_has() -> None:
    pip = PipSettings(
        index_url="https://a.example/simple",
        extra_index_urls=("https://b.example/simple",),
        find_links=("/wheels", "/more"),
        trusted_hosts=("a.example",),
        cert="/ca.pem",
        proxy="http://proxy.example:3128",
        timeout="30",
    )
    given = uv_environment(pip, {"PATH": "/bin", "VIRTUAL_ENV": "/v", "PYTHONPATH": "/p", "https_proxy": "http://own"})
    assert given == {
        "PATH": "/bin",
        "https_proxy": "http://own",
        "HTTP_PROXY": "http://proxy.example:3128",
        "UV_INDEX_URL": "https://a.example/simple",
        "UV_EXTRA_INDEX_URL": "https://b.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INSECURE_HOST": "a.example",
        "UV_HTTP_TIMEOUT": "30",
        "SSL_CERT_FILE": "/ca.pem",
        "NO_COLOR": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }


def test_settings_of_uv_itself_win(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "PIP_INDEX_URL": "https://a.example/simple",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "/wheels",
        "PIP_TIMEOUT": "9",
        "UV_DEFAULT_INDEX": "https://mine.example/simple",
        "UV_FIND_LINKS": "/mine,https://x.example/files",
        "SSL_CERT_FILE": "/own.pem",
    }
    pip = read_pip_settings(environ)
    assert (pip.directories(), uv_options(pip)) == (["/mine"], [])
    given = uv_environment(pip, environ)
    assert "UV_INDEX_URL" not in given
    assert given["UV_FIND_LINKS"] == environ["UV_FIND_LINKS"]
    assert given["SSL_CERT_FILE"] == "/own.pem"
    assert given["UV_HTTP_TIMEOUT"] == "9"


@pytest.mark.parametrize(
    ("environ", "there", "expected"),
    [
        ({"PIP_CERT": "/pip.pem", "CURL_CA_BUNDLE": "/curl.pem"}, {"/pip.pem", "/curl.pem"}, "/pip.pem"),
        ({"PIP_CERT": "/gone.pem", "CURL_CA_BUNDLE": "/curl.pem"}, {"/curl.pem"}, "/curl.pem"),
        ({}, {"/etc/pki/tls/certs/ca-bundle.crt"}, "/etc/pki/tls/certs/ca-bundle.crt"),
        ({}, set(), None),
    ],
)
def test_certificates(environ: dict[str, str], there: set[str], expected: str | None) -> None:
    found = read_pip_settings({"PIP_CONFIG_FILE": "/dev/null", **environ}, there.__contains__)
    assert found.cert == expected


def test_identity_tells_places_apart_and_keeps_no_password() -> None:
    def of(**values: object) -> str:
        return identity(PipSettings(**values), {"PATH": "/bin"})  # type: ignore[arg-type]

    plain = of(index_url="https://a.example/simple")
    assert of(index_url="https://u:p@a.example/simple") != plain  # another login may see another index
    assert of(index_url="https://u:p@a.example/simple") == of(index_url="https://u:q@a.example/simple")
    assert of(index_url="https://b.example/simple") != plain
    assert of(find_links=("/wheels",)) != of()
    assert of(no_index=True) != of()
    assert of(timeout="3", cert="/x") == of()
    assert of() != hashlib.sha256(b"").hexdigest()[:16]


def test_redact() -> None:
    assert redact("at https://user:pa%40ss@a.example/x and http://t@b") == "at https://***@a.example/x and http://***@b"
