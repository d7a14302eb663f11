# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes a task of a job array the element of the sweep that it runs. Sourced by the rendered script, before job.sh.

# $1: the array's folder. Line N+1 of its file `elements` is task N's: that file was written before the array was
# submitted, and is never changed. Sets RANKZERO_KEY, RANKZERO_GENERATION, RANKZERO_RUN_DIR and what differs between the
# elements, and defines rankzero_element_variables and rankzero_element_program.
rankzero_element() {
    local rankzero_line
    if [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
        printf '[rankzero] this script runs the elements of a sweep: submit it as the array that it is\n'
        exit 64
    fi
    rankzero_line=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1)){p;q}" "$1/elements")
    if [ -z "$rankzero_line" ]; then
        printf '[rankzero] %s/elements has no line for task %s: nothing is run\n' "$1" "$SLURM_ARRAY_TASK_ID"
        exit 66
    fi
    # shellcheck disable=SC2034 # job.sh hands it to the conductor
    RANKZERO_ARRAY_DIR=$1
    eval "$rankzero_line"
}
