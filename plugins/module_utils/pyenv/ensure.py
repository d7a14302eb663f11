# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make environments in the store present or absent, by recipe. The part of `uv_environment` that runs on the host."""

from __future__ import annotations

import contextlib
import re
from dataclasses import asdict
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import ENVIRONMENT
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import (
    Needs,
    Request,
    build,
    buildable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import EnvironmentRecord, present
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import environment_path, recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.request import EnvironmentRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import remove, trouble
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import borrowed, ready
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
        return _absent(root, options["key"], check_mode=check_mode)
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
    if other:
        other_manifest = present(other)
        return {"changed": False, "ref": _ref(made.key, other, other_manifest), "environment": other_manifest, **notes}
    path = environment_path(root, made.key)
    manifest = present(path)
    if manifest is not None and not check_mode:
        with contextlib.suppress(OSError):  # a store of another user, which is read-only for us
            uses.use(path)
        manifest = present(path)  # a prune may have removed it before the mark
    if manifest is not None:
        return {"changed": False, "ref": _ref(made.key, path, manifest), "environment": manifest, **notes}
    if check_mode:
        buildable(made, root)  # check mode must not promise what cannot be built
        return {"changed": True, "ref": _ref(made.key, path, None)}
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
        return {"changed": False, "ref": _ref(made.key, path, None), "needs": asdict(result)}
    with contextlib.suppress(OSError):
        uses.use(path)
    return {"changed": True, "ref": _ref(made.key, path, result), "environment": result, **notes}


def _absent(root: str, key: str, *, check_mode: bool) -> dict[str, Any]:
    if not re.fullmatch(r"[0-9a-f]{32}", key):
        raise RankzeroError(f"key: {key!r} is not the key of an environment; expected 32 hexadecimal digits (ref.key)")
    path = environment_path(root, key)
    removed = present(path) is not None
    if not check_mode:
        try:
            removed = remove(path)
        except OSError as error:
            raise trouble(error, path) from error
    return {"changed": removed, "ref": _ref(key, path, None)}


def _ref(key: str, path: str, manifest: EnvironmentRecord | None) -> dict[str, Any]:
    digest = manifest["digest"] if manifest else None
    return {"kind": ENVIRONMENT.name, "key": key, "path": path, "digest": digest, "present": manifest is not None}
