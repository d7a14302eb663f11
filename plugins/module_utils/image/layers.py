# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the layers of an image, or a root folder, as one tree of names. No file is unpacked.

Reads OCI layouts, the `dir:` format of engines, docker and OCI archives, tar files and folders (OCI image
specification: image layout, layer changesets with whiteouts).
"""

from __future__ import annotations

import contextlib
import gzip
import os
import platform
import posixpath
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO, Any, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core import extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import last_bytes, parsed_json
from ansible_collections.rankzero.slurm.plugins.module_utils.image import unsquash
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import said_of

_BLOCK = 1 << 20
# The root of a container: links to any target are allowed, devices are left out.
_ROOT = extraction.Rules(links="any", special="skip", control=True)
# A saved image: its documents and layers as files.
_SAVED = extraction.Rules(links="skip", special="skip")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_REF_NAME = "org.opencontainers.image.ref.name"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass
class Node:
    """One name of the tree. `kind`: d (folder), f (file) or l (link to `target`); `open` opens a file's content."""

    kind: str
    mode: int = 0o755
    mtime: float = 0.0
    size: int = 0
    target: str = ""
    open: Callable[[], IO[bytes]] | None = None


@dataclass
class Tree:
    """Path without a leading slash -> node.

    `config`: the image's own settings (Env, WorkingDir, ...); `skipped`: the number of devices, pipes and sockets;
    `above`: the folders that are not empty; `held`: keeps the archives open.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    config: JsonObject = field(default_factory=dict)
    skipped: int = 0
    above: set[str] = field(default_factory=set)
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def add(self, path: str, node: Node) -> None:
        """Add a node or replace an existing one. A file replaces a folder and everything below it."""
        path = self._real(path)
        if path:
            # Nothing can be below a path that is no folder, even if the folder itself was never listed.
            if node.kind != "d" and path in self.above:
                self._remove({path}, set())
            self.nodes[path] = node
            while (path := posixpath.dirname(path)) and path not in self.above:
                self.above.add(path)

    def layer(self, archive: tarfile.TarFile) -> None:
        """Apply one layer on top of the tree. Raises RankzeroError."""
        members = [(clean, header) for header in extraction.headers(archive, _ROOT) if (clean := _clean(header.name))]
        gone, emptied = set(), set()
        for path, _member in members:
            parent, name = posixpath.split(path)
            if name == ".wh..wh..opq":
                emptied.add(self._real(parent) if parent else "")
            elif name.startswith(".wh."):
                gone.add(self._real(posixpath.join(parent, name[4:])))
        if gone or emptied:
            self._remove(gone, emptied)
        for path, member in members:
            if not posixpath.basename(path).startswith(".wh."):
                self._member(archive, path, member)

    def _member(self, archive: tarfile.TarFile, path: str, member: tarfile.TarInfo) -> None:
        mode = stat.S_IMODE(member.mode)
        if member.isdir():
            self.add(path, Node("d", mode, member.mtime))
        elif member.issym():
            self.add(path, Node("l", 0o777, member.mtime, 0, member.linkname))
        elif member.islnk():
            other = self.nodes.get(self._real(_clean(member.linkname)))
            if other is None:
                raise RankzeroError(f"image: a layer links {path} to {member.linkname}, which is in none of its layers")
            self.add(path, other)
        elif member.isreg():
            self.add(path, Node("f", mode, member.mtime, member.size, "", lambda: _content(archive, member)))
        else:
            self.skipped += 1

    def _remove(self, gone: set[str], emptied: set[str]) -> None:
        """Remove the paths `gone` and everything below them, and everything below the folders `emptied`."""

        def doomed(path: str) -> bool:
            if path in gone or "" in emptied:
                return True
            while "/" in path:
                path = path.rpartition("/")[0]
                if path in gone or path in emptied:
                    return True
            return False

        for path in [path for path in self.nodes if doomed(path)]:
            del self.nodes[path]

    def _real(self, path: str) -> str:
        """Resolve a path whose parents may be links of the image; the result is never outside the image."""
        parts, resolved, followed = [part for part in path.split("/") if part], "", 0
        while len(parts) > 1:
            part = parts.pop(0)
            if part == "..":
                resolved = posixpath.dirname(resolved)
                continue
            here = f"{resolved}/{part}" if resolved else part
            node = self.nodes.get(here)
            if node is not None and node.kind == "l":
                followed += 1
                if followed > 40:
                    raise RankzeroError(f"image: {path} is a loop of links")
                resolved = "" if node.target.startswith("/") else resolved
                parts = [name for name in node.target.split("/") if name not in ("", ".")] + parts
            else:
                resolved = here
        return "/".join(part for part in (resolved, *parts) if part)


def _clean(path: str) -> str:
    """The normalised name of an archive member without leading and trailing slashes; it cannot leave the root."""
    clean = posixpath.normpath("/" + path.lstrip("/"))
    return clean.strip("/")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    stream = archive.extractfile(member)
    if stream is None:
        raise RankzeroError(f"image: {member.name!r} of a layer has no content of its own")
    return stream


def of_folder(root: str) -> Tree:
    """The tree of a root file system in a folder. Raises OSError for unreadable files."""
    tree = Tree()
    for place, folders, files in os.walk(root):
        for name in [*folders, *files]:
            full = os.path.join(place, name)
            path = os.path.relpath(full, root)
            status = os.lstat(full)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                tree.nodes[path] = Node("l", 0o777, status.st_mtime, 0, os.readlink(full))
            elif stat.S_ISDIR(status.st_mode):
                tree.nodes[path] = Node("d", mode, status.st_mtime)
            elif stat.S_ISREG(status.st_mode):
                tree.nodes[path] = Node("f", mode, status.st_mtime, status.st_size, "", _opener(full))
            else:
                tree.skipped += 1
    return tree


def _opener(path: str) -> Callable[[], IO[bytes]]:
    return lambda: open(path, "rb")


def of_archives(paths: Iterable[str], work: str, config: JsonObject | None = None) -> Tree:
    """The tree of tar files, the lowest first; compressed ones are unpacked into `work`. Raises RankzeroError."""
    tree = Tree(config=config or {})
    for path in paths:
        with said_of(f"image: {path}", "Copy it here again."):
            # The archive stays open while the tree is in use, as file contents are read from it.
            tree.layer(tree.held.enter_context(extraction.tar(_plain(path, work))))
    return tree


def _plain(path: str, work: str) -> str:
    """The path of the tar file, decompressed if necessary."""
    with open(path, "rb") as stream:
        head = stream.read(4)
    if not head.startswith((_GZIP, _ZSTD)):
        return path
    target = os.path.join(work, f"layer-{len(os.listdir(work))}.tar")
    if head.startswith(_GZIP):
        with extraction.damage(), gzip.open(path, "rb") as packed:
            _copy(cast("IO[bytes]", packed), target, path)
        return target
    tool = shutil.which("zstd")
    if tool is None:
        raise RankzeroError(
            "image: a layer is compressed with zstd, and this host has no command zstd: install package zstd"
        )
    # pylint: disable-next=ansible-bad-function
    with subprocess.Popen([tool, "-q", "-d", "-c", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            _copy(cast("IO[bytes]", process.stdout), target, path)
        except BaseException:
            process.kill()
            raise
        message = last_bytes(process.stderr).decode("utf-8", "replace")
    if process.returncode:
        raise RankzeroError(f"image: {path}: {message.strip()}")
    return target


def _copy(packed: IO[bytes], target: str, path: str) -> None:
    """Decompress the layer `path`; stops if it grows beyond a plausible size for its compressed size."""
    left = extraction.most_bytes(_ROOT, os.path.getsize(path))
    with open(target, "wb") as plain:
        for block in iter(lambda: packed.read(_BLOCK), b""):
            left -= len(block)
            if left < 0:
                raise extraction.Refused("it unpacks to more data than plausible for an archive of its size")
            plain.write(block)


def of_squashfs(path: str, work: str, config: JsonObject | None = None) -> Tree:
    """The tree of a squashfs file, read with an available tool. Raises RankzeroError."""
    target = os.path.join(work, f"squashfs-{len(os.listdir(work))}")
    stream, unpack = shutil.which("sqfs2tar"), shutil.which("unsquashfs")
    if stream:
        with open(target, "wb") as out:
            # pylint: disable-next=ansible-bad-function
            done = subprocess.run([stream, path], stdout=out, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise RankzeroError(f"image: {path} cannot be read: {' '.join(done.stderr.split())[-400:]}")
        return of_archives([target], work, config)
    if not unpack:
        raise RankzeroError("image: reading a squashfs needs sqfs2tar or unsquashfs: install squashfs-tools-ng")
    with said_of(f"image: {path}", "Copy it here again."):
        unsquash.unpack(unpack, path, target, _ROOT)
    tree = of_folder(target)
    tree.config = config or {}
    return tree


def of_image(path: str, work: str, tag: str | None = None) -> Tree:
    """The tree of an image: an OCI layout, an engine's `dir:` folder, or an archive of either or of docker.

    `tag`: selects one of several images in an OCI layout. Raises RankzeroError.
    """
    folder = path
    if os.path.isfile(path):
        folder = os.path.join(work, "archive")
        os.mkdir(folder)
        with said_of(f"reference: {path}", "Save the image again."):
            extraction.untar(path, folder, _SAVED)
    layers, config = _parts(folder, tag)
    return of_archives(layers, work, config)


def _parts(folder: str, tag: str | None) -> tuple[list[str], JsonObject]:
    """(layers, the lowest first, and the image's own settings), verified by digest except in a docker archive."""
    if os.path.isfile(os.path.join(folder, "index.json")):
        manifest = _pick(folder, _json(os.path.join(folder, "index.json")), tag)
        layers = [_blob(folder, layer["digest"]) for layer in manifest["layers"]]
        return layers, _json(_blob(folder, manifest["config"]["digest"])).get("config") or {}
    document = _json(os.path.join(folder, "manifest.json"))
    if isinstance(document, list):
        if len(document) != 1:
            raise RankzeroError(f"reference: {folder} holds {len(document)} images; save only the one to use")
        layers = [os.path.join(folder, _clean(layer)) for layer in document[0]["Layers"]]
        return layers, _json(os.path.join(folder, _clean(document[0]["Config"]))).get("config") or {}
    layers = [_verified(folder, layer["digest"]) for layer in document["layers"]]
    return layers, _json(_verified(folder, document["config"]["digest"])).get("config") or {}


def _pick(folder: str, index: Any, tag: str | None) -> Any:
    """The manifest for this machine, found through nested indexes. Raises RankzeroError."""
    wanted = _ARCHITECTURES.get(platform.machine(), platform.machine())
    for depth in range(4):
        if "layers" in index:
            return index
        listed = index.get("manifests", [])
        if tag and depth == 0:
            listed = [manifest for manifest in listed if (manifest.get("annotations") or {}).get(_REF_NAME) == tag]
        fitting = [manifest for manifest in listed if (manifest.get("platform") or {}).get("architecture") == wanted]
        fitting = fitting or [
            manifest for manifest in listed if not (manifest.get("platform") or {}).get("architecture")
        ]
        if len(fitting) != 1:
            names = [str((manifest.get("annotations") or {}).get(_REF_NAME)) for manifest in listed]
            raise RankzeroError(
                f"reference: {folder} holds {len(fitting)} images for {wanted} ({', '.join(names) or 'none at all'}); "
                "it must hold exactly one"
            )
        index = _json(_blob(folder, fitting[0]["digest"]))
    raise RankzeroError(f"reference: {folder} contains no image. Its index.json must list one.")


def _blob(folder: str, digest: str) -> str:
    algorithm, _colon, name = digest.partition(":")
    return _check(os.path.join(folder, "blobs", os.path.basename(algorithm), os.path.basename(name)), digest)


def _verified(folder: str, digest: str) -> str:
    return _check(os.path.join(folder, os.path.basename(digest.partition(":")[2])), digest)


def _check(path: str, digest: str) -> str:
    try:
        digest_here = f"sha256:{file_sha256(path)}"
    except OSError as error:
        raise RankzeroError(f"reference: {path} cannot be read ({error.strerror}): the image is incomplete") from error
    if digest_here != digest:
        raise RankzeroError(f"reference: {path} is damaged: its content is not {digest}")
    return path


def _json(path: str) -> Any:
    try:
        return parsed_json(path)
    except (OSError, ValueError) as error:
        raise RankzeroError(f"reference: {path} cannot be read ({error}): not an image") from error
