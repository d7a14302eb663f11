# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What a batch script does for ranks that run in a container, all of it outside: enter.sh is the part inside. Sourced by
# the rendered script after job.sh; never run alone.

# Where the container stands in the job's header as well: whether this script is on the node, as it has to be, and rid of
# what the user's login would set (Slurm reads it for a job whose --export is NONE).
rankzero_container_outside() {
    local name
    if ! command -v srun > /dev/null || ! command -v scontrol > /dev/null; then
        rankzero_say "the batch script itself is in the image, where Slurm's commands are not: set container.level to step"
        exit 78
    fi
    for name in $(compgen -e); do
        case $name in
            SLURM*|RANKZERO_*|CUDA_*|NVIDIA_*|ROCR_*|HIP_*|GPU_*|ZE_*|HOME|USER|PATH|TMPDIR|HOSTNAME|PWD|SHLVL|_) ;;
            *) unset "$name" 2> /dev/null ;;
        esac
    done
}

# What is declared of runtime $1 under the name $2, a line each.
rankzero_container_fact() {
    sed -n "s/^$1 $2 //p" "$RANKZERO_RUNTIME/containers.txt"
}

# Before the preflight. $1: the runtime; the rest: variables whose value here wins over the image's.
rankzero_container() {
    # A site's module may set these for everybody, and Slurm hands on what stands in the job's header (the third): they
    # would put the preflight into a container, too.
    # shellcheck disable=SC2086
    unset ${!PYXIS_CONTAINER_@} ${!_SLURM_SPANK_OPTION_pyxis_@} ${!SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_@}
    local commands scratch
    mapfile -t commands < <(rankzero_container_fact "$1" command)
    if [ -n "${commands[*]}" ]; then
        rankzero_command=$(for name in "${commands[@]}"; do command -v "$name" && break; done)
        [ -n "$rankzero_command" ] || rankzero_refuse setup 78 \
            "$(rankzero_container_fact "$1" absent) in PATH on $(uname -n): name its module in setup.modules"
        export "RANKZERO_${1^^}=$rankzero_command"
    fi
    # What a node makes for its container is mounted here, seen by nobody else.
    scratch=$(rankzero_container_fact "$1" scratch)
    [ -z "$scratch" ] || mkdir -p "$RANKZERO_RUN_DIR/$scratch" \
        || rankzero_refuse setup 73 "cannot create $RANKZERO_RUN_DIR/$scratch"
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

# Sets rankzero_logged to how many ranks have begun a log, of whichever style of names.
rankzero_count_logs() {
    local file
    rankzero_logged=0
    # A pattern that finds nothing stays as it is.
    for file in "$RANKZERO_LOGS"/rank-*.log "$RANKZERO_LOGS"/*.out; do
        [ ! -e "$file" ] || rankzero_logged=$((rankzero_logged + 1))
    done
}

# The line of log $1 that says best why a container did not start: the memory limit of Slurm, then what the runtime has
# declared of its own words. The nodes' lines come in any order, and those without a reason ("child 7 failed with error code:
# 1") often first.
rankzero_container_said() {
    local pattern patterns
    mapfile -t patterns < <(rankzero_container_fact "$RANKZERO_CONTAINER" log)
    for pattern in '[Oo]ut [Oo]f [Mm]emory|oom.kill|OOM' "${patterns[@]}"; do
        grep -m 1 -E "$pattern" "$1" && return 0
    done
}

# After the step, where it is not the program that has failed. A container that did not start leaves no rank, and what it
# said in the step's log; a node on which it did not start can even leave srun with exit code 0: every rank must have a
# log. A network file system may show the last ones late, so that their absence is believed after half a minute only.
rankzero_container_proof() {
    [ "$rankzero_ended_by" = program ] || return 0
    if [ "$rankzero_exit_code" != 0 ]; then
        rankzero_count_logs
        [ "$rankzero_logged" = 0 ] || return 0
        rankzero_ended_by=setup
        rankzero_message=$(rankzero_container_said "$RANKZERO_LOGS/step.log" | cut -c 1-400)
        case $rankzero_message in
            *[Oo]ut?[Oo]f?[Mm]emory*|*oom?kill*|*OOM*)
                rankzero_message+="; an image that is unpacked into memory counts against the step's: ask for more in resources.memory" ;;
        esac
        rankzero_message="no rank started in its container: ${rankzero_message:-see $RANKZERO_LOGS/step.log}"
        return 0
    fi
    for ((rankzero_look = 0; rankzero_look < 35; rankzero_look++)); do
        rankzero_count_logs
        [ "$rankzero_logged" -lt "$RANKZERO_WORLD_SIZE" ] || return 0
        sleep 1
    done
    rankzero_ended_by=setup rankzero_exit_code=70
    # shellcheck disable=SC2034 # job.sh puts it into the verdict
    rankzero_message="$rankzero_logged of $RANKZERO_WORLD_SIZE ranks started, although srun says success: the container did not start everywhere; see $RANKZERO_LOGS/step.log"
}
