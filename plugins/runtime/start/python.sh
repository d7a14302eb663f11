# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Which Python of a node runs the programs of the job. Many systems have an old one as python3, and a newer one beside it
# under its own name. Sourced for the function, or run as a program, which then becomes that Python:
#
#     python.sh ARGUMENT ...

# Prints the first of the names $@ that is at least Python 3.9, or else the newest python3.N of PATH. A link tells the
# version by its name, which is faster than a start.
rankzero_python() {
    local name path real minor beside is_new='import sys; sys.exit(sys.version_info < (3, 9))'
    for name in "$@" python3.{30..9}; do
        # Bash names a file that it may not execute rather than none.
        path=$(command -v "$name") || continue
        [ -x "$path" ] || continue
        # As systems and environments have it: python3 leads to the python3.N beside it.
        [ ! -L "$path" ] || for minor in {9..30}; do
            beside=${path%/*}/python3.$minor
            [[ $path -ef $beside && ! -L $beside ]] && { printf '%s\n' "$path"; return; }
        done
        real=$(readlink -f "$path" 2> /dev/null) || real=$path
        case ${real##*/} in
            python3.[0-8]) ;;
            python3.9 | python3.[1-9][0-9]) printf '%s\n' "$path"; return ;;
            *)
                # It names this file, so that nobody takes it for a program of the user's (rankzero init --compare).
                ! "$path" -I -S -c "$is_new" "${BASH_SOURCE[0]}" 2> /dev/null < /dev/null \
                    || { printf '%s\n' "$path"; return; }
                ;;
        esac
    done
    return 1
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    python=$(rankzero_python python3) || python=python3
    exec "$python" "$@"
fi
