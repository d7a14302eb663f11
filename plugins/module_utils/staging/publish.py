# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a small set of text files in place as one directory, whole or not at all."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.fresh import place


def publish_files(directory: str, files: Mapping[str, str]) -> bool:
    """Create `directory` with `files` (name -> text). False when it is there already: same name, same content."""
    if os.path.isdir(directory):
        return False
    temporary = f"{directory}.{socket.gethostname()}-{os.getpid()}-{time.time_ns()}.tmp"
    try:
        os.makedirs(temporary)
        for name, text in files.items():
            with open(os.path.join(temporary, name), "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
        os.rename(temporary, directory)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if os.path.isdir(directory):
            return False
        raise RankzeroError(
            f"state_root: cannot write {directory}: {error.strerror or error}. Name a folder on shared storage that "
            "this user may write (launch_cluster.state_root)."
        ) from error
    return True


def write_text(path: str, text: str, *, check_mode: bool = False) -> dict[str, object]:
    """Make the file `path` hold `text`, by rename. Returns changed, path and diff as a module does."""
    try:
        with open(path, encoding="utf-8") as stream:
            before = stream.read()
    except FileNotFoundError:
        before = ""
    except OSError as error:
        raise RankzeroError(f"path: {path} cannot be read: {error.strerror}") from error
    changed = before != text
    if changed and not check_mode:
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.replace(temporary, path)
        except OSError as error:
            raise RankzeroError(f"path: {path} cannot be written: {error.strerror}; its folder must exist") from error
    return {
        "changed": changed,
        "path": path,
        "diff": {"before_header": path, "after_header": path, "before": before, "after": text} if changed else {},
    }


def write_durably(path: str, content: str) -> None:
    """Make the file `path` hold `content`, also after a crash, by rename; its folder is made. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    own = f"{path}.{place()}-{os.getpid()}.incomplete"
    with open(own, "w", encoding="utf-8") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(own, path)
