# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The value of `launch_cluster.stores`: stores of other owners that are read before the user's own. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import PLAIN
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t

_PATH = t.text(PLAIN, "an absolute path of letters, digits and . _ / + @ = -")
_OWNERS = t.listed(
    t.text(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", "the name (or number) of a user of the cluster"), filled=True
)
_KEYS = {"path": _PATH, "owners": _OWNERS}


def _parse(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise t.Invalid(f"must be a map with path and owners, not {t.shown(value)}")
    for name in value:
        if name not in _KEYS:
            raise t.Invalid(f"has the key {t.shown(name)}{t.suggestion(str(name), list(_KEYS))}; known: path, owners")
    for name in _KEYS:
        if value.get(name) is None:
            raise t.Invalid(f"needs {name}: the owners whose files may be used")
    result: dict[str, object] = {}
    for name, kind in _KEYS.items():
        try:
            result[name] = kind.parse(value[name])
        except t.Invalid as error:
            raise t.Invalid(f"{name} {error}") from None
    return result


STORES = t.listed(
    t.Type(
        "store: a map of path and owners",
        _parse,
        {
            "type": "object",
            "properties": {name: dict(kind.schema) for name, kind in _KEYS.items()},
            "required": list(_KEYS),
            "additionalProperties": False,
        },
    )
)
