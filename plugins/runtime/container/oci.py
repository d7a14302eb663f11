# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a program of a Slurm task inside an OCI image, by crun, in an ordinary step.

    oci.py --image IMAGE --scratch FOLDER [--bind SOURCE:TARGET[:FLAGS] ...] [--pwd DIR] [--home] [--writable]
           [--remap-root] [--nvidia] -- PROGRAM [ARG ...]

IMAGE is a folder (an OCI bundle or a root) or a squashfs file.

One container for a node and step, which all its tasks share, as pyxis has it. The first task of the node lets crun make
it around a shell that only waits; every task then enters its namespaces and *becomes* the program. So signals and exit
codes arrive as without a container, Slurm's cgroups and devices stand, and nothing is left to be cleared away: what
crun writes lies in a file system in memory which nobody but the container sees, and which ends with it.

The image is never written: an overlay lies over it, in the same memory. Ordinary users get user namespaces, in which
they are themselves (or root, with --remap-root). Standard library only; Python >= 3.9.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import socket
import struct
import sys
import time

# What lies beside this file is of the same bundle, which nobody may write.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from container import rootfs, squashfs  # noqa: E402
from container.rootfs import DEFAULT_PATH, Failure, log_line, tool_environment  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from container.squashfs import Served

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_UNBINDABLE, MS_SLAVE = 0x1000, 0x4000, 0x20000, 0x80000
# Once a node's container is there its other tasks join at once; an image on a slow network takes longer.
JOIN_SECONDS = 300.0
POLL_SECONDS = 0.05
FAILED = 78

libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> None:
    """A function of libc that returns 0, or OSError."""
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    call("mount", *words, ctypes.c_ulong(flags), None if data is None else os.fsencode(data))


def configuration(options: argparse.Namespace, merged: str, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    """config.json of the container that the tasks share. `merged`: its root."""
    uid, gid = options.user
    inside_uid, inside_gid = (0, 0) if options.remap_root else (uid, gid)
    # An ordinary user is root of a namespace around this one, in which crun works; here he is himself again.
    own = uid != 0 and not options.remap_root
    linux: dict[str, Any] = {"namespaces": [{"type": "mount"}], "rootfsPropagation": "rslave"}
    if own:
        linux["namespaces"].append({"type": "user"})
        linux["uidMappings"] = [{"containerID": uid, "hostID": 0, "size": 1}]
        linux["gidMappings"] = [{"containerID": gid, "hostID": 0, "size": 1}]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": inside_uid, "gid": inside_gid},
            # Says that it is there, and ends with the pipe that the first task holds.
            "args": ["/bin/bash", "-c", "echo $$; read -r _"],
            "env": [f"PATH={DEFAULT_PATH}"],
            "cwd": "/",
        },
        "root": {"path": merged, "readonly": not options.writable},
        "mounts": mounts,
        "linux": linux,
        # Without a right to drop them the user keeps his groups, and the files that they may read.
        "annotations": {"run.oci.keep_original_groups": "1"} if uid else {},
    }


def isolate(uid: int, gid: int) -> None:
    """A mount namespace of this process's own, which the node's later mounts reach; for a user, one to be root in."""
    try:
        call("unshare", CLONE_NEWNS | (CLONE_NEWUSER if uid else 0))
        if uid:
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
                with open(f"/proc/self/{name}", "w") as stream:
                    stream.write(text)
    except OSError as error:
        raise Failure(
            f"an ordinary user cannot create namespaces on this node ({error.strerror}): its administrators have to "
            "allow user namespaces (sysctl user.max_user_namespaces), or use another container.runtime"
        ) from error
    mount("none", "/", None, MS_REC | MS_SLAVE)


def overlay(merged: str, layers: str) -> None:
    try:
        mount("overlay", merged, "overlay", 0, layers + ",userxattr")
    except OSError as error:
        # Older kernels do not know the word, which newer ones want of a user.
        if error.errno != errno.EINVAL:
            raise
        mount("overlay", merged, "overlay", 0, layers)


def prepare(options: argparse.Namespace, served: Served | None = None) -> list[str]:
    """In a child: lay the image's root out in memory and write the bundle. Returns crun's words.

    `served`: an image that is a file, to be mounted first.
    """
    crun = shutil.which("crun", path=tool_environment()["PATH"])
    if crun is None:
        raise Failure("the command crun is not on this node")
    isolate(*options.user)
    scratch = options.scratch
    try:
        mount("rankzero", scratch, "tmpfs", 0, "mode=0755")
        # It lies in the run's folder, with which it must not come into the container.
        mount("none", scratch, None, MS_UNBINDABLE)
    except OSError as error:
        raise Failure(f"no file system in memory can be mounted on {scratch}: {error.strerror}") from error
    # Bindable again: an overlay takes its layers from no other.
    scratch = os.path.join(scratch, "own")
    os.mkdir(scratch)
    mount("rankzero", scratch, "tmpfs", 0, "mode=0755")
    names = ("skeleton", "upper", "work", "root", "oci", "state", "sys", "image")
    skeleton, upper, work, merged, bundle, state, sys_folder, image = (os.path.join(scratch, name) for name in names)
    for name in names:
        os.mkdir(os.path.join(scratch, name))
    root = options.root
    if served:
        served.mount(mount, image)
        root = image
    # crun looks at the kind of the node's cgroups even where it may not touch them, and refuses a mixed one.
    mount("/sys", sys_folder, None, MS_BIND | MS_REC)
    if os.path.isdir("/sys/fs/cgroup"):
        mount("rankzero", "/sys/fs/cgroup", "tmpfs")
    mounts = rootfs.mounts_of(options, root, skeleton, bundle, sys_folder)
    # In the text of overlay's options a backslash takes the meaning from commas and colons.
    layers = "lowerdir=" + ":".join(re.sub(r"([\\,:])", r"\\\1", layer) for layer in (skeleton, root))
    upper_layer = f",upperdir={upper},workdir={work}" if options.writable else ""
    try:
        overlay(merged, layers + upper_layer)
    except OSError as error:
        raise Failure(
            f"this node's kernel cannot mount an overlay over {root} ({error.strerror}); users may from Linux 5.11 on: "
            "use another container.runtime"
        ) from error
    with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as stream:
        json.dump(configuration(options, merged, mounts), stream)
    # Slurm's own cgroups are those of the job.
    return [crun, "--cgroup-manager=disabled", f"--root={state}", "run", f"--bundle={bundle}", "rankzero"]


class Container:
    """The node's container, made: the namespaces to enter, and the pipe that keeps it until a task is inside."""

    def __init__(self, options: argparse.Namespace) -> None:
        standard, self.hold = os.pipe()
        ready, answer_end = os.pipe()
        served = None if options.root else squashfs.Served(options.image)
        self.maker = os.fork()
        if self.maker == 0:
            try:
                os.dup2(standard, 0)
                os.dup2(answer_end, 1)
                words = prepare(options, served)
                os.execve(words[0], words, tool_environment())
            except (Failure, OSError) as error:
                log_line(error)
            finally:
                os._exit(FAILED)
        os.close(standard)
        os.close(answer_end)
        if served:
            served.serve()
        with os.fdopen(ready) as stream:
            answer = stream.readline(64).strip()
        if not answer.isdigit():
            os.waitpid(self.maker, 0)
            raise Failure(f"crun did not start a container of {options.image}")
        kinds = ["mnt"] if os.getuid() == 0 else ["user", "mnt"]
        self.namespaces = [os.open(f"/proc/{answer}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]

    def release(self) -> None:
        """Let the shell that waits, and crun, end: the tasks hold the namespaces now."""
        os.close(self.hold)
        os.waitpid(self.maker, 0)


def enter(namespaces: list[int]) -> None:
    for namespace in namespaces:
        call("setns", namespace, 0)
        os.close(namespace)


def tasks_here(text: str, node: int) -> int:
    """How many tasks of the step this node has, of SLURM_STEP_TASKS_PER_NODE: `2(x3),1`. One outside of a step."""
    if not text:
        return 1
    counts = []
    for part in text.split(","):
        count, _paren, times = part.partition("(x")
        counts += [int(count)] * (int(times.rstrip(")")) if times else 1)
    return counts[node]


def meeting_place(environ: Mapping[str, str]) -> str:
    """The abstract socket of this node and step; the run's folder tells clusters apart."""
    names = ("RANKZERO_RUN_DIR", "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID", "SLURM_NODEID")
    text = "\n".join(environ.get(name, "") for name in names)
    return "\0rankzero-" + hashlib.sha256(f"{os.getuid()}\n{text}".encode()).hexdigest()[:32]


def is_own(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user's: anyone on the node may know the name."""
    _pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(uid == os.getuid())


def serve(listener: Any, namespaces: list[int], count: int) -> None:
    """Hand the namespaces to the node's other tasks."""
    listener.settimeout(JOIN_SECONDS)
    while count:
        try:
            connection, _address = listener.accept()
        except socket.timeout:
            raise Failure(f"{count} tasks of this node did not come within {JOIN_SECONDS:.0f} s") from None
        with connection:
            if is_own(connection):
                socket.send_fds(connection, [b"."], namespaces)
                count -= 1


def join(place: str) -> list[int]:
    """The namespaces that the node's first task has made."""
    deadline = time.monotonic() + JOIN_SECONDS
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(JOIN_SECONDS)
        while True:
            try:
                connection.connect(place)
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise Failure("the first task of this node made no container") from None
                time.sleep(POLL_SECONDS)
        if not is_own(connection):
            raise Failure("another user answers in the place of this node's first task")
        message, namespaces, _flags, _address = socket.recv_fds(connection, 1, 2)
        if not message:
            raise Failure("the container of this node did not start; its first task says why")
        return namespaces


def go_inside(options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    """Make or join the node's container. Afterwards this process is in it."""
    local = int(environ.get("SLURM_LOCALID", 0))
    here = tasks_here(environ.get("SLURM_STEP_TASKS_PER_NODE", ""), int(environ.get("SLURM_NODEID", 0)))
    place = meeting_place(environ)
    if local:
        enter(join(place))
        return
    with socket.socket(socket.AF_UNIX) as listener:
        if here > 1:
            listener.bind(place)
            listener.listen(here)
        container = Container(options)
        serve(listener, container.namespaces, here - 1)
    enter(container.namespaces)
    container.release()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--image", required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--bind", action="append", default=[])
    parser.add_argument("--pwd", default="/")
    parser.add_argument("--home", action="store_true")
    parser.add_argument("--writable", action="store_true")
    parser.add_argument("--remap-root", action="store_true")
    parser.add_argument("--nvidia", action="store_true")
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    # Asked before the namespaces, in which they are others.
    options.user = os.getuid(), os.getgid()
    try:
        is_file = os.path.isfile(options.image)
        options.root, variables = (None, {}) if is_file else rootfs.image_of(options.image)
        go_inside(options, os.environ)
        variables = squashfs.variables() if is_file else variables
        # What the image says wins, as with the other runtimes; the job's own values are set once more after this.
        environment = {**os.environ, "PATH": DEFAULT_PATH, **variables}
        if options.nvidia:
            listed = [rootfs.NVIDIA_FOLDER, environment.get("LD_LIBRARY_PATH", "")]
            environment["LD_LIBRARY_PATH"] = ":".join(filter(None, listed))
        os.chdir(options.pwd)
        os.execve(options.program[0], options.program, environment)
    except (Failure, OSError) as error:
        log_line(error)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
