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
. "$RANKZERO_RUNTIME/claim.sh"
. "$RANKZERO_RUNTIME/data.sh"
. "$RANKZERO_RUNTIME/ends.sh"
. "$RANKZERO_RUNTIME/holding.sh"
. "$RANKZERO_RUNTIME/install.sh"
. "$RANKZERO_RUNTIME/preflight.sh"
. "$RANKZERO_RUNTIME/processes.sh"
. "$RANKZERO_RUNTIME/restart.sh"
. "$RANKZERO_RUNTIME/sealed.sh"
. "$RANKZERO_RUNTIME/spare.sh"
. "$RANKZERO_RUNTIME/stage.sh"
. "$RANKZERO_RUNTIME/step.sh"

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
# a loop-back address (Debian's /etc/hosts) that the other nodes ($2: the second) would look for on themselves.
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

# MASTER_PORT: the job's own starting point in 15000-19999, then the first port nobody uses on this node.
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
    local guard=0
    if [ -z "$RANKZERO_RUNTIME_PYTHON" ]; then
        # Nothing has run then, and there is nothing to judge.
        printf '{"job_id": "%s", "attempt": %s, "started": %s, "time": %(%s)T, "exit_code": %s, "ended_by": "%s", "artifact": null, "success": false, "message": "%s", "unfit_nodes": {"%s": "no python3"}, "key": "%s", "generation": %s}\n' \
            "$rankzero_job" "$RANKZERO_ATTEMPT" "$rankzero_start" -1 "$2" "$1" "$(rankzero_json_text "$3")" \
            "${SLURMD_NODENAME:-$(uname -n)}" "$RANKZERO_KEY" "$RANKZERO_GENERATION" | rankzero_publish "$RANKZERO_RUN_DIR/outcome.json"
        return
    fi
    # After the last word the script is to end soon.
    [ -n "${4:-}" ] || guard=$$
    "$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/outcome.py" finish "$RANKZERO_RUN_DIR" \
        --job-id "$rankzero_job" --attempt "$RANKZERO_ATTEMPT" --started "$rankzero_start" \
        --ended-by "$1" --exit-code "$2" --message "$3" --key "$RANKZERO_KEY" --generation "$RANKZERO_GENERATION" \
        --file "${4:-outcome.json}" --guard "$guard"
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

# $1 is `--submission NONCE` when the collection submitted the script, nothing when a person did.
rankzero_begin() {
    local newer
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
    rankzero_distrust
    if [ "${1:-}" != --submission ]; then
        if ! rankzero_by_hand; then
            rm -rf "${RANKZERO_RUN_DIR%/*}/.new-$rankzero_job.$$" # secrets may lie in it
            rankzero_say "cannot make a new generation beside $RANKZERO_RUN_DIR"
            exit 73
        fi
    fi
    rankzero_submission=${2:-}
    rankzero_distrust
    rankzero_proven
    if newer=$(rankzero_superseded); then
        rankzero_say "$newer"
        exit 75
    fi
    rankzero_claim
    case $? in
        0) ;;
        1) rankzero_inherit "$rankzero_submission" || rankzero_refuse claim-lost 0 "generation $RANKZERO_GENERATION belongs to another job ($(cat "$RANKZERO_RUN_DIR/claim")): nothing is run here" ;;
        *) rankzero_say "$RANKZERO_RUN_DIR/claim can be neither taken nor read: nothing is run"; exit 73 ;;
    esac
    rankzero_count_attempts
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
