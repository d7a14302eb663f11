# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""env.json: what an environment says of itself. Light to import, because every launch asks for it."""

from __future__ import annotations

import json
import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject

MANIFEST = "env.json"


def present(path: str) -> JsonObject | None:
    """env.json of the environment at `path`; None when it is not there, not finished, or its Python has gone.

    Cheap: starts no process. The folder got its name only after everything in it had been verified.
    """
    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as stream:
            manifest = json.load(stream)
        python = manifest["python"]["path"]
        sealed = manifest.get("sealed")
        if sealed:
            whole = os.path.getsize(os.path.join(path, sealed["file"])) == sealed["bytes"]
            return dict(manifest) if whole else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if os.path.realpath(os.path.join(path, "bin", "python")) != python or not os.access(python, os.X_OK):
        return None
    return dict(manifest)
