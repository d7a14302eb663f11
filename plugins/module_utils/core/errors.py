# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exceptions of the collection.

The library raises them. Only the boundary (core/ansible.py in a module, an action plugin on the controller) turns an
error into a failed result. An error carries the results known so far (`partial`), so that a failure never loses a job
id.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import ClassVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable, printable_lines

#: The oldest Python that a host may have. An older one reads this file to say so: it needs Python 3.7.
OLDEST_PYTHON = (3, 9)


class RankzeroError(Exception):
    """An error that the user can act on. `message` names the option, the value, what is allowed and what to do.

    The message may quote files and the output of other programs. It is made printable here for all errors. `CODE` is
    for programs: it is part of a failed result, as `error_code`, and stays the same from release to release.
    """

    CODE: ClassVar[str] = ""

    def __init__(self, message: str, **partial: object) -> None:
        self.message = printable_lines(message)
        super().__init__(self.message)
        self.partial = {**({"error_code": self.CODE} if self.CODE else {}), **partial}


class SpecError(RankzeroError):
    """One or more mistakes in a job spec, reported together. `problems` has one sentence per mistake."""

    CODE = "job_spec"

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        count = len(problems)
        head = "1 mistake in the job spec" if count == 1 else f"{count} mistakes in the job spec"
        super().__init__(head + ":\n" + "\n".join(f"  - {problem}" for problem in problems), problems=problems)


class SlurmError(RankzeroError):
    """A Slurm command failed for a reason that a retry does not fix."""

    CODE = "slurm_refused"


class SlurmUnavailable(SlurmError):
    """Slurm did not answer (slurmctld or slurmdbd is down, or a time-out). Nothing can be concluded about any job.

    `reason`: what the command itself said, without advice; empty where no command was run.
    """

    CODE = "slurm_silent"
    reason = ""


class SlurmMissing(SlurmError):
    """The Slurm commands are not installed on this host."""

    CODE = "slurm_missing"


class PlanAgain(RankzeroError):
    """The launch is another one than that which was planned. Nothing was submitted."""

    CODE = "plan_again"


class NoLaunch(RankzeroError):
    """No recorded launch is the one that was asked for."""

    CODE = "no_launch"


@contextlib.contextmanager
def one_alone(told: Callable[[str], object]) -> Iterator[None]:
    """Let the texts of one launch that cannot be read be a sentence, which `told` gets, among those of many launches.

    A job writes its logs and files as it likes, and no look at them may end the look at the others. The collection's
    own errors are raised, since they say what the user can do.
    """
    try:
        yield
    except RankzeroError:
        raise
    except Exception as error:
        told(printable(f"its logs cannot be read ({type(error).__name__}: {error})", 300))


def newer_pythons() -> list[str]:
    """Return the Python interpreters on this host's PATH that are new enough, newest first."""
    import shutil

    paths = (shutil.which(f"python3.{minor}") for minor in range(30, OLDEST_PYTHON[1] - 1, -1))
    return [path for path in paths if path]


def python_too_old(host: str, interpreter: str, version: str, newer: list[str]) -> str:
    """Return the message for a host whose Python is too old. `newer`: known newer interpreters on that host."""
    wanted = ".".join(map(str, OLDEST_PYTHON))
    known = f" It has {', '.join(newer)}." if newer else " Install one there if it has none."
    return (
        f"rankzero.slurm needs Python {wanted} or newer on the host, and {interpreter} on {host} is Python {version}. "
        f"Name a newer one in the inventory: ansible_python_interpreter.{known}"
    )
