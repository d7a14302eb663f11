# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build a set of packages on a host with package sources: resolve, take the wheels that fit, and test the set.

The platform and Python of the set may differ from this host's. All problems are reported before anything is published:
packages without a fitting wheel, files that cannot be fetched, a set that does not install offline.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own_below
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.fetch import Chosen, download, fitting
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.package_set import (
    CACHE,
    PackagesRecord,
    SetInputs,
    content_digest,
    listing,
    pack_cache,
    target_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import (
    Python,
    choose,
    requires_python,
    satisfies,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.trees import lay_out
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import pip_settings, uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.from_source import Workshop, builder, with_built
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.lock import (
    LockedPackage,
    located,
    lock_key,
    lock_path,
    only,
    only_names,
    parse_lock,
    requirement_lines,
    without_python,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.resolve import Platform, keep_lock, resolve
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.tool import program_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.verify import verify
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import Target, platform_options


@dataclass(frozen=True)
class Aim:
    """The target of a set: the version of Python ("3.11", or "3.11.2" of a known host) and the platform of its wheels.

    `path`: the interpreter of that host, None if only its platform is known; `here`: it is this host.
    """

    python: str
    target: Target
    path: str | None = None
    here: bool = False

    @classmethod
    def of(cls, given: JsonObject) -> Aim:
        """Read the target from another host's result. It is never this host."""
        target = given["target"]
        versions = Target(tuple(target["python"]), target["machine"], tuple(target["glibc"]))
        return cls(given["python"], versions, given["path"])

    @property
    def minor(self) -> str:
        """Major and minor version of its Python, such as 3.12."""
        return ".".join(self.python.split(".")[:2])

    @property
    def options(self) -> list[str]:
        """uv's options for the target as another host."""
        return list(platform_options(self.target, self.python))


def aim_of(wanted: SetInputs) -> Aim:
    """The requested platform, or this host's with the Python that a job would get. Raises RankzeroError."""
    made = wanted.recipe
    if wanted.platform is None:
        return aim_at(choose(made.pyproject, made.python))
    target, asked = target_of(wanted.platform, made.python), requires_python(made.pyproject)
    # Only the minor version is known: the project may require any micro version of it.
    if not any(satisfies((*target.python, micro), asked) for micro in (0, 99)):
        raise RankzeroError(
            f'python: {made.python} does not fit requires-python = "{asked}" in pyproject.toml. Name the version of '
            "the nodes, and let the project allow it."
        )
    return Aim(str(made.python), target)


def aim_at(python: Python) -> Aim:
    """The platform of this interpreter. Raises RankzeroError if its C library is not glibc."""
    target = python.target()
    if target is None:
        raise RankzeroError(
            f"platform: the C library of this host is not glibc ({python.libc!r}): wheels can be carried to hosts with "
            "glibc only. Name the platform of the nodes, such as x86_64-manylinux_2_28."
        )
    return Aim(python.markers["python_full_version"], target, python.path, here=True)


@dataclass(frozen=True)
class Means:
    """The means to build a set. `named_uv` and `hint`: as for find_uv.

    `carried`: a folder of wheels that were carried here; no package source is queried then, and the project needs a
    uv.lock. `hasty`: another machine may try after this one, so do not retry often. `controller`: this is the machine
    that runs Ansible, for which a project is only data. `builds`: packages without a wheel are built here.
    """

    named_uv: str | None
    hint: str | None = None
    carried: str | None = None
    hasty: bool = False
    controller: bool = False
    builds: bool = True


@dataclass(frozen=True)
class Workplace:
    """The folders for building a set: its store, the `folder` of its files, and `work` for temporary files."""

    store_root: str
    folder: str
    work: str


def gather(wanted: SetInputs, aim: Aim, tool: uv.Uv, place: Workplace, means: Means) -> PackagesRecord:
    """Fill the folder with the files of a set; returns its manifest.

    tool: a uv with the settings of this host's package sources. Raises RankzeroError, including Unreachable.
    """
    place = replace(place, work=lay_out(wanted.recipe, place.work))
    folder, work, carried = place.folder, place.work, means.carried
    resolver = replace(tool, environment={"UV_HTTP_RETRIES": "1", **tool.environment}) if means.hasty else tool
    # requires-python was compared with the aim; uv would compare it with the Python of this host.
    lock = _locked(wanted, aim, resolver, place)
    text = without_python(_read(lock))
    locked = located(_applying(text, tool, aim, work), work)
    if means.builds and carried is None:
        here = aim.path if aim.path and aim.here else builder(tool, aim.minor, work)
        shop = Workshop(work, here, os.path.join(work, "built-wheels"))
        locked = with_built(locked, lock, aim.target, tool, shop)
    chosen = fitting(locked, aim.target)
    if carried is not None:
        chosen = _carried(chosen, carried)
    if wanted.kind == "cache":
        _no_folders(chosen)
    own = [package for package in chosen if wanted.kind == "wheelhouse" or package.file.local]
    _wheels(own, tool, folder)
    fetched = [package.name for package in chosen if package not in own]
    _write(os.path.join(folder, "pylock.toml"), only(text, fetched or [package.name for package in own]))
    _write(os.path.join(folder, "requirements.txt"), requirement_lines([_pin(package) for package in own]))
    if wanted.kind == "cache":
        _fill_cache(tool, aim, folder, work)
        if wanted.recipe.lock is not None:
            for name in ("pyproject.toml", "uv.lock"):
                shutil.copyfile(os.path.join(work, name), os.path.join(folder, name))
    _put_uv(tool, aim, folder, work)
    _prove(own, tool, aim, folder, work)
    installed = [size for name in ("cached", "proof") for size in _files(os.path.join(work, name))]
    packages = [{"name": package.name, "version": package.version, "sha256": package.file.sha256} for package in chosen]
    return {
        "format": 1,
        "kind": wanted.kind,
        "key": wanted.key,
        "digest": content_digest(packages),
        "inputs": wanted.inputs,
        "extras": list(wanted.recipe.extras),
        "python": {"minor": aim.minor, "path": aim.path},
        "platform": {"machine": aim.target.machine, "glibc": ".".join(map(str, aim.target.glibc))},
        "packages": {package.name: package.version for package in chosen},
        "wheels": sorted(package.name for package in own),
        "uv": tool.version,
        "installed": {"bytes": sum(installed), "files": len(installed)},
        "files": listing(folder),
    }


def _locked(wanted: SetInputs, aim: Aim, tool: uv.Uv, place: Workplace) -> str:
    """The path of a lock for this platform: the user's own, an earlier one from the store, or a new one."""
    lock, made = os.path.join(place.work, "pylock.toml"), wanted.recipe
    pip = pip_settings.read_pip_settings(os.environ)
    identity = pip_settings.identity(pip, os.environ)
    kept = lock_path(place.store_root, lock_key(made, aim.minor, aim.target, aim.target.machine, identity))
    if made.lock is None and os.path.isfile(kept) and is_own_below(place.store_root, kept):
        shutil.copyfile(kept, lock)
        return lock
    here = Platform(aim.path, (), aim.target) if aim.path and aim.here else None
    wheels = () if made.trees else ("--only-binary", ":all:")
    there = Platform(sys.executable, (*aim.options, *wheels), aim.target)
    resolve(tool, made, pip, place.work, lock, here or there)
    if made.lock is None:
        keep_lock(kept, lock)
    return lock


def _applying(text: str, tool: uv.Uv, aim: Aim, work: str) -> list[LockedPackage]:
    """The packages of a lock that the platform needs. uv evaluates the markers: these are what it would install."""
    lock = os.path.join(work, "pylock.asked.toml")
    _write(lock, only_names(text))
    output = tool.output(
        ["pip", "install", "--dry-run", "--offline", "--no-deps", "--python", sys.executable, "-r", lock]
        + ["--target", os.path.join(work, "nothing"), "--cache-dir", os.path.join(work, "empty"), *aim.options],
        work,
        "reading the lock",
    )
    names = set(re.findall(r"(?m)^ \+ ([a-z0-9-]+)(?:==| @ )", output))
    return [package for package in parse_lock(text) if package.name in names]


def _wheels(own: Sequence[Chosen], tool: uv.Uv, folder: str) -> None:
    """Add wheels to the set. Each is compared with the lock during the download."""
    if not own:
        return
    house = os.path.join(folder, "wheels")
    os.mkdir(house)
    for wheel in download(own, tool.environment, house):
        target = os.path.join(house, wheel.filename)
        if wheel.path != target:
            shutil.copyfile(wheel.path, target)


def _carried(chosen: Sequence[Chosen], folder: str) -> list[Chosen]:
    """The same wheels in a directory. Raises RankzeroError that names all missing ones."""
    there = [
        replace(package, file=replace(package.file, url=os.path.join(folder, package.file.filename)))
        for package in chosen
    ]
    missing = [package.file.filename for package in there if not os.path.isfile(package.file.url)]
    if missing:
        raise RankzeroError(
            f"source: {folder} lacks {len(missing)} of {len(there)} wheels in uv.lock: {', '.join(missing)}"
            ". Nothing was made. Add them.",
            missing=missing,
        )
    return there


def _no_folders(chosen: Sequence[Chosen]) -> None:
    """Raise RankzeroError if all wheels are from find-links: a cache finds wheels only by the index that serves them.

    Wheels from find-links are stored next to the cache.
    """
    if all(package.file.local for package in chosen) and chosen:
        raise RankzeroError(
            "mode: cache needs packages from an index, and every package of this project is in a directory of this "
            "host (pip's find-links). Use wheelhouse."
        )


def _fill_cache(tool: uv.Uv, aim: Aim, folder: str, work: str) -> None:
    """Let uv download the wheels from indexes into a new cache; it compares each file with the lock."""
    cache, rest = os.path.join(work, "cache"), os.path.join(folder, "pylock.toml")
    common = ["pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--python", sys.executable]
    common += ["-r", rest, "--cache-dir", cache, "--link-mode", "hardlink", *aim.options]
    tool.run([*common, "--target", os.path.join(work, "first")], work, "fetching the packages")
    # Install from the cache alone, and check each file against its package's record.
    tool.run([*common, "--offline", "--target", _site(work, "cached", aim)], work, "installing from the new cache")
    verify(os.path.join(work, "cached"), aim.minor)
    pack_cache(cache, os.path.join(folder, CACHE))


def _prove(own: Sequence[Chosen], tool: uv.Uv, aim: Aim, folder: str, work: str) -> None:
    """Install the wheels as a node will: offline and by their hashes. Raises RankzeroError if that fails."""
    if not own:
        return
    tool.run(
        ["pip", "install", "--quiet", "--offline", "--no-index", "--find-links", os.path.join(folder, "wheels")]
        + ["--no-deps", "--require-hashes", "-r", os.path.join(folder, "requirements.txt"), *aim.options]
        + ["--python", sys.executable, "--only-binary", ":all:", "--target", _site(work, "proof", aim)]
        + ["--link-mode", "hardlink", "--cache-dir", os.path.join(work, "proof-cache")],
        work,
        "installing from the new wheelhouse",
    )
    verify(os.path.join(work, "proof"), aim.minor)


def _put_uv(tool: uv.Uv, aim: Aim, folder: str, work: str) -> None:
    """Add uv for the nodes: this host's own if the machine type is the same, else from its wheel."""
    target = os.path.join(folder, "uv")
    if sys.platform == "linux" and platform.machine() == aim.target.machine and _is_program(tool.path):
        shutil.copyfile(tool.path, target)
    else:
        own = recipe(f'[project]\nname = "tool"\nversion = "0"\ndependencies = ["uv=={tool.version}"]\n')
        place = os.path.join(work, "tool")
        os.mkdir(place)
        _write(os.path.join(place, "pyproject.toml"), own.pyproject)
        lock = os.path.join(place, "pylock.toml")
        there = Platform(sys.executable, (*aim.options, "--only-binary", ":all:"), aim.target)
        resolve(tool, own, pip_settings.read_pip_settings(os.environ), place, lock, there)
        (wheel,) = download(fitting(parse_lock(_read(lock)), aim.target), tool.environment, place)
        taken = os.path.join(place, "taken")
        os.mkdir(taken)
        shutil.move(program_of(wheel.path, wheel.version, taken), target)
    os.chmod(target, 0o755)


def _is_program(path: str) -> bool:
    """Whether a file is an ELF program and not a script."""
    with open(path, "rb") as stream:
        return stream.read(4) == b"\x7fELF"


def _files(folder: str) -> list[int]:
    """The sizes of all files below a folder; empty if it is missing."""
    return [os.path.getsize(os.path.join(place, name)) for place, _folders, names in os.walk(folder) for name in names]


def _pin(package: Chosen) -> tuple[str, str, str]:
    return (package.name, package.version, package.file.sha256)


def _site(work: str, name: str, aim: Aim) -> str:
    return os.path.join(work, name, "lib", f"python{aim.minor}", "site-packages")


def _read(path: str) -> str:
    return text_of(path, MOST_LIST_BYTES)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
