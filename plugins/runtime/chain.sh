# shellcheck shell=bash disable=SC2034,SC2154
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Where Slurm may not requeue the job (JobRequeue=0, and a site that takes --requeue away), another job goes on with the
# same generation: submitted by the first one before it ends, to run after it, and given the claim. The attempts count on.
# Sourced by job.sh, with which it shares its variables.

# Hands this generation on to a new job. $1: why. Returns 1, with the reason in rankzero_unchained, where that cannot be.
rankzero_chain() {
    local said excluded
    # A script that was submitted by hand stands for another generation than the one it runs as.
    [ -n "$rankzero_submission" ] || { rankzero_unchained="the script was submitted by hand"; return 1; }
    [ -z "${RANKZERO_ATTACHED:-}" ] || { rankzero_unchained="it is a step of another job"; return 1; }
    [ -z "${SLURM_ARRAY_JOB_ID:-}" ] || { rankzero_unchained="it is a task of an array"; return 1; }
    excluded=$(rankzero_without)
    [ -n "$excluded" ] || excluded=$(rankzero_field ExcNodeList "$(rankzero_within 60 scontrol show job --oneliner "$SLURM_JOB_ID" 2> /dev/null)")
    # The variables of this job are options to sbatch, and would become the next one's.
    said=$(rankzero_within 180 env -i PATH="$PATH" HOME="$HOME" USER="$USER" ${SLURM_CONF:+SLURM_CONF="$SLURM_CONF"} \
        sbatch --parsable --dependency="afterany:$SLURM_JOB_ID,singleton" ${excluded:+--exclude="$excluded"} \
        "$RANKZERO_RUN_DIR/job.sbatch" --submission "chain:$rankzero_job" 2>&1) || { rankzero_unchained=$said; return 1; }
    rankzero_next=$(grep -xoE '[0-9]+(;.*)?' <<< "$said" | tail -n 1)
    rankzero_next=${rankzero_next%%;*}
    [ -n "$rankzero_next" ] || { rankzero_unchained="sbatch named no job: $said"; return 1; }
    # From here on the launch is the next job's. Should this one die before, the next takes what it was promised.
    printf '%s\n' $((RANKZERO_ATTEMPT + 1)) | rankzero_publish "$RANKZERO_RUN_DIR/.uncounted"
    printf '%s %s %s\n' "$RANKZERO_GENERATION" "${SLURM_CLUSTER_NAME:-cluster}" "$rankzero_next" \
        | rankzero_publish "$RANKZERO_RUN_DIR/claim"
    rankzero_say "$1; job $rankzero_next goes on"
}

# The claim of a job that has handed this generation on to us ($1: its submission's mark) and did not live to write it.
# Slurm started us after its end.
rankzero_inherit() {
    local owner attempt
    [[ $1 == chain:* ]] || return 1
    read -r _ _ owner < "$RANKZERO_RUN_DIR/claim" || return 1
    [ "$owner" = "${1#chain:}" ] || return 1
    attempt=$(cat "$RANKZERO_RUN_DIR/.attempt" 2> /dev/null)
    printf '%s\n' $((${attempt:-0} + 1)) | rankzero_publish "$RANKZERO_RUN_DIR/.uncounted"
    printf '%s %s %s\n' "$RANKZERO_GENERATION" "${SLURM_CLUSTER_NAME:-cluster}" "$rankzero_job" \
        | rankzero_publish "$RANKZERO_RUN_DIR/claim"
    rankzero_say "goes on for job $owner"
}
