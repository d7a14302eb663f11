# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""crun in an ordinary step, started by a program of the job runtime (oci.py): not Slurm's own `--container`."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import Command, Runtime, Wish


def _words(wish: Wish) -> tuple[str, ...]:
    words = [f"--image={wish.image}", *(f"--bind={mount}" for mount in wish.mounts), f"--pwd={wish.workdir}"]
    for option, given in (("home", wish.mount_home), ("writable", wish.writable), ("remap-root", wish.remap_root)):
        if given:
            words.append(f"--{option}")
    # AMD's libraries come with the image. Its devices are visible, like all devices of the node.
    if wish.gpus == "nvidia":
        words.append("--nvidia")
    return (*words, "--")


OCI = Runtime(
    name="oci",
    doc="crun, once a node, in an ordinary step",
    takes="`.sqsh`, or a folder: an OCI bundle (`config.json` and its root), or a root file system",
    needs=("`crun`, Linux 5.11, user namespaces unless you are root; for `.sqsh` squashfuse and `/dev/fuse`"),
    each="node and step",
    suffix=".sqsh",
    refuses="is neither a squashfs file nor a folder (an OCI bundle: config.json and its root; or a root file system)",
    images=("squashfs", "bundle", "root"),
    # runc is not used, but cluster_info shows it.
    commands=(Command("crun"), Command("runc", used=False)),
    words=_words,
    # For a shell, which has them alone: with all that they import.
    programs=(
        *("container/oci.py", "container/__init__.py", "container/rootfs.py", "container/squashfs.py"),
        *("core/__init__.py", "core/children.py", "core/files.py", "start/python.sh"),
    ),
    libraries="/run/rankzero-nvidia",
    remaps=True,
)
