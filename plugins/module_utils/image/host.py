# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's tools for building images, and the way of building that they allow, with reasons.

`probe` inspects the host; `choose` decides and is pure. Something missing is an error that names the package.
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import Recipe

# Command -> its package (Debian and Ubuntu; Fedora and RHEL where the name differs).
PACKAGES = {
    "buildah": "buildah",
    "podman": "podman",
    "skopeo": "skopeo",
    "enroot": "enroot",
    "mmdebstrap": "mmdebstrap",
    "tar2sqfs": "squashfs-tools-ng",
    "mksquashfs": "squashfs-tools",
    "newuidmap": "uidmap (RHEL: shadow-utils)",
    "fuse-overlayfs": "fuse-overlayfs",
    "fakechroot": "fakechroot",
    "unshare": "util-linux",
}
ENGINES = ("buildah", "podman")
# These file systems cannot hold an overlay's upper layer, or not for an ordinary user.
_NO_OVERLAY = {"overlay", "nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "ceph", "9p", "virtiofs", "ecryptfs"}
# The first kernel with overlays in a user namespace (mount(2), user.* attributes).
_USER_OVERLAY = (5, 13)


@dataclass(frozen=True)
class Host:
    """Facts about the host. `tools`: command -> path; `cgroups`: v1, v2, hybrid or none.

    `work_type`: the type of the file system in which builds run.
    """

    uid: int
    machine: str
    kernel: tuple[int, int]
    tools: Mapping[str, str]
    subuids: bool
    user_namespaces: bool
    fuse: bool
    cgroups: str
    work_type: str


@dataclass(frozen=True)
class Way:
    """How an image is built here, and why. `engine`, `isolation` and `storage` are set only for a Containerfile."""

    squash: str
    engine: str | None = None
    isolation: str | None = None
    storage: str | None = None
    fetch: str | None = None
    bootstrap: str | None = None
    rootless: bool = False
    reasons: tuple[str, ...] = field(default=())

    def shown(self) -> dict[str, object]:
        """The way as JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def probe(work: str) -> Host:
    """Inspect this host; starts no process. `work`: the folder in which builds run."""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    tools = {name: path for name in PACKAGES if (path := shutil.which(name, path=search_path()))}
    return Host(
        uid=os.geteuid(),
        machine=platform.machine(),
        kernel=(int(release[1]), int(release[2])) if release else (0, 0),
        tools=tools,
        subuids=_has_range("/etc/subuid") and _has_range("/etc/subgid"),
        user_namespaces=_number("/proc/sys/user/max_user_namespaces") != 0
        and _number("/proc/sys/kernel/unprivileged_userns_clone", 1) != 0,
        fuse=os.access("/dev/fuse", os.R_OK | os.W_OK),
        cgroups=cgroup_layout(_read("/proc/self/mounts")),
        work_type=_type_of(work, _read("/proc/self/mounts")),
    )


def search_path() -> str:
    """The user's PATH and the system's folders, which a non-login shell may lack."""
    return os.environ.get("PATH", "") + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def cgroup_layout(mounts: str) -> str:
    """v1, v2, hybrid or none, from the text of /proc/self/mounts (proc(5))."""
    kinds = {fields[2] for line in mounts.splitlines() if len(fields := line.split()) > 2}
    if "cgroup" in kinds:
        return "hybrid" if "cgroup2" in kinds else "v1"
    return "v2" if "cgroup2" in kinds else "none"


@dataclass
class _Choice:
    """The way for a recipe, tool by tool: the reasons for each, and what the host lacks."""

    host: Host
    made: Recipe
    reasons: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def tool(self, what: str, *names: str) -> str | None:
        """The first of these programs on the host; if there is none, record that `what` needs one."""
        path = next((self.host.tools[name] for name in names if name in self.host.tools), None)
        if path is None:
            self.missing.append(_lacks(what, *names))
        return path

    def squash(self) -> str:
        """The program that writes the image file."""
        # unsquashfs 4.5, and so enroot, rejects what tar2sqfs 1.2 writes with lz4 as damaged.
        writers = ("mksquashfs",) if self.made.compression == "lz4" else ("tar2sqfs", "mksquashfs")
        if self.made.squashfs is not None:
            return next((self.host.tools[name] for name in writers if name in self.host.tools), "")
        path = self.tool("an image", *writers) or ""
        if path.endswith("mksquashfs"):
            why = "lz4 by tar2sqfs is not read by all" if self.made.compression == "lz4" else "tar2sqfs is not here"
            self.reasons.append(f"mksquashfs: {why}; the tree is unpacked first")
        elif path:
            self.reasons.append("tar2sqfs: reads the layers as a stream, needs neither root nor room for the tree")
        return path

    def engine(self, wanted: str) -> tuple[str | None, str, str]:
        """The program that builds a Containerfile, its isolation and its storage."""
        path = self.tool("containerfile", *(ENGINES if wanted == "auto" else (wanted,)))
        if path is not None:
            self.reasons.append(f"{os.path.basename(path)}: " + ("is here" if wanted == "auto" else "as asked for"))
        self.reasons.append(
            f"isolation chroot: needs no OCI runtime and no control groups (this host's are {self.host.cgroups})"
        )
        storage, why = _storage(self.host)
        self.reasons.append(f"storage {storage}: {why}")
        if self.host.uid:
            self.missing += _lacks_without_root(self.host)
        return path, "chroot", storage


def choose(host: Host, made: Recipe, engine: str = "auto") -> Way:
    """The way for a recipe. Raises RankzeroError that lists everything missing."""
    choice = _Choice(host, made)
    squash = choice.squash()
    bootstrap = choice.tool("suite", "mmdebstrap") if made.suite is not None else None
    if bootstrap and host.uid and "fakechroot" not in host.tools and made.text is None:
        choice.missing += _lacks_without_root(host)
    fetch = tool = isolation = storage = None
    if made.reference is not None and made.local_path is None:
        fetch = choice.tool("reference, a registry's name,", "skopeo", *ENGINES, "enroot")
    if made.text is not None:
        tool, isolation, storage = choice.engine(engine)
    if choice.missing:
        raise RankzeroError(
            f"image: cannot be made on {platform.node()}: {'; '.join(choice.missing)}. A rootfs and OCI layouts need "
            "neither an engine nor root, a suite no engine; you can also build an image elsewhere and use squashfs."
        )
    if host.uid and (made.text is not None or made.suite is not None):
        choice.reasons.append("rootless: in a user namespace of the user's own")
    return Way(
        squash=squash,
        engine=tool,
        isolation=isolation,
        storage=storage,
        fetch=fetch,
        bootstrap=bootstrap,
        rootless=host.uid != 0,
        reasons=tuple(choice.reasons),
    )


def _lacks_without_root(host: Host) -> Iterator[str]:
    """What a rootless build needs besides its tools and this host lacks."""
    if not host.user_namespaces:
        yield "user namespaces are forbidden here (sysctl user.max_user_namespaces)"
    if "newuidmap" not in host.tools:
        yield _lacks("a build without root", "newuidmap")
    if not host.subuids:
        yield (
            "this user has no range in /etc/subuid and /etc/subgid; the host's administrator gives one with "
            f"`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user_name(host.uid)}`"
        )


def _storage(host: Host) -> tuple[str, str]:
    if host.work_type in _NO_OVERLAY or host.work_type.startswith("fuse"):
        return "vfs", (
            f"work_dir is on {host.work_type}, which does not support overlays, so builds are "
            f"slower; set work_dir to a folder on a local disk"
        )
    if host.uid == 0 or host.kernel >= _USER_OVERLAY:
        return "overlay", "the kernel's own"
    if "fuse-overlayfs" in host.tools and host.fuse:
        return "overlay", "by fuse-overlayfs: kernels before 5.13 do not allow overlays of ordinary users"
    return (
        "vfs",
        "this kernel does not allow overlays of ordinary users, and fuse-overlayfs (with /dev/fuse) is missing",
    )


def _lacks(what: str, *commands: str) -> str:
    names = " or ".join(dict.fromkeys(PACKAGES[name] for name in commands))
    return f"{what} needs {' or '.join(commands)}: install package {names}"


def user_name(uid: int) -> str:
    """The user's name, or the number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _has_range(path: str) -> bool:
    uid = os.geteuid()
    return any(line.split(":")[0] in (str(uid), user_name(uid)) for line in _read(path).splitlines())


def _type_of(path: str, mounts: str) -> str:
    """The type of a path's file system, from the text of /proc/self/mounts."""
    real, best, kind = os.path.realpath(path), "", "unknown"
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 2 and len(fields[1]) >= len(best) and os.path.commonpath([real, fields[1]]) == fields[1]:
            best, kind = fields[1], fields[2]
    return kind


def _number(path: str, otherwise: int = 1) -> int:
    text = _read(path).strip()
    return int(text) if text.isdigit() else otherwise


def _read(path: str) -> str:
    try:
        return text_of(path, errors="replace")
    except OSError:
        return ""
