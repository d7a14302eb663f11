# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part in building a set of packages: read the project, and build the set if the host cannot."""

from __future__ import annotations

import os
import tarfile
import tempfile
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import user_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount, last_lines
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.ensure import (
    Needs,
    make_elsewhere,
    wanted_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.request import PackagesRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import attempt
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.trees import Trees, trees_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import project_recipe
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.wheelhouse import after_the_host, own_uv


def supply(producer: Producer, options: Parameters) -> ModuleResult:
    """Provide the set that the options of `uv_environment` describe on the host of the task. Returns the task's result.

    The host builds the set if it can reach package sources, or uses what was copied there earlier. Otherwise the set is
    built here for that host's Python and platform, kept in the user's cache, and sent. Raises RankzeroError.
    """
    given = dict(options)
    project, builds = str(given.pop("project")), bool(given.pop("build_on_controller"))
    wanted = project_recipe(project, {**given, "mode": "venv"}, producer.roots)
    for name in ("requirements", "file"):
        given.pop(name)
    with trees_of(producer, project, wanted) as trees:
        return _supplied(producer, given, trees, builds=builds)


def _supplied(producer: Producer, given: Parameters, trees: Trees, *, builds: bool) -> ModuleResult:
    tool, text = own_uv(builds=builds), trees.wanted
    request = PackagesRequest(text.pyproject, text.lock, tool.path if tool else None, trees=text.trees)
    result = producer.make(given, request.arguments())
    if trees.asked(result):
        request = replace(request, trees=trees.there())
        result = producer.make(given, request.arguments())
    answer = result.pop("needs", None)
    if not answer:
        return result
    needs = Needs.of(answer)
    if tool is None:
        raise RankzeroError(
            "packages: the host could not get the packages, and the controller has no uv to fetch them with. Install "
            "uv beside Ansible, or carry a set to the host (source), or check on the host what was tried:\n"
            + last_lines(needs.reason)
        )
    wanted = replace(wanted_of(given, request), recipe=trees.here)
    producer.show_line(f"{wanted.kind} {wanted.key[:12]}: not on the host ({attempt(needs.reason)}); fetched here")
    if needs.aim is None:
        raise RankzeroError(f"packages: the host did not name the Python and platform of the set ({needs.reason})")
    with after_the_host(needs.reason):
        offer = make_elsewhere(user_cache(), wanted, needs.aim, tool.path, builds=builds)
    result = producer.make(given, replace(request, offer=offer).arguments())
    if result.pop("needs", None):
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            archive = os.path.join(folder, f"{wanted.key}.tar")
            with tarfile.open(archive, "w") as packed:
                packed.add(offer.folder, arcname=wanted.key)
            producer.show_line(f"sending {amount(os.path.getsize(archive))}")
            sent = os.path.join(producer.send([archive]), os.path.basename(archive))
        result = producer.make(given, replace(request, sent=sent).arguments())
        if result.pop("needs", None):
            raise RankzeroError("packages: the set was damaged during the transfer; run again")
    return result
