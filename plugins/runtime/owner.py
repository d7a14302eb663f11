# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One live owner of a folder of checkpoints: a job, in one attempt.

    owner.py take FOLDER    makes this job the owner; prints what happened. Exits 75 where another one lives
    owner.py held FOLDER    exits 0 while this job, in this attempt, is the owner; a program may ask before it saves

FOLDER/.rankzero/owner.1, owner.2, ... : the highest number owns the folder. A number is taken by link(), whose return
code means nothing on a network file system, and then read back by content, after listing the folder: what counts is
that no higher one is there. A dead owner is never removed to make room, so two that find it dead cannot both follow it.
Standard library only; runs under the job's own Python or the node's.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import json
import os
import re
import stat
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PLACE = ".rankzero"
PREFIX = "owner."
NUMBERED = re.compile(r"owner\.([1-9][0-9]{0,8})")
JOB = re.compile(r"[0-9]+([_.][0-9]+)?")
MOST_CHARACTERS = 1 << 20
REFUSED_EXIT = 75  # EX_TEMPFAIL of sysexits.h
# How long (seconds) an owner that is about to end, or a Slurm that does not answer, is waited for.
PATIENCE = 60
# Slurm requeues a job within seconds of its node's death, or not at all.
REQUEUE_TIME = 30
LOOK_SECONDS = 2
LINK_TRIES = 15
FINAL = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT")
SAME_JOB = ("cluster", "job_id", "run_dir")


def own_job(environ: Mapping[str, str]) -> str:
    """The id by which Slurm knows this job alone: ARRAY_TASK for a task of an array."""
    if environ.get("SLURM_ARRAY_JOB_ID"):
        return "{SLURM_ARRAY_JOB_ID}_{SLURM_ARRAY_TASK_ID}".format(**environ)
    return environ["SLURM_JOB_ID"]


def myself() -> dict[str, Any]:
    """This job and attempt, as an owner is written down. The moment tells two of one number apart."""
    return {
        "generation": int(os.environ["RANKZERO_GENERATION"]),
        "cluster": os.environ.get("SLURM_CLUSTER_NAME", "cluster"),
        # A launch inside another job is a step of it: JOB.STEP.
        "job_id": os.environ.get("RANKZERO_ATTACHED") or own_job(os.environ),
        "job_name": os.environ.get("SLURM_JOB_NAME", ""),
        "attempt": int(os.environ["RANKZERO_ATTEMPT"]),
        "run_dir": os.environ["RANKZERO_RUN_DIR"],
        "user": getpass.getuser(),
        "time": time.time(),
    }


def read(path: str) -> dict[str, Any] | None:
    """The object in a regular file; None for anything else. Nothing here is waited for: it may be another user's."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, encoding="utf-8") as stream:
            text = stream.read(MOST_CHARACTERS) if stat.S_ISREG(os.fstat(descriptor).st_mode) else ""
        document = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def numbers_in(place: str) -> list[int]:
    """The numbers that are taken, the highest first."""
    # Listing makes a network file system look again.
    matches = (NUMBERED.fullmatch(name) for name in os.listdir(place))
    return sorted((int(match[1]) for match in matches if match), reverse=True)


def newest(place: str) -> tuple[int, dict[str, Any] | None]:
    """(number, owner) of the highest number; (0, None) where nobody was here. An owner of {} cannot be read."""
    number = next(iter(numbers_in(place)), 0)
    return number, owner_of(place, number) if number else None


def owner_of(place: str, number: int) -> dict[str, Any]:
    """What a number's file says, in the types that we write; {} where it says anything else."""
    owner = read(os.path.join(place, f"{PREFIX}{number}")) or {}
    plain = all(isinstance(owner.get(name), str) for name in ("cluster", "job_id", "job_name", "run_dir", "user"))
    return owner if plain and isinstance(owner.get("attempt"), int) and JOB.fullmatch(owner["job_id"]) else {}


def same(owner: dict[str, Any], mine: dict[str, Any], names: Sequence[str]) -> bool:
    return all(owner.get(name) == mine[name] for name in names)


def line(text: object) -> str:
    """Somebody else's words as a part of one of our lines."""
    return "".join(character if character.isprintable() else " " for character in str(text)[:500])


def described(owner: dict[str, Any]) -> str:
    text = "job {} of {} ({}, attempt {}; {})".format(
        owner.get("job_id"),
        owner.get("user"),
        owner.get("job_name"),
        owner.get("attempt", 0) + 1,
        owner.get("run_dir"),
    )
    return line(text)


def is_step(job_id: object) -> bool:
    return "." in str(job_id)


def squeue_answer(job_id: object) -> tuple[str | None, str, str] | tuple[None, str, str]:
    """(state or None, job name, complaint) of a job by squeue. No state and no complaint: Slurm has forgotten it."""
    command = ["squeue", "--noheader", "--all", "--states=all", f"--jobs={job_id}", "--format=%T|%j"]
    if is_step(job_id):
        # Steps are listed while they run, and have no other state.
        command = ["squeue", "--noheader", f"--steps={job_id}", "--format=RUNNING|%j"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, "", f"squeue does not answer: {error}"
    message = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode != 0 and "Invalid job id specified" not in message:
        return None, "", f"squeue does not answer: {message}"
    state, _bar, name = done.stdout.decode("utf-8", "replace").strip().partition("\n")[0].partition("|")
    return state or None, name, ""


def life(owner: dict[str, Any], mine: dict[str, Any]) -> tuple[bool | None, str]:
    """(alive, why) of an owner: True lives, False is dead, None may be either, and a wait may tell."""
    if not owner:
        return None, "its owner's file cannot be read"
    outcome = read(os.path.join(str(owner.get("run_dir")), "outcome.json"))
    outcome = outcome or {}
    written = outcome.get("job_id") == owner.get("job_id") and outcome.get("attempt") == owner.get("attempt")
    # After these the same job may come back for its next attempt; a step does not.
    if written and (outcome.get("ended_by") not in ("signal", "requeue") or is_step(owner.get("job_id"))):
        return False, line("it has ended: {}".format(outcome.get("message")))
    if owner.get("cluster") != mine["cluster"]:
        return None, "it is of another cluster ({}), whose Slurm cannot be asked here".format(
            line(owner.get("cluster"))
        )
    state, name, complaint = squeue_answer(owner.get("job_id"))
    if complaint:
        return None, complaint
    if state is None:
        if owner.get("user") != mine["user"]:
            return None, "Slurm does not show it here; it is another user's"
        return False, "Slurm no longer knows it"
    if name != owner.get("job_name"):
        return False, "Slurm has given its number to another job"
    if state == "NODE_FAIL":
        return False, "NODE_FAIL; a node that Slurm cannot reach may still run it and write here"
    if state in FINAL:
        return False, state
    return (None if state == "COMPLETING" else True), f"it is {state}"


def first_obstacle(place: str, mine: dict[str, Any]) -> tuple[int, dict[str, Any], bool | None, str] | None:
    """(number, owner, alive, why) of the newest owner that may live, else of the newest that is dead.

    All that are there count: where others may write, a number on top of a living owner's says nothing of that one.
    """
    others = [(number, owner_of(place, number)) for number in numbers_in(place)]
    others = [(number, owner) for number, owner in others if not same(owner, mine, SAME_JOB)]
    judged = [(number, owner, *life(owner, mine)) for number, owner in others]
    return next((candidate for candidate in judged if candidate[2] is not False), judged[0] if judged else None)


def acquire(folder: str) -> int:
    place, mine = os.path.join(folder, PLACE), myself()
    os.makedirs(folder, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(place)
    # From here on names are those of the folder that was opened. Not through a link, which leads wherever it likes.
    os.chdir(os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
    temporary = ".{job_id}.{attempt}.{0}.tmp".format(os.getpid(), **mine)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as stream:
        json.dump(mine, stream)
        stream.flush()
        os.fsync(stream.fileno())
    try:
        return contend(folder, os.curdir, temporary, mine)
    finally:
        os.unlink(temporary)


def contend(folder: str, place: str, temporary: str, mine: dict[str, Any]) -> int:
    began, failed_since, refused = time.monotonic(), None, 0
    while True:
        number, owner = newest(place)
        how = "is this job's"
        if owner is not None:
            if same(owner, mine, SAME_JOB):
                if owner["attempt"] > mine["attempt"]:
                    print(f"{folder} belongs to a later attempt of this job ({owner['attempt'] + 1})")
                    return REFUSED_EXIT
                how = f"stays this job's, from attempt {owner['attempt'] + 1} on"
            elif (obstacle := first_obstacle(place, mine)) is not None:
                other, owner, alive, why = obstacle
                if alive is False and why.startswith("NODE_FAIL"):
                    failed_since = failed_since or time.monotonic()
                    if time.monotonic() - failed_since < REQUEUE_TIME:
                        time.sleep(LOOK_SECONDS)
                        continue
                if alive is None and time.monotonic() - began < PATIENCE:
                    time.sleep(LOOK_SECONDS)
                    continue
                if alive is not False:
                    advice = (
                        "cancel it, or name another folder"
                        if alive
                        else "if it is over, remove {}".format(os.path.join(folder, PLACE, f"{PREFIX}{other}"))
                    )
                    print(f"{folder} belongs to {described(owner)}: {why}; {advice}")
                    return REFUSED_EXIT
                how = f"is taken over from {described(owner)}: {why}"
        wanted = os.path.join(place, f"{PREFIX}{number + 1}")
        complaint = ""
        try:
            os.link(temporary, wanted)
        except OSError as error:
            complaint = error.strerror or ""
        now, owner = newest(place)
        if now == number + 1 and owner == mine:
            for other in numbers_in(place):
                if other <= number:
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(place, f"{PREFIX}{other}"))
            print(f"{folder} {how}")
            return 0
        if now > number + 1 and read(wanted) == mine:
            # Its owner had gone on meanwhile, and removed the numbers below: this one says nothing.
            os.unlink(wanted)
        if now <= number:
            # Nobody has the number: the file system has no links, or shows an old listing.
            refused += 1
            if refused > LINK_TRIES:
                print(f"{folder} cannot be taken: no link can be made there: {complaint or 'it is not seen'}")
                return 73
            time.sleep(LOOK_SECONDS)


def held(folder: str) -> int:
    owner, mine = newest(os.path.join(folder, PLACE))[1], myself()
    return 0 if owner and same(owner, mine, (*SAME_JOB, "attempt")) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["take", "held"])
    parser.add_argument("folder")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return {"take": acquire, "held": held}[arguments.command](arguments.folder)
    except OSError as error:
        print(f"{arguments.folder} cannot be taken: {error.strerror or error}")
        return 73


if __name__ == "__main__":
    sys.exit(main())
