#!/bin/sh
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# A launch as seen from outside: job.sh RUN_DIR. It reports its start, prints a step now and then, and keeps running.
mkdir -p "$1/logs/0"
echo "1 cluster $SLURM_JOB_ID" >"$1/claim"
echo "{\"job_id\": \"$SLURM_JOB_ID\", \"attempt\": 0, \"nodes\": [\"$(hostname)\"]}" >"$1/started.json.new"
mv "$1/started.json.new" "$1/started.json"
step=0
while :; do
    step=$((step + 1))
    echo "step $step/1000 loss 2.5" >>"$1/logs/0/rank-0000.log"
    sleep 5
done
