# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to have a squashfs file as a folder on a node: by the kernel, by FUSE, unpacked. Standard library only.

A mount is never shared between jobs: one made by FUSE ends with the step that started its process, and takes the other
job's environment with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time

from core import children, extraction
from node import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOUNT_SECONDS = 20.0
# What a file and a folder take on disk at least, when the environment is unpacked.
CLUSTER = 4096
# Whatever Slurm sends to all processes of a job: FUSE leaves a signal alone that is ignored when it starts.
_DEAF = 'trap "" TERM INT HUP USR1 USR2 ALRM; exec "$0" "$@"'


def program(*names: str) -> str | None:
    """The first of some programs that this node has, or None."""
    places = os.environ.get("PATH", os.defpath) + ":/usr/local/bin:/usr/sbin:/sbin"
    return next(filter(None, (shutil.which(name, path=places) for name in names)), None)


def by_kernel(file: str, point: str) -> str | None:
    """Root may, where there are loop devices. None, or why not."""
    if os.geteuid() != 0:
        return "only root may"
    words = ["mount", "-t", "squashfs", "-o", "ro,nodev,nosuid,loop", file, point]
    try:
        done = children.run(words, os.environ, children.START_SECONDS)
    except OSError as error:
        return error.strerror
    return None if done.returncode == 0 else " ".join(done.stderr.split())[-200:]


def by_fuse(file: str, point: str, daemons: list[subprocess.Popen[bytes]]) -> str | None:
    """By a process of this step, which no signal but KILL ends: ranks that save themselves still need it."""
    tool = program("squashfuse_ll", "squashfuse")
    if tool is None:
        return "no squashfuse (package squashfuse)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "no /dev/fuse that may be used"
    if os.geteuid() != 0 and program("fusermount3", "fusermount") is None:
        return "no fusermount3 (package fuse3)"

    daemon = subprocess.Popen(
        ["/bin/sh", "-c", _DEAF, tool, "-f", "-o", "ro,nodev,nosuid", file, point],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + MOUNT_SECONDS
    while time.monotonic() < until and daemon.poll() is None:
        if any(path == os.path.realpath(point) for path, _kind in disk.mounts(os.path.dirname(point))):
            daemons.append(daemon)
            return None
        time.sleep(0.02)
    errors = b""
    if daemon.poll() is None:
        daemon.kill()
    with contextlib.suppress(OSError):
        errors = daemon.communicate()[1]
    return " ".join(errors.decode("utf-8", "replace").split())[-200:] or "it did not mount"


def unpacked(node: Any, file: str, facts: dict[str, Any], homes: list[disk.Home]) -> str:
    """The folder of what was unpacked. Raises Trouble, also where only memory has room and it is too little."""
    tool = program("unsquashfs")
    if tool is None:
        raise disk.Trouble("no unsquashfs (package squashfs-tools)")
    size = facts["unpacked"] + CLUSTER * facts["files"]
    # Folders are not counted; there are fewer than files.
    home = disk.Home(disk.choose(node.places, size, 2 * facts["files"], node.limit))
    homes.append(home)
    target = os.path.join(home.path, f"{node.view}.tree")
    try:
        listed = unsquashed([tool, "-q", "-lln", "-d", target, file])
        rules = extraction.Rules(links="any", control=True)
        extraction.check(extraction.of_listing(listed, target), rules, os.path.getsize(file))
    except extraction.Refused as error:
        raise disk.Trouble(f"{file}: {error}") from error
    unsquashed([tool, "-q", "-n", "-f", "-no-xattrs", "-d", target, file])
    return target


def unsquashed(words: list[str]) -> str:
    """What unsquashfs says. Raises Trouble."""
    done = children.run(words, os.environ, children.WORK_SECONDS)
    if done.returncode != 0:
        raise disk.Trouble(f"unsquashfs: {' '.join(done.stderr.split())[-200:]}")
    return os.fsdecode(done.out)


def mounted(
    node: Any, file: str, facts: dict[str, Any], homes: list[disk.Home], daemons: list[subprocess.Popen[bytes]]
) -> str:
    """Let the node's view lead to what the file holds; how it does. Raises Trouble that names the ways that failed."""
    point = os.path.join(disk.view(), f"{node.view}.mount")
    with contextlib.suppress(FileExistsError):
        os.mkdir(point, 0o700)
    no_kernel = by_kernel(file, point)
    no_fuse = by_fuse(file, point, daemons) if no_kernel else None
    if not no_kernel or not no_fuse:
        disk.link(point, sealed(node.view))
        return "squashfuse" if no_kernel else "kernel"
    try:
        disk.link(unpacked(node, file, facts, homes), sealed(node.view))
    except (OSError, disk.Trouble) as error:
        raise disk.Trouble(
            f"it can be neither mounted nor unpacked (kernel: {no_kernel}; squashfuse: {no_fuse}; unpacked: {error})"
        ) from error
    return "unpacked"


def sealed(view: str = "sealed") -> str:
    """Where the environment is on every node of this run, or what else is mounted under the name `view`."""
    return os.path.join(disk.view(), view)
