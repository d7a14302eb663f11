#!/bin/bash
# What a person writes by hand: the ranks, and nothing around them. $1: where the times go; $2: nodes; $3: ranks a node.
printf '%s\n' "$EPOCHREALTIME" > "$1/batch"
srun --nodes="$2" --ntasks="$(($2 * $3))" --ntasks-per-node="$3" --cpus-per-task=1 \
    /bin/bash -c 'printf "%s\n" "$EPOCHREALTIME" > "$0/rank.$SLURM_PROCID"' "$1"
