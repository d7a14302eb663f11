# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Starts a launcher, which starts ranks. Its words come from its record (module_utils/spec/launchers.py): in each,
# {VARIABLE} is the variable's value on this node, and the word {rank} is the start of a rank with its program. Nothing
# here is read by a shell twice. Usage: node.sh COUNT WORD ... PROGRAM [ARG ...]
set -u
rankzero_count=$1
shift
export RANKZERO_RENDEZVOUS_ID="${RANKZERO_ATTACHED:-$SLURM_JOB_ID}.$RANKZERO_ATTEMPT"
rankzero_line=()
for rankzero_rest in "${@:1:rankzero_count}"; do
    if [ "$rankzero_rest" = '{rank}' ]; then
        rankzero_line+=(/bin/bash "$RANKZERO_RUNTIME/rank/rank.sh" "${@:rankzero_count+1}")
        continue
    fi
    rankzero_word=
    while [[ $rankzero_rest =~ ^([^{]*)\{([A-Z][A-Z0-9_]*)\}(.*)$ || $rankzero_rest =~ ^([^{]*\{)()(.*)$ ]]; do
        rankzero_word+=${BASH_REMATCH[1]} rankzero_name=${BASH_REMATCH[2]} rankzero_rest=${BASH_REMATCH[3]}
        [ -n "$rankzero_name" ] || continue
        [ -n "${!rankzero_name:-}" ] || { printf '[rankzero] the launcher needs %s, which is not set on this node\n' "$rankzero_name" >&2; exit 78; }
        rankzero_word+=${!rankzero_name}
    done
    rankzero_line+=("$rankzero_word$rankzero_rest")
done
# The early signal goes to every process of the step, and is meant for the ranks: these two would end the launcher, and
# the ranks with it. rank.sh undoes it.
case "${RANKZERO_EARLY_SIGNAL:-}" in USR[12]) trap '' "$RANKZERO_EARLY_SIGNAL" ;; esac
exec "${rankzero_line[@]}"
