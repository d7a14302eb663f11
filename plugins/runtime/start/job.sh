# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The steps of the rendered script, which sources this. The script's process becomes the job's conductor
# (job/conduct.py), and the script continues in a bash beside it: here each step asks the conductor to do it
# (job/script.py says how).

# shellcheck source=plugins/runtime/start/adopt.sh
. "$RANKZERO_RUNTIME/start/adopt.sh"
# shellcheck source=plugins/runtime/start/python.sh
. "$RANKZERO_RUNTIME/start/python.sh"

rankzero_say() { printf '[rankzero] %s\n' "$*"; }

# Makes a task of a job array the element of the sweep that it runs. $1: the array's folder. Line N+1 of its file
# `elements`, which was written before the array was submitted, is task N's. It sets what differs between the elements and
# defines rankzero_element_variables and rankzero_element_program, or rankzero_element_role_NAME for each role.
rankzero_element() {
    local rankzero_line=''
    [ -z "${SLURM_ARRAY_TASK_ID:-}" ] || rankzero_line=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1)){p;q}" "$1/elements")
    if [ -z "$rankzero_line" ]; then
        rankzero_say "$1/elements has no line for task ${SLURM_ARRAY_TASK_ID:-(none: submit this script as a job array)}: nothing is run"
        exit 66
    fi
    rankzero_array=$1
    eval "$rankzero_line"
}

# Where the container stands in the job's header: checks that this script runs on the node, outside the image. Slurm
# reads the user's login for such a job, and the conductor drops what that sets (job/environment.py).
rankzero_container_outside() {
    if ! command -v srun > /dev/null || ! command -v scontrol > /dev/null; then
        rankzero_say "the batch script itself is in the image, where Slurm's commands are not: set container.level to step"
        exit 78
    fi
    export RANKZERO_LOGIN_DROPPED=1
}

rankzero_begin() {
    local python
    if [ -n "${RANKZERO_CONDUCTOR:-}" ]; then
        rankzero_answers=${RANKZERO_CONDUCTOR% *} rankzero_requests=${RANKZERO_CONDUCTOR#* }
        unset RANKZERO_CONDUCTOR
        rankzero_ask begin
        return
    fi
    # One that is too old says so.
    python=$(rankzero_python "$RANKZERO_PYTHON" python3 || command -v python3)
    [ ! -x "$python" ] || exec "$python" -I -S "$RANKZERO_RUNTIME/job/conduct.py" "${rankzero_array:-}" "$0" "$@"
    exec /bin/bash "$RANKZERO_RUNTIME/start/no_python.sh" "no python3" "$@"
}

# Asks the conductor for a step ("$@"), and takes over what has changed.
rankzero_ask() {
    local - item
    { set +x; } 2> /dev/null
    { printf '%s\0' "$#" "$@"; /usr/bin/env -0; printf '\0'; } >&"$rankzero_requests"
    while IFS= read -r -d '' item <&"$rankzero_answers"; do
        case $item in
            '') return 0 ;;
            -*) unset "${item#-}" ;;
            *) export "${item?}" ;;
        esac
    done
    # The conductor has ended: so has the job.
    exit 0
}

# A line of the set-up has failed. $1: its exit code, $2: its number in the script, $3: empty unless it stands in a file
# that the set-up sources, of which only the end counts: profiles and activations look for much that is missing.
rankzero_line_failed() {
    [ -z "$3" ] || return 0
    trap - ERR
    local rankzero_text
    rankzero_text=$(sed -n "$2{s/^[[:blank:]]*//;p;q}" "$0")
    rankzero_ask refuse setup 78 "the set-up failed: \`$rankzero_text\` ended with exit code $1 (line $2 of job.sbatch)"
}

rankzero_refuse() { rankzero_ask refuse "$@"; }
rankzero_seal() { rankzero_ask seal "$@"; }
rankzero_mlflow() { rankzero_ask mlflow; }
rankzero_data() { rankzero_ask data "$@"; }
rankzero_data_packed() { rankzero_ask data_packed "$@"; }
rankzero_container() { rankzero_ask container "$@"; }
rankzero_install() { rankzero_ask install "$@"; }
rankzero_install_inside() { rankzero_ask install_inside "$@"; }
rankzero_preflight() { rankzero_ask preflight "$@"; }
rankzero_container_proof() { rankzero_ask container_proof "$@"; }
rankzero_node_lines() { rankzero_ask node_lines "$@"; }
rankzero_role() { rankzero_ask role "$@"; }
rankzero_end() { rankzero_ask end "$@"; }
rankzero_launch() {
    # From here on signals are the conductor's affair.
    trap '' TERM INT HUP USR1 USR2
    rankzero_ask launch "$@"
}
