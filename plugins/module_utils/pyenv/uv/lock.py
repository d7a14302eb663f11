# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks: pylock.toml files (PEP 751) that uv writes into the store, read without a TOML parser. Pure.

A lock contains URLs of an index and is for one platform and Python. It is kept in the store, under a key of all inputs
of its resolution, and never in a repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import Target, normalised

_FORMAT = 1
#: The table of a pyproject.toml that was made from a requirements.txt. Its values are lists on one line each.
FURTHER = "[tool.rankzero-requirements]"
# A TOML string as uv writes it: in double quotes, or in single quotes if it contains double quotes.
_TEXT = r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')"""
_FIELD = re.compile(rf"(?m)^(name|version|marker) = {_TEXT}$")
# A table of one file in a lock: it contains one table, of the file's hashes.
_ENTRY = re.compile(r"\{ (?:url|path) = [^{}]*(?:\{[^{}]*\}[^{}]*)?\}(?:,[ ]?)?")
_FILE = re.compile(rf"\{{[^{{}}]*?(url|path) = {_TEXT}[^{{}}]*?hashes = \{{[^{{}}]*?sha256 = \"([0-9a-f]{{64}})\"")
_SOURCE = re.compile(r"(?m)^(?:(vcs|archive|directory|sdist) = \{|\[packages\.(vcs|archive|directory|sdist)\]$)")


@dataclass(frozen=True)
class LockedFile:
    """A wheel in a lock: its location (URL or path) and its sha256."""

    url: str
    sha256: str

    @property
    def local(self) -> bool:
        """Whether it is in a directory of the host that made the lock."""
        return self.url.partition("://")[0] == "file" or "://" not in self.url

    @property
    def filename(self) -> str:
        """The last part of the URL, which is the name of the wheel or source archive."""
        return self.url.partition("#")[0].partition("?")[0].rpartition("/")[2].replace("%2B", "+")


@dataclass(frozen=True)
class LockedPackage:
    """A package of a lock. `source`: vcs, archive, directory or sdist, which are built on installation, or wheels."""

    name: str
    version: str
    marker: str
    wheels: tuple[LockedFile, ...]
    source: str


def lock_key(recipe: Recipe, python: str, target: Target | None, machine: str, sources: str) -> str:
    """The key of a lock: recipe, Python ("3.11"), platform and package sources (`pip_settings.identity`)."""
    libc = "other" if target is None else f"glibc{target.glibc[0]}.{target.glibc[1]}"
    inputs = [_FORMAT, recipe.key, python, machine, libc, sources]
    return hashlib.sha256(json.dumps(inputs).encode("ascii")).hexdigest()[:32]


def lock_path(store_root: str, key: str) -> str:
    """The path of a lock. PEP 751 requires a name of this form."""
    return f"{store_root.rstrip('/')}/locks/pylock.{key}.toml"


def parse_lock(text: str) -> list[LockedPackage]:
    """The packages of a pylock.toml as uv writes it. Raises RankzeroError if it is invalid."""
    head, *blocks = re.split(r"(?m)^\[\[packages\]\]$", text)
    if 'lock-version = "1.' not in head:
        raise RankzeroError("lock: not a pylock.toml of version 1; remove it to have it created again")
    packages = []
    for block in blocks:
        fields = {match[1]: _unescaped(match[2], match[3]) for match in _FIELD.finditer(block)}
        if "name" not in fields:
            raise RankzeroError("lock: a package has no name; remove the lock to have it created again")
        table = re.search(r"(?ms)^wheels = \[(.*?)\]$", block)
        wheels = tuple(map(_file, _FILE.finditer(table[1] if table else "")))
        other = _SOURCE.search(block)
        source = (other[1] or other[2]) if other else "wheels"
        if source == "archive" and not wheels:
            # An address, or a file beside the project, may be that of a wheel.
            wheels = tuple(file for file in map(_file, _FILE.finditer(block)) if file.filename.endswith(".whl"))
        packages.append(
            LockedPackage(
                normalised(fields["name"]), fields.get("version", ""), fields.get("marker", ""), wheels, source
            )
        )
    return packages


def only(text: str, names: Iterable[str]) -> str:
    """The same lock with only these packages, and without markers, which were evaluated already."""
    head, *blocks = re.split(r"(?m)^(?=\[\[packages\]\]$)", text)
    wanted = set(names)
    kept = [block for block in blocks if any(package.name in wanted for package in parse_lock(head + block))]
    return head + re.sub(rf"(?m)^marker = {_TEXT}\n", "", "".join(kept))


def without_python(text: str) -> str:
    """The same lock without requires-python: it was compared with the target, which may not be this host."""
    return re.sub(r"(?m)^requires-python = .*\n", "", text)


def only_names(text: str) -> str:
    """The same lock for a reader of names and markers: what uv would fetch or build to know its name is a wheel."""
    head, *blocks = re.split(r"(?m)^(?=\[\[packages\]\]$)", text)
    result = head
    for block in blocks:
        (package,) = parse_lock(head + block)
        if package.source in ("vcs", "archive", "directory"):
            marker = re.search(rf"(?m)^marker = {_TEXT}$", block)
            wheel = f"https://example.invalid/{package.name.replace('-', '_')}-0-py3-none-any.whl"
            block = f'[[packages]]\nname = "{package.name}"\nversion = "0"\n' + (f"{marker[0]}\n" if marker else "")
            block += f'wheels = [{{ url = "{wheel}", hashes = {{ sha256 = "{"0" * 64}" }} }}]\n\n'
        result += block
    return result


def located(packages: Iterable[LockedPackage], folder: str) -> list[LockedPackage]:
    """The same packages, where the path of a wheel starts at the folder of the lock, not at the working directory."""
    return [
        replace(package, wheels=tuple(replace(file, url=_absolute(file, folder)) for file in package.wheels))
        for package in packages
    ]


def _absolute(file: LockedFile, folder: str) -> str:
    return file.url if "://" in file.url else os.path.normpath(os.path.join(folder, file.url))


def further(pyproject: str) -> tuple[list[str], list[str], list[str]]:
    """The constraints, the hashes (`NAME sha256:DIGEST`) and the folders of a requirements.txt.

    All are empty for other projects.
    """
    _before, _table, rest = pyproject.partition(f"\n{FURTHER}\n")
    values = dict(re.findall(r"(?m)^(constraints|hashes|folders) = (\[.*\])$", rest))
    constraints, hashes, folders = (json.loads(values.get(name, "[]")) for name in ("constraints", "hashes", "folders"))
    return constraints, hashes, folders


def only_hashed(text: str, hashes: Iterable[str]) -> str:
    """The same lock with only the files that have one of the hashes (`NAME sha256:DIGEST`).

    Raises RankzeroError for the packages that then have no file. pip would not install them either.
    """
    allowed = {tuple(row.split(" sha256:")) for row in hashes}
    head, *blocks = re.split(r"(?m)^(?=\[\[packages\]\]$)", text)
    result, without = head, []
    for block in blocks:
        (package,) = parse_lock(head + block)

        def kept(entry: re.Match[str], name: str = package.name) -> str:
            digest = re.search(r'sha256 = "([0-9a-f]{64})"', entry[0])
            return entry[0] if digest and (name, digest[1]) in allowed else ""

        left = re.sub(r"(?m)^sdist = \n", "", _ENTRY.sub(kept, block))
        without += [] if "sha256 = " in left else [f"{package.name} {package.version}"]
        result += left
    if without:
        raise RankzeroError(
            f"environment.requirements: no file of {', '.join(without)} has a hash that the requirements name. With a "
            "hash for some packages, all need one, also those that others require (pip-compile --generate-hashes)."
        )
    return result


def requirement_lines(wheels: list[tuple[str, str, str]]) -> str:
    """A requirements file that pins (name, version, sha256) with its hash."""
    return "".join(f"{name}=={version} --hash=sha256:{sha256}\n" for name, version, sha256 in sorted(wheels))


def _file(match: re.Match[str]) -> LockedFile:
    return LockedFile(_unescaped(match[2], match[3]), match[4])


def _unescaped(double: str | None, single: str | None) -> str:
    if double is None:
        return single or ""
    return re.sub(r"\\(.)", r"\1", double)
