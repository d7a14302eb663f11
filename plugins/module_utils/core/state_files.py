# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write the files of a state root.

Files are read only if nobody but the owner (or root) could have written them. Files are written so that nobody else can
write them, regardless of the umask.

    STATE_ROOT/runs/NAME/KEY/GENERATION/...     STATE_ROOT/clusters, cache, sets ...

A state root belongs to one user. A state root that decides about launches (`own`) must belong to the reader. When
another user's runs are inspected (`of`), they are only data, and all of them must belong to that user. See
docs/trust.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import (
    Untrusted,
    is_private_group,
    user_name,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath

# Size limit in bytes for a file of the collection. A journal grows with its events and has its own limit.
MOST = 4 << 20
JOURNAL_BYTES = 16 << 20
# Times from 1970 to 2100, in epoch seconds.
LATEST = 4102444800.0
# RUN = STATE_ROOT/runs/NAME/KEY/GENERATION
_DEPTH = 4
# The file next to a sweep's arrays that lists the sweep's elements, for readers of its results.
SWEEP_RECORD = "sweep.json"
# The file of a run directory that lists whom to tell about the launch, and the folder of the state root that lists the
# launches with such a file about which there is still something to tell.
NOTIFY, TO_NOTIFY = "notify.json", "notify"
_LONGEST_NUMBER = 40
_JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10})?(?:\+[0-9]{1,6})?(?:\.[0-9]{1,10})?")


def of(state_root: str) -> Beneath:
    """Open a state root for inspection. All files read must belong to its owner. Raises `Untrusted`."""
    try:
        status = os.stat(state_root)
    except OSError:
        return Beneath(state_root, os.geteuid())
    owner = status.st_uid or os.geteuid()
    _check_links(state_root, owner)
    return Beneath(os.path.realpath(state_root), owner)


def own(state_root: str) -> Beneath:
    """Open a state root that decides what this user launches. Another user's is refused. Raises `Untrusted`."""
    root = of(state_root)
    if root.owner != os.geteuid():
        raise Untrusted(
            f"state_root: {state_root} belongs to {user_name(root.owner or 0)}, whose files would decide what "
            f"{user_name(os.geteuid())} launches. Name a folder of your own (launch_cluster.state_root)."
        )
    with contextlib.suppress(OSError), root.folder():
        pass
    return root


def of_run(run_dir: str) -> tuple[Beneath, str]:
    """Return (state root, path below it) for a run directory. Raises `Untrusted`."""
    parts = run_dir.split(os.sep)
    if len(parts) > _DEPTH and parts[-_DEPTH] == "runs":
        return of(os.sep.join(parts[:-_DEPTH]) or os.sep), os.path.join(*parts[-_DEPTH:])
    return of(os.path.dirname(run_dir)), os.path.basename(run_dir)


def is_foreign(run_dir: str) -> bool:
    """Return whether a run directory belongs to another user. Such a directory is read and never written."""
    return of_run(run_dir)[0].owner != os.geteuid()


def _check_links(path: str, owner: int) -> None:
    """Raise `Untrusted` if a link on the path belongs to anyone but root, `owner` or the reader."""
    place = os.sep
    for name in os.path.abspath(path).split(os.sep)[1:]:
        place = os.path.join(place, name)
        with contextlib.suppress(OSError):
            status = os.lstat(place)
            if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, owner, os.geteuid()):
                raise Untrusted(
                    f"state_root: {path} is reached over the link {place}, which belongs to "
                    f"{user_name(status.st_uid)}. Name the folder itself (launch_cluster.state_root)."
                )


def text(root: Beneath, relative: str, most: int = MOST) -> str:
    """Return a file's current text; "" if it cannot be read. Raises `Untrusted`."""
    try:
        return root.content(relative, most).decode("utf-8", "replace")
    except OSError:
        return ""


def document(root: Beneath, relative: str) -> JsonObject | None:
    """Return a file's JSON object; None if there is none. Raises `Untrusted`."""
    return json_object(text(root, relative))


def record_of_sweep(folder: str) -> JsonObject | None:
    """Return the record of a sweep's elements from its folder (STATE_ROOT/runs/NAME/.sweep-KEY), or None."""
    root, place = of_run(os.path.join(folder, "1"))
    return document(root, os.path.join(os.path.dirname(place), SWEEP_RECORD))


def json_object(content: str) -> JsonObject | None:
    """Parse a JSON object; None for anything else (half written, truncated in transfer, foreign, malicious)."""
    try:
        value = _DECODER.decode(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _integer(digits: str) -> int:
    # The time to parse an integer grows with the square of its digits.
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("no number of ours is as long")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)


def is_time(value: object) -> bool:
    """Return whether a value is a time in epoch seconds between 1970 and 2100."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LATEST


def is_count(value: object) -> bool:
    """Return whether a value from a file is an integer from 0 to a million. True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1_000_000


def is_job_id(value: object) -> bool:
    """Return whether a value is the id of a job, an array task, a component of a heterogeneous job, or a step."""
    return isinstance(value, str) and bool(_JOB_ID.fullmatch(value))


def make_folder(path: str) -> None:
    """Create a folder and its missing parents, not writable for group and others regardless of the umask.

    Raises OSError.
    """
    if path and not os.path.isdir(path):
        make_folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o755)


@contextlib.contextmanager
def closed_to_groups(folder: str) -> Iterator[None]:
    """Set the umask under which a job is submitted, for the duration of the context.

    A job inherits the submitter's umask and writes its claim and its verdict under it. If new files in `folder` belong
    to a group with several members, as in a project's folder, the group gets no write permission.
    """
    before = os.umask(0o022)
    with contextlib.suppress(OSError):
        status = os.stat(folder)
        group = status.st_gid if status.st_mode & stat.S_ISGID else os.getegid()
        os.umask(before | (0o002 if is_private_group(os.geteuid(), group) else 0o022))
    try:
        yield
    finally:
        os.umask(before)


def write(path: str, content: str, *, durably: bool = False) -> None:
    """Write `content` to a file by rename and create its folder. Nobody else can write the file. Raises OSError."""
    make_folder(os.path.dirname(path))
    replace_file(path, content, mode=0o644, durably=durably)


def create(path: str, content: str, *, durably: bool = False) -> None:
    """Create a new file with this content. Raises OSError, also if the file exists."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(content)
        if durably:
            stream.flush()
            os.fsync(stream.fileno())
