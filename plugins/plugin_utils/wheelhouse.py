# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels for a host that reaches no package source: resolved for its Python and platform, and downloaded, here.

Downloads are kept by content in the user's cache. Wheels that lie in a local directory are used where they are.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import netrc
import os
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import sources, uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import Platform, resolve
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.lock import LockedFile, LockedPackage, parse_lock
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe, recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import Target, best, parse
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.tree import file_sha256

_ATTEMPTS = 3
# The newest glibc whose name every supported uv knows as a platform; an older one gives the same wheels or fewer.
_PLATFORMS = (17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Chosen:
    """The one file of a package that fits the host."""

    name: str
    version: str
    file: LockedFile


def own_uv(environ: Mapping[str, str] | None = None) -> uv.Uv | None:
    """The controller's uv: beside Ansible's own Python first, because that is where requirements put it."""
    environ = os.environ if environ is None else environ
    settings = sources.uv_environment(sources.read_pip_settings(environ), environ)
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    return uv.find([beside, *uv.usual_places(environ)], settings)


def own_sources() -> str:
    """The identity of the package sources that the controller uses."""
    return sources.identity(sources.read_pip_settings(os.environ), os.environ)


def collect(wanted: Recipe, needs: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve and download what a host needs (`build.Needs` as a map). Returns `build.Brought` as a map.

    Raises RankzeroError: no uv here, no package source, a package without a wheel that fits, a wrong hash.
    """
    tool = own_uv()
    if tool is None:
        raise RankzeroError(
            "environment: the cluster's host reaches no package source, and the controller has no uv to fetch the "
            f"packages with ({needs['reason'].splitlines()[0]}). Install it beside Ansible: {sys.executable} -m pip "
            "install uv"
        )
    target = _target(needs)
    markers = dict(needs["python"]["markers"])
    lock = needs.get("lock") or _resolve(tool, wanted, target, markers)
    files = select(parse_lock(lock), target, markers)
    extra = []
    if needs.get("uv"):
        own = recipe(f'[project]\nname = "tool"\nversion = "0"\ndependencies = ["uv=={tool.version}"]\n')
        extra = select(parse_lock(_resolve(tool, own, target, markers)), target, markers)
    fetched = download([*files, *extra], tool.environment)
    return {
        "lock_key": needs["lock_key"],
        "lock": lock,
        "wheels": fetched[: len(files)],
        "tool": fetched[len(files)] if extra else None,
        "folder": None,
    }


def select(packages: Iterable[LockedPackage], target: Target, markers: Mapping[str, str]) -> list[Chosen]:
    """One wheel of each package that the host's markers ask for. Raises RankzeroError that names all without one."""
    chosen, without = [], []
    for package in packages:
        if not _applies(package, markers):
            continue
        files = {file.filename: file for file in package.wheels}
        wheel = best(filter(None, map(parse, files)), target)
        if wheel is None:
            without.append(f"{package.name} {package.version}".strip() + (f" ({package.source})" if not files else ""))
            continue
        chosen.append(Chosen(package.name, package.version or wheel.version, files[wheel.filename]))
    if without:
        raise RankzeroError(
            f"environment: no wheel fits Python {target.python[0]}.{target.python[1]} on {target.machine} with glibc "
            f"{target.glibc[0]}.{target.glibc[1]}: {', '.join(without)}. What is not built cannot be carried to a host "
            "without network: build wheels into a directory that pip's find-links names, or choose versions that have "
            "them."
        )
    return chosen


def download(files: Iterable[Chosen], environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """The files, verified: name, version, filename, sha256, size and path of each. Raises RankzeroError."""
    wanted = list(files)
    with ThreadPoolExecutor(max_workers=8) as pool:
        paths = list(pool.map(lambda one: _fetched(one.file, environment), wanted))
    return [
        {
            "name": one.name,
            "version": one.version,
            "filename": one.file.filename,
            "sha256": one.file.sha256,
            "size": os.path.getsize(path),
            "path": path,
        }
        for one, path in zip(wanted, paths)
    ]


def _resolve(tool: uv.Uv, wanted: Recipe, target: Target, markers: Mapping[str, str]) -> str:
    minor = max((one for one in _PLATFORMS if one <= target.glibc[1]), default=None)
    name = f"{target.machine}-manylinux2014" if minor is None else f"{target.machine}-manylinux_2_{minor}"
    options = ("--python-version", markers["python_full_version"], "--python-platform", name, "--only-binary", ":all:")
    pip = sources.read_pip_settings(os.environ)
    with tempfile.TemporaryDirectory(prefix="rankzero-") as work:
        for filename, text in (("pyproject.toml", wanted.pyproject), ("uv.lock", wanted.lock)):
            if text is not None:
                with open(os.path.join(work, filename), "w", encoding="utf-8") as stream:
                    stream.write(text)
        lock = os.path.join(work, "pylock.toml")
        resolve(tool, wanted, pip, work, lock, Platform(sys.executable, options, target))
        with open(lock, encoding="utf-8") as stream:
            return stream.read()


def _target(needs: Mapping[str, Any]) -> Target:
    facts = needs["python"].get("target")
    if not facts:
        raise RankzeroError(
            "environment: the cluster's host reaches no package source, and its C library is not glibc "
            f"({needs['python'].get('libc')!r}): wheels can be carried to hosts with glibc only."
        )
    return Target(
        (int(facts["python"][0]), int(facts["python"][1])),
        str(facts["machine"]),
        (int(facts["glibc"][0]), int(facts["glibc"][1])),
    )


def _applies(package: LockedPackage, markers: Mapping[str, str]) -> bool:
    # Comes with ansible-core; imported late, because a host that only lists plugins need not have it.
    from packaging.markers import InvalidMarker, Marker

    if not package.marker:
        return True
    try:
        return Marker(package.marker).evaluate({**markers, "extra": ""})
    except InvalidMarker as error:
        raise RankzeroError(f"environment: uv.lock: the marker of {package.name} cannot be read: {error}") from error


def _fetched(file: LockedFile, environment: Mapping[str, str]) -> str:
    """The path of a file on this machine: where it is, or in the cache."""
    parts = urlsplit(file.url)
    if parts.scheme in ("", "file"):
        path = unquote(parts.path)
        try:
            if file_sha256(path) == file.sha256:
                return path
        except OSError as error:
            raise RankzeroError(
                f"environment: {path} is locked and cannot be read ({error.strerror}). Put it back, or remove the lock "
                "in store_root/locks."
            ) from error
        raise RankzeroError(f"environment: {path} is not what it was when it was locked (another sha256).")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(home, "rankzero", "wheels", file.sha256[:32])
    path = os.path.join(folder, file.filename)
    try:
        if file_sha256(path) == file.sha256:
            return path
    except OSError:
        pass
    os.makedirs(folder, exist_ok=True)
    for attempt in range(_ATTEMPTS):
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            _download(file, temporary, environment)
            os.replace(temporary, path)
            return path
        except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
            gone = isinstance(error, urllib.error.HTTPError) and error.code in (401, 403, 404)
            if gone or attempt + 1 == _ATTEMPTS:
                where = sources.redact(file.url)
                raise RankzeroError(f"environment: {where} cannot be downloaded: {error}") from error
        except RankzeroError:  # another content: perhaps the connection broke
            if attempt + 1 == _ATTEMPTS:
                raise
        except OSError as error:
            raise RankzeroError(f"environment: {folder} on the controller cannot be written: {error}") from error
        finally:
            if os.path.exists(temporary):
                os.remove(temporary)
        time.sleep(2**attempt)
    raise AssertionError("unreachable")


def _download(file: LockedFile, path: str, environment: Mapping[str, str]) -> None:
    parts = urlsplit(file.url)
    request = urllib.request.Request(file.url.partition("#")[0], headers={"User-Agent": "rankzero.slurm"})
    login = _login(parts.hostname or "", environment)
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(":".join(login).encode()).decode("ascii"))
    trusted = environment.get("UV_INSECURE_HOST", "").split()
    context = ssl.create_default_context(cafile=environment.get("SSL_CERT_FILE") or None)
    if parts.hostname in trusted or parts.netloc in trusted:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    proxies = {
        scheme: value
        for scheme in ("http", "https")
        if (value := environment.get(f"{scheme.upper()}_PROXY") or environment.get(f"{scheme}_proxy"))
    }
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler(proxies or None)
    )
    total = hashlib.sha256()
    with opener.open(request, timeout=60) as answer, open(path, "wb") as stream:
        for block in iter(lambda: answer.read(_BLOCK), b""):
            stream.write(block)
            total.update(block)
    if total.hexdigest() != file.sha256:
        raise RankzeroError(
            f"environment: {sources.redact(file.url)} has the sha256 {total.hexdigest()}, and {file.sha256} was locked."
        )


def _login(host: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """User and password for a host: from the URL of an index there, else from ~/.netrc."""
    for name in ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        for place in environment.get(name, "").replace(",", " ").split():
            parts = urlsplit(place)
            if parts.hostname == host and parts.username:
                return unquote(parts.username), unquote(parts.password or "")
    try:
        found = netrc.netrc(environment.get("NETRC")).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return (found[0], found[2] or "") if found else None
