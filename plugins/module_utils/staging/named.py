# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of a file that a job, or a person, names: a regular file of a size that can be meant, and nothing else."""

from __future__ import annotations

import os
import stat

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError

#: Bytes of a file that people write.
MOST_BYTES = 1_000_000


def named_text(path: str, option: str, most: int = MOST_BYTES, errors: str = "strict") -> str:
    """The whole text of a file. `option` begins the errors; `errors` as in `open`.

    Raises FileNotFoundError, and RankzeroError for a folder, a pipe, a device, too many bytes, what is no UTF-8.
    """
    try:
        # A pipe that nobody writes to is opened, and refused below, without waiting for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise RankzeroError(
                    f"{option}: {path} cannot be read: it is {_kind(mode)}, and only a regular file is read. "
                    "Name a file."
                )
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                content = stream.read(most + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RankzeroError(f"{option}: {path} cannot be read: {error.strerror or error}") from error
    if len(content) > most:
        raise RankzeroError(
            f"{option}: {path} has more than {most} bytes, which is the most that such a file may have. Check that it "
            "is the file that is meant, and make it shorter."
        )
    try:
        return content.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise RankzeroError(f"{option}: {path} cannot be read: {error}. Write it as UTF-8.") from error


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "no file")
