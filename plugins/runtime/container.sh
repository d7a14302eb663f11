# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What a batch script does for ranks that run in a container, all of it outside: enter.sh is the part inside. Sourced by
# the rendered script after job.sh; never run alone.

# Before the preflight. $1: the runtime; the rest: variables whose value here wins over the image's.
rankzero_container() {
    # A site's module may set these for everybody: they would put the preflight into a container, too.
    # shellcheck disable=SC2086
    unset ${!PYXIS_CONTAINER_@}
    if [ "$1" = apptainer ]; then
        RANKZERO_APPTAINER=$(command -v apptainer || command -v singularity) \
            || rankzero_refuse setup 78 "neither apptainer nor singularity is in PATH on $(uname -n): name its module in setup.modules"
        export RANKZERO_APPTAINER
    fi
    # The image's values beat those of the job, and hooks of the image set some more: a file survives both.
    export RANKZERO_CONTAINER_ENV="$RANKZERO_RUN_DIR/.container-$RANKZERO_ATTEMPT.env"
    rankzero_container_values "${@:2}" > "$RANKZERO_CONTAINER_ENV" \
        || rankzero_refuse setup 73 "cannot write $RANKZERO_CONTAINER_ENV"
    # The user's home is not there, and the image may be read-only: made here, because the image may lack mkdir.
    mkdir -p "$RANKZERO_RUN_DIR/home/.cache" || rankzero_refuse setup 73 "cannot create $RANKZERO_RUN_DIR/home"
}

# The lines that set the variables named once more, in a bash inside.
rankzero_container_values() {
    local rankzero_name
    for rankzero_name in "$@"; do
        [ -z "${!rankzero_name+set}" ] || printf 'export %s=%q\n' "$rankzero_name" "${!rankzero_name}" || return 1
    done
}

# After the step. A node on which the container did not start can leave srun with exit code 0: every rank must have a log.
# A network file system may show the last ones late, so that their absence is believed after half a minute only.
rankzero_container_proof() {
    [ "$rankzero_exit_code" = 0 ] && [ "$rankzero_ended_by" = program ] || return 0
    for ((rankzero_look = 0; rankzero_look < 35; rankzero_look++)); do
        rankzero_logged=()
        # Both styles of names; a pattern that finds nothing stays as it is.
        for rankzero_log in "$RANKZERO_LOGS"/rank-*.log "$RANKZERO_LOGS"/*.out; do
            [ ! -e "$rankzero_log" ] || rankzero_logged+=("$rankzero_log")
        done
        [ "${#rankzero_logged[@]}" -lt "$RANKZERO_WORLD_SIZE" ] || return 0
        sleep 1
    done
    rankzero_ended_by=setup rankzero_exit_code=70
    # shellcheck disable=SC2034 # job.sh puts it into the verdict
    rankzero_message="${#rankzero_logged[@]} of $RANKZERO_WORLD_SIZE ranks started, although srun says success: the container did not start everywhere; see $RANKZERO_LOGS/step.log"
}
