# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python environments of the programs of a launch: those built for it, and those that the site has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Inputs, Site
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import Variable, variables
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged


@dataclass(frozen=True)
class Environments:
    """The environments of all programs. `built`: the folders of those that are built, by their keys."""

    launch: LaunchSpec
    merged: Merged
    site: Site
    inputs: Inputs
    built: Mapping[str, str]

    def folder(self, program: LaunchSpec) -> str:
        """Return where the environment of a program is; empty without one, and where each node makes it."""
        return self.built.get(self.key(program) or "") or program.environment.path or ""

    def key(self, program: LaunchSpec) -> str | None:
        """Return the key of the environment that is built for a program; None if none is."""
        own = program.environment == self.launch.environment
        return self.inputs.environment if own else self.inputs.of_roles.get(program.environment)

    def python(self, program: LaunchSpec) -> str:
        """Return the Python that runs a program."""
        folder = self.folder(program)
        return f"{folder}/bin/python" if folder else "python3"

    def variables(self, program: LaunchSpec) -> list[Variable]:
        """Return the variables of a program."""
        site, conda = self.site, self.inputs.conda(program)
        return variables(program, self.merged, self.folder(program), site.settings.fabrics, site.caches, conda)
