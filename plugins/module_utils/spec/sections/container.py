# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section `container` of the job spec, and the format of image names. Pure; no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers import registry
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.mounts import MOUNTS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.secrets import VARIABLE, VARIABLE_NAME

# An image name such as nvcr.io#nvidia/pytorch:24.07-py3, as pyxis takes it: [USER@][REGISTRY#]IMAGE[:TAG].
REGISTRY = re.compile(
    r"(docker://)?([A-Za-z0-9._$-]+@)?([A-Za-z0-9.-]+(:[0-9]+)?#)?[a-z0-9][a-z0-9._/-]*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?"
)
IMAGE_FILES = (".sqsh", ".squashfs", ".sif", ".simg", ".img", ".tar")


@dataclass(frozen=True)
class Build:
    """What module `image` builds. The values are part of the launch key through the image's own key."""

    containerfile: str | None = option(
        t.text(r"[^\0\n]+", "a path"),
        "Containerfile on the controller, or a folder that contains one. `FROM base` in it refers to `suite` or "
        "`reference`.",
        key=False,
        example="Containerfile",
    )
    context: str | None = option(
        t.text(r"[^\0\n]+", "a path"),
        "Folder from which COPY and ADD take files. Default: the folder of the Containerfile.",
        key=False,
        example=".",
    )
    target: str | None = option(t.text(), "Stage of the Containerfile to build. Default: the last stage.", key=False)
    build_args: dict[str, str] = option(
        t.mapped(VARIABLE, "the name of an ARG", t.text()), "Values for ARG.", {}, key=False, example={"TORCH": "2.5"}
    )
    secrets: dict[str, str] = option(
        t.mapped(r"[A-Za-z0-9][A-Za-z0-9._-]*", "an id of RUN --mount=type=secret", t.text(r"[/~][^\0\n]*", "a path")),
        "Files on the login node for RUN --mount=type=secret,id=....",
        {},
        key=False,
        example={"pip": "~/.pip-secret.conf"},
    )
    suite: str | None = option(
        t.text(r"[a-z][a-z0-9.-]*", "the name of a release"),
        "Debian release, bootstrapped by mmdebstrap without a registry.",
        key=False,
        example="bookworm",
    )
    packages: tuple[str, ...] = option(
        t.listed(t.text(r"[a-z0-9]\S*", "the name of a Debian package")),
        "Packages to install with `suite`.",
        (),
        key=False,
        example=["python3", "libgomp1"],
    )
    mirror: str | None = option(
        t.text(r"[a-z]+:\S+", "a URI"),
        "Debian archive for `suite`. Default: the one of the login node's apt.",
        key=False,
        example="copy:///project/debian",
    )
    reference: str | None = option(
        t.text(r"[A-Za-z0-9]\S*", "a registry's name"),
        "An image in a registry: REGISTRY/NAME:TAG or, better, REGISTRY/NAME@DIGEST.",
        key=False,
        example="nvcr.io/nvidia/pytorch:24.07-py3",
    )
    env: dict[str, str] = option(
        t.mapped(VARIABLE, VARIABLE_NAME, t.text()),
        "Environment variables of the image; they override its own.",
        {},
        key=False,
        example={"PIP_NO_INDEX": "1"},
    )


@dataclass(frozen=True)
class Container:
    """Section `container`: the image that the ranks run in, and how."""

    TEXT_IS: ClassVar[str] = "{{runtime: ..., image: {}}}"

    runtime: str = option(
        t.declared("containers", "none", *registry.NAMES),
        "Runtime that starts the container on the nodes. "
        + " ".join(f"`{runtime.name}`: {runtime.doc}." for runtime in registry.RUNTIMES)
        + " `none`: no container. A cluster may declare others in `launch_cluster.containers`.",
        "none",
        example="pyxis",
    )
    level: str = option(
        t.choice("step", "job"),
        f"{registry.runtime_names(registry.BY_STEP)} only: where its options are set. `step`: on the ranks' step. "
        "`job`: in the job's header as well, for sites whose policies inspect the job; the batch script still runs on "
        "the node.",
        "step",
        key=False,
        example="job",
    )
    image: str | None = option(
        t.text(r"\S[^\0\n]*", "a path or a registry's name"),
        "The image: an absolute path on the cluster, or the name of an image in a registry, "
        "[USER@][REGISTRY#]IMAGE[:TAG]. Accepted by each runtime: "
        + "; ".join(f"{runtime.name}: {runtime.takes}" for runtime in registry.RUNTIMES)
        + ".",
        example="/project/images/torch.sqsh",
        also=("image", "image_id", "container_image", "docker_image"),
    )
    build: Build | None = field(
        default=None,
        metadata={
            "section": Build,
            "optional": True,
            "doc": (
                "Instead of `image`: build the image on the cluster before the job, once, in the store (module "
                "`image`)."
            ),
        },
    )
    mounts: tuple[str, ...] = option(
        MOUNTS,
        "Folders of the nodes to mount: source:target, or source:target:flags with flags joined by `+`. The run, "
        "the code, the environment and the job runtime are always mounted, each at its own path.",
        (),
        example=["/data:/data:ro"],
        also=("container_mounts", "volumes"),
    )
    workdir: str | None = option(
        t.text(r"/[^\0\n]*", "an absolute path inside the container"),
        "Working directory of the ranks inside the container, below which a relative path of the program in `command` "
        "lies. Default: the run's working directory.",
        example="/workspace",
    )
    mount_home: bool = option(
        t.BOOLEAN, "Whether to mount the user's home. Otherwise HOME is a folder of the run.", False, example=True
    )
    remap_root: bool = option(
        t.BOOLEAN,
        f"{registry.runtime_names(registry.REMAPPING)}: run as root inside the container.",
        False,
        example=True,
    )
    writable: bool = option(
        t.BOOLEAN,
        "Whether the image's own files are writable during the job. Home, cache and working directory are always "
        "writable.",
        False,
        example=True,
    )
    env: tuple[str, ...] = option(
        t.listed(t.text(VARIABLE, "the name of an environment variable")),
        "Variables whose value on the node overrides the image's (for example those set by `setup`). Variables in "
        "`env` always do.",
        (),
        example=["LD_LIBRARY_PATH"],
    )
