# shellcheck shell=bash disable=SC2154,SC2153
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Looks at every node before the ranks start, and decides which nodes they get. Sourced by job.sh, with which it shares
# its variables; preflight.py does the looking.

# preflight.py on this node. $1: its command; the rest: more of its options.
rankzero_look() {
    "$RANKZERO_RUNTIME_PYTHON" -IB "$RANKZERO_RUNTIME/preflight.py" "$1" "$rankzero_checks" "$rankzero_names" \
        --wanted "$RANKZERO_NODES" --budget "$rankzero_budget" --tasks-per-node "$rankzero_tasks" \
        --cpus-per-task "$((RANKZERO_CPUS_PER_NODE / rankzero_tasks))" --gpus "$RANKZERO_GPUS_PER_NODE" "${@:2}"
}

# A further step on some of the nodes ($1: names with commas), placed as the first one was. $2: what the first task of
# each node does, as bash; the rest: its arguments.
rankzero_further() {
    local commas=${1//[!,]/}
    # shellcheck disable=SC2016
    rankzero_bounded "$rankzero_budget" "${rankzero_srun[@]}" --nodelist="$1" --nodes=$((${#commas} + 1)) \
        --ntasks=$(((${#commas} + 1) * rankzero_tasks)) --output="$rankzero_checks/%N.log" --open-mode=append \
        /bin/bash -c '[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0; '"$2" preflight "${@:3}"
}

# Every node reports before any rank starts, within the budget; of a node that is not fit, or says nothing, the name is
# shown. By policy the job then ends, goes on without it, or goes back into the queue without it. All ranks use
# the interface that every node reaches the first one by. $1: seconds; the rest is srun with its options, which place
# and bind the tasks as the ranks will be.
rankzero_preflight() {
    rankzero_checks="$RANKZERO_RUN_DIR/preflight/$RANKZERO_ATTEMPT"
    rankzero_names=$RANKZERO_NODELIST rankzero_budget=$1 rankzero_srun=("${@:2}") rankzero_tasks=1
    [ "$RANKZERO_LAUNCHER" != srun ] || rankzero_tasks=$RANKZERO_RANKS_PER_NODE
    mkdir -p "$rankzero_checks" || rankzero_refuse setup 73 "cannot create $rankzero_checks"
    # A node without python3 may still have the environment's, but not one in a folder that it should have made itself:
    # somebody else may have. The node's own last words are in its own file.
    # shellcheck disable=SC2016
    rankzero_bounded "$1" "${@:2}" --output="$rankzero_checks/%N.log" --open-mode=append \
        /bin/bash "$RANKZERO_RUNTIME/binding.sh" /bin/bash -c '
        for python in "$(command -v python3)" "$([ -n "${RANKZERO_BIN:-}" ] || command -v "$RANKZERO_PYTHON")"; do
            [ ! -x "$python" ] || exec "$python" -IB "$RANKZERO_RUNTIME/preflight.py" "$@"
        done
        # Nobody need wait for what this node would have said of its interfaces.
        echo "{}" > "$2/$SLURMD_NODENAME.addresses"
        echo "no python3 here"
        exit 78' preflight \
        node "$rankzero_checks" "$rankzero_names" --wanted "$RANKZERO_NODES" \
        --code "$RANKZERO_CODE" --python "$RANKZERO_PYTHON" --imports "$RANKZERO_PREFLIGHT_IMPORTS" \
        --gpus "$RANKZERO_GPUS_PER_NODE" --gpu-health "${RANKZERO_GPU_HEALTH:-off}" \
        --image "${RANKZERO_IMAGE:-}" --mounts "${RANKZERO_MOUNTS:-}" --runtime "${RANKZERO_CONTAINER:-}" \
        --free-run "$RANKZERO_FREE_RUN" --free-tmp "$RANKZERO_FREE_TMP" \
        --sealed "${rankzero_sealing:-}" --stage "${RANKZERO_STAGE:-never}" --local-dir "${RANKZERO_LOCAL_DIR:-}" \
        ${rankzero_enter[@]+--enter "${rankzero_enter[@]}"}
    [ -z "${RANKZERO_STAGE:-}" ] || rankzero_stage
    [ -z "${RANKZERO_ALL_REDUCE:-}" ] || rankzero_exchange
    rankzero_look judge --policy "$RANKZERO_PREFLIGHT_POLICY" --slow "$RANKZERO_PREFLIGHT_SLOW" \
        | tee "$rankzero_checks/table" | sed 's/^/[preflight] /'
    rankzero_conclude
    # This node does not see the code, but runs no rank either.
    if [ -n "$RANKZERO_CODE" ] && [ ! -d "$RANKZERO_CODE" ]; then
        # shellcheck disable=SC2016
        rankzero_further "${rankzero_nodes[0]}" '. "$RANKZERO_RUNTIME/job.sh" && rankzero_link ""' \
            || rankzero_refuse setup 66 "cannot lay out $RANKZERO_RUN_DIR/work from $RANKZERO_CODE on ${rankzero_nodes[0]}"
    fi
}

# The bandwidth between the fit nodes, with the job's own Python.
rankzero_exchange() {
    local nodes
    nodes=$(rankzero_look select --megabytes "$RANKZERO_ALL_REDUCE")
    [ -n "$nodes" ] || { rankzero_say "preflight.all_reduce: fewer than two fit nodes share an interface: not measured"; return; }
    # shellcheck disable=SC2016
    rankzero_further "$nodes" '
        python=$(command -v "$RANKZERO_PYTHON" || command -v python3) || exit 78
        exec "$python" -B "$RANKZERO_RUNTIME/preflight.py" "$@"' \
        exchange "$rankzero_checks" "$nodes" --budget "$rankzero_budget" --megabytes "$RANKZERO_ALL_REDUCE"
}

# Does what the verdict says: each of its lines is a word and a text.
rankzero_conclude() {
    local key text action='' chosen='' port='' message='' blamed=() reasons=()
    while read -r key text; do
        case $key in
            action) action=$text ;;
            chosen) chosen=$text ;;
            interface) [ -z "$text" ] || export RANKZERO_INTERFACE=$text ;;
            port) port=$text ;;
            message) message=$text ;;
            blamed)
                blamed+=("${text%% *}")
                reasons+=("${text#* }") ;;
        esac
    done < "$rankzero_checks/verdict"
    # Slurm has ended the steps of a job that it preempts: that is no fault of the nodes.
    if [ "$action${#blamed[@]}" != run0 ] && rankzero_preempted; then
        trap '' TERM INT USR1 USR2
        # shellcheck disable=SC2034 # rankzero_end reads them
        rankzero_ended_by=signal rankzero_exit_code=143
        rankzero_end
    fi
    for key in "${!blamed[@]}"; do rankzero_remember "${blamed[key]}" "${reasons[key]}"; done
    case $action in
        run) [ "${chosen// /,}" = "$RANKZERO_NODELIST" ] || rankzero_go_on "$chosen" "$port" "$message" ;;
        requeue) rankzero_requeue_without "$(IFS=,; printf '%s' "${blamed[*]}")" "preflight: $message" ;;
        *) rankzero_refuse setup 69 "preflight: ${message:-there is no verdict in $rankzero_checks}" ;;
    esac
}

# The ranks run on some of the nodes only. $1: their names, $2: a free port of the first one, $3: what the others lack.
rankzero_go_on() {
    local first=${rankzero_nodes[0]}
    read -ra rankzero_nodes <<< "$1"
    RANKZERO_NODELIST=${1// /,}
    if [ "${rankzero_nodes[0]}" != "$first" ]; then
        RANKZERO_MASTER_ADDR=$(rankzero_master_address "${rankzero_nodes[@]:0:2}")
        [ -n "$RANKZERO_MASTER_ADDR" ] || rankzero_refuse setup 71 "the first node ${rankzero_nodes[0]} has no address"
        [ -n "$rankzero_port_asked" ] || [ -z "$2" ] || RANKZERO_MASTER_PORT=$2
    fi
    rankzero_started || rankzero_refuse setup 73 "cannot write to $RANKZERO_RUN_DIR"
    rankzero_say "the ranks run on $1${3:+, without $3}; master $RANKZERO_MASTER_ADDR:$RANKZERO_MASTER_PORT"
}

# For the next launches of this cluster: node $1 was not fit, because of $2. One file a node, so that many may write. Inside
# another job it may be that job's doing.
rankzero_remember() {
    local folder now reason
    [ "${RANKZERO_EXCLUDE_FOR:-0}" != 0 ] && [ -z "${RANKZERO_ATTACHED:-}" ] || return 0
    folder=$(dirname "$(dirname "$(dirname "$(dirname "$RANKZERO_RUN_DIR")")")")/clusters/${SLURM_CLUSTER_NAME:-cluster}/nodes
    printf -v now '%(%s)T' -1
    reason=$(rankzero_json_text "$2")
    mkdir -p "$folder"
    printf '{"node": "%s", "reason": "%s", "job_id": "%s", "time": %s, "expires": %s}\n' \
        "$1" "$reason" "$rankzero_job" "$now" $((now + RANKZERO_EXCLUDE_FOR)) | rankzero_publish "$folder/$1.json" \
        || rankzero_say "cannot remember in $folder that $1 is not fit"
}
