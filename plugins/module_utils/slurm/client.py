# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run Slurm commands: find them, run them in a clean environment, and tell "no answer" from "refused".

There are three outcomes, which are never confused: Slurm answered (a `CommandResult`), Slurm refused (`SlurmError`),
and Slurm did not answer (`SlurmUnavailable`: nothing can be concluded about any job). Sources: squeue(1), scontrol(1),
sacct(1), sinfo(1), and known traps of submission (the submitter's own SLURM_* variables affect every command, SBATCH_*
overrides #SBATCH).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable, Optional

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    SlurmError,
    SlurmMissing,
    SlurmUnavailable,
)

EXTRA_PATH = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin", "/usr/local/slurm/bin")
DEFAULT_TIMEOUT = 60.0
# Longest list in one argument. Linux refuses arguments of 128 KiB (MAX_ARG_STRLEN) with "Argument list too long".
LIST_BYTES = 100_000

# Variables with these prefixes are read by some Slurm command. A submitter inside a job has dozens of them.
SCRUBBED_PREFIXES = (
    *("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SCONTROL_", "SACCT_", "SACCTMGR_", "SALLOC_", "SINFO_"),
    *("SCANCEL_", "SLURMD_", "SLURMCTLD_"),
)
# These variables say how to reach and authenticate to the cluster. Without them a command may contact another cluster,
# or none.
KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})
KEPT_PREFIXES = ("SLURM_SACK_",)
# What else sbatch gets: a job begins with what sbatch had (`--export=ALL`). For any other --export than ALL, Slurm
# before 24.11 runs the user's login shell on the job's first node, and a slow profile there holds the start or ends it.
# KRB5CCNAME: the ticket that a site's plugin hands on to the job.
SUBMITTED = ("PATH", "KRB5CCNAME")

# How far back (seconds) sacct searches for an id if the caller gives no `since`. By itself it starts at midnight.
DEFAULT_REACH = 90 * 86400
# Seconds by which clocks may differ. A job must not seem older than the intent to submit it.
CLOCK_SLACK = 300
# Error messages (in LC_ALL=C) when slurmctld, slurmdbd or munged does not answer.
SILENCE = (
    "unable to contact slurm controller",
    "socket timed out",
    "zero bytes were transmitted or received",
    "backup controller in standby mode",
    "slurmctld is not responding",
    "connection refused",
    "connection timed out",
    "communication connection failure",
    "communication shutdown failure",
    "problem talking to the database",
    "unable to contact slurm database",
    "protocol authentication error",
    "munge encode failed",
    "unable to establish configuration source",
    "slurm temporarily unable to accept job, sleeping and retrying",
    "unexpected message received",
)


@dataclass(frozen=True)
class CommandResult:
    """The result of one command. `rc` is 124 if it was stopped at its time limit (`timed_out`)."""

    argv: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str
    timed_out: bool = False

    @property
    def silent(self) -> bool:
        """Whether Slurm did not answer. In that case the command may or may not have taken effect."""
        if self.timed_out:
            return True
        text = self.stderr.lower()
        return self.rc != 0 and any(message in text for message in SILENCE)

    @property
    def complaint(self) -> str:
        """The last lines of the command's own error message, in one line."""
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        return "; ".join(lines[-3:]) or f"exit code {self.rc}"


def submitted_from(since: float | None) -> float:
    """Return the time (epoch seconds) from which a job may be the one that is sought, 0.0 for any time.

    A time that has not come yet was written by a host whose clock is ahead. It says nothing, and sacct refuses it.
    """
    return 0.0 if since is None or since > time.time() else since - CLOCK_SLACK


def short_queries(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Split a query whose list of ids or names ("--jobs=1,2,3") is too long for one argument into several queries.

    Yields the arguments of each. The answers together are the answer to the whole query.
    """
    long = next((index for index, word in enumerate(arguments) if len(word.encode()) > LIST_BYTES), None)
    if long is None:
        yield list(arguments)
        return
    option, _equals, listed = arguments[long].partition("=")
    parts: list[list[str]] = [[]]
    room = LIST_BYTES
    for word in listed.split(","):
        room -= len(word.encode()) + 1
        if room < 0 and parts[-1]:
            parts.append([])
            room = LIST_BYTES - len(word.encode()) - 1
        parts[-1].append(word)
    for part in parts:
        yield [*arguments[:long], f"{option}={','.join(part)}", *arguments[long + 1 :]]


def batches(words: Iterable[str], limit: int = LIST_BYTES) -> Iterator[list[str]]:
    """Split the arguments of a command that takes any number of them into lists that together have `limit` bytes."""
    batch: list[str] = []
    room = limit
    for word in words:
        room -= len(word.encode()) + 1
        if room < 0 and batch:
            yield batch
            batch, room = [], limit - len(word.encode()) - 1
        batch.append(word)
    if batch:
        yield batch


# run(argv, timeout in seconds, environment, text for stdin or None, working directory or None)
Runner = Callable[[Sequence[str], float, Mapping[str, str], Optional[str], Optional[str]], CommandResult]


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of `environment` for a Slurm command: no inherited Slurm settings, plain English, epoch times."""
    clean = {
        name: value
        for name, value in environment.items()
        if name in KEPT or name.startswith(KEPT_PREFIXES) or not name.startswith(SCRUBBED_PREFIXES)
    }
    clean["LC_ALL"] = "C"
    # squeue, sacct and scontrol then print epoch seconds, independent of time zone, daylight saving and locale.
    clean["SLURM_TIME_FORMAT"] = "%s"
    return clean


def submitting(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of sbatch, and so of the job: how to reach the cluster, who the user is, and `SUBMITTED`.

    No locale is among it, so sbatch speaks plain English, and the ranks have the locale of the node.
    """
    clean = {
        name: value
        for name, value in scrubbed(environment).items()
        if name in SUBMITTED or name.startswith(SCRUBBED_PREFIXES)
    }
    with contextlib.suppress(KeyError):
        user = pwd.getpwuid(os.geteuid())
        clean |= {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell}
    return clean


def run_command(
    argv: Sequence[str],
    timeout: float,
    environment: Mapping[str, str],
    stdin: str | None = None,
    cwd: str | None = None,
) -> CommandResult:
    """Run `argv` in its own process group. After `timeout` seconds the whole group is killed."""
    timed_out = False
    try:
        done = children.run(argv, environment, seconds=timeout, stdin=(stdin or "").encode(), cwd=cwd)
    except children.Late as late:
        timed_out, done = True, children.Ended(124, late.out, late.err)
    return CommandResult(
        argv=tuple(argv),
        rc=done.returncode,
        stdout=done.out.decode("utf-8", "replace"),
        stderr=done.err.decode("utf-8", "replace"),
        timed_out=timed_out,
    )


class Slurm:
    """The Slurm commands of this host. `commands` counts the commands run; `notes` collects warnings for the user.

    `accounting` is the state of sacct: "unknown" (not asked yet), "ok", "disabled" or "silent" (no answer).
    """

    def __init__(
        self,
        run: Runner = run_command,
        *,
        environment: Mapping[str, str] | None = None,
        extra_path: Sequence[str] = EXTRA_PATH,
        timeout: float = DEFAULT_TIMEOUT,
        which: Callable[[str, str], str | None] | None = None,
    ) -> None:
        source = os.environ if environment is None else environment
        self.environment = scrubbed(source)
        self._submitting = submitting(source)
        self.timeout = timeout
        self.commands = 0
        self.notes: list[str] = []
        self.accounting = "unknown"
        #: The output of sinfo about drained nodes (slurm/drained.py), requested once for all jobs.
        self.drained_nodes: str | None = None
        self._run = run
        self._path = os.pathsep.join([*filter(None, [source.get("PATH", "")]), *extra_path])
        self._which = which or (lambda name, path: shutil.which(name, path=path))
        self._found: dict[str, str | None] = {}

    def note(self, sentence: str) -> None:
        """Record a warning, without duplicates."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def find(self, name: str) -> str | None:
        """Return the absolute path of the command `name` on this host, or None."""
        if name not in self._found:
            self._found[name] = self._which(name, self._path)
        return self._found[name]

    def attempt(
        self,
        name: str,
        *args: str,
        timeout: float | None = None,
        stdin: str | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """Run one command and return its result, successful or not. Raises only `SlurmMissing`."""
        program = self.find(name)
        if program is None:
            raise SlurmMissing(
                f"the Slurm command '{name}' is not on host {socket.gethostname()} (looked in {self._path}). "
                "Run against a login node of the cluster (-e cluster=HOST or the inventory group slurm_login), "
                "put the commands on the PATH of that user, or boot a lab cluster (role rankzero.slurm.lab_cluster)."
            )
        self.commands += 1
        limit = self.timeout if timeout is None else timeout
        environment = self._submitting if name == "sbatch" else self.environment
        return self._run([program, *args], limit, environment, stdin, cwd)

    def call(
        self,
        name: str,
        *args: str,
        timeout: float | None = None,
        stdin: str | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """Run one command that must succeed.

        Raises `SlurmMissing`; `SlurmUnavailable` if Slurm does not answer; `SlurmError` if it refuses.
        """
        result = self.attempt(name, *args, timeout=timeout, stdin=stdin, cwd=cwd)
        raise_for(result, self.timeout if timeout is None else timeout)
        return result

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs, in as few commands as the limits of a command line allow. Raises as `call`."""
        for batch in batches(dict.fromkeys(ids)):
            self.call("scancel", *batch)


def raise_for(result: CommandResult, timeout: float) -> None:
    """Raise the error for a failed `result`; do nothing if it succeeded."""
    if result.rc == 0 and not result.timed_out:
        return
    name = os.path.basename(result.argv[0])
    if result.timed_out:
        raise _silent(f"{name} gave no answer within {timeout:g} s", f"no answer within {timeout:g} s")
    if result.silent:
        raise _silent(f"{name}: Slurm does not answer ({result.complaint})", result.complaint)
    raise SlurmError(f"{name} failed with exit code {result.rc}: {result.complaint}")


def _silent(sentence: str, reason: str) -> SlurmUnavailable:
    advice = "so the state of all jobs is unknown. Try again when `scontrol ping` says UP."
    error = SlurmUnavailable(f"{sentence}, {advice}")
    error.reason = reason
    return error


def expand_nodes(slurm: Slurm, node_list: str) -> list[str]:
    """Expand Slurm's compressed list of nodes ("node[01-04]") with scontrol, because site names follow no fixed
    pattern.
    """
    if not node_list:
        return []
    if "[" not in node_list and "," not in node_list:
        return [node_list]
    result = slurm.call("scontrol", "show", "hostnames", node_list)
    return [line.strip() for line in result.stdout.splitlines() if line.strip()]
