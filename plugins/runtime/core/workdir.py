# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks' working directory: writable and private to this run; what the code snapshot has at its top is linked in,
or the whole is copied. Standard library only. Also a program of its own, for a node that sees the code where the first
one does not.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys


def lay_out(work: str, code: str, artifact: str, copied: bool) -> None:
    """Fill the working directory. copied: with files of its own, which may be changed. Raises OSError."""
    (copy if copied else link)(work, code, artifact)


def link(work: str, code: str, artifact: str, inner: str = "") -> None:
    """Link what the snapshot has in its folder `inner` ("" or a path that ends in /). The folders above the artifact
    become real ones: the snapshot is shared and may not be written. An artifact that lies in the repository would be
    proof of nothing. Raises OSError.
    """
    for entry in sorted(os.listdir(os.path.join(code, inner))):
        name, source = inner + entry, os.path.join(code, inner + entry)
        if name == artifact:
            continue
        if artifact.startswith(f"{name}/") and os.path.isdir(source):
            os.makedirs(os.path.join(work, name), exist_ok=True)
            link(work, code, artifact, f"{name}/")
            continue
        with contextlib.suppress(FileExistsError):
            os.symlink(source, os.path.join(work, name))


def copy(work: str, code: str, artifact: str) -> None:
    """Copy the snapshot, less the artifact: for a program that writes wherever it likes beside its files. What is there
    stays, as an attempt before has left it. Raises OSError.
    """
    import shutil

    for folder, folders, files in os.walk(code):
        inner = os.path.relpath(folder, code)
        os.makedirs(os.path.join(work, inner), exist_ok=True)
        for entry in (*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))):
            source, name = os.path.join(folder, entry), os.path.normpath(os.path.join(inner, entry))
            target = os.path.join(work, name)
            if name == artifact or os.path.lexists(target):
                continue
            temporary = f"{target}.{os.getpid()}.tmp"
            shutil.copy2(source, temporary, follow_symlinks=False)
            if not os.path.islink(temporary):
                os.chmod(temporary, 0o755 if os.access(temporary, os.X_OK) else 0o644)
            os.replace(temporary, target)


def relink(work: str, before: str, now: str) -> None:
    """Lead the links to the code, into the snapshot `before` or a node's view, to folder `now`. Raises OSError."""
    view = re.compile(rf"/tmp/rankzero-{os.getuid()}-[^/]*/code/(?P<name>.+)")
    pending = [work]
    while pending:
        # Of a folder only its links and folders are kept: it may have a million files.
        kept = []
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            kept = [(entry.path, entry.is_symlink()) for entry in entries if entry.is_symlink() or entry.is_dir()]
        pending += [path for path, is_link in kept if not is_link]
        for path in [path for path, is_link in kept if is_link]:
            target = os.readlink(path)
            match = view.fullmatch(target)
            if before and target.startswith(f"{before}/"):
                name = target[len(before) + 1 :]
            elif match:
                name = match["name"]
            else:
                continue
            temporary = f"{path}.{os.getpid()}.link"
            os.symlink(os.path.join(now, name), temporary)
            os.replace(temporary, path)


if __name__ == "__main__":
    lay_out(os.path.join(sys.argv[1], "work"), sys.argv[2], sys.argv[3], copied=bool(sys.argv[4]))
