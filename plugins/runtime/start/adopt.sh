# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Enters an environment that the site has already, or a conda environment that this collection built ($1). Sourced by
# job.sh and by an interactive session, which both define rankzero_refuse.

# Packages of a conda environment may need variables (compilers, CUDA, GDAL). Scripts in the environment set them, which
# `conda activate` would source. The variables of the job are set after them and win.
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
