# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a repository of the hub in the cache of a cluster present, verified and repaired, or absent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
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
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import fresh_folder, root_of, trouble
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
    label: str
    #: Their folder on this host; None where they come from the controller.
    folder: str | None = None


def ensure_cache(
    options: Parameters, given: JsonObject, *, check_mode: bool = False, meter: Meter | None = None
) -> ModuleResult:
    """Make the repository of the module's options present or absent. Raises RankzeroError.

    `given`: the module's request, a `HubRequest`. Returns `changed`, `ref`, `snapshot`, `repaired`, `diff`; `lacking`
    or `needs` instead where the controller must send something.
    """
    home = root_of(options["path"], "path", "Give the folder that the jobs have as HF_HOME, on shared storage.")
    where = repository(home, options["repo"], options["repo_type"], options["revision"])
    request = HubRequest.of(given)
    try:
        if options["state"] == "absent":
            return _absent(where, check_mode=check_mode)
        staging = _Staging(where, options, request, meter or Meter(), check_mode=check_mode)
        result = staging.ensure()
        return {**result, "warnings": staging.notes} if staging.notes else result
    except OSError as error:
        raise trouble(error, where.home) from error


class _Staging:
    """One repository that is made present, and what is known of it so far."""

    def __init__(
        self, where: Repository, options: Parameters, request: HubRequest, meter: Meter, *, check_mode: bool
    ) -> None:
        self.where, self.options, self.request = where, options, request
        self.meter, self.check_mode = meter, check_mode
        self.wanted = (tuple(options["include"]), tuple(options["exclude"]))
        self.notes: list[str] = []
        #: The manifest of the snapshot that is present, and {file: its defect}.
        self.present: Manifest | None = None
        self.broken: dict[str, str] = {}

    @property
    def damaged(self) -> Manifest | None:
        """The manifest of a snapshot that is present and damaged."""
        return self.present if self.broken else None

    def ensure(self) -> dict[str, Any]:
        """Return the module's result. Raises RankzeroError and OSError."""
        source = self._given()
        commit = source.commit if source else (None if self.options["update"] else current(self.where))
        known = read(self.where, commit) if commit else None
        if known and (known.wanted == self.wanted or source is not None):
            self._require(file.path for file in known.files)
            self.present, self.broken = verify(self.where, known, thorough=self.options["verify"])
            if not self.broken and current(self.where) == commit:
                if self.present != known and not self.check_mode:
                    write_manifest(self.where, self.present)
                return _result(self.where, self.present, changed=False)
        copied = self._copy_from_store(source)
        if copied is not None:
            return copied
        if source is None:
            return self._fetch_from_hub()
        if self.check_mode:
            return self._predict(self._manifest(source))
        if self.present and not self.broken and source.commit == self.present.commit:
            name(self.where, source.commit)  # another revision with the same files
            return _result(self.where, self.present, changed=True)
        return self._install(source)

    def _given(self) -> Source | None:
        """The files of `src`, here or on the controller; None if this host fetches from the hub."""
        folder: str | None = None
        if self.request.files is not None:
            files, origin = self.request.files, self.request.said
        elif self.options["src"] is not None:
            origin = folder = os.path.expanduser(self.options["src"])
            if not os.path.isdir(folder):
                raise RankzeroError(f"src: {folder} is not a folder on this host; remote_src requires one")
            files_by_path = {file.path: file for file in read_folder(folder)}
            files = tuple(files_by_path[path] for path in selected(sorted(files_by_path), *self.wanted))
        else:
            return None
        self._require(file.path for file in files)
        # A folder has no commit. Its content digest serves as one, so that the same content gets the same commit.
        commit = self.request.commit or tree_digest(files)[:40]
        revision = self.where.revision
        if COMMIT.fullmatch(revision) and revision != commit:
            raise RankzeroError(
                f"revision: {revision} is a commit, but the files are those of {commit}; name a branch or omit it"
            )
        return Source(commit, files, origin, folder)

    def _copy_from_store(self, source: Source | None) -> dict[str, Any] | None:
        """Copy the repository from a trusted store; None if no store has it. `source`: the files, if known already."""
        if self.options["update"] or (source is not None and source.folder is not None):
            return None
        contents = None if source is None else {(file.path, file.sha256) for file in source.files}

        def fits(manifest: Manifest) -> bool:
            if contents is None:
                return manifest.wanted == self.wanted
            return contents == {(file.path, file.sha256) for file in manifest.files}

        pinned = source or self.damaged
        commit = pinned.commit if pinned else None
        match = borrowed(trusted_stores(self.options), self.where, commit, fits, self.notes)
        if match is None:
            return None
        there, manifest = match
        self._require(file.path for file in manifest.files)
        copy = Source(manifest.commit, manifest.files, there.home, there.snapshot(manifest.commit))
        if self.check_mode:
            return self._predict(self._manifest(copy))
        try:
            return self._install(copy)
        except RankzeroError as error:  # a file there differs from its owner's manifest
            self.notes.append(not_taken(there, error.message))
            return None

    def _fetch_from_hub(self) -> dict[str, Any]:
        """Fetch from the hub on this host. Damaged files are fetched again from their commit."""
        where, damaged = self.where, self.damaged
        if self.check_mode:
            return _result(where, damaged, present=False, broken=self.broken)
        if self.options["download"] == "controller":
            return {"changed": False, "needs": {"commit": damaged.commit if damaged else None}}
        hub = Hub(self.options["python"] or "python3", self.options["token_file"])
        commit = damaged.commit if damaged else self._newest_commit(hub)
        before = read(where, commit)
        if before and before.wanted == self.wanted and not verify(where, before, thorough=self.options["verify"])[1]:
            changed = current(where) != commit  # an update was requested, and there was none
            name(where, commit)
            return _result(where, before, changed=changed)
        os.makedirs(where.ours, exist_ok=True)
        with hold(where.lock, _WAIT):
            # The folder's name is fixed, so that after a kill the library resumes with the missing files.
            folder = os.path.join(where.ours, f"{commit}.partial")
            self.meter.begin("fetching")
            hub.download(where, commit, folder, *((tuple(self.broken), ()) if damaged else self.wanted))
            files = damaged.files if damaged else tuple(sorted(read_folder(folder), key=lambda file: file.path))
            self.meter.begin("installing")
            made = install(where, folder, self._manifest(Source(commit, files, "hub")), ours=True)
            with contextlib.suppress(OSError):
                remove_tree(folder)
        return _result(where, made, before=before, broken=self.broken)

    def _newest_commit(self, hub: Hub) -> str:
        """The commit of the revision on the hub, if it has the required files. Raises RankzeroError."""
        commit, names = hub.list_files(self.where)
        self._require(selected(names, *self.wanted))
        return commit

    def _install(self, source: Source) -> dict[str, Any]:
        where, manifest = self.where, self._manifest(source)
        os.makedirs(where.ours, exist_ok=True)
        with hold(where.lock, _WAIT):
            if source.folder is not None:
                made = install(where, source.folder, manifest, ours=False)
            else:
                missing = lacking(where, source.files)
                if missing and self.request.archive is None:
                    paths = [file.path for file in missing]
                    return {"changed": False, "lacking": paths, "repaired": dict(self.broken)}
                with fresh_folder(os.path.join(where.ours, "arrived")) as folder:
                    if missing:
                        untar(str(self.request.archive), folder)
                    made = install(where, folder, manifest, ours=True)
        return _result(where, made, before=self.present, broken=self.broken)

    def _require(self, paths: Iterable[str]) -> None:
        require_files(paths, self.options["require"], self.where.name)

    def _manifest(self, source: Source) -> Manifest:
        where = self.where
        return Manifest(where.name, where.kind, source.commit, source.label, self.wanted, source.files)

    def _predict(self, manifest: Manifest) -> dict[str, Any]:
        """The result of check mode, where `manifest` would become present."""
        return _result(self.where, manifest, present=False, before=self.present, broken=self.broken)


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


def _result(
    where: Repository,
    manifest: Manifest | None,
    *,
    changed: bool = True,
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
    return difference(where.path, listing(before.files if before else ()), listing(after.files if after else ()))
