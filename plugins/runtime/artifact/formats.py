# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an artifact says, by its format: a map of values that requirements are checked on, or the reason why it is not
whole. Each format has a reader in a file of its own, which raises ValueError with the rest of a sentence that begins
with the artifact's path. A cluster's own format is read by a program (declared.py). Standard library only.
"""

from __future__ import annotations

import functools

from artifact.of_csv import of_csv
from artifact.of_json import of_json
from artifact.of_safetensors import of_safetensors
from artifact.of_yaml import of_yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def of_mark(content: bytes) -> dict[str, Any]:
    """The file that completes a directory is any mark, or a JSON object with values."""
    try:
        return of_json(content)
    except ValueError:
        return {}


class Format:
    """How an artifact is read. `read` makes a map of its values, None where it has none; `content`: of its bytes, which
    are kept for it, else of its path. `closed`: it says by itself whether it is whole, however soon one looks.
    `folder`: the artifact is a folder, and what is read is the file that completes it, which may be empty.
    """

    def __init__(
        self,
        read: Callable[[Any], dict[str, Any]] | None,
        content: bool = True,
        closed: bool = False,
        folder: bool = False,
    ) -> None:
        self.read, self.content, self.closed, self.folder = read, content, closed, folder


# module_utils/spec/sections/artifact.py has the same names, for those who write a job.
FORMATS = {
    "json": Format(of_json, closed=True),
    "yaml": Format(of_yaml),
    "csv": Format(of_csv),
    "safetensors": Format(of_safetensors, content=False),
    "directory": Format(of_mark, folder=True),
    "any": Format(None, content=False),
}


def format_of(artifact: dict[str, Any]) -> Format:
    """The format of an artifact: one of FORMATS, or the cluster's own, whose record the contract has."""
    if "reader" not in artifact:
        return FORMATS[artifact["format"]]
    from artifact import declared

    return Format(functools.partial(declared.values_of, artifact["reader"]), content=False)


def document_of(form: Format, path: str, content: bytes | None) -> dict[str, Any]:
    """The values of an artifact. `content` is its bytes for the formats that are read whole, else None."""
    if form.read is None:
        return {}
    try:
        return form.read(content if form.content else path)
    except UnicodeDecodeError as error:
        raise ValueError(f"is not valid UTF-8: {error}") from None
