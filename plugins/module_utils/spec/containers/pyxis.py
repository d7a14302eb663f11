# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pyxis, Slurm's plugin for enroot: options of srun. Its traps, and what avoids each, are in docs/containers.md."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import (
    TROUBLE,
    Command,
    Options,
    Runtime,
    Wish,
)


def _step(wish: Wish) -> Options:
    """Each said outright: a site's PYXIS_CONTAINER_* or defaults decide nothing."""
    options: list[tuple[str, str | bool]] = [
        ("container-image", wish.image),
        # Given twice, only the last one would count (trap 1).
        ("container-mounts", ",".join(map(str, wish.mounts))),
        ("container-workdir", wish.workdir),
        ("container-mount-home" if wish.mount_home else "no-container-mount-home", True),
        ("container-remap-root" if wish.remap_root else "no-container-remap-root", True),
        ("container-writable" if wish.writable else "container-readonly", True),
        ("no-container-entrypoint", True),
    ]
    if wish.env:
        options.append(("container-env", ",".join(wish.env)))
    return tuple(options)


PYXIS = Runtime(
    name="pyxis",
    doc="Slurm's plugin for enroot, as flags of the step",
    takes="`.sqsh`, or an image name in a registry",
    needs="Slurm's plugin pyxis with enroot",
    each="node and step",
    suffix=".sqsh",
    refuses="is not a squashfs file, which pyxis needs",
    images=("squashfs", "registry"),
    commands=(Command("enroot", ("version",)),),
    step=_step,
    # No command tells the release itself.
    since=(("container-unshare", "0.24"), ("container-env", "0.15"), ("container-writable", "0.11")),
    # It shows enroot's own log four blanks deep: an error first, and not what it did before ([INFO]).
    log=(
        r"pyxis:     .*(\[ERROR\]|FATAL)",
        r"pyxis:     +[^[ ]",
        r"pyxis: .*(exist|chdir|permission|cannot|invalid)",
        TROUBLE,
        r"pyxis: .*(fail|error)",
    ),
    remaps=True,
    overriding=("PYXIS_",),
    # enroot mounts a file system of its own there (trap 14).
    hides_tmp=True,
    unseen="which would be extracted once more for it",
    home=True,
)
