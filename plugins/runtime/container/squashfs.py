# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A squashfs file as the root of a container, by FUSE, for oci.py: no root, no loop device, nothing left.

The mount belongs to the container's mount namespace, and the program that serves it stays outside of that. So it ends
by itself with the last process of the container, however that ends; nobody has to unmount or to kill.
Standard library only; Python >= 3.9.
"""

from __future__ import annotations

import os
import shutil
import socket

from container.rootfs import Failure, tool_environment
from core import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

DEVICE = "/dev/fuse"
READ_ONLY = 0x1 | 0x2 | 0x4  # and no setuid, no devices: mount(2)
SERVERS = ("squashfuse_ll", "squashfuse")


class Served:
    """A squashfs file that a child mounts in its namespace, and that we then serve from outside of it.

    Used in this order: made in the parent, `mount` in the child, `serve` in the parent.
    """

    def __init__(self, image: str) -> None:
        self.image = image
        server = next((path for name in SERVERS if (path := _which(name))), None)
        if server is None:
            raise Failure(
                f"the image {image} is a squashfs file, and the command squashfuse is not on this node: install it, or "
                "give container.image the folder of an OCI bundle (module image, formats: [oci])"
            )
        self.server = server
        self._here, self._there = socket.socketpair()

    def mount(self, call: Callable[..., None], folder: str) -> None:
        """In the child: mount it read-only on `folder`. `call` is oci.py's mount."""
        self._here.close()
        try:
            # The kernel wants it opened in the namespace that mounts.
            device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise Failure(
                f"{DEVICE} cannot be opened on this node ({error.strerror}), so a squashfs file cannot be mounted: "
                "give container.image the folder of an OCI bundle (module image, formats: [oci])"
            ) from error
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        try:
            call("squashfuse", folder, "fuse.squashfuse", READ_ONLY, options)
        except OSError as error:
            raise Failure(
                f"FUSE cannot be mounted in a namespace on this node ({error.strerror}; users may from Linux 4.18 on)"
            ) from error
        socket.send_fds(self._there, [b"."], [device])
        self._there.close()
        os.close(device)
        try:
            os.listdir(folder)
        except OSError as error:
            raise Failure(f"the image {self.image} cannot be read by {os.path.basename(self.server)}") from error

    def serve(self) -> None:
        """In the parent: start the server once the mount is there, as nobody's child."""
        self._there.close()
        message, devices, _flags, _address = socket.recv_fds(self._here, 1, 1)
        self._here.close()
        if message:
            middle = os.fork()
            if middle == 0:
                try:
                    if os.fork() == 0:
                        self._become(devices[0])
                finally:
                    os._exit(1)
            os.waitpid(middle, 0)
            os.close(devices[0])

    def _become(self, device: int) -> NoReturn:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.set_inheritable(device, True)
        os.chdir("/")
        os.execve(self.server, [self.server, "-f", self.image, f"/dev/fd/{device}"], tool_environment())


def _which(name: str) -> str | None:
    return shutil.which(name, path=tool_environment()["PATH"])


def variables(root: str = "/") -> dict[str, str]:
    """The environment that an image keeps in /etc/environment, as enroot reads it."""
    variables: dict[str, str] = {}
    try:
        text = files.content(os.path.join(root, "etc/environment")).decode("utf-8", "surrogateescape")
    except OSError:
        return variables
    for line in text.split("\n"):
        name, equal, value = line.strip().partition("=")
        if equal and name.isidentifier():
            variables[name] = value
    return variables
