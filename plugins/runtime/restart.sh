# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The early signal and what follows it: the ranks are told, and once they have ended the job goes back into the
# queue, or says why not. Only the batch script requeues; two requeuers would fight. Sourced by job.sh,
# with which it shares its variables.
# shellcheck shell=bash disable=SC2034,SC2154

# From the start of the script on: an untrapped signal would end it. One that comes before the ranks is kept for them.
rankzero_expect_early() {
    rankzero_early=''
    [ -z "${RANKZERO_EARLY_SECONDS:-}" ] || trap rankzero_on_early USR2
}

# The early signal goes on to the ranks. srun takes TERM for an order to abort the step, which leaves the ranks KillWait
# seconds whatever the job asked for; scancel only delivers it, to every process of the step.
rankzero_on_early() {
    rankzero_interrupted=yes
    [ "${rankzero_ended_by:-program}" = program ] || return 0
    rankzero_early=yes
    rankzero_say "$RANKZERO_EARLY_SECONDS s or a little more before the time limit: the ranks get $RANKZERO_EARLY_SIGNAL"
    [ -z "${rankzero_ended_by:-}" ] || rankzero_early_due=yes
}

# Tells the ranks of it.
rankzero_tell_early() {
    rankzero_within 60 scancel --signal="$RANKZERO_EARLY_SIGNAL" "$rankzero_slurm_job" || kill -TERM "$rankzero_step" 2>/dev/null
}

# After the ranks have ended: what the early signal means for the end. Sets rankzero_ended_by, rankzero_message, and
# rankzero_again where the job is to be requeued.
rankzero_after_early() {
    rankzero_message=${rankzero_message:-} rankzero_again=''
    [ -n "$rankzero_early" ] && [ "$rankzero_ended_by" = program ] || return 0
    # It reached its end just in time.
    if [ "$rankzero_exit_code" = 0 ] && [ -n "${RANKZERO_ARTIFACT_PATH:-}" ] \
        && "$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/outcome.py" proven "$RANKZERO_RUN_DIR"; then
        return 0
    fi
    rankzero_ended_by=signal
    rankzero_message="stopped by the signal before the time limit (checkpoint.signal_before_end); not requeued: "
    if [ -z "${RANKZERO_MAX_RESTARTS:-}" ]; then
        rankzero_message+="checkpoint.requeue is not true"
    elif [ "$RANKZERO_ATTEMPT" -ge "$RANKZERO_MAX_RESTARTS" ]; then
        rankzero_message+="this was attempt $((RANKZERO_ATTEMPT + 1)) of at most $((RANKZERO_MAX_RESTARTS + 1)) (checkpoint.max_restarts)"
    elif [ -n "${RANKZERO_PROGRESS:-}" ] && rankzero_stands_still; then
        rankzero_message+="no progress: $RANKZERO_PROGRESS (checkpoint.progress) is the same after attempt $rankzero_before and attempt $((RANKZERO_ATTEMPT + 1))"
    else
        rankzero_again=yes rankzero_why="stopped by the signal before the time limit"
        rankzero_message="requeued: attempt $((RANKZERO_ATTEMPT + 2)) of at most $((RANKZERO_MAX_RESTARTS + 1)) follows"
    fi
}

# Makes this job, in this attempt, the one owner of its folder of checkpoints, or ends it.
rankzero_own_checkpoint() {
    local said code
    [ -n "${RANKZERO_CHECKPOINT_DIR:-}" ] || return 0
    said=$("$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/owner.py" take "$RANKZERO_CHECKPOINT_DIR" 2>&1)
    code=$?
    [ "$code" = 0 ] || rankzero_refuse setup "$code" "checkpoint.dir: ${said##*$'\n'}"
    rankzero_say "checkpoint.dir: $said"
}

# A preempted job has its partition's GraceTime: Slurm sends TERM to the ranks, but not to this script. A script that then
# ends by itself would make the job FAILED, and Slurm would not requeue it: so it does that here, where the job may be
# requeued at all. Sets the same variables as rankzero_after_early.
rankzero_after_preemption() {
    [ -z "$rankzero_again" ] && [[ $rankzero_ended_by == @(program|signal) ]] && rankzero_preempted || return 0
    if [ "$rankzero_ended_by$rankzero_exit_code" = program0 ] && [ -n "${RANKZERO_ARTIFACT_PATH:-}" ] \
        && "$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/outcome.py" proven "$RANKZERO_RUN_DIR"; then
        return 0
    fi
    rankzero_ended_by=signal
    rankzero_why="preempted by a job of a higher priority"
    rankzero_message="$rankzero_why; "
    if [[ $rankzero_shown == *" Requeue=1 "* ]]; then
        rankzero_slurm_requeues || rankzero_again=yes
        rankzero_message+="requeued: attempt $((RANKZERO_ATTEMPT + 2)) follows"
    elif [ -n "${RANKZERO_MAX_RESTARTS:-}" ]; then
        # Asked for, and the site has taken it away: another job goes on.
        rankzero_again=yes
        rankzero_message+="not requeued: this site does not allow it"
    else
        rankzero_message+="not requeued: this site does that for jobs that ask for it only (checkpoint.requeue)"
    fi
}

# Whether Slurm has preempted this attempt; what it shows of the job is in rankzero_shown. Inside another job that is the
# other job's affair.
rankzero_preempted() {
    local since preempted
    [ -z "${RANKZERO_ATTACHED:-}" ] || return 1
    rankzero_shown=$(SLURM_TIME_FORMAT=standard rankzero_within 60 scontrol --oneliner show job "$rankzero_slurm_job" 2> /dev/null) || return 1
    preempted=${rankzero_shown#* PreemptTime=} since=${rankzero_shown#* StartTime=}
    # An attempt before this one may have been the preempted one. Times are written so that text compares.
    [[ ${preempted%% *} == [0-9]* && ! ${preempted%% *} < ${since%% *} ]]
}

# Newer Slurms requeue a preempted job when its script ends, whatever its exit code; 24.11 would requeue it once more, after
# the next attempt's success, for a requeue of ours. Seen on 24.11 and 26.05; 22.05 does not do it.
rankzero_slurm_requeues() {
    [[ "$(rankzero_within 20 scontrol --version 2> /dev/null)" =~ \ ([0-9]+)\.0*([0-9]+) ]] \
        && ((BASH_REMATCH[1] * 100 + BASH_REMATCH[2] >= 2411))
}

# Whether the file that shows progress is as the last attempt before left it; keeps what this one leaves. A file that is
# missing, or cannot be read, is the same as one that was missing before.
rankzero_stands_still() {
    local folder="$RANKZERO_RUN_DIR/progress" now before=''
    now=$(sha256sum < "${RANKZERO_CHECKPOINT_DIR:-$RANKZERO_RUN_DIR/work}/$RANKZERO_PROGRESS") || now=missing
    mkdir -p "$folder" && printf '%s\n' "$now" | rankzero_publish "$folder/$RANKZERO_ATTEMPT"
    for ((rankzero_before = RANKZERO_ATTEMPT; rankzero_before > 0; rankzero_before--)); do
        # An attempt that Slurm itself ended has left no word.
        if [ -f "$folder/$((rankzero_before - 1))" ]; then
            before=$(cat "$folder/$((rankzero_before - 1))")
            break
        fi
    done
    [ "$now" = "$before" ]
}

# After the outcome is written: Slurm ends this script as soon as it has requeued the job. Where it may not be requeued,
# another job goes on; where Slurm does not answer, there is none: a job that is requeued later would be a second one.
rankzero_requeue() {
    local said without
    without=$(rankzero_without)
    if said=$(rankzero_within 120 scontrol requeue "$rankzero_slurm_job" 2>&1); then
        # Slurm may take minutes to see that a node is dead, and would give it to the next attempt. Only a job that waits
        # can be told what to leave out.
        [ -z "$without" ] || said=$(rankzero_within 60 scontrol update "JobId=$rankzero_slurm_job" "ExcNodeList=$without" 2>&1) \
            || rankzero_say "the next attempt may get ${rankzero_gone:-} again: $said"
        return 0
    fi
    rankzero_again=''
    said="Slurm did not requeue the job: $said"
    if [[ $(rankzero_within 60 scontrol show job --oneliner "$rankzero_slurm_job" 2> /dev/null) == *" Requeue=0 "* ]]; then
        if rankzero_chain "$rankzero_why; $said"; then
            rankzero_outcome "$rankzero_ended_by" "$rankzero_exit_code" \
                "$rankzero_why; job $rankzero_next goes on: attempt $((RANKZERO_ATTEMPT + 2)) of at most $((RANKZERO_MAX_RESTARTS + 1)) follows"
            return 0
        fi
        said+="; no other job goes on: $rankzero_unchained"
    fi
    rankzero_outcome "$rankzero_ended_by" "$rankzero_exit_code" "$rankzero_why; $said"
}

# What the next attempt leaves out: what this one did, and the nodes that have failed. Nothing where none has, where the job
# asks for one of them by name, or where too few would be left.
rankzero_without() {
    local said known asked
    [ -n "${rankzero_gone:-}" ] || return 0
    said=$(rankzero_within 60 scontrol show job --oneliner "$rankzero_slurm_job" 2> /dev/null)
    known=$(rankzero_field ExcNodeList "$said") asked=$(rankzero_field ReqNodeList "$said")
    known=${known:+$known,}$rankzero_gone
    [ -n "$asked" ] && rankzero_share "$asked" "$rankzero_gone" && return 0
    [ "$(rankzero_nodes_left "$known")" -lt "$SLURM_JOB_NUM_NODES" ] || printf '%s\n' "$known"
}

# How many nodes the partition has without those named, as a number that is large where sinfo does not say.
rankzero_nodes_left() {
    local left
    left=$(comm -23 <(rankzero_within 60 sinfo --noheader --Node --partition="$SLURM_JOB_PARTITION" --format=%N 2> /dev/null | sort -u) \
        <(scontrol show hostnames "$1" | sort -u) | wc -l)
    # 0 is a sinfo that does not answer, or a partition without anything left: either way Slurm decides.
    [ "$left" != 0 ] || left=999999
    printf '%s\n' "$left"
}

# Back into the queue without some nodes, before any rank ran. $1: their names with commas, $2: why. Does not return.
rankzero_requeue_without() {
    local known asked left why='' said
    # From here on Slurm tells this script to end. A job cannot start anew while its last script runs, and only one that
    # waits can be told what to leave out: so the nodes are excluded between the two.
    trap '' TERM INT USR1 USR2
    said=$(rankzero_within 60 scontrol show job --oneliner "$rankzero_slurm_job" 2>&1)
    known=$(rankzero_field ExcNodeList "$said") asked=$(rankzero_field ReqNodeList "$said")
    known=${known:+$known,}$1
    if [ "$RANKZERO_ATTEMPT" -ge "$RANKZERO_PREFLIGHT_RESTARTS" ]; then
        why="this was attempt $((RANKZERO_ATTEMPT + 1)) of at most $((RANKZERO_PREFLIGHT_RESTARTS + 1)) (checkpoint.max_restarts)"
    elif [ -n "$asked" ] && rankzero_share "$asked" "$1"; then
        why="the job asks for $asked by name (resources.sbatch.nodelist)"
    else
        left=$(rankzero_nodes_left "$known")
        [ "$left" -ge "$SLURM_JOB_NUM_NODES" ] \
            || why="without $known partition $SLURM_JOB_PARTITION has $left nodes, and the job wants $SLURM_JOB_NUM_NODES"
    fi
    [ -z "$why" ] || rankzero_refuse setup 69 "$2; not requeued: $why"
    rankzero_say "$2; requeued without $1"
    # Before the requeue: Slurm may end this script at any moment after it.
    rankzero_outcome requeue 69 \
        "$2; requeued without $1: attempt $((RANKZERO_ATTEMPT + 2)) of at most $((RANKZERO_PREFLIGHT_RESTARTS + 1)) follows"
    rankzero_unstage
    said=$(rankzero_within 120 scontrol requeue "$rankzero_slurm_job" 2>&1) \
        || rankzero_refuse setup 69 "$2; Slurm did not requeue the job: $said"
    if ! said=$(rankzero_within 60 scontrol update "JobId=$rankzero_slurm_job" "ExcNodeList=$known" 2>&1); then
        rankzero_outcome setup 69 "$2; cancelled: Slurm requeued the job, but did not exclude $1: $said"
        scancel "$rankzero_slurm_job"
    fi
    exit 69
}

# The value of field $1 in what scontrol said ($2); nothing where it is not set.
rankzero_field() { sed -n "s/.*[[:space:]]$1=\([^[:space:]]*\).*/\1/p" <<< "$2" | grep -vx '(null)'; }

# Whether two node lists have a node in common.
rankzero_share() {
    [ -n "$(comm -12 <(scontrol show hostnames "$1" | sort -u) <(scontrol show hostnames "$2" | sort -u))" ]
}
