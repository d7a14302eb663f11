# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What a batch script does around its ranks: take the claim, lay out the run directory, start the step, watch for the
# artifact, say how it ended. Sourced by the rendered script, which has exported RANKZERO_* before; never run alone.

. "$RANKZERO_RUNTIME/adopt.sh"
. "$RANKZERO_RUNTIME/background.sh"
. "$RANKZERO_RUNTIME/chain.sh"
. "$RANKZERO_RUNTIME/data.sh"
. "$RANKZERO_RUNTIME/holding.sh"
. "$RANKZERO_RUNTIME/install.sh"
. "$RANKZERO_RUNTIME/preflight.sh"
. "$RANKZERO_RUNTIME/restart.sh"
. "$RANKZERO_RUNTIME/sealed.sh"
. "$RANKZERO_RUNTIME/spare.sh"
. "$RANKZERO_RUNTIME/stage.sh"

# The job as Slurm's commands want it named. For a task of an array that is ARRAY_TASK: the last task to start has the
# array's own number as its job id, and a command on that would mean all of them.
rankzero_slurm_job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
rankzero_slurm_job=${rankzero_slurm_job:-$SLURM_JOB_ID}
# What runs the script: the job, or inside another job (attach.sh) the step, as JOB.STEP.
rankzero_job=${RANKZERO_ATTACHED:-$rankzero_slurm_job}

rankzero_say() { printf '[rankzero] %s\n' "$*"; }

# Ends the script before its ranks ran. $1: ended_by, $2: exit code, $3: message.
rankzero_refuse() {
    rankzero_say "$3"
    if [ -d "$RANKZERO_RUN_DIR" ] && [ "$1" != claim-lost ]; then
        rankzero_outcome "$1" "$2" "$3"
        rm -f "$RANKZERO_RUN_DIR/secrets.env"
    fi
    rankzero_unstage
    exit "$2"
}

# Writes standard input to $1 whole or not at all.
rankzero_publish() {
    local temporary
    temporary="$1.$rankzero_job.$$.tmp"
    cat > "$temporary" && mv -f "$temporary" "$1"
}

# $1 as it may stand between the quotes of a JSON string: what would need an escape is left out.
rankzero_json_text() { printf '%s' "$1" | tr -d '"\\\000-\037'; }

# One launch runs once: whoever links the claim first owns the generation. A lost reply of link() makes the winner see
# an error, so the return code is ignored and the file read back by content. Returns 1 where it is another job's, 2 where
# it can be neither taken nor read.
rankzero_claim() {
    local mine owner='' temporary attempt
    mine="$RANKZERO_GENERATION ${SLURM_CLUSTER_NAME:-cluster} $rankzero_job"
    temporary="$RANKZERO_RUN_DIR/.claim.$rankzero_job.$$"
    printf '%s\n' "$mine" > "$temporary" || return 2
    ln "$temporary" "$RANKZERO_RUN_DIR/claim" 2>/dev/null
    rm -f "$temporary"
    # This node may have asked for it before it was there, and be told for up to a minute more that it is missing.
    for ((attempt = 0; attempt < 14; attempt++)); do
        read -r owner < "$RANKZERO_RUN_DIR/claim" && [ -n "$owner" ] && break
        [ "$(find "$RANKZERO_RUN_DIR" -maxdepth 1 -name claim)" ] || break
        sleep 5
    done 2> /dev/null
    [ -n "$owner" ] || return 2
    [ "$owner" = "$mine" ]
}

# A script submitted by hand is a new generation beside the one it was taken from, put in place whole, with its claim: a
# controller that looks meanwhile must not take it for a launch of its own. A requeued one finds its own again.
rankzero_by_hand() {
    local runs generation line made
    runs=$(dirname "$RANKZERO_RUN_DIR")
    for line in "$runs"/*/claim; do
        if [ -f "$line" ] && grep -q " ${SLURM_CLUSTER_NAME:-cluster} $rankzero_job\$" "$line"; then
            RANKZERO_RUN_DIR=$(dirname "$line")
            RANKZERO_GENERATION=$(basename "$RANKZERO_RUN_DIR")
            return 0
        fi
    done
    made="$runs/.new-$rankzero_job.$$"
    mkdir -p "$made/logs" || return 1
    for line in job.sbatch launch.json contract.json secrets.env; do
        [ ! -f "$RANKZERO_RUN_DIR/$line" ] || cp -p "$RANKZERO_RUN_DIR/$line" "$made/" || return 1
    done
    printf '{"time": %s, "event": "submitted", "job_id": "%s", "message": "submitted by hand"}\n' \
        "$(date +%s)" "$rankzero_job" > "$made/journal.jsonl" || return 1
    generation=$RANKZERO_GENERATION
    while :; do
        generation=$((generation + 1))
        printf '%s %s %s\n' "$generation" "${SLURM_CLUSTER_NAME:-cluster}" "$rankzero_job" > "$made/claim" || return 1
        mv -T "$made" "$runs/$generation" 2>/dev/null && break
        [ -d "$runs/$generation" ] || { rm -rf "$made"; return 1; }
    done
    RANKZERO_RUN_DIR="$runs/$generation"
    RANKZERO_GENERATION=$generation
    rankzero_say "submitted by hand: this is generation $generation, in $RANKZERO_RUN_DIR"
}

# The ranks' working directory: writable and private to this run; what the code snapshot has at its top is linked in.
rankzero_work() {
    mkdir -p "$RANKZERO_RUN_DIR/work" || return 1
    # An attempt that was killed has left links that lead nowhere now.
    if [ -e "$RANKZERO_RUN_DIR/.staged" ]; then
        rankzero_relink "$RANKZERO_CODE" && rm -f "$RANKZERO_RUN_DIR/.staged"
    fi
    if [ -d "$RANKZERO_CODE" ]; then
        rankzero_link "" || return 1
    elif [ -n "$RANKZERO_CODE" ] && [ -z "${RANKZERO_STAGE:-}${RANKZERO_PREFLIGHT_POLICY:-}" ]; then
        # Else the preflight names this node, brings the code, or finds nodes that have it.
        rankzero_say "the code snapshot $RANKZERO_CODE is not here"
        return 1
    fi
    [ -z "${RANKZERO_ARTIFACT_PATH:-}" ] || mkdir -p "$(dirname "$RANKZERO_RUN_DIR/work/$RANKZERO_ARTIFACT_PATH")"
}

# Links what the snapshot has in its folder $1 ("" or a path that ends in /). The folders above the artifact become real
# ones: the snapshot is shared and may not be written. An artifact that lies in the repository would be proof of nothing.
rankzero_link() {
    local entry name
    for entry in "$RANKZERO_CODE/$1"* "$RANKZERO_CODE/$1".[!.]* "$RANKZERO_CODE/$1"..?*; do
        [ -e "$entry" ] || [ -L "$entry" ] || continue
        name=$1${entry##*/}
        case "${RANKZERO_ARTIFACT_PATH:-}" in
            "$name") continue ;;
            "$name"/*)
                if [ -d "$entry" ]; then
                    mkdir -p "$RANKZERO_RUN_DIR/work/$name" && rankzero_link "$name/" || return 1
                    continue
                fi ;;
        esac
        [ -e "$RANKZERO_RUN_DIR/work/$name" ] || [ -L "$RANKZERO_RUN_DIR/work/$name" ] \
            || ln -s "$entry" "$RANKZERO_RUN_DIR/work/$name" || return 1
    done
}

rankzero_ipv4() { getent ahostsv4 "$1" | awk 'NR == 1 { print $1 }'; }

# MASTER_ADDR: the first host ($1) of the allocation. Its address where the name does not resolve, or where it resolves to
# a loop-back address (Debian's /etc/hosts) that the other nodes ($2: the second) would look for on themselves (L6).
rankzero_master_address() {
    local address=''
    if ! getent hosts "$1" > /dev/null; then
        scontrol show node "$1" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p' | head -n 1
        return
    fi
    if [ -n "${2:-}" ] && [[ $(rankzero_ipv4 "$1") == 127.* ]]; then
        address=$(ip -o -4 route get "$(rankzero_ipv4 "$2")" 2>/dev/null | sed -n 's/.* src \([^ ]*\).*/\1/p')
    fi
    printf '%s\n' "${address:-$1}"
}

# MASTER_PORT: the job's own starting point in 15000-19999, then the first port nobody uses on this node (L6).
rankzero_port() {
    local port used attempt step=${RANKZERO_ATTACHED:-.0}
    step=${step##*.}
    used=" $(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n 's/^ *[0-9]*: [0-9A-F]*:\([0-9A-F]*\) .*/\1/p' | tr '\n' ' ')"
    for ((attempt = 0; attempt < 5000; attempt++)); do
        port=$((15000 + (SLURM_JOB_ID * 37 + step * 101 + attempt) % 5000))
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
        "$rankzero_job" "$RANKZERO_ATTEMPT" "$rankzero_start" "${nodes%, }" "$RANKZERO_MASTER_ADDR" \
        "$RANKZERO_MASTER_PORT" "$RANKZERO_WORLD_SIZE" | rankzero_publish "$RANKZERO_RUN_DIR/started.json"
}

# The verdict, written by the one program that also watches the artifact. $1: ended_by, $2: exit code, $3: message; $4:
# the file's name where it is not the job's last word.
rankzero_outcome() {
    if [ -z "$RANKZERO_RUNTIME_PYTHON" ]; then
        # Nothing has run then, and there is nothing to judge.
        printf '{"job_id": "%s", "attempt": %s, "started": %s, "time": %(%s)T, "exit_code": %s, "ended_by": "%s", "artifact": null, "success": false, "message": "%s", "unfit_nodes": {"%s": "no python3"}}\n' \
            "$rankzero_job" "$RANKZERO_ATTEMPT" "$rankzero_start" -1 "$2" "$1" "$(rankzero_json_text "$3")" \
            "${SLURMD_NODENAME:-$(uname -n)}" | rankzero_publish "$RANKZERO_RUN_DIR/outcome.json"
        return
    fi
    "$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/outcome.py" finish "$RANKZERO_RUN_DIR" \
        --job-id "$rankzero_job" --attempt "$RANKZERO_ATTEMPT" --started "$rankzero_start" \
        --ended-by "$1" --exit-code "$2" --message "$3" --file "${4:-outcome.json}"
}

# The first node cannot even look at the others.
rankzero_without_python() {
    local node=${SLURMD_NODENAME:-$(uname -n)} message
    message="no python3 on $node, where the batch script runs: install it, or give the job an environment"
    rankzero_remember "$node" "no python3"
    [ "${RANKZERO_PREFLIGHT_POLICY:-}" != requeue ] || rankzero_requeue_without "$node" "$message"
    rankzero_refuse setup 78 "$message"
}

# What an attempt begins with. $1: its number. The attempt before it may have left no word, and has its start at least.
rankzero_next_attempt() {
    export RANKZERO_ATTEMPT=$1
    if [ -f "$RANKZERO_RUN_DIR/started.json" ]; then
        mv -f "$RANKZERO_RUN_DIR/started.json" "$RANKZERO_RUN_DIR/started.before-attempt-$1.json"
    fi
    # Written on the shared file system, so that "newer than the attempt" is judged by that file system's own clock.
    printf '%s\n' "$1" > "$RANKZERO_RUN_DIR/.attempt"
    rankzero_start=$(date +%s)
    export RANKZERO_LOGS="$RANKZERO_RUN_DIR/logs/$1"
    mkdir -p "$RANKZERO_LOGS" || rankzero_refuse setup 73 "cannot create $RANKZERO_LOGS"
}

# Attempts that Slurm has not counted: started inside the job, or in the job before this one.
rankzero_uncounted() { cat "$RANKZERO_RUN_DIR/.uncounted" 2> /dev/null || echo 0; }

# $1 is `--submission NONCE` when the collection submitted the script, nothing when a person did.
rankzero_begin() {
    rankzero_start=$(date +%s)
    rankzero_expect_early
    [ -z "${RANKZERO_ATTACHED:-}" ] || trap rankzero_cancelled=yes URG
    export RANKZERO_ATTEMPT=${SLURM_RESTART_COUNT:-0}
    # Bash names a file that it may not execute rather than none.
    RANKZERO_RUNTIME_PYTHON=$(command -v "$RANKZERO_PYTHON")
    [ -x "$RANKZERO_RUNTIME_PYTHON" ] || RANKZERO_RUNTIME_PYTHON=$(command -v python3)
    [ -x "$RANKZERO_RUNTIME_PYTHON" ] || RANKZERO_RUNTIME_PYTHON=''
    # Newer slurmds make the directory of the job's log themselves: that it exists says nothing.
    [ -f "$RANKZERO_RUN_DIR/launch.json" ] || { rankzero_say "the run directory $RANKZERO_RUN_DIR is gone: nothing is run"; exit 66; }
    if [ "${1:-}" != --submission ]; then
        rankzero_by_hand || { rankzero_say "cannot make a new generation beside $RANKZERO_RUN_DIR"; exit 73; }
    fi
    rankzero_submission=${2:-}
    rankzero_claim
    case $? in
        0) ;;
        1) rankzero_inherit "$rankzero_submission" || rankzero_refuse claim-lost 0 "generation $RANKZERO_GENERATION belongs to another job ($(cat "$RANKZERO_RUN_DIR/claim")): nothing is run here" ;;
        *) rankzero_say "$RANKZERO_RUN_DIR/claim can be neither taken nor read: nothing is run"; exit 73 ;;
    esac
    RANKZERO_ATTEMPT=$((RANKZERO_ATTEMPT + $(rankzero_uncounted)))
    # Else srun would leave a step without one of its nodes to wait for it for ever. The job itself goes on.
    unset SLURM_NO_KILL
    [ -z "${RANKZERO_ARRAY_DIR:-}" ] || rankzero_element_log
    if [ -f "$RANKZERO_RUN_DIR/outcome.json" ]; then
        mv -f "$RANKZERO_RUN_DIR/outcome.json" "$RANKZERO_RUN_DIR/outcome.before-attempt-$RANKZERO_ATTEMPT.json"
    fi
    [ -n "$RANKZERO_RUNTIME_PYTHON" ] || rankzero_without_python
    export RANKZERO_RUN_DIR RANKZERO_GENERATION
    rankzero_next_attempt "$RANKZERO_ATTEMPT"
    if [ -n "${RANKZERO_SECRETS:-}" ] && [ ! -f "$RANKZERO_RUN_DIR/secrets.env" ]; then
        rankzero_refuse setup 78 "the secrets ($RANKZERO_SECRETS) of this run were removed at its end: launch it anew to bring them again"
    fi
    [ -z "${RANKZERO_ATTACHED:-}" ] || rankzero_expect_cancel
    rankzero_work || rankzero_refuse setup 66 "cannot lay out $RANKZERO_RUN_DIR/work from ${RANKZERO_CODE:-nothing}"
    if [ -n "${RANKZERO_ARTIFACT_PATH:-}" ]; then
        export RANKZERO_ARTIFACT="$RANKZERO_RUN_DIR/work/$RANKZERO_ARTIFACT_PATH"
    fi
    # The user's own choice: also when another node becomes the first one.
    # shellcheck disable=SC2034 # preflight.sh reads it
    rankzero_port_asked=${RANKZERO_MASTER_PORT:-}
    rankzero_own_checkpoint
    mapfile -t rankzero_nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
    [ "${#rankzero_nodes[@]}" -gt 0 ] || rankzero_refuse setup 71 "scontrol cannot expand the node list $SLURM_JOB_NODELIST"
    # All of them until the preflight has chosen.
    RANKZERO_NODELIST=$(IFS=,; printf '%s' "${rankzero_nodes[*]}")
    export RANKZERO_NODELIST
    RANKZERO_MASTER_ADDR=$(rankzero_master_address "${rankzero_nodes[@]:0:2}")
    [ -n "$RANKZERO_MASTER_ADDR" ] || rankzero_refuse setup 71 "the first node ${rankzero_nodes[0]} has no address"
    [ -n "${RANKZERO_MASTER_PORT:-}" ] || RANKZERO_MASTER_PORT=$(rankzero_port) \
        || rankzero_refuse setup 71 "no free port between 15000 and 19999 on $(uname -n)"
    export RANKZERO_MASTER_ADDR RANKZERO_MASTER_PORT
    rankzero_started || rankzero_refuse setup 73 "cannot write to $RANKZERO_RUN_DIR"
    [ "$RANKZERO_ATTEMPT" = 0 ] || rankzero_say "restarted: SLURM_RESTART_COUNT=${SLURM_RESTART_COUNT:-0}"
    rankzero_say "job $rankzero_job attempt $RANKZERO_ATTEMPT on ${rankzero_nodes[*]}; master $RANKZERO_MASTER_ADDR:$RANKZERO_MASTER_PORT"
}

# A signal to the batch script (scancel, the time limit, preemption) goes on to the ranks.
rankzero_on_signal() {
    rankzero_interrupted=yes
    [ "$rankzero_ended_by" = artifact ] || rankzero_ended_by=signal
    [ -z "$rankzero_step" ] || kill -TERM "$rankzero_step" 2>/dev/null
}

# A launch inside another job is cancelled by URG: every process of the step gets it, and all but this script ignore it.
# TERM would have srun kill the ranks at once. They are told by their own step, and have half a minute.
rankzero_on_cancel() {
    rankzero_interrupted=yes
    if [ -z "${rankzero_ended_by:-}" ]; then
        [ -z "${rankzero_step:-}" ] || kill -TERM "$rankzero_step" 2>/dev/null
        rankzero_refuse signal 143 "cancelled before its ranks started"
    fi
    [ "$rankzero_ended_by" = program ] || return 0
    rankzero_ended_by=signal rankzero_message=cancelled
    (trap 'kill "$!"; exit' TERM; sleep 30 & wait "$!"; kill -TERM "$rankzero_step") > /dev/null 2>&1 &
    rankzero_killer=$!
}

rankzero_expect_cancel() {
    trap rankzero_on_cancel URG
    [ -z "${rankzero_cancelled:-}" ] || rankzero_on_cancel
}

# The watcher's signal: the artifact is valid. A step that has ended by itself meanwhile keeps its own exit code.
rankzero_on_artifact() {
    rankzero_interrupted=yes
    [ "$rankzero_ended_by" = program ] && kill -TERM "$rankzero_step" 2>/dev/null || return 0
    rankzero_ended_by=artifact
    rankzero_say "the artifact has landed: ending the step"
    # srun cannot forward KILL; once it is gone and this script ends, Slurm itself clears the nodes.
    (trap 'kill "$!"; exit' TERM; sleep 5 & wait "$!"; kill -KILL "$rankzero_step") > /dev/null 2>&1 &
    rankzero_killer=$!
}

# Runs the ranks' step ("$@") until it has ended for good: again on spare nodes, where a node of it has failed. None of
# these have local variables: a local one takes over the export of a job's own variable of that name.
rankzero_launch() {
    rankzero_step_words=("$@")
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
    rankzero_ended_by=program rankzero_step='' rankzero_watcher='' rankzero_killer='' rankzero_ticker=''
    trap rankzero_on_signal TERM INT
    trap rankzero_on_artifact USR1
    "$@" &
    rankzero_step=$!
    # A signal that came before there was a step to tell.
    # shellcheck disable=SC2154 # restart.sh sets it
    [ "$rankzero_ended_by$rankzero_early" = program ] || kill -TERM "$rankzero_step" 2>/dev/null
    if [ -n "${RANKZERO_TIMESTAMPS:-}" ]; then
        rankzero_clock "$RANKZERO_TIMESTAMPS" &
        rankzero_ticker=$!
    fi
    if [ "${RANKZERO_ARTIFACT_THEN:-}" = end ]; then
        "$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/outcome.py" watch "$RANKZERO_RUN_DIR" --signal-to "$$" &
        rankzero_watcher=$!
    fi
    # A trapped signal interrupts `wait`, whose status is then the signal's: only an undisturbed one is the step's.
    while :; do
        rankzero_interrupted=''
        wait "$rankzero_step"
        rankzero_exit_code=$?
        [ -n "$rankzero_interrupted" ] || break
    done
    # An artifact that lands from here on is judged with the verdict.
    trap '' USR1
    if [ -z "${RANKZERO_SPARES:-}" ] || [ "$rankzero_ended_by" != program ] || [ "$rankzero_exit_code" = 0 ]; then
        trap '' TERM INT USR2 URG
    fi
    for rankzero_helper in $rankzero_watcher $rankzero_killer $rankzero_ticker; do
        kill "$rankzero_helper" 2>/dev/null
        wait "$rankzero_helper" 2>/dev/null
    done
}

rankzero_end() {
    rankzero_verdict=0
    rankzero_after_early
    rankzero_after_preemption
    rankzero_after_node_failure
    # shellcheck disable=SC2154 # restart.sh sets it
    rankzero_outcome "$rankzero_ended_by" "$rankzero_exit_code" "$rankzero_message" || rankzero_verdict=$?
    rankzero_unstage
    [ -z "$rankzero_again" ] || rankzero_requeue
    # After a signal the job may be requeued and need them again; then the controller removes them at the final state. A
    # step is not requeued.
    [ "$rankzero_ended_by${RANKZERO_ATTACHED:-}" = signal ] || rm -f "$RANKZERO_RUN_DIR/secrets.env"
    exit "$rankzero_verdict"
}
