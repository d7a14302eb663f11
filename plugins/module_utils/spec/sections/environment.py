# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections `environment` and `setup` of the field table: the Python environment of the ranks, and what a site needs
before the launch. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option

# Modes in which each node builds the environment from packages. They are also the kinds of package sets.
ON_NODES = ("cache", "wheelhouse")
# Modes whose packages are those of a project: of its pyproject.toml, or of its requirements.txt.
FROM_PROJECT = ("venv", "sealed", *ON_NODES)


@dataclass(frozen=True)
class Environment:
    """Section `environment`: the Python environment of the ranks."""

    mode: str = option(
        t.choice(*FROM_PROJECT, "conda", "path", "none"),
        "`venv`: built once on the cluster from pyproject.toml, before the job. `sealed`: the same as one "
        "read-only file, which every node mounts during the job. `cache`, `wheelhouse`: each node builds it on its "
        "own disk, offline, from uv's cache or from wheels in the store; with a `container`, the first job builds it "
        "inside the image, on top of the image's own Python and packages. `conda`: built once on the cluster from "
        "`file`. `path`: an existing venv or conda environment of the site, see `path`. `none`: the node's own "
        "packages.",
        "none",
        example="venv",
    )
    path: str | None = option(
        t.text(r"[^\0\n:%\\~][^\0\n:%\\]*", "a path on the cluster: absolute, or relative to code.src"),
        "With `mode: path`: the environment's folder on shared storage, with bin/python. A relative path, such as "
        "`.venv`, starts at `code.src` (or `code.in_place`): the environment is used where it is, and not copied. The "
        "list of installed packages is part of the launch key too: a changed environment makes a new launch.",
        example="/shared/envs/torch",
    )
    conda: str | None = option(
        t.text(r"[^\0\n /:#~]+", "the name of a conda environment"),
        "With `mode: path`: the name of a conda environment, as `conda env list` shows it on the login node, instead "
        "of `path`. The plan has the path.",
        key=False,
        example="torch",
    )
    project: str = option(t.text(r"[^\0]+", "a path"), "Folder with pyproject.toml.", ".", key=False, example=".")
    file: str | None = option(
        t.text(r"[^\0]+", "a path"),
        "With `mode: conda`: the source of the environment, in the folder `project`: an environment.yml, an "
        "explicit lock with hashes, or a conda-pack archive.",
        key=False,
        example="environment.yml",
    )
    requirements: str | None = option(
        t.text(r"[^\0]+", "a path"),
        "With `mode: venv`, `sealed`, `cache` or `wheelhouse`: a requirements.txt of pip in the folder `project`, "
        "instead of its pyproject.toml. uv locks it in the same way, and its comments are not in the key.",
        key=False,
        example="requirements.txt",
        also=("requirements",),
    )
    extras: tuple[str, ...] = option(
        t.listed(t.text(r"[A-Za-z0-9][A-Za-z0-9._-]*", "the name of an extra")),
        "Optional dependency groups of the project to install.",
        (),
        key=False,
        example=["cpu"],
    )
    platform: str | None = option(
        t.text(r"[a-z0-9_]+-manylinux_2_[0-9]{1,2}", "machine and glibc such as x86_64-manylinux_2_28"),
        "With `mode: cache` or `wheelhouse`: the platform of the nodes that use the packages. Default: that of the "
        "submitting host. Requires `python`.",
        key=False,
        example="x86_64-manylinux_2_28",
    )
    python: str | None = option(
        t.text(r"[0-9]{1,4}\.[0-9]{1,4}", 'a Python version such as "3.11"'),
        "Python version of the environment. Default: the cluster's own Python.",
        key=False,
        example="3.11",
    )
    torch: str = option(
        t.text(
            r"auto|cpu|xpu|cu[0-9]{2,3}|rocm[0-9]+(\.[0-9]+){1,2}",
            "auto, cpu, xpu, or a build such as cu128 or rocm6.4",
        ),
        "Build of torch. `auto`: a wheel in a directory that pip's settings name, otherwise the index's default "
        "build. Any other value is uv's name of a build.",
        "auto",
        key=False,
        example="cpu",
    )
    compression: str = option(
        t.choice("zstd", "lz4"),
        "With `mode: sealed`: compression of the file. `lz4` is faster to read and larger.",
        "zstd",
        key=False,
        example="lz4",
    )
    interpreter: str = option(
        t.choice("auto", "managed", "copied", "node"),
        "With `mode: sealed`: the Python in the file. `managed`: one of uv's own. `copied`: that of the build "
        "host. `node`: none, every node must have the same one. `auto`: the first of these that is available.",
        "auto",
        key=False,
    )
    local_copy: str = option(
        t.choice("auto", "always", "never"),
        "With `mode: sealed`: whether each node copies the file to its own disk before mounting it. `auto`: if the "
        "store is a network file system and a disk of the node has room. The digest is checked in any case.",
        "auto",
        key=False,
    )

    @property
    def built(self) -> bool:
        """Whether it is made for the launch, from packages."""
        return self.mode not in ("path", "none")

    @property
    def adopted(self) -> bool:
        """Whether the job enters it as a folder that may be a conda environment."""
        return self.mode in ("path", "conda")


@dataclass(frozen=True)
class Setup:
    """Section `setup`: what a site needs to run before the launch."""

    TEXT_IS: ClassVar[str] = "{{commands: [{}]}}"

    modules: tuple[str, ...] = option(
        t.listed(t.text(r"[A-Za-z0-9][A-Za-z0-9_./+-]*", "a module name such as cuda/12.4")),
        "Site modules to load before the launch.",
        (),
        example=["cuda/12.4"],
    )
    commands: tuple[str, ...] = option(
        t.listed(t.text()),
        "Shell lines to run in the batch script before the launch. A line that fails ends the job before its ranks, "
        "unless it ends in `|| true`.",
        (),
        example=["ulimit -l unlimited"],
        instead_of=("get-user-env",),
    )
    before_ranks: tuple[str, ...] = option(
        t.listed(t.text()),
        "Shell lines to run once on each node before its ranks start, outside of their container: to stage in. With "
        "`roles`, before any of them. A line that fails ends the job before its ranks, unless it ends in `|| true`. "
        "What a line exports, the lines after it have, and the ranks do not.",
        (),
        example=['cp "$RANKZERO_CODE"/data/*.tar /local'],
    )
    after_ranks: tuple[str, ...] = option(
        t.listed(t.text()),
        "Shell lines to run once on each node after the last rank has ended, also with a failure, and before the "
        "artifact is checked: to copy out. A line that fails is a warning on the card. They do not run where Slurm "
        "ends the job.",
        (),
        example=['cp -r /local/checkpoints "$RANKZERO_RUN_DIR"/work'],
    )
    budget: int = option(
        t.integer(1, 86400, seconds=True),
        "Time limit in seconds for `before_ranks`, and for `after_ranks`.",
        600,
        key=False,
    )
