#!/bin/bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# What a user writes by hand: only the ranks. $1: folder for the times; $2: nodes; $3: ranks per node.
# shellcheck disable=SC2016 # expanded by each rank's own bash
srun --nodes="$2" --ntasks="$(($2 * $3))" --ntasks-per-node="$3" --cpus-per-task=1 \
    /bin/bash -c 'printf "%s\n" "$EPOCHREALTIME" > "$0/rank.$SLURM_PROCID"' "$1"
