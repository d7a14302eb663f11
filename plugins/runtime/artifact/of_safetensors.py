# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of format `safetensors`: header and tensors, to the last byte. The values are its metadata, `tensors`, and
each tensor's shape. Standard library only.
"""

from __future__ import annotations

import json
import os
import struct

from artifact.values import MOST_BYTES, scalar
from core import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# A header of more than this is none.
HEADER_BYTES = 100_000_000


def of_safetensors(path: str) -> dict[str, Any]:
    with open(files.opened(path), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else HEADER_BYTES + 1
        if length > min(HEADER_BYTES, size - 8):
            raise ValueError("is incomplete: its header is missing")
        if length > MOST_BYTES:
            raise ValueError(f"has a header of {length} bytes, and one that is checked may have {MOST_BYTES}")
        try:
            header = json.loads(stream.read(length).decode("utf-8"))
            metadata = header.pop("__metadata__", {})
            shapes = {name: tensor["shape"] for name, tensor in header.items()}
            end = max([tensor["data_offsets"][1] for tensor in header.values()], default=0)
            known = {key: scalar(value) for key, value in metadata.items()}
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
            raise ValueError(f"is not a safetensors file: {error}") from None
    if size != 8 + length + end:
        raise ValueError(f"is incomplete: it has {size} bytes, and its header asks for {8 + length + end}")
    return {**shapes, "tensors": len(shapes), **known}
