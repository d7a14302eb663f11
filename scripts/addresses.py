# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the repository is in public, as galaxy.yml says, and the addresses of its files."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: A link of a Markdown page: what stands before the target, the target, its anchor.
LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)#\s]+)((?:#[^)\s]*)?\))")

#: What a page shows itself: the address is that of the content.
PICTURE = ".png"


def declared(name: str) -> str:
    """A value of galaxy.yml that is one word."""
    with open(os.path.join(ROOT, "galaxy.yml"), encoding="utf-8") as stream:
        lines = re.findall(rf"^{name}: (\S+)$", stream.read(), re.M)
    return str(lines[0])


def raw(path: str) -> str:
    """The address of a file's content."""
    return f"{declared('repository')}/raw/main/{path}"


def page(path: str) -> str:
    """The address where a file or folder of this version is shown."""
    kind = "blob" if os.path.isfile(os.path.join(ROOT, path)) else "tree"
    return f"{declared('repository')}/{kind}/v{declared('version')}/{path}"


def with_addresses(name: str, text: str, shipped: Collection[str]) -> str:
    """The page `name` as it ships: a link to what does not ship becomes an address. So does each link of the README,
    which an index shows without the other pages.
    """

    def target(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2]))
        stays = path in shipped and name != "README.md"
        address = raw(path) if path.endswith(PICTURE) else page(path)
        return f"{match[1]}{match[2] if stays else address}{match[3]}"

    return LINK.sub(target, text)
