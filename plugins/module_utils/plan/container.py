# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers: the rules between the values of a spec, and how the ranks enter their container. Pure.

Each runtime declares how it differs from the others (spec/containers). The numbers of the traps are those of
docs/containers.md. The tests refer to a trap by its number.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import generation, reserved
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers import registry
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import Mount, Options, Runtime, Wish
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.container import (
    IMAGE_FILES,
    REGISTRY,
    Container,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.data import variable
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import ON_NODES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.mounts import UNMOUNTABLE, mount
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid, choice

# The image's programs would see the node's values of these variables, which do not fit them (trap 10).
LEAKING = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH")
# A folder that some runtimes hide behind their own file system.
HIDDEN = "/tmp"
# Suffixes of variables that only set where a runtime stores files.
_HARMLESS = ("_CACHEDIR", "_TMPDIR")


@dataclass(frozen=True)
class Entry:
    """How the ranks enter their container: flags of the step (pyxis), or words before their command (other runtimes).

    `header`: the flags of the job, if the flags are requested there too. `words`: the runtime's own arguments; what
    precedes them is known on the node. `variables`: variables whose value on the node overrides the image's. `cleared`:
    variables that must not reach the container. `local`: variables of the script that point to folders on each node's
    own disk; pyxis needs each of them listed.
    """

    kind: Runtime
    image: str
    mounts: tuple[Mount, ...]
    step: Options
    header: Options
    words: tuple[str, ...]
    workdir: str | None
    mount_home: bool
    variables: tuple[str, ...]
    cleared: tuple[str, ...]
    local: tuple[str, ...] = ()

    @property
    def runtime(self) -> str:
        """The name of its runtime."""
        return self.kind.name

    @property
    def facts(self) -> str:
        """What the job's programs must know of a runtime that the cluster has declared; "" of one of ours."""
        return "\n".join(f"{self.kind.name} {fact}" for fact in self.kind.facts()) if self.kind.record else ""

    @property
    def image_file(self) -> str:
        """The image as a path that each node must see; empty if it is a name in a registry."""
        return self.image if self.image.startswith("/") else ""

    @property
    def sources(self) -> tuple[str, ...]:
        """The paths on the cluster that are mounted."""
        return tuple(mount.source for mount in self.mounts)


def findings(spec: LaunchSpec, own: Mapping[str, Runtime]) -> Iterator[tuple[Sequence[str], str]]:
    """Check the rules between the values of a container. Yields (paths, sentence) for plan/validate.py. `own`: the
    cluster's runtimes.
    """
    wanted = spec.container
    yield from _own_flags(spec)
    if wanted.runtime == "none":
        yield from _without_container(wanted)
        return
    try:
        choice("none", *registry.NAMES, *own).parse(wanted.runtime)
    except Invalid as error:
        yield (
            ["container.runtime"],
            f"container.runtime: {error}; a cluster declares others in launch_cluster.containers",
        )
        return
    kind = registry.runtime_named(wanted.runtime, own)
    if wanted.image is None and wanted.build is None:
        yield (
            ["container.image", "container.runtime"],
            f"container.image: is required for container.runtime {wanted.runtime} (or container.build)",
        )
    elif wanted.image is not None and wanted.build is not None:
        yield (
            ["container.image", "container.build"],
            "container.build: makes an image, and container.image names one; give one of them",
        )
    elif wanted.image is not None:
        yield from _image(kind, wanted.image)
    yield from _mounts(spec, kind)
    if wanted.remap_root and not kind.remaps:
        yield (
            ["container.remap_root", "container.runtime"],
            (
                f"container.remap_root: is of {registry.runtime_names(registry.REMAPPING, 'and')}; under {kind.name} a "
                "rank is the user that submitted the job"
            ),
        )
    if wanted.level == "job" and not kind.step:
        yield _level()
    yield from _variables(spec, kind)
    if spec.preflight.imports and spec.environment.mode in ("none", *ON_NODES) and kind.unseen:
        yield (
            ["preflight.imports", "container.runtime"],
            (
                f"preflight.imports: under {kind.name} the preflight checks the nodes, not the image, "
                f"{kind.unseen}; omit it"
            ),
        )


def _without_container(wanted: Container) -> Iterator[tuple[Sequence[str], str]]:
    for name in ("image", "build", "mounts", "workdir", "mount_home", "remap_root", "writable", "env"):
        if getattr(wanted, name):
            yield (
                [f"container.{name}", "container.runtime"],
                (
                    f"container.{name}: has no effect without a container; set container.runtime to "
                    f"{registry.runtime_names(registry.RUNTIMES, 'or')}"
                ),
            )
    if wanted.level != "step":
        yield _level()


def _variables(spec: LaunchSpec, kind: Runtime) -> Iterator[tuple[Sequence[str], str]]:
    for name in spec.container.env:
        reason = reserved(name)
        if reason:
            yield ["container.env"], f"container.env: {name} may not be named: it {reason}"
    for where, given in (("env", spec.env), ("secrets", spec.secrets)):
        for name in given:
            if name.startswith(kind.overriding) and not name.endswith(_HARMLESS):
                yield (
                    [f"{where}.{name}"],
                    f"{where}.{name}: decides about the container behind the spec; use container instead",
                )


def _level() -> tuple[Sequence[str], str]:
    return (
        ["container.level", "container.runtime"],
        (
            f"container.level: job is of {registry.runtime_names(registry.BY_STEP, 'and')}, whose options Slurm knows; "
            "another runtime is a command of the step"
        ),
    )


def _own_flags(spec: LaunchSpec) -> Iterator[tuple[Sequence[str], str]]:
    for where, options in (("resources.sbatch", spec.resources.sbatch), ("launcher.srun", spec.launcher.srun)):
        for name in options:
            if not name.startswith(("container-", "no-container-")):
                continue
            instead = "use the section container, which puts it on the ranks' step"
            if name == "container-name":
                instead = "a named container that was interrupted is used half made by the next job"
            yield [f"{where}.{name}"], f"{where}.{name}: may not be given here; {instead}"


def _built(image: str) -> str:
    """What makes an image of a registry into a file."""
    return "; to fetch it from a registry, set container.build.reference instead" if "/" in image else ""


def _image(kind: Runtime, image: str) -> Iterator[tuple[Sequence[str], str]]:
    paths = ["container.image", "container.runtime"]
    if image.startswith("/"):
        if UNMOUNTABLE.search(image):
            yield paths, f"container.image: {image!r} has a blank, comma, colon or backslash; rename the file"
    elif "registry" not in kind.images:
        yield (
            paths,
            f"container.image: {image!r} must be an absolute path on the cluster for {kind.name}{_built(image)}",
        )
    elif image.startswith((".", "~", "$")) or image.endswith(IMAGE_FILES):
        yield (
            paths,
            (
                f"container.image: {image!r} is not an absolute path, and {kind.name} would take it for a registry's "
                "name; give its absolute path on the cluster"
            ),
        )
    elif not REGISTRY.fullmatch(image):
        yield (
            paths,
            (
                f"container.image: {image!r} is neither an absolute path nor a registry's name such as "
                "nvcr.io#nvidia/pytorch:24.07-py3"
            ),
        )


def _mounts(spec: LaunchSpec, kind: Runtime) -> Iterator[tuple[Sequence[str], str]]:
    seen: dict[str, str] = {}
    for text in spec.container.mounts:
        parsed = mount(text)
        if parsed.target in seen:
            yield ["container.mounts"], f"container.mounts: {seen[parsed.target]} and {text} have one target"
        seen[parsed.target] = text
        foreign = [flag for flag in parsed.flags if kind.flags is not None and flag not in kind.flags]
        if foreign:
            known = " and ".join(kind.flags or ()) or "none"
            yield (
                ["container.mounts", "container.runtime"],
                f"container.mounts: {text}: {kind.name} knows the flags {known}, not {', '.join(foreign)}",
            )


def entry(
    spec: LaunchSpec,
    *,
    runs_dir: str,
    places: Sequence[str],
    variables: Sequence[str],
    writable: Sequence[str] = (),
    built: str | None = None,
    environments: str = "",
    own: Mapping[str, Runtime] | None = None,
) -> Entry | None:
    """Return how the ranks of a launch enter their container; None without a container. Raises SpecError.

    `runs_dir` holds all generations of the launch, as a script that is submitted by hand creates another one there.
    `places`: code, environment and, last, the runtime, mounted read-only. `writable`: the caches. `variables`: those
    exported. `built`: the image that is built for the job. `environments`: where a job makes one inside the image.
    """
    wanted = spec.container
    image = wanted.image or built
    if wanted.runtime == "none" or image is None:
        return None
    kind, users = registry.runtime_named(wanted.runtime, own), [mount(text) for text in wanted.mounts]
    read_only = [Mount(place, place, ("ro",)) for place in places]
    # Each mount with the option that decides its location.
    ours = [
        ("launch_cluster.state_root", Mount(runs_dir, runs_dir)),
        *(("launch_cluster.store_root", place) for place in read_only[:-1]),
        ("launch_cluster.state_root", read_only[-1]),
        *(("launch_cluster.caches", Mount(place, place)) for place in writable),
        *([("launch_cluster.state_root", Mount(environments, environments))] if environments else []),
        *_folders(spec, users),
    ]
    _check_places(kind, ours, users)
    # Outer mounts come first, because a nested mount must come after the one that contains it.
    mounts = tuple(sorted([*users, *(place for _root, place in ours)], key=lambda mount: mount.target.count("/")))
    names = tuple(dict.fromkeys([*variables, *wanted.env, *(["HOME"] if wanted.mount_home else [])]))
    wish = Wish(
        image=image,
        mounts=mounts,
        workdir=wanted.workdir or runs_dir,
        mount_home=wanted.mount_home,
        remap_root=wanted.remap_root,
        writable=wanted.writable,
        env=tuple(wanted.env),
        gpus=_gpus(spec),
    )
    step = kind.step(wish) if kind.step else ()
    return Entry(
        kind=kind,
        image=image,
        mounts=mounts,
        step=step,
        header=step if wanted.level == "job" else (),
        words=kind.words(wish) if kind.words else (),
        workdir=wanted.workdir,
        mount_home=wanted.mount_home,
        variables=names,
        cleared=tuple(name for name in LEAKING if name not in names),
        local=tuple(_local(spec)) if kind.hides_tmp else (),
    )


def _gpus(spec: LaunchSpec) -> str:
    """Return the vendor whose libraries the ranks need from the node; "" without GPUs."""
    if not spec.resources.gpus_per_node:
        return ""
    return "amd" if generation(spec.resources.gpu_type) == "amd" else "nvidia"


def _local(spec: LaunchSpec) -> Iterator[str]:
    """Iterate over the variables with the paths that a job mounts below HIDDEN on its nodes."""
    if spec.environment.mode == "sealed":
        yield "RANKZERO_SEALED"
    for name, source in sorted(spec.data.items()):
        if source.file:
            yield variable(name)


def _folders(spec: LaunchSpec, users: Sequence[Mount]) -> Iterator[tuple[str, Mount]]:
    """Iterate over the folders that a job writes outside of its run: each with the option that names it."""
    for option, path in (("checkpoint.dir", spec.checkpoint.dir), ("code.in_place", spec.code.in_place)):
        folder = posixpath.normpath(path) if path else ""
        if folder and not _includes(users, folder):
            yield option, Mount(folder, folder)


def _includes(users: Sequence[Mount], folder: str) -> bool:
    """Return whether one of the job's mounts has a folder at its own path, and writable."""
    return any(
        user_mount.source == user_mount.target
        and "ro" not in user_mount.flags
        and posixpath.commonpath([user_mount.target, folder]) == user_mount.target
        for user_mount in users
    )


def _check_places(kind: Runtime, ours: Sequence[tuple[str, Mount]], users: Sequence[Mount]) -> None:
    """Check the locations of runs and store on the cluster against the runtime and the user's mounts. Raises
    `SpecError`.

    `ours`: mounts with the option that decides the location of each.
    """
    problems = []
    for root, place in ours:
        if UNMOUNTABLE.search(place.source):
            problems.append(f"{root}: {place.source} has a blank, comma, colon or backslash and cannot be mounted")
        if kind.hides_tmp and posixpath.commonpath([place.source, HIDDEN]) == HIDDEN:
            problems.append(f"{root}: {place.source} is in {HIDDEN}, which {kind.used[0]} hides; move it")
        for user_mount in users:
            if posixpath.commonpath([user_mount.target, place.target]) == place.target or (
                user_mount.source != user_mount.target
                and posixpath.commonpath([user_mount.target, place.target]) == user_mount.target
            ):
                problems.append(
                    f"container.mounts: {user_mount} overlaps {place.target}, which the job needs there; "
                    "mount it elsewhere"
                )
    if problems:
        raise SpecError(problems)


def built_file(runtime: str, own: Mapping[str, Runtime] | None = None) -> str:
    """Return the file of a built image that a runtime starts from. `own`: the cluster's runtimes."""
    return registry.runtime_named(runtime, own).built


def image_formats(runtime: str, own: Mapping[str, Runtime] | None = None) -> list[str]:
    """Return the formats that module image builds for a runtime: always a squashfs file, and the file that it starts
    from.
    """
    return list(dict.fromkeys(["sqsh", built_file(runtime, own).rpartition(".")[2]]))
