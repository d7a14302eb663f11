# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process died of a signal: segmentation fault, bus error, abort."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    ECHO,
    RAISED,
    WEAK,
    Signature,
    says,
)

SIGNATURE = Signature(
    family="crash",
    what="a process crashed",
    remedy=(
        "`env.PYTHONFAULTHANDLER: 1` shows where. Suspect a compiled extension, a full /dev/shm, or one "
        "node: see whether it is always the same one."
    ),
    look=(
        "See which rank and which node crashed first, whether it is always the same node, and what that rank "
        "logged before."
    ),
    matches=(
        says(
            r"Fatal Python error: (?P<kind>(?!Aborted|init_)\w[\w ]*)|Caught signal (?:11|7) ",
            "Fatal Python error",
            "Caught signal",
            strength=RAISED,
        ),
        # Open MPI says so of each signal: what a program wrote before it aborted says more.
        says(r"\*\*\* Process received signal", "Process received signal", strength=WEAK + 4),
        says(
            r"exitcode: -(?:11|7|4|8)\)|[Ss]ignal (?:11 \(SIGSEGV\)|7 \(SIGBUS\)|4 \(SIGILL\)|"
            r"8 \(SIGFPE\)) received|exit(?:ed with)?(?: exit)? (?:code|status) (?:139|135|132)\b",
            "exitcode: -",
            "(SIGSEGV)",
            "(SIGBUS)",
            "(SIGILL)",
            "(SIGFPE)",
            "code 139",
            "status 139",
            "code 135",
            "status 135",
            "code 132",
            "status 132",
            strength=WEAK + 5,
        ),
        # Paddle prints it last, also where an exception ends the process.
        says(
            "`(?:Segmentation fault|Bus error|Erroneous arithmetic operation)` is detected by",
            "` is detected by",
            strength=WEAK + 5,
        ),
        says(
            r"(?:^|: |\d )(?:Segmentation fault|Bus error|Illegal instruction|"
            r"Floating point exception)\b(?: \(core dumped\))?|!!!!!!! Segfault encountered|"
            # The shell in other languages.
            r"Speicherzugriffsfehler|Erreur de segmentation|Violación de segmento|Errore di segmentazione|"
            r"Falha de segmentação|段错误|セグメンテーション違反",
            "Segmentation fault",
            "Bus error",
            "Illegal instruction",
            "Floating point exception",
            "Segfault encountered",
            "Speicherzugriffsfehler",
            "Erreur de segmentation",
            "Violación de segmento",
            "Errore di segmentazione",
            "Falha de segmentação",
            "段错误",
            "セグメンテーション違反",
            strength=WEAK + 4,
        ),
        says(
            "terminate called (?:after throwing an instance of '(?P<kind>(?!c10::|gloo::)[^']+)'|without an active)|"
            r"double free or corruption|malloc\(\): |free\(\): invalid|corrupted size vs|stack smashing",
            "terminate called ",
            "double free",
            "malloc(): ",
            "free(): invalid",
            "corrupted size",
            "stack smashing",
            strength=WEAK + 4,
        ),
        says(
            r"terminate called after throwing an instance of '(?:c10|gloo)::|`Process abort signal` is detected by|"
            r"(?:^|: |\d )Aborted\b(?!:)|Fatal Python error: Aborted|exitcode: -6\)|\(SIGABRT\) received|"
            r"exit code 134\b|EXIT CODE: 134\b|KILLED BY SIGNAL: 6\b",
            "EXIT CODE: 134",
            "BY SIGNAL: 6",
            "Aborted",
            "terminate called ",
            "` is detected by",
            "exitcode: -6",
            "(SIGABRT)",
            "code 134",
            strength=ECHO + 3,
        ),
        says(
            r"\*\*\* SIG(?:SEGV|BUS|ILL|FPE) |terminat\w+ (?:with|by) signal SIG(?:SEGV|BUS|ILL|FPE)|"
            r"died with <Signals\.SIG(?:SEGV|BUS|ILL|FPE)|corrupted double-linked list|code (?:= )?-(?:11|7|4|8)\b|"
            r"exited on signal (?:11|7|4|8)\b|died with exit code -(?:6|11|7|4|8)\b|KILLED BY SIGNAL: (?:11|7|4|8)\b|"
            r"EXIT STRING: .*\(signal (?:11|7|4|8)\)|EXIT CODE: (?:139|135|132|136)\b",
            "EXIT CODE: 13",
            "*** SIG",
            "exited on signal",
            "died with exit code -",
            "BY SIGNAL: ",
            "EXIT STRING: ",
            "signal SIG",
            "Signals.SIG",
            "corrupted double-linked",
            "code -",
            "code = -",
            strength=WEAK + 5,
        ),
        # Ray's own processes report it so.
        says(r"Unhandled exception: \S+\. what\(\):", "Unhandled exception: ", strength=WEAK + 4),
        says(
            r"status failed cmd .* code -(?:6|11|7|4|8)\b|"
            r"Program received signal SIG(?:SEGV|BUS|ILL|FPE)|^forrtl: (?:severe|error) |"
            r"Signal: (?:Segmentation fault|Bus error|Floating point exception) \(",
            "Program received signal",
            "status failed cmd",
            "forrtl: ",
            "Signal: ",
            strength=WEAK + 5,
        ),
    ),
    examples=(
        "2026-06-10 13:18:20,848 ERROR scripts.py:450 -- raylet died with exit code -6",
        "terminate called after throwing an instance of 'c10::Error'",
        "forrtl: error (200): program aborting due to window-CLOSE event",
        "job.sh: Zeile 9: 4242 Speicherzugriffsfehler  (Speicherabzug geschrieben) python fit.py",
        "job.sh: 行 7: 4242 段错误 (核心已转储) python fit.py",
        "srun: error: n1: task 3: Segmentation fault (core dumped)",
        "Fatal Python error: Segmentation fault",
        (
            "E0101 00:00:00.1 42 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -11"
            ") local_rank: 0 (pid: 43) of binary: /usr/bin/python"
        ),
    ),
    retry=True,
)
