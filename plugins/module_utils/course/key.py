# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch key of a record, computed again. Pure.

The key names the run directory and the job in Slurm. So if somebody edits the record of a launch that has run (its
command or its number of nodes, for example), the record no longer has the same key.
"""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import BY_NAME, CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import first, recorded
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import launch_key
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import Starter, digest_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.own_formats import OwnFormat
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse


class Unknowable(Exception):
    """The key cannot be computed from this record. `fair`: for a reason that is not the student's fault."""

    def __init__(self, why: str, *, fair: bool) -> None:
        super().__init__(why)
        self.fair = fair


def key_of(launch: JsonObject) -> str:
    """The launch key, 64 hexadecimal digits. Raises only `Unknowable`, even for a malformed record."""
    try:
        parsed = parse(Merged(dict(launch["spec"]), {}, []))
        declared = [(BY_NAME.get(ref["kind"]), str(ref["key"])) for ref in launch["refs"]]
        inputs = {kind.keyed: key for kind, key in declared if kind is not None and kind.keyed}
        inputs.update({f"after.{upstream['name']}": str(upstream["key"]) for upstream in launch.get("after", [])})
        inputs.update(Starter(**launch["launcher"]).keyed() if launch.get("launcher") else {})
        inputs.update({"container": digest_of(launch["container"])} if launch.get("container") else {})
        inputs.update(OwnFormat(**launch["artifact_format"]).keyed() if launch.get("artifact_format") else {})
        if parsed.problems:
            raise Unknowable(f"is not a record of a launch: {parsed.problems[0]}", fair=False)
        if parsed.spec.environment.path:
            raise Unknowable(
                "names an environment of the site (environment.path), which is not in the record", fair=True
            )
        return launch_key(parsed.spec, inputs)
    except Unknowable:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Unknowable(f"is not a record of a launch ({type(error).__name__})", fair=False) from error


def code_of(launch: JsonObject) -> str:
    """The digest of the code that the launch refers to; empty if the record is not valid."""
    code = first(recorded(launch.get("refs")), CODE)
    return code.key if code else ""
