# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Submits a script by plain sbatch, as its user does in a login shell, and waits for its end. The script lies beside this
# file, and runs in a copy of the launch's code; what its programs note goes to the launch's working directory.
# Usage: by_hand.sh RUN_DIR SCRIPT MINUTES [ARGUMENT ...]
#        by_hand.sh --stop    ends its job, also one that is being submitted; for who has called it and no longer waits
set -eu
tools=$(cd "${0%/*}" && pwd)
if [ "$1" = --stop ]; then
    : > "$tools/stopped"
    # Submissions and ends are seen in squeue a moment later. A job is known by its folder.
    for _time in 1 2 3 4 5 6 7 8 9 10; do
        ids=$(squeue --noheader --user="$(id -u)" --format='%A %o %Z' | sed -n "s:^\([0-9][0-9]*\) .*$tools/folder.*:\1:p")
        # shellcheck disable=SC2086
        [ -z "$ids" ] || { scancel $ids; exit 0; }
        [ -e "$tools/submitting" ] || exit 0
        sleep 0.5
    done
    exit 0
fi
run_dir=$1 script=$2 minutes=$3
shift 3
# The launch's own quotes.
eval "$(grep '^export RANKZERO_CODE=' "$run_dir/job.sbatch")"
mkdir "$tools/folder"
cp -RL -- "$RANKZERO_CODE/." "$tools/folder"
chmod -R u+rwX "$tools/folder"
mkdir -p -- "$(dirname -- "$tools/folder/$script")"
cp -- "$tools/script" "$tools/folder/$script"
calls=$run_dir/work/rankzero-calls/by-hand
mkdir -p "$calls"
# shellcheck disable=SC2016
line='
cd "$1/folder"
[ ! -r "$1/variables" ] || . "$1/variables"
export RANKZERO_CALLS="$2" PATH="$1/bin:$PATH"
: > "$1/submitting"
[ ! -e "$1/stopped" ] || exit 1
shift 2
exec sbatch --wait --parsable "$@"'
code=0
said=$(env -i HOME="$HOME" USER="$(id -un)" LOGNAME="$(id -un)" PATH=/usr/bin:/bin /bin/bash --login -c "$line" by-hand \
    "$tools" "$calls" --time="$minutes" "$script" "$@") || code=$?
rm -f "$tools/submitting"
id=$(printf '%s\n' "$said" | sed -n 's/^\([0-9][0-9]*\)\(;.*\)\{0,1\}$/\1/p' | tail -n 1)
[ -n "$id" ] || { printf 'sbatch has not taken the script: %s\n' "$said" >&2; exit 1; }
printf '{"job_id": "%s", "exit_code": %s, "folder": "%s"}\n' "$id" "$code" "$tools/folder" > "$calls/job"
