# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names for what enters and leaves the typed code: Ansible's options and results, and JSON. A signature that has one is
at that edge; between the rooms goes nothing of which not even the fields are known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

T = TypeVar("T")

# The options of a module or an action, as Ansible has checked them against its argument spec.
Parameters = Mapping[str, Any]
# What a module or an action returns, or a part of it.
ModuleResult = dict[str, Any]
# An object as it was read from JSON or YAML, before its fields are checked, or as it will be written.
JsonObject = dict[str, Any]
# Ansible's variables of a task, by name.
TaskVariables = dict[str, Any]


def read_json(path: str) -> object:
    """What a JSON file holds; None where there is none, or no such file."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def has_fields(document: object, **kinds: type | tuple[type, ...]) -> bool:
    """Whether a JSON value is an object that has these fields, each of its kind."""
    return isinstance(document, dict) and all(isinstance(document.get(name), kind) for name, kind in kinds.items())


def made_of(kind: Callable[..., T], request: JsonObject) -> T:
    """A dataclass from what the controller's half of a module has sent. Raises RankzeroError where that is of another
    release, or of nobody's making.
    """
    try:
        return kind(**request)
    except (TypeError, ValueError) as error:
        raise RankzeroError(f"_request: is not what the action plugin of this module sends ({error}).") from error
