# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of the nodes that are mounted in a container. Pure; no I/O."""

from __future__ import annotations

import posixpath
import re

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import Mount

# pyxis accepts any word as a flag and silently ignores a meaningless one (docs/containers.md, trap 1).
MOUNT_FLAGS = ("ro", "rw", "rbind", "private", "rprivate", "slave", "rslave", "nosuid", "nodev", "noexec")
# pyxis splits at commas and colons, and enroot's mount table at blanks. None of these characters can be quoted.
UNMOUNTABLE = re.compile(r"[\s,:\\\0]")


def mount(text: str) -> Mount:
    """Parse a mount from `source:target[:flag+flag]`. Raises `types.Invalid`."""
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise t.Invalid(f"must be source:target or source:target:flags, not {t.shown(text)}")
    for what, path in (("source", parts[0]), ("target", parts[1])):
        if not path.startswith("/"):
            raise t.Invalid(f"has the {what} {t.shown(path)}, which must be an absolute path (no ~, no $)")
        if UNMOUNTABLE.search(path):
            raise t.Invalid(f"has the {what} {t.shown(path)}; no blank, comma, colon or backslash can be in a mount")
    flags = tuple(parts[2].split("+")) if len(parts) == 3 else ()
    for flag in flags:
        if flag not in MOUNT_FLAGS:
            hint = t.suggestion(flag, MOUNT_FLAGS)
            raise t.Invalid(f"has the flag {t.shown(flag)}{hint}; known, joined by +: {', '.join(MOUNT_FLAGS)}")
    if {"ro", "rw"} <= set(flags):
        raise t.Invalid(f"is both ro and rw: {t.shown(text)}")
    source, target = (posixpath.normpath(path) for path in parts[:2])
    if target == "/":
        raise t.Invalid("has the target /, which is the image itself")
    return Mount(source, target, flags)


# A mount is normalized to text, because it is part of the launch key.
MOUNTS = t.listed(
    t.Type(
        "mount such as /data:/data:ro",
        lambda value: str(mount(t.to_text(value))),
        {"type": "string", "pattern": r"^/[^:,\s]*:/[^:,\s]*(:[a-z+]+)?$"},
    )
)
