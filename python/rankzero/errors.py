# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors of this package, and the exit codes of the command."""

from __future__ import annotations

#: Everything that was requested has been done; a launch that was waited for has succeeded.
OK = 0
#: The launch has ended without a valid result.
FAILED = 1
#: Nothing was done: an error in the job file, no such launch, or Slurm refused.
REFUSED = 2
#: The wait ended before the launch did. Its job continues.
UNFINISHED = 3
#: The cluster cannot be reached.
UNREACHABLE = 4
#: The command line is wrong.
USAGE = 64
#: ansible-playbook cannot be found.
NO_ANSIBLE = 69
#: Ctrl-C. A job that was submitted continues.
INTERRUPTED = 130


class RankzeroError(Exception):
    """An error with a message for the user. `code`: the exit code of the command."""

    code = REFUSED

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class UsageError(RankzeroError):
    """An option or an argument of the command that does not exist or has a wrong value."""

    code = USAGE


class Refused(RankzeroError):
    """The request could not be carried out, and nothing was submitted."""


class LaunchFailed(RankzeroError):
    """The launch has ended without a valid result. `traceback`: of a function, as Python printed it; else empty."""

    code = FAILED

    def __init__(self, message: str, code: int | None = None, traceback: str = "") -> None:
        super().__init__(message, code)
        self.traceback = traceback


class Unfinished(RankzeroError):
    """The wait ended before the launch. Its job continues."""

    code = UNFINISHED


class Unreachable(RankzeroError):
    """The cluster cannot be reached."""

    code = UNREACHABLE


#: Exit code -> the `code` of a document with an error. More exact ones are those of the collection's own errors.
CODES = {
    FAILED: "failed",
    REFUSED: "refused",
    UNFINISHED: "unfinished",
    UNREACHABLE: "unreachable",
    USAGE: "usage",
    NO_ANSIBLE: "no_ansible",
    INTERRUPTED: "interrupted",
}
#: Exit code -> the exception that the Python API raises for it.
BY_CODE: dict[int, type[RankzeroError]] = {
    FAILED: LaunchFailed,
    REFUSED: Refused,
    UNFINISHED: Unfinished,
    UNREACHABLE: Unreachable,
}
