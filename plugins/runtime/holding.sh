# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Steps that hold something on the nodes as long as the job lives: copies, environments, mounts. They end when their
# standard input does, however the job ends; holding.py is their half. Sourced by job.sh and by an interactive session.
# shellcheck disable=SC2034,SC2154

# Waits for a process of ours, whatever signals come meanwhile.
rankzero_wait_for() {
    while kill -0 "$1" 2> /dev/null; do wait "$1"; done
}

# Starts rankzero_words with a standard input that we hold open: rankzero_tied is the process, rankzero_tie our end.
rankzero_tie() {
    local folder
    folder=$(mktemp -d) || return 1
    mkfifo "$folder/pipe" || return 1
    "${rankzero_words[@]}" < "$folder/pipe" &
    rankzero_tied=$!
    exec {rankzero_tie}> "$folder/pipe"
    rm -r "$folder"
}

# Tells a step that was started so ($1: process, $2: our end of its standard input) that the job is over, and waits.
rankzero_untie() {
    local end=$2
    exec {end}>&-
    (trap 'kill "$!"; exit' TERM; sleep 120 & wait "$!"; kill -TERM "$1") > /dev/null 2>&1 &
    rankzero_wait_for "$1"
    kill "$!" 2> /dev/null
}
