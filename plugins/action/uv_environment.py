# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller half of `uv_environment`: reads the project, brings wheels where the host reaches no package source."""

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.project import project_recipe
from ansible_collections.rankzero.slurm.plugins.plugin_utils.wheelhouse import collect, own_sources, own_uv

display = Display()


class ActionModule(Producer):
    MODULE = "rankzero.slurm.uv_environment"
    OPTIONS = {
        "project": {"type": "str", "default": "."},
        "extras": {"type": "list", "elements": "str", "default": []},
        "python": {"type": "str"},
        "torch": {"type": "str", "default": "auto"},
        "mode": {"type": "str", "choices": ["venv", "sealed"], "default": "venv"},
        "compression": {"type": "str", "choices": ["zstd", "lz4"], "default": "zstd"},
        "interpreter": {"type": "str", "choices": ["auto", "managed", "copied", "node"], "default": "auto"},
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
        wanted = project_recipe(options.pop("project"), options)
        controller = own_uv()
        request = {
            "pyproject": wanted.pyproject,
            "uv_lock": wanted.lock,
            "uv": controller.path if controller else None,
            "sources": own_sources(),
        }
        result = self.call(**options, _request=request)
        needs = result.pop("needs", None)
        if needs and not result.get("failed"):
            display.display(
                f"{self._task_host()}: environment {wanted.key[:12]}: the host reaches no package source; "
                "fetching the wheels here"
            )
            brought = collect(wanted, needs)
            result = self.call(**options, _request={**request, "brought": brought})
            lacking = result.pop("needs", None)
            if lacking and not result.get("failed"):
                folder = self._send(brought, set(lacking["files"]))
                result = self.call(**options, _request={**request, "brought": {**brought, "folder": folder}})
                if result.pop("needs", None):
                    raise RankzeroError("environment: wheels were damaged on their way; run again.")
        return result

    def _send(self, brought: dict[str, Any], lacking: set[str]) -> str:
        """Send the wheels that the host does not see at the controller's paths; returns their folder there."""
        wheels = [*brought["wheels"], *([brought["tool"]] if brought["tool"] else [])]
        wheels = [wheel for wheel in wheels if wheel["filename"] in lacking]
        size = sum(wheel["size"] for wheel in wheels)
        display.display(f"{self._task_host()}: sending {len(wheels)} wheels, {size / 1e6:.0f} MB")
        return self.send(wheel["path"] for wheel in wheels)

    def _task_host(self) -> str:
        return str(self._variables.get("inventory_hostname", "host"))
