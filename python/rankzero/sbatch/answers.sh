# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# What the stand-ins print, where a script reads it. Sourced by stand_in.sh. Numbers and names differ between two
# recordings, so that a value that comes from here is seen to depend on the node.
# shellcheck shell=sh disable=SC2154,SC2086  # recorder.py writes the allocation before this text; names are words
nodes() { printf '%s\n' $node_names; }
first=${node_names%% *}
case ${0##*/} in
scontrol)
    case "$*" in
    *hostname*) nodes ;;
    *) printf 'JobId=%s JobName=x\n   NodeList=%s NumNodes=%s\n' "$number_of_job" "$node_list" "$number_of_nodes" ;;
    esac
    ;;
srun | mpirun | mpiexec)
    case " $* " in *" hostname "*) nodes ;; esac
    ;;
hostname)
    case "$*" in *-[iI]*) echo "$address" ;; *) echo "$first" ;; esac
    ;;
nvidia-smi)
    for gpu in $gpu_numbers; do echo "GPU $gpu: NVIDIA H100 (UUID: GPU-$number_of_job-$gpu)"; done
    ;;
ip | ifconfig) echo "ib$some_number  UP  $address/16" ;;
getent) echo "$address $first" ;;
git) echo "rev$number_of_job" ;;
date | shuf | nproc) echo "$some_number" ;;
whoami) echo "$USER" ;;
python* | ss | netstat) echo "$some_number" ;;
sleep)
    # What waits in the background does not come back. A script that waits for something waits for ever: it is ended.
    read -r shell </rankzero/shell
    [ "$PPID" = "$shell" ] || /bin/cat /rankzero/for-ever
    echo >>/rankzero/record/sleeps
    count=0
    while read -r _line; do count=$((count + 1)); done </rankzero/record/sleeps
    [ "$count" -lt "$most_sleeps" ] || command kill -KILL "$shell"
    ;;
esac
exit 0
