# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section `environment` of the field table: the Python environment of the ranks. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option

# Modes in which each node makes the environment from packages: the kinds of such a set.
ON_NODES = ("cache", "wheelhouse")


@dataclass(frozen=True)
class Environment:
    mode: str = option(
        t.choice("venv", "sealed", *ON_NODES, "conda", "path", "none"),
        "`venv`: built once on the cluster from pyproject.toml, before the job. `sealed`: the same as one read-only "
        "file, which every node mounts for the time of the job. `cache`, `wheelhouse`: each node makes it on its own "
        "disk, offline, from uv's cache or from wheels in the store. `conda`: built once on the cluster from `file`. "
        "`path`: a venv or conda environment that the site has already, see `path`. `none`: what the node has.",
        "none",
        example="venv",
    )
    path: str | None = option(
        t.text(r"/[^\0\n:%\\]*", "an absolute path on the cluster"),
        "With `mode: path`: the environment's folder on shared storage, with bin/python. What is installed there is "
        "part of the launch key besides: an environment that was changed is a new launch.",
        example="/shared/envs/torch",
    )
    project: str = option(t.text(r"[^\0]+", "a path"), "Folder with pyproject.toml.", ".", key=False, example=".")
    file: str | None = option(
        t.text(r"[^\0]+", "a path"),
        "With `mode: conda`: what the environment is made from, in the folder `project`: an environment.yml, an "
        "explicit lock with hashes, or a conda-pack archive.",
        key=False,
        example="environment.yml",
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
        "With `mode: cache` or `wheelhouse`: for which nodes the packages are; those like the host that submits where "
        "it is not given. Needs `python`.",
        key=False,
        example="x86_64-manylinux_2_28",
    )
    python: str | None = option(
        t.text(r"[0-9]{1,4}\.[0-9]{1,4}", 'a Python version such as "3.11"'),
        "Python of the environment; the cluster's own where it is not given.",
        key=False,
        example="3.11",
    )
    torch: str = option(
        t.text(
            r"auto|cpu|xpu|cu[0-9]{2,3}|rocm[0-9]+(\.[0-9]+){1,2}",
            "auto, cpu, xpu, or a build such as cu128 or rocm6.4",
        ),
        "Which build of torch. `auto`: a wheel in a directory that pip's settings name, else whatever the index gives; "
        "otherwise a build by uv's name for it.",
        "auto",
        key=False,
        example="cpu",
    )
    compression: str = option(
        t.choice("zstd", "lz4"),
        "With `mode: sealed`: how the file is compressed. `lz4` is read faster and is larger.",
        "zstd",
        key=False,
        example="lz4",
    )
    interpreter: str = option(
        t.choice("auto", "managed", "copied", "node"),
        "With `mode: sealed`: the Python in the file. `managed`: one of uv's own; `copied`: that of the host that "
        "builds; `node`: none, every node must have the same one. `auto`: the first of them that can be had.",
        "auto",
        key=False,
    )
    local_copy: str = option(
        t.choice("auto", "always", "never"),
        "With `mode: sealed`: whether each node copies the file to a disk of its own before it mounts it. `auto`: "
        "where the store is a network file system and a disk of the node has room. Its digest is checked in any case.",
        "auto",
        key=False,
    )
