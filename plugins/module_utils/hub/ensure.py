# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a repository of the hub in the cache of a cluster present, verified and repaired, or absent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.borrow import borrowed, not_taken
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.fetch import Hub
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.install import (
    install,
    lacking,
    name,
    read_folder,
    require_files,
    uninstall,
    write_manifest,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.layout import COMMIT, Repository, repository
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.manifest import (
    HubRequest,
    Manifest,
    current,
    facts,
    read,
    verify,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import untar
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import fresh_folder, trouble
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import hold
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File, listing, selected, tree_digest
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import trusted_stores
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

#: How long (seconds) to wait for another process that stages the same repository: enough for a large model.
_WAIT = 3600.0


@dataclass(frozen=True)
class Source:
    """Files for a snapshot: the commit, the files, and their source as text."""

    commit: str
    files: tuple[File, ...]
    said: str
    #: Their folder on this host; None where they come from the controller.
    folder: str | None = None


def ensure_cache(
    options: Parameters, given: JsonObject, *, check_mode: bool = False, meter: Meter | None = None
) -> ModuleResult:
    """Make the repository of the module's options present or absent. Raises RankzeroError.

    `given`: the module's request, a `HubRequest`. Returns `changed`, `ref`, `snapshot`, `repaired`, `diff`; `lacking`
    or `needs` instead where the controller must send something.
    """
    where = repository(home_of(options["path"]), options["repo"], options["repo_type"], options["revision"])
    request = HubRequest.of(given)
    try:
        if options["state"] == "absent":
            return _absent(where, check_mode=check_mode)
        notes: list[str] = []
        result = _present(where, options, request, notes, meter or Meter(), check_mode=check_mode)
        return {**result, "warnings": notes} if notes else result
    except OSError as error:
        raise trouble(error, where.home) from error


def home_of(path: str) -> str:
    """The option `path` as an absolute path of this host. Raises RankzeroError."""
    home = os.path.expanduser(os.path.expandvars(path))
    if not os.path.isabs(home) or "$" in home:
        raise RankzeroError(
            f"path: {path!r} is not an absolute path on the cluster (it expands to {home!r}). Give the folder that the "
            "jobs have as HF_HOME, on shared storage."
        )
    return os.path.normpath(home)


def _present(
    where: Repository,
    options: Mapping[str, Any],
    request: HubRequest,
    notes: list[str],
    meter: Meter,
    *,
    check_mode: bool,
) -> dict[str, Any]:
    wanted = (tuple(options["include"]), tuple(options["exclude"]))
    source = _given(where, options, request, wanted)
    commit = source.commit if source else (None if options["update"] else current(where))
    known = read(where, commit) if commit else None
    if known and known.wanted != wanted and source is None:
        known = None
    broken: dict[str, str] = {}
    if known:
        require_files((file.path for file in known.files), options["require"], where.name)
        seen, broken = verify(where, known, thorough=options["verify"])
        if not broken and current(where) == commit:
            if seen != known and not check_mode:
                write_manifest(where, seen)
            return _result(where, seen, changed=False)
    taken = _from_store(where, options, source, known if broken else None, broken, notes, check_mode=check_mode)
    if taken is not None:
        return taken
    if source is None:
        return _from_hub(where, options, known if broken else None, broken, meter, check_mode=check_mode)
    if check_mode:
        return _result(
            where, _manifest(where, source, wanted), changed=True, present=False, before=known, broken=broken
        )
    if source.commit == (known.commit if known else None) and not broken:
        name(where, source.commit)  # another revision with the same files
        return _result(where, known, changed=True)
    return _install(where, options, request, source, known, broken)


def _given(
    where: Repository, options: Mapping[str, Any], request: HubRequest, wanted: tuple[tuple[str, ...], ...]
) -> Source | None:
    """The files of `src`, here or on the controller; None if this host fetches from the hub. Raises RankzeroError."""
    if request.files is not None:
        files = request.files
        origin, here = request.said, None
    elif options["src"] is not None:
        folder = os.path.expanduser(options["src"])
        if not os.path.isdir(folder):
            raise RankzeroError(f"src: {folder} is not a folder on this host; remote_src requires one")
        files_by_path = {file.path: file for file in read_folder(folder)}
        files = tuple(files_by_path[path] for path in selected(sorted(files_by_path), *wanted))
        origin, here = folder, folder
    else:
        return None
    require_files((file.path for file in files), options["require"], where.name)
    # A folder has no commit. Its content digest serves as one, so that the same content gets the same commit.
    commit = request.commit or tree_digest(files)[:40]
    if COMMIT.fullmatch(where.revision) and where.revision != commit:
        raise RankzeroError(
            f"revision: {where.revision} is a commit, but the files are those of {commit}; name a branch or omit it"
        )
    return Source(commit, files, origin, here)


def _from_store(
    where: Repository,
    options: Mapping[str, Any],
    source: Source | None,
    known: Manifest | None,
    broken: Mapping[str, str],
    notes: list[str],
    *,
    check_mode: bool,
) -> dict[str, Any] | None:
    """Copy the repository from a trusted store; None if no store has it.

    `source`: the files, if they are known already; `known`: the manifest of a damaged snapshot that is present.
    """
    if options["update"] or (source is not None and source.folder is not None):
        return None
    wanted = (tuple(options["include"]), tuple(options["exclude"]))
    contents = None if source is None else {(file.path, file.sha256) for file in source.files}

    def fits(manifest: Manifest) -> bool:
        if contents is None:
            return manifest.wanted == wanted
        return contents == {(file.path, file.sha256) for file in manifest.files}

    pinned = source or known
    match = borrowed(trusted_stores(options), where, pinned.commit if pinned else None, fits, notes)
    if match is None:
        return None
    there, manifest = match
    require_files((file.path for file in manifest.files), options["require"], where.name)
    taken = Source(manifest.commit, manifest.files, there.home, there.snapshot(manifest.commit))
    if check_mode:
        after = _manifest(where, taken, wanted)
        return _result(where, after, changed=True, present=False, before=known, broken=broken)
    try:
        return _install(where, options, HubRequest(), taken, known, broken)
    except RankzeroError as error:  # a file there differs from its owner's manifest
        notes.append(not_taken(there, error.message))
        return None


def _install(
    where: Repository,
    options: Mapping[str, Any],
    request: HubRequest,
    source: Source,
    before: Manifest | None,
    broken: Mapping[str, str],
) -> dict[str, Any]:
    wanted = (tuple(options["include"]), tuple(options["exclude"]))
    os.makedirs(where.ours, exist_ok=True)
    with hold(where.lock, _WAIT):
        if source.folder is not None:
            made = install(where, source.folder, _manifest(where, source, wanted), ours=False)
        else:
            missing = lacking(where, source.files)
            if missing and request.archive is None:
                return {"changed": False, "lacking": [file.path for file in missing], "repaired": dict(broken)}
            with fresh_folder(os.path.join(where.ours, "arrived")) as folder:
                if missing:
                    untar(str(request.archive), folder)
                made = install(where, folder, _manifest(where, source, wanted), ours=True)
    return _result(where, made, changed=True, before=before, broken=broken)


def _from_hub(
    where: Repository,
    options: Mapping[str, Any],
    known: Manifest | None,
    broken: Mapping[str, str],
    meter: Meter,
    *,
    check_mode: bool,
) -> dict[str, Any]:
    """Fetch from the hub on this host. Damaged files are fetched again from their commit."""
    wanted = (tuple(options["include"]), tuple(options["exclude"]))
    if check_mode:
        return _result(where, known, changed=True, present=False, broken=broken)
    commit = known.commit if known else None
    if options["download"] == "controller":
        return {"changed": False, "needs": {"commit": commit}}
    hub = Hub(options["python"] or "python3", options["token_file"])
    commit = commit or _looked_up(hub, where, options)
    before = read(where, commit)
    if before and before.wanted == wanted and not verify(where, before, thorough=options["verify"])[1]:
        changed = current(where) != commit  # an update was requested, and there was none
        name(where, commit)
        return _result(where, before, changed=changed)
    os.makedirs(where.ours, exist_ok=True)
    with hold(where.lock, _WAIT):
        # The folder's name is fixed, so that after a kill the library resumes with the missing files.
        folder = os.path.join(where.ours, f"{commit}.partial")
        meter.begin("fetching")
        hub.download(where, commit, folder, *((tuple(broken), ()) if known else wanted))
        files = known.files if known else tuple(sorted(read_folder(folder), key=lambda file: file.path))
        source = Source(commit, files, "hub")
        meter.begin("installing")
        made = install(where, folder, _manifest(where, source, wanted), ours=True)
        with contextlib.suppress(OSError):
            remove_tree(folder)
    return _result(where, made, changed=True, before=before, broken=broken)


def _looked_up(hub: Hub, where: Repository, options: Mapping[str, Any]) -> str:
    """The commit of the revision, if it has the required files. Raises RankzeroError."""
    commit, names = hub.look(where)
    require_files(selected(names, options["include"], options["exclude"]), options["require"], where.name)
    return commit


def _absent(where: Repository, *, check_mode: bool) -> dict[str, Any]:
    commit = current(where)
    known = read(where, commit) if commit else None
    if known and not check_mode:
        with hold(where.lock, _WAIT):
            uninstall(where, known)
    return {
        "changed": known is not None,
        "ref": _ref(where, known, present=False),
        "diff": _diff(where, known, None) if known else {},
    }


def _manifest(where: Repository, source: Source, wanted: tuple[Sequence[str], ...]) -> Manifest:
    include, exclude = (tuple(patterns) for patterns in wanted)
    return Manifest(where.name, where.kind, source.commit, source.said, (include, exclude), source.files)


def _result(
    where: Repository,
    manifest: Manifest | None,
    *,
    changed: bool,
    present: bool = True,
    before: Manifest | None = None,
    broken: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    result: dict[str, Any] = {"changed": changed, "ref": _ref(where, manifest, present=present)}
    if manifest:
        result["snapshot"] = facts(manifest, where)
    if broken:
        result["repaired"] = dict(broken)
    if changed:
        result["diff"] = _diff(where, before, manifest)
    return result


def _ref(where: Repository, manifest: Manifest | None, *, present: bool) -> dict[str, Any]:
    return {
        "kind": "hub",
        "key": hashlib.sha256(json.dumps([where.kind, where.name, where.revision]).encode()).hexdigest(),
        "path": where.snapshot(manifest.commit) if manifest else where.path,
        "digest": manifest.digest if manifest else None,
        "present": present and manifest is not None,
    }


def _diff(where: Repository, before: Manifest | None, after: Manifest | None) -> dict[str, str]:
    return {
        "before_header": where.path,
        "after_header": where.path,
        "before": listing(before.files if before else ()),
        "after": listing(after.files if after else ()),
    }
