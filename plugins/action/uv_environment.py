# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `uv_environment`: read the project, and send wheels if the host reaches no package source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import UV_ENVIRONMENT
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import made_of, record_of
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

#: Options that only the action reads: what the module builds is in its request.
_HERE = ("key", "project", "build_on_controller", "requirements", "file", "platform", "source")


@dataclass(frozen=True)
class _Options:
    """The options that the action itself reads."""

    mode: str
    torch: str
    build_on_controller: bool
    project: str = "."
    extras: Sequence[str] = ()
    key: str | None = None
    file: str | None = None
    python: str | None = None
    platform: str | None = None
    source: str | None = None
    requirements: str | None = None


class ActionModule(Producer):
    MODULE = "rankzero.slurm.uv_environment"
    OPTIONS = UV_ENVIRONMENT
    WHERE = (*Producer.WHERE, "mode")

    def produce(self, options: dict[str, Any]) -> dict[str, Any]:
        given = record_of(_Options, options)
        if given.key is not None:
            return self.without_source(given.key, options)
        if given.mode != "conda" and given.file is not None:
            raise RankzeroError(f"file: is only for mode conda, not for {given.mode}")
        if given.mode in KINDS:
            return supply(self, options)
        if given.mode == "conda":
            return self._conda(given, options)
        for name, value in (("platform", given.platform), ("source", given.source)):
            if value is not None:
                raise RankzeroError(
                    f"{name}: requires mode {' or '.join(KINDS)}, a set of packages for other hosts; mode is "
                    f"{given.mode}"
                )
        sent = {name: value for name, value in options.items() if name not in _HERE}
        wanted = project_recipe(given.project, options, self.roots)
        with trees_of(self, given.project, wanted) as trees:
            return self._environment(sent, trees, builds=given.build_on_controller)

    def _environment(self, options: dict[str, Any], trees: Trees, *, builds: bool) -> dict[str, Any]:
        """Provide an environment that the host builds, or installs from wheels that are sent."""
        wanted = trees.wanted
        request = EnvironmentRequest(wanted.pyproject, wanted.lock, uv_place(), own_sources(), trees=wanted.trees)
        result = self.make(options, asdict(request))
        if trees.asked(result):
            request = replace(request, trees=trees.there())
            result = self.make(options, asdict(request))
        needs = result.pop("needs", None)
        if needs:
            lacks = made_of(Needs, needs)
            tried = attempt(lacks.reason)
            self.show_line(f"environment {wanted.key[:12]}: not on the host ({tried}); its packages are fetched here")
            with after_the_host(lacks.reason):
                brought = collect(trees.here, lacks, builds=builds)
            result = self.make(options, asdict(replace(request, brought=brought)))
            lacking = result.pop("needs", None)
            if lacking:
                brought = replace(brought, folder=self._send(brought, set(made_of(Needs, lacking).files)))
                result = self.make(options, asdict(replace(request, brought=brought)))
                if result.pop("needs", None):
                    raise RankzeroError("environment: wheels were damaged on their way; run again")
        return result

    def _conda(self, given: _Options, options: dict[str, Any]) -> dict[str, Any]:
        """Provide a conda environment. An archive that the host does not see at the controller's path is sent."""
        if given.file is None:
            raise RankzeroError(
                "file: is required with mode conda: an environment.yml, an explicit lock with hashes, or a conda-pack "
                "archive"
            )
        named = {
            "extras": given.extras,
            "python": given.python,
            "platform": given.platform,
            "source": given.source,
            "requirements": given.requirements,
            "torch": given.torch != "auto",
        }
        vain = [name for name, value in named.items() if value]
        if vain:
            raise RankzeroError(f"{', '.join(vain)}: nothing for mode conda; write it into {given.file}")
        file = os.path.join(given.project, given.file)
        self.roots.check("file", file)
        sent_options = {
            name: value for name, value in options.items() if name not in ("key", "project", "build_on_controller")
        }
        made = conda_recipe(file)
        result = self.make(sent_options, asdict(CondaRequest(made)))
        needs = result.pop("needs", None)
        if needs:
            self.show_line(f"sending {made.path}, {amount(made.size)}")
            sent = os.path.join(self.send([made.path]), os.path.basename(made.path))
            result = self.make(sent_options, asdict(CondaRequest(made, sent)))
            if result.pop("needs", None):
                raise RankzeroError(f"file: {made.path} was damaged during the transfer; run again")
        return result

    def _send(self, brought: Brought, lacking: set[str]) -> str:
        """Send the wheels that the host does not see at the controller's paths. Returns their folder on the host."""
        wheels = [*brought.wheels, *([brought.tool] if brought.tool else [])]
        wheels = [wheel for wheel in wheels if wheel.filename in lacking]
        size = sum(wheel.size for wheel in wheels)
        self.show_line(f"sending {len(wheels)} wheels, {amount(size)}")
        return self.send(wheel.path for wheel in wheels)
