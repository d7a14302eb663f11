# shellcheck shell=bash disable=SC2034,SC2154
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Whether this script may run its generation. Sourced by job.sh, with which it shares its variables.

# What the script believes in a run directory, beside its folders.
rankzero_believed=(claim outcome.json started.json .attempt .uncounted launch.json contract.json secrets.env)

# Whether $1 is a regular file of this user or root, and no symbolic link.
rankzero_ours() {
    [ ! -L "$1" ] && [ -f "$1" ] && { [ -O "$1" ] || [ "$(stat -c %u -- "$1")" = 0 ]; }
}

# The same of a folder.
rankzero_our_folder() {
    [ ! -L "$1" ] && [ -d "$1" ] && { [ -O "$1" ] || [ "$(stat -c %u -- "$1")" = 0 ]; }
}

# Ends the script where a part of its run directory is not this user's: somebody else's word must not end, start or steer
# a job.
rankzero_distrust() {
    local path
    for path in "${RANKZERO_RUN_DIR%/*/*}" "${RANKZERO_RUN_DIR%/*}" "$RANKZERO_RUN_DIR"; do
        rankzero_our_folder "$path" || rankzero_disown "$path" folder
    done
    for path in "${rankzero_believed[@]/#/$RANKZERO_RUN_DIR/}"; do
        [ -e "$path" ] || [ -L "$path" ] || continue
        rankzero_ours "$path" || rankzero_disown "$path" "regular file"
    done
}

# Ends the script because of $1, which should be a $2.
rankzero_disown() {
    rankzero_say "$1 is a $(stat -c '%F of %U (uid %u)' -- "$1"), and not a $2 of $(id -un) (uid $EUID) or root: nothing is run"
    exit 77
}

# Ends the script where its launch is proven already. Slurm may start it again at any time: slurmctld may have been killed
# after the verdict, and know neither that the job has ended nor how often it was restarted.
rankzero_proven() {
    local said
    [ -e "$RANKZERO_RUN_DIR/outcome.json" ] || [ -n "$(find "$RANKZERO_RUN_DIR" -maxdepth 1 -name outcome.json)" ] || return 0
    if [ -z "$RANKZERO_RUNTIME_PYTHON" ]; then
        # As outcome.py writes it. What it did not write is not looked into without a Python.
        grep -qx ' "success": true,' "$RANKZERO_RUN_DIR/outcome.json" || return 0
        rankzero_say "$RANKZERO_RUN_DIR/outcome.json says success, and no python3 is here to look into it: nothing is run"
        exit 0
    fi
    said=$("$RANKZERO_RUNTIME_PYTHON" -I "$RANKZERO_RUNTIME/final.py" "$RANKZERO_RUN_DIR" --key "$RANKZERO_KEY" \
        --generation "$RANKZERO_GENERATION")
    case $? in
        0) rankzero_say "generation $RANKZERO_GENERATION is $said; nothing is run again"; exit 0 ;;
        1) ;;
        *) rankzero_say "whether this launch is proven already cannot be said: ${said:-final.py failed}; nothing is run"; exit 74 ;;
    esac
}

# Whether a newer generation lies beside this one, whatever has become of it: it was made because this one had ended, and
# may be running, or be submitted at any moment. A folder that slurmd has made for a log is none. Prints the sentence
# that says so.
rankzero_superseded() {
    local path number
    for path in "${RANKZERO_RUN_DIR%/*}"/[1-9]*; do
        number=${path##*/}
        [[ $number =~ ^[1-9][0-9]{0,8}$ ]] || continue
        [ "$number" -gt "$RANKZERO_GENERATION" ] || continue
        rankzero_our_folder "$path" || continue
        [ -e "$path/launch.json" ] || [ -e "$path/journal.jsonl" ] || [ -e "$path/claim" ] || continue
        printf '%s' "generation $number of this launch is newer than $RANKZERO_GENERATION, which is this job's: nothing is run"
        return 0
    done
    return 1
}

# Ends the script where Slurm runs this job elsewhere by now. It takes a node that is slow to start the script for dead, and
# requeues the job: the script of the earlier start may come after all, when the next attempt has begun. Asked only
# where an attempt has begun that this script is not the successor of.
rankzero_left_behind() {
    local said='' tries restarts host
    [ -z "${RANKZERO_ATTACHED:-}" ] || return 0
    for ((tries = 0; tries < 12; tries++)); do
        [ "$tries" = 0 ] || sleep 5
        said=$(scontrol show job --oneliner "$rankzero_slurm_job" 2> /dev/null) && break
    done
    if [ -z "$said" ]; then
        rankzero_say "an attempt of job $rankzero_job has begun before, and Slurm does not say whether it runs elsewhere: nothing is run"
        exit 75
    fi
    # A heterogeneous job has a line for each of its parts.
    [[ $said == *" JobState="* && $said != *$'\n'* ]] || return 0
    restarts=$(rankzero_field Restarts "$said") host=$(rankzero_field BatchHost "$said")
    if [[ $said == *" JobState=RUNNING "* ]] && [ "${restarts:-0}" = "${SLURM_RESTART_COUNT:-0}" ] \
        && [[ -z $host || $host == "${SLURMD_NODENAME:-$host}" ]]; then
        return 0
    fi
    rankzero_say "Slurm has started job $rankzero_job anew (restarts ${restarts:-0}, on ${host:-no node yet}); this is start ${SLURM_RESTART_COUNT:-0}, on ${SLURMD_NODENAME:-$(uname -n)}: nothing is run"
    exit 75
}

# Sets RANKZERO_ATTEMPT. Slurm's count of restarts may be gone with the memory of slurmctld: an attempt that has begun is
# not begun again.
rankzero_count_attempts() {
    local begun
    export RANKZERO_ATTEMPT=$((${SLURM_RESTART_COUNT:-0} + $(rankzero_uncounted)))
    { read -r begun < "$RANKZERO_RUN_DIR/.attempt"; } 2> /dev/null || return 0
    [[ $begun =~ ^[0-9]{1,6}$ ]] && [ "$RANKZERO_ATTEMPT" -le "$begun" ] || return 0
    rankzero_left_behind
    RANKZERO_ATTEMPT=$((begun + 1))
}

# Attempts that Slurm has not counted: started inside the job, or in the job before this one.
rankzero_uncounted() {
    local counted=''
    { read -r counted < "$RANKZERO_RUN_DIR/.uncounted"; } 2> /dev/null
    [[ $counted =~ ^-?[0-9]{1,6}$ ]] || counted=0
    printf '%s\n' "$counted"
}

# One launch runs once: whoever links the claim first owns the generation. A lost reply of link() makes the winner see
# an error, so the return code is ignored and the file read back by content. Returns 1 where it is another job's, 2 where
# it can be neither taken nor read.
rankzero_claim() {
    local mine owner='' temporary attempt
    mine="$RANKZERO_GENERATION ${SLURM_CLUSTER_NAME:-cluster} $rankzero_job"
    temporary="$RANKZERO_RUN_DIR/.claim.$rankzero_job.$$"
    printf '%s\n' "$mine" > "$temporary" || return 2
    ln "$temporary" "$RANKZERO_RUN_DIR/claim" 2>/dev/null
    rm -f "$temporary"
    # This node may have asked for it before it was there, and be told for up to a minute more that it is missing.
    for ((attempt = 0; attempt < 14; attempt++)); do
        read -r owner < "$RANKZERO_RUN_DIR/claim" && [ -n "$owner" ] && break
        [ "$(find "$RANKZERO_RUN_DIR" -maxdepth 1 -name claim)" ] || break
        sleep 5
    done 2> /dev/null
    [ -n "$owner" ] || return 2
    [ "$owner" = "$mine" ]
}

# A script submitted by hand is a new generation beside the one it was taken from, put in place whole, with its claim: a
# controller that looks meanwhile must not take it for a launch of its own. A requeued one finds its own again.
rankzero_by_hand() {
    local runs generation line made
    runs=$(dirname "$RANKZERO_RUN_DIR")
    for line in "$runs"/*/claim; do
        if rankzero_ours "$line" && grep -q " ${SLURM_CLUSTER_NAME:-cluster} $rankzero_job\$" "$line"; then
            RANKZERO_RUN_DIR=$(dirname "$line")
            RANKZERO_GENERATION=$(basename "$RANKZERO_RUN_DIR")
            return 0
        fi
    done
    made="$runs/.new-$rankzero_job.$$"
    mkdir -p "$made/logs" || return 1
    for line in job.sbatch launch.json contract.json secrets.env; do
        [ ! -f "$RANKZERO_RUN_DIR/$line" ] || cp -p "$RANKZERO_RUN_DIR/$line" "$made/" || return 1
    done
    printf '{"time": %s, "event": "submitted", "job_id": "%s", "message": "submitted by hand"}\n' \
        "$(date +%s)" "$rankzero_job" > "$made/journal.jsonl" || return 1
    generation=$RANKZERO_GENERATION
    while :; do
        generation=$((generation + 1))
        printf '%s %s %s\n' "$generation" "${SLURM_CLUSTER_NAME:-cluster}" "$rankzero_job" > "$made/claim" || return 1
        mv -T "$made" "$runs/$generation" 2>/dev/null && break
        [ -d "$runs/$generation" ] || { rm -rf "$made"; return 1; }
    done
    RANKZERO_RUN_DIR="$runs/$generation"
    RANKZERO_GENERATION=$generation
    rankzero_say "submitted by hand: this is generation $generation, in $RANKZERO_RUN_DIR"
}
