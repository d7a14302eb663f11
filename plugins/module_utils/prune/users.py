# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prune for several users as an administrator: a separate process for each user switches to that user.

Root would follow any link that a user has placed, and root has no rights on a file system with root_squash. A process
that has switched to the user has only that user's rights, wherever a link points.
"""

from __future__ import annotations

import json
import os
import pwd
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, whole

Prune = Callable[[], dict[str, Any]]


def accounts(names: Sequence[str]) -> list[pwd.struct_passwd]:
    """The accounts of these users. Raises RankzeroError."""
    if os.geteuid() != 0:
        raise RankzeroError("owners: requires root (become: true); omit it to prune your own files")
    chosen = []
    for name in dict.fromkeys(names):
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            raise RankzeroError(f"owners: {name!r} is not a user of this host") from None
        if account.pw_uid == 0:
            raise RankzeroError("owners: omit it to prune root's own files")
        chosen.append(account)
    return chosen


def as_user(account: pwd.struct_passwd, work: Prune) -> ModuleResult:
    """The result of `work` in a process that has switched to this user for good. Raises its RankzeroError."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer: dict[str, Any] = {}
        try:
            os.close(reading)
            _become(account)
            answer = {"result": work()}
        except RankzeroError as error:
            answer = {"error": error.message}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        finally:
            with os.fdopen(writing, "w", encoding="utf-8", errors="backslashreplace") as stream:
                json.dump(answer, stream)
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            text = whole(stream, "its answer", MOST_LIST_BYTES)
    except OSError as error:
        raise RankzeroError(f"{account.pw_name}: {error.filename} {error.strerror}") from error
    finally:
        os.waitpid(child, 0)
    known: dict[str, Any] = json.loads(text) if text else {"error": "its process was ended from outside"}
    if "error" in known:
        raise RankzeroError(f"{account.pw_name}: {known['error']}")
    return dict(known["result"])


def _become(account: pwd.struct_passwd) -> None:
    os.initgroups(account.pw_name, account.pw_gid)
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
    os.umask(0o022)
    os.chdir("/")
    os.environ.update(HOME=account.pw_dir, USER=account.pw_name, LOGNAME=account.pw_name)


def for_each(names: Sequence[str], work: Callable[[str], ModuleResult], note: Callable[[str], None]) -> ModuleResult:
    """The prunes of several users as one result. The others still run if some fail; raises RankzeroError then."""
    total: dict[str, Any] = {
        "changed": False,
        "removed": [],
        "bytes": 0,
        "swept": [],
        "kept": [],
        "lines": [],
        "diff": [],
    }
    failed = []
    for account in accounts(names):
        try:
            own = as_user(account, lambda name=account.pw_name: work(name))  # type: ignore[misc]
        except RankzeroError as error:
            failed.append(error.message)
            continue
        for sentence in own.pop("notes"):
            note(f"{account.pw_name}: {sentence}")
        total["changed"] |= own["changed"]
        total["bytes"] += own["bytes"]
        total["swept"] += own["swept"]
        total["lines"] += [f"{account.pw_name}: {line}" for line in own["lines"]]
        total["diff"] += [own["diff"]] if own["diff"] else []
        for name in ("removed", "kept"):
            total[name] += [{**item, "owner": account.pw_name} for item in own[name]]
    if failed:
        raise RankzeroError("\n".join(["the prune failed for:", *(f"  - {item}" for item in failed)]), **total)
    return total
