# shellcheck shell=bash disable=SC2034,SC2154
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The ranks' step: its start, the signals that reach it, and its end. The handlers of traps only note what came;
# rankzero_heed acts on it (processes.sh says why). Sourced by job.sh, with which it shares its variables.

rankzero_told='' rankzero_landed='' rankzero_early_due='' rankzero_term_at='' rankzero_kill_at=''

# A signal to the batch script (scancel, the time limit, preemption) goes on to the ranks.
rankzero_on_signal() { rankzero_interrupted=yes rankzero_told=yes; }

# The watcher's signal: the artifact is valid.
rankzero_on_artifact() { rankzero_interrupted=yes rankzero_landed=yes; }

# A launch inside another job is cancelled by URG: every process of the step gets it, and all but this script ignore it.
# TERM would have srun kill the ranks at once. They are told by their own step, and have half a minute.
rankzero_on_cancel() {
    rankzero_interrupted=yes rankzero_cancelled=yes
    [ -z "${rankzero_ended_by:-}" ] || return 0
    [ -z "${rankzero_step:-}" ] || kill -TERM "$rankzero_step" 2>/dev/null
    rankzero_refuse signal 143 "cancelled before its ranks started"
}

rankzero_expect_cancel() {
    trap rankzero_on_cancel URG
    [ -z "${rankzero_cancelled:-}" ] || rankzero_on_cancel
}

# Does what the signals that came ask for. An artifact that has landed is never taken back.
rankzero_heed() {
    # A step that has ended by itself meanwhile keeps its own exit code.
    if [ -n "$rankzero_landed" ] && [ "${rankzero_ended_by:-}" = program ] && rankzero_lives "$rankzero_step"; then
        kill -TERM "$rankzero_step" 2>/dev/null
        rankzero_ended_by=artifact
        rankzero_say "the artifact has landed: ending the step"
        # srun cannot forward KILL; once it is gone and this script ends, Slurm itself clears the nodes.
        rankzero_in rankzero_kill_at 5
    fi
    if [ -n "$rankzero_told" ]; then
        rankzero_told=''
        [ "${rankzero_ended_by:-}" = artifact ] || rankzero_ended_by=signal
        [ -z "${rankzero_step:-}" ] || kill -TERM "$rankzero_step" 2>/dev/null
    fi
    if [ -n "${rankzero_cancelled:-}" ] && [ "${rankzero_ended_by:-}" = program ]; then
        rankzero_ended_by=signal rankzero_message=cancelled
        rankzero_in rankzero_term_at 30
    fi
    if [ -n "$rankzero_early_due" ] && [ "${rankzero_ended_by:-}" = program ] && [ -n "$rankzero_step" ]; then
        rankzero_early_due=''
        rankzero_tell_early
    fi
}

# Waits for the end of the step, and heeds what comes meanwhile. Sets rankzero_code. A step that outlives its kill is left
# to Slurm, which clears the nodes after this script.
rankzero_attend() {
    while rankzero_lives "$rankzero_step"; do
        rankzero_heed
        rankzero_count_ends
        if rankzero_due "$rankzero_term_at"; then
            kill -TERM "$rankzero_step" 2>/dev/null
            rankzero_term_at=''
            [ -n "$rankzero_kill_at" ] || rankzero_in rankzero_kill_at 60
        fi
        if rankzero_due "$rankzero_kill_at"; then
            rankzero_kill "$rankzero_step"
            if ! rankzero_await "$rankzero_step" 10; then
                rankzero_code=137
                return
            fi
        fi
        rankzero_pause 0.05
    done
    rankzero_collect "$rankzero_step"
}

# Runs a step ("${@:2}") that may take $1 seconds.
rankzero_bounded() {
    rankzero_ends=''
    "${@:2}" < /dev/null &
    rankzero_step=$!
    rankzero_note "$rankzero_step"
    rankzero_in rankzero_kill_at "$1"
    rankzero_attend
    rankzero_kill_at=''
    return "$rankzero_code"
}

# Runs the ranks' step ("$@") until it has ended for good: again on spare nodes, where a node of it has failed. None of
# these have local variables: a local one takes over the export of a job's own variable of that name.
rankzero_launch() {
    rankzero_step_words=("$@")
    # Once more, as late as can be: the nodes may have been looked at for minutes.
    ! rankzero_newer=$(rankzero_superseded) || rankzero_refuse setup 75 "$rankzero_newer"
    while :; do
        # shellcheck disable=SC2034 # spare.sh reads them
        rankzero_logs_before=$RANKZERO_LOGS rankzero_nodelist_before=$RANKZERO_NODELIST
        rankzero_run "${rankzero_step_words[@]}"
        rankzero_heal || break
        rankzero_next_step "${rankzero_step_words[@]}"
    done
    trap '' TERM INT USR1 USR2 URG
}

# Runs the ranks' step ("$@") once and waits for its end, the artifact, or a signal.
rankzero_run() {
    rankzero_ended_by=program rankzero_step='' rankzero_watcher='' rankzero_ticker=''
    rankzero_landed='' rankzero_message='' rankzero_early_due='' rankzero_term_at='' rankzero_kill_at=''
    trap rankzero_on_signal TERM INT
    trap rankzero_on_artifact USR1
    rankzero_expect_ends
    "$1" ${rankzero_ends:+"--task-epilog=$rankzero_ends/note"} "${@:2}" &
    rankzero_step=$!
    rankzero_note "$rankzero_step"
    # An early signal that came before there was a step to tell.
    [ -z "$rankzero_early" ] || kill -TERM "$rankzero_step" 2>/dev/null
    if [ -n "${RANKZERO_TIMESTAMPS:-}" ]; then
        rankzero_clock "$RANKZERO_TIMESTAMPS" &
        rankzero_ticker=$!
    fi
    if [ "${RANKZERO_ARTIFACT_THEN:-}" = end ]; then
        "$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/outcome.py" watch "$RANKZERO_RUN_DIR" --signal-to "$$" &
        rankzero_watcher=$!
    fi
    rankzero_attend
    rankzero_exit_code=$rankzero_code
    # Ranks that take their end for a success have not come to theirs.
    [ "$rankzero_cut_off$rankzero_ended_by$rankzero_exit_code" != yesprogram0 ] || rankzero_exit_code=124
    # An artifact that lands from here on is judged with the verdict.
    trap '' USR1
    rankzero_landed=''
    rankzero_heed
    if [ -z "${RANKZERO_SPARES:-}" ] || [ "$rankzero_ended_by" != program ] || [ "$rankzero_exit_code" = 0 ]; then
        trap '' TERM INT USR2 URG
    fi
    for rankzero_helper in $rankzero_watcher $rankzero_ticker; do kill "$rankzero_helper" 2>/dev/null; done
}
