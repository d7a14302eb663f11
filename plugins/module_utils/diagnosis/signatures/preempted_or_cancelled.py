# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Somebody, or a job of higher priority, ended the job."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    ECHO,
    LIMIT,
    WEAK,
    Signature,
    raises,
    says,
)

_GOT = r"\b(?:[Rr]eceived|[Cc]aught|[Gg]ot) (?:signal )?(?:Signals\.)?"
_STOPS = r"\b.{0,40}\b(?:exit|terminat|shut|stop)"
# What a signal alone proves.
_SIGNAL = "a signal ended the program (Ctrl-C, a closed terminal, or whoever ends the job sends one)"

SIGNATURE = Signature(
    family="preempted_or_cancelled",
    what="the job was preempted or cancelled",
    remedy=(
        "Launch again; to survive it next time: `checkpoint.requeue: true` with "
        "`checkpoint.signal_before_end`. A higher `resources.qos` or another `resources.partition` may not "
        "be preempted at all."
    ),
    look="See who ended it: `sacct -j JOB -o JobID,State,ExitCode,End` and the signal in the log.",
    matches=(
        says(
            "DUE TO PREEMPTION|(?<!: )(?<!, )\\b[Jj]ob was preempted(?!:? \\d)",
            "PREEMPTION",
            "was preempted",
            strength=LIMIT,
            what="the job was preempted",
        ),
        says("DUE TO JOB REQUEUE", "JOB REQUEUE", strength=LIMIT, what="the job was requeued"),
        says(
            r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+(?: DUE to SIGNAL \w+)? \*\*\*",
            "CANCELLED AT",
            strength=WEAK + 4,
            what="the job was cancelled",
        ),
        # torchrun tells which signal it got. It gets SIGTERM (15) from srun as well, after another rank has failed.
        says(
            r"SignalException: Process \d+ got signal: (?:1|2|Signals\.SIG(?:HUP|INT))\b",
            "got signal: ",
            strength=LIMIT,
            what=_SIGNAL,
            remedy="A closed terminal (SIGHUP, 1) or Ctrl-C (SIGINT, 2) ended it: start it as a batch job.",
        ),
        says(
            r"SignalException: Process \d+ got signal: (?:15|Signals\.SIGTERM)\b|`Termination signal` is detected by|"
            r"\*\*\* SIGTERM received at time=",
            "got signal: ",
            "`Termination signal`",
            "*** SIGTERM",
            strength=ECHO + 4,
            what=_SIGNAL,
        ),
        # srun itself ends a step when one of its tasks fails.
        says(
            r"\*\*\* STEP \S+ ON \S+ CANCELLED AT \S+(?: DUE to SIGNAL \w+)? \*\*\*",
            "CANCELLED AT",
            strength=ECHO + 2,
            what="the step of the ranks was cancelled",
        ),
        # LSF says so at the end of a job's output, HTCondor in its log of the job.
        says(
            r"^TERM_(?:OWNER|ADMIN|PREEMPT|REQUEUE_OWNER): |^\s*via condor_rm\b",
            "TERM_",
            "via condor_rm",
            strength=LIMIT,
            what="somebody, or the batch system, ended the job",
        ),
        raises(
            r"^KeyboardInterrupt\b|\bSIGTERMException\b|"
            r"DataLoader worker .* is killed by signal: (?:Terminated|Hangup|Interrupt)",
            strength=WEAK + 1,
            what=_SIGNAL,
        ),
        says(r"^\[rank: \d+\] Received SIGTERM: 15", "Received SIGTERM", strength=ECHO + 4, what=_SIGNAL),
        # Paddle's readers, in their handlers of SIGINT and SIGTERM.
        says(r"^main proc \d+ exit, kill process group", "kill process group", strength=ECHO + 4, what=_SIGNAL),
        says(
            r"srun: (?:interrupt|got SIGCONT|forcing job termination)|Job allocation \d+ has been revoked|"
            "received a keyboard interrupt|Ctrl.?C received|Detected KeyboardInterrupt|[Kk]eyboard interruption|"
            "[Ii]nterrupted by (?:the )?user|srun: Job has been cancelled|^scancel: Terminating job",
            "srun: interrupt",
            "forcing job termination",
            "has been revoked",
            "eyboard interrupt",
            "Detected KeyboardInterrupt",
            "nterrupted by ",
            "Job has been cancelled",
            "scancel: Terminating",
            strength=WEAK + 1,
            what="somebody interrupted or cancelled it",
        ),
        # A launcher or a server says so before it ends.
        says(
            rf"{_GOT}SIGINT{_STOPS}",
            "SIGINT",
            strength=WEAK + 1,
            what=_SIGNAL,
        ),
        # srun sends SIGTERM as well, after another rank has failed.
        says(rf"{_GOT}SIGTERM{_STOPS}", "SIGTERM", strength=ECHO + 4, what=_SIGNAL),
        # The shell reports a program that somebody ended.
        says(
            r"^\S+: line \d+: +\d+ (?:Terminated|Hangup|Interrupt)\b|^Terminated$|"
            r"EXIT STRING: (?:Terminated|Hangup|Interrupt)\b",
            "Terminated",
            "Hangup",
            "Interrupt",
            strength=WEAK,
            what=_SIGNAL,
        ),
        says(
            r"\*\*\* (?:JOB|STEP) \S+ (?:ON \S+ )?KILLED AT \S+ WITH SIGNAL \d+ \*\*\*",
            "KILLED AT",
            strength=ECHO + 2,
            what=_SIGNAL,
        ),
    ),
    examples=(
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Terminated (signal 15)",
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
        "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 1",
        "TERM_OWNER: job killed by owner.",
        "\tvia condor_rm (by user me)",
    ),
    retry=True,
)
