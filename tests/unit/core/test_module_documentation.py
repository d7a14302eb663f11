# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module takes is what it documents. Sanity says so too, in ten minutes; this says it in a second."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml

from tests.repository import COLLECTION, ROOT

#: The others have an action alone, which checks what it takes itself.
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py") if "run_module(" in path.read_text())


def options_of_fragments(named: list[str]) -> set[str]:
    """The options of the documentation fragments that a module extends."""
    options: set[str] = set()
    for full in named:
        fragment, _dot, part = full.removeprefix(f"{COLLECTION.removeprefix('ansible_collections.')}.").partition(".")
        module = importlib.import_module(f"{COLLECTION}.plugins.doc_fragments.{fragment}")
        text = getattr(module.ModuleDocFragment, (part or "documentation").upper())
        options |= set(yaml.safe_load(text).get("options") or {})
    return options


@pytest.mark.parametrize("name", MODULES)
def test_a_module_documents_every_option_and_no_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"{COLLECTION}.plugins.modules.{name}")
    taken: dict[str, Any] = {}
    monkeypatch.setattr(module, "run_module", lambda spec, *_rest, **_options: taken.update(spec))
    module.main()
    document = yaml.safe_load(module.DOCUMENTATION)
    fragments = document.get("extends_documentation_fragment") or []
    documented = set(document.get("options") or {}) | options_of_fragments(
        [fragments] if isinstance(fragments, str) else fragments
    )
    assert set(taken) == documented
