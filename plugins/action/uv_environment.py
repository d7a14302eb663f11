# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `uv_environment`: read the project, and send wheels if the host reaches no package source."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import UV_CACHE, UV_ENVIRONMENT
from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import Needs
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.conda import CondaRequest, conda_recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.package_set import KINDS
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.request import Brought, EnvironmentRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import attempt
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.packages import supply
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.trees import Trees, trees_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import project_recipe
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.wheelhouse import (
    after_the_host,
    collect,
    own_sources,
    uv_place,
)


class ActionModule(Producer):
    MODULE = "rankzero.slurm.uv_environment"
    OPTIONS = UV_ENVIRONMENT

    def produce(self, options: dict[str, Any]) -> dict[str, Any]:
        key = options.pop("key")
        if key is not None:
            return self.without_source(key, options)
        if options["mode"] != "conda" and options["file"] is not None:
            raise RankzeroError(f"file: is only for mode conda, not for {options['mode']}")
        if options["mode"] in KINDS:
            return self._packages(options)
        if options["mode"] == "conda":
            return self._conda(options)
        options.pop("file")
        for name in ("platform", "source"):
            if options.pop(name) is not None:
                raise RankzeroError(
                    f"{name}: requires mode {' or '.join(KINDS)}, a set of packages for other hosts; mode is "
                    f"{options['mode']}"
                )
        project, builds = options.pop("project"), options.pop("build_on_controller")
        wanted = project_recipe(project, options, self.roots)
        options.pop("requirements")
        with trees_of(self, project, wanted) as trees:
            return self._environment(options, trees, builds=builds)

    def _environment(self, options: dict[str, Any], trees: Trees, *, builds: bool) -> dict[str, Any]:
        """Provide an environment that the host builds, or installs from wheels that are sent."""
        wanted = trees.wanted
        request = EnvironmentRequest(wanted.pyproject, wanted.lock, uv_place(), own_sources(), trees=wanted.trees)
        result = self.make(options, asdict(request))
        if trees.asked(result):
            request = replace(request, trees=trees.there())
            result = self.make(options, asdict(request))
        needs = result.pop("needs", None)
        if needs and not result.get("failed"):
            why = str(needs["reason"])
            self.say(f"environment {wanted.key[:12]}: not on the host ({attempt(why)}); its packages are fetched here")
            with after_the_host(why):
                brought = collect(trees.here, made_of(Needs, needs), builds=builds)
            result = self.make(options, asdict(replace(request, brought=brought)))
            lacking = result.pop("needs", None)
            if lacking and not result.get("failed"):
                brought = replace(brought, folder=self._send(brought, set(lacking["files"])))
                result = self.make(options, asdict(replace(request, brought=brought)))
                if result.pop("needs", None):
                    raise RankzeroError("environment: wheels were damaged on their way; run again")
        return result

    def _packages(self, options: dict[str, Any]) -> dict[str, Any]:
        """Provide the set of packages from which each node of a job builds its environment."""
        self.MODULE, self.OPTIONS = "rankzero.slurm.uv_cache", UV_CACHE
        kind = options.pop("mode")
        given = {name: value for name, value in options.items() if name not in ("compression", "interpreter", "file")}
        return supply(self, {**given, "kind": kind, "verify": True})

    def _conda(self, options: dict[str, Any]) -> dict[str, Any]:
        """Provide a conda environment. An archive that the host does not see at the controller's path is sent."""
        if options["file"] is None:
            raise RankzeroError(
                "file: is required with mode conda: an environment.yml, an explicit lock with hashes, or a conda-pack "
                "archive"
            )
        given = [name for name in ("extras", "python", "platform", "source", "requirements") if options[name]]
        given += ["torch"] if options["torch"] != "auto" else []
        if given:
            raise RankzeroError(f"{', '.join(given)}: nothing for mode conda; write it into {options['file']}")
        file = os.path.join(options.pop("project"), options["file"])
        self.roots.check("file", file)
        options.pop("build_on_controller")
        made = conda_recipe(file)
        result = self.make(options, asdict(CondaRequest(made)))
        needs = result.pop("needs", None)
        if needs and not result.get("failed"):
            self.say(f"sending {made.path}, {amount(made.size)}")
            sent = os.path.join(self.send([made.path]), os.path.basename(made.path))
            result = self.make(options, asdict(CondaRequest(made, sent)))
            if result.pop("needs", None):
                raise RankzeroError(f"file: {made.path} was damaged during the transfer; run again")
        return result

    def _send(self, brought: Brought, lacking: set[str]) -> str:
        """Send the wheels that the host does not see at the controller's paths. Returns their folder on the host."""
        wheels = [*brought.wheels, *([brought.tool] if brought.tool else [])]
        wheels = [wheel for wheel in wheels if wheel["filename"] in lacking]
        size = sum(wheel["size"] for wheel in wheels)
        self.say(f"sending {len(wheels)} wheels, {amount(size)}")
        return self.send(wheel["path"] for wheel in wheels)
