# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks read besides code and environment: results of other launches, and datasets."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.data import variable


class After(Aspect):
    """The launches that this one follows."""

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Return the result path of each upstream launch, in the variable named after that launch."""
        return ((upstream.variable, upstream.path) for upstream in context.after)


class Data(Aspect):
    """The datasets of the job. A role has the variables of its own alone."""

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Return the path of each dataset. The runtime sets the paths of packed datasets again after mounting them."""
        return ((variable(name), dataset.folder) for name, dataset in sorted(context.spec.all_data.items()))
