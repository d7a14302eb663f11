# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the wheel of each package in a lock that fits a host, and download and verify it.

Downloads are kept by content in the user's cache. Wheels in a local directory are used in place.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import blocks, file_sha256, sha256_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import user_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import pip_settings
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.lock import LockedFile, LockedPackage
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import Unreachable
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import Target, WheelFile, best, parse
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import free_space
from ansible_collections.rankzero.slurm.plugins.module_utils.store.http import login_of, open_url

_ATTEMPTS = 3


@dataclass(frozen=True)
class Chosen:
    """The file of a package that fits the host."""

    name: str
    version: str
    file: LockedFile


def fitting(packages: Iterable[LockedPackage], target: Target) -> list[Chosen]:
    """One wheel of each package. Raises RankzeroError that names all packages without a fitting one."""
    chosen, without = [], []
    for package in packages:
        files = {file.filename: file for file in package.wheels}
        wheel = best(filter(None, map(parse, files)), target)
        if wheel is None:
            without.append(f"{package.name} {package.version}".strip() + (f" ({package.source})" if not files else ""))
            continue
        chosen.append(Chosen(package.name, package.version or wheel.version, files[wheel.filename]))
    if without:
        raise RankzeroError(
            f"environment: no wheel fits Python {target.python[0]}.{target.python[1]} on {target.machine} with glibc "
            f"{target.glibc[0]}.{target.glibc[1]}: {', '.join(without)}. A package without a wheel is built from its "
            "source, which runs its code: on the cluster's host if that reaches the package sources (download: head), "
            "on the machine that runs Ansible only with launch_cluster.build_on_controller: true. Or build wheels into "
            "a directory that pip's find-links names, or choose versions that have them.",
            missing=without,
        )
    return chosen


def download(files: Iterable[Chosen], environment: Mapping[str, str], folder: str | None = None) -> list[WheelFile]:
    """The verified files.

    They are stored in `folder`, or in the user's cache, unless they are already in a directory of this host. Raises
    RankzeroError with the reason for each file that cannot be fetched.
    """
    wanted = list(files)
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(lambda chosen: _attempted(chosen.file, environment, folder), wanted))
    errors = [(chosen, answer) for chosen, answer in zip(wanted, answers) if isinstance(answer, RankzeroError)]
    if errors:
        # Another machine may reach a source that this chosen does not.
        reached = not any(isinstance(error, Unreachable) for _chosen, error in errors)
        raise (RankzeroError if reached else Unreachable)(
            "\n".join(error.message for _chosen, error in errors),
            missing=[chosen.file.filename for chosen, _error in errors],
        )
    return [
        WheelFile(
            name=chosen.name,
            version=chosen.version,
            filename=chosen.file.filename,
            sha256=chosen.file.sha256,
            size=os.path.getsize(str(path)),
            path=str(path),
        )
        for chosen, path in zip(wanted, answers)
    ]


def _attempted(file: LockedFile, environment: Mapping[str, str], folder: str | None) -> str | RankzeroError:
    try:
        return _fetched(file, environment, folder)
    except RankzeroError as error:
        return error


def _fetched(file: LockedFile, environment: Mapping[str, str], folder: str | None) -> str:
    """The path of a file on this machine: its original path, or where it was stored. Raises RankzeroError."""
    if file.local:
        path = unquote(urlsplit(file.url).path)
        try:
            if file_sha256(path) == file.sha256:
                return path
        except OSError as error:
            raise RankzeroError(
                f"environment: {path} is locked and cannot be read ({error.strerror}). Put it back, or remove the lock "
                "in store_root/locks."
            ) from error
        raise RankzeroError(f"environment: {path} has changed since it was locked (its sha256 differs)")
    if folder is None:
        folder = user_cache("wheels", file.sha256[:32])
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
            answered = isinstance(error, urllib.error.HTTPError)
            gone = isinstance(error, urllib.error.HTTPError) and error.code in (401, 403, 404)
            if gone or attempt + 1 == _ATTEMPTS:
                message = f"environment: {pip_settings.redact(file.url)} cannot be downloaded: {error}"
                raise (RankzeroError if answered else Unreachable)(message) from error
        except RankzeroError:  # the content differs: perhaps the connection broke
            if attempt + 1 == _ATTEMPTS:
                raise
        except OSError as error:
            reason = f"{error.strerror or error}; {free_space(folder)}"
            raise RankzeroError(f"environment: {folder} cannot be written ({reason})") from error
        finally:
            if os.path.exists(temporary):
                os.remove(temporary)
        time.sleep(2**attempt)
    raise AssertionError("unreachable")


def _download(file: LockedFile, path: str, environment: Mapping[str, str]) -> None:
    parts = urlsplit(file.url)
    host = parts.hostname or ""
    trusted = {host, parts.netloc} & set(environment.get("UV_INSECURE_HOST", "").split())
    answer = open_url(file.url, environment, login=_login(host, environment), trusted=bool(trusted))
    with answer, open(path, "wb") as stream:
        digest = sha256_of(blocks(answer), stream.write)
    if digest != file.sha256:
        raise RankzeroError(
            f"environment: {pip_settings.redact(file.url)} has the sha256 {digest}, but the lock has {file.sha256}"
        )


def _login(host: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """User and password for a host: from the URL of an index there, else from ~/.netrc."""
    for name in ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        for place in environment.get(name, "").replace(",", " ").split():
            parts = urlsplit(place)
            if parts.hostname == host and parts.username:
                return unquote(parts.username), unquote(parts.password or "")
    return login_of(host, environment)
