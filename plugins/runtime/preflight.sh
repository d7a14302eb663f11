# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Looks at every node before the ranks start. Sourced by job.sh; preflight.py does the looking.

# Every node reports before any rank starts, within the budget; a node that is not fit, or says nothing, ends the job with
# its name (P4, P6). Then all ranks use the interface that every node reaches the first one by (E4). $1: seconds; the rest
# is srun with its options.
rankzero_preflight() {
    rankzero_checks="$RANKZERO_RUN_DIR/preflight/$RANKZERO_ATTEMPT"
    # shellcheck disable=SC2154 # job.sh sets it
    rankzero_names=$(IFS=,; printf '%s' "${rankzero_nodes[*]}")
    mkdir -p "$rankzero_checks" || rankzero_refuse setup 73 "cannot create $rankzero_checks"
    # shellcheck disable=SC2153 # the script exports it
    "${@:2}" --output="$rankzero_checks/step.log" --open-mode=append \
        python3 -I "$RANKZERO_RUNTIME/preflight.py" node "$rankzero_checks" "$rankzero_names" \
        --code "$RANKZERO_CODE" --python "$RANKZERO_PYTHON" --imports "$RANKZERO_PREFLIGHT_IMPORTS" \
        --cpus "$RANKZERO_CPUS_PER_NODE" --gpus "$RANKZERO_GPUS_PER_NODE" --image "${RANKZERO_IMAGE:-}" \
        --mounts "${RANKZERO_MOUNTS:-}" --tool "${RANKZERO_APPTAINER:-}" \
        --stage "${RANKZERO_STAGE:-never}" --local-dir "${RANKZERO_LOCAL_DIR:-}" < /dev/null &
    rankzero_step=$!
    (trap 'kill "$!"; exit' TERM; sleep "$1" & wait "$!"; kill -KILL "$rankzero_step") > /dev/null 2>&1 &
    rankzero_killer=$!
    while :; do
        rankzero_interrupted=''
        wait "$rankzero_step"
        [ -n "$rankzero_interrupted" ] || break
    done
    kill "$rankzero_killer" 2>/dev/null
    wait "$rankzero_killer" 2>/dev/null
    [ -z "${RANKZERO_STAGE:-}" ] || rankzero_stage
    rankzero_table=$("$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/preflight.py" judge "$rankzero_checks" \
        "$rankzero_names" --budget "$1")
    rankzero_code=$?
    printf '%s\n' "$rankzero_table" | tee "$rankzero_checks/table" | sed 's/^/[preflight] /'
    [ "$rankzero_code" = 0 ] || rankzero_refuse setup 69 "preflight: ${rankzero_table##*$'\n'}"
    case ${rankzero_table##*$'\n'} in
        "interface "*) export RANKZERO_INTERFACE=${rankzero_table##*"interface "} ;;
    esac
}
