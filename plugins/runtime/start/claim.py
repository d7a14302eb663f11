# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this script may run its generation. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time

from core import processes, slurm
from core.log import first_line, log_line, publish, publish_json
from core.state import Ended, Job

# What the script believes in a run directory, beside its folders.
BELIEVED = (
    "claim", "outcome.json", "started.json", ".attempt", ".uncounted", "launch.json", "contract.json", "secrets.env",
    "secrets.sums", "no-python", "mlflow.json", "trackers.json", "notify.json", ".script", "slurm_script",
    "journal.jsonl", "first.json", "grant",
)  # fmt: skip
TAKEN, ANOTHERS, UNKNOWN = range(3)
# A node that has asked for a file before it was there may be told for a minute that it is missing.
LOOKS, LOOK_SECONDS = 14, 5.0
ASK_TRIES, ASK_SECONDS = 12, 5.0
# A journal has a few lines when its job begins.
JOURNAL_CHARACTERS = 1 << 20


def ours(path: str, kind: int = stat.S_IFREG) -> bool:
    """Whether a path is a regular file (or another kind) of this user or root, and no symbolic link."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_IFMT(status.st_mode) == kind and status.st_uid in (os.geteuid(), 0)


def distrust(job: Job) -> None:
    """End the script where a part of its run directory is not this user's: somebody else's word must not end, start or
    steer a job.
    """
    above = os.path.dirname(job.run_dir)
    for folder in (os.path.dirname(above), above, job.run_dir):
        if not ours(folder, stat.S_IFDIR):
            _disown(folder, "folder")
    for name in BELIEVED:
        path = job.path(name)
        if os.path.lexists(path) and not ours(path):
            _disown(path, "regular file")


def _disown(path: str, kind: str) -> None:
    """End the script because of a path that should be another kind of file, or somebody else's."""
    try:
        status = os.lstat(path)
        kind_there = f"{_kind(status.st_mode)} of {_user(status.st_uid)} (uid {status.st_uid})"
    except OSError as error:
        kind_there = f"file that cannot be examined ({error.strerror})"
    own = os.geteuid()
    log_line(f"{path} is a {kind_there}, and not a {kind} of {_user(own)} (uid {own}) or root: nothing is run")
    raise Ended(77)


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISLNK, "symbolic link"), (stat.S_ISDIR, "directory"), (stat.S_ISREG, "regular file"),
        (stat.S_ISFIFO, "fifo"), (stat.S_ISSOCK, "socket"), (stat.S_ISBLK, "block special file"),
    ):  # fmt: skip
        if test(mode):
            return name
    return "character special file"


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return "UNKNOWN"


def end_if_proven(job: Job) -> None:
    """End the script where its launch is proven already. Slurm may start it again at any time: slurmctld may have been
    killed after the verdict, and know neither that the job has ended nor how often it was restarted.
    """
    # Listed first: a network file system remembers that a file was missing.
    if "outcome.json" not in os.listdir(job.run_dir):
        return
    from artifact import final

    path = job.path("outcome.json")
    try:
        outcome = final.patiently(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError) as error:
        log_line(f"{path} cannot be read ({error}), so this launch may be proven already: nothing is run")
        raise Ended(final.UNREADABLE) from None
    text = final.proof(outcome, job.get("RANKZERO_KEY"), str(job.generation))
    if text:
        log_line(f"generation {job.generation} is {text}; nothing is run again")
        raise Ended(0)


def superseded(job: Job) -> str:
    """The sentence that names a newer generation beside this one, whatever has become of it: it was made because this
    one had ended, and may be running, or be submitted at any moment. A folder that slurmd has made for a log is none.
    """
    runs = os.path.dirname(job.run_dir)
    for name in sorted(os.listdir(runs)):
        path = os.path.join(runs, name)
        if not re.fullmatch(r"[1-9][0-9]{0,8}", name) or int(name) <= job.generation or not ours(path, stat.S_IFDIR):
            continue
        if any(os.path.exists(os.path.join(path, file)) for file in ("launch.json", "journal.jsonl", "claim")):
            return (
                f"generation {name} of this launch is newer than {job.generation}, which is this job's: nothing is run"
            )
    return ""


def acquire(job: Job) -> int:
    """One launch runs once: whoever links the claim first owns the generation. A lost reply of link() makes the winner
    see an error, so that is ignored, and the file is read back by content.
    """
    owner = linked(job, "claim", job.claim_line)
    return UNKNOWN if not owner else TAKEN if owner == job.claim_line else ANOTHERS


def linked(job: Job, name: str, line: str) -> str:
    """Make a file of one line unless there is one; the line that it has, empty where it can be neither made nor
    read.
    """
    path, temporary = job.path(name), job.path(f".{name}.{job.id}.{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8") as stream:
            stream.write(f"{line}\n")
    except OSError:
        return ""
    with contextlib.suppress(OSError):
        os.link(temporary, path)
    with contextlib.suppress(OSError):
        os.unlink(temporary)
    for look in range(LOOKS):
        there = first_line(path)
        if there:
            return there
        if name not in os.listdir(job.run_dir):
            break
        if look < LOOKS - 1:
            time.sleep(LOOK_SECONDS)
    return ""


def cancel_others(job: Job) -> None:
    """Cancel the other jobs of this generation (resources.any_of), which wait. One that starts all the same, or is
    submitted later, finds the claim.
    """
    others = []
    with contextlib.suppress(OSError), open(job.path("journal.jsonl"), encoding="utf-8", errors="replace") as stream:
        for line in stream.read(JOURNAL_CHARACTERS).splitlines():
            with contextlib.suppress(ValueError, AttributeError):
                event = json.loads(line)
                if event.get("event") in ("submitted", "alternative", "adopted"):
                    others.append(str(event.get("job_id")))
    others = [each for each in dict.fromkeys(others) if re.fullmatch(r"[0-9]{1,18}", each) and each != job.id]
    if others:
        log_line(f"this job has started first: cancels {', '.join(others)} (resources.any_of)")
        slurm.query(job, "scancel", "--state=PENDING", *others)


def by_hand(job: Job) -> bool:
    """A script submitted by hand is a new generation beside the one it was taken from, put in place whole, with its
    claim: a controller that looks meanwhile must not take it for a launch of its own. A requeued one finds its own
    again. Whether there is one.
    """
    import glob

    runs = os.path.dirname(job.run_dir)
    for path in sorted(glob.glob(os.path.join(glob.escape(runs), "*", "claim"))):
        if ours(path) and first_line(path).endswith(f" {job.cluster} {job.id}"):
            _become(job, os.path.dirname(path))
            return True
    made = os.path.join(runs, f".new-{job.id}.{os.getpid()}")
    try:
        _generation(job, made)
        _place(job, runs, made)
    except OSError:
        from core.clearing import remove_tree

        with contextlib.suppress(OSError):
            remove_tree(made)  # secrets may lie in it
        return False
    log_line(f"submitted by hand: this is generation {job.generation}, in {job.run_dir}")
    return True


def _become(job: Job, folder: str) -> None:
    job.export("RANKZERO_RUN_DIR", folder)
    job.export("RANKZERO_GENERATION", os.path.basename(folder))


def _generation(job: Job, made: str) -> None:
    """What a new generation begins with, less its number. Raises OSError."""
    import shutil

    os.makedirs(os.path.join(made, "logs"))
    for name in (
        *("job.sbatch", "slurm_script", "launch.json", "contract.json", "notify.json"),
        *("secrets.env", "secrets.sums"),
    ):
        if os.path.isfile(job.path(name)):
            shutil.copy2(job.path(name), made)
    event = {"time": int(time.time()), "event": "submitted", "job_id": job.id, "message": "submitted by hand"}
    publish_json(os.path.join(made, "journal.jsonl"), event)


def _place(job: Job, runs: str, made: str) -> None:
    """Give the new generation the next free number. Raises OSError."""
    number = job.generation
    while True:
        number += 1
        publish(os.path.join(made, "claim"), f"{number} {job.cluster} {job.id}\n")
        folder = os.path.join(runs, str(number))
        try:
            os.rename(made, folder)
        except OSError:
            if not os.path.isdir(folder):
                raise
        else:
            _become(job, folder)
            return


def count_attempts(job: Job) -> None:
    """Set the number of the attempt. Slurm's count of restarts may be gone with the memory of slurmctld: an attempt
    that has begun is not begun again.
    """
    counted = first_line(job.path(".uncounted"))
    uncounted = int(counted) if re.fullmatch(r"-?[0-9]{1,6}", counted) else 0
    job.export("RANKZERO_ATTEMPT", job.number("SLURM_RESTART_COUNT") + uncounted)
    begun = first_line(job.path(".attempt"))
    again = bool(re.fullmatch(r"[0-9]{1,6}", begun)) and job.attempt <= int(begun)
    end_if_left_behind(job, ASK_TRIES if again else 1)
    if again:
        job.export("RANKZERO_ATTEMPT", int(begun) + 1)


def end_if_another_runs(job: Job) -> None:
    """End the script where another one of this job runs on this node: slurmd may start a job's script twice, as when it
    is restarted while a start of it is held up. Raises Ended.
    """
    path, temporary = job.path(".script"), job.path(f".script.{job.node}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(f"{job.node} {processes.identity(os.getpid())}\n")
    try:
        # Of two that begin at once, one gets the name; the file of a script that has ended makes room.
        os.link(temporary, path)
    except FileExistsError:
        node, _blank, identity = first_line(path).partition(" ")
        number = identity.partition(" ")[0]
        if node == job.node and number.isdigit() and processes.identity(int(number)) == identity:
            os.unlink(temporary)
            log_line(f"another script of job {job.id} runs on {job.node} (process {number}): nothing is run")
            raise Ended(75) from None
        os.replace(temporary, path)
    except OSError:
        # A file system without hard links.
        os.replace(temporary, path)
    with contextlib.suppress(OSError):
        os.unlink(temporary)


def end_if_left_behind(job: Job, times: int) -> None:
    """End the script where Slurm runs this job elsewhere by now, or holds it. It takes a node that is slow to start the
    script for dead, and requeues the job: the script of the earlier start may come after all, before or after the next
    attempt has begun. `times`: how often Slurm is asked. A Slurm that does not answer ends the script only where an
    attempt has begun that it is not the successor of, which is asked for more than once.
    """
    if job.attached:
        return
    text = ""
    for tries in range(times):
        if tries:
            processes.pause(ASK_SECONDS)
        text = slurm.show_job(job)
        if text:
            break
    if not text and times == 1:
        return
    if not text:
        log_line(
            f"an attempt of job {job.id} has begun before, and Slurm does not say whether it runs elsewhere: nothing "
            "is run"
        )
        raise Ended(75)
    # A heterogeneous job has a line for each of its parts.
    if " JobState=" not in text or "\n" in text:
        return
    restarts, host = slurm.field(text, "Restarts") or "0", slurm.field(text, "BatchHost")
    count = job.get("SLURM_RESTART_COUNT", "0") or "0"
    here = not host or host == (job.get("SLURMD_NODENAME") or host)
    if slurm.field(text, "JobState") == "RUNNING" and restarts == count and here:
        return
    log_line(
        f"Slurm has started job {job.id} again (restarts {restarts}, on {host or 'no node yet'}); this is start {count}"
        f", on {job.node}: nothing is run"
    )
    raise Ended(75)


def inherit(job: Job) -> bool:
    """Take the claim of a job that has handed this generation on to us and did not live to write it; whether it did.
    Slurm started us after its end.
    """
    mark, _colon, giver = (job.submission or "").partition(":")
    words = first_line(job.path("claim")).split()
    if mark != "chain" or len(words) < 3 or words[2] != giver:
        return False
    begun = first_line(job.path(".attempt"))
    publish(job.path(".uncounted"), f"{int(begun or 0) + 1}\n")
    publish(job.path("claim"), f"{job.claim_line}\n")
    log_line(f"takes over from job {giver}")
    return True
