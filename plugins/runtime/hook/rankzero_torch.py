# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sees that a rank imports torch.distributed, without a change in the program, and hands it over once it is loaded.

Used by sitecustomize.py. No other import is watched, and torch is never imported here. Any Python 3.
"""

from __future__ import annotations

import contextlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

MODULE = "torch.distributed.distributed_c10d"


class Loader:
    """The module's own loader, which hands the module over once it is there."""

    def __init__(self, loader: Any, listeners: Sequence[Callable[[Any], None]]) -> None:
        self.loader = loader
        self.listeners = listeners

    def __getattr__(self, name: str) -> Any:
        """What is asked of the loader itself."""
        return getattr(self.loader, name)

    def create_module(self, spec: Any) -> Any:
        """As the module's own loader does it."""
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Load the module, and then hand it over."""
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        for listen in self.listeners:
            with contextlib.suppress(Exception):  # the program matters more
                listen(module)


class Finder:
    """Sees that torch.distributed is about to be imported, and asks the other finders for it."""

    def __init__(self, listeners: Sequence[Callable[[Any], None]]) -> None:
        self.listeners = listeners

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of the one module, with our loader; None for any other."""
        if name != MODULE or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader, self.listeners)
                return spec
        return None


def watch(names: Sequence[str]) -> None:
    """Hand torch.distributed to `listen` of each of these files. They are imported here, where they can be found."""
    sys.meta_path.insert(0, Finder([__import__(name).listen for name in names]))
