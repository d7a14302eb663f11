# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Declare and list the rows of the job spec's field table. A row is the metadata of a dataclass field. Pure."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t


@dataclass(frozen=True)
class Sbatch:
    """The sbatch(1) option that passes a field to Slurm. All code about these options reads this declaration.

    `name`: its long name. `value`: computes the option's value from the field's section, if it is not the field's own
    value. `salloc`: the same for an interactive session. `size`: the plan decides the value, and each step repeats it.
    `either`: resources.sbatch may set the option if the field does not; an aspect of the plan writes the line.
    `inside`: what happens to the field in a launch inside a running job. `ignored`: it is reported as ignored; `step`:
    each step requests it; `given`: the running job has its own value. Any other text is the end of a sentence that
    refuses the field, with {value} and {job}.
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
    short_keys: tuple[str, ...] = (),
    example: Any = None,
    required: bool = False,
    sbatch: Sbatch | None = None,
    instead_of: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
) -> Any:
    """Declare a field of the table. `key`: part of the launch key. `short`: its name as `-e short=value`.

    `short_keys`: keys of a map that have a short name too: `-e mpi=pmix` sets `launcher.srun.mpi`. `sbatch`: how it is
    passed to Slurm. `instead_of`: further sbatch options that the field replaces. `also`: how other tools call it;
    who writes one of these is asked whether the field was meant.
    """
    metadata = {"type": kind, "doc": doc, "key": key, "short": short, "example": example, "required": required}
    metadata |= {"short_keys": short_keys, "sbatch": sbatch, "instead_of": instead_of, "also": also}
    # This is called in the bodies of the table's dataclasses, which pylint does not see.
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)  # pylint: disable=invalid-field-call
    return field(default=default, metadata=metadata)  # pylint: disable=invalid-field-call


def section(kind: type, doc: str) -> Any:
    """Declare a nested table."""
    return field(default_factory=kind, metadata={"section": kind, "doc": doc})  # pylint: disable=invalid-field-call


@dataclass(frozen=True)
class FieldInfo:
    """One row of the table, as the generators and the launch key use it."""

    path: str
    attribute: dataclasses.Field[Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        """What `option` recorded about the field."""
        return self.attribute.metadata

    @property
    def default(self) -> Any:
        """The default, as a fresh copy if it is a list or a table; MISSING for a required field."""
        if self.attribute.default_factory is not dataclasses.MISSING:
            return self.attribute.default_factory()
        return self.attribute.default


def fields_of(table: type) -> Iterator[FieldInfo]:
    """Iterate over the leaves of the table, depth first, in the order of the file."""
    return iter(_leaves(table, ""))


@functools.cache
def _leaves(table: type, prefix: str) -> tuple[FieldInfo, ...]:
    leaves: list[FieldInfo] = []
    for attribute in dataclasses.fields(table):
        path, nested = prefix + attribute.name, attribute.metadata.get("section")
        leaves += _leaves(nested, f"{path}.") if nested else [FieldInfo(path, attribute)]
    return tuple(leaves)
