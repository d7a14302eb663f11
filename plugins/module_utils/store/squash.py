# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make squashfs files from folders. Only names, contents, execute bits and links decide their bytes.

Source: mksquashfs(1) of squashfs-tools 4.4 and newer, the first version that sets the times of all inodes.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

MINIMUM = (4, 4)
# The start of 1980 (epoch seconds): zip files, which some tools make from the tree, know no earlier time.
TIME = "315532800"
COMPRESSIONS: Mapping[str, tuple[str, ...]] = {
    # Level 3: a tenth of the default level's time for 2 % more bytes.
    "zstd": ("-comp", "zstd", "-Xcompression-level", "3"),
    "lz4": ("-comp", "lz4"),
}
_INSTALL = "Install the package squashfs-tools (it has that name in Debian, Ubuntu, Fedora, RHEL and SUSE)"


def mksquashfs(wanted: str = "environment.mode: sealed") -> tuple[str, str]:
    """(path, version) of mksquashfs. Raises RankzeroError that names the package and `wanted`, the option."""
    path = shutil.which("mksquashfs", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin:/usr/local/bin")
    if path is None:
        raise RankzeroError(f"{wanted} needs mksquashfs, which is not installed on this host. {_INSTALL}.")
    # Some versions exit with status 1 after printing their version.
    done = children.run([path, "-version"], os.environ)
    match = re.search(r"version (\d+)\.(\d+)\S*", done.stdout)
    if not match or (int(match[1]), int(match[2])) < MINIMUM:
        version = match[0] if match else "no version"
        raise RankzeroError(
            f"{wanted} needs mksquashfs of at least version {'.'.join(map(str, MINIMUM))}; {path} says "
            f"{version}. {_INSTALL} of a newer release."
        )
    return path, match[0].split()[1]


def squash(tree: str, target: str, compression: str, wanted: str = "environment.mode: sealed") -> None:
    """Write the new file `target` from the folder `tree`. Raises OSError and RankzeroError."""
    path, _version = mksquashfs(wanted)
    command = [path, tree, target, *COMPRESSIONS[compression], "-b", "131072", "-noappend", "-all-root", "-no-xattrs"]
    command += ["-mkfs-time", TIME, "-all-time", TIME, "-no-progress", "-quiet"]
    # mksquashfs refuses SOURCE_DATE_EPOCH together with its own options for times.
    environ = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = children.run(command, environ, joined=True)
    if done.returncode != 0 or not os.path.isfile(target):
        raise _failure(done.returncode, done.stdout, os.path.dirname(target), re.split("[.:]", wanted)[0])
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failure(code: int, output: str, folder: str, section: str) -> RankzeroError:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last_words = "\n".join(f"  {line}" for line in lines[-5:]) or f"  (no output, exit code {code})"
    if re.search(r"No space left on device|Disk quota exceeded", output):
        return RankzeroError(
            f"store_root: no space left below {folder} for the squashfs file. Make room there, or name another storage "
            f"with launch_cluster.store_root:\n{last_words}"
        )
    if re.search(r"Compressor .* is not supported|Invalid compressor|unrecognised compressor", output, re.IGNORECASE):
        return RankzeroError(
            f"{section}.compression: this host's mksquashfs does not know it. {_INSTALL} of a newer release, or "
            f"choose another compression:\n{last_words}"
        )
    return RankzeroError(f"{section}: mksquashfs failed:\n{last_words}")


def normalise(tree: str) -> None:
    """Give each file and folder one of two modes, so that the builder's umask does not matter. Raises OSError."""
    for folder, folders, files in os.walk(tree):
        for name in folders + files:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(path, 0o755 if stat.S_ISDIR(mode) or mode & 0o100 else 0o644)
    os.chmod(tree, 0o755)
