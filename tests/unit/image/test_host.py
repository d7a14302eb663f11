# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has, and the way that follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image.host import Host, cgroup_layout, choose, probe
from ansible_collections.rankzero.slurm.plugins.module_utils.image.recipe import Recipe

TOOLS = {name: f"/usr/bin/{name}" for name in ("buildah", "mmdebstrap", "tar2sqfs", "skopeo", "newuidmap", "unshare")}
ROOT = Host(0, "x86_64", (6, 1), TOOLS, False, True, True, "v2", "ext4")
USER = replace(ROOT, uid=1000, subuids=True)
FILE = Recipe(text="FROM scratch\n")


def without(host: Host, *names: str) -> Host:
    return replace(host, tools={name: path for name, path in host.tools.items() if name not in names})


def test_the_usual_ways() -> None:
    way = choose(ROOT, FILE)
    assert (way.engine, way.isolation, way.storage, way.rootless) == ("/usr/bin/buildah", "chroot", "overlay", False)
    assert way.squash == "/usr/bin/tar2sqfs" and way.bootstrap is None
    assert "isolation chroot: needs no OCI runtime and no control groups (this host's are v2)" in way.reasons
    rootless = choose(USER, FILE)
    assert rootless.rootless and any(reason.startswith("rootless: ") for reason in rootless.reasons)
    suite = choose(ROOT, Recipe(suite="bookworm"))
    assert (suite.bootstrap, suite.engine, suite.storage) == ("/usr/bin/mmdebstrap", None, None)
    assert choose(ROOT, Recipe(reference="registry.invalid/x:1")).fetch == "/usr/bin/skopeo"
    assert choose(ROOT, Recipe(reference="oci:/x")).fetch is None
    fake = replace(USER, subuids=False, tools={**TOOLS, "fakechroot": "/usr/bin/fakechroot"})
    assert choose(fake, Recipe(suite="bookworm")).bootstrap == choose(USER, Recipe(suite="bookworm")).bootstrap
    podman = replace(ROOT, tools={**TOOLS, "podman": "/usr/bin/podman"})
    assert choose(podman, FILE, "podman").engine == "/usr/bin/podman"
    assert choose(without(ROOT, "skopeo"), Recipe(reference="registry.invalid/x:1")).fetch == "/usr/bin/buildah"


@pytest.mark.parametrize(
    ("host", "storage", "why"),
    [
        (replace(ROOT, work_type="nfs4"), "vfs", "work_dir is on nfs4"),
        (replace(ROOT, work_type="fuse.sshfs"), "vfs", "work_dir is on fuse.sshfs"),
        (replace(USER, kernel=(5, 10)), "vfs", "this kernel does not allow overlays"),
        (replace(USER, kernel=(5, 10), tools={**TOOLS, "fuse-overlayfs": "/f"}), "overlay", "by fuse-overlayfs"),
        (
            replace(USER, kernel=(5, 10), fuse=False, tools={**TOOLS, "fuse-overlayfs": "/f"}),
            "vfs",
            "does not allow overlays",
        ),
        (replace(ROOT, kernel=(5, 10)), "overlay", "the kernel's own"),
    ],
)
def test_where_layers_are_kept(host: Host, storage: str, why: str) -> None:
    way = choose(host, FILE)
    assert way.storage == storage
    assert any(why in reason for reason in way.reasons)


@pytest.mark.parametrize(
    ("host", "recipe", "messages"),
    [
        (without(ROOT, "buildah"), FILE, ["containerfile needs buildah or podman: install package buildah or podman"]),
        (without(ROOT, "mmdebstrap"), Recipe(suite="a"), ["suite needs mmdebstrap: install package mmdebstrap"]),
        (without(ROOT, "tar2sqfs"), Recipe(rootfs="/a"), ["install package squashfs-tools-ng or squashfs-tools"]),
        (
            without(ROOT, "skopeo", "buildah"),
            Recipe(reference="r.invalid/x"),
            ["needs skopeo or buildah or podman or enroot: install package skopeo or buildah or podman or enroot"],
        ),
        (
            without(replace(USER, subuids=False, user_namespaces=False), "newuidmap"),
            FILE,
            [
                "user namespaces are forbidden here",
                "a build without root needs newuidmap: install package uidmap",
                "no range in /etc/subuid and /etc/subgid",
                "usermod --add-subuids",
            ],
        ),
        (replace(USER, subuids=False), Recipe(suite="a"), ["no range in /etc/subuid and /etc/subgid"]),
    ],
)
def test_all_that_is_missing_is_named_with_its_package(host: Host, recipe: Recipe, messages: list[str]) -> None:
    with pytest.raises(RankzeroError) as caught:
        choose(host, recipe)
    for message in messages:
        assert message in caught.value.message


def test_what_is_taken_as_it_is_needs_no_tool() -> None:
    assert choose(replace(ROOT, tools={}), Recipe(squashfs="/x.sqsh")).squash == ""
    both = replace(ROOT, tools={**TOOLS, "mksquashfs": "/usr/bin/mksquashfs"})
    assert choose(both, Recipe(rootfs="/a", compression="lz4")).squash == "/usr/bin/mksquashfs"
    with pytest.raises(RankzeroError, match="an image needs mksquashfs: install package squashfs-tools"):
        choose(ROOT, Recipe(rootfs="/a", compression="lz4"))
    other = choose(replace(without(ROOT, "tar2sqfs"), tools={"mksquashfs": "/usr/bin/mksquashfs"}), Recipe(rootfs="/a"))
    assert other.squash == "/usr/bin/mksquashfs" and other.reasons[0].startswith("mksquashfs: tar2sqfs is not here")


@pytest.mark.parametrize(
    ("mounts", "layout"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "v2"),
        ("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n", "v1"),
        ("cgroup /c/cpu cgroup rw 0 0\ncgroup2 /c/unified cgroup2 rw 0 0\n", "hybrid"),
        ("proc /proc proc rw 0 0\n", "none"),
    ],
)
def test_layouts_of_control_groups(mounts: str, layout: str) -> None:
    assert cgroup_layout(mounts) == layout


def test_this_host_is_looked_at_without_a_process(tmp_path: Path) -> None:
    found = probe(str(tmp_path))
    assert found.work_type != "unknown" and found.kernel > (3, 0) and found.cgroups in ("v1", "v2", "hybrid", "none")
    assert all(path.startswith("/") for path in found.tools.values())
