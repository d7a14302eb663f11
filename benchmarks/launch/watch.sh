#!/bin/sh
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# sbatch and a loop, as users write it: watch.sh SCRIPT. If the artifact exists, that counts as success, and the job is
# cancelled. It waits forever for a job that never writes the artifact.
set -eu
id=$(sbatch --parsable "$1")
echo "job $id submitted"
until [ -s result.json ]; do sleep 0.2; done
scancel "$id"
