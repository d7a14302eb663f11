# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A node that lacks code or environment gets a copy on its own disk for the time of the job. stage.py does the work on
# the nodes; this starts its steps, one after the other. Every node that takes part then has a folder of the same name in
# /tmp, the view: links in it lead to the shared path where the node sees it, else to its copy. What the ranks are given
# goes through the view, so that it is right on every node. Sourced by job.sh, with which it shares its variables.
# shellcheck disable=SC2154

# Sets rankzero_words to a step of stage.py beside whatever else runs in the job. $1: seconds (0: as long as it likes), $2:
# command, $3: nodes; the rest: options of stage.py. Words and not the step itself: what is started in the background has
# to be the program, or a signal would end a shell in its place.
rankzero_stage_step() {
    rankzero_node_step "$3" 1 stage.py "$2" "${@:4}"
    rankzero_words=(timeout -k 5 "$1" "${rankzero_words[@]}")
}

# Sets rankzero_words to a step of one task on each of the nodes $1, beside whatever else runs in the job. $2: CPUs of a
# task, $3: the program of the runtime, $4: its command; the rest: its options.
rankzero_node_step() {
    local nodes=${1//[!,]/}
    nodes=$((${#nodes} + 1))
    if [ -z "${rankzero_memory:-}" ]; then
        rankzero_slurm_tmp=$(scontrol show config 2> /dev/null | sed -n 's/^TmpFS *= *//p')
        rankzero_memory=${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * ${SLURM_CPUS_ON_NODE:-1}))}
    fi
    rankzero_words=(
        srun --overlap --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --cpus-per-task="$2" --mem=0
        --gres=none --nodelist="$1" --kill-on-bad-exit=0 --export=ALL
        --output="$rankzero_checks/${3%.py}.log" --open-mode=append
        env RANKZERO_HOLDS=1 python3 -I "$RANKZERO_RUNTIME/$3" "$4" "$rankzero_checks" "$1"
        --local-dir "${RANKZERO_LOCAL_DIR:-}" --slurm-tmp "$rankzero_slurm_tmp" --memory "$rankzero_memory" "${@:5}"
    )
}

# After every node has reported and before their reports are judged: brings what is missing, and says so in the reports.
rankzero_stage() {
    local line kind targets sender receiver left deadline=$((SECONDS + RANKZERO_STAGE_BUDGET))
    local -a plan
    mapfile -t plan < <("$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/stage.py" plan "$rankzero_checks" \
        "$rankzero_names" --code "$RANKZERO_CODE" --python "$RANKZERO_PYTHON" --archives "${RANKZERO_ARCHIVES:-}")
    [ "${#plan[@]}" -gt 0 ] || return 0
    rankzero_held=${plan[0]#hold } rankzero_view=${plan[1]#view }
    rankzero_hold || rankzero_refuse setup 73 "cannot make a pipe on $(uname -n) in ${TMPDIR:-/tmp}"
    for line in "${plan[@]:2}"; do
        kind=${line%% *}
        left=$((deadline > SECONDS ? deadline - SECONDS : 1))
        rankzero_say "copying the $kind to the nodes that are to have it, from ${line#* }"
        rankzero_stage_step "$left" send "${line#* }" --kind "$kind" --seconds "$left"
        "${rankzero_words[@]}" < /dev/null &
        sender=$! receiver=''
        rankzero_note "$sender"
        targets=$("$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/stage.py" targets "$rankzero_checks" "$rankzero_held" \
            --kind "$kind" --seconds "$left" --holder "$rankzero_holder" --sender "$sender")
        if [ -n "$targets" ]; then
            rankzero_stage_step "$left" receive "$targets" --kind "$kind" --seconds "$left" \
                --imports "$RANKZERO_PREFLIGHT_IMPORTS"
            "${rankzero_words[@]}" < /dev/null &
            receiver=$!
            rankzero_note "$receiver"
        fi
        rankzero_dismiss "$sender" "$((left + 10))"
        # Else those who wait for it would do so until the budget is spent.
        [ -e "$rankzero_checks/stage/$kind.sent" ] || printf '{"problem": "the step that sent it from %s was ended"}' \
            "${line#* }" | rankzero_publish "$rankzero_checks/stage/$kind.sent"
        [ -z "$receiver" ] || rankzero_dismiss "$receiver" "$((left + 10))"
        rankzero_look_through "$kind"
    done
}

# Starts the step that holds the job's folders on the nodes as long as we hold its standard input open.
rankzero_hold() {
    rankzero_stage_step 0 hold "$rankzero_held"
    rankzero_tie || return 1
    rankzero_holder=$rankzero_tied rankzero_holding=$rankzero_tie
}

# From here on the ranks see the code, or the environment, through the view.
rankzero_look_through() {
    local before now="$rankzero_view/$1"
    if [ "$1" = code ]; then
        rankzero_snapshot=$RANKZERO_CODE RANKZERO_CODE=$now
        touch "$RANKZERO_RUN_DIR/.staged"
        rankzero_relink "$now"
        # The first node may not have got it; its report then says why.
        [ ! -d "$now" ] || rankzero_link "" || rankzero_refuse setup 66 "cannot lay out $RANKZERO_RUN_DIR/work"
        return
    fi
    rankzero_unstaged=("$RANKZERO_PYTHON" "${VIRTUAL_ENV:-}")
    before=${RANKZERO_PYTHON%/bin/*}
    # As in sealed.sh: the PATH is the ranks' alone.
    export RANKZERO_PYTHON="$now/bin/python" RANKZERO_BIN="$now/bin"
    [ "${VIRTUAL_ENV:-}" != "$before" ] || export VIRTUAL_ENV=$now
}

# Leads the links to the code in the ranks' working directory, into the snapshot or a view, to folder $1.
rankzero_relink() {
    local link target name
    while IFS= read -r -d '' link; do
        target=$(readlink "$link")
        case $target in
            "${rankzero_snapshot:-$RANKZERO_CODE}"/*) name=${target#"${rankzero_snapshot:-$RANKZERO_CODE}"/} ;;
            "/tmp/rankzero-$(id -u)-"*/code/*) name=${target#/tmp/rankzero-*/code/} ;;
            *) continue ;;
        esac
        ln -sfn "$1/$name" "$link"
    done < <(find "$RANKZERO_RUN_DIR/work" -type l -print0)
}

# At the end of the job, or before the ranks start again on other nodes: the nodes remove their copies, and the working directory leads to the snapshot again.
rankzero_unstage() {
    rankzero_in rankzero_untied_by 120
    rankzero_unhold
    # Last: what was started after them may have inherited the pipe whose end is the word.
    rankzero_uninstall
    rankzero_undata
    rankzero_unseal
}

rankzero_unhold() {
    [ -n "${rankzero_holder:-}" ] || return 0
    rankzero_untie "$rankzero_holder" "$rankzero_holding"
    rankzero_holder=''
    if [ -n "${rankzero_snapshot:-}" ]; then
        rankzero_relink "$rankzero_snapshot" && rm -f "$RANKZERO_RUN_DIR/.staged"
        RANKZERO_CODE=$rankzero_snapshot rankzero_snapshot=''
    fi
    if [ -n "${rankzero_unstaged:-}" ]; then
        export RANKZERO_PYTHON=${rankzero_unstaged[0]}
        [ -z "${VIRTUAL_ENV:-}" ] || export VIRTUAL_ENV=${rankzero_unstaged[1]}
        unset rankzero_unstaged RANKZERO_BIN
    fi
}
