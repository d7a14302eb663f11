# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The request for a sweep from the controller, and the files that its elements get."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import text_replaced
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.sweep import substituted
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_elements import Element


@dataclass(frozen=True)
class SweepRequest:
    """A sweep as the controller rendered it.

    `array`: the request of its array; its script contains `tasks_token` in place of the array's tasks. `spec`: the spec
    into which the elements' values are inserted. `manifest`: the other fields of their launch.json.
    """

    array: Request
    elements: Sequence[Element]
    tasks_token: str
    spec: Mapping[str, Any]
    manifest: Mapping[str, Any]
    contract: str
    record: Mapping[str, Any]
    parallel: int | None = None
    only: Sequence[str] = ()

    @classmethod
    def of(cls, given: JsonObject) -> SweepRequest:
        """Build a request from the module's arguments."""
        array = Request.of(given["array"])
        rest = {name: value for name, value in given.items() if name not in ("array", "elements")}
        return cls(array=array, elements=[Element(**element) for element in given["elements"]], **rest)

    def arguments(self) -> JsonObject:
        """Return the arguments for the module, which has an option of its own for `only`."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "only"}
        return {**values, "array": self.array.arguments(), "elements": [asdict(element) for element in self.elements]}

    @property
    def shared(self) -> Request:
        """What its elements share."""
        return self.array

    def changed(self, **changes: object) -> SweepRequest:
        """Return the sweep with other values in the request of its array."""
        return replace(self, array=self.array.changed(**changes))

    def after(self, generations: Mapping[str, str], waits: Sequence[str]) -> SweepRequest:
        """Return the sweep once the launches before are known, as Request.after."""
        elements, manifest = text_replaced((self.elements, self.manifest), generations)
        return replace(self, array=self.array.after(generations, waits), elements=elements, manifest=manifest)

    @property
    def runs(self) -> str:
        """The folder of all runs of this name."""
        return os.path.dirname(self.array.runs_dir)


class Manifests:
    """The launch.json of each element. What all elements share is converted to JSON once.

    `sweep_key`: the key of the sweep. `spec`: the spec into which an element's values are inserted. `shared`: the other
    fields.
    """

    def __init__(self, sweep_key: str, spec: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
        self._sweep_key = sweep_key
        self._spec = spec
        self._shared = {name: _json(value, 1) for name, value in shared.items()}
        self._of_spec = {name: _json(value, 2) for name, value in spec.items()}

    def text(self, element: Element) -> str:
        """Return the file's content: as json.dumps with indent 1 and sorted keys writes it."""
        spec = {
            name: self._of_spec[name] if value is self._spec.get(name) else _json(value, 2)
            for name, value in substituted(self._spec, element.point).items()
        }
        place = {"key": self._sweep_key, "number": element.number, "parameters": dict(element.point)}
        own = {"key": _json(element.key, 1), "spec": _object(spec, 1), "sweep": _json(place, 1)}
        return _object({**self._shared, **own}, 0) + "\n"


def _json(value: object, depth: int) -> str:
    """Return a value as it stands in an indented document, `depth` objects deep. No JSON text contains a line end."""
    return json.dumps(value, indent=1, sort_keys=True).replace("\n", "\n" + " " * depth)


def _object(values: Mapping[str, str], depth: int) -> str:
    """Return an object whose values are JSON already, as `_json` returns it."""
    if not values:
        return "{}"
    start = "\n" + " " * (depth + 1)
    rows = ",".join(f"{start}{json.dumps(name)}: {values[name]}" for name in sorted(values))
    return "{" + rows + "\n" + " " * depth + "}"
