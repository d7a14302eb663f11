# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apptainer, or its predecessor singularity: a command around each of Slurm's tasks (apptainer exec --help)."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import Command, Runtime, Wish


def _words(wish: Wish) -> tuple[str, ...]:
    words = ["exec", *(f"--bind={mount}" for mount in wish.mounts), f"--pwd={wish.workdir}"]
    words += ["--no-mount=cwd"] if wish.mount_home else ["--no-mount=home", "--no-mount=cwd"]
    if wish.writable:
        words.append("--writable-tmpfs")
    if wish.gpus:
        words.append("--rocm" if wish.gpus == "amd" else "--nv")
    return (*words, wish.image)


APPTAINER = Runtime(
    name="apptainer",
    doc="its command (or singularity's), once for each of Slurm's tasks",
    takes="`.sif`, a folder, or `.sqsh` (1.4 or later)",
    needs="the command `apptainer` or `singularity`",
    each="Slurm task",
    suffix=".sif",
    refuses="is neither a SIF file nor a squashfs",
    images=("sif", "root", "squashfs"),
    commands=(Command("apptainer"), Command("singularity")),
    words=_words,
    built="image.sif",
    libraries="/.singularity.d/libs",
    flags=("ro", "rw"),
    overriding=("APPTAINER", "SINGULARITY"),
    carries=("APPTAINERENV_", "SINGULARITYENV_"),
)
