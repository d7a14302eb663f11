# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only file of module_utils that knows Ansible: it runs a module's logic and reports its error."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable_lines, printable_result
from ansible_collections.rankzero.slurm.plugins.module_utils.core.python_version import (
    OLDEST_PYTHON,
    newer_pythons,
    python_too_old,
)

# Before anything else is imported, which on an older Python may not even be possible.
if sys.version_info[:2] < OLDEST_PYTHON:
    version = ".".join(map(str, sys.version_info[:3]))
    message = python_too_old(platform.node(), sys.executable, version, newer_pythons())
    # There is no AnsibleModule yet that could say it.
    sys.stdout.write(json.dumps({"failed": True, "changed": False, "msg": message}) + "\n")
    raise SystemExit(1)


class Module(AnsibleModule):  # type: ignore[misc]  # ansible-core ships no types
    """A module whose warnings may be printed, whatever they quote."""

    def warn(self, warning: str, **options: Any) -> None:
        """Without control characters: a warning may quote what another program wrote."""
        super().warn(printable_lines(warning), **options)


def run_module(
    argument_spec: Parameters,
    logic: Callable[[AnsibleModule], ModuleResult],
    *,
    publishes: bool = False,
    **module_options: Any,
) -> None:
    """Build the module, run `logic` on it and leave: exit_json with its result, or fail_json with what is known. What
    the result has as `warnings` is shown as such.

    `publishes`: what it makes is for everybody to read and for its owner to write, whatever the user's umask.
    """
    if publishes:
        os.umask(0o022)
    module = Module(argument_spec=argument_spec, **module_options)
    try:
        result = logic(module)
    except RankzeroError as error:
        module.fail_json(msg=error.message, **printable_result(error.partial))
    for warning in result.pop("warnings", ()):
        module.warn(warning)
    module.exit_json(**printable_result(result))
