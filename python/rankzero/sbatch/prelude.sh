# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Read by bash before a batch script that is recorded (jail.py). What changes the shell itself is a function.
source() { /rankzero/bin/source "$@"; }
.() { /rankzero/bin/source "$@"; }
ulimit() { /rankzero/bin/ulimit "$@"; }
umask() { /rankzero/bin/umask "$@"; }
kill() { /rankzero/bin/kill "$@"; }
module() { /rankzero/bin/module "$@"; }
ml() { /rankzero/bin/ml "$@"; }
cd() {
    # A folder of the cluster is made here, empty.
    builtin cd "$@" 2>/dev/null && return
    /bin/mkdir -p -- "${@: -1}"
    builtin cd "$@" || return
}
unset BASH_ENV
