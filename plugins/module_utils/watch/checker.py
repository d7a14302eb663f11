# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load the runtime's checker of artifacts where a poll uses it. No module contains the runtime: its text arrives."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence


def loaded(modules: Sequence[tuple[str, str]]) -> types.ModuleType:
    """Return the last of some modules of the runtime, as (name, source). They import each other by room, as in
    `from artifact import formats`.
    """
    for name, source in modules:
        room, _dot, short = name.partition(".")
        package = sys.modules.setdefault(room, types.ModuleType(room))
        package.__path__ = []
        module = sys.modules[name] = types.ModuleType(name)
        setattr(package, short, module)
        module.__file__ = f"/nonexistent/{name}.py"
        exec(compile(source, module.__file__, "exec"), module.__dict__)  # noqa: S102  # this release's own runtime
    return module
