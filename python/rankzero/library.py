# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's own libraries, imported under their names where Ansible is not started."""

from __future__ import annotations

import importlib.util
import os
import sys
import types

from rankzero.playbook import collection_root

_PARTS = ("ansible_collections", "rankzero", "slurm")


def collection() -> str:
    """The folder of the collection: that of this installation, or the checkout."""
    root = collection_root()
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.path.join(root, *_PARTS) if root else checkout


def importable() -> None:
    """Make the collection's own modules importable under their names, where Ansible is not started."""
    if ".".join(_PARTS) in sys.modules:
        return
    if importlib.util.find_spec(_PARTS[0]) and importlib.util.find_spec(".".join(_PARTS[:2])):
        return
    for count in (1, 2, 3):
        module = types.ModuleType(".".join(_PARTS[:count]))
        module.__path__ = [collection()] if count == 3 else []
        sys.modules[module.__name__] = module
