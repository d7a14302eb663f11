# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The staged datasets that a job reads (`data` in the job spec), and their paths for the ranks. Pure; no I/O."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import DATASET
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t

NAME = r"[a-z][a-z0-9_]{0,31}"
COPIES = ("never", "auto", "always")
# A path that module `dataset` creates in a store: the name of a dataset, or one version of it.
_STAGED = re.compile(r"(?P<home>/.*/datasets)/(?:by-name/[^/]+|(?P<digest>[0-9a-f]{64})/data)")
_PATH = t.text(r"/[^\0\n]*", "an absolute path on the cluster")
_DIGEST = t.text(r"[0-9a-f]{64}", "a digest of 64 hexadecimal digits")
_COPY = t.choice(*COPIES)
# Further keys of a ref of module `dataset`, because a complete ref is a valid value of this field.
_OF_A_REF = ("kind", "key", "present")
_KEYS = ("path", "digest", "packed", "local_copy", *_OF_A_REF)


@dataclass(frozen=True)
class Dataset:
    """One dataset. With a digest it is that version, even if the name points to another version later."""

    path: str
    digest: str | None = None
    packed: bool = False
    local_copy: str = "never"

    @property
    def tree(self) -> str | None:
        """The folder of the version in its store; None for another path of the user, or if no version is given."""
        match = _STAGED.fullmatch(self.path)
        digest = self.digest or (match and match["digest"])
        return f"{match['home']}/{digest}" if match and digest else None

    @property
    def folder(self) -> str:
        """The folder that the ranks read if the dataset is not mounted."""
        return f"{self.tree}/data" if self.tree else self.path

    @property
    def key(self) -> str:
        """The part of it that determines the result, for the launch key."""
        return posixpath.basename(self.tree) if self.tree else self.digest or f"path {self.path}"

    @property
    def file(self) -> str | None:
        """The squashfs file that is mounted."""
        return f"{self.tree}/dataset.sqsh" if self.packed and self.tree else None


def variable(name: str) -> str:
    """Return the variable in which the ranks find a dataset."""
    return f"RANKZERO_DATA_{name.upper()}"


def _parse(value: object) -> Dataset:
    if isinstance(value, str):
        value = {"path": value}
    if not isinstance(value, Mapping):
        raise t.Invalid(f"must be a path, or a map with path, not {t.shown(value)}")
    for name in value:
        if name not in _KEYS:
            hint = t.suggestion(str(name), _KEYS)
            raise t.Invalid(f"has the key {t.shown(name)}{hint}; known: {', '.join(_KEYS[:4])}")
    if value.get("kind") not in (None, DATASET.name):
        raise t.Invalid(f"is a ref of kind {t.shown(value['kind'])}; expected one of module dataset")
    if value.get("path") is None:
        raise t.Invalid("needs a path")
    path = posixpath.normpath(_PATH.parse(value["path"]))
    digest = None if value.get("digest") is None else _DIGEST.parse(value["digest"])
    packed = bool(t.BOOLEAN.parse(value.get("packed", False)))
    made = Dataset(path, digest, packed, _COPY.parse(value.get("local_copy", "never")))
    match = _STAGED.fullmatch(path)
    if match and match["digest"] and digest and match["digest"] != digest:
        raise t.Invalid(f"has version {match['digest'][:16]} in its path, but {digest[:16]} as digest")
    if made.packed and made.tree is None:
        raise t.Invalid(
            "is packed, and a packed dataset is a file in a store: give its path there (.../datasets/by-name/NAME) and "
            "its digest, or the folder that module dataset returns"
        )
    return made


DATA = t.mapped(
    NAME,
    "a name of small letters, digits and '_'",
    t.Type(
        "dataset",
        _parse,
        {
            "type": ["string", "object"],
            "pattern": "^/",
            "properties": {
                "path": {"type": "string", "pattern": "^/"},
                "digest": {"type": ["string", "null"]},
                "packed": dict(t.BOOLEAN.schema),
                "local_copy": {"enum": list(COPIES)},
                **{name: {} for name in _OF_A_REF},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    ),
)
