#!/usr/bin/env bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What the batch script becomes on a first node without a Python for its conductor: it runs nothing, says why in plain
# words (module_utils/run/plain_verdict.py reads them), has later launches leave out the node, and puts the job back into
# the queue where the job asks for that. Usage: no_python.sh WHAT [--submission NONCE]
set -u
# From a requeue on Slurm tells this script to end; and it has something to finish first.
trap '' TERM INT USR1 USR2 URG
say() { printf '[rankzero] %s\n' "$*"; }
within() { timeout -k 5 "$@" 2>&1 < /dev/null; }
field() { sed -n "s/.*[[:space:]]$1=\([^[:space:]]*\).*/\1/p" <<< "$shown" | grep -vx '(null)'; }
number() { grep -Exs '[0-9]{1,6}' "$1" || printf 0; }

node=${SLURMD_NODENAME:-$(uname -n)} cluster=${SLURM_CLUSTER_NAME:-cluster}
slurm_job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
slurm_job=${slurm_job:-$SLURM_JOB_ID} job=${RANKZERO_ATTACHED:-$slurm_job}
message="$1 on $node, where the batch script runs: install it, or give the job an environment"
say "$message"
# Newer slurmds make the directory of the job's log themselves: that it exists says nothing.
if ! cd "$RANKZERO_RUN_DIR" || [ ! -f launch.json ]; then
    say "the run directory $RANKZERO_RUN_DIR is gone: nothing is run"
    exit 66
fi
for path in "${PWD%/*/*}" "${PWD%/*}" "$PWD" claim outcome.json .attempt .uncounted no-python; do
    if [ -L "$path" ] || { [ -e "$path" ] && [ ! -O "$path" ] && [ "$(stat -c %u -- "$path")" != 0 ]; }; then
        say "$path is another user's, or a link: nothing is written"
        exit 77
    fi
done
# As outcome.py writes it. What it did not write is not looked into without a Python.
if grep -sqx ' "success": true,' outcome.json; then
    say "$PWD/outcome.json says success, and no Python is here to look into it: nothing is run"
    exit 0
fi
# A script that was submitted by hand stands for a generation that nobody has made yet.
[ "${2:-}" = --submission ] || exit 78
for path in ../[1-9]*/launch.json; do
    newer=${path#../} newer=${newer%/*}
    if [[ ! $newer =~ ^[0-9]{1,9}$ ]] || [ "$newer" -le "$RANKZERO_GENERATION" ]; then continue; fi
    say "generation $newer of this launch is newer than $RANKZERO_GENERATION, which is this job's: nothing is run"
    exit 75
done
line="$RANKZERO_GENERATION $cluster $job"
printf '%s\n' "$line" > ".claim.$job.$$" && ln ".claim.$job.$$" claim 2> /dev/null
rm -f ".claim.$job.$$"
owner=$(cat claim)
if [ "$owner" != "$line" ]; then
    # A job that has handed this generation on may not have lived to write it.
    [ "$owner" = "$RANKZERO_GENERATION $cluster ${3#chain:}" ] || { say "generation $RANKZERO_GENERATION belongs to another job ($owner): nothing is run here"; exit 0; }
    printf '%s\n' "$line" > ".claim.$job.$$" && mv -f ".claim.$job.$$" claim
fi
attempt=$((${SLURM_RESTART_COUNT:-0} + $(number .uncounted)))
if [ -e .attempt ] && [ "$attempt" -le "$(number .attempt)" ]; then
    say "attempt $(number .attempt) of this job has begun before: nothing is run"
    exit 75
fi
[ ! -e outcome.json ] || mv -f outcome.json "outcome.before-attempt-$attempt.json"
now=$(date +%s)

# Leaves the verdict: how the attempt ended ($1), its exit code ($2), and the sentence ($3).
verdict() {
    printf '%s\n' "$attempt $now $1 $2 $job $node" "$3" > ".no-python.$$" && mv -f ".no-python.$$" no-python
}
# Ends the job with a verdict. $1: its exit code, $2: the sentence.
refuse() {
    say "$2"
    verdict setup "$1" "$2"
    rm -f secrets.env
    exit "$1"
}

# For the next launches of this cluster. Inside another job it may be that job's doing.
if [ "${RANKZERO_EXCLUDE_FOR:-0}" != 0 ] && [ -z "${RANKZERO_ATTACHED:-}" ]; then
    place="${PWD%/*/*/*/*}/clusters/$cluster/nodes"
    mkdir -p "$place"
    { printf '%s\n' "$now $((now + RANKZERO_EXCLUDE_FOR)) $job $1" > "$place/.$node.$$" && mv -f "$place/.$node.$$" "$place/$node.txt"; } \
        || say "cannot write to $place that $node is not fit"
fi
[ "${RANKZERO_PREFLIGHT_POLICY:-}" = requeue ] || refuse 78 "$message"
shown=$(within 60 scontrol show job --oneliner "$slurm_job")
known=$(field ExcNodeList) asked=$(field ReqNodeList) restarts=$RANKZERO_PREFLIGHT_RESTARTS why=''
known=${known:+$known,}$node
# None is a sinfo that does not answer: then Slurm decides.
left=$(within 60 sinfo --noheader --Node --partition="$SLURM_JOB_PARTITION" --format=%N | grep -vx 'sinfo: .*' | sort -u \
    | grep -vcxFf <(within 60 scontrol show hostnames "$known"))
if [ "$attempt" -ge "$restarts" ]; then
    why="this was attempt $((attempt + 1)) of at most $((restarts + 1)) (checkpoint.max_restarts)"
elif [ -n "$asked" ] && within 60 scontrol show hostnames "$asked" | grep -qxF "$node"; then
    why="the job asks for $asked by name (resources.sbatch.nodelist)"
elif [ "$left" != 0 ] && [ "$left" -lt "$SLURM_JOB_NUM_NODES" ]; then
    why="without $known partition $SLURM_JOB_PARTITION has $left nodes, and the job needs $SLURM_JOB_NUM_NODES"
fi
[ -z "$why" ] || refuse 69 "$message; not requeued: $why"
say "$message; requeued without $node"
# Before the requeue: Slurm may end this script at any moment after it.
verdict requeue 69 "$message; requeued without $node: attempt $((attempt + 2)) of at most $((restarts + 1)) follows"
said=$(within 120 scontrol requeue "$slurm_job") || refuse 69 "$message; Slurm did not requeue the job: $said"
# A job cannot start again while its last script runs, and only one that waits can be told what to leave out.
if ! said=$(within 60 scontrol update "JobId=$slurm_job" "ExcNodeList=$known"); then
    verdict setup 69 "$message; cancelled: Slurm requeued the job, but did not exclude $node: $said"
    within 60 scancel "$slurm_job"
fi
exit 69
