# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare the folder of an interactive session on the cluster: its script, its home, and a working directory with the
code.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import make_folder, own
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref, first
from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import roles_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import find_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import allocation
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import AllocationNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import write_text
from ansible_collections.rankzero.slurm.plugins.module_utils.submit import secret_files
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.door import make as make_door
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import absent, resolve


def prepare(
    slurm: Slurm,
    *,
    folder: str,
    files: Mapping[str, str],
    refs: Sequence[Ref],
    stores: Parameters,
    inside_job: JsonObject | None,
    role: str = "",
    environments: str = "",
    door: Mapping[str, str] | None = None,
    secrets_file: str | None = None,
    from_files: Mapping[str, str] | None = None,
    check_mode: bool = False,
) -> ModuleResult:
    """Create the session's folder, unless an item that it needs is missing on the cluster. Returns module results.

    `role`: whose program it is for; inside the launch's own job the session is on a node of that role. `environments`:
    the folder of environments made inside the image, which the session's container mounts. `door`: the files by which
    ssh reaches a session that serves something. `secrets_file`, `from_files`: the secrets of a session that is opened
    now, as for a launch (secret_files.py); the answer names the file in which they lie until the session ends.

    Raises RankzeroError if the job cannot hold the session or the folder cannot be written.
    """
    inside: str | None = None
    nodes: list[str] = []
    if inside_job:
        needs = _on_nodes_of(role, AllocationNeeds(**inside_job), folder) if role else AllocationNeeds(**inside_job)
        held, nodes, problems = allocation.choose_nodes(slurm, needs, time.time)
        if problems:
            raise RankzeroError(
                "\n".join(["the job cannot hold this session:", *(f"  - {problem}" for problem in problems)])
            )
        inside = allocation.described(held, nodes, time.time())
    state_root = _state_root(folder)
    # The session's script is executed from this state root, so it must belong to the user.
    own(state_root)
    sent = (files, [ref.record() for ref in refs])
    (files, actual), _sources = resolve(sent, refs, stores, state_root, slurm.note, check_mode=check_mode)
    refs = [Ref.of(ref) for ref in actual]
    missing = absent(refs, state_root, slurm.note, check_mode=check_mode)
    changed, reached = False, {"host_key": "", "user": "", "secrets": ""}
    if not missing:
        if environments and not check_mode:
            make_folder(environments)
        code = first(refs, CODE)
        changed = _lay_out(folder, files, code.path if code else None, check_mode)
        if door and not check_mode:
            reached.update(make_door(os.path.join(folder, "door"), door))
        lines = b"" if check_mode else secret_files.lines_of(secrets_file, from_files or {})
        if lines:
            reached["secrets"] = _secrets(os.path.join(folder, "secrets"), lines)
    answer = {"changed": changed, "missing": [ref.record() for ref in missing], "nodes": nodes, "allocation": inside}
    return {**answer, **reached}


def _secrets(folder: str, lines: bytes) -> str:
    """Write the secrets of one session into FOLDER. Each has a file of its own, which is removed at its end."""
    try:
        return secret_files.write_new(folder, lines)
    except OSError as error:
        raise RankzeroError(f"state_root: cannot write {folder}: {error.strerror}") from error


def _on_nodes_of(role: str, asked: AllocationNeeds, folder: str) -> AllocationNeeds:
    """Return the same needs, on the nodes of a role where the job is a launch of this name that has it."""
    name = os.path.basename(os.path.dirname(folder))
    for run in find_runs(_state_root(folder), name=name, job_id=asked.job_id)[::-1]:
        for there in roles_of(run.started()):
            if there.name == role and not asked.names:
                return replace(asked, names=there.nodes, nodes=len(there.nodes))
    return asked


def _state_root(folder: str) -> str:
    """Return the state root of FOLDER, which is state_root/shells/NAME/KEY."""
    return os.path.normpath(os.path.join(folder, "../../.."))


def _lay_out(folder: str, files: Mapping[str, str], code: str | None, check_mode: bool) -> bool:
    work = os.path.join(folder, "work")
    try:
        changed = not os.path.isdir(work)
        if not check_mode:
            make_folder(work)
            make_folder(os.path.join(folder, "home", ".cache"))
        for name, text in files.items():
            path = os.path.join(folder, name)
            if not check_mode:
                make_folder(os.path.dirname(path))
            changed = bool(write_text(path, text, check_mode=check_mode)["changed"]) or changed
        for name in os.listdir(code) if code and not check_mode else ():
            link = os.path.join(work, name)
            # Files that the user created there are kept.
            if not os.path.lexists(link):
                os.symlink(os.path.join(str(code), name), link)
                changed = True
    except OSError as error:
        raise RankzeroError(
            f"state_root: cannot write {folder}: {error.strerror}. Name a folder on shared storage that this user may "
            "write (launch_cluster.state_root)."
        ) from error
    return changed
