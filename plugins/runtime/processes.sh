# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# How the runtime waits for processes that it has started. A trapped signal that interrupts the builtin `wait` makes bash
# 5.2 forget a child that ended at the same moment: the next `wait` for it never returns. So nothing here waits for a
# process that is alive. Its state is read from /proc, every wait has its seconds where it can have them, and `wait` only
# fetches the exit code of a process that has ended. A handler of a trap notes the signal and starts no process, unless it
# ends the script. Sourced by job.sh, rank.sh and an interactive session.

# Sets rankzero_born to when process $1 began, in clock ticks after boot; fails once it is gone or a zombie. Number and
# birth together are one process for ever. No process is started for it.
rankzero_born_at() {
    local line
    rankzero_born=''
    { read -r line < "/proc/$1/stat"; } 2> /dev/null || return 1
    # The name in parentheses may hold spaces, and parentheses.
    read -ra line <<< "${line##*) }"
    rankzero_born=${line[19]}
    [[ ${line[0]} != [ZX] ]]
}

# When each process that we have started began, by its number.
rankzero_births=()

# Remembers child $1. To be called right after it was started.
rankzero_note() {
    rankzero_born_at "$1"
    rankzero_births[$1]=$rankzero_born
}

# Whether child $1 is still running.
rankzero_lives() { rankzero_born_at "$1" && [ "$rankzero_born" = "${rankzero_births[$1]:-}" ]; }

# Sleeps $1 seconds; a trapped signal is handled meanwhile. No process is started for it: a pipe into which nobody writes is
# read, with a time limit. Opened when it is first needed: a rank's program would inherit it.
rankzero_pause() {
    [ -n "${rankzero_never+opened}" ] || { exec {rankzero_never}<> <(:); } 2> /dev/null || rankzero_never=''
    if [ -n "$rankzero_never" ]; then
        read -r -t "$1" -u "$rankzero_never" || :
    else
        sleep "$1"
    fi
}

# Sets rankzero_now to the hundredths of a second since the node's boot: no clock that somebody sets.
rankzero_clock_now() {
    read -r rankzero_now _ < /proc/uptime
    rankzero_now=$((10#${rankzero_now/./}))
}

# Sets variable $1 to the moment $2 seconds from now.
rankzero_in() {
    rankzero_clock_now
    printf -v "$1" %s $((rankzero_now + $2 * 100))
}

# Whether moment $1 has come. None is the empty word.
rankzero_due() {
    [ -n "$1" ] || return 1
    rankzero_clock_now
    [ "$rankzero_now" -ge "$1" ]
}

# Waits until child $1 has ended, at most $2 seconds. Returns 1 when it is still running then.
rankzero_await() {
    local until hundredths=1
    rankzero_in until "$2"
    while rankzero_lives "$1"; do
        ! rankzero_due "$until" || return 1
        rankzero_pause "0.0$hundredths"
        [ "$hundredths" = 9 ] || hundredths=$((hundredths + 1))
    done
}

# Sets rankzero_code to the exit code of child $1, which has ended.
rankzero_collect() {
    local tries=0 code=127
    # Bash removes the zombie as soon as it hears of it. Before that, `wait` would ask the kernel for any child.
    while [ -e "/proc/$1" ] && [ "$tries" -lt 50 ]; do
        rankzero_pause 0.01
        tries=$((tries + 1))
    done
    # A trapped signal may come between here and there; the status is then the signal's.
    while :; do
        rankzero_interrupted=''
        wait "$1" 2> /dev/null # the only one: a test sees to it
        rankzero_code=$?
        [ "$rankzero_code" != 127 ] || rankzero_code=$code
        if [ "$rankzero_code" -le 128 ] || [ -z "$rankzero_interrupted" ]; then break; fi
        code=$rankzero_code
    done
}

# Kills child $1, and what is in a process group of its own with it.
rankzero_kill() {
    kill -KILL -- "-$1" 2> /dev/null
    rankzero_lives "$1" && kill -KILL "$1" 2> /dev/null
}

# Gives child $1 some seconds ($2) to end, then TERM, then 10 s later KILL. Returns at most 15 s after its time.
rankzero_dismiss() {
    rankzero_await "$1" "$2" && return
    kill -TERM "$1" 2> /dev/null
    rankzero_await "$1" 10 && return
    rankzero_kill "$1"
    rankzero_await "$1" 2
}

# Runs a command ("${@:2}") that may take $1 seconds; 124 where it takes longer.
rankzero_within() {
    local child
    "${@:2}" < /dev/null &
    child=$!
    rankzero_note "$child"
    if ! rankzero_await "$child" "$1"; then
        rankzero_kill "$child"
        return 124
    fi
    rankzero_collect "$child"
    return "$rankzero_code"
}
