# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str], requires: tuple[str, ...] = ()) -> Path:
    """A pure Python wheel with the given files, as a tool would build it."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    content = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for inside, text in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{inside},sha256={digest},{len(text.encode())}\n"
    record += f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**content, f"{info}/RECORD": record}.items():
            item = zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0))
            item.external_attr = (0o100755 if ".data/scripts/" in member else 0o100644) << 16
            archive.writestr(item, text)
    return path


@pytest.fixture
def wheel_maker() -> Callable[..., Path]:
    return make_wheel


def find_uv() -> str:
    """The uv of this environment or machine."""
    path = shutil.which("uv", path=f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', '')}")
    if path is None:
        pytest.skip("uv is neither beside this interpreter nor on the PATH (requirements.txt brings it)")
    return path


@pytest.fixture
def uv() -> str:
    return find_uv()


def two_wheels(folder: Path) -> Path:
    """Two small packages in a directory: alpha needs beta."""
    make_wheel(folder, "alpha", "1.0", {"alpha/__init__.py": "import beta\nVALUE = beta.VALUE + 1\n"}, ("beta>=1",))
    make_wheel(folder, "beta", "2.0", {"beta.py": "VALUE = 1\n"})
    return folder


@pytest.fixture
def wheelhouse(tmp_path: Path) -> str:
    return str(two_wheels(tmp_path / "wheels"))


def clean_settings(uv: str, folder: Path) -> dict[str, str]:
    """An environment without any settings of pip or uv, where nothing can reach a network by accident."""
    return {
        "HOME": str(folder / "home"),
        "PATH": f"{os.path.dirname(uv)}:/usr/bin:/bin",
        "PIP_CONFIG_FILE": os.devnull,
        "UV_CACHE_DIR": str(folder / "uv-cache"),
        "UV_NO_CONFIG": "1",
        "UV_OFFLINE": "1",
        "LC_ALL": "C.UTF-8",
    }


@pytest.fixture
def clean(uv: str, tmp_path: Path) -> dict[str, str]:
    return clean_settings(uv, tmp_path)


def only(monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, str]) -> None:
    """The environment variables are these and no others."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass


class Index:
    """A package index of wheels on this machine's loopback (PEP 503), with the hash of each."""

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._server = ThreadingHTTPServer((address, 0), partial(_Quiet, directory=str(folder)))
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{self._server.server_address[0]!s}:{self._server.server_port}/"

    def add(self, wheel: Path) -> None:
        place = self.folder / wheel.name.split("-")[0]
        place.mkdir(exist_ok=True)
        shutil.copyfile(wheel, place / wheel.name)
        links = [
            f'<a href="{file.name}#sha256={hashlib.sha256(file.read_bytes()).hexdigest()}">{file.name}</a>\n'
            for file in sorted(path for path in place.iterdir() if path.name != "index.html")
        ]
        (place / "index.html").write_text("".join(links), encoding="utf-8")

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


@pytest.fixture
def index(tmp_path: Path, wheelhouse: str) -> Iterator[Index]:
    """The packages of `wheelhouse` as an index serves them."""
    made = Index(tmp_path / "index")
    try:
        for wheel in Path(wheelhouse).glob("*.whl"):
            made.add(wheel)
        yield made
    finally:
        made.close()


@pytest.fixture
def supplied(tmp_path: Path, index: Index, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The store of a host whose only package source is the index."""
    only(monkeypatch, {**clean, "UV_DEFAULT_INDEX": index.url, "TMPDIR": str(tmp_path)})
    monkeypatch.delenv("UV_OFFLINE")
    return str(tmp_path / "store")


@pytest.fixture
def store(tmp_path: Path, wheelhouse: str, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A host whose pip settings name a directory of wheels and no index."""
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nno-index = true\nfind-links = {wheelhouse}\n", encoding="utf-8")
    only(monkeypatch, {**clean, "PIP_CONFIG_FILE": str(config)})
    return str(tmp_path / "store")
