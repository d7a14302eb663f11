# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers: what a spec may ask for, the flags of the ranks' step, the words that enter the container. Pure.

The numbers of the traps are those of spec/pyxis.md; what avoids each is tested by that number.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import generation, reserved
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.container import (
    IMAGE_FILES,
    REGISTRY,
    UNMOUNTABLE,
    Mount,
    mount,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.data import variable
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec

Options = tuple[tuple[str, "str | bool"], ...]

# The node's values of these would be seen by the image's programs, which they do not fit (trap 10).
LEAKING = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH")
# enroot hides /tmp behind a file system of its own (trap 14).
HIDDEN = "/tmp"
# Beginnings of variables from which a runtime takes its options, and ends of those that only say where it keeps things.
_OVERRIDING = {"pyxis": ("PYXIS_",), "apptainer": ("APPTAINER", "SINGULARITY")}
_HARMLESS = ("_CACHEDIR", "_TMPDIR")
APPTAINER_FLAGS = ("ro", "rw")


@dataclass(frozen=True)
class Entry:
    """How the ranks get into their container: flags of the step (pyxis), or words before their command (the others).

    `header` are the flags of the job where they are asked for there, too. `words` are the command's own: what stands
    before them is known on the node. `variables` are those whose value on the node wins over the image's; `cleared`
    those that must not reach it. `local` name the variables of the script that lead to folders on each node's own disk,
    which pyxis has to be told of one by one.
    """

    runtime: str
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
    def image_file(self) -> str:
        """The image as a path that each node must see; empty where it is a registry's name."""
        return self.image if self.image.startswith("/") else ""

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(one.source for one in self.mounts)


def findings(spec: LaunchSpec) -> Iterator[tuple[Sequence[str], str]]:
    """The rules between the values of a container, as checks.py collects them."""
    wanted = spec.container
    yield from _own_flags(spec)
    if wanted.runtime == "none":
        for name in ("image", "build", "mounts", "workdir", "mount_home", "remap_root", "writable", "env"):
            if getattr(wanted, name):
                yield (
                    [f"container.{name}", "container.runtime"],
                    (
                        f"container.{name}: has no effect without a container; set container.runtime to pyxis, "
                        "apptainer or oci"
                    ),
                )
        if wanted.level != "step":
            yield _level()
        return
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
        yield from _image(wanted.runtime, wanted.image)
    yield from _mounts(spec)
    if wanted.runtime == "apptainer" and wanted.remap_root:
        yield (
            ["container.remap_root", "container.runtime"],
            "container.remap_root: is of pyxis and oci; under apptainer a rank is the user that submitted the job",
        )
    if wanted.level == "job" and wanted.runtime != "pyxis":
        yield _level()
    for name in wanted.env:
        reason = reserved(name)
        if reason:
            yield ["container.env"], f"container.env: {name} may not be named: it {reason}"
    behind = _OVERRIDING.get(wanted.runtime, ())
    for where, given in (("env", spec.env), ("secrets", spec.secrets)):
        for name in given:
            if behind and name.startswith(behind) and not name.endswith(_HARMLESS):
                yield (
                    [f"{where}.{name}"],
                    f"{where}.{name}: decides about the container behind the spec; use container instead",
                )
    relative = spec.command and spec.command[0].endswith(".py") and not spec.command[0].startswith("/")
    if wanted.workdir and relative:
        yield (
            ["container.workdir", "command"],
            (
                f"container.workdir: {spec.command[0]} lies in the run's own working directory, which is not "
                f"{wanted.workdir}; leave workdir out, or give the program's path inside the container"
            ),
        )
    if spec.preflight.imports and spec.environment.mode == "none" and wanted.runtime == "pyxis":
        yield (
            ["preflight.imports", "container.runtime"],
            (
                "preflight.imports: under pyxis the preflight looks at the nodes and not into the image, which would "
                "be extracted once more for it; leave it out"
            ),
        )


def _level() -> tuple[Sequence[str], str]:
    return (
        ["container.level", "container.runtime"],
        "container.level: job is of pyxis, whose options Slurm knows; another runtime is a command of the step",
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


def _image(runtime: str, image: str) -> Iterator[tuple[Sequence[str], str]]:
    paths = ["container.image", "container.runtime"]
    if image.startswith("/"):
        if UNMOUNTABLE.search(image):
            yield paths, f"container.image: {image!r} has a blank, comma, colon or backslash; rename the file"
    elif runtime != "pyxis":
        yield paths, f"container.image: {image!r} must be an absolute path on the cluster for {runtime}"
    elif image.startswith((".", "~", "$")) or image.endswith(IMAGE_FILES):
        yield (
            paths,
            (
                f"container.image: {image!r} is not an absolute path, and pyxis would take it for a registry's name; "
                "give its absolute path on the cluster"
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


def _mounts(spec: LaunchSpec) -> Iterator[tuple[Sequence[str], str]]:
    seen: dict[str, str] = {}
    for text in spec.container.mounts:
        one = mount(text)
        if one.target in seen:
            yield ["container.mounts"], f"container.mounts: {seen[one.target]} and {text} have one target"
        seen[one.target] = text
        foreign = [flag for flag in one.flags if flag not in APPTAINER_FLAGS]
        if spec.container.runtime == "apptainer" and foreign:
            yield (
                ["container.mounts", "container.runtime"],
                f"container.mounts: {text}: apptainer knows the flags ro and rw, not {', '.join(foreign)}",
            )


def entry(
    spec: LaunchSpec,
    *,
    runs_dir: str,
    places: Sequence[str],
    variables: Sequence[str],
    writable: Sequence[str] = (),
    built: str | None = None,
) -> Entry | None:
    """How the ranks of a launch enter their container; None without one.

    `runs_dir` holds all generations of the launch: a script that is submitted by hand makes another one there.
    `places` are the code, the environment and, last, the runtime, which nobody may write; `writable` the caches.
    `variables`: those exported. `built`: the path of an image that is made for the job.
    """
    wanted = spec.container
    image = wanted.image or built
    if wanted.runtime == "none" or image is None:
        return None
    users = [mount(text) for text in wanted.mounts]
    read_only = [Mount(place, place, ("ro",)) for place in places]
    # Each with what decides where it lies.
    ours = [
        ("launch_cluster.state_root", Mount(runs_dir, runs_dir)),
        *(("launch_cluster.store_root", place) for place in read_only[:-1]),
        ("launch_cluster.state_root", read_only[-1]),
        *(("launch_cluster.caches", Mount(place, place)) for place in writable),
        *(("checkpoint.dir", place) for place in _checkpoints(spec, users)),
    ]
    _check_places(wanted.runtime, ours, users)
    # The wider first: one that lies in another must come after it.
    mounts = tuple(sorted([*users, *(place for _root, place in ours)], key=lambda one: one.target.count("/")))
    names = tuple(dict.fromkeys([*variables, *wanted.env, *(["HOME"] if wanted.mount_home else [])]))
    workdir = wanted.workdir or runs_dir
    flags = _pyxis(spec, image, mounts, workdir) if wanted.runtime == "pyxis" else ()
    words = {"apptainer": _apptainer, "oci": _oci}.get(wanted.runtime)
    return Entry(
        runtime=wanted.runtime,
        image=image,
        mounts=mounts,
        step=flags,
        header=flags if wanted.level == "job" else (),
        words=words(spec, image, mounts, workdir) if words else (),
        workdir=wanted.workdir,
        mount_home=wanted.mount_home,
        variables=names,
        cleared=tuple(name for name in LEAKING if name not in names),
        local=tuple(_local(spec)) if wanted.runtime == "pyxis" else (),
    )


def _local(spec: LaunchSpec) -> Iterator[str]:
    """What a job has mounted below HIDDEN on its nodes."""
    if spec.environment.mode == "sealed":
        yield "RANKZERO_SEALED"
    for name, one in sorted(spec.data.items()):
        if one.file:
            yield variable(name)


def _checkpoints(spec: LaunchSpec, users: Sequence[Mount]) -> list[Mount]:
    """The folder of checkpoints at its own path, unless a mount of the job's shows it there already."""
    if spec.checkpoint.dir is None:
        return []
    folder = posixpath.normpath(spec.checkpoint.dir)
    shown = any(
        one.source == one.target and "ro" not in one.flags and posixpath.commonpath([one.target, folder]) == one.target
        for one in users
    )
    return [] if shown else [Mount(folder, folder)]


def _check_places(runtime: str, ours: Sequence[tuple[str, Mount]], users: Sequence[Mount]) -> None:
    """What can be said once it is known where the cluster keeps runs and store. Raises `SpecError`.

    `ours`: mounts with the option that decides about each.
    """
    problems = []
    for root, place in ours:
        if UNMOUNTABLE.search(place.source):
            problems.append(f"{root}: {place.source} has a blank, comma, colon or backslash and cannot be mounted")
        if runtime == "pyxis" and posixpath.commonpath([place.source, HIDDEN]) == HIDDEN:
            problems.append(f"{root}: {place.source} lies in {HIDDEN}, which enroot hides; put it elsewhere")
        for one in users:
            if posixpath.commonpath([one.target, place.target]) == place.target or (
                one.source != one.target and posixpath.commonpath([one.target, place.target]) == one.target
            ):
                problems.append(f"container.mounts: {one} is in the way of {place.target}, which the job needs there")
    if problems:
        raise SpecError(problems)


def _pyxis(spec: LaunchSpec, image: str, mounts: Sequence[Mount], workdir: str) -> Options:
    """Flags of the step, each said outright: a site's PYXIS_CONTAINER_* or defaults decide nothing."""
    wanted = spec.container
    options: list[tuple[str, str | bool]] = [
        ("container-image", image),
        # Given twice, only the last one would count (trap 1).
        ("container-mounts", ",".join(map(str, mounts))),
        ("container-workdir", workdir),
        ("container-mount-home" if wanted.mount_home else "no-container-mount-home", True),
        ("container-remap-root" if wanted.remap_root else "no-container-remap-root", True),
        ("container-writable" if wanted.writable else "container-readonly", True),
        ("no-container-entrypoint", True),
    ]
    if wanted.env:
        options.append(("container-env", ",".join(wanted.env)))
    return tuple(options)


def _apptainer(spec: LaunchSpec, image: str, mounts: Sequence[Mount], workdir: str) -> tuple[str, ...]:
    """The words after `apptainer` and before the command (apptainer exec --help)."""
    wanted = spec.container
    words = ["exec", *(f"--bind={one}" for one in mounts), f"--pwd={workdir}"]
    words += ["--no-mount=cwd"] if wanted.mount_home else ["--no-mount=home", "--no-mount=cwd"]
    if wanted.writable:
        words.append("--writable-tmpfs")
    if spec.resources.gpus_per_node:
        words.append("--rocm" if generation(spec.resources.gpu_type) == "amd" else "--nv")
    return (*words, image)


def _oci(spec: LaunchSpec, image: str, mounts: Sequence[Mount], workdir: str) -> tuple[str, ...]:
    """The words after runtime/oci.py and before the command."""
    wanted = spec.container
    words = [f"--image={image}", *(f"--bind={one}" for one in mounts), f"--pwd={workdir}"]
    for option, given in (
        ("home", wanted.mount_home),
        ("writable", wanted.writable),
        ("remap-root", wanted.remap_root),
    ):
        if given:
            words.append(f"--{option}")
    # AMD's libraries are the image's own; its devices are there as all of the node's are.
    if spec.resources.gpus_per_node and generation(spec.resources.gpu_type) != "amd":
        words.append("--nvidia")
    return (*words, "--")


def built_file(runtime: str) -> str:
    """Which file of an image that we built a runtime starts from."""
    return "image.sif" if runtime == "apptainer" else "image.sqsh"


def request(spec: LaunchSpec, made: Entry | None, runs_dir: str) -> Mapping[str, object] | None:
    """What the cluster is asked before the job is submitted: the runtime, whether the job's set-up may bring it, the
    options that pyxis must know, and the places of the nodes that this host may see as they do."""
    if made is None:
        return None
    return {
        "runtime": made.runtime,
        "own_setup": bool(spec.setup.modules or spec.setup.commands),
        "options": [name for name, _value in made.step],
        "level": spec.container.level,
        # One that is built for the job is no wish of the user's that could be wrong.
        "image": made.image_file if spec.container.image else "",
        "sources": [mount(text).source for text in spec.container.mounts],
        "runs_dir": runs_dir,
    }
