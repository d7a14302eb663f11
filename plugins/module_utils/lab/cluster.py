# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a lab: present, stopped, restarted, absent. Idempotent; one starter at a time; cleans up leftovers.

The record on disk (`lab.json`) is not proof: whether a lab runs is decided by its processes. A start or stop that was
killed leaves files and processes, and a reboot of the machine leaves files. Both are found by the lab's marks (see
processes.members) and removed before anything new is started.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
import signal
import stat
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import (
    agents,
    boot,
    control,
    library,
    profile,
    release,
    roots,
    slurmconf,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab, check
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import cgroups, processes, sharing
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.record import Record, load, save
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host

_PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sinfo": "slurm-client"}
_REALISTIC = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
_SITE = {"sshfs": "sshfs", "setpriv": "util-linux", "su": "login"}
_ACCOUNTING = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server", "mariadb-install-db": "mariadb-server"}


@dataclasses.dataclass
class Report:
    """What `apply` did: `repaired` names what was repaired, `was` and `now` are the lab's states, one word each.

    `before` and `after` are Slurm's configuration files as one text each, for a diff.
    """

    lab: Lab
    changed: bool
    was: str
    now: str
    before: str = ""
    after: str = ""
    repaired: list[str] = dataclasses.field(default_factory=list)
    features: dict[str, bool | str] = dataclasses.field(default_factory=dict)

    def results(self) -> dict[str, object]:
        """The results that the module returns."""
        return {
            "changed": self.changed,
            "was": self.was,
            "now": self.now,
            "repaired": self.repaired,
            "directory": self.lab.directory,
            "way": self.lab.way,
            "head": self.lab.path("bin", "head"),
            "shell": self.lab.path("bin", "sh"),
            "inventory": self.lab.path("inventory.yml"),
            "shared": self.lab.shared,
            "shared_inside": self.lab.shared_inside,
            "nodes": self.lab.node_names,
            "cluster_name": self.lab.cluster_name,
            "slurm": self.lab.slurm,
            "profile": self.lab.profile,
            "user": profile.USER if self.lab.realistic else "",
            "features": self.features,
            "diff": difference(
                self.lab.directory, f"state: {self.was}\n{self.before}", f"state: {self.now}\n{self.after}"
            ),
        }


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Lock the lab for one process at a time.

    The lock file is next to the lab's directory, because `absent` removes the directory. It is free again as soon as
    its holder dies.
    """
    path = f"{directory}.lock"
    while True:
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        # The previous holder may have removed the directory, or the file that was just opened.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
                    break
            os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


# ---- inspection -------------------------------------------------------------------------------------------------


def missing_packages(lab: Lab) -> list[str]:
    """Debian packages that this lab needs and that are missing, judged by their programs."""
    needed = dict(_REALISTIC) if lab.realistic else {}
    if not lab.root:
        needed.update(_PROGRAMS)
        if lab.accounting == "slurmdbd":
            needed.update(_ACCOUNTING)
        if lab.site:
            needed.update(_SITE)
    elif not roots.cached(release.RELEASES[lab.slurm]):
        needed["mmdebstrap"] = "mmdebstrap"
    path = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
    missing = {package for program, package in needed.items() if shutil.which(program, path=path) is None}
    if lab.site and not sharing.server_program(lab):
        missing.add("openssh-sftp-server")
    return sorted(missing)


def leftovers(lab: Lab) -> list[processes.Identity]:
    """Every process of this lab that is running now."""
    return processes.members(_marks(lab))


def _marks(lab: Lab) -> processes.Marks:
    return processes.Marks(lab.marker, agents.agent_program(lab), lab.directory)


def closed_parent(lab: Lab) -> str:
    """The directory above a realistic lab that other users cannot traverse; "" if there is none."""
    path = os.path.dirname(lab.directory) if lab.realistic else "/"
    while path != "/":
        if os.path.isdir(path) and not os.stat(path).st_mode & stat.S_IXOTH:
            return path
        path = os.path.dirname(path)
    return ""


def troubles(lab: Lab, host: Host) -> list[str] | None:
    """Agents and daemons that should run but do not; None if not even the supervisor runs."""
    try:
        supervisor = control.agent(host, agents.SUPERVISOR).services()
    except control.AgentGone:
        return None
    problems = [name for name, state in supervisor.items() if state["pid"] is None]
    if lab.realistic:
        for name in ["head", *lab.node_names]:
            if name not in problems:
                try:
                    states = control.agent(host, name).services()
                except control.AgentGone:
                    problems.append(name)
                    continue
                problems.extend(f"{service} on {name}" for service, state in states.items() if state["pid"] is None)
    return problems


# ---- changes ----------------------------------------------------------------------------------------------------


def apply(lab: Lab, state: str, check_mode: bool = False) -> Report:
    """Bring the lab into `state`; with `check_mode`, only report what would happen. Raises RankzeroError."""
    check(lab, os.getuid())
    if state in ("present", "restarted") and not check_mode:
        missing = missing_packages(lab)
        if missing:
            raise RankzeroError(
                f"lab_cluster: not installed: {', '.join(missing)}; role rankzero.slurm.lab_cluster installs them"
                f" (as root: apt-get install {' '.join(missing)})",
                missing_packages=missing,
            )
        closed = closed_parent(lab)
        if closed:
            raise RankzeroError(
                f"directory: {lab.directory!r} is not allowed: {closed} is closed to the users munge and slurm;"
                " choose another, or open it (chmod a+x)"
            )
    if check_mode:
        report = _judge(lab, state)
        report.features = profile.probe(lab)
        return report
    with locked(lab.directory):
        if os.path.isdir(_going(lab)):  # a removal that was killed
            remove_tree(_going(lab))
        report = _judge(lab, state)
        if report.changed:
            report.repaired = _change(lab, state, report.was)
        report.features = profile.probe(lab)
        if report.now == "absent":
            os.unlink(f"{lab.directory}.lock")
            with contextlib.suppress(OSError):  # not empty: other labs live there
                os.rmdir(os.path.dirname(lab.directory))
        return report


def _judge(lab: Lab, state: str) -> Report:
    """Find the lab's present state, and whether it is already the wanted one."""
    was = condition(lab)
    known = load(lab.directory)
    before = _configuration(known.lab, known.host) if known is not None else ""
    host = known.host if known is not None else None
    after = _configuration(lab, host or boot.settle_host(lab))
    if state == "present":
        return Report(lab, was != "running", was, "running", before, after)
    if state == "restarted":
        return Report(lab, True, was, "running", before, after)
    if state == "stopped":
        return Report(
            lab, was not in ("stopped", "absent"), was, "absent" if was == "absent" else "stopped", before, before
        )
    return Report(lab, was != "absent", was, "absent", before, "")


def _configuration(lab: Lab, host: Host) -> str:
    files = slurmconf.render(lab, host)
    return "".join(f"\n# {name}\n{files[name]}" for name in sorted(files))


def condition(lab: Lab) -> str:
    """absent | stopped | running | changed (runs with other options) | broken (only parts of it, or leftovers, run)."""
    known = load(lab.directory)
    problems = troubles(known.lab, known.host) if known is not None and known.ready else None
    if known is not None and problems is not None:
        if problems or not boot.nodes_up(known.lab):
            return "broken"
        return "running" if known.lab == lab else "changed"
    if leftovers(lab):
        return "broken"
    return "stopped" if os.path.isdir(lab.directory) else "absent"


def _change(lab: Lab, state: str, was: str) -> list[str]:
    known = load(lab.directory)
    if state == "present" and was == "broken" and known is not None and known.lab == lab and known.ready:
        problems = troubles(lab, known.host)
        # Nothing can be repaired without supervisor or head, nor when the controller is silent while all daemons run.
        if problems and "head" not in problems:
            boot.mend(lab, known.host)
            boot.wait_for_nodes(lab, known.host, lab.node_names)
            return problems
    # A root is built before anything is stopped: if it cannot be built, the lab keeps running as before.
    starting = state in ("present", "restarted")
    with roots.held(release.RELEASES[lab.slurm]) if lab.root and starting else contextlib.nullcontext():
        cleared = _stop(lab, known, graceful=state != "absent" and was != "broken")
        if state == "absent":
            _remove(lab, known)
        elif starting:
            _start(lab, known)
    return [f"{cleared} leftover processes"] if was == "broken" and cleared else []


def _start(lab: Lab, known: Record | None) -> None:
    host = boot.settle_host(lab)
    os.makedirs(lab.directory, exist_ok=True)
    if known is not None and (known.lab.way, known.lab.slurm) != (lab.way, lab.slurm):
        # Another way or release means other owners for every file. Slurm also cannot read state that is newer, or much
        # older, than itself. Only /shared belongs to the user and is kept.
        for name in ("state", "db", "etc", "log"):
            with contextlib.suppress(OSError):
                remove_tree(lab.path(name))
    save(Record(lab, host, False))
    boot.write_directory(lab, host)
    library.copy(lab)
    boot.start_agents(lab, host)
    boot.start_daemons(lab, host)
    boot.wait_for_nodes(lab, host, lab.node_names)
    save(Record(lab, host, True))


def _stop(lab: Lab, known: Record | None, graceful: bool) -> int:
    """End every process of the lab. Returns their number. `graceful`: controller and database save first."""
    before = leftovers(lab)
    if graceful and known is not None:
        _save_state(known.lab, known.host)
    processes.kill_all(_marks(lab))
    busy = cgroups.sweep(lab.group)
    if busy:
        raise RankzeroError(
            f"lab {lab.name}: control groups cannot be removed: {', '.join(busy)}; check their processes"
        )
    return len(before)


def _save_state(lab: Lab, host: Host) -> None:
    where = control.agent(host, "head" if lab.realistic else agents.SUPERVISOR)
    for service in ("slurmctld", "slurmdbd", "mariadbd"):
        with contextlib.suppress(RankzeroError, KeyError):
            if where.running(service):
                where.end(service, signal.SIGTERM, 20)


def _going(lab: Lab) -> str:
    return f"{lab.directory}.going"


def _remove(lab: Lab, known: Record | None) -> None:
    """Remove the directory and the lab's files outside it. Refuses while anything not of the lab is mounted there."""
    with open("/proc/self/mountinfo", encoding="utf-8") as stream:
        mounted = [line.split(" ")[4] for line in stream]
    below = [path for path in mounted if path == lab.directory or path.startswith(lab.directory + "/")]
    if below:
        raise RankzeroError(f"lab_cluster: {', '.join(below)} is mounted below {lab.directory}; unmount it, then retry")
    if os.path.isdir(lab.directory):
        # Renamed first: a directory that is only partly removed must never be mistaken for a stopped lab.
        os.rename(lab.directory, _going(lab))
        remove_tree(_going(lab))
    sockets = known.host.socket_directory if known is not None else lab.socket_directory(os.getuid())
    with contextlib.suppress(FileNotFoundError):
        entry = os.lstat(sockets)
        if stat.S_ISDIR(entry.st_mode) and entry.st_uid == os.getuid():
            remove_tree(sockets)
