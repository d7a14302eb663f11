# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a state root: read only where nobody but its owner (or root) could have written them, and written so
that nobody else can, whatever the umask.

    STATE_ROOT/runs/NAME/KEY/GENERATION/...     STATE_ROOT/clusters, cache, sets ...

A state root belongs to one user. What decides over launches (`own`) must be the reader's own; looking at another user's
runs (`of`) is looking at data, all of which must be that user's. docs/trust.md has the whole of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted, user_name
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath, is_private_group

# No file of ours has more bytes. A journal grows with its events.
MOST = 4 << 20
JOURNAL_BYTES = 16 << 20
# Times from 1970 to 2100, in epoch seconds.
LATEST = 4102444800.0
# RUN = STATE_ROOT/runs/NAME/KEY/GENERATION
_DEPTH = 4
# Beside the arrays of a sweep: which elements it has, for those who read its results.
SWEEP_RECORD = "sweep.json"
_LONGEST_NUMBER = 40
_JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10})?(?:\+[0-9]{1,6})?(?:\.[0-9]{1,10})?")


def of(state_root: str) -> Beneath:
    """A state root to look at: all that is read must be its owner's. Raises `Untrusted`."""
    try:
        status = os.stat(state_root)
    except OSError:
        return Beneath(state_root, os.geteuid())
    owner = status.st_uid or os.geteuid()
    _check_links(state_root, owner)
    return Beneath(os.path.realpath(state_root), owner)


def own(state_root: str) -> Beneath:
    """A state root that decides what this user launches: another user's is refused. Raises `Untrusted`."""
    found = of(state_root)
    if found.owner != os.geteuid():
        raise Untrusted(
            f"state_root: {state_root} belongs to {user_name(found.owner or 0)}, whose files would decide what "
            f"{user_name(os.geteuid())} launches. Name a folder of your own (launch_cluster.state_root)."
        )
    with contextlib.suppress(OSError), found.folder():
        pass
    return found


def of_run(run_dir: str) -> tuple[Beneath, str]:
    """(state root, path below it) of a run directory. Raises `Untrusted`."""
    parts = run_dir.split(os.sep)
    if len(parts) > _DEPTH and parts[-_DEPTH] == "runs":
        return of(os.sep.join(parts[:-_DEPTH]) or os.sep), os.path.join(*parts[-_DEPTH:])
    return of(os.path.dirname(run_dir)), os.path.basename(run_dir)


def is_foreign(run_dir: str) -> bool:
    """Whether a run directory is another user's: then it may be read, and nothing is written there."""
    return of_run(run_dir)[0].owner != os.geteuid()


def _check_links(path: str, owner: int) -> None:
    """Raises `Untrusted` where a link on the way to a folder is neither root's, nor its owner's, nor the reader's."""
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


def text(found: Beneath, relative: str, most: int = MOST) -> str:
    """A file's text as it is now; "" where there is none that can be read. Raises `Untrusted`."""
    try:
        return found.whole(relative, most).decode("utf-8", "replace")
    except OSError:
        return ""


def document(found: Beneath, relative: str) -> JsonObject | None:
    """A file's JSON object; None where there is none. Raises `Untrusted`."""
    return json_object(text(found, relative))


def record_of_sweep(folder: str) -> JsonObject | None:
    """What a sweep's folder (STATE_ROOT/runs/NAME/.sweep-KEY) says of its elements; None where it says nothing."""
    found, place = of_run(os.path.join(folder, "1"))
    return document(found, os.path.join(os.path.dirname(place), SWEEP_RECORD))


def json_object(content: str) -> JsonObject | None:
    """A JSON object; None for anything else (half written, torn by a connection, not ours, or made to keep us busy)."""
    try:
        found = json.loads(content, parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _integer(digits: str) -> int:
    # Reading digits takes time with their square.
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("no number of ours is as long")
    return int(digits)


def is_time(value: object) -> bool:
    """Whether this is a moment in epoch seconds."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LATEST


def is_count(value: object, most: int = 1_000_000) -> bool:
    """Whether a value from a file is an integer from 0 to `most`. True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def is_job_id(value: object) -> bool:
    """Whether this is the id of a job, of a task of an array, of a component, or of a step."""
    return isinstance(value, str) and bool(_JOB_ID.fullmatch(value))


def make_folder(path: str) -> None:
    """Make a folder and those above it: no group and nobody else gets the right to write, whatever the umask. Raises
    OSError.
    """
    if path and not os.path.isdir(path):
        make_folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o755)


@contextlib.contextmanager
def closed_to_groups(folder: str) -> Iterator[None]:
    """A job inherits the umask of who submits it, and writes its claim and its verdict under it. Where new files in its
    folder are those of a group of several users, as in a project's folder, the group gets no right to write them.
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
    """Make a file hold `content`, by rename; its folder is made. Nobody else may write it. Raises OSError."""
    make_folder(os.path.dirname(path))
    temporary = f"{path}.{os.getpid()}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    create(temporary, content, durably=durably)
    os.replace(temporary, path)


def create(path: str, content: str, *, mode: int = 0o644, durably: bool = False) -> None:
    """A new file with that content. Raises OSError, also where the name is taken."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(content)
        if durably:
            stream.flush()
            os.fsync(stream.fileno())
