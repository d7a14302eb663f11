# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a first job on a cluster should name, and which folders of this host its nodes share, seen by one small job.

Only a node can tell what it sees: a word of chance is written into each folder, and the job reads it there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import STATE_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import whoami
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.storage import (
    IN_MEMORY,
    ON_DISK,
    mount_of,
    mounted,
)

CLUSTER_SPEC: dict[str, JsonObject] = {
    **STATE_ARGUMENTS,
    "folders": {"type": "list", "elements": "path"},
}
#: Where sites keep what their nodes share, beside network file systems and the home.
USUAL = ("/scratch", "/work", "/shared", "/project", "/projects", "/lustre", "/gpfs", "/fsx", "/data", "/mnt/shared")
VARIABLES = ("SCRATCH", "WORK", "PROJECT")
#: Mounts of these types belong to the system. Of any other type that is not a disk, it is a network file system.
_OF_THE_SYSTEM = ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "bpf", "securityfs", "autofs")
MOST_FOLDERS = 24
#: How long the small job may wait for its nodes, and run.
QUEUE_SECONDS, RUN_SECONDS = 120, 60
# Prints the number of each folder in which this node reads the word and can write. The word is no secret.
_LOOK = (
    "n=0; word=$1; shift; for d; do n=$((n+1)); "
    'read -r seen < "$d/word" && [ "$seen" = "$word" ] && : > "$d/$SLURM_PROCID" && echo "$word $SLURM_PROCID $n"; '
    "done 2>/dev/null; true"
)


def proposal(description: Parameters) -> JsonObject:
    """What a job that may run anywhere must name, from the description of a cluster. None: nothing.

    `nodes`: two, where a job gets two. `max_time`: of its partition.
    """
    mine = description["mine"]
    accounts = list(dict.fromkeys(row["account"] for row in mine["associations"] if row.get("account")))
    account = None if mine["default_account"] or not accounts else accounts[0]
    open_to_me = [p for p in description["partitions"] if _open(p, mine, account or mine["default_account"])]
    chosen = next((p for p in open_to_me if p["default"]), next(iter(open_to_me), None))
    if chosen is None:
        return {"partition": None, "account": account, "nodes": 1, "gpus_per_node": 0, "max_time": None}
    return {
        "partition": None if chosen["default"] else chosen["name"],
        "account": account,
        "nodes": min(2, chosen["available_nodes"], chosen["max_nodes"] or 2),
        "gpus_per_node": chosen["gpus_per_node"],
        "max_time": chosen["max_time"],
    }


def _open(partition: Parameters, mine: Parameters, account: str | None) -> bool:
    """Whether a job of this user starts there, as far as the description says."""
    allowed, denied = (partition[name].split(",") for name in ("allow_accounts", "deny_accounts"))
    groups = partition["allow_groups"].split(",")
    return (
        partition["state"] == "up"
        and partition["available_nodes"] > 0
        and (allowed in ([""], ["ALL"]) or account in allowed)
        and account not in denied
        and (groups in ([""], ["ALL"]) or bool({*groups} & {*mine["groups"]}))
    )


def shared_folders(slurm: Slurm, given: Sequence[str], proposed: Parameters) -> list[JsonObject]:
    """The folders that this host and the nodes share and this user can write, the given ones first, then the home.

    Raises RankzeroError if the small job does not run.
    """
    word = secrets.token_hex(16)
    places = {path: place for path in _candidates(given) if (place := _made(path, word))}
    try:
        if not places:
            return []
        seen = _seen(slurm, word, list(places.values()), proposed)
        return [_row(path) for path, nodes in zip(places, seen) if nodes == proposed["nodes"]]
    finally:
        for place in places.values():
            with contextlib.suppress(OSError):
                remove_tree(place)


def _candidates(given: Sequence[str]) -> list[str]:
    """Folders that are there, by the same path on every node, each once."""
    home = os.path.expanduser("~")
    user = os.path.basename(home)
    others = (*IN_MEMORY, *ON_DISK, *_OF_THE_SYSTEM)
    network = [m.point for m in mounted() if m.kind not in others and not m.kind.startswith("fuse")]
    paths = [*given, home, *(os.environ[name] for name in VARIABLES if os.environ.get(name))]
    for top in (*USUAL, *network):
        own = [os.path.join(top, *words) for words in ((user,), ("users", user))]
        paths.append(next(filter(os.path.isdir, own), top))
    paths = [os.path.abspath(path) for path in paths if os.path.isabs(path)]
    return [path for path in dict.fromkeys(paths) if os.path.isdir(path) and path != "/"][:MOST_FOLDERS]


def _made(path: str, word: str) -> str:
    """A folder of one's own there that holds the word; empty if it cannot be written."""
    try:
        place = tempfile.mkdtemp(prefix=".rankzero-", dir=path)
        with open(os.path.join(place, "word"), "x", encoding="ascii") as stream:
            stream.write(f"{word}\n")
    except OSError:
        return ""
    return place


def _seen(slurm: Slurm, word: str, places: Sequence[str], proposed: Parameters) -> list[int]:
    """For each place the number of nodes that read the word and wrote. Raises RankzeroError."""
    name = f"rankzero-folders-{word[:8]}"
    options = [f"--{key}={proposed[key]}" for key in ("partition", "account") if proposed[key]]
    options += [f"--job-name={name}", f"--nodes={proposed['nodes']}", "--ntasks-per-node=1", "--cpus-per-task=1"]
    options += ["--time=2", f"--immediate={QUEUE_SECONDS}", "--chdir=/", "--input=none", "--quiet"]
    try:
        done = slurm.attempt(
            "srun", *options, "/bin/sh", "-c", _LOOK, "sh", word, *places, timeout=QUEUE_SECONDS + RUN_SECONDS, cwd="/"
        )
    finally:
        # An srun that was killed leaves its allocation to Slurm, which keeps it for a while.
        slurm.attempt("scancel", f"--name={name}", f"--user={whoami()[0]}", timeout=15)
    if done.rc:
        where = f"partition {proposed['partition'] or '(default)'}, account {proposed['account'] or '(default)'}"
        raise RankzeroError(
            f"a job of {proposed['nodes']} nodes that looks for shared folders did not run within "
            f"{QUEUE_SECONDS} s ({where}): {done.complaint}"
        )
    lines = {tuple(line.split()) for line in done.stdout.splitlines() if line.startswith(word)}
    return [len([line for line in lines if line[2:] == (str(number),)]) for number in range(1, len(places) + 1)]


def _row(path: str) -> JsonObject:
    info = os.statvfs(path)
    mount = mount_of(os.path.realpath(path), mounted())
    own = os.stat(path)
    return {
        "path": path,
        "home": os.path.realpath(path) == os.path.realpath(os.path.expanduser("~")),
        "own": own.st_uid == os.geteuid(),
        "filesystem": mount.kind if mount else "",
        "free_mib": info.f_bavail * info.f_frsize >> 20,
    }
