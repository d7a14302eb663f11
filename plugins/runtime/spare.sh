# shellcheck shell=bash disable=SC2034,SC2153,SC2154
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A node that fails while the ranks run: they start again on a spare node of the same allocation, as a further attempt of
# the same job, which costs no time in the queue. The job was submitted with --no-kill, so Slurm takes the node away and
# leaves the job. Where no spare is left, the job goes back into the queue (restart.sh). Sourced by job.sh, with which it
# shares its variables.

# How long (seconds) a node may take to answer a step that does nothing.
rankzero_answer_seconds=30

# Sets rankzero_dead to the nodes of the ranks' step that are gone: by Slurm's word, or because they do not start a task.
rankzero_find_dead() {
    local node state places said="$RANKZERO_RUN_DIR/preflight/$RANKZERO_ATTEMPT.alive"
    local -a left=()
    rankzero_dead=()
    for node in "${rankzero_nodes[@]}"; do
        state=$(scontrol show node --oneliner "$node" 2> /dev/null | sed -n 's/.* State=\([^ ]*\).*/\1/p')
        case $state in
            DOWN* | FAIL* | *NOT_RESPONDING* | *\* | *POWERED_DOWN* | *POWERING_DOWN*) rankzero_dead+=("$node") ;;
            *) left+=("$node") ;;
        esac
    done
    [ "${#left[@]}" -gt 0 ] && mkdir -p "$said" || return 0
    # Slurm may take minutes to see what the ranks' connections have told at once.
    places=$(IFS=,; printf '%s' "${left[*]}")
    # shellcheck disable=SC2016
    rankzero_bounded "$rankzero_answer_seconds" srun --overlap --nodes="${#left[@]}" --ntasks="${#left[@]}" \
        --ntasks-per-node=1 --cpus-per-task=1 --mem=0 --gres=none --nodelist="$places" --no-kill --kill-on-bad-exit=0 \
        --wait=0 --export=ALL --output=none /bin/bash -c ': > "$1/$SLURMD_NODENAME"' alive "$said" > /dev/null 2>&1
    # Of a step that nobody answered, the step is to blame.
    [ -n "$(ls -A "$said")" ] || return 0
    for node in "${left[@]}"; do
        [ "$(find "$said" -name "$node")" ] || rankzero_dead+=("$node")
    done
}

# After the ranks have ended badly: whether a node of theirs has failed and they can start again without it. Returns 0
# when all is laid out for the next attempt. Else the failed nodes, if any, are in rankzero_lost, and why not in
# rankzero_not_here.
rankzero_heal() {
    local node next first=${rankzero_nodes[0]}
    rankzero_lost='' rankzero_not_here=''
    [ -n "${RANKZERO_SPARES:-}" ] && [ "$rankzero_ended_by" = program ] && [ "$rankzero_exit_code" != 0 ] \
        && [ -z "$rankzero_early" ] || return 1
    rankzero_preempted && return 1
    rankzero_find_dead
    [ "${#rankzero_dead[@]}" -gt 0 ] || return 1
    rankzero_lost=$(IFS=,; printf '%s' "${rankzero_dead[*]}")
    rankzero_gone=${rankzero_gone:+$rankzero_gone,}$rankzero_lost
    for node in "${rankzero_dead[@]}"; do rankzero_remember "$node" "it failed while job $rankzero_job ran on it"; done
    mapfile -t rankzero_left < <(scontrol show hostnames "$SLURM_JOB_NODELIST" | grep -vxFf <(tr , '\n' <<< "$rankzero_gone"))
    if [ "${#rankzero_left[@]}" -lt "$RANKZERO_NODES" ]; then
        rankzero_not_here="no spare node is left"
    elif [ "$RANKZERO_ATTEMPT" -ge "$RANKZERO_SPARE_RESTARTS" ]; then
        rankzero_not_here="this was attempt $((RANKZERO_ATTEMPT + 1)) of at most $((RANKZERO_SPARE_RESTARTS + 1)) (checkpoint.max_restarts)"
    elif [ -n "${RANKZERO_PROGRESS:-}" ] && rankzero_stands_still; then
        rankzero_not_here="no progress: $RANKZERO_PROGRESS (checkpoint.progress) is the same after attempt $rankzero_before and attempt $((RANKZERO_ATTEMPT + 1))"
    fi
    [ -z "$rankzero_not_here" ] || return 1
    next=$((RANKZERO_ATTEMPT + 1))
    rankzero_say "$rankzero_lost failed: the ranks start again without it, on ${rankzero_left[*]}"
    rankzero_outcome restart "$rankzero_exit_code" "$rankzero_lost failed; started again inside the job: attempt $((next + 1)) follows" \
        "outcome.before-attempt-$next.json"
    rankzero_unstage
    # An attempt of which Slurm knows nothing.
    printf '%s\n' $((next - ${SLURM_RESTART_COUNT:-0})) | rankzero_publish "$RANKZERO_RUN_DIR/.uncounted"
    rankzero_next_attempt "$next"
    rankzero_own_checkpoint
    rankzero_nodes=("${rankzero_left[@]}")
    RANKZERO_NODELIST=$(IFS=,; printf '%s' "${rankzero_nodes[*]}")
    if [ "${rankzero_nodes[0]}" != "$first" ]; then
        RANKZERO_MASTER_ADDR=$(rankzero_master_address "${rankzero_nodes[@]:0:2}")
        [ -n "$RANKZERO_MASTER_ADDR" ] || rankzero_refuse setup 71 "the first node ${rankzero_nodes[0]} has no address"
    fi
    rankzero_started || rankzero_refuse setup 73 "cannot write to $RANKZERO_RUN_DIR"
    # It may be the first node no more that the last preflight has looked at. It ends the job where too few are fit.
    rankzero_preflight "$rankzero_budget" "${rankzero_srun[@]}" --overlap --mem=0 --nodelist="$RANKZERO_NODELIST" \
        --nodes="${#rankzero_nodes[@]}" --ntasks=$((${#rankzero_nodes[@]} * rankzero_tasks))
    if [ "${#rankzero_nodes[@]}" -gt "$RANKZERO_NODES" ]; then
        rankzero_nodes=("${rankzero_nodes[@]:0:RANKZERO_NODES}")
        RANKZERO_NODELIST=$(IFS=,; printf '%s' "${rankzero_nodes[*]}")
        rankzero_started
    fi
    # A signal that came meanwhile is the ranks' end.
    [ "$rankzero_ended_by" = program ]
}

# The words of the ranks' step ("$@") for the attempt that follows, in rankzero_step_words: other nodes, another log. Slurm
# may keep the step before until its dead node answers, which it never does: its place on the other nodes is shared.
rankzero_next_step() {
    local word
    rankzero_step_words=("$1" --overlap --mem=0)
    for word in "${@:2}"; do
        case $word in
            --nodelist="$rankzero_nodelist_before") word="--nodelist=$RANKZERO_NODELIST" ;;
            --output="$rankzero_logs_before"/*) word="--output=$RANKZERO_LOGS/${word##*/}" ;;
        esac
        rankzero_step_words+=("$word")
    done
}

# A node failed and there was no way on inside the job: back into the queue, where that is asked for. Sets the same
# variables as rankzero_after_early.
rankzero_after_node_failure() {
    [ -n "${rankzero_lost:-}" ] && [ -z "$rankzero_again" ] && [ "$rankzero_ended_by" = program ] || return 0
    rankzero_ended_by=signal
    rankzero_why="$rankzero_lost failed"
    rankzero_message="$rankzero_why; not restarted inside the job: $rankzero_not_here; "
    if [ -z "${RANKZERO_MAX_RESTARTS:-}" ]; then
        rankzero_message+="not requeued: checkpoint.requeue is not true"
    elif [ "$rankzero_not_here" != "no spare node is left" ]; then
        rankzero_message+="not requeued for the same reason"
    elif [ "$RANKZERO_ATTEMPT" -ge "$RANKZERO_MAX_RESTARTS" ]; then
        rankzero_message+="not requeued: this was attempt $((RANKZERO_ATTEMPT + 1)) of at most $((RANKZERO_MAX_RESTARTS + 1)) (checkpoint.max_restarts)"
    elif [ -n "${RANKZERO_PROGRESS:-}" ] && rankzero_stands_still; then
        rankzero_message+="not requeued: no progress: $RANKZERO_PROGRESS (checkpoint.progress) is the same after attempt $rankzero_before and attempt $((RANKZERO_ATTEMPT + 1))"
    else
        rankzero_again=yes
        rankzero_message+="requeued: attempt $((RANKZERO_ATTEMPT + 2)) of at most $((RANKZERO_MAX_RESTARTS + 1)) follows"
    fi
}
