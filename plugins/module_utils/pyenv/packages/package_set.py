# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A set of packages for hosts without network access: its inputs, its key, its files, and a check of them.

STORE/packages/KEY/ contains packages.json (the manifest, with the sha256 of every file), uv, pylock.toml, and

    wheels/  requirements.txt    the wheels with their hashes; for a cache those that no index serves
    cache.tar                    for a cache: uv's own cache, one file, each member with its sha256
    pyproject.toml  uv.lock      for a cache of a project that keeps a lock

It can be copied to any place, as it contains no absolute path.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import blocks, file_sha256, sha256_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, has_fields
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import read_json
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe, text_sha256, tree_rows
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import Target
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import walk

KINDS = ("cache", "wheelhouse")
MANIFEST = "packages.json"
CACHE = "cache.tar"
# Increased when the same recipe must give another set.
FORMAT = 1

_PLATFORM = re.compile(r"(x86_64|aarch64|ppc64le|s390x|riscv64)-manylinux_2_([0-9]{1,2})")
_SHA = "RANKZERO.sha256"
# The start of 1980 (epoch seconds): zip files, which some tools make from the files, know no earlier time.
_TIME = 315532800


@dataclass(frozen=True)
class SetInputs:
    """The inputs of a set. `platform`: such as x86_64-manylinux_2_28, None for that of the building host."""

    recipe: Recipe
    kind: str
    platform: str | None = None

    def __post_init__(self) -> None:
        if self.platform is not None:
            target_of(self.platform, self.recipe.python)

    @property
    def inputs(self) -> JsonObject:
        """All inputs of the key, by the name of their option."""
        made = self.recipe
        return {
            "project": text_sha256(made.pyproject),
            "uv.lock": None if made.lock is None else text_sha256(made.lock),
            "extras": list(made.extras),
            "python": made.python,
            "torch": made.torch,
            "platform": self.platform,
            "kind": self.kind,
            **({"trees": tree_rows(made.trees)} if made.trees else {}),
        }

    @property
    def key(self) -> str:
        """32 hexadecimal digits, known before the build and the same on every controller."""
        text = json.dumps({"format": FORMAT, **self.inputs}, sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def target_of(platform: str, python: str | None) -> Target:
    """The target of a named platform and Python. Raises RankzeroError."""
    match = _PLATFORM.fullmatch(platform)
    if not match:
        raise RankzeroError(
            f"platform: {platform!r} is not known. Write machine and glibc like x86_64-manylinux_2_28; machines: "
            "x86_64, aarch64, ppc64le, s390x, riscv64 (`ldd --version` on the cluster shows its glibc)."
        )
    if python is None:
        raise RankzeroError(f'platform: {platform} needs python as well, the version there, such as "3.11"')
    major, minor = python.split(".")[:2]
    return Target((int(major), int(minor)), match[1], (2, int(match[2])))


def packages_path(store_root: str, key: str) -> str:
    """The folder of the set with this key."""
    return f"{store_root.rstrip('/')}/packages/{key}"


class FileRecord(TypedDict):
    """A file of a set."""

    bytes: int
    sha256: str


class PackagesRecord(TypedDict, total=False):
    """The content of packages.json: the properties and contents of a set, with all its files."""

    format: int
    kind: str
    key: str
    digest: str
    inputs: JsonObject
    extras: list[str]
    python: dict[str, str | None]
    platform: dict[str, str]
    packages: dict[str, str]
    wheels: list[str]
    uv: str
    installed: dict[str, int]
    files: dict[str, FileRecord]


def read_manifest(path: str) -> PackagesRecord | None:
    """packages.json of the set at `path`; None if it is missing or invalid."""
    manifest = read_json(os.path.join(path, MANIFEST))
    if not has_fields(manifest, files=dict, key=str, digest=str, inputs=dict):
        return None
    record = cast("PackagesRecord", manifest)
    complete = all(has_fields(known, bytes=int, sha256=str) for known in record["files"].values())
    return record if complete else None


def listing(path: str) -> dict[str, FileRecord]:
    """All files below `path` with their size and sha256, for the manifest. Raises OSError."""
    return {
        name: {"bytes": os.path.getsize(os.path.join(path, name)), "sha256": file_sha256(os.path.join(path, name))}
        for name in sorted(walk(path))
    }


def problems(path: str, manifest: PackagesRecord) -> list[str]:
    """The defects of a set's files: each missing, changed or additional file by name. Reads all files."""
    defects = []
    expected = dict(manifest["files"])
    try:
        there = set(walk(path)) - {MANIFEST}
    except OSError as error:
        return [f"{path} (cannot be read: {error.strerror})"]
    for name, known in sorted(expected.items()):
        full = os.path.join(path, name)
        try:
            if not stat.S_ISREG(os.lstat(full).st_mode):
                defects.append(f"{name} (is not a file)")
            elif os.path.getsize(full) != known["bytes"] or file_sha256(full) != known["sha256"]:
                inside = _changed_members(full) if name == CACHE else []
                defects += [f"{name}: {member}" for member in inside] or [f"{name} (changed)"]
        except FileNotFoundError:
            defects.append(f"{name} (missing)")
        except OSError as error:
            defects.append(f"{name} (cannot be read: {error.strerror})")
    return defects + [f"{name} (is not part of it)" for name in sorted(there - set(expected))]


def name_list(names: list[str]) -> str:
    """The first few problems as text."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def take_over(source: str, folder: str, manifest: PackagesRecord) -> None:
    """Copy the files of a set into `folder`; each is compared with the manifest during the copy.

    Raises RankzeroError that names the first missing or changed file, and OSError.
    """
    for name, known in manifest["files"].items():
        if name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
            raise RankzeroError(f"source: {name!r} in {MANIFEST} is not a plain relative path; nothing was imported")
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            sha256 = _copied(os.path.join(source, name), target)
        except FileNotFoundError:
            raise RankzeroError(f"source: {name} is missing in {source}: copy it here again", missing=[name]) from None
        if sha256 != known["sha256"]:
            raise RankzeroError(
                f"source: {name} in {source} differs from the packed file (its sha256 is {sha256[:16]}, and "
                f"{known['sha256'][:16]} was recorded): it was changed, or damaged in transit. Copy it here again.",
                missing=[name],
            )
        if name == "uv":
            os.chmod(target, 0o755)
    shutil.copyfile(os.path.join(source, MANIFEST), os.path.join(folder, MANIFEST))


def _copied(source: str, target: str) -> str:
    """Copy a file durably; returns the sha256 of what was read. Raises OSError."""
    with open(source, "rb") as stream, open(target, "xb") as out:
        digest = sha256_of(blocks(stream), out.write)
        out.flush()
        os.fsync(out.fileno())
    return digest


def pack_cache(cache: str, target: str) -> None:
    """Pack uv's cache into one file, without data about the host (locks, its interpreters). Raises OSError."""
    with open(target, "xb") as stream:
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(_below(cache)):
                _add(archive, cache, name)
        stream.flush()
        os.fsync(stream.fileno())


def _below(cache: str, folder: str = "") -> Iterator[str]:
    """Folders, files and links of uv's cache that belong to packages; links are not followed."""
    with os.scandir(os.path.join(cache, folder)) as entries:
        for item in entries:
            name = os.path.join(folder, item.name)
            own = item.name.startswith(("interpreter-", ".")) if not folder else item.name.endswith(".lock")
            if own and not name.startswith("archive-"):
                continue
            yield name
            if item.is_dir(follow_symlinks=False):
                yield from _below(cache, name)


def _add(archive: tarfile.TarFile, root: str, name: str) -> None:
    full = os.path.join(root, name)
    status = os.lstat(full)
    entry = tarfile.TarInfo(name)
    entry.mtime = _TIME
    if stat.S_ISDIR(status.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    elif stat.S_ISLNK(status.st_mode):
        entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, os.readlink(full)
    else:
        entry.size, entry.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
        entry.pax_headers = {_SHA: file_sha256(full)}
        with open(full, "rb") as stream:
            archive.addfile(entry, stream)
        return
    archive.addfile(entry)


def _changed_members(path: str) -> list[str]:
    """The members of a cache that changed since it was packed. Raises OSError."""
    changed = []
    try:
        with tarfile.open(path, "r:") as archive:
            for entry in archive:
                content = archive.extractfile(entry) if entry.isreg() else None
                if content is not None and sha256_of(blocks(content)) != entry.pax_headers.get(_SHA):
                    changed.append(f"{entry.name} (changed)")
    except (tarfile.TarError, EOFError) as error:
        changed.append(f"{error}")
    return changed


def content_digest(packages: Sequence[Mapping[str, str]]) -> str:
    """One digest for the contents of a set: names, versions and hashes of the wheels, in any kind of set."""
    lines = sorted(f"{package['name']} {package['version']} {package['sha256']}\n" for package in packages)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
