#!/usr/bin/env bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What the batch script becomes on a first node without a Python for its conductor. It runs nothing. It leaves a verdict
# in plain words (module_utils/run/plain_verdict.py reads it), excludes the node from later launches, and requeues the
# job where the job asks for that. Usage: no_python.sh WHAT [--submission NONCE]
set -u
# Slurm signals this script as soon as the job is requeued, and it has something to finish after that.
trap '' TERM INT USR1 USR2 URG
say() { printf '[rankzero] %s\n' "$*"; }
stop() { say "$2"; exit "$1"; }
within() { timeout -k 5 "$@" 2>&1 < /dev/null; }
names() { [ -z "$1" ] || within 60 scontrol show hostnames "$1"; }
number() { grep -Exs '[0-9]{1,6}' "$1" || printf 0; }
# Writes the lines $2 ... to the file $1, complete or not at all.
publish() { printf '%s\n' "${@:2}" > "${1%/*}/.${1##*/}.$$" && mv -f "${1%/*}/.${1##*/}.$$" "$1"; }
# $1: how the attempt ended, $2: its exit code, $3: the sentence.
verdict() { publish ./no-python "$attempt $now $1 $2 $job $node" "$3"; }
refuse() { verdict setup "$1" "$2"; rm -f secrets.env; stop "$1" "$2"; }
stay() { refuse 69 "$message; not requeued: $1"; }

node=${SLURMD_NODENAME:-$(uname -n)} cluster=${SLURM_CLUSTER_NAME:-cluster} now=$(date +%s)
slurm_job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
slurm_job=${slurm_job:-$SLURM_JOB_ID} job=${RANKZERO_ATTACHED:-$slurm_job}
message="$1 on $node, where the batch script runs: install it, or give the job an environment"
say "$message"
# Newer slurmds create the directory of the job's log themselves, so its existence proves nothing.
{ cd "$RANKZERO_RUN_DIR" && [ -f launch.json ]; } || stop 66 "the run directory $RANKZERO_RUN_DIR is gone: nothing is run"
for path in "${PWD%/*/*}" "${PWD%/*}" "$PWD" claim outcome.json .attempt .uncounted no-python; do
    if [ -L "$path" ] || { [ -e "$path" ] && [ ! -O "$path" ] && [ "$(stat -c %u -- "$path")" != 0 ]; }; then
        stop 77 "$path is another user's, or a link: nothing is written"
    fi
done
# As outcome.py writes it. An outcome.json of another form is not examined without a Python.
! grep -sqx ' "success": true,' outcome.json \
    || stop 0 "$PWD/outcome.json says success, and there is no Python here to check it: nothing is run"
# A script that was submitted by hand stands for a generation that does not exist yet.
[ "${2:-}" = --submission ] || exit 78
for path in ../[1-9]*/launch.json; do
    [[ $path =~ ^\.\./([0-9]{1,9})/launch\.json$ ]] && [ "${BASH_REMATCH[1]}" -gt "$RANKZERO_GENERATION" ] \
        && stop 75 "generation ${BASH_REMATCH[1]} of this launch is newer than $RANKZERO_GENERATION, which is this job's: nothing is run"
done
claim="$RANKZERO_GENERATION $cluster $job"
printf '%s\n' "$claim" > ".claim.$job.$$" && ln ".claim.$job.$$" claim 2> /dev/null
rm -f ".claim.$job.$$"
owner=$(cat claim)
if [ "$owner" != "$claim" ]; then
    # A job that handed this generation on may have ended before it wrote the new claim.
    [ "$owner" = "$RANKZERO_GENERATION $cluster ${3#chain:}" ] \
        || stop 0 "generation $RANKZERO_GENERATION belongs to another job ($owner): nothing is run here"
    publish ./claim "$claim"
fi
attempt=$((${SLURM_RESTART_COUNT:-0} + $(number .uncounted)))
[ ! -e .attempt ] || [ "$attempt" -gt "$(number .attempt)" ] \
    || stop 75 "attempt $(number .attempt) of this job has begun before: nothing is run"
[ ! -e outcome.json ] || mv -f outcome.json "outcome.before-attempt-$attempt.json"

# For the next launches of this cluster. Inside another job, that job may be the cause.
if [ "${RANKZERO_EXCLUDE_FOR:-0}" != 0 ] && [ -z "${RANKZERO_ATTACHED:-}" ]; then
    nodes="${PWD%/*/*/*/*}/clusters/$cluster/nodes"
    { mkdir -p "$nodes" && publish "$nodes/$node.txt" "$now $((now + RANKZERO_EXCLUDE_FOR)) $job $1"; } \
        || say "cannot record in $nodes that $node is not fit"
fi
[ "${RANKZERO_PREFLIGHT_POLICY:-}" = requeue ] || refuse 78 "$message"
# $1: the name of a field of `scontrol show job`.
field() { sed -n "s/.*[[:space:]]$1=\([^[:space:]]*\).*/\1/p" <<< "$shown" | grep -vx '(null)'; }
shown=$(within 60 scontrol show job --oneliner "$slurm_job")
excluded=$(field ExcNodeList) asked=$(field ReqNodeList) restarts=$RANKZERO_PREFLIGHT_RESTARTS
excluded=${excluded:+$excluded,}$node
[ "$attempt" -lt "$restarts" ] || stay "this was attempt $((attempt + 1)) of at most $((restarts + 1)) (checkpoint.max_restarts)"
! names "$asked" | grep -qxF "$node" || stay "the job asks for $asked by name (resources.sbatch.nodelist)"
# 0 where sinfo does not answer: then Slurm decides.
others=$(within 60 sinfo --noheader --Node --partition="$SLURM_JOB_PARTITION" --format=%N | grep -vx 'sinfo: .*' | sort -u \
    | grep -vcxFf <(names "$excluded"))
[ "$others" = 0 ] || [ "$others" -ge "$SLURM_JOB_NUM_NODES" ] \
    || stay "without $excluded partition $SLURM_JOB_PARTITION has $others nodes, and the job needs $SLURM_JOB_NUM_NODES"
say "$message; requeued without $node"
# Before the requeue: Slurm may end this script at any moment after it.
verdict requeue 69 "$message; requeued without $node: attempt $((attempt + 2)) of at most $((restarts + 1)) follows"
answer=$(within 120 scontrol requeue "$slurm_job") || refuse 69 "$message; Slurm did not requeue the job: $answer"
# A job does not start again while its last script runs, and only a waiting job can be told which nodes to leave out.
if ! answer=$(within 60 scontrol update "JobId=$slurm_job" "ExcNodeList=$excluded"); then
    verdict setup 69 "$message; cancelled: Slurm requeued the job, but did not exclude $node: $answer"
    within 60 scancel "$slurm_job"
fi
exit 69
