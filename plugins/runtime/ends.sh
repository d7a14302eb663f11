# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Which tasks of the ranks' step have ended. srun waits without bound for one that vanished with its node where the node is
# back before Slurm has missed it. The ranks of one program end together, but for what the first one still saves, so the
# others get launcher.wait seconds after the first end; once the task of rank 0 has ended and the artifact is proven, a
# minute. Sourced by job.sh, with which it shares its variables.

# After the proof and the end of rank 0, and where all tasks have ended and srun has not.
rankzero_short_wait=60
# Between two looks; the folder lies on the shared file system.
rankzero_look_every=5

# Sets rankzero_ends to the folder in which each task leaves a file when it has ended: slurmstepd runs a program then.
rankzero_expect_ends() {
    rankzero_ends='' rankzero_ends_look='' rankzero_ends_by='' rankzero_proof_by='' rankzero_first_end='' rankzero_look_proof='' rankzero_cut_off=''
    [ "${RANKZERO_WAIT:-0}" != 0 ] || return 0
    rankzero_ends="$RANKZERO_RUN_DIR/ended/$RANKZERO_ATTEMPT"
    # It says nothing and never fails: slurmstepd would put that into the ranks' logs.
    mkdir -p "$rankzero_ends" && printf '#!/bin/bash\n{ : > %q/task-"$SLURM_PROCID"; } 2> /dev/null\nexit 0\n' \
        "$rankzero_ends" > "$rankzero_ends/note" && chmod 700 "$rankzero_ends/note"
    # A file system may not allow programs.
    [ -x "$rankzero_ends/note" ] || rankzero_ends=''
    rankzero_in rankzero_ends_look "$rankzero_look_every"
}

# Looks from time to time who has ended, and ends the step when the others have had their time.
rankzero_count_ends() {
    local ended count total
    [ -n "$rankzero_ends" ] && [ "$rankzero_ended_by" = program ] && rankzero_due "$rankzero_ends_look" || return 0
    rankzero_in rankzero_ends_look "$rankzero_look_every"
    ended=("$rankzero_ends"/task-*)
    [ -e "${ended[0]}" ] || return 0
    count=${#ended[@]} total=$RANKZERO_NODES
    [ "$RANKZERO_LAUNCHER" != srun ] || total=$RANKZERO_WORLD_SIZE
    if [ -z "$rankzero_ends_by" ]; then
        rankzero_first_end=$rankzero_now
        rankzero_in rankzero_ends_by "$RANKZERO_WAIT"
    fi
    if [ -z "$rankzero_proof_by" ] && rankzero_all_but_over "$count" "$total"; then
        rankzero_in rankzero_proof_by $((RANKZERO_WAIT < rankzero_short_wait ? RANKZERO_WAIT : rankzero_short_wait))
    fi
    ! rankzero_due "$rankzero_ends_by" && ! rankzero_due "$rankzero_proof_by" && return 0
    rankzero_message="$count of $total tasks had ended, $((total - count)) had not; the step was ended $(((rankzero_now - rankzero_first_end) / 100)) s after the first end (launcher.wait)"
    rankzero_say "$rankzero_message"
    rankzero_cut_off=yes
    ! rankzero_artifact_proven || rankzero_ended_by=artifact
    kill -TERM "$rankzero_step" 2> /dev/null
    rankzero_in rankzero_kill_at 30
    rankzero_ends_look=''
}

# Whether nothing is left to wait for but a minute: all $2 tasks have ended ($1), or that of rank 0 has and its artifact is
# proven.
rankzero_all_but_over() {
    [ "$1" -lt "$2" ] || return 0
    [ -e "$rankzero_ends/task-0" ] || return 1
    [ -z "$rankzero_look_proof" ] || rankzero_due "$rankzero_look_proof" || return 1
    rankzero_in rankzero_look_proof 30
    rankzero_artifact_proven
}

rankzero_artifact_proven() {
    [ -n "${RANKZERO_ARTIFACT_PATH:-}" ] || return 1
    rankzero_within 120 "$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/outcome.py" proven "$RANKZERO_RUN_DIR"
}
