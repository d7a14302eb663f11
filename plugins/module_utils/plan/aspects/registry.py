# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All aspects of a launch, in the order in which they are evaluated. A new aspect is imported and listed here."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.checkpoint import Checkpoint
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.container import Container
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.environment import Environment, Variables
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.inputs import After, Data
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.inside_job import InsideJob
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.node_copies import NodeCopies
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.parallelism import Sizes
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.preflight import Preflight
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.program import Artifact, Program, Sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.ranks import Ranks
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.resources import Resources
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.roles import Roles
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.script import Script
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.sealed_environment import SealedEnvironment
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.slurm_options import FurtherOptions

# The imports must be static, because Ansible ships only what they name.
ASPECTS: tuple[Aspect, ...] = (
    Program(),
    Script(),
    Roles(),
    Ranks(),
    Resources(),
    Environment(),
    Artifact(),
    Checkpoint(),
    Sizes(),
    After(),
    Data(),
    Preflight(),
    FurtherOptions(),
    InsideJob(),
    Container(),
    NodeCopies(),
    SealedEnvironment(),
    Sweep(),
    Variables(),
)
