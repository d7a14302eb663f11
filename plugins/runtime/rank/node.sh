# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Starts torch.distributed.run on one node. Everything that differs between nodes is expanded here, on the node.
# Usage: node.sh PROGRAM [ARG ...]
set -u
set -- --no-python /bin/bash "$RANKZERO_RUNTIME/rank/rank.sh" "$@"
case $RANKZERO_RENDEZVOUS in
    standalone) set -- --standalone "$@" ;;
    # The node that has this address opens the store, and the others connect to it; the id keeps two jobs apart.
    c10d)
        set -- --rdzv-backend=c10d --rdzv-endpoint="$RANKZERO_MASTER_ADDR:$RANKZERO_MASTER_PORT" \
            --rdzv-id="${RANKZERO_ATTACHED:-$SLURM_JOB_ID}.$RANKZERO_ATTEMPT" "$@"
        ;;
    *) set -- --node-rank="$SLURM_NODEID" --master-addr="$RANKZERO_MASTER_ADDR" --master-port="$RANKZERO_MASTER_PORT" "$@" ;;
esac
exec "$RANKZERO_PYTHON" -m torch.distributed.run --nnodes="$RANKZERO_NODES" --nproc-per-node="$RANKZERO_RANKS_PER_NODE" "$@"
