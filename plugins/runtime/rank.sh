#!/bin/bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Becomes one rank: its log, the names torch expects, its network interface, its secrets; then execs the program, so
# that signals and exit codes arrive. Usage: rank.sh PROGRAM [ARG ...]
set -u

if [ "$RANKZERO_LAUNCHER" = srun ]; then
    export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID NODE_RANK=$SLURM_NODEID
    export WORLD_SIZE=$RANKZERO_WORLD_SIZE LOCAL_WORLD_SIZE=$RANKZERO_RANKS_PER_NODE
    export MASTER_ADDR=$RANKZERO_MASTER_ADDR MASTER_PORT=$RANKZERO_MASTER_PORT
else
    export NODE_RANK=$GROUP_RANK
fi

log=$(printf '%s/rank-%04d.log' "$RANKZERO_LOGS" "$RANK")
exec >> "$log" 2>&1 || exit 73
[ "${RANKZERO_DEBUG:-0}" = 0 ] || set -x

# The interface that carries the route to the first node; on that node, the one that has its address. NCCL and Gloo get
# the same one, and a job's own choice stands.
interface() {
    local address
    address=$(getent ahostsv4 "$MASTER_ADDR" | awk 'NR == 1 { print $1 }')
    [ -n "$address" ] && command -v ip > /dev/null || return 0
    ip -o -4 addr show to "$address" | awk 'NR == 1 { print $2; found = 1 } END { exit !found }' \
        || ip -o -4 route get "$address" | sed -n 's/.* dev \([^ ]*\).*/\1/p'
}
chosen=$(interface)
if [ -n "$chosen" ]; then
    export GLOO_SOCKET_IFNAME=${GLOO_SOCKET_IFNAME:-$chosen} NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-$chosen}
fi

# Values are base64, one NAME=VALUE a line: any text survives, newlines too. Tracing is off while they are read.
{ set +x; } 2> /dev/null
if [ -f "$RANKZERO_RUN_DIR/secrets.env" ]; then
    while IFS='=' read -r name value; do
        value=$(printf '%s' "$value" | base64 -d; printf x)
        export "$name=${value%x}"
    done < "$RANKZERO_RUN_DIR/secrets.env"
    unset name value
fi

printf '[rankzero] RANK=%s LOCAL_RANK=%s WORLD_SIZE=%s NODE_RANK=%s host=%s attempt=%s master=%s:%s interface=%s\n' \
    "$RANK" "$LOCAL_RANK" "$WORLD_SIZE" "$NODE_RANK" "$(uname -n)" "$RANKZERO_ATTEMPT" "$MASTER_ADDR" "$MASTER_PORT" \
    "${chosen:-unset}"
cd "$RANKZERO_RUN_DIR/work" || exit 66
exec "$@"
