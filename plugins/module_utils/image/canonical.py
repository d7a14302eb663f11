# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The canonical form of an image: the same tree gives the same bytes, for any builder and time. Pure except for reads.

Differences between two builds of the same thing are removed: times, owners, and data about the machine from an engine
or a package manager. The environment is written where enroot (/etc/environment) and apptainer (/.singularity.d/env)
read it.
"""

from __future__ import annotations

import io
import posixpath
import re
import shlex
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_BYTES, MOST_LIST_BYTES
from ansible_collections.rankzero.slurm.plugins.module_utils.image.layers import Node, Tree

# The time of all files: 2 January 1980, which zip files can represent in every time zone.
EPOCH = 315619200
ENVIRONMENT = "etc/environment"
APPTAINER_ENVIRONMENT = ".singularity.d/env/90-environment.sh"
# Only the folder itself is kept: the runtimes mount them (enroot itself leaves out dev/*).
EMPTY = ("dev", "proc", "run", "sys", "tmp", "var/tmp")
# Records of when and where something was built, and files that can be generated again.
VOLATILE = re.compile(
    r"\.dockerenv|etc/mtab|var/log/.*|var/cache/(ldconfig/aux-cache|apt/.*|debconf/.*-old)|var/lib/dpkg/[a-z]+-old|"
    r"etc/(passwd|group|shadow|gshadow|subuid|subgid)-|var/lib/apt/lists/.*"
)
# Files with data about the build machine, and their replacement.
PLAIN = {
    "etc/hostname": "",
    "etc/resolv.conf": "",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
}
_PYC = re.compile(r"(.*/)?__pycache__/([^/]+)\.[a-z]+-[0-9]+(?:\.opt-[0-9a-z]+)?\.pyc")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_BLOCK = 1 << 20


@dataclass
class Written:
    """Number and total bytes of the files in the image."""

    files: int = 0
    bytes: int = 0


def environment(tree: Tree, more: Mapping[str, str]) -> dict[str, str]:
    """The variables of the image: /etc/environment, overridden by its OCI settings, then by `more`.

    Raises RankzeroError for a value with several lines, and for a file larger than MOST_BYTES.
    """
    values: dict[str, str] = {}
    node = tree.nodes.get(ENVIRONMENT)
    if node is not None and node.open is not None:
        if node.size > MOST_BYTES:
            raise RankzeroError(f"image: /{ENVIRONMENT} has {node.size} bytes, and at most {MOST_BYTES} are read")
        with node.open() as stream:
            text = stream.read(MOST_BYTES).decode("utf-8", "surrogateescape")
        for line in text.splitlines():
            match = _LINE.fullmatch(line.strip())
            if match:
                values[match[1]] = _unquoted(match[2])
    for pair in tree.config.get("Env") or []:
        name, _equal, value = str(pair).partition("=")
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            values[name] = value
    values.update(more)
    for name, value in values.items():
        if "\n" in value:
            raise RankzeroError(f"image: ENV {name} has several lines, which /etc/environment does not support")
    return values


def canonical(tree: Tree, values: Mapping[str, str]) -> Tree:
    """The tree in its final form, with `values` as its environment. Raises RankzeroError."""
    made = Tree(config=tree.config, skipped=tree.skipped)
    for path, node in tree.nodes.items():
        if any(path.startswith(f"{place}/") for place in EMPTY) or VOLATILE.fullmatch(path):
            continue
        made.nodes[path] = node
    for place in (*EMPTY, "etc", "root"):
        if place not in made.nodes or (place in EMPTY and made.nodes[place].kind == "d"):
            made.nodes[place] = Node("d", 0o1777 if place.endswith("tmp") else 0o755)
    for path, text in PLAIN.items():
        made.nodes[path] = _text(text)
    made.nodes[ENVIRONMENT] = _text("".join(f"{name}={value}\n" for name, value in sorted(values.items())))
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in sorted(values.items())]
    made.nodes[APPTAINER_ENVIRONMENT] = _text("".join(lines), 0o755)
    for path in list(made.nodes):
        while "/" in path:
            path = posixpath.dirname(path)
            if path not in made.nodes:
                made.nodes[path] = Node("d")
            elif made.nodes[path].kind != "d":
                raise RankzeroError(f"image: /{path} must be a folder in the image")
    return made


def write(tree: Tree, stream: IO[bytes]) -> Written:
    """Write a canonical tree as a sorted tar stream; root owns all files, and all have one time. Raises OSError."""
    written = Written()
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT, bufsize=_BLOCK) as out:
        for path, node in sorted(tree.nodes.items()):
            info = tarfile.TarInfo(path)
            info.mtime, info.mode, info.uname, info.gname = EPOCH, node.mode, "", ""
            if node.kind == "d":
                info.type = tarfile.DIRTYPE
                out.addfile(info)
            elif node.kind == "l":
                info.type, info.linkname = tarfile.SYMTYPE, node.target
                out.addfile(info)
            elif node.open is not None:
                info.size = node.size
                with node.open() as content:
                    out.addfile(info, _compiled(tree, path, content))
                written.files += 1
                written.bytes += node.size
    return written


def _compiled(tree: Tree, path: str, content: IO[bytes]) -> IO[bytes]:
    """A file's content. Compiled Python that matches its source gets the source's new time.

    Otherwise it would count as stale, and every rank would compile it again (PEP 552: magic, flags, mtime, size).
    """
    match = _PYC.fullmatch(path)
    size = tree.nodes[path].size
    if match is None or size > MOST_LIST_BYTES:
        return content
    folder = posixpath.dirname(posixpath.dirname(path))
    source = tree.nodes.get(posixpath.join(folder, f"{match[2]}.py"))
    data = content.read(size)
    if source is not None and len(data) >= 16:
        flags, mtime, size = struct.unpack_from("<III", data, 4)
        fits = int(source.mtime) & 0xFFFFFFFF == mtime and source.size & 0xFFFFFFFF == size
        if flags == 0 and fits:
            data = data[:8] + struct.pack("<I", EPOCH) + data[12:]
    return io.BytesIO(data)


def settings(config: JsonObject) -> JsonObject:
    """The image's own settings for the record; the ranks' wrapper uses none of them."""
    names = {"Entrypoint": "entrypoint", "Cmd": "cmd", "WorkingDir": "workdir", "User": "user", "Labels": "labels"}
    return {ours: config[theirs] for theirs, ours in names.items() if config.get(theirs)}


def _text(text: str, mode: int = 0o644) -> Node:
    data = text.encode("utf-8", "surrogateescape")
    return Node("f", mode, EPOCH, len(data), "", lambda: io.BytesIO(data))


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
