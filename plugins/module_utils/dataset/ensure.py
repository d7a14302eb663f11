# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dataset in the store of a cluster: present, verified and repaired, or absent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset import expose, packing, stage
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.borrow import borrowed
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.layout import (
    PACKED,
    Manifest,
    Place,
    place_of,
    read_manifest,
    read_record,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Item, Parts
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.request import DatasetRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.base import Source
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.local import Local
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.select import (
    check,
    local_path,
    source_of,
    source_text,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.upload import Sent, append_piece
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.web import Web
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import DATASET
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import remove, trouble
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import hold
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File, listing, tree_digest
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import ready
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.background import follow
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

#: How long (seconds) to wait for another process that stages the same dataset.
_WAIT = 3600.0
#: The options that, besides the name, identify a dataset: its source and selection.
RECIPE = ("source", "src", "files", "sha256", "checksums", "revision", "include", "exclude")


def place_for(options: Parameters) -> Place:
    """The place of the dataset that the options of module `dataset` describe."""
    return place_of(options["store_root"], options["name"], {name: options[name] for name in RECIPE})


def run(options: Parameters, given: JsonObject, *, check_mode: bool = False) -> ModuleResult:
    """Run the module: in one call, or in steps for its action plugin. `given`: its request. Raises RankzeroError."""
    check(options)
    request = DatasetRequest.of(given)
    place = place_for(options)
    try:
        if request.entries:
            return {"changed": False, "taken": append_piece(place, request.piece, request.entries)}
        stores = ready(options, check_mode=check_mode)
        if options["state"] == "present":
            files, notes = request.files, list[str]()
            there = borrowed(stores, place, options, tree_digest(files) if files is not None else None, notes)
            if there:
                return _described(options, request, *there, notes)
        if check_mode or request.follow is None:
            return ensure_dataset(options, request, check_mode=check_mode)
        records = os.path.dirname(place.record)
        os.makedirs(records, exist_ok=True)
        asked = {**options, "request": replace(request, follow=None, again=False).arguments()}

        def work(meter: Meter) -> ModuleResult:
            return ensure_dataset(options, request, meter=meter)

        return follow(records, asked, request.follow, work, again=request.again)
    except OSError as error:
        raise trouble(error, place.home) from error


def ensure_dataset(
    options: Parameters,
    request: DatasetRequest | None = None,
    *,
    check_mode: bool = False,
    meter: Meter | None = None,
) -> ModuleResult:
    """Make the dataset of the module's options present or absent.

    Returns `changed`, `ref`, `dataset`, `repaired`, `moved`, `notes`, `diff`; `lacking` instead where the controller
    must send bytes. Raises RankzeroError.
    """
    meter, request = meter or Meter(), request or DatasetRequest()
    place = place_for(options)
    dest = _dest(options)
    try:
        if options["state"] == "absent":
            return _absent(place, dest, check_mode=check_mode)
        if check_mode:
            return _Run(place, options, request, meter, dest).inspect()
        os.makedirs(os.path.dirname(place.lock), exist_ok=True)
        with hold(place.lock, _WAIT):
            return _Run(place, options, request, meter, dest).go()
    except OSError as error:
        raise trouble(error, place.home) from error


def _dest(options: Parameters) -> expose.Dest | None:
    if options["dest"] is None:
        return None
    path = os.path.expanduser(os.path.expandvars(options["dest"]))
    if not os.path.isabs(path) or "$" in path:
        raise RankzeroError(
            f"dest: {options['dest']!r} is not an absolute path on the cluster (it expands to {path!r}). Give the path "
            "that the job expects."
        )
    return expose.Dest(os.path.normpath(path), options["dest_kind"] == "copy")


class _Run:
    """One call with state present."""

    def __init__(
        self,
        place: Place,
        options: Parameters,
        request: DatasetRequest,
        meter: Meter,
        dest: expose.Dest | None,
    ) -> None:
        self.place, self.options, self.request, self.meter, self.dest = place, options, request, meter, dest
        self.files = request.files
        self.wanted = stage.Selection()
        if self.files is None:
            include, exclude = tuple(options["include"]), tuple(options["exclude"])
            self.wanted = stage.Selection(include, exclude, options["sha256"], options["checksums"])
        self.record = read_record(place)
        self.before: Manifest | None = None
        self.broken: dict[str, str] = {}
        known = read_manifest(place, self.record.digest) if self.record else None
        if known:
            self.before, self.broken = stage.verify(place, known, thorough=options["verify"], meter=meter)
        self.fits = self.record is not None and self.record.key == place.key

    def _settled(self) -> Manifest | None:
        """The staged dataset if it is the wanted one, None otherwise. Only its damaged files are transferred then."""
        if self.before and self.files is not None:
            return self.before if tree_digest(self.files) == self.before.digest else None
        return self.before if self.fits and not self.options["update"] else None

    def inspect(self) -> ModuleResult:
        """Predict the changes. Uses no network, so what only the source knows stays unknown."""
        settled = self._settled()
        if settled:
            ready = self._ready(settled)
            return self._result(settled, changed=not ready, present=ready)
        return self._result(self._foretold(), changed=True, present=False)

    def _foretold(self) -> Manifest | None:
        options = self.options
        if self.files is not None:
            return Manifest(self.files)
        if options["source"] == "http" and options["sha256"] and not options["files"]:
            [name] = Web(options["src"], ()).names
            return Manifest((File(name, options["sha256"], 0),))
        if options["source"] != "cluster":
            return None
        source = Local(local_path(options["src"]))
        items = stage.wanted_items(source, self.wanted, None, self.meter)
        return Manifest(tuple(stage.read_source(source, items, self.meter)))

    def go(self) -> ModuleResult:
        """Stage the dataset. Raises OSError and RankzeroError."""
        settled = self._settled()
        if settled and not self.broken:
            self._use(self.place.tree(settled.digest))
            return self._finish(settled, self.record.stamps if self.record else {}, changed=False)
        os.makedirs(self.place.partial, exist_ok=True)
        self._use(self.place.partial)
        parts = Parts(os.path.join(self.place.partial, "parts"))
        source = source_of(self.options, self.request)
        items = (
            self._to_mend(source, settled) if settled else stage.wanted_items(source, self.wanted, parts, self.meter)
        )
        stamps = self.record.stamps if self.record and self.fits else {}
        known = stage.Staged(self.before, self.broken, stamps) if self.before else None
        staging = stage.Staging(self.place, source, parts, known, self.meter, repair=settled is not None)
        wanted = stage.need(staging, items)
        lacking = self._lacking(wanted)
        if isinstance(source, Sent) and lacking and not self.request.complete:
            return {"changed": False, "lacking": lacking, "notes": self.meter.notes}
        files, where, came = stage.bring(staging, wanted)
        if settled:
            mended = {file.path for file in files}
            files += [file for file in settled.files if file.path not in mended]
            came = {**stamps, **came}
        made = Manifest(tuple(sorted(files, key=lambda file: file.path)))
        self._use(self.place.tree(made.digest))
        same = self.before is not None and made.digest == self.before.digest
        written = stage.put_in_place(self.place, made, where, self.broken if same else self._wrong(made))
        result = self._finish(written, came, changed=not same or bool(self.broken))
        remove(self.place.partial)
        self._forget(self.place.partial)
        return result

    def _to_mend(self, source: Source, settled: Manifest) -> list[Item]:
        """The damaged files at the source; each must have the staged content. Raises RankzeroError."""
        known = {file.path: file for file in settled.files}
        source.expect(sorted(self.broken))
        items = {item.path: item for item in source.listing(lambda name: name in self.broken)}
        gone = sorted(set(self.broken) - items.keys())
        if gone:
            raise RankzeroError(
                f"src: {', '.join(gone[:8])} is damaged here, and {source.label} no longer has it, so it cannot be "
                "repaired; set update: true to take what the source has now"
            )
        return [replace(items[path], sha256=known[path].sha256) for path in sorted(items)]

    def _wrong(self, made: Manifest) -> dict[str, str]:
        """Defects of a tree that exists already: it belongs to another name, or its manifest is missing."""
        if not os.path.isdir(self.place.tree(made.digest)):
            return {}
        return stage.verify(self.place, made, thorough=True, meter=self.meter)[1]

    def _use(self, path: str) -> None:
        slot = uses.slot_of(path)
        if slot:
            uses.touch(slot)

    def _forget(self, path: str) -> None:
        slot = uses.slot_of(path)
        if slot:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(slot.mark)

    def _ready(self, manifest: Manifest) -> bool:
        """Whether files, names, copies and the packed file are as requested."""
        return (
            not self.broken
            and expose.is_named(self.place, manifest.digest)
            and (self.dest is None or self.dest.ready(self.place, manifest))
            and (not self.options["pack"] or packing.sound(self.place, manifest, thorough=self.options["verify"]))
        )

    def _finish(self, manifest: Manifest, stamps: Mapping[str, str], *, changed: bool) -> dict[str, Any]:
        """Do all remaining steps after the files are complete: pack, name, and copy or link."""
        place, dest = self.place, self.dest
        if self.options["pack"] and not packing.sound(place, manifest, thorough=self.options["verify"]):
            self.meter.begin("packing")
            manifest, changed = packing.pack(place, manifest, self.options["compression"]), True
        if changed or not expose.is_named(place, manifest.digest):
            expose.name(place, manifest.digest, stamps)
            changed = True
        if dest and not dest.ready(place, manifest):
            self.meter.begin("copying" if dest.copy else "linking")
            dest.make(place, manifest)
            changed = True
        if not changed and manifest != read_manifest(place, manifest.digest):
            stage.write_manifest(place, manifest)
        return self._result(manifest, changed=changed)

    def _lacking(self, wanted: stage.Transfer) -> list[tuple[str, int]]:
        """The files to transfer, each with the number of its bytes that are already here."""
        begun = {path: part.size for path, part in wanted.parts.items()}
        complete = {path for path, part in wanted.parts.items() if part.sha256}
        return [(item.path, begun.get(item.path, 0)) for item in wanted.lacking if item.path not in complete]

    def _result(self, manifest: Manifest | None, *, changed: bool, present: bool = True) -> dict[str, Any]:
        place = self.place
        digest = manifest.digest if manifest else None
        result: dict[str, Any] = {
            "changed": changed,
            "ref": reference(place, self.dest, digest, present=present),
            "moved": self.meter.moved,
            "notes": self.meter.notes,
        }
        if manifest:
            result["dataset"] = _described(self.options, self.request, place, manifest, [])["dataset"]
        if self.broken:
            result["repaired"] = dict(self.broken)
        if changed:
            after = manifest.files if manifest else ()
            result["diff"] = _diff(place, self.before.files if self.before else (), after)
        return result


def _described(
    options: Parameters, request: DatasetRequest, place: Place, manifest: Manifest, notes: list[str]
) -> dict[str, Any]:
    """The result for a dataset that is present and complete."""
    digest = manifest.digest
    return {
        "changed": False,
        "ref": reference(place, None, digest, present=True),
        "moved": 0,
        "notes": notes,
        "dataset": {
            "name": place.name,
            "source": str(request.said or source_text(options)),
            "folder": place.data(digest),
            "bytes": manifest.size,
            "files": len(manifest.files),
            "packed": f"{place.tree(digest)}/{PACKED}" if options["pack"] else None,
        },
    }


def reference(place: Place, dest: expose.Dest | None, digest: str | None, *, present: bool) -> ModuleResult:
    """The dataset as an entry of a launch's refs. `digest`: None until it is staged."""
    return DATASET.entry(place.key, dest.path if dest else place.link, digest, present=present)


def _absent(place: Place, dest: expose.Dest | None, *, check_mode: bool) -> dict[str, Any]:
    """Remove the name, and its files unless another name has the same content."""
    record = read_record(place)
    known = read_manifest(place, record.digest) if record else None
    there = record is not None or os.path.lexists(place.link) or os.path.isdir(place.partial)
    there = there or (dest is not None and dest.present(place))
    if there and not check_mode:
        os.makedirs(os.path.dirname(place.lock), exist_ok=True)
        with hold(place.lock, _WAIT):
            if dest:
                dest.drop(place)
            expose.unname(place)
            remove(place.partial)
            if record and not _others(place, record.digest):
                remove(place.tree(record.digest))
    return {
        "changed": there,
        "ref": reference(place, dest, record.digest if record else None, present=False),
        "moved": 0,
        "notes": [],
        "diff": _diff(place, known.files if known else (), ()) if there else {},
    }


def _others(place: Place, digest: str) -> bool:
    """Whether another name refers to the digest."""
    folder = os.path.dirname(place.record)
    names = [name[: -len(".json")] for name in os.listdir(folder) if name.endswith(".json")]
    return any(
        record is not None and record.digest == digest
        for record in (read_record(replace(place, name=name)) for name in names if name != place.name)
    )


def _diff(place: Place, before: tuple[File, ...], after: tuple[File, ...]) -> dict[str, str]:
    return difference(place.link, listing(before), listing(after))
