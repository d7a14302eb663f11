# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transfer the files of a dataset, verify them and publish them, completely or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset import checksums
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.layout import (
    MANIFEST,
    Manifest,
    Place,
    read_manifest,
    text,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Item, Part, Parts
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.base import (
    Source,
    Streams,
    hashed,
    together,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    fresh_folder,
    make_read_only,
    publish,
    sync_folder,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import process_scope as this_place
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File, look_at, selected
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import write_durably
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import BRINGING, Meter

#: Bytes left free in addition to what is needed, as others use the store too.
_MARGIN = 64 << 20


@dataclass(frozen=True)
class Selection:
    """The selection from a source: patterns, and the expected sums (`sums`: the file that lists them)."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    sha256: str | None = None
    sums: str | None = None

    def takes(self, name: str) -> bool:
        """Whether a file of the source belongs to the dataset. The file of checksums does not."""
        return bool(selected([name], self.include, self.exclude)) and name != self.sums


@dataclass(frozen=True)
class Staged:
    """What is staged already: a manifest, its files with defects, and the versions of its files at the source.

    `stamps` is empty if that was another source.
    """

    manifest: Manifest
    broken: Mapping[str, str]
    stamps: Mapping[str, str]

    def sound(self) -> dict[str, File]:
        """The staged files without defects, by path."""
        return {file.path: file for file in self.manifest.files if file.path not in self.broken}


def verify(place: Place, manifest: Manifest, *, thorough: bool, meter: Meter) -> tuple[Manifest, dict[str, str]]:
    """The manifest with the files' current times, and {file: its defect}."""
    data = place.data(manifest.digest)
    meter.begin("verifying", size=manifest.size, files=len(manifest.files))

    def check(file: File) -> tuple[File, str | None]:
        path = os.path.join(data, file.path)
        try:
            if os.path.islink(path):
                return file, "leads elsewhere"
            return look_at(path, file, thorough=thorough)
        except OSError as error:
            return file, f"cannot be read: {error.strerror}" if os.path.lexists(path) else "is missing"
        finally:
            meter.count(file.size, files=1)

    seen = sorted(together(check, manifest.files, _threads()), key=lambda pair: pair[0].path)
    return replace(manifest, files=tuple(file for file, _why in seen)), {file.path: why for file, why in seen if why}


def wanted_items(source: Source, wanted: Selection, parts: Parts | None, meter: Meter) -> list[Item]:
    """The selected files of a source, with their expected sums. Raises RankzeroError.

    Without `parts` nothing is transferred, so that the sums of a list are unknown.
    """
    sums = sums_of(source, wanted.sums, parts) if wanted.sums and parts else None
    if sums is not None:
        source.expect(name for name in sums if wanted.takes(name))
    items = {item.path: item for item in source.listing(wanted.takes)}
    if sums is not None:
        named = {name: sha256 for name, sha256 in sums.items() if wanted.takes(name)}
        absent, without = sorted(named.keys() - items.keys()), sorted(items.keys() - named.keys())
        if absent or without:
            problem, names = ("lacks", absent) if absent else ("has what the list lacks,", without)
            raise RankzeroError(
                f"checksums: {source.label} {problem} {_some(names)}; correct {wanted.sums}, or exclude files"
            )
        items = {name: replace(item, sha256=named[name]) for name, item in items.items()}
    if wanted.sha256 is not None:
        if len(items) != 1:
            raise RankzeroError(f"sha256: is that of one file, and src has {len(items)}; give checksums instead")
        items = {name: replace(item, sha256=wanted.sha256) for name, item in items.items()}
    if not items:
        raise RankzeroError(f"src: {source.label} has no file that matches include and exclude")
    return [items[name] for name in sorted(items)]


def sums_of(source: Source, name: str, parts: Parts) -> dict[str, str]:
    """The checksums in the file `name` of a source. Raises RankzeroError."""
    here = Parts(f"{parts.folder}.sums")
    offered = source.listing(lambda path: path == name)
    if not offered:
        raise RankzeroError(f"checksums: {source.label} has no {name}")
    here.find(())
    [item] = source.bring(offered, here, Meter())
    try:
        return checksums.parse(text_of(here.growing(item), MOST_LIST_BYTES, "surrogateescape"), name)
    except OSError as error:
        raise RankzeroError(f"checksums: {name} of {source.label} cannot be read: {error.strerror}") from error


@dataclass(frozen=True)
class Transfer:
    """The files to transfer: `lacking`; `parts` has parts of them, and `there` the number of bytes already here.

    `kept`: files that are already complete.
    """

    lacking: tuple[Item, ...]
    parts: Mapping[str, Part]
    there: Mapping[str, int]
    kept: Mapping[str, File]

    def size(self) -> int:
        """Bytes to transfer, as far as the source gives sizes."""
        return sum(item.size or 0 for item in self.lacking)


@dataclass(frozen=True)
class Staging:
    """One run: source and target, what earlier runs transferred, and whether damaged files are repaired."""

    place: Place
    source: Source
    parts: Parts
    known: Staged | None
    meter: Meter
    repair: bool


def need(staging: Staging, items: Sequence[Item]) -> Transfer:
    """The files to transfer for these items. Raises RankzeroError if there is not enough space."""
    source, parts, known, repair = staging.source, staging.parts, staging.known, staging.repair
    kept = {item.path: file for item in items for file in [_same(item, known, repair=repair)] if file}
    lacking = tuple(item for item in items if item.path not in kept)
    begun, changed = parts.find(lacking)
    for path in changed:
        staging.meter.note(f"{path} changed at its source since the last run: it starts again")
    there = {item.path: begun[item.path].size if item.path in begun else source.begun(item, parts) for item in lacking}
    left = sum(max((item.size or 0) - there[item.path], 0) for item in lacking)
    require_free(staging.place.home, left, len(lacking), "store_root")
    return Transfer(lacking, begun, there, kept)


def bring(staging: Staging, wanted: Transfer) -> tuple[list[File], dict[str, str], dict[str, str]]:
    """Transfer what is needed: (all files, the path of each, stamps). Raises RankzeroError; complete parts are kept."""
    place, parts, known, meter, repair = staging.place, staging.parts, staging.known, staging.meter, staging.repair
    complete = {path: part for path, part in wanted.parts.items() if part.sha256}
    meter.begin(
        BRINGING,
        size=wanted.size(),
        there=sum(wanted.there.values()),
        files=len(wanted.lacking),
        files_done=len(complete),
    )
    came = staging.source.bring([item for item in wanted.lacking if item.path not in complete], parts, meter)
    meter.begin("verifying", size=sum(os.path.getsize(parts.growing(item)) for item in came), files=len(came))
    aside = os.path.join(place.partial, "broken")
    for item, part in together(lambda item: (item, _checked(item, parts, aside, repair, meter)), came, _threads()):
        complete[item.path] = part
    stamps = {item.path: item.stamp for item in [*wanted.lacking, *came]}
    files = [File(path, str(part.sha256), part.size) for path, part in complete.items()] + list(wanted.kept.values())
    where = {path: part.path for path, part in complete.items()}
    if known:
        stamps.update({path: known.stamps.get(path, "") for path in wanted.kept})
        where.update({path: os.path.join(place.data(known.manifest.digest), path) for path in wanted.kept})
    return sorted(files, key=lambda file: file.path), where, stamps


def _same(item: Item, known: Staged | None, *, repair: bool) -> File | None:
    """The staged file, if it is the one that the source has."""
    file = known.sound().get(item.path) if known else None
    if known is None or file is None:
        return None
    if item.sha256:
        return file if item.sha256 == file.sha256 else None
    stamped = bool(item.stamp) and known.stamps.get(item.path) == item.stamp
    return file if repair or (stamped and item.size in (None, file.size)) else None


def _checked(item: Item, parts: Parts, aside: str, repair: bool, meter: Meter) -> Part:
    sha256 = hashed(parts.growing(item), meter)
    meter.count(0, files=1)
    if item.sha256 in (None, sha256):
        return parts.finish(item, sha256)
    where = parts.put_aside(item, aside)
    if repair:
        raise RankzeroError(
            f"{item.path}: its source has changed since it was staged (sha256 {sha256}, staged {item.sha256}), so it "
            "cannot be repaired from there; set update: true to take what the source has now. The received file is "
            f"kept as {where}"
        )
    raise RankzeroError(
        f"{item.path}: has the sha256 {sha256}, but {item.sha256} was expected. The received file is kept as {where}; "
        "run again to transfer it again, or correct the checksum if the source is right."
    )


def require_free(folder: str, size: int, files: int, option: str) -> None:
    """Raise RankzeroError if a file system has no space for this many bytes in this many files."""
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    status = os.statvfs(there)
    free = status.f_bavail * status.f_frsize
    if size and size + _MARGIN > free:
        raise RankzeroError(
            f"{option}: {amount(size)} are needed below {folder}, which has {amount(free)} free: "
            f"{amount(size + _MARGIN - free)} are missing. Make room there, or name another {option}."
        )
    if status.f_files and files > status.f_favail:
        raise RankzeroError(
            f"{option}: {files} files are to be made below {folder}, which has room for {status.f_favail}: "
            f"{files - status.f_favail} are missing. Make room there, or name another {option}."
        )


def put_in_place(place: Place, manifest: Manifest, where: Mapping[str, str], broken: Collection[str]) -> Manifest:
    """Make the tree of a manifest from the files `where`; in an existing tree, repair the files `broken`.

    Returns the manifest as it was written. Raises OSError and RankzeroError.
    """
    target = place.tree(manifest.digest)
    if os.path.isdir(target):
        mend(place, manifest, {path: where[path] for path in broken})
        before = read_manifest(place, manifest.digest)
        return write_manifest(place, replace(manifest, packed=before.packed if before else None))
    with fresh_folder(target) as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data)
        for file in manifest.files:
            path = os.path.join(data, file.path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _link_or_copy(where[file.path], path)
        made = replace(manifest, files=tuple(_seen(data, file) for file in manifest.files))
        make_read_only(data)
        os.chmod(data, 0o755)
        write_durably(os.path.join(folder, MANIFEST), text(made))
        sync_folder(data)
        sync_folder(folder)
        publish(folder, target)
    return made


def mend(place: Place, manifest: Manifest, where: Mapping[str, str]) -> None:
    """Replace files of a tree, each by one rename. Raises OSError."""
    data = place.data(manifest.digest)
    for path, source in where.items():
        target = os.path.join(data, path)
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        mode = os.stat(folder).st_mode & 0o777
        os.chmod(folder, mode | 0o200)
        try:
            own = f"{target}.{this_place()}-{os.getpid()}"
            _link_or_copy(source, own)
            os.chmod(own, 0o444)
            if os.path.isdir(target) and not os.path.islink(target):
                remove_tree(target)
            os.replace(own, target)
        finally:
            os.chmod(folder, mode)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # hard links are unsupported, or this file has too many
        shutil.copyfile(source, target)
        with open(target, "rb") as stream:
            os.fsync(stream.fileno())


def write_manifest(place: Place, manifest: Manifest) -> Manifest:
    """Write the manifest; returns it with the current times of its files. Raises OSError."""
    data = place.data(manifest.digest)
    made = replace(manifest, files=tuple(_seen(data, file) for file in manifest.files))
    write_durably(os.path.join(place.tree(manifest.digest), MANIFEST), text(made))
    return made


def read_source(source: Streams, items: Iterable[Item], meter: Meter) -> list[File]:
    """The files of a source of streams, read without storing them. Raises RankzeroError."""

    def read(item: Item) -> File:
        total, size = hashlib.sha256(), 0
        with source.open(item, 0) as (_begins, blocks):
            for block in blocks:
                total.update(block)
                size += len(block)
                meter.count(len(block))
        return File(item.path, total.hexdigest(), size)

    return sorted(together(read, items, _threads()), key=lambda file: file.path)


def _seen(data: str, file: File) -> File:
    return replace(file, seen=os.stat(os.path.join(data, file.path)).st_mtime_ns)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _threads() -> int:
    return min(8, max(2, len(os.sched_getaffinity(0))))
