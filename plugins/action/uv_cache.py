# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `uv_cache`: read the project, and build the set here if the host reaches no package source."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import UV_CACHE
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.packages import supply
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer


class ActionModule(Producer):
    MODULE = "rankzero.slurm.uv_cache"
    OPTIONS = UV_CACHE

    def produce(self, options: dict[str, Any]) -> dict[str, Any]:
        key = options.pop("key")
        if key is not None:
            return self.without_source(key, options)
        return supply(self, options)
