# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the root of an OCI container is made of, for oci.py: the image, and each mount with a place to go.

Reads the image and writes beside it, never into it. Standard library only; Python >= 3.9.
"""

from __future__ import annotations

import grp
import os
import platform
import pwd
import re
import shutil
import sys

from core import children, files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Of the node, each at its own place: its devices (GPUs, InfiniBand, shared memory), processes and names are the job's.
NODE_FOLDERS = ("/dev", "/proc", "/tmp", "/var/tmp")
NODE_FILES = ("/etc/hosts", "/etc/resolv.conf")
# The driver's part of what a CUDA program loads: it belongs to the node's kernel and is in no image (apptainer --nv).
NVIDIA_LIBRARIES = re.compile(r"lib(cuda|cudadebugger|nvcuvid|nvidia-[a-z0-9-]+)\.so\.[0-9]+$")
NVIDIA_FOLDER = "/run/rankzero-nvidia"
# As the kernel counts them (path_resolution(7)).
MOST_LINKS = 40


class Failure(Exception):
    """Why the container does not start; the message says what to do."""


def log_line(text: object) -> None:
    sys.stderr.write(f"[rankzero] {platform.node()}: {text}\n")
    sys.stderr.flush()


def image_of(folder: str) -> tuple[str, dict[str, str]]:
    """(root folder, variables) of an image: an OCI bundle (config.json and the root that it names) or a root."""
    config = os.path.join(folder, "config.json")
    root, variables = folder, {}
    if os.path.exists(config):
        try:
            document = files.document(config)
            root = os.path.join(folder, document["root"]["path"])
            listed = document.get("process", {}).get("env", [])
            variables = dict(line.split("=", 1) for line in listed if "=" in line)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Failure(f"{config} is not the configuration of an OCI bundle: {error!r}") from error
    if not os.path.isdir(root):
        raise Failure(f"the image {folder} has no root folder {root}")
    if not os.path.lexists(os.path.join(root, "bin")) and not os.path.lexists(os.path.join(root, "usr")):
        raise Failure(f"the image {folder} is neither an OCI bundle (config.json) nor a root folder (bin, usr)")
    return os.path.realpath(root), variables


def nvidia_libraries(listing: str, machine: str) -> dict[str, str]:
    """{name: path} of the driver's libraries in the output of `ldconfig -p`, for this machine's word size."""
    kind = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(machine, machine)
    libraries: dict[str, str] = {}
    for line in listing.splitlines():
        name, _blank, rest = line.strip().partition(" ")
        described, _arrow, path = rest.partition(" => ")
        if kind in described and path and NVIDIA_LIBRARIES.match(name):
            libraries.setdefault(name, path)
    return libraries


def nvidia_binds() -> list[str]:
    done = children.run(["ldconfig", "-p"], tool_environment(), children.START_SECONDS)
    libraries = nvidia_libraries(done.stdout, platform.machine())
    if not libraries:
        log_line("no library of NVIDIA's driver is known to ldconfig: programs will find no GPU")
    binds = [f"{path}:{NVIDIA_FOLDER}/{name}:ro" for name, path in sorted(libraries.items())]
    tool = shutil.which("nvidia-smi", path=tool_environment()["PATH"])
    return binds + ([f"{tool}:/usr/bin/nvidia-smi:ro"] if tool else [])


def tool_environment() -> dict[str, str]:
    """For commands of the node, ours: not the job's libraries."""
    return {"PATH": os.environ.get("PATH", "") + ":" + DEFAULT_PATH}


def bind(text: str) -> dict[str, Any]:
    """An OCI mount from SOURCE:TARGET[:FLAG+FLAG]."""
    source, target, *flags = text.split(":")
    options = flags[0].split("+") if flags else []
    if not os.path.exists(source):
        raise Failure(f"mount source missing on this node: {source}")
    spread = {"private", "rprivate", "slave", "rslave"}
    return {
        "source": source,
        "destination": target,
        "type": "bind",
        # What the node mounts later on demand is seen inside, too.
        "options": ["rbind", *options, *([] if spread & set(options) else ["rslave"])],
    }


def users_file(root: str, name: str, database: int, line: str) -> str | None:
    """The image's table of users or groups with a line for one that it does not know; None where it knows it."""
    try:
        text = files.content(os.path.join(root, "etc", name)).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        text = ""
    except OSError as error:
        raise Failure(f"the image's /etc/{name} cannot be read: {error.strerror}") from error
    if any(known.split(":")[2:3] == [str(database)] for known in text.splitlines()):
        return None
    return text + ("" if not text or text.endswith("\n") else "\n") + line + "\n"


def own_lines(uid: int, gid: int) -> tuple[str, str]:
    """(passwd, group): this user as the node knows it."""
    try:
        entry = pwd.getpwuid(uid)
        user = f"{entry.pw_name}:x:{uid}:{gid}:{entry.pw_gecos}:{entry.pw_dir}:/bin/bash"
    except KeyError:
        user = f"user{uid}:x:{uid}:{gid}::/:/bin/bash"
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = f"group{gid}"
    return user, f"{group}:x:{gid}:"


def inside(root: str, path: str) -> str:
    """Where a path of the container lies in its image, links followed: never outside of it."""
    left, links = [part for part in path.split("/") if part], 0
    resolved: list[str] = []
    while left:
        part = left.pop(0)
        if part in (".", ".."):
            resolved = resolved[: -1 if part == ".." else None]
            continue
        here = os.path.join(root, *resolved, part)
        if os.path.islink(here):
            links += 1
            if links > MOST_LINKS:
                raise Failure(f"{path} is in a loop of links of the image {root}")
            target = os.readlink(here)
            resolved = [] if target.startswith("/") else resolved
            left = [name for name in target.split("/") if name] + left
        else:
            resolved.append(part)
    return "/" + "/".join(resolved)


def place_for(root: str, skeleton: str, target: str, is_folder: bool) -> None:
    """Make the place of a mount in `skeleton`, which lies over the image, where the image itself has none."""
    if (os.path.isdir if is_folder else os.path.isfile)(root + target):
        return
    parents = target.split("/")[1:-1]
    for depth in range(1, len(parents) + 1):
        part = "/" + "/".join(parents[:depth])
        if not os.path.isdir(skeleton + part):
            os.mkdir(skeleton + part)
            if os.path.isdir(root + part):
                shutil.copymode(root + part, skeleton + part)
    if is_folder:
        os.makedirs(skeleton + target, exist_ok=True)
    else:
        with open(skeleton + target, "w"):
            pass


def mounts_of(
    options: argparse.Namespace, root: str, skeleton: str, made: str, sys_folder: str
) -> list[dict[str, Any]]:
    """The mounts of the container, each with a place to go. `made`: a folder for files of ours."""
    wanted = [f"{folder}:{folder}" for folder in NODE_FOLDERS if os.path.isdir(folder)]
    wanted += [f"{sys_folder}:/sys", *(f"{path}:{path}:ro" for path in NODE_FILES if os.path.exists(path))]
    uid, gid = (0, 0) if options.remap_root else options.user
    user, group = own_lines(uid, gid)
    for name, number, line in (("passwd", uid, user), ("group", gid, group)):
        text = users_file(root, name, number, line)
        if text is not None:
            with open(os.path.join(made, name), "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(text)
            wanted.append(f"{made}/{name}:/etc/{name}")
    wanted += options.bind + (nvidia_binds() if options.nvidia else [])
    if options.home:
        wanted.append("{0}:{0}".format(os.environ["HOME"]))
    mounts = [bind(text) for text in wanted]
    for mount in mounts:
        mount["destination"] = inside(root, mount["destination"])
        # What lies in another mount gets its place there.
        within = [other for other in mounts if mount["destination"].startswith(other["destination"] + "/")]
        if not within:
            place_for(root, skeleton, mount["destination"], os.path.isdir(mount["source"]))
    return mounts
