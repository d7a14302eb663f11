# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pyxis, Slurm's plugin for enroot: options of srun. docs/containers.md lists its traps and how each is avoided."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import (
    TROUBLE,
    Command,
    Options,
    Runtime,
    Wish,
)


def _step(wish: Wish) -> Options:
    """Return the options of the step. Each is given explicitly, so that a site's PYXIS_CONTAINER_* or defaults do not
    apply.
    """
    options: list[tuple[str, str | bool]] = [
        ("container-image", wish.image),
        # If the option were given twice, only the last one would count (trap 1).
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


_SWITCHES: Mapping[str, tuple[str, bool]] = {
    "container-mount-home": ("mount_home", True),
    "no-container-mount-home": ("mount_home", False),
    "container-readonly": ("writable", False),
    "container-remap-root": ("remap_root", True),
    "no-container-remap-root": ("remap_root", False),
    "container-writable": ("writable", True),
}


def section(name: str, value: str) -> dict[str, object] | None:
    """Return what an option of pyxis says as keys of the section `container`: none for what a job does anyway, None if
    the section has no key for it. `name`: without dashes.
    """
    if name == "container-image":
        return {"runtime": PYXIS.name, "image": value}
    if name == "container-mounts":
        # A mount without a target has the same path inside.
        parts = [part for part in value.split(",") if part]
        return {"mounts": [part if ":" in part else f"{part}:{part}" for part in parts]}
    if name == "container-workdir":
        return {"workdir": value}
    if name == "container-env":
        return {"env": value.split(",")}
    if name in _SWITCHES:
        key, on = _SWITCHES[name]
        return {key: on}
    return {} if name == "no-container-entrypoint" else None


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
    # No command prints the release.
    since=(("container-unshare", "0.24"), ("container-env", "0.15"), ("container-writable", "0.11")),
    # pyxis prints enroot's own log indented by four spaces. Errors come first; [INFO] lines are skipped.
    log=(
        r"pyxis:     .*(\[ERROR\]|FATAL)",
        r"pyxis:     +[^[ ]",
        r"pyxis: .*(exist|chdir|permission|cannot|invalid)",
        TROUBLE,
        r"pyxis: .*(fail|error)",
    ),
    remaps=True,
    overriding=("PYXIS_",),
    # enroot mounts its own file system there (trap 14).
    hides_tmp=True,
    unseen="which would be extracted once more for it",
    home=True,
)
