#!/bin/sh
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Stands for every program that a batch script may start: writes down how it was called, and answers as answers.sh says.
# It lies in the sandbox of jail.py and uses what POSIX's shell has.
trap '' HUP INT TERM USR1 USR2
number=0
while ! /bin/mkdir "/rankzero/record/$$.$number" 2>/dev/null; do
    number=$((number + 1))
    [ "$number" -lt 20 ] || exit 1
done
call=/rankzero/record/$$.$number
[ -p /dev/stdout ] && echo piped >"$call/piped"
/bin/cat "/proc/$$/environ" >"$call/environ"
pwd -P >"$call/cwd"
printf '%s\0' "${0##*/}" "$@" >"$call/argv"
# shellcheck source=python/rankzero/sbatch/answers.sh
. /rankzero/answers
