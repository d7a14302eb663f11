# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The only file in module_utils that imports Ansible. It runs a module's logic and reports the result or the error."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    OLDEST_PYTHON,
    RankzeroError,
    newer_pythons,
    python_too_old,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable_lines, printable_result

# Checked before further imports, because an older Python may fail on them.
if sys.version_info[:2] < OLDEST_PYTHON:
    version = ".".join(map(str, sys.version_info[:3]))
    message = python_too_old(os.uname().nodename, sys.executable, version, newer_pythons())
    # No AnsibleModule exists yet, so the failure is printed as JSON directly.
    sys.stdout.write(json.dumps({"failed": True, "changed": False, "msg": message}) + "\n")
    raise SystemExit(1)


class Module(AnsibleModule):  # type: ignore[misc]  # ansible-core ships no types
    """A module that removes control characters from its warnings."""

    def warn(self, warning: str, **options: Any) -> None:
        """Show a warning without control characters. A warning may quote the output of another program."""
        super().warn(printable_lines(warning), **options)


def end_orderly() -> None:
    """Let SIGTERM and SIGHUP end this process like an exit, so that what it has begun is cleaned up.

    After Ctrl-C ansible-playbook ends its modules with SIGTERM. By default a process is then gone at once, and the
    folder in /tmp into which Ansible has unpacked the module stays. The same signal once more ends it at once.
    """

    def leave(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, leave)


def run_module(
    argument_spec: Parameters,
    logic: Callable[[AnsibleModule], ModuleResult],
    *,
    publishes: bool = False,
    **module_options: Any,
) -> None:
    """Build the module, run `logic` on it and exit with exit_json, or with fail_json and the results known so far.

    Entries under `warnings` in the result are shown as Ansible warnings.

    `publishes`: files that the module creates are readable by everyone and writable only by their owner, regardless of
    the user's umask.
    """
    end_orderly()
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
