#!/bin/bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Starts torch.distributed.run on one node, with static rendezvous (L2). Everything that differs between nodes is
# expanded here, on the node. Usage: node.sh PROGRAM [ARG ...]
set -u
exec "$RANKZERO_PYTHON" -m torch.distributed.run \
    --nnodes="$RANKZERO_NODES" --nproc-per-node="$RANKZERO_RANKS_PER_NODE" --node-rank="$SLURM_NODEID" \
    --master-addr="$RANKZERO_MASTER_ADDR" --master-port="$RANKZERO_MASTER_PORT" \
    --no-python /bin/bash "$RANKZERO_RUNTIME/rank.sh" "$@"
