# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An input of a launch, from its plan to the record of the launch. Data only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import BY_NAME, InputKind


@dataclass(frozen=True)
class Ref:
    """An input that a launch needs on the cluster.

    `kind`: the name of its InputKind. `key`: the key of what it is made from. `path`: its path once it is there.
    `file`: the one file of it that the launch needs; empty if it needs the folder. `sha256`: the digest that the nodes
    compare; empty if they compare none.
    """

    kind: str
    key: str
    path: str
    file: str = ""
    sha256: str = ""

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Ref:
        """Read a ref from JSON; other fields are left out. Raises KeyError without kind, key or path."""
        values = {part.name: str(given[part.name]) for part in fields(cls) if part.name in given}
        return cls(**{"file": "", "sha256": "", **{name: values[name] for name in ("kind", "key", "path")}, **values})

    @property
    def declared(self) -> InputKind:
        """The declaration of its kind."""
        return BY_NAME[self.kind]

    def record(self) -> dict[str, str]:
        """The ref as JSON, without the fields that are empty."""
        return {name: value for name, value in vars(self).items() if value}


def first(refs: Iterable[Ref], kind: InputKind) -> Ref | None:
    """The first ref of this kind; None without one."""
    return next((ref for ref in refs if ref.kind == kind.name), None)


def runtime_of(refs: Iterable[Ref]) -> Ref:
    """The job runtime, which each launch needs. Raises ValueError without one."""
    for ref in refs:
        if not ref.declared.in_store:
            return ref
    raise ValueError("a launch names its job runtime")


def recorded(refs: object) -> list[Ref]:
    """The refs in the record of a launch, which may be malformed: what is no ref is left out."""
    read = []
    for ref in refs if isinstance(refs, list) else []:
        if isinstance(ref, Mapping):
            texts = {part.name: str(ref.get(part.name) or "") for part in fields(Ref)}
            read.append(Ref(**texts))
    return read
