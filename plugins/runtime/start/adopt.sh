# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Enters an environment that the site has already. Sourced by job.sh and by an interactive session, which both have
# rankzero_refuse.

# An environment that the site has already, or a conda environment that we have made ($1). What packages of a conda environment need (compilers, CUDA, GDAL) is set by
# scripts in it, which `conda activate` would source: the variables of the job come after them and win.
rankzero_adopt() {
    local rankzero_script
    [ -x "$1/bin/python" ] || rankzero_refuse setup 78 "the environment $1 is not on $(uname -n)"
    [ -d "$1/conda-meta" ] || return 0
    export CONDA_PREFIX=$1 CONDA_DEFAULT_ENV=$1 CONDA_SHLVL=1
    set +u
    for rankzero_script in "$1"/etc/conda/activate.d/*.sh; do
        # shellcheck disable=SC1090
        [ ! -r "$rankzero_script" ] || . "$rankzero_script"
    done
    set -u
}
