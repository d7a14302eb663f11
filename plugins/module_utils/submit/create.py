# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create a generation's folder with all its files and its intent, completely or not at all.

The folder is created under another name next to its final place, and renamed. Of two submitters only one succeeds, and
a kill at any moment leaves either a complete generation or none. A later submitter removes the incomplete folder of a
killed one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Callable

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import is_listed
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.module_utils.run import grants
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, names_of_key
from ansible_collections.rankzero.slurm.plugins.module_utils.run.secrets import sums
from ansible_collections.rankzero.slurm.plugins.module_utils.submit import secret_files
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request

# Seconds after which a later submitter removes the incomplete folder of a killed one.
LEFTOVER_SECONDS = 3600.0


def create(request: Request, target: RunDirectory, intend: Callable[[RunDirectory], None]) -> bool:
    """Create the generation, with its intent (`intend` records it).

    Returns False if another submitter was first. Raises RankzeroError if the folder cannot be written.
    """
    made = _made(request, target)
    try:
        intend(made)
        os.rename(made.path, target.path)
    except OSError as error:
        with contextlib.suppress(OSError):
            remove_tree(made.path)
        # A network file system may still report the name as missing from its cache, so the listing decides.
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY) or is_listed(target.path):
            return False
        raise _unwritable(target, error) from error
    return True


def renew(request: Request, target: RunDirectory, intend: Callable[[RunDirectory], None]) -> None:
    """Rewrite the files of a generation whose submission was lost: values outside the key may have changed."""
    made = _made(request, target)
    try:
        for name in made.names():
            if os.path.isfile(made.file(name)):
                os.replace(made.file(name), target.file(name))
        intend(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        with contextlib.suppress(OSError):
            remove_tree(made.path)


def _made(request: Request, target: RunDirectory) -> RunDirectory:
    """Create all files of a generation, in a folder with another name next to its place."""
    runs = request.runs_dir
    made = RunDirectory(os.path.join(runs, f".new-{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"))
    try:
        new = _make_folder_of_key(runs)
        os.mkdir(made.path, 0o755)
        os.mkdir(made.file("logs"), 0o755)
        # Check the folder first: files in a folder that others can write may be replaced at any time. One that this
        # submitter has just made, below folders that were checked when the launches there were looked up, is its own.
        for name in () if new else names_of_key(runs):
            # The incomplete folder may contain secrets.
            if name.startswith(".new-") and _age(os.path.join(runs, name)) > LEFTOVER_SECONDS:
                with contextlib.suppress(OSError):
                    remove_tree(os.path.join(runs, name))
        for name, text in request.files.items():
            state_files.create(made.file(name), with_generation(text, request.token, target.generation))
        if request.first:
            state_files.create(made.file(grants.FIRST), json.dumps(request.first))
        if state_files.NOTIFY in request.files:
            _list_for_messages(request, target)
        _write_secrets(request, made)
    except BaseException as error:
        with contextlib.suppress(OSError):
            remove_tree(made.path)
        if isinstance(error, OSError):
            raise _unwritable(target, error) from error
        raise
    return made


def _make_folder_of_key(runs: str) -> bool:
    """Create the folder of all generations of a key. Return whether this submitter created it. Raises OSError."""
    state_files.make_folder(os.path.dirname(runs))
    try:
        os.mkdir(runs, 0o755)
    except FileExistsError:
        return False
    return True


def _list_for_messages(request: Request, target: RunDirectory) -> None:
    """List the launch among those about which somebody is to be told, so that a timer need not search for it."""
    name = ".".join(target.path.split(os.sep)[-3:])
    state_files.make_folder(os.path.join(request.state_root, state_files.TO_NOTIFY))
    with contextlib.suppress(FileExistsError):
        state_files.create(os.path.join(request.state_root, state_files.TO_NOTIFY, name), "")


def _age(path: str) -> float:
    """Return the seconds since a folder was changed; 0 if it is gone, as after its submitter has renamed it."""
    try:
        return time.time() - os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _unwritable(target: RunDirectory, error: OSError) -> RankzeroError:
    return RankzeroError(
        f"state_root: cannot write the run directory {target.path}: {error.strerror or error}. Name a folder "
        "on shared storage that this user may write (launch_cluster.state_root)."
    )


def _write_secrets(request: Request, run: RunDirectory) -> None:
    """Write secrets.env. Beside it goes what finds the values in logs when they are gone."""
    lines = secret_files.lines_of(request.secrets_file, request.secret_files)
    if lines:
        known = sums.sums_of(sums.values_of(lines.decode("utf-8", "surrogateescape")))
        for file, content in ((sums.FILE, known.encode()), ("secrets.env", lines)):
            secret_files.write(run.file(file), content)


def differences(request: Request, run: RunDirectory, previous: RunDirectory | None) -> list[dict[str, str]]:
    """Return the difference of each file to the previous generation, in the format of Ansible's diff.

    The first generation of a key is compared with another launch, by the controller.
    """
    if previous is None:
        return []
    return [
        difference(
            previous.file(name),
            previous.text(name),
            with_generation(text, request.token, run.generation),
            run.file(name),
        )
        for name, text in request.files.items()
    ]
