# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Every node makes the environment on its own disk, in one task, before any rank starts: uv's lock of a project holds
# on one node only, so ranks never build. install.py does the work. Sourced by job.sh, with which it shares its variables.
# shellcheck disable=SC2154

# $1: seconds that it may take. From here on the ranks have the environment, by the same path on every node.
rankzero_install() {
    local line environment problems=''
    rankzero_checks="$RANKZERO_RUN_DIR/preflight/$RANKZERO_ATTEMPT"
    # The preflight looks here for what each node says of its environment.
    rankzero_sealing="$rankzero_checks/install"
    rm -rf "$rankzero_sealing"
    mkdir -p "$rankzero_sealing" || rankzero_refuse setup 73 "cannot create $rankzero_checks"
    rankzero_say "each node makes its environment from $RANKZERO_PACKAGES"
    rankzero_node_step "$RANKZERO_NODELIST" "$RANKZERO_CPUS_PER_NODE" install.py hold --packages "$RANKZERO_PACKAGES" \
        --sha256 "${RANKZERO_PACKAGES_SHA256:-}"
    rankzero_words=("${rankzero_words[@]:0:2}" --cpu-bind=none "${rankzero_words[@]:2}")
    rankzero_tie || rankzero_refuse setup 73 "cannot make a pipe on $(uname -n) in ${TMPDIR:-/tmp}"
    # shellcheck disable=SC2034 # stage.sh lets go of it at the end
    rankzero_installer=$rankzero_tied rankzero_installing=$rankzero_tie
    while IFS= read -r line; do
        rankzero_say "${line#problem }"
        [ "$line" = "${line#problem }" ] || problems+="${problems:+; }${line#problem }"
    done < <("$RANKZERO_RUNTIME_PYTHON" -IB "$RANKZERO_RUNTIME/install.py" wait "$rankzero_checks" "$RANKZERO_NODELIST" \
        --seconds "$1" --holder "$rankzero_installer")
    # The preflight says it in the nodes' lines, and goes by its policy.
    [ -z "$problems" ] || [ -n "${RANKZERO_PREFLIGHT_POLICY:-}" ] || rankzero_refuse setup 78 "$problems"
    environment="$("$RANKZERO_RUNTIME_PYTHON" -IBc 'import sys; sys.path.insert(0, sys.argv[1]); import disk; print(disk.view())' \
        "$RANKZERO_RUNTIME")/environment"
    # As in sealed.sh: the PATH is the ranks' alone.
    export RANKZERO_PYTHON="$environment/bin/python" RANKZERO_BIN="$environment/bin"
    export VIRTUAL_ENV="${VIRTUAL_ENV:-$environment}"
}

# At the end, however it came: the nodes remove their environments.
rankzero_uninstall() {
    [ -n "${rankzero_installer:-}" ] || return 0
    rankzero_untie "$rankzero_installer" "$rankzero_installing"
    rankzero_installer=''
}
