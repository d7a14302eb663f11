# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What a batch script does for ranks that run in a container, all of it outside: enter.sh is the part inside. Sourced by
# the rendered script after job.sh; never run alone.

# Where the container stands in the job's header as well: whether this script is on the node, as it has to be, and rid of
# what the user's login would set (Slurm reads it for a job whose --export is NONE).
rankzero_container_outside() {
    local name
    if ! command -v srun > /dev/null || ! command -v scontrol > /dev/null; then
        rankzero_say "the batch script itself is in the image, where Slurm's commands are not: set container.level to step"
        exit 78
    fi
    for name in $(compgen -e); do
        case $name in
            SLURM*|RANKZERO_*|CUDA_*|NVIDIA_*|ROCR_*|HIP_*|GPU_*|ZE_*|HOME|USER|PATH|TMPDIR|HOSTNAME|PWD|SHLVL|_) ;;
            *) unset "$name" 2> /dev/null ;;
        esac
    done
}
