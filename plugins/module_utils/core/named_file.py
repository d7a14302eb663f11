# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of a file that a job, or a person, names: a regular file of a size that can be meant, and nothing else."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import regular

#: Bytes of a file that people write.
MOST_BYTES = 1_000_000


def named_text(path: str, option: str, most: int = MOST_BYTES, errors: str = "strict") -> str:
    """The whole text of a file. `option` begins the errors; `errors` as in `open`.

    Raises FileNotFoundError, and RankzeroError for a folder, a pipe, a device, too many bytes, what is no UTF-8.
    """
    try:
        with regular(path) as stream:
            content = stream.read(most + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RankzeroError(
            f"{option}: {path} cannot be read: {error.strerror or error}. Name a regular file."
        ) from error
    if len(content) > most:
        raise RankzeroError(
            f"{option}: {path} has more than {most} bytes, the limit for such a file. Check that it is the right "
            "file, or shorten it."
        )
    try:
        return content.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise RankzeroError(f"{option}: {path} cannot be read: {error}. Write it as UTF-8.") from error
