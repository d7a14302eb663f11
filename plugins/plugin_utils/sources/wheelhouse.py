# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels for a host without access to package sources: resolved for its Python and platform, and downloaded here.

Downloads are kept by content in the user's cache. Wheels in a local directory are used where they are.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import user_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import last_lines
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import Needs
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.fetch import Chosen, download, fitting
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import Python
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe, only_data, recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.request import Brought
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.trees import lay_out
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import pip_settings, uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.from_source import Workshop, builder, with_built
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.lock import LockedPackage, located, parse_lock
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.resolve import Platform, resolve
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import (
    Target,
    platform_options,
)


def own_uv(environ: Mapping[str, str] | None = None, *, builds: bool = False) -> uv.Uv | None:
    """The controller's uv. The folder of Ansible's Python is searched first, because requirements install it there.

    `builds`: it may build packages, as the user has said.
    """
    environ = os.environ if environ is None else environ
    settings = pip_settings.controller_environment(pip_settings.read_pip_settings(environ), environ)
    if builds:
        settings = pip_settings.building(settings)
    return uv.find(_places(environ), settings)


def uv_place() -> str | None:
    """The probable path of the controller's uv. It is not started, because it is rarely needed."""
    return next((path for path in _places(os.environ) if os.access(path, os.X_OK)), None)


def _places(environ: Mapping[str, str]) -> list[str]:
    return [os.path.join(os.path.dirname(sys.executable), "uv"), *uv.usual_places(environ)]


def own_sources() -> str:
    """An identifier of the package sources that the controller uses."""
    return pip_settings.identity(pip_settings.read_pip_settings(os.environ), os.environ)


@contextlib.contextmanager
def after_the_host(reason: str) -> Iterator[None]:
    """Fetch packages that the host could not fetch. If this machine cannot either, the error says what both tried."""
    try:
        yield
    except uv.Unreachable as error:
        raise RankzeroError(
            f"{error.message}\nSo it is on the machine that runs Ansible. On the cluster's host: {uv.attempt(reason)}. "
            "Set a package index that one of them reaches (pip.conf, or uv's settings), or carry the packages there "
            "(docs/offline.md)."
        ) from error


def collect(wanted: Recipe, needs: Needs, *, builds: bool = False) -> Brought:
    """Resolve and download what a host needs. `builds`: and build here what has no wheel, see `from_source`.

    Raises RankzeroError if there is no uv, no package source, a package without a suitable wheel, or a wrong hash.
    """
    tool = own_uv(builds=builds)
    if tool is None:
        raise RankzeroError(
            "environment: the cluster's host could not get the packages, and the controller has no uv to fetch them "
            f"with. Install it beside Ansible ({sys.executable} -m pip install uv), or check what the host tried:\n"
            + last_lines(needs.reason)
        )
    if not builds:
        only_data(wanted)
    host = record_of(Python, {"path": "", **needs.python})
    target, markers = _target(host, needs.reason), host.markers
    with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
        work = lay_out(wanted, folder)
        lock = needs.lock or _resolve(tool, wanted, target, markers, work)
        applying = located([package for package in parse_lock(lock) if _applies(package, markers)], work)
        if builds:
            path = os.path.join(work, "pylock.toml")
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(lock)
            python = builder(tool, ".".join(map(str, target.python)), work)
            applying = with_built(applying, path, target, tool, Workshop(work, python, _kept(wanted)))
        kept = [_kept_file(chosen, folder, wanted) for chosen in fitting(applying, target)]
    files = download(kept, tool.environment)
    extra = []
    if needs.uv:
        own = recipe(f'[project]\nname = "tool"\nversion = "0"\ndependencies = ["uv=={tool.version}"]\n')
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            lock_of_uv = _resolve(tool, own, target, markers, lay_out(own, folder))
        extra = download(select(parse_lock(lock_of_uv), target, markers), tool.environment)
    return Brought(str(needs.lock_key), lock, files, extra[0] if extra else None)


def _kept_file(chosen: Chosen, folder: str, wanted: Recipe) -> Chosen:
    """The same wheel, copied if it lies in the folder that will be removed."""
    if not chosen.file.url.startswith(folder):
        return chosen
    path = os.path.join(_kept(wanted), chosen.file.filename)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copyfile(chosen.file.url, path)
    return replace(chosen, file=replace(chosen.file, url=path))


def _kept(wanted: Recipe) -> str:
    """The folder of the wheels that are built here, in the user's cache."""
    return user_cache("wheels", wanted.key)


def select(packages: Iterable[LockedPackage], target: Target, markers: Mapping[str, str]) -> list[Chosen]:
    """One wheel for each package that the host's markers select. Raises RankzeroError with all that have none."""
    return fitting([package for package in packages if _applies(package, markers)], target)


def _resolve(tool: uv.Uv, wanted: Recipe, target: Target, markers: Mapping[str, str], work: str) -> str:
    """The lock of a recipe that is laid out in `work`."""
    options = platform_options(target, markers["python_full_version"])
    options += () if wanted.trees else ("--only-binary", ":all:", "--no-sources")
    lock = os.path.join(work, "pylock.toml")
    pip = pip_settings.read_pip_settings(os.environ)
    resolve(tool, wanted, pip, work, lock, Platform(sys.executable, options, target))
    return text_of(lock, MOST_LIST_BYTES)


def _target(host: Python, tried: str) -> Target:
    target = host.target()
    if target is None:
        raise RankzeroError(
            "environment: the cluster's host could not get the packages, and its C library is not glibc "
            f"({host.libc!r}): wheels can be carried to hosts with glibc only. What it tried:\n" + last_lines(tried)
        )
    return target


def _applies(package: LockedPackage, markers: Mapping[str, str]) -> bool:
    # packaging comes with ansible-core. Imported late, because a host that only lists plugins may not have it.
    from packaging.markers import InvalidMarker, Marker

    if not package.marker:
        return True
    try:
        return Marker(package.marker).evaluate({**markers, "extra": ""})
    except InvalidMarker as error:
        raise RankzeroError(f"environment: uv.lock: the marker of {package.name} cannot be read: {error}") from error
