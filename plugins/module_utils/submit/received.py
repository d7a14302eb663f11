# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the requests that the controller sends to the modules that launch."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Protocol

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref, runtime_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import publish_files
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import resolve
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import SubmissionResult


class Submission(Protocol):
    """A launch or a sweep that can be submitted and cancelled."""

    def launch(self) -> SubmissionResult:
        """Adopt or submit the jobs."""

    def cancel(self) -> SubmissionResult:
        """Cancel the active jobs."""


def carry_out(
    params: Parameters,
    secrets_file: str | None,
    launcher_of: Callable[[JsonObject, str], Submission],
    slurm: Slurm,
    *,
    check_mode: bool,
) -> ModuleResult:
    """Launch, or cancel a launch. Returns the result of module `job` or `job_sweep`.

    `params`: the module's parameters. Their `x_request` is a launch, or a sweep whose shared launch is in `array`.
    `launcher_of`: builds the submission from the request, with the actual paths of all items, and the submitter's name.
    """
    given = dict(params["x_request"])
    shared = dict(given.get("array", given))
    asked = shared.pop("stores")
    given = {**given, "array": shared} if "array" in given else shared
    refs = [Ref.of(ref) for ref in shared["refs"]]
    if params["x_runtime"]:
        publish_files(runtime_of(refs).path, params["x_runtime"])
    try:
        sources: list[dict[str, str]] = []
        if params["state"] == "present":
            state_root = os.path.dirname(os.path.dirname(os.path.dirname(shared["runs_dir"])))
            given, sources = resolve(given, refs, asked, state_root, slurm.note, check_mode=check_mode)
        launcher = launcher_of(given, f"{socket.gethostname()}:{os.getpid()}")
        result = launcher.cancel() if params["state"] == "absent" else launcher.launch()
    finally:
        # The file was sent for this call only. The sender may be gone by now, or configured to keep remote files.
        with contextlib.suppress(OSError):
            os.unlink(secrets_file or "")
    return {**result.result(), "sources": sources, "slurm_commands": slurm.commands, "warnings": slurm.notes}
