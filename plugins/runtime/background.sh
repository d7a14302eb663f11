# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What runs beside the ranks: one sampler a node, and the time of day in the job's log. Each ends by itself with what it
# watches: a leftover would keep the allocation, and its bill, alive. Sourced by job.sh and rank.sh after processes.sh.

# Sets rankzero_busy and rankzero_total to the CPU time of the node since boot, in clock ticks.
rankzero_cpu_time() {
    local user nice system idle iowait irq softirq steal
    read -r _ user nice system idle iowait irq softirq steal _ < /proc/stat
    rankzero_busy=$((user + nice + system + irq + softirq + steal))
    rankzero_total=$((rankzero_busy + idle + iowait))
}

# Appends a line of the node's load, used memory, CPUs and memory in all to file $1.
rankzero_sample_host() {
    local load key value total=0 free=0 busy=$rankzero_busy all=$rankzero_total
    read -r load _ < /proc/loadavg
    while read -r key value _; do
        case $key in MemTotal:) total=$value ;; MemAvailable:) free=$value; break ;; esac
    done < /proc/meminfo
    rankzero_cpu_time
    all=$((rankzero_total - all))
    [ "$all" -gt 0 ] || all=1
    printf '%(%Y-%m-%dT%H:%M:%S%z)T,%s,%s,%s,%s\n' -1 "$load" $(((total - free) / 1024)) \
        $((100 * (rankzero_busy - busy) / all)) $((total / 1024)) >> "$1"
}

# Appends a line for each GPU to file $1. nvidia-smi is asked anew each time: one that went on by itself (--loop) could
# outlive this, and one that hangs on a broken GPU would hold the file.
rankzero_sample_gpu() {
    local fields=timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu
    [ -s "$1" ] || printf '%s\n' "$fields" > "$1"
    timeout -k 1 10 nvidia-smi --query-gpu="$fields" --format=csv,noheader >> "$1" 2>&1
}

# Samples this node into files $2.* until process $1 ends: the node's first rank, which becomes the program. What ends the ranks by a
# signal must not end their sampler too: the time until they have saved themselves is worth seeing.
rankzero_sample() {
    local host=${RANKZERO_MONITOR_HOST:-0} gpu=${RANKZERO_MONITOR_GPU:-0} host_at=1 gpu_at=1
    trap '' TERM INT HUP USR1 USR2
    rankzero_note "$1"
    command -v nvidia-smi > /dev/null || gpu=0
    rankzero_cpu_time
    SECONDS=0
    while sleep 1 && rankzero_lives "$1"; do
        if [ "$host" != 0 ] && [ "$SECONDS" -ge "$host_at" ]; then
            rankzero_sample_host "$2.host.csv"
            host_at=$((SECONDS + host))
        fi
        if [ "$gpu" != 0 ] && [ "$SECONDS" -ge "$gpu_at" ]; then
            rankzero_sample_gpu "$2.gpu.csv"
            gpu_at=$((SECONDS + gpu))
        fi
    done
}

# Starts the sampler of this node. Not as a child of the rank ($$): a program that waits for all its children would wait
# for it, and it for the program. Its folder is made first, and never the run directory itself: that may be gone later.
rankzero_sampler() {
    [ "${RANKZERO_MONITOR_HOST:-0}" != 0 ] || [ "${RANKZERO_MONITOR_GPU:-0}" != 0 ] || return 0
    rankzero_series="$RANKZERO_RUN_DIR/monitor/$RANKZERO_ATTEMPT"
    mkdir "$RANKZERO_RUN_DIR/monitor" 2> /dev/null
    mkdir "$rankzero_series" 2> /dev/null
    rankzero_series="$rankzero_series/${SLURMD_NODENAME:-$(uname -n)}"
    if [ "${RANKZERO_MONITOR_HOST:-0}" != 0 ]; then
        { printf 'time,load1,mem_used_mb,cpu_percent,mem_total_mb\n' > "$rankzero_series.host.csv"; } 2> /dev/null || return 0
    fi
    (rankzero_sample "$$" "$rankzero_series" < /dev/null > /dev/null 2>&1 &)
}

# The time of day into the job's log, every $1 seconds, until it is told to end, or the script ends.
rankzero_clock() {
    rankzero_note "$$"
    while rankzero_pause "$1" && rankzero_lives "$$"; do printf '[rankzero] %(%Y-%m-%dT%H:%M:%S%z)T\n' -1; done
}
