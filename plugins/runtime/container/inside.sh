# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The preflight's look into a container, once a node, where ranks will start: that this runs at all proves most of it. An
# image without Python may hold a program that needs none, so that is only reported. Usage, after enter.sh:
# inside.sh IMPORT ...
set -u
command -v "$RANKZERO_PYTHON" > /dev/null || { printf 'no-python\n'; exit 0; }
exec "$RANKZERO_PYTHON" "$RANKZERO_RUNTIME/container/inside.py" "${RANKZERO_CODE:-}" "$@"
