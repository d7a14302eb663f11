# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The first thing inside a container: home, variables and Python as the job wants them, then the rank's own start. No
# login shell, which would drop the image's PATH. Needs nothing of the image but bash.
# Usage: enter.sh SCRIPT PROGRAM [ARG ...]
set -u

if [ -z "${RANKZERO_MOUNT_HOME:-}" ]; then
    export HOME="$RANKZERO_RUN_DIR/home" XDG_CACHE_HOME="$RANKZERO_RUN_DIR/home/.cache"
fi
# The job's code comes before a package of the same name that was once installed into the image. A user's own batch
# script says itself where its code is.
if [ -n "${RANKZERO_CODE:-}" ] && [ "${RANKZERO_LAUNCHER:-}" != script ]; then
    [ ! -d "$RANKZERO_CODE/src" ] || export PYTHONPATH="$RANKZERO_CODE/src${PYTHONPATH:+:$PYTHONPATH}"
    export PYTHONPATH="$RANKZERO_CODE${PYTHONPATH:+:$PYTHONPATH}"
fi
# Where the runtime has put the driver's libraries, whatever the job sets.
rankzero_libraries=${LD_LIBRARY_PATH:-}
# shellcheck disable=SC1090
. "$RANKZERO_CONTAINER_ENV" || { printf '[rankzero] the run directory %s is not in the container\n' "$RANKZERO_RUN_DIR"; exit 78; }
while read -r _ rankzero_fact rankzero_folder; do
    [[ $rankzero_fact = libraries && :$rankzero_libraries: = *":$rankzero_folder:"* \
        && :${LD_LIBRARY_PATH:-}: != *":$rankzero_folder:"* ]] || continue
    export LD_LIBRARY_PATH="$rankzero_folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
done < "$RANKZERO_RUNTIME/container/containers.txt"
unset rankzero_libraries rankzero_fact rankzero_folder
if [[ $RANKZERO_PYTHON = */* ]]; then
    # Tried once on each node: a message from every rank would say the same.
    if [ ! -x "$RANKZERO_PYTHON" ] || { [ "${SLURM_LOCALID:-0}" = 0 ] && ! "$RANKZERO_PYTHON" -c ''; }; then
        printf "[rankzero] the environment's Python %s does not start in the container: it was built for the nodes; give an image with the same system, mount what it needs, or use the Python of the image (environment.mode none)\n" \
            "$RANKZERO_PYTHON"
        exit 78
    fi
    export PATH="${RANKZERO_PYTHON%/*}:$PATH"
fi
exec /bin/bash "$@"
