# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`dataclass`, `field` and `NoReturn` as the conductor uses them. Those of the standard library take 40 ms of every
job's start: they import `inspect` and `typing`, and compile the methods of each class. A type checker sees those.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field
    from typing import Any, NoReturn
else:
    NoReturn = None

    class field:
        """A default that is made for each object."""

        def __init__(self, *, default_factory: Any) -> None:
            self.default_factory = default_factory

    def dataclass(kind: Any) -> Any:
        """A class whose annotated attributes are set by its `__init__`, in their order or by name."""
        names = tuple(kind.__annotations__)
        defaults = {name: getattr(kind, name) for name in names if hasattr(kind, name)}

        def __init__(self: Any, *values: Any, **named: Any) -> None:
            given = {**dict(zip(names, values)), **named}
            if len(values) > len(names) or not given.keys() <= set(names):
                raise TypeError(f"{kind.__name__} has the fields {', '.join(names)}")
            for name in names:
                if name in given:
                    value = given[name]
                elif name in defaults:
                    default = defaults[name]
                    value = default.default_factory() if isinstance(default, field) else default
                else:
                    raise TypeError(f"{kind.__name__} needs {name}")
                setattr(self, name, value)

        kind.__init__ = __init__
        return kind


__all__ = ["NoReturn", "dataclass", "field"]
