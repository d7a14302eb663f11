#!/usr/bin/env bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Samples a node into files SERIES.* until process PID ends: the node's first rank, which becomes the program. A leftover
# would keep the allocation, and its bill, alive. In bash, since an image may have no Python. Usage: sampler.sh PID SERIES
set -u
host=${RANKZERO_MONITOR_HOST:-0} gpu=${RANKZERO_MONITOR_GPU:-0} host_at=1 gpu_at=1

# Prints when process $1 began, in clock ticks after boot; nothing once it is gone or a zombie. Number and birth together
# are one process for ever.
born() {
    local line
    { read -r line < "/proc/$1/stat"; } 2> /dev/null || return
    # The name in parentheses may hold spaces, and parentheses.
    read -ra line <<< "${line##*) }"
    [[ ${line[0]} == [ZX] ]] || printf %s "${line[19]}"
}

# Sets busy and total to the CPU time of the node since boot, in clock ticks.
cpu_time() {
    local user nice system idle iowait irq softirq steal
    read -r _ user nice system idle iowait irq softirq steal _ < /proc/stat
    busy=$((user + nice + system + irq + softirq + steal))
    total=$((busy + idle + iowait))
}

# Appends a line of the node's load, used memory, CPUs and memory in all.
sample_host() {
    local load key value memory=0 free=0 before=$busy all=$total
    read -r load _ < /proc/loadavg
    while read -r key value _; do
        case $key in MemTotal:) memory=$value ;; MemAvailable:) free=$value; break ;; esac
    done < /proc/meminfo
    cpu_time
    all=$((total - all))
    [ "$all" -gt 0 ] || all=1
    printf '%(%Y-%m-%dT%H:%M:%S%z)T,%s,%s,%s,%s\n' -1 "$load" $(((memory - free) / 1024)) $((100 * (busy - before) / all)) \
        $((memory / 1024)) >> "$1.host.csv"
}

# Appends a line for each GPU. nvidia-smi is asked anew each time: one that went on by itself (--loop) could outlive this,
# and one that hangs on a broken GPU would hold the file.
sample_gpu() {
    local fields=timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu
    [ -s "$1.gpu.csv" ] || printf '%s\n' "$fields" > "$1.gpu.csv"
    timeout -k 1 10 nvidia-smi --query-gpu="$fields" --format=csv,noheader >> "$1.gpu.csv" 2>&1
}

rank=$(born "$1")
command -v nvidia-smi > /dev/null || gpu=0
cpu_time
SECONDS=0
while sleep 1 && [ -n "$rank" ] && [ "$(born "$1")" = "$rank" ]; do
    if [ "$host" != 0 ] && [ "$SECONDS" -ge "$host_at" ]; then
        sample_host "$2"
        host_at=$((SECONDS + host))
    fi
    if [ "$gpu" != 0 ] && [ "$SECONDS" -ge "$gpu_at" ]; then
        sample_gpu "$2"
        gpu_at=$((SECONDS + gpu))
    fi
done
