# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the launches of the faults run: programs in bash that leave their marks in a ledger. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def untimed(hold: bool) -> Callable[[str], Sequence[str]]:
    """The usual program: it leaves its mark, and ends at once or when told to."""

    def program(ledger: str) -> Sequence[str]:
        # A caching share remembers missing names, so the folder is listed instead of testing for the file.
        wait = f"until ls {ledger} | grep -qx go; do sleep 0.3; done; " if hold else ""
        return [
            "sh",
            "-c",
            f": > {ledger}/job.$SLURM_JOB_ID.$RANKZERO_ATTEMPT; {wait}echo '{{\"ok\": 1}}' > result.json",
        ]

    return program


def timed(
    seconds: float, *, sealed: bool = False, together: bool = False, last: str = "true"
) -> Callable[[str], Sequence[str]]:
    """A program that runs for `seconds`. Its first rank records its start, its life and its end; see `ledger.parse`.

    `sealed`: it starts the Python of its environment. `together`: its first rank fails once the second one is gone.
    `last`: what it does before its end.
    """

    def program(ledger: str) -> Sequence[str]:
        mark = f"{ledger}/run.$SLURM_JOB_ID.$RANKZERO_ATTEMPT.$me.$EPOCHREALTIME.$RANK"
        first = '[ "$RANK" != 0 ] ||'
        begin, end = f"{first} : > {mark}.begun", f"{first} : > {mark}.ended"
        if sealed:
            begin = f"python -c pass || exit 1; {begin}"
        proof = f"{first} echo '{{\"ok\": 1}}' > result.json"
        # Waits by reading with a time limit from a pipe without a writer, so that no process is started twice a second.
        wait = f"until=$((${{EPOCHREALTIME/./}} + {round(seconds * 1e6)})); exec 9<> <(:); "
        loop = f"{first} echo . > $alive; read -rt 0.5 -u 9"
        if together:
            beat = f"{ledger}/beat.$SLURM_JOB_ID.$RANKZERO_ATTEMPT"
            # Its content: a share that caches asks its server at an open, and not for the time of a file.
            loop += f'; [ "$RANK" = 0 ] || echo $EPOCHSECONDS > {beat}'
            loop += f"; {{ read -r seen < {beat}; }} 2> /dev/null || seen="
            loop += "; ((EPOCHSECONDS - ${seen:-$EPOCHSECONDS} <= 6)) || exit 1"
        wait += f"while ((${{EPOCHREALTIME/./}} < until)); do {loop}; done"
        steps = "; ".join(("trap 'exit 0' TERM", "me=$$-$RANDOM", f"alive={mark}.alive", begin, wait, last, end, proof))
        return ["bash", "-c", steps]

    return program
