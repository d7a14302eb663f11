#!/bin/bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What a batch script does around its ranks: take the claim, lay out the run directory, start the step, watch for the
# artifact, say how it ended. Sourced by the rendered script, which has exported RANKZERO_* before; never run alone.
# shellcheck shell=bash

rankzero_say() { printf '[rankzero] %s\n' "$*"; }

# Ends the script before its ranks ran. $1: ended_by, $2: exit code, $3: message.
rankzero_refuse() {
    rankzero_say "$3"
    if [ -d "$RANKZERO_RUN_DIR" ] && [ "$1" != claim-lost ]; then
        rankzero_outcome "$1" "$2" "$3"
    fi
    exit "$2"
}

# Writes standard input to $1 whole or not at all.
rankzero_publish() {
    local temporary
    temporary="$1.$SLURM_JOB_ID.$$.tmp"
    cat > "$temporary" && mv -f "$temporary" "$1"
}

# One launch runs once: whoever links the claim first owns the generation. A lost reply of link() makes the winner see
# an error, so the return code is ignored and the file read back by content.
rankzero_claim() {
    local mine owner temporary
    mine="$RANKZERO_GENERATION ${SLURM_CLUSTER_NAME:-cluster} $SLURM_JOB_ID"
    temporary="$RANKZERO_RUN_DIR/.claim.$SLURM_JOB_ID.$$"
    printf '%s\n' "$mine" > "$temporary" || return 1
    ln "$temporary" "$RANKZERO_RUN_DIR/claim" 2>/dev/null
    rm -f "$temporary"
    owner=
    read -r owner < "$RANKZERO_RUN_DIR/claim"
    [ "$owner" = "$mine" ]
}

# A script submitted by hand is a new generation beside the one it was taken from. A requeued one finds its own again.
rankzero_by_hand() {
    local runs generation line
    runs=$(dirname "$RANKZERO_RUN_DIR")
    for line in "$runs"/*/claim; do
        if [ -f "$line" ] && grep -q " ${SLURM_CLUSTER_NAME:-cluster} $SLURM_JOB_ID\$" "$line"; then
            RANKZERO_RUN_DIR=$(dirname "$line")
            RANKZERO_GENERATION=$(basename "$RANKZERO_RUN_DIR")
            return 0
        fi
    done
    generation=$RANKZERO_GENERATION
    until mkdir "$runs/$((generation += 1))" 2>/dev/null; do
        [ -d "$runs/$generation" ] || return 1
    done
    cp -p "$RANKZERO_RUN_DIR/job.sbatch" "$RANKZERO_RUN_DIR/launch.json" "$RANKZERO_RUN_DIR/contract.json" "$runs/$generation/" || return 1
    if [ -f "$RANKZERO_RUN_DIR/secrets.env" ]; then
        cp -p "$RANKZERO_RUN_DIR/secrets.env" "$runs/$generation/" || return 1
    fi
    RANKZERO_RUN_DIR="$runs/$generation"
    RANKZERO_GENERATION=$generation
    mkdir -p "$RANKZERO_RUN_DIR/logs"
    printf '{"time": %s, "event": "submitted", "job_id": "%s", "message": "submitted by hand"}\n' \
        "$(date +%s)" "$SLURM_JOB_ID" > "$RANKZERO_RUN_DIR/journal.jsonl"
    rankzero_say "submitted by hand: this is generation $generation, in $RANKZERO_RUN_DIR"
}

# The ranks' working directory: writable and private to this run; what the code snapshot has at its top is linked in.
rankzero_work() {
    local entry name
    mkdir -p "$RANKZERO_RUN_DIR/work" || return 1
    [ -n "$RANKZERO_CODE" ] || return 0
    [ -d "$RANKZERO_CODE" ] || { rankzero_say "the code snapshot $RANKZERO_CODE is not here"; return 1; }
    for entry in "$RANKZERO_CODE"/* "$RANKZERO_CODE"/.[!.]*; do
        name=${entry##*/}
        # An artifact that lies in the repository would be proof of nothing.
        if [ -e "$entry" ] && [ "$entry" != "$RANKZERO_CODE/${RANKZERO_ARTIFACT_PATH:-}" ]; then
            [ -e "$RANKZERO_RUN_DIR/work/$name" ] || ln -s "$entry" "$RANKZERO_RUN_DIR/work/$name" || return 1
        fi
    done
}

# MASTER_ADDR: the first host of the allocation, or its address where the name does not resolve (L6).
rankzero_master_address() {
    if getent hosts "$1" > /dev/null; then
        printf '%s\n' "$1"
    else
        scontrol show node "$1" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p' | head -n 1
    fi
}

# MASTER_PORT: the job's own starting point in 15000-19999, then the first port nobody uses on this node (L6).
rankzero_port() {
    local port used attempt
    used=" $(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) .*/\1/p' | tr '\n' ' ')"
    for ((attempt = 0; attempt < 5000; attempt++)); do
        port=$((15000 + (SLURM_JOB_ID * 37 + attempt) % 5000))
        case "$used" in
            *" $(printf '%04X' "$port") "*) ;;
            *) printf '%s\n' "$port"; return 0 ;;
        esac
    done
    return 1
}

rankzero_started() {
    local nodes
    nodes=$(printf '"%s", ' "${rankzero_nodes[@]}")
    printf '{"job_id": "%s", "attempt": %s, "time": %s, "nodes": [%s], "master_addr": "%s", "master_port": %s, "world_size": %s}\n' \
        "$SLURM_JOB_ID" "$RANKZERO_ATTEMPT" "$rankzero_start" "${nodes%, }" "$RANKZERO_MASTER_ADDR" \
        "$RANKZERO_MASTER_PORT" "$RANKZERO_WORLD_SIZE" | rankzero_publish "$RANKZERO_RUN_DIR/started.json"
}

# The verdict, written by the one program that also watches the artifact. $1: ended_by, $2: exit code, $3: message.
rankzero_outcome() {
    "$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/outcome.py" finish "$RANKZERO_RUN_DIR" \
        --job-id "$SLURM_JOB_ID" --attempt "$RANKZERO_ATTEMPT" --started "$rankzero_start" \
        --ended-by "$1" --exit-code "$2" --message "$3"
}

# $1 is `--submission NONCE` when the collection submitted the script, nothing when a person did.
rankzero_begin() {
    rankzero_start=$(date +%s)
    export RANKZERO_ATTEMPT=${SLURM_RESTART_COUNT:-0}
    RANKZERO_RUNTIME_PYTHON=$(command -v "$RANKZERO_PYTHON" || command -v python3) \
        || { rankzero_say "no python3 on $(uname -n): install it, or give the job an environment"; exit 78; }
    [ -d "$RANKZERO_RUN_DIR" ] || { rankzero_say "the run directory $RANKZERO_RUN_DIR is gone: nothing is run"; exit 66; }
    if [ "${1:-}" != --submission ]; then
        rankzero_by_hand || { rankzero_say "cannot make a new generation beside $RANKZERO_RUN_DIR"; exit 73; }
    fi
    if ! rankzero_claim; then
        rankzero_refuse claim-lost 0 "generation $RANKZERO_GENERATION belongs to another job ($(cat "$RANKZERO_RUN_DIR/claim" 2>/dev/null)): nothing is run here"
    fi
    if [ -f "$RANKZERO_RUN_DIR/outcome.json" ]; then
        mv -f "$RANKZERO_RUN_DIR/outcome.json" "$RANKZERO_RUN_DIR/outcome.before-attempt-$RANKZERO_ATTEMPT.json"
    fi
    # Written on the shared file system, so that "newer than the attempt" is judged by that file system's own clock.
    : > "$RANKZERO_RUN_DIR/.attempt"
    export RANKZERO_RUN_DIR RANKZERO_GENERATION
    export RANKZERO_LOGS="$RANKZERO_RUN_DIR/logs/$RANKZERO_ATTEMPT"
    mkdir -p "$RANKZERO_LOGS" || rankzero_refuse setup 73 "cannot create $RANKZERO_LOGS"
    rankzero_work || rankzero_refuse setup 66 "cannot lay out $RANKZERO_RUN_DIR/work from ${RANKZERO_CODE:-nothing}"
    if [ -n "${RANKZERO_ARTIFACT_PATH:-}" ]; then
        export RANKZERO_ARTIFACT="$RANKZERO_RUN_DIR/work/$RANKZERO_ARTIFACT_PATH"
    fi
    mapfile -t rankzero_nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
    [ "${#rankzero_nodes[@]}" -gt 0 ] || rankzero_refuse setup 71 "scontrol cannot expand the node list $SLURM_JOB_NODELIST"
    RANKZERO_MASTER_ADDR=$(rankzero_master_address "${rankzero_nodes[0]}")
    [ -n "${RANKZERO_MASTER_PORT:-}" ] || RANKZERO_MASTER_PORT=$(rankzero_port) \
        || rankzero_refuse setup 71 "no free port between 15000 and 19999 on $(uname -n)"
    export RANKZERO_MASTER_ADDR RANKZERO_MASTER_PORT
    rankzero_started || rankzero_refuse setup 73 "cannot write to $RANKZERO_RUN_DIR"
    rankzero_say "job $SLURM_JOB_ID attempt $RANKZERO_ATTEMPT on ${rankzero_nodes[*]}; master $RANKZERO_MASTER_ADDR:$RANKZERO_MASTER_PORT"
}

# Runs the ranks' step ("$@") and waits for its end, the artifact, or a signal.
rankzero_launch() {
    local code=0 helper
    rankzero_ended_by=program rankzero_landed='' rankzero_watcher='' rankzero_killer=''
    trap 'rankzero_ended_by=signal; kill -TERM "$rankzero_step" 2>/dev/null' TERM INT
    trap 'rankzero_landed=yes' USR1
    "$@" &
    rankzero_step=$!
    if [ "${RANKZERO_ARTIFACT_THEN:-}" = end ]; then
        "$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/outcome.py" watch "$RANKZERO_RUN_DIR" --signal-to "$$" &
        rankzero_watcher=$!
    fi
    # `wait` returns early when a trapped signal arrives; the step has ended only once it is no child any more.
    while :; do
        wait "$rankzero_step"
        code=$?
        kill -0 "$rankzero_step" 2>/dev/null || break
        if [ -n "$rankzero_landed" ] && [ -z "$rankzero_killer" ]; then
            rankzero_say "the artifact has landed: ending the step"
            rankzero_ended_by=artifact
            kill -TERM "$rankzero_step"
            # srun cannot forward KILL; once it is gone and this script ends, Slurm itself clears the nodes.
            (sleep 5; kill -KILL "$rankzero_step") 2>/dev/null &
            rankzero_killer=$!
        fi
    done
    trap '' TERM INT USR1
    for helper in $rankzero_watcher $rankzero_killer; do
        kill "$helper" 2>/dev/null
        wait "$helper" 2>/dev/null
    done
    rankzero_exit_code=$code
}

rankzero_end() {
    local code=0
    rankzero_outcome "$rankzero_ended_by" "$rankzero_exit_code" "" || code=$?
    # After a signal the job may be requeued and need them again; then the controller removes them at the final state.
    [ "$rankzero_ended_by" = signal ] || rm -f "$RANKZERO_RUN_DIR/secrets.env"
    exit "$code"
}
