# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The preflight's look into a container, once a node, where ranks will start: that this runs at all is the better half of
# it. An image without Python may hold a program that needs none. Usage, after enter.sh: inside.sh IMPORT ...
set -u
if ! command -v "$RANKZERO_PYTHON" > /dev/null; then
    set -- "${@#\?}"
    set -- "${@%%:*}"
    [ "$#" = 0 ] || { printf '{"columns": {}, "problems": ["has no %s to import %s"]}\n' "$RANKZERO_PYTHON" "$*"; exit 0; }
    printf '{"columns": {}, "problems": []}\n'
    exit 0
fi
exec "$RANKZERO_PYTHON" "$RANKZERO_RUNTIME/container/inside.py" "${RANKZERO_CODE:-}" "$@"
