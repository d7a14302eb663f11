# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The secrets of a job as variables: of a rank (rank.sh), and of an interactive session (its script). The caller turns
# tracing off before.

# rankzero_secrets FILE NAMES: exports the variables among NAMES (with commas) that FILE has. Values are base64, one
# NAME=VALUE a line: any text survives, newlines too. Says what is wrong, and returns 78.
rankzero_secrets() {
    local rankzero_line rankzero_value rankzero_mode rankzero_open rankzero_fd rankzero_node=${rankzero_host:-${SLURMD_NODENAME:-this node}}
    command -v base64 > /dev/null || { echo "[rankzero] the image has no base64, which secrets need" && return 78; }
    # Opening a pipe would block.
    { [ -f "$1" ] && exec {rankzero_fd}< "$1"; } || { echo "[rankzero] $rankzero_node sees no ${1##*/}" && return 78; }
    # Checks the open file, not a name: this user's own regular file with no access for others. A minimal image has no stat.
    rankzero_open=/proc/self/fd/$rankzero_fd
    rankzero_mode=$(command -v stat > /dev/null && stat -L -c %a "$rankzero_open" 2> /dev/null)
    [[ ! -L $1 && -f $rankzero_open && -O $rankzero_open && ${rankzero_mode:-600} = 600 ]] \
        || { echo "[rankzero] $1 is not read: it must be a file of this user with mode 600, and no link" && return 78; }
    # Not split by `read`: it would take the padding at the end of a line for a separator.
    while IFS= read -r rankzero_line; do
        case ",$2," in *",${rankzero_line%%=*},"*) ;; *) continue ;; esac
        rankzero_value=$(printf '%s' "${rankzero_line#*=}" | base64 -d && printf x) \
            || { echo "[rankzero] ${1##*/}: the value of ${rankzero_line%%=*} cannot be read on $rankzero_node" && return 78; }
        export "${rankzero_line%%=*}=${rankzero_value%x}"
    done <&"$rankzero_fd"
    exec {rankzero_fd}<&-
}
