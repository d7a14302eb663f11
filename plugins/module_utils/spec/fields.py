# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row of the job spec's field table is the metadata of a dataclass field; this is how to make and find rows. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t


@dataclass(frozen=True)
class Sbatch:
    """The option of sbatch(1) as which a field reaches Slurm. Whoever has to know of it reads this declaration.

    `name`: its long name. `value`: what the line says, from the field's section, where that is not the field's own
    value; `salloc`: what an interactive session says in its place.
    `size`: the plan decides the value, and each step repeats it.
    `either`: resources.sbatch may give it where the field does not; an aspect of the plan writes the line.
    `inside`: what becomes of it in a job that is running already. `ignored`: it is named as left aside; `step`: each
    step asks for it; `given`: the running job has its own. Else the end of a sentence that refuses it, with {value}
    and {job}.
    """

    name: str
    value: Callable[[Any], str | bool | None] | None = None
    salloc: Callable[[Any], str | bool | None] | None = None
    size: bool = False
    either: bool = False
    inside: str = "ignored"


def option(
    kind: t.Type,
    doc: str,
    default: Any = None,
    *,
    key: bool = True,
    short: str | None = None,
    example: Any = None,
    required: bool = False,
    sbatch: Sbatch | None = None,
    instead_of: tuple[str, ...] = (),
    formerly: str | None = None,
) -> Any:
    """A field of the table. `key`: part of the launch key. `short`: its name as `-e short=value`.

    `sbatch`: how it reaches Slurm. `instead_of`: further options of sbatch in whose place the field stands.
    `formerly`: its name in an earlier release, which is still taken (old_names.py).
    """
    metadata = {"type": kind, "doc": doc, "key": key, "short": short, "example": example, "required": required}
    metadata |= {"sbatch": sbatch, "instead_of": instead_of, "formerly": formerly}
    # Called in the bodies of the table's dataclasses, which pylint does not see.
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)  # pylint: disable=invalid-field-call
    return field(default=default, metadata=metadata)  # pylint: disable=invalid-field-call


def section(kind: type, doc: str) -> Any:
    """A nested table."""
    return field(default_factory=kind, metadata={"section": kind, "doc": doc})  # pylint: disable=invalid-field-call


@dataclass(frozen=True)
class FieldInfo:
    """One row of the table as generators and the key see it."""

    path: str
    attribute: dataclasses.Field[Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        """What `option` has recorded of the field."""
        return self.attribute.metadata

    @property
    def default(self) -> Any:
        """A fresh copy where the default is a list or a table; MISSING for a required field."""
        if self.attribute.default_factory is not dataclasses.MISSING:
            return self.attribute.default_factory()
        return self.attribute.default


def fields_of(table: type, prefix: str = "") -> Iterator[FieldInfo]:
    """Every leaf of the table, depth first, in the order of the file."""
    for attribute in dataclasses.fields(table):
        nested = attribute.metadata.get("section")
        if nested:
            yield from fields_of(nested, f"{prefix}{attribute.name}.")
        else:
            yield FieldInfo(prefix + attribute.name, attribute)
