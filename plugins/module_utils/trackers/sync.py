# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uploads what wandb has written offline in the run directories, from a host that reaches its server.

wandb's exit code is 0 also where it has uploaded nothing. What counts is the file `*.wandb.synced`, which wandb creates
next to the file that it has uploaded. That file also makes a second upload unnecessary.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children, state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import recorded
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import final_reports
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import find_runs, one_run
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import STATE_ARGUMENTS, selection
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

ARGUMENTS: dict[str, Any] = {
    "launches": {"type": "list", "elements": "str", "default": []},
    **STATE_ARGUMENTS,
    "wandb": {"type": "path"},
    "api_key_file": {"type": "path", "no_log": False},
    "timeout": {"type": "int", "default": 600},
}
UPLOADED, PENDING, OPEN, EMPTY, SYNCED, FAILED = "uploaded", "pending", "open", "empty", "synced", "failed"
# A folder of one attempt: its name begins with the time of its start, so that names sort by it.
_FOLDER = re.compile(r"offline-run-\d{8}_\d{6}-[\w.-]{1,128}")
# A file with nothing but wandb's own header.
_HEADER_BYTES = 7
_INCOMPLETE = "ends with an incomplete record"
# Variables of the launch that say where its runs belong.
_NAMED = ("WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_PROJECT")
_LINES_SHOWN = 3


@dataclass
class Folder:
    """What one attempt has written offline. `file`: relative to the run directory."""

    run: RunDirectory
    file: str
    state: str = PENDING
    message: str = ""

    @property
    def path(self) -> str:
        """The folder that wandb is given."""
        return os.path.dirname(self.run.file(self.file))

    @property
    def marker(self) -> str:
        """The file that says that everything is uploaded, relative to the run directory."""
        return f"{self.file}.synced"

    def marked(self) -> bool:
        """Whether everything that is in the file is uploaded."""
        return self.run.changed(self.marker) >= self.run.changed(self.file) > 0

    def mark(self) -> None:
        """Record that everything in the file is uploaded, also where the clocks of two hosts are apart."""
        marker, written = self.run.file(self.marker), self.run.changed(self.file)
        with contextlib.suppress(FileExistsError):
            state_files.create(marker, "")
        if os.stat(marker).st_mtime < written:
            os.utime(marker, (written, written))

    def as_dict(self) -> ModuleResult:
        """As the module returns it."""
        return {"run_dir": self.run.path, "folder": self.path, "state": self.state, "message": self.message}


def sync(slurm: Slurm, options: Parameters, *, check_mode: bool) -> ModuleResult:
    """The result of module tracker_sync. Raises `RankzeroError`."""
    key = _key(options)
    folders: list[Folder] = []
    for run, own in zip(*_offline(slurm, options)):
        folders += own
        if check_mode or not any(folder.state == PENDING for folder in own):
            continue
        uploader = Uploader(_program(run, options), _environment(run, key), run.path, options["timeout"])
        for folder in own:
            if folder.state == PENDING:
                uploader.upload(folder)
            # Later steps of a run, uploaded first, would make its server drop the earlier ones.
            if folder.state == FAILED:
                break
    failed = [folder for folder in folders if folder.state == FAILED]
    done = UPLOADED if not check_mode else PENDING
    result = {
        "changed": any(folder.state == done for folder in folders),
        "folders": [folder.as_dict() for folder in folders],
        "lines": lines(folders),
    }
    if failed:
        raise RankzeroError(
            f"{len(failed)} of {len(folders)} folders were not uploaded; the first is {failed[0].path}: "
            f"{failed[0].message}. Run it again after the cause is removed: what is uploaded already is left out.",
            **result,
        )
    return result


def lines(folders: Sequence[Folder]) -> list[str]:
    """The same for people: one line for each folder that is not uploaded before."""
    shown = [folder for folder in folders if folder.state != SYNCED]
    rows = [f"{folder.state:<9} {folder.path}{': ' + folder.message if folder.message else ''}" for folder in shown]
    before = len(folders) - len(shown)
    return [printable(row, 400) for row in rows] + ([f"{before} uploaded before"] if before else [])


def _key(options: Parameters) -> str:
    """The key for wandb's server; empty where wandb finds it itself."""
    if not options.get("api_key_file"):
        return ""
    path = os.path.expanduser(str(options["api_key_file"]))
    try:
        key = named_text(path, "api_key_file").strip()
    except OSError as error:
        raise RankzeroError(f"api_key_file: {path} cannot be read: {error.strerror or error}") from error
    if not key:
        raise RankzeroError(f"api_key_file: {path} is empty; it must contain the API key of Weights & Biases")
    return key


def _offline(slurm: Slurm, options: Parameters) -> tuple[list[RunDirectory], list[list[Folder]]]:
    """The selected launches that have offline folders, and those folders in the order of their start."""
    root = str(options["state_root"])
    if options["launches"]:
        chosen = [one_run({**selection(launch), "state_root": root}) for launch in options["launches"]]
        runs = list({run.path: run for run in chosen}.values())
    else:
        runs = find_runs(os.path.expanduser(root))
    known = []
    for run in runs:
        # Others' launches are theirs to upload.
        if not run.foreign and (own := list(_folders(run))):
            known.append((run, own))
    reports = final_reports(slurm, [run for run, _own in known]) if known else []
    for (_run, own), launch in zip(known, reports):
        if not launch.completed and own[-1].state == PENDING:
            own[-1].state, own[-1].message = OPEN, "the launch has not ended"
    return [run for run, _own in known], [own for _run, own in known]


def _folders(run: RunDirectory) -> Iterator[Folder]:
    try:
        names = [name for name in run.names("wandb") if _FOLDER.fullmatch(name)]
    except (OSError, Untrusted):
        return
    for name in sorted(names):
        for file in run.names(f"wandb/{name}"):
            if not file.endswith(".wandb"):
                continue
            folder = Folder(run, f"wandb/{name}/{file}")
            if folder.marked():
                folder.state = SYNCED
            elif os.stat(run.file(folder.file)).st_size <= _HEADER_BYTES:
                folder.state, folder.message = EMPTY, "its attempt was killed before wandb wrote anything"
            yield folder


def _program(run: RunDirectory, options: Parameters) -> str:
    """The program wandb: as named, else that of the launch's environment, else the one in the PATH."""
    if options.get("wandb"):
        path = os.path.expanduser(str(options["wandb"]))
        if not os.access(path, os.X_OK) or os.path.isdir(path):
            raise RankzeroError(f"wandb: {path} is no program on this host; give the path of the program wandb")
        return path
    manifest = run.document("launch.json") or {}
    spec = manifest.get("spec")
    places: list[object] = [ref.path for ref in recorded(manifest.get("refs"))]
    # An environment of the site is no item of the store.
    named = spec.get("environment") if isinstance(spec, dict) else None
    places.append(named.get("path") if isinstance(named, dict) else None)
    environments = [f"{place}/bin/wandb" for place in places if isinstance(place, str) and place.startswith("/")]
    program = next((path for path in environments if os.access(path, os.X_OK)), None) or shutil.which("wandb")
    if program is None:
        raise RankzeroError(
            "wandb: neither the environment of the launch nor the PATH of this host has the program wandb; install "
            "it (pip install wandb), and give its path in the option wandb"
        )
    return program


def _environment(run: RunDirectory, key: str) -> dict[str, str]:
    """The environment of wandb: where the run belongs, as its launch was told, and the key."""
    variables = (run.document("launch.json") or {}).get("variables")
    rows = [row for row in (variables if isinstance(variables, list) else []) if isinstance(row, dict)]
    named = {str(row.get("name")): str(row.get("value")) for row in rows if row.get("name") in _NAMED}
    allowed = child_environment(os.environ, "WANDB_")
    kept = {name: value for name, value in allowed.items() if name not in ("WANDB_MODE", "WANDB_SILENT")}
    return {**kept, **named, **({"WANDB_API_KEY": key} if key else {})}


@dataclass
class Uploader:
    """The program wandb for the folders of one launch. `seconds`: what each folder may take."""

    program: str
    environment: Mapping[str, str]
    folder: str
    seconds: float

    def upload(self, folder: Folder) -> None:
        """Let wandb upload a folder, and set its state."""
        # A folder that has grown since its upload is uploaded again.
        before = folder.run.changed(folder.marker)
        again = ["--include-synced"] if before else []
        code, output = self._run(["sync", *self._appending, *again, folder.path], self.seconds)
        if code is None:
            folder.state = FAILED
            folder.message = f"wandb sync did not end within {self.seconds:.0f} s; can this host reach its server?"
        elif code == 0 and (folder.run.changed(folder.marker) > before or _INCOMPLETE in output):
            folder.state = UPLOADED
            if _INCOMPLETE in output:
                # All that a killed attempt has left is uploaded: a second upload would find no more.
                folder.message = "its attempt was killed: the last record is incomplete"
            folder.mark()
        else:
            told = [line.strip() for line in output.splitlines() if line.strip()][-_LINES_SHOWN:]
            shown = "; ".join(told).replace(self.environment.get("WANDB_API_KEY") or "\0", "***")
            folder.state = FAILED
            shown = printable(redactor_of(folder.run).text(shown), 600)
            folder.message = shown or f"wandb sync has uploaded nothing (exit code {code})"

    @functools.cached_property
    def _appending(self) -> list[str]:
        """Old releases of wandb add to a run only with this option."""
        return ["--append"] if "--append" in self._run(["sync", "--help"], 60)[1] else []

    def _run(self, words: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """(exit code, output) of wandb; None where it took too long. What it has started ends with it."""
        try:
            done = children.run([self.program, *words], self.environment, seconds=seconds, cwd=self.folder, joined=True)
        except children.Late as late:
            return None, late.out.decode("utf-8", "replace")
        except OSError as error:
            raise RankzeroError(f"wandb: {self.program} cannot be started: {error.strerror}") from error
        return done.returncode, done.stdout
