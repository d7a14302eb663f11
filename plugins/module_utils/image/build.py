# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build an image on the host that owns the store: under a lock, in a fresh folder, verified, then renamed.

Equal content under another key shares one file, ROOT/images/sha256/DIGEST.sqsh, by hard links where the file system
supports them.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import (
    file_sha256,
    is_squashfs,
    squashfs_cut_off,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image import canonical, layers
from ansible_collections.rankzero.slurm.plugins.module_utils.image.engine import Builder
from ansible_collections.rankzero.slurm.plugins.module_utils.image.files import (
    IMAGE,
    ImageRecord,
    present,
    write_record,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.image.host import Way
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import (
    Recipe,
    image_folder,
    inputs,
    key_of,
    layout_tag,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.image.squash import squash
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    fresh_folder,
    process_scope,
    publish,
    remove,
    sweep,
    sync_folder,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.hardlinks import share
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import hold
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

# How long (seconds) a second builder of the same image waits for the first.
LOCK_SECONDS = 3600.0
FORMAT = 1


@dataclass(frozen=True)
class Wish:
    """A recipe and what its build needs: `context`: the folder of its files on this host, `secrets`: files by id."""

    made: Recipe
    named: Mapping[str, str]
    root: str
    name: str
    work_dir: str
    engine: str
    secrets: Mapping[str, str]
    path: str | None
    context: str | None = None
    meter: Meter = field(default_factory=Meter, compare=False)

    @property
    def key(self) -> str:
        """The key of the image, known before the build."""
        return key_of(self.named)

    @property
    def folder(self) -> str:
        """The path of the image in the store once it is built."""
        return image_folder(self.root, self.key)


def build(wish: Wish, way: Way) -> ImageRecord:
    """Build the image and publish it; returns its record. Raises RankzeroError and OSError."""
    began = time.monotonic()
    if os.path.lexists(wish.folder):
        remove(wish.folder)  # it is incomplete
    with fresh_folder(wish.folder) as fresh, _work_folder(wish.work_dir, wish.key) as work:
        target = os.path.join(fresh, IMAGE)
        record: ImageRecord = {"format": FORMAT, "key": wish.key, "name": wish.name, "inputs": dict(wish.named)}
        if wish.made.squashfs is not None:
            _adopt(str(wish.path), target, wish.named["squashfs"])
            record["adopted"] = wish.path
        else:
            builder = Builder(way, work, wish.secrets)
            try:
                wish.meter.begin("building")
                tree = _tree(wish, builder)
                values = canonical.environment(tree, dict(wish.made.env))
                wish.meter.begin("packing")
                written = squash(canonical.canonical(tree, values), target, way.squash, wish.made.compression, work)
            finally:
                builder.clear()
            record["environment"] = values
            record["settings"] = canonical.settings(tree.config)
            record["files"] = written.files
            record["unpacked"] = written.bytes
            record["skipped"] = tree.skipped
            record["way"] = way.shown()
        with open(target, "rb") as stream:
            os.fsync(stream.fileno())
        wish.meter.begin("verifying")
        # Read the file again, so that the record describes what was written.
        record["digest"] = file_sha256(target)
        record["bytes"] = os.path.getsize(target)
        record["machine"] = platform.machine()
        record["seconds"] = round(time.monotonic() - began, 1)
        os.chmod(target, 0o444)
        share(target, os.path.join(wish.root, "images", "sha256", f"{record['digest']}.sqsh"))
        write_record(fresh, record)
        sync_folder(fresh)
        os.chmod(fresh, 0o755)
        if not publish(fresh, wish.folder):
            return present(wish.folder) or record
    return record


def _tree(wish: Wish, builder: Builder) -> layers.Tree:
    """The merged layers of the image."""
    made = wish.made
    if made.text is None:
        return _source(wish, builder)
    archives, config = [], {}
    if made.base is not None:
        base = _base(wish, builder)
        values = canonical.environment(base, {})
        config = {"Env": [f"{name}={value}" for name, value in sorted(values.items())]}
        archives.append(os.path.join(builder.work, "base-layer.tar"))
        with open(archives[0], "wb") as stream:
            canonical.write(canonical.canonical(base, values), stream)
    context = None
    if wish.context:
        context = os.path.join(builder.work, "context")
        _copy_context(wish.context, context, made.context)
    built = builder.build(made, context, archives, config)
    return layers.of_image(built, builder.work)


def _base(wish: Wish, builder: Builder) -> layers.Tree:
    """The tree that a Containerfile calls `base`. A base that takes long to make is kept as a separate image."""
    made = Recipe(
        suite=wish.made.suite,
        packages=wish.made.packages,
        mirror=wish.made.mirror,
        rootfs=wish.made.rootfs,
        reference=wish.made.reference,
    )
    if made.local_path is not None:
        return _source(wish, builder)
    named = inputs(made)
    base = replace(wish, made=made, named=named, name=f"{wish.name[:59]}-base", context=None, path=None)
    with hold(f"{base.root}/locks/image-{base.key}", LOCK_SECONDS):
        if present(base.folder) is None:
            build(base, replace(builder.way, engine=None))
    uses.mark(base.folder)
    return layers.of_squashfs(os.path.join(base.folder, IMAGE), builder.work)


def _source(wish: Wish, builder: Builder) -> layers.Tree:
    made, path = wish.made, wish.path
    if made.suite is not None:
        return layers.of_archives([builder.bootstrap(made)], builder.work)
    if made.rootfs is not None:
        rootfs = path or made.rootfs
        return layers.of_folder(rootfs) if os.path.isdir(rootfs) else layers.of_archives([rootfs], builder.work)
    reference = made.reference or ""  # recipe() has ensured that a source is given
    if path is not None:
        return layers.of_image(path, builder.work, layout_tag(reference))
    fetched = builder.fetch(reference)
    return (layers.of_squashfs if fetched.endswith(".sqsh") else layers.of_image)(fetched, builder.work)


def _copy_context(source: str, target: str, files: Sequence[tuple[str, str]]) -> None:
    """Copy the context with its original modes: the store's copy is read-only."""
    for path, what in files:
        here, there = os.path.join(source, path), os.path.join(target, path)
        os.makedirs(os.path.dirname(there), exist_ok=True)
        shutil.copyfile(here, there, follow_symlinks=False)
        if what[0] != "l":
            os.chmod(there, 0o755 if what[0] == "x" else 0o644)


def _adopt(path: str, target: str, expected: str) -> None:
    if not is_squashfs(path):
        raise RankzeroError(f"squashfs: {path} is not a squashfs file")
    short = squashfs_cut_off(path)
    if short:
        raise RankzeroError(f"squashfs: {path} is truncated: {short}")
    shutil.copyfile(path, target)
    if file_sha256(target) != expected:
        raise RankzeroError(f"squashfs: {path} was changed while it was copied; run again")


@contextmanager
def _work_folder(above: str, key: str) -> Iterator[str]:
    """A folder for this build only, on local disk. Removes what killed builds left there."""
    parent = os.path.join(above, f"rankzero-images-{os.geteuid()}")
    folder = os.path.join(parent, f".{key}.{process_scope()}-{os.getpid()}-{time.time_ns()}.tmp")
    try:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        status = os.lstat(parent)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise RankzeroError(f"work_dir: {parent} belongs to another user; name another folder")
        sweep(parent)
        os.mkdir(folder, 0o700)
    except OSError as error:
        raise RankzeroError(
            f"work_dir: {parent} cannot be written ({error.strerror}); name a folder on a local disk of the host"
        ) from error
    try:
        yield folder
    finally:
        remove(folder)
        with contextlib.suppress(OSError):  # it contains the folder of another build
            os.rmdir(parent)
