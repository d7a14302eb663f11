# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The copy of this package in <directory>/lib, from which the lab's own programs run.

These programs outlive the module that starts the lab, and the zip in which Ansible ships it. The modules are listed
one by one because Ansible ships only modules that are imported explicitly.
"""

from __future__ import annotations

import inspect
import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core import (
    clearing,
    content,
    errors,
    json_types,
    printable,
    whole_files,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.image import debian
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import (
    accounting,
    agent,
    agents,
    boot,
    control,
    faults,
    layout,
    profile,
    record,
    release,
    roots,
    slurmconf,
    wrappers,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import (
    cgroups,
    internet,
    kernel,
    network,
    processes,
    sharing,
)

MODULES = (
    clearing,
    content,
    debian,
    errors,
    json_types,
    printable,
    whole_files,
    accounting,
    agent,
    agents,
    boot,
    cgroups,
    control,
    faults,
    internet,
    kernel,
    layout,
    network,
    processes,
    profile,
    record,
    release,
    roots,
    sharing,
    slurmconf,
    wrappers,
)


def copy(lab: Lab) -> None:
    """Write the sources, whether they were imported from files or from the zip."""
    for module in MODULES:
        path = lab.path("lib", *module.__name__.split(".")) + ".py"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        boot.write_file(path, inspect.getsource(module))
