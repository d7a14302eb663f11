# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make images in the store present or absent, by recipe. The part of module `image` that runs on the host.

ROOT/images/KEY contains image.sqsh, its record image.json, and files derived from it (image.sif, bundle). It gets its
name when it is complete. ROOT/images/names/NAME.json keeps the last recipe of a name.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import json_of
from ansible_collections.rankzero.slurm.plugins.module_utils.image import formats
from ansible_collections.rankzero.slurm.plugins.module_utils.image.build import LOCK_SECONDS, Wish, build
from ansible_collections.rankzero.slurm.plugins.module_utils.image.contents import content_digest
from ansible_collections.rankzero.slurm.plugins.module_utils.image.files import IMAGE, SIF, ImageRecord, present
from ansible_collections.rankzero.slurm.plugins.module_utils.image.host import choose, probe
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import (
    ImageRequest,
    changes,
    check_name,
    image_folder,
    inputs,
    listing,
    recipe,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs import kinds
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import fresh_folder, publish, remove, trouble
from ansible_collections.rankzero.slurm.plugins.module_utils.store.hardlinks import drop_unshared
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import hold
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import write_text
from ansible_collections.rankzero.slurm.plugins.module_utils.store.snapshot import ensure_snapshot
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import borrowed, checked_key, ready
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import Entry, digest
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter


def ensure_image(
    options: Parameters, given: JsonObject, *, check_mode: bool = False, meter: Meter | None = None
) -> ModuleResult:
    """Make the image that the module's options describe present or absent. Raises RankzeroError.

    `given`: the module's request, an `ImageRequest`. Returns `changed`, `ref`, `changes`, `files`, and `image` if it is
    present; `needs` where the controller must first send the context.
    """
    stores = ready(options, check_mode=check_mode)
    root = stores[-1].path
    if options["state"] == "absent" and options.get("key"):
        return _absent(root, checked_key(kinds.IMAGE, options["key"]), check_mode=check_mode)
    wish = _wish(options, ImageRequest.of(given), root, check_mode=check_mode)
    if options["state"] == "absent":
        return _absent(root, wish.key, check_mode=check_mode)
    wanted = [form for form in options.get("formats") or [] if form != "sqsh"]
    warnings: list[str] = []
    other = borrowed(stores, kinds.IMAGE, wish.key, lambda folder: _has(folder, wanted), warnings)
    if other:
        wish = replace(wish, root=os.path.dirname(os.path.dirname(other)))
        sidecar = present(other)
        borrowed_result = {"changed": False, "ref": _ref(wish, sidecar), "image": sidecar, "name": wish.name}
        notes = {"warnings": warnings} if warnings else {}
        return {**borrowed_result, "files": _files(other, wanted), "changes": [], **notes}
    image = _use(wish.folder, check_mode=check_mode)
    lacking = [form for form in wanted if not _derived(wish.folder, form)]
    before = _last_of(wish)
    result: dict[str, Any] = {"name": wish.name, "files": _files(wish.folder, wanted), "changes": []}
    if image is not None and not lacking:
        if before.get("key") != wish.key and not check_mode:
            _remember(wish)
        return {"changed": False, "ref": _ref(wish, image), "image": image, **result}
    if image is None:
        result["changes"] = changes(before["inputs"], wish.named) if before else []
        text = listing(before["inputs"]) if before else ""
        header = f"{wish.name} {before.get('key', '')}".strip()
        result["diff"] = difference(header, text, listing(wish.named), f"{wish.name} {wish.key}")
    if wish.made.reference is not None and wish.path is None and "@" not in wish.made.reference:
        result["warnings"] = [
            f"reference: {wish.made.reference} is a tag, which its registry may move unnoticed; use NAME@sha256:DIGEST"
        ]
    way = choose(probe(wish.work_dir), wish.made, wish.engine)  # check mode must not promise what cannot be built
    if check_mode:
        return {"changed": True, "ref": _ref(wish, image), "way": way.shown(), **result}
    if image is None and wish.made.context and wish.context is None:
        return {"changed": False, "ref": _ref(wish, None), "needs": "context", **result}
    wish = replace(wish, meter=meter or Meter())
    with hold(f"{root}/locks/image-{wish.key}", LOCK_SECONDS):
        image = present(wish.folder) or build(wish, way)
        for form in wanted:
            wish.meter.begin(f"converting to {form}")
            _derive(wish.folder, form, image)
    _remember(wish)
    uses.mark(wish.folder)
    return {"changed": True, "ref": _ref(wish, image), "image": image, **result}


def _wish(options: Parameters, request: ImageRequest, root: str, *, check_mode: bool) -> Wish:
    made = recipe(options, request.text, request.context)
    path = made.local_path and os.path.expanduser(os.path.expandvars(made.local_path))
    memory = os.path.join(root, "images", "seen")
    content = content_digest(str(made.base), path, memory, check_mode=check_mode) if path else None
    secrets = {str(name): os.path.expanduser(str(file)) for name, file in (options.get("secrets") or {}).items()}
    for name, file in secrets.items():
        if not os.access(file, os.R_OK) or os.path.isdir(file):
            raise RankzeroError(f"secrets.{name}: {file} is not a file on {platform.node()} that this user may read")
    context = None
    if made.context:
        entries = [Entry(path, what[0], what[2:], 0) for path, what in made.context]
        known = ensure_snapshot(options, digest(entries), request.archive, check_mode=check_mode)
        context = known["ref"]["path"] if known["ref"]["present"] else None
    return Wish(
        made=made,
        named=inputs(made, content),
        root=root,
        name=check_name(options.get("name") or "image"),
        work_dir=os.path.expanduser(options.get("work_dir") or os.environ.get("TMPDIR") or "/var/tmp"),
        engine=options.get("engine") or "auto",
        secrets=secrets,
        path=path,
        context=context,
    )


def _has(folder: str, wanted: Sequence[str]) -> bool:
    return present(folder) is not None and all(_derived(folder, form) for form in wanted)


def _derived(folder: str, kind: str) -> str | None:
    """The path of the file of the given `kind` that was derived from the image; None if it is missing."""
    path = os.path.join(folder, SIF if kind == "sif" else formats.BUNDLE)
    return path if os.path.exists(path) else None


def _derive(folder: str, kind: str, sidecar: ImageRecord) -> None:
    if _derived(folder, kind):
        return
    target = os.path.join(folder, SIF if kind == "sif" else formats.BUNDLE)
    with fresh_folder(target) as fresh:
        made = os.path.join(fresh, "made")
        if kind == "sif":
            formats.write_sif(os.path.join(folder, IMAGE), made, sidecar["digest"])
        else:
            formats.write_bundle(os.path.join(folder, IMAGE), made, sidecar)
        publish(made, target)


def _files(folder: str, wanted: Sequence[str]) -> dict[str, str]:
    names = {"sif": SIF, "oci": formats.BUNDLE}
    return {"sqsh": os.path.join(folder, IMAGE), **{form: os.path.join(folder, names[form]) for form in wanted}}


def _use(folder: str, *, check_mode: bool) -> ImageRecord | None:
    sidecar = present(folder)
    if sidecar is not None and not check_mode:
        uses.mark(folder)
        sidecar = present(folder)  # a prune may have removed it before the mark
    return sidecar


def _absent(root: str, key: str, *, check_mode: bool) -> dict[str, Any]:
    folder = image_folder(root, key)
    removed = os.path.lexists(folder)
    if removed and not check_mode:
        try:
            with hold(f"{root}/locks/image-{key}", LOCK_SECONDS):
                removed = remove(folder)
                drop_unshared(os.path.join(root, "images", "sha256"))
        except OSError as error:
            raise trouble(error, folder) from error
    return {"changed": removed, "ref": kinds.IMAGE.entry(key, folder, None)}


def _ref(wish: Wish, sidecar: ImageRecord | None) -> dict[str, Any]:
    return kinds.IMAGE.entry(wish.key, wish.folder, sidecar["digest"] if sidecar else None)


def _last_of(wish: Wish) -> dict[str, Any]:
    try:
        known = json_of(_name_file(wish))
        return known if isinstance(known["inputs"], dict) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _remember(wish: Wish) -> None:
    with contextlib.suppress(OSError, RankzeroError):
        os.makedirs(os.path.dirname(_name_file(wish)), exist_ok=True)
        document = {"key": wish.key, "inputs": dict(wish.named)}
        write_text(_name_file(wish), json.dumps(document, indent=1, sort_keys=True) + "\n")


def _name_file(wish: Wish) -> str:
    return os.path.join(wish.root, "images", "names", f"{wish.name}.json")
