# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make environments in the store present or absent, by recipe. The part of `uv_environment` that runs on the host."""

from __future__ import annotations

from dataclasses import asdict

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import ENVIRONMENT
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import (
    Needs,
    Request,
    build,
    buildable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import present, ref_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import environment_path, recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.request import EnvironmentRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import borrowed, checked_key, ready, take_away
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter


def ensure_environment(
    options: Parameters, given: JsonObject, *, check_mode: bool = False, meter: Meter | None = None
) -> ModuleResult:
    """Make the environment that the module's options describe present or absent. Raises RankzeroError.

    `given`: the module's request, an `EnvironmentRequest`. Returns `changed`, `ref` and, if it is present,
    `environment` (its env.json); `needs` where the controller must first send something.
    """
    stores = ready(options, check_mode=check_mode)
    root = stores[-1].path
    if options["state"] == "absent" and options.get("key"):
        return _absent(root, checked_key(ENVIRONMENT, options["key"]), check_mode=check_mode)
    request = EnvironmentRequest.of(given)
    made = recipe(
        request.pyproject,
        request.uv_lock,
        options["extras"],
        options["python"],
        options["torch"],
        options.get("mode") or "venv",
        options,
        request.trees,
    )
    if options["state"] == "absent":
        return _absent(root, made.key, check_mode=check_mode)
    warnings: list[str] = []
    other = borrowed(stores, ENVIRONMENT, made.key, lambda path: present(path) is not None, warnings)
    notes = {"warnings": warnings} if warnings else {}
    path = other or environment_path(root, made.key)
    manifest = present(path)
    if manifest is not None and not other and not check_mode:
        uses.mark(path)
        manifest = present(path)  # a prune may have removed it before the mark
    if other or manifest is not None:
        return {"changed": False, "ref": ref_of(made.key, path, manifest), "environment": manifest, **notes}
    if check_mode:
        buildable(made, root)  # check mode must not promise what cannot be built
        return {"changed": True, "ref": ref_of(made.key, path, None)}
    result = build(
        Request(
            recipe=made,
            store_root=root,
            download=options["download"],
            uv=options["uv"],
            hint=request.uv,
            controller_sources=request.sources,
            brought=request.brought,
            meter=meter or Meter(),
        )
    )
    if isinstance(result, Needs):
        return {"changed": False, "ref": ref_of(made.key, path, None), "needs": asdict(result)}
    uses.mark(path)
    return {"changed": True, "ref": ref_of(made.key, path, result), "environment": result, **notes}


def _absent(root: str, key: str, *, check_mode: bool) -> ModuleResult:
    path = environment_path(root, key)
    return take_away(ENVIRONMENT, key, path, there=present(path) is not None, check_mode=check_mode)
