# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Becomes one rank: its log, the names torch expects, its network interface, its secrets; then execs the program, so
# that signals and exit codes arrive. Usage: rank.sh PROGRAM [ARG ...]
# Its own variables begin with rankzero_: any other name may be a variable of the job.
set -u

# Where this process finds each name: in Slurm's variables, or in those that torch.distributed.run sets. A launcher that has
# them elsewhere says so in its record (RANKZERO_RANK_NAMES), which comes last and counts.
if [ "$RANKZERO_LAUNCHER" = srun ]; then
    rankzero_names="RANK=SLURM_PROCID LOCAL_RANK=SLURM_LOCALID NODE_RANK=SLURM_NODEID WORLD_SIZE=RANKZERO_WORLD_SIZE \
LOCAL_WORLD_SIZE=RANKZERO_RANKS_PER_NODE MASTER_ADDR=RANKZERO_MASTER_ADDR MASTER_PORT=RANKZERO_MASTER_PORT"
else
    rankzero_names=NODE_RANK=GROUP_RANK
fi
rankzero_names=" $rankzero_names ${RANKZERO_RANK_NAMES:-} "
if [[ $rankzero_names = *=RANKZERO_NODE_RANK\ * && ",$RANKZERO_NODELIST," = *",${SLURMD_NODENAME:-},"* ]]; then
    # The place of this node among the job's, for a launcher that does not number nodes.
    rankzero_before=",$RANKZERO_NODELIST,"
    rankzero_before=${rankzero_before%%",${SLURMD_NODENAME:-},"*}
    rankzero_before=${rankzero_before//[!,]/}
    export RANKZERO_NODE_RANK=${#rankzero_before}
fi
for rankzero_told in RANK LOCAL_RANK NODE_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT; do
    rankzero_from=$rankzero_told
    if [[ $rankzero_names = *" $rankzero_told="* ]]; then
        rankzero_from=${rankzero_names##* "$rankzero_told"=} rankzero_from=${rankzero_from%% *}
    fi
    if [ -z "${!rankzero_from:-}" ]; then
        printf '[rankzero] this process is no rank: its launcher has not set %s, from which it takes %s; the record of the launcher (launch_cluster.launchers) says in ranks where %s is\n' \
            "$rankzero_from" "$rankzero_told" "$rankzero_told" >&2
        exit 78
    fi
    export "$rankzero_told=${!rankzero_from}"
done
unset rankzero_names rankzero_told rankzero_from rankzero_before

# As Slurm sets it for --gpus-per-node. Set here: the sruns of the job would take it for an option.
[ "${RANKZERO_GPUS_PER_NODE:-0}" = 0 ] || export SLURM_GPUS_PER_NODE="${SLURM_GPUS_PER_NODE:-$RANKZERO_GPUS_PER_NODE}"

# A role of several numbers its processes after those of the roles before it, each with a port of its own, and its program
# may be given that. Only the role that decides saves itself before the time limit.
rankzero_number=$((RANK + ${RANKZERO_FIRST_RANK:-0}))
if [ -n "${RANKZERO_ROLE:-}" ]; then
    export RANKZERO_PORT=$((RANKZERO_PORT_FIRST + rankzero_number % 1000))
    rankzero_words=()
    for rankzero_word in "$@"; do rankzero_words+=("${rankzero_word//"{port}"/"$RANKZERO_PORT"}"); done
    set -- "${rankzero_words[@]}"
    if [ "$RANKZERO_FIRST_RANK" != 0 ] && [ -n "${RANKZERO_EARLY_SIGNAL:-}" ]; then
        trap '' "$RANKZERO_EARLY_SIGNAL"
        unset RANKZERO_EARLY_SIGNAL
    fi
    unset rankzero_words rankzero_word
fi

printf -v rankzero_log 'rank-%04d.log' "$rankzero_number"
[ "${RANKZERO_LOG_STYLE:-rank}" != slurm ] || rankzero_log="$RANKZERO_NAME.$SLURM_JOB_ID.${SLURMD_NODENAME:-$(uname -n)}.$rankzero_number.out"
# A folder on this node's own disk, which its collector has made, and nobody else. It starts beside the ranks: one whose
# log belongs there waits for it, and writes a log of its own where none comes.
rankzero_spool=${RANKZERO_SPOOL:+$RANKZERO_SPOOL/${SLURMD_NODENAME:-$(uname -n)}} rankzero_alone=
rankzero_collected() {
    local home=${RANKZERO_SPOOL%/*} told=$RANKZERO_RUN_DIR/monitor/$RANKZERO_ATTEMPT/alone looks=0 pause='' why=''
    local until=$((SECONDS + ${RANKZERO_SPOOL_SECONDS:-0}))
    until [ -e "$rankzero_spool" ]; do
        if [[ -e $home && ! -O $home ]]; then
            why="$home is somebody else's"
        elif [ "$SECONDS" -ge "$until" ]; then
            why="none after ${RANKZERO_SPOOL_SECONDS:-0} s"
        elif (((looks += 1) % 20 == 0)) && [[ -e $told || -e $told.${rankzero_spool##*/} ]]; then
            # Looked at once a second: it is on shared storage.
            why='it could not start'
        fi
        [ -z "$why" ] || break
        # A pipe into which nobody writes: no program is started to wait.
        [ -n "$pause" ] || exec {pause}<> <(:)
        read -r -t 0.05 -u "$pause" _
    done
    [ -z "$pause" ] || exec {pause}<&-
    rankzero_alone=${RANKZERO_SPOOL_SECONDS:+$why}
    [[ -z $why && -O $home && -O $RANKZERO_SPOOL && -O $rankzero_spool && -d $rankzero_spool ]]
}
rankzero_shown=$((WORLD_SIZE - 1))
[ "${RANKZERO_LOG_FOLLOW:-first}" != first ] || rankzero_shown=0
rankzero_place=$RANKZERO_LOGS
if [ "$rankzero_number" = "$rankzero_shown" ]; then
    # A link to the log of the one rank that is followed by whoever waits for the job.
    ln -sfn "$rankzero_log" "$RANKZERO_LOGS/.live" 2> /dev/null
elif [[ -n $rankzero_spool && ${RANKZERO_LOG_PER:-rank} != rank ]] && rankzero_collected; then
    rankzero_place=$rankzero_spool rankzero_log=rank-$rankzero_number.log
elif [ "$WORLD_SIZE" -gt 1000 ] || [ "$rankzero_number" -ge 1000 ]; then
    # No folder has more than a thousand of them.
    rankzero_place=$RANKZERO_LOGS/$(printf '%03d' $((rankzero_number / 1000)))
    [ -d "$rankzero_place" ] || mkdir -p "$rankzero_place" || exit 73
fi
# A process of such a role starts again by itself, and the conductor reads of it in the steps' log (step.log).
rankzero_again=
[[ ${RANKZERO_ON_EXIT:-} != restart || $RANKZERO_LAUNCHER != srun ]] || { rankzero_again=1; exec 9>&2; }
exec >> "$rankzero_place/$rankzero_log" 2>&1 || exit 73
[ -z "$rankzero_alone" ] || printf '[rankzero] this rank has a log of its own: no collector on this node (%s)\n' "$rankzero_alone"
[ "${RANKZERO_DEBUG:-0}" = 0 ] || set -x

# The interface that the preflight found on all nodes. Without a preflight: the interface with the route to the first
# node (on that node, the one that has its address). NCCL and Gloo get the same one, and a job's own choice stands.
# Where an image lacks a program of this function, the network libraries choose for themselves.
rankzero_interface() {
    rankzero_address=$(getent ahostsv4 "$MASTER_ADDR" | awk 'NR == 1 { print $1 }')
    [ -n "$rankzero_address" ] || return 0
    ip -o -4 addr show to "$rankzero_address" | awk 'NR == 1 { print $2; found = 1 } END { exit !found }' \
        || ip -o -4 route get "$rankzero_address" | sed -n 's/.* dev \([^ ]*\).*/\1/p'
}
rankzero_chosen=${RANKZERO_INTERFACE:-$(rankzero_interface 2> /dev/null)}
if [ -n "$rankzero_chosen" ]; then
    export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-$rankzero_chosen}"
    export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-$rankzero_chosen}"
fi

# The environment that this node has in a folder of its own. A node where that is another user's runs no rank.
[ -z "${RANKZERO_BIN:-}" ] || export PATH="$RANKZERO_BIN:$PATH"

read -r rankzero_host 2> /dev/null < /proc/sys/kernel/hostname || rankzero_host=${SLURMD_NODENAME:-unknown}
# Tracing is off while they are read.
{ set +x; } 2> /dev/null
if [ -n "${RANKZERO_SECRETS:-}" ]; then
    # shellcheck source=plugins/runtime/rank/secrets.sh
    . "$RANKZERO_RUNTIME/rank/secrets.sh" || exit 78
    rankzero_secrets "$RANKZERO_RUN_DIR/secrets.env" "$RANKZERO_SECRETS" || exit 78
    unset -f rankzero_secrets
fi

printf '[rankzero] RANK=%s LOCAL_RANK=%s WORLD_SIZE=%s NODE_RANK=%s host=%s attempt=%s master=%s:%s interface=%s\n' \
    "$RANK" "$LOCAL_RANK" "$WORLD_SIZE" "$NODE_RANK" "$rankzero_host" "$RANKZERO_ATTEMPT" "$MASTER_ADDR" "$MASTER_PORT" \
    "${rankzero_chosen:-unset}"
# What the launchers of a course print on each node, for the programs that read such logs (preflight/handout.py).
if [ "${RANKZERO_LOG_STYLE:-rank}${LOCAL_RANK}" = slurm0 ]; then
    rankzero_root=$(command -v python3) rankzero_seen=$RANKZERO_RUN_DIR/preflight/$RANKZERO_ATTEMPT/versions
    [ ! -r "$rankzero_seen" ] || while read -r rankzero_line; do
        [[ $rankzero_line = "NODE ${SLURMD_NODENAME:-} "* ]] || continue
        printf '%s root %s\n' "$rankzero_line" "${rankzero_root%/bin/*}"
        break
    done < "$rankzero_seen"
    [ "$RANKZERO_LAUNCHER" = srun ] || printf '%s: nnodes=%s nproc_per_node=%s node_rank=%s rdzv=%s:%s\n' "$RANKZERO_LAUNCHER" \
        "$RANKZERO_NODES" "$LOCAL_WORLD_SIZE" "$NODE_RANK" "$RANKZERO_MASTER_ADDR" "$RANKZERO_MASTER_PORT"
    unset rankzero_root rankzero_seen rankzero_line
fi
# The sampler of this node, where there is a Python. It is no child of the rank ($$), because a program that waits for all
# its children would wait for it. Signals that end the ranks leave it alone: the time until they have saved themselves
# counts. It has a low priority, where there is a `nice`: the ranks start at the same moment and go first.
if [ "$LOCAL_RANK" = 0 ] && [ "${RANKZERO_MONITOR_HOST:-0}${RANKZERO_MONITOR_GPU:-0}" != 00 ]; then
    (
        # shellcheck source=plugins/runtime/start/python.sh
        . "$RANKZERO_RUNTIME/start/python.sh"
        rankzero_interpreter=$(rankzero_python python3 "$RANKZERO_PYTHON") || exit 0
        trap '' TERM INT HUP USR1 USR2
        rankzero_nice=$(command -v nice)
        ${rankzero_nice:+"$rankzero_nice"} "$rankzero_interpreter" -I -S "$RANKZERO_RUNTIME/rank/sampler.py" "$$" < /dev/null > /dev/null 2>&1 9>&- &
    )
fi
# Makes the stacks of every Python of this rank readable (rank/stacks.py). A job whose PYTHONFAULTHANDLER is empty has
# declined.
[ -z "${PYTHONFAULTHANDLER:-}" ] || export PYTHONPATH="$RANKZERO_RUNTIME/hook${PYTHONPATH:+:$PYTHONPATH}"
# Where torch's flight recorder is on, its dump at a timeout is written beside the stacks of the ranks.
if [ "${TORCH_FR_BUFFER_SIZE:-0}" != 0 ]; then
    rankzero_stacks="$RANKZERO_RUN_DIR/stacks/$RANKZERO_ATTEMPT"
    [[ $LOCAL_RANK != 0 || -d $rankzero_stacks ]] || mkdir -p "$rankzero_stacks" 2> /dev/null
    export TORCH_FR_DUMP_TEMP_FILE="${TORCH_FR_DUMP_TEMP_FILE:-$rankzero_stacks/trace-}"
    export TORCH_NCCL_DEBUG_INFO_TEMP_FILE="${TORCH_NCCL_DEBUG_INFO_TEMP_FILE:-$rankzero_stacks/trace-}"
fi
# node.sh keeps these from a launcher by ignoring them, which its children inherit: a Python program handles them all the
# same, but a shell could not. Where `env` cannot undo it, it stays; of a word with = it would make a variable.
if [[ $RANKZERO_LAUNCHER != srun && ${RANKZERO_EARLY_SIGNAL:-} = USR[12] && $1 != *=* ]] \
    && env --default-signal="$RANKZERO_EARLY_SIGNAL" true 2> /dev/null; then
    set -- env --default-signal="$RANKZERO_EARLY_SIGNAL" "$@"
fi
cd "${RANKZERO_WORKDIR:-$RANKZERO_RUN_DIR/work}" || exit 66
[ -n "$rankzero_again" ] || exec "$@"
# Slurm signals this shell and the program at once: the order to end is heeded after the program's end, or after the pause.
# This shell's own errors, such as its word on a program that was killed, are none of the program's.
rankzero_over=
trap 'rankzero_over=1' TERM INT HUP
exec 8>&2 2> /dev/null
while "$@" 2>&8 8>&- 9>&-; rankzero_code=$?; [[ -z $rankzero_over && ${RANKZERO_RESTARTED:-0} -lt ${RANKZERO_RESTARTS:-0} ]]; do
    sleep 1
    [ -z "$rankzero_over" ] || break
    export RANKZERO_RESTARTED=$((${RANKZERO_RESTARTED:-0} + 1))
    printf -v rankzero_line '[rankzero] role %s: process %s on %s ended with code %s: it starts again (%s of %s)' \
        "$RANKZERO_ROLE" "$RANK" "$rankzero_host" "$rankzero_code" "$RANKZERO_RESTARTED" "$RANKZERO_RESTARTS"
    printf '%s\n' "$rankzero_line"
    printf '%s\n' "$rankzero_line" >&9
done
exit "$rankzero_code"
