# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the requests that the controller sends to the modules that launch."""

from __future__ import annotations

import base64
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from typing import Protocol, TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import runtime_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import publish_files
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import resolve
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import SubmissionResult


class Submission(Protocol):
    """A launch or a sweep that can be submitted and cancelled."""

    def launch(self) -> SubmissionResult:
        """Adopt or submit the jobs."""

    def cancel(self) -> SubmissionResult:
        """Cancel the active jobs."""


class AnyRequest(Protocol):
    """A Request or a SweepRequest."""

    @property
    def shared(self) -> Request:
        """What a sweep's elements share; of a single launch, itself."""

    def changed(self: R, **changes: object) -> R:
        """Return it with other values of what is shared."""


R = TypeVar("R", bound=AnyRequest)


def carry_out(
    request: R, submission_of: Callable[[R], Submission], slurm: Slurm, params: Parameters, *, check_mode: bool
) -> ModuleResult:
    """Launch, or cancel a launch. Returns the result of module `job` or `job_sweep`.

    `submission_of`: builds the submission from the request with the actual paths of all items. `params`: the module's
    `state`, and if the cluster lacks them `x_runtime`, the files of the job runtime, and `x_code`, a small snapshot of
    the code as an archive.
    """
    request = request.changed(submitter=f"{socket.gethostname()}:{os.getpid()}")
    shared = request.shared
    sources: list[dict[str, str]] = []
    if params["x_runtime"]:
        publish_files(runtime_of(shared.refs).path, params["x_runtime"])
    if params.get("x_code") and not check_mode:
        _publish_code(shared, params["x_code"])
    if params["state"] == "present":
        stores = asdict(shared.stores)
        request, sources = resolve(request, shared.refs, stores, shared.state_root, slurm.note, check_mode=check_mode)
    submission = submission_of(request)
    result = submission.cancel() if params["state"] == "absent" else submission.launch()
    return {**result.result(), "sources": sources, "slurm_commands": slurm.commands, "warnings": slurm.notes}


def _publish_code(shared: Request, archive: str) -> None:
    """Publish the launch's code from an archive (base64), as module code_snapshot does. Raises RankzeroError."""
    # Imported only for a launch that brings its code.
    from ansible_collections.rankzero.slurm.plugins.module_utils.store.snapshot import ensure_snapshot

    (code,) = [ref for ref in shared.refs if ref.kind == CODE.name]
    with tempfile.NamedTemporaryFile(prefix="rankzero-") as stream:
        stream.write(base64.b64decode(archive))
        stream.flush()
        # Readable by everyone, regardless of the user's umask.
        before = os.umask(0o022)
        try:
            ensure_snapshot(asdict(shared.stores), code.key, stream.name)
        finally:
            os.umask(before)
