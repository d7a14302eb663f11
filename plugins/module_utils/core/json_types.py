# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of untyped data (Ansible's options and results, JSON), and how a dataclass is read from it.

Only functions that meet such data use these types. Data that passes between rooms has known fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

T = TypeVar("T")

# The options of a module or an action, as Ansible has checked them against its argument spec.
Parameters = Mapping[str, Any]
# The result of a module or an action, or a part of it.
ModuleResult = dict[str, Any]
# An object read from JSON or YAML before its fields are checked, or an object to be written.
JsonObject = dict[str, Any]
# Ansible's variables for a task, by name.
TaskVariables = dict[str, Any]


@dataclass(frozen=True)
class Play:
    """What Ansible says of the play of a task. `host`: of the task; `hosts`: of the play; `inventories`: as the command
    line gave them; `groups`: None if the variables are not those of a task.
    """

    host: str
    hosts: Sequence[str]
    inventories: Sequence[str]
    groups: Mapping[str, Sequence[str]] | None


def play_of(task_vars: TaskVariables | None) -> Play:
    """The play of a task, by the task's variables."""
    given = task_vars or {}
    return Play(
        str(given.get("inventory_hostname", "localhost")),
        given.get("ansible_play_hosts_all") or (),
        given.get("ansible_inventory_sources") or (),
        given.get("groups"),
    )


class ModuleFailed(Exception):
    """A module failed with this result, which becomes the result of the task that ran it."""

    def __init__(self, result: ModuleResult) -> None:
        super().__init__(result.get("msg", ""))
        self.result = result


@dataclass(frozen=True)
class ModuleAnswer:
    """What a result says, whatever the module. `missing`: the inputs that are not on the host, for `Ref.of`; `lacking`:
    which of the controller's files the host does not have; None: nothing is to be sent.
    """

    failed: bool = False
    changed: bool = False
    msg: object = ""
    warnings: Sequence[object] = ()
    missing: Sequence[JsonObject] = ()
    lacking: Sequence[Any] | None = None


def answer_of(result: Parameters) -> ModuleAnswer:
    """What the result of a module or an action says. Null counts as not given."""
    return record_of(ModuleAnswer, {name: value for name, value in result.items() if value is not None})


def succeeded(result: ModuleResult) -> ModuleResult:
    """The result of a module. Raises ModuleFailed if that failed."""
    if result.get("failed"):
        raise ModuleFailed(result)
    return result


def has_fields(document: object, **kinds: type | tuple[type, ...]) -> bool:
    """Return whether a JSON value is an object that has all these fields, each of the given type."""
    return isinstance(document, dict) and all(isinstance(document.get(name), kind) for name, kind in kinds.items())


def record_of(kind: type[T], document: Parameters, **parts: Callable[..., object]) -> T:
    """Read a dataclass from an answer that this collection wrote: its fields by their names. Other fields are left out.

    `parts`: how a field is read that is itself a dataclass, or several of them (`records_of`); null stays None.
    """
    values = {part.name: document[part.name] for part in fields(kind) if part.name in document}  # type: ignore[arg-type]
    values.update({name: read(values[name]) for name, read in parts.items() if values.get(name) is not None})
    return kind(**values)


def records_of(kind: type[T], documents: Iterable[Parameters]) -> list[T]:
    """Read several dataclasses, each as `record_of`."""
    return [record_of(kind, document) for document in documents]


def made_of(kind: Callable[..., T], request: JsonObject) -> T:
    """Build a dataclass from the request that the action plugin sent.

    Raises RankzeroError if the fields do not match, for example because the request comes from another release.
    """
    try:
        return kind(**request)
    except (TypeError, ValueError) as error:
        raise RankzeroError(f"x_request: is not what the action plugin of this module sends ({error})") from error
