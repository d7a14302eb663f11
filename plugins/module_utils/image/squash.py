# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a canonical tree as a squashfs file, with the same bytes each time."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import IO, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core import extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import is_squashfs, squashfs_cut_off
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import last_text
from ansible_collections.rankzero.slurm.plugins.module_utils.image.canonical import EPOCH, Written, write
from ansible_collections.rankzero.slurm.plugins.module_utils.image.layers import Tree
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import said_of

# A root file system: absolute links, names of every kind, all mode bits.
_ROOT = extraction.Rules(links="any", control=True, modes="image", ratio=1 << 20)
# Measured: zstd's default level (15) takes ten times as long for a few per cent.
_LEVELS = {"zstd": "3", "gzip": "6"}


def tar2sqfs_words(tool: str, target: str, compression: str) -> list[str]:
    """The command that reads a tar stream; needs neither root nor space for the tree (tar2sqfs(1))."""
    words = [tool, "--quiet", "--force", "--no-xattr", f"--compressor={compression}"]
    if compression in _LEVELS:
        words.append(f"--comp-extra=level={_LEVELS[compression]}")
    return [*words, f"--num-jobs={cores()}", target]


def mksquashfs_words(tool: str, folder: str, target: str, compression: str) -> list[str]:
    """The command that reads a folder: mksquashfs 4.5 reads tar streams incorrectly (mksquashfs(1))."""
    words = [
        tool,
        folder,
        target,
        "-comp",
        compression,
        "-noappend",
        "-no-progress",
        "-quiet",
        "-all-root",
        "-no-xattrs",
    ]
    if compression in _LEVELS:
        words += ["-Xcompression-level", _LEVELS[compression]]
    return [*words, "-mkfs-time", str(EPOCH), "-all-time", str(EPOCH), "-processors", str(cores())]


def cores() -> int:
    """The number of CPUs that this process may use, at least one."""
    return max(1, len(os.sched_getaffinity(0)))


def squash(tree: Tree, target: str, tool: str, compression: str, work: str) -> Written:
    """Write `target` from a canonical tree with one of the two tools. Raises RankzeroError."""
    if os.path.basename(tool) == "tar2sqfs":
        written = _stream(tree, tar2sqfs_words(tool, target, compression), work)
    else:
        folder = os.path.join(work, "tree")
        written = _unpack(tree, folder)
        _finish(mksquashfs_words(tool, folder, target, compression), work)
        with contextlib.suppress(OSError):
            remove_tree(folder)
    trouble = "no squashfs" if not is_squashfs(target) else squashfs_cut_off(target)
    if trouble:
        raise RankzeroError(f"image: {tool} exited with 0, but {target} is invalid: {trouble}. Is the disk full?")
    return written


def _stream(tree: Tree, words: list[str], work: str) -> Written:
    with open(os.path.join(work, "squash.log"), "w+", encoding="utf-8", errors="replace") as log:
        # pylint: disable-next=ansible-bad-function
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=log, stderr=log, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
        ) as process:
            try:
                with cast("IO[bytes]", process.stdin) as stream:
                    written = write(tree, stream)
            except BrokenPipeError:
                written = Written()  # the tool's own message is reported below
            except BaseException:
                process.kill()
                raise
        _judge(words[0], process.returncode, log)
    return written


def _finish(words: list[str], work: str) -> None:
    with open(os.path.join(work, "squash.log"), "w+", encoding="utf-8", errors="replace") as log:
        # mksquashfs refuses this variable together with options for times.
        clean = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        # pylint: disable-next=ansible-bad-function
        done = subprocess.run(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=clean, check=False)
        _judge(words[0], done.returncode, log)


def _judge(tool: str, code: int, log: IO[str]) -> None:
    if code:
        raise RankzeroError(f"image: {tool} failed ({code}): " + " ".join(last_text(log.name).split())[-400:])


def _unpack(tree: Tree, folder: str) -> Written:
    """Unpack the tree as files, for a tool that reads no stream."""
    archive = os.path.join(os.path.dirname(folder), "tree.tar")
    with open(archive, "wb") as stream:
        written = write(tree, stream)
    # A root file system has setuid programs: nobody else may enter this folder.
    os.mkdir(folder, 0o700)
    with said_of("image: its tree", "Check the image: no file in it may be below a symbolic link."):
        extraction.untar(archive, folder, _ROOT)
    os.unlink(archive)
    return written
