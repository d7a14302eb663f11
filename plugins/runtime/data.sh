# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Staged datasets: where the ranks find them. A packed one is mounted once a node by a step that lives as long as the job,
# as a sealed environment is (sealed.sh). Sourced by job.sh, with which it shares its variables.
# shellcheck disable=SC2034,SC2154

rankzero_data_holders=()

# A dataset that the ranks read where it is. $1: its name, $2: its folder.
rankzero_data() {
    [ -d "$2" ] || [ -f "$2" ] || rankzero_refuse setup 66 "data.$1: $2 is not on $(uname -n): stage it on storage that the nodes see (role dataset)"
}

# A packed one. $1: its name, $2: its squashfs file, $3: whether nodes copy it (never, auto, always), $4: the variable that
# says where it is, $5: seconds, $6: the sha256 of the file. What sealed.sh takes for its own is this dataset's inside of here.
rankzero_data_packed() {
    local rankzero_sealing="$RANKZERO_RUN_DIR/sealed/${RANKZERO_ATTEMPT:-$$}.data-$1" said
    local rankzero_sealed_nodes=$RANKZERO_NODELIST rankzero_sealed_tmp RANKZERO_SEALED_BUDGET=$5
    rm -rf "$rankzero_sealing"
    mkdir -p "$rankzero_sealing" || rankzero_refuse setup 73 "cannot create $rankzero_sealing"
    rankzero_sealed_tmp=$(scontrol show config 2> /dev/null | sed -n 's/^TmpFS *= *//p')
    rankzero_sealed_step 0 hold "$rankzero_sealed_nodes" --file "$2" --sha256 "${6:-}" --copy "$3" --view "data-$1"
    rankzero_tie >> "$rankzero_sealing/hold.log" 2>&1 || rankzero_refuse setup 73 "cannot make a pipe on $(uname -n) in ${TMPDIR:-/tmp}"
    rankzero_data_holders+=("$rankzero_tied" "$rankzero_tie")
    rankzero_sealed_here await --holder "$rankzero_tied"
    said=$(rankzero_sealed_here problems)
    [ -z "$said" ] || rankzero_refuse setup 69 "data.$1: ${said//$'\n'/; }"
    said=$(rankzero_sealed_view "data-$1") || rankzero_refuse setup 78 "no python3 of at least 3.9 on $(uname -n)"
    export "$4=$said"
}

# At the end, however it came: the nodes let go of the datasets.
rankzero_undata() {
    local index
    for ((index = ${#rankzero_data_holders[@]} - 2; index >= 0; index -= 2)); do
        rankzero_untie "${rankzero_data_holders[index]}" "${rankzero_data_holders[index + 1]}"
    done
    rankzero_data_holders=()
}
