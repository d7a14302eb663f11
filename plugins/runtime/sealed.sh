# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A sealed environment on the nodes of a job: one file, which a step of its own mounts on every node and holds as long as
# the job lives. Under proctrack/cgroup a mount made by FUSE ends with the step that made it, so the ranks' own step is no
# place for it. sealed.py does the work on the nodes. Sourced by job.sh, with which it shares its variables, and by an
# interactive session, which is one node alone.
# shellcheck disable=SC2154

# Where on every node of this run is what is mounted under the name $1; disk.py has the same rule.
rankzero_sealed_view() {
    python3 -IB -c 'import sys; sys.path.insert(0, sys.argv[1]); import sealed_mount; print(sealed_mount.sealed(sys.argv[2]))' \
        "$RANKZERO_RUNTIME" "$1"
}

# Sets rankzero_words to a command of sealed.py on nodes: a step beside whatever else runs in the job, on all CPUs of the
# node, which it leaves to the ranks. $1: seconds (0: as long as it likes), $2: command, $3: nodes; the rest: its options.
# Words and not the step itself, as in stage.sh.
rankzero_sealed_step() {
    local nodes
    nodes=${3//[!,]/}
    nodes=$((${#nodes} + 1))
    # In a session of its own: a terminal's Ctrl-C is not for it.
    rankzero_words=(setsid)
    [ -n "${rankzero_sealed_alone:-}" ] || rankzero_words=(
        timeout -k 5 "$1" srun --overlap --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1
        --cpus-per-task="$RANKZERO_CPUS_PER_NODE" --cpu-bind=none --mem=0 --gres=none --nodelist="$3"
        --kill-on-bad-exit=0 --export=ALL --output="$rankzero_sealing/hold.log" --open-mode=append
    )
    rankzero_words+=(
        env RANKZERO_HOLDS=1 python3 -I "$RANKZERO_RUNTIME/sealed.py" "$2" "$rankzero_sealing" "$3"
        --seconds "$RANKZERO_SEALED_BUDGET" --local-dir "${RANKZERO_LOCAL_DIR:-}" --slurm-tmp "$rankzero_sealed_tmp"
        --memory "${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * ${SLURM_CPUS_ON_NODE:-1}))}" "${@:4}"
    )
}

# sealed.py on this node. $1: its command; the rest: more of its options.
rankzero_sealed_here() {
    python3 -I "$RANKZERO_RUNTIME/sealed.py" "$1" "$rankzero_sealing" "$rankzero_sealed_nodes" \
        --seconds "$RANKZERO_SEALED_BUDGET" "${@:2}"
}

# Mounts the environment in folder $1 of the store, whose file has the sha256 $2, on every node of the job. From here on the ranks' Python is the one on
# their node. A node without it is named by the preflight, or here where there is none.
rankzero_seal() {
    local file="$1/environment.sqsh" archive='' word source names said
    local -a children=()
    [ -z "${RANKZERO_ARCHIVES:-}" ] || archive="$RANKZERO_ARCHIVES/environment-${1##*/}.tar"
    rankzero_sealing="$RANKZERO_RUN_DIR/sealed/${RANKZERO_ATTEMPT:-$$}"
    rankzero_sealed_nodes=$RANKZERO_NODELIST
    # What an attempt that was cut short has said counts no more.
    rm -rf "$rankzero_sealing"
    mkdir -p "$rankzero_sealing" || rankzero_refuse setup 73 "cannot create $rankzero_sealing"
    rankzero_sealed_tmp=$(scontrol show config 2> /dev/null | sed -n 's/^TmpFS *= *//p')
    RANKZERO_SEALED=$(rankzero_sealed_view sealed) || rankzero_refuse setup 78 "no python3 of at least 3.9 on $(uname -n)"
    rankzero_sealed_hold "$file" "$archive" "${2:-}" || rankzero_refuse setup 73 "cannot make a pipe on $(uname -n) in ${TMPDIR:-/tmp}"
    while read -r word source names; do
        [ "$word" = send ] || continue
        rankzero_say "sending the environment to $names, where its file is not, from $source"
        rankzero_sealed_step "$RANKZERO_SEALED_BUDGET" receive "$names"
        "${rankzero_words[@]}" < /dev/null &
        children=("$!")
        rankzero_note "$!"
        rankzero_sealed_step "$RANKZERO_SEALED_BUDGET" send "$source" --file "$file"
        "${rankzero_words[@]}" < /dev/null &
        children+=("$!")
        rankzero_note "$!"
        rankzero_dismiss "$!" "$((RANKZERO_SEALED_BUDGET + 10))"
        # Else those who wait for it would do so until the budget is spent.
        [ -e "$rankzero_sealing/sent" ] || printf '{"problem": "the step that sent it from %s was ended"}' "$source" \
            | rankzero_publish "$rankzero_sealing/sent"
        rankzero_dismiss "${children[0]}" "$((RANKZERO_SEALED_BUDGET + 10))"
    done < <(rankzero_sealed_here await --file "$file" --holder "$rankzero_sealer")
    [ "${#children[@]}" = 0 ] || rankzero_sealed_here await --again --holder "$rankzero_sealer"
    # Not in the PATH of this script, whose steps reach nodes that have no such folder, or another user's (rank.sh).
    export RANKZERO_SEALED RANKZERO_PYTHON="$RANKZERO_SEALED/bin/python" RANKZERO_BIN="$RANKZERO_SEALED/bin"
    [ -z "${RANKZERO_PREFLIGHT_POLICY:-}" ] || return 0
    said=$(rankzero_sealed_here problems)
    [ -z "$said" ] || rankzero_refuse setup 69 "environment: ${said//$'\n'/; }"
    [ -z "${rankzero_sealed_alone:-}" ] || export PATH="$RANKZERO_BIN:$PATH"
}

# Starts the step that holds the environment as long as we hold its standard input open. $1: the file, $2: an archive,
# $3: the file's sha256.
rankzero_sealed_hold() {
    rankzero_sealed_step 0 hold "$rankzero_sealed_nodes" --file "$1" --archive "$2" --sha256 "$3" --copy "$RANKZERO_SEALED_COPY"
    rankzero_tie >> "$rankzero_sealing/hold.log" 2>&1 || return 1
    rankzero_sealer=$rankzero_tied rankzero_unsealing=$rankzero_tie
}

# At the end, however it came: the nodes let go of the environment.
rankzero_unseal() {
    [ -n "${rankzero_sealer:-}" ] || return 0
    rankzero_untie "$rankzero_sealer" "$rankzero_unsealing"
    rankzero_sealer=''
}
