# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what Ansible packs for a module from one playbook to the next, in the folder that RANKZERO_TEST_PAYLOADS names.

Once a run, Ansible parses each file that a module imports, and packs it. The tests run hundreds of playbooks: each gets
what an earlier one of the same session has packed. And a node would compile each of these files again for every task:
what is kept has their bytecode besides. Nothing else changes: Ansible sends and executes it as ever, and a Python of
another version reads the source. The place depends on ansible-core and on every file of the collection that a module
may import: what was edited is packed anew (tests/integration/test_payloads.py).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import importlib
import importlib.util
import io
import marshal
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ansible import constants as C
from ansible import release
from ansible.executor import module_common
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: rankzero_payloads
type: notification
short_description: Keep packed modules for the next run of a test
description:
  - Keeps packed modules for the next run of a test.
"""

COLLECTION = "ansible_collections.rankzero.slurm"
#: The second word of a .pyc file: known by the hash of its source, which is not looked at again (PEP 552).
UNCHECKED_HASH = (1).to_bytes(4, "little")
#: The modules of a test's own playbook may differ from test to test under one name: they are not kept.
KEPT = (f"{COLLECTION}.plugins.modules.", "ansible.modules.")


def digest() -> str:
    """Changes with Ansible, Python, the place of the collection, and each file that a module of it may take along."""
    seen = hashlib.sha256(f"{release.__version__} {release.__file__} {sys.version}".encode())
    for root in importlib.import_module(f"{COLLECTION}.plugins").__path__:
        for room in ("modules", "module_utils"):
            for path in sorted(Path(root, room).rglob("*.py")):
                state = path.stat()
                seen.update(f"{path} {state.st_ino} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}\n".encode())
    return seen.hexdigest()[:32]


def payloads(folder: Path) -> Iterator[Path]:
    """The packed modules in a folder, without locks and unfinished files. Other users than the session's see none."""
    for path in folder.iterdir() if os.access(folder, os.R_OK | os.X_OK) else ():
        if path.name.startswith(KEPT) and not path.name.endswith((".lock", "-part")):
            yield path


def with_bytecode(packed: bytes) -> bytes:
    """A packed module in which each source has its bytecode beside it, where Python looks first."""
    archive, given = io.BytesIO(), io.BytesIO(base64.b64decode(packed))
    with zipfile.ZipFile(given) as source, zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            text = source.read(entry)
            target.writestr(entry, text)
            if entry.filename.endswith(".py"):
                code = marshal.dumps(compile(text, entry.filename, "exec", dont_inherit=True))
                head = importlib.util.MAGIC_NUMBER + UNCHECKED_HASH + importlib.util.source_hash(text)
                target.writestr(f"{entry.filename}c", head + code)
    return base64.b64encode(archive.getvalue())


def keep(payload: Path, kept: Path) -> None:
    """Others write the same at the same time: each file appears whole."""
    part = kept / f".{payload.name}.{os.getpid()}"
    # Before ansible-core 2.19, only the archive is kept.
    cached = getattr(module_common, "_CachedModule", None)
    if cached:
        module = cached.load(str(payload))
        dataclasses.replace(module, zip_data=with_bytecode(module.zip_data)).dump(str(part))
    else:
        part.write_bytes(with_bytecode(payload.read_bytes()))
    part.rename(kept / payload.name)


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core ships no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "rankzero_payloads"

    def v2_playbook_on_play_start(self, play: object) -> None:
        """Offer Ansible what is kept, where it looks before it packs a module."""
        kept = os.environ.get("RANKZERO_TEST_PAYLOADS")
        if not kept or hasattr(self, "kept"):
            return
        self.kept = Path(kept, digest())
        self.used = Path(C.DEFAULT_LOCAL_TMP, "ansiballz_cache")
        self.used.mkdir(exist_ok=True)
        for payload in payloads(self.kept):
            (self.used / payload.name).symlink_to(payload)

    def v2_playbook_on_stats(self, stats: object) -> None:
        """Keep what this run packed."""
        if not hasattr(self, "kept"):
            return
        # The folder of another user, or one that is gone with its session.
        with contextlib.suppress(OSError):
            self.kept.mkdir(exist_ok=True)
            for payload in payloads(self.used):
                if not payload.is_symlink():
                    keep(payload, self.kept)
