# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make sets of packages in the store present or absent: what `uv_environment` runs on the host of the store for them.

A set appears completely or not at all: it is built in a fresh folder and gets its name last. Only one builder at a time
works on a set; the others wait and then find it. The next builder deletes what a killed one left.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import PACKAGES
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.gather import (
    Aim,
    Means,
    Workplace,
    aim_of,
    gather,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.package_set import (
    MANIFEST,
    PackagesRecord,
    SetInputs,
    name_list,
    packages_path,
    problems,
    read_manifest,
    take_over,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.request import Offer, PackagesRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import choose
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import only_data, recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.trees import absent
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import pip_settings, uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.tool import bootstrap_uv, find_uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.workplace import disk_folder
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import said_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    fresh_folder,
    make_read_only,
    publish,
    remove,
    sync_folder,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import hold
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import borrowed, checked_key, ready, take_away
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

# How long (seconds) one builder waits for another: enough to download some gigabytes.
_WAIT = 3600.0


@dataclass(frozen=True)
class Needs:
    """Why the controller must make the set for the Python and platform `aim`; without `aim`, why it must send it.

    `trees`: it must send the archives of the project's own folders.
    """

    reason: str
    aim: Aim | None = None
    trees: bool = False

    @classmethod
    def of(cls, given: JsonObject) -> Needs:
        """Read them from the module's result."""
        aim = given.get("aim")
        return cls(given["reason"], Aim.of(aim) if aim else None, bool(given.get("trees")))

    def result(self) -> JsonObject:
        """Return them as the module returns them."""
        aim = {"aim": asdict(self.aim)} if self.aim else {}
        return {"reason": self.reason, **aim, **({"trees": True} if self.trees else {})}


def ensure_packages(
    options: Parameters, given: JsonObject, *, check_mode: bool = False, meter: Meter | None = None
) -> ModuleResult:
    """Make the set that the module's options describe present or absent. Raises RankzeroError.

    `given`: the module's request, a `PackagesRequest`. Returns `changed`, `ref`, `damaged` and, if it is present,
    `packages` (its packages.json); `needs` where the controller must make the set or send it.
    """
    stores = ready(options, check_mode=check_mode)
    root = stores[-1].path
    if options["state"] == "absent" and options.get("key"):
        return _absent(root, checked_key(PACKAGES, options["key"]), check_mode=check_mode)
    request = PackagesRequest.of(given)
    wanted = wanted_of(options, request)
    if options["state"] == "absent":
        return _absent(root, wanted.key, check_mode=check_mode)
    warnings: list[str] = []
    other = borrowed(stores, PACKAGES, wanted.key, lambda path: not _look(path, verify=True)[1], warnings)
    if other:
        result = _result(wanted, other, read_manifest(other), changed=False)
        return {**result, **({"warnings": warnings} if warnings else {})}
    path = packages_path(root, wanted.key)
    if not check_mode:
        uses.mark(path)
    meter = meter or Meter()
    meter.begin("verifying")
    manifest, damaged = _look(path, verify=True)
    if manifest is not None and not damaged:
        return _result(wanted, path, manifest, changed=False)
    if check_mode:
        if wanted.platform is None:
            choose(wanted.recipe.pyproject, wanted.recipe.python)  # check mode must not promise what cannot be built
        return _result(wanted, path, None, changed=True, damaged=damaged)
    with _lock(root, wanted.key):
        again, still = _look(path, verify=bool(damaged))
        if again is not None and not still:
            return _result(wanted, path, again, changed=False)
        meter.begin("collecting")
        made = _made(root, path, wanted, options, request)
    if isinstance(made, Needs):
        return {**_result(wanted, path, None, changed=False, damaged=damaged), "needs": made.result()}
    uses.mark(path)
    return _result(wanted, path, made, changed=True, damaged=damaged)


def wanted_of(options: Parameters, request: PackagesRequest) -> SetInputs:
    """The set that the options and the project's texts describe. Raises RankzeroError."""
    asked = (options["extras"], options["python"], options["torch"])
    made = recipe(request.pyproject, request.uv_lock, *asked, trees=request.trees)
    return SetInputs(made, options["mode"], options.get("platform"))


def make(root: str, path: str, wanted: SetInputs, aim: Aim, means: Means) -> PackagesRecord:
    """Build the set from the sources that this host reaches, and publish it; its manifest. Raises RankzeroError."""
    environ = dict(os.environ)
    environment_of = pip_settings.controller_environment if means.controller else pip_settings.uv_environment
    settings = environment_of(pip_settings.read_pip_settings(environ), environ)
    if means.controller and means.builds:
        settings = pip_settings.building(settings)
    if means.carried:
        settings["UV_OFFLINE"] = "1"
    tool = find_uv(root, means.named_uv, means.hint, settings)
    if tool is None:
        tool = bootstrap_uv(root, choose("", None), environ)
    with contextlib.ExitStack() as stack:
        fresh = stack.enter_context(fresh_folder(path))
        site = stack.enter_context(disk_folder(wanted.key)) or fresh
        folder, work = os.path.join(fresh, "packages"), os.path.join(site, "work")
        os.mkdir(folder)
        os.mkdir(work)
        return _published(gather(wanted, aim, tool, Workplace(root, folder, work), means), folder, path)


def make_elsewhere(root: str, wanted: SetInputs, aim: Aim, tool: str | None, *, builds: bool = False) -> Offer:
    """Make a set for another host, which `aim` describes; returns the offer of it. Raises RankzeroError.

    `builds`: whether packages without a wheel are built here, which runs their code on the controller.

    The set is kept below `root`, so that an interrupted transfer needs no second download.
    """
    if not builds:
        only_data(wanted.recipe)
    path = packages_path(root, f"{wanted.key}-{aim.minor}-{aim.target.machine}-{aim.target.glibc[1]}")
    with _lock(root, os.path.basename(path)):
        manifest, damaged = _look(path, verify=True)
        if manifest is None or damaged:
            make(root, path, wanted, aim, Means(tool, controller=True, builds=builds))
    return Offer(path, file_sha256(os.path.join(path, MANIFEST)))


def _made(
    root: str, path: str, wanted: SetInputs, options: Parameters, request: PackagesRequest
) -> PackagesRecord | Needs:
    """The manifest of the new set, or what the controller must do. Raises RankzeroError."""
    if request.sent:
        with _unpacked(request.sent, path) as folder:
            return _taken(folder, path, wanted)
    if request.offer:
        if _sees(request.offer):
            return _taken(request.offer.folder, path, wanted)
        return Needs("the controller's set is not visible on this host")
    if absent(wanted.recipe.trees):
        return Needs("the project's own folders are not on this host", trees=True)
    means = Means(options.get("uv"), request.uv)
    if options.get("source"):
        return _from_source(root, path, wanted, options["source"], means)
    if options["download"] != "controller":
        try:
            return make(root, path, wanted, aim_of(wanted), replace(means, hasty=options["download"] == "auto"))
        except uv.Unreachable as error:
            if options["download"] == "head":
                raise
            reason = error.message
    else:
        reason = "download is controller"
    return Needs(reason, aim_of(wanted))


def _from_source(root: str, path: str, wanted: SetInputs, source: str, means: Means) -> PackagesRecord:
    """Import what was carried to this host: a set, an archive of one, or a folder of wheels for a uv.lock."""
    place = os.path.expanduser(os.path.expandvars(source))
    if os.path.isfile(place):
        with _unpacked(place, path) as folder:
            return _taken(folder, path, wanted)
    if os.path.isfile(os.path.join(place, MANIFEST)):
        return _taken(place, path, wanted)
    wheels = place if os.path.isdir(place) else None
    if wheels is None or not any(name.endswith(".whl") for name in os.listdir(wheels)):
        raise RankzeroError(
            f"source: {source} on this host is neither a set of packages (a folder with {MANIFEST}, or a .tar of one) "
            "nor a folder of wheels. Make one with this module where there is a network, and carry "
            "store_root/packages/KEY here."
        )
    if wanted.recipe.lock is None:
        raise RankzeroError(
            f"source: {source} contains wheels but no {MANIFEST}, and the project has no uv.lock, so it is "
            f"unknown which of "
            "them belong together and what they must contain. Run `uv lock` where there is a network, or carry a "
            "set that this module has made."
        )
    if wanted.kind == "cache":
        raise RankzeroError(
            f"source: {source} contains wheels; a cache cannot be made of them without their index. "
            "Use mode wheelhouse, or carry a set of mode cache."
        )
    return make(root, path, wanted, aim_of(wanted), replace(means, carried=wheels))


def _taken(source: str, path: str, wanted: SetInputs) -> PackagesRecord:
    """Publish the set at `source`, if it is the wanted one and all files are unchanged. Raises RankzeroError."""
    manifest = read_manifest(source)
    if manifest is None:
        raise RankzeroError(f"source: {source}/{MANIFEST} cannot be read: copy the set here again")
    if manifest["key"] != wanted.key:
        theirs = dict(manifest["inputs"])
        differ = [
            f"{name} (there {theirs.get(name)!r}, asked {value!r})"
            for name, value in wanted.inputs.items()
            if theirs.get(name) != value
        ]
        raise RankzeroError(
            f"source: {source} is not the requested set; differences: {'; '.join(differ)}. Carry "
            "the set of this project, or request the settings it was made with."
        )
    with fresh_folder(path) as fresh:
        folder = os.path.join(fresh, "packages")
        os.mkdir(folder)
        take_over(source, folder, manifest)
        return _published(manifest, folder, path)


def _published(manifest: PackagesRecord, folder: str, path: str) -> PackagesRecord:
    with open(os.path.join(folder, MANIFEST), "w", encoding="utf-8") as stream:
        json.dump(manifest, stream, indent=1, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    make_read_only(folder)
    sync_folder(folder)
    # Only a damaged set can have the name now, as we hold the lock.
    if os.path.lexists(path):
        remove(path)
    publish(folder, path)
    return manifest


def _look(path: str, *, verify: bool) -> tuple[PackagesRecord | None, list[str]]:
    """The manifest of a set and its defects (an empty list: none)."""
    manifest = read_manifest(path)
    if manifest is None:
        return None, [f"{MANIFEST} (missing, or damaged)"] if os.path.isdir(path) else []
    return manifest, problems(path, manifest) if verify else []


@contextmanager
def _lock(root: str, key: str) -> Iterator[None]:
    """Allow one builder of a set at a time."""
    with hold(os.path.join(root, "packages", f".{key}.lock"), _WAIT):
        yield


@contextmanager
def _unpacked(archive: str, path: str) -> Iterator[str]:
    """The folder of a set from a tar file, which may contain only plain names and files."""
    with fresh_folder(f"{path}.carried") as folder:
        with said_of(f"source: {archive}", "Copy it here again."):
            extraction.untar(archive, folder)
        # The archive may contain the set's folder or only its files.
        names = os.listdir(folder)
        yield os.path.join(folder, names[0]) if len(names) == 1 and MANIFEST not in names else folder


def _sees(offer: Offer) -> bool:
    """Whether the controller's set is visible here at its path: a shared file system, or the same machine."""
    try:
        return file_sha256(os.path.join(offer.folder, MANIFEST)) == offer.sha256
    except OSError:
        return False


def _absent(root: str, key: str, *, check_mode: bool) -> dict[str, Any]:
    path = packages_path(root, key)
    return {**take_away(PACKAGES, key, path, there=os.path.isdir(path), check_mode=check_mode), "damaged": []}


def _result(
    wanted: SetInputs,
    path: str,
    manifest: PackagesRecord | None,
    *,
    changed: bool,
    damaged: list[str] | None = None,
) -> dict[str, Any]:
    ref = PACKAGES.entry(wanted.key, path, manifest["digest"] if manifest else None)
    result: dict[str, Any] = {"changed": changed, "ref": ref, "damaged": damaged or []}
    if damaged:
        result["warnings"] = [f"{path} is damaged: {name_list(damaged)}. It is built again."]
    if manifest is not None:
        result["packages"] = dict(manifest)
    if changed:
        lines = "".join(f"{name} {version}\n" for name, version in sorted((manifest or {}).get("packages", {}).items()))
        before = "".join(f"damaged: {damaged_name}\n" for damaged_name in damaged or [])
        result["diff"] = difference(path, before, lines or path + "\n")
    return result
