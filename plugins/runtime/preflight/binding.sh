# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Says what one task is bound to, in one line of the preflight step's output; binding.py reads it. The preflight is
# placed as the ranks will be; the first task of a node then does the looking, the others are done.
# Sourced by a bash whose arguments are the program of the first task: PROGRAM [ARG ...]
set -u
cpus=unknown
while read -r name value; do
    [ "$name" != Cpus_allowed_list: ] || cpus=$value
done < /proc/self/status
read -r online < /sys/devices/system/cpu/online || online=$cpus
gpus=${CUDA_VISIBLE_DEVICES-${ROCR_VISIBLE_DEVICES-}}
# A site without generic resources: all devices of the node.
[ -n "${CUDA_VISIBLE_DEVICES+set}${ROCR_VISIBLE_DEVICES+set}" ] || for device in /dev/nvidia[0-9]*; do
    [ ! -e "$device" ] || gpus="${gpus:+$gpus,}${device#/dev/nvidia}"
done
printf '[binding] task=%s node=%s cpus=%s online=%s gpus=%s\n' \
    "$SLURM_PROCID" "${SLURMD_NODENAME:-$(uname -n)}" "$cpus" "$online" "${gpus:-none}"
[ "${SLURM_LOCALID:-0}" != 0 ] || exec "$@"
