# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Steps that hold something on the nodes as long as the job lives: copies, environments, mounts. They end when their
# standard input does, however the job ends; holding.py is their half. Sourced by job.sh and by an interactive session.
# shellcheck disable=SC2034,SC2094,SC2154

# Starts rankzero_words with a standard input that we hold open: rankzero_tied is the process, rankzero_tie our end.
rankzero_tie() {
    local folder input
    folder=$(mktemp -d) || return 1
    mkfifo "$folder/pipe" || return 1
    # Both ends are opened here: whoever opens one end of a pipe waits for the other, for ever where nobody comes.
    exec {rankzero_tie}<> "$folder/pipe" {input}< "$folder/pipe" || return 1
    "${rankzero_words[@]}" <&"$input" {input}<&- {rankzero_tie}>&- &
    rankzero_tied=$!
    rankzero_note "$rankzero_tied"
    exec {input}<&-
    rm -r "$folder"
}

# Tells a step that was started so ($1: process, $2: our end of its standard input) that the job is over, and waits: until
# the moment rankzero_untied_by, which all of them share, or two minutes.
rankzero_untie() {
    local end=$2 left=120
    exec {end}>&-
    if [ -n "${rankzero_untied_by:-}" ]; then
        rankzero_clock_now
        left=$(((rankzero_untied_by - rankzero_now) / 100))
    fi
    rankzero_dismiss "$1" "$((left > 1 ? left : 1))"
}
