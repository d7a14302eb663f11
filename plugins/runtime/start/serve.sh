# shellcheck shell=bash
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What an interactive session serves in place of a shell (plan/door.py). Sourced by the session's script, which calls
# rankzero_door before it sets anything up, and rankzero_serve after that, in the job's container if it has one.
#
#   code HOST          holds the session open for `ssh HOST`
#   jupyter HOST       the same, and starts itself as `jupyter HOST PLACE`, a Jupyter server on a socket of its user's alone
#   sshd PLACE         one connection of ssh, as a step of its own
#   session FILE       one command of such a connection; FILE has the step's variables
#   inside ...         each of them, once more in the container
#
# PLACE is a folder of the node, of mode 700, which lasts as long as the session.

rankzero_door() {
    [ "${1:-}" != inside ] || shift
    case "${1:-}" in
        code | jupyter) [ -n "${3:-}" ] || rankzero_hold "$@" ;;
        sshd) rankzero_sshd "$2" ;;
        session)
            # What the set-up prints is not part of what a program of ssh reads.
            exec 3>&1 1>&2
            # shellcheck disable=SC1090
            [ ! -r "$2" ] || . "$2"
            ;;
    esac
}

rankzero_find_sshd() {
    local rankzero_program
    # sshd starts itself again, so it wants its whole path.
    for rankzero_program in "$(command -v sshd)" /usr/sbin/sshd /usr/local/sbin/sshd /usr/lib/ssh/sshd; do
        [ ! -x "$rankzero_program" ] || { echo "$rankzero_program" && return; }
    done
    rankzero_refuse serve 69 "there is no sshd on $(uname -n), through which ssh reaches a session: ask the site for openssh-server on its nodes" >&2
}

rankzero_hold() {
    rankzero_find_sshd > /dev/null || exit
    rankzero_place=$(mktemp -d /tmp/rankzero-session-XXXXXXXX) || rankzero_refuse serve 73 "cannot create a folder in /tmp of $(uname -n)"
    rankzero_open="$RANKZERO_RUN_DIR/door/open"
    rankzero_line="$SLURM_JOB_ID $(uname -n) $rankzero_place"
    # A later session of the same job has written its own.
    trap 'rm -rf -- "$rankzero_place"; [ "$(cat "$rankzero_open" 2> /dev/null)" != "$rankzero_line" ] || rm -f -- "$rankzero_open"' EXIT
    trap 'exit 0' INT
    trap 'exit 143' TERM HUP
    { echo "$rankzero_line" > "$rankzero_open.new" && mv -- "$rankzero_open.new" "$rankzero_open"; } || rankzero_refuse serve 73 "cannot write $rankzero_open"
    if [ "$1" = code ]; then
        rankzero_say "open: ssh $2 leads to $(uname -n) until job $SLURM_JOB_ID or this session ends; Ctrl-C ends it"
        # In short naps: a signal that ends this shell leaves no sleep behind for long.
        while :; do sleep 5; done
    fi
    /bin/bash "$0" "$@" "$rankzero_place"
    exit
}

rankzero_sshd() {
    local rankzero_program rankzero_file
    rankzero_program=$(rankzero_find_sshd) || exit
    rankzero_file="$1/step.${SLURM_STEP_ID:-0}"
    # sshd keeps none of Slurm's variables, which say what GPUs the step has. Each connection has its own terminal.
    # In this mode they are written as `export NAME=`, which a function may read for all.
    (umask 077 && unset TERM && set -o posix && export -p > "$rankzero_file") || rankzero_refuse serve 73 "cannot write in $1: the session has ended" >&2
    exec "$rankzero_program" -i -e -f "$RANKZERO_RUN_DIR/door/sshd_config" \
        -o "ForceCommand=exec /bin/bash $(printf %q "$0") session $(printf %q "$rankzero_file")"
}

# Before the container is entered.
rankzero_outward() { [ "${1:-}" != session ] || exec 1>&3 3>&-; }

rankzero_serve() {
    local rankzero_program
    [ "${1:-}" != inside ] || shift
    case "${1:-}" in
        session)
            rankzero_outward session
            case "${3:-${SSH_ORIGINAL_COMMAND:-}}" in
                "") exec /bin/bash --norc ;;
                internal-sftp*)
                    for rankzero_program in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server /usr/lib/ssh/sftp-server; do
                        [ ! -x "$rankzero_program" ] || exec "$rankzero_program"
                    done
                    rankzero_refuse serve 69 "there is no sftp-server on $(uname -n): use scp -O" >&2
                    ;;
                *) exec /bin/bash -c "${3:-$SSH_ORIGINAL_COMMAND}" ;;
            esac
            ;;
        jupyter)
            for rankzero_program in jupyter-lab jupyter-notebook jupyter-server; do
                ! command -v "$rankzero_program" > /dev/null || break
                [ "$rankzero_program" != jupyter-server ] ||
                    rankzero_refuse serve 69 "no jupyter in the job's environment: add jupyterlab to its requirements, or name an environment that has it"
            done
            # In the environment of the server, on this terminal and in PLACE, and nowhere else: by itself it writes the
            # token into a file of the home.
            JUPYTER_TOKEN=$(od -An -N24 -tx1 /dev/urandom)
            JUPYTER_TOKEN=${JUPYTER_TOKEN//[[:space:]]/}
            export JUPYTER_TOKEN JUPYTER_RUNTIME_DIR="$3"
            rankzero_say "jupyter runs on $(uname -n) until this session ends. On your machine:"
            echo "  ssh -F ~/.ssh/rankzero/$2.conf -N -L 8888:$3/jupyter.sock $2"
            rankzero_say "and open:"
            echo "  http://127.0.0.1:8888/?token=$JUPYTER_TOKEN"
            exec "$rankzero_program" --no-browser "--ServerApp.sock=$3/jupyter.sock" --ServerApp.sock_mode=0600
            ;;
    esac
}
