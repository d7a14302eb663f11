# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller half of `uv_cache`: reads the project, makes the set where the host reaches no package source."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.plugin_utils.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.supplying import supply


class ActionModule(Producer):
    MODULE = "rankzero.slurm.uv_cache"
    OPTIONS = {
        "project": {"type": "str", "default": "."},
        "extras": {"type": "list", "elements": "str", "default": []},
        "python": {"type": "str"},
        "platform": {"type": "str"},
        "torch": {"type": "str", "default": "auto"},
        "kind": {"type": "str", "choices": ["cache", "wheelhouse"], "default": "wheelhouse"},
        "source": {"type": "str"},
        "verify": {"type": "bool", "default": True},
        "store_root": {"type": "str", "default": "~/.rankzero/store"},
        "download": {"type": "str", "choices": ["auto", "head", "controller"], "default": "auto"},
        "uv": {"type": "str"},
        "key": {"type": "str", "no_log": False},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    }

    def produce(self, options: dict[str, Any]) -> dict[str, Any]:
        key = options.pop("key")
        if key is not None:
            where = {"store_root": options["store_root"], "state": options["state"]}
            return self.without_source(key, options["state"], where)
        return supply(self, options)
