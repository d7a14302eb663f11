#!/bin/sh
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Starts stand_in.py under the name by which this file was called, with a real Python: the one in PATH may be this file.
here=${0%/*}
IFS=:
for folder in $PATH /usr/bin; do
    if [ "$folder" != "$here" ] && [ -x "$folder/python3" ]; then
        unset IFS
        exec "$folder/python3" -I "${here%/*}/stand_in.py" "${0##*/}" "$@"
    fi
done
echo "${0##*/}: no python3 in $PATH" >&2
exit 127
