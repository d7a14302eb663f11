# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Runs the lines of a job's set-up that are for each node, in one shell and in the ranks' folder, and reports to
# FOLDER/NODE: empty once all have run, else which one has failed. Usage: lines.sh FOLDER LINE ...
rankzero_report=$1/${SLURMD_NODENAME:-$(uname -n)}
shift
cd "${RANKZERO_WORKDIR:-$RANKZERO_RUN_DIR/work}" || exit 66
# $1: its exit code, $2: empty unless the line has called a function or a file, of which only the end counts.
# shellcheck disable=SC2317  # the traps call it
rankzero_line_failed() {
    [ -z "$2" ] || return 0
    trap - ERR EXIT
    # A line may exit by itself.
    [ "$1" = 0 ] || printf '\140%s\140 ended with exit code %s' "$rankzero_line" "$1" >> "$rankzero_report"
    : >> "$rankzero_report"
    exit "$1"
}
set -o pipefail
trap 'rankzero_line_failed "$?" "${BASH_SOURCE[1]:-}"' ERR
trap 'rankzero_line_failed "$?" ""' EXIT
for rankzero_line in "$@"; do
    eval "$rankzero_line"
done
exit 0
