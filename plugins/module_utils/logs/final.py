# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The logs of a launch that has ended, as part of the last look at it: small ones need no call of their own."""

from __future__ import annotations

import base64
import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import content_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import fetch_plan, origin_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import Redactor
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest, Round
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory

# Bytes of logs up to which they come with the last look. More are fetched by module `job_logs`.
MOST_BYTES = 1 << 20


def packed(run: RunDirectory, request: FetchRequest, redactor: Redactor) -> JsonObject | None:
    """Return the answer to a request for logs, with the archive itself as `data`. None if they cannot be packed: then
    module `job_logs` says why.
    """
    try:
        fetched = fetch_plan(run.shown("logs"), request, write=True, redactor=redactor)
    except RankzeroError:
        return None
    data = b""
    if fetched.archive:
        try:
            data = content_of(fetched.archive)
        except OSError:
            return None
        finally:
            remove_tree(os.path.dirname(fetched.archive))
    answer = Round(run.path, origin_of(run.path), True, None, fetched, run.job_id()).result()
    return {**answer, "archive": None, "data": base64.b64encode(data).decode("ascii")}
