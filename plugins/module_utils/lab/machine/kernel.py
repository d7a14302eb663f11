# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few system calls that Python 3.9 does not offer: mount(2), pivot_root(2), setns(2), unshare(2), prctl(2)."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC = 4096, 16384
MNT_DETACH = 2
CLONE_NEWNET, CLONE_NEWCGROUP, CLONE_NEWNS = 0x40000000, 0x02000000, 0x00020000
NS_GET_MNTNS_ID = 0x8008B705  # ioctl_ns(2), since Linux 6.11
_PR_SET_CHILD_SUBREAPER = 36
# pivot_root has no wrapper in the C library.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "s390x": 217, "riscv64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError that names source and target."""
    arguments = [ctypes.c_char_p(text.encode() or None) for text in (source, target, kind, data)]
    result = _libc.mount(arguments[0], arguments[1], arguments[2], ctypes.c_ulong(flags), arguments[3])
    _checked(result, f"mount {kind or 'bind'} {source} on {target}")


def umount(target: str, flags: int = 0) -> None:
    """umount2(2)."""
    _checked(_libc.umount2(target.encode(), flags), f"umount {target}")


def pivot_root(new_root: str) -> None:
    """Make `new_root` (a mount point) the root of this mount namespace and drop the old one."""
    os.chdir(new_root)
    # "." on "." stacks the old root on top of the new one, so that no directory for it is needed: pivot_root(2).
    _checked(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), f"pivot_root {new_root}")
    umount(".", MNT_DETACH)
    os.chdir("/")


def setns(descriptor: int, kind: int) -> None:
    """Move this thread into the namespace of the file descriptor."""
    _checked(_libc.setns(descriptor, kind), "setns")


def unshare(kind: int) -> None:
    """Move into a new namespace of this kind."""
    _checked(_libc.unshare(kind), "unshare")


def eldest_mounts() -> None:
    """Enter a mount namespace that counts as older than any namespace created after it.

    A mount namespace's file can only be bind mounted in an older namespace; job_container/tmpfs needs that to keep a
    job's /tmp. Linux 6.18 compares ids to find the older one, and takes ids from a separate range for each CPU: the
    namespace is created on the CPU with the lowest ids.
    """
    allowed = os.sched_getaffinity(0)
    ages = {}
    try:
        for cpu in allowed:
            os.sched_setaffinity(0, {cpu})
            unshare(CLONE_NEWNS)
            descriptor = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            try:
                ages[struct.unpack("Q", fcntl.ioctl(descriptor, NS_GET_MNTNS_ID, bytes(8)))[0]] = cpu
            except OSError:  # an older kernel has one range for all CPUs
                return
            finally:
                os.close(descriptor)
        os.sched_setaffinity(0, {ages[min(ages)]})
        unshare(CLONE_NEWNS)
    finally:
        os.sched_setaffinity(0, allowed)


def become_subreaper() -> None:
    """Make orphaned descendants children of this process: PID 1 of the machine may not reap them."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")
