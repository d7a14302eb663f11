# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select launches: the options that name a launch, and the run directories they refer to. Reads only.

RUN = <state_root>/runs/<name>/<key[:16]>/<generation>/
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory

DEFAULT_STATE_ROOT = "~/.rankzero/state"
KEY_LENGTH = 16
# What the names of a run directory's folders can be. Anybody may make other folders in a state root of his own; their
# names are never used as names of launches.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEY = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}")
NUMBER = re.compile(r"[0-9]{1,9}")
_STRANGE = re.compile(r"[^A-Za-z0-9._/:@+-]")

# doc fragment rankzero.slurm.store.state
STATE_ARGUMENTS: dict[str, Any] = {"state_root": {"type": "path", "default": DEFAULT_STATE_ROOT}}

# The options that name launches; the doc fragments rankzero.slurm.store.run and .state describe them.
RUN_ARGUMENTS: dict[str, Any] = {
    "run_dir": {"type": "path"},
    "name": {"type": "str"},
    "key": {"type": "str", "no_log": False},
    "generation": {"type": "int"},
    "job_id": {"type": "str"},
    **STATE_ARGUMENTS,
}

INFO_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    "newest": {"type": "bool", "default": False},
    "active": {"type": "bool", "default": False},
    "limit": {"type": "int", "default": 0},
    "single": {"type": "bool", "default": False},
    "sort": {"type": "str", "default": ""},
    "width": {"type": "int", "default": 0},
}

FIRST_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    "step": {"type": "str", "choices": ["look", "record", "settle"], "default": "look"},
    "clusters": {"type": "list", "elements": "str", "required": True},
    "cluster": {"type": "str", "default": ""},
    "winner": {"type": "str", "default": ""},
    "arbiter": {"type": "str", "default": ""},
}

# doc fragment rankzero.slurm.wait
WAIT_ARGUMENTS: dict[str, Any] = {
    "wait_timeout": {"type": "int", "default": 0},
    "poll_min": {"type": "float", "default": 0.5},
    "poll_max": {"type": "float", "default": 10.0},
    "outcome_grace": {"type": "int", "default": 40},
    "reconnect_timeout": {"type": "int", "default": 120},
    "queue_budget": {"type": "int", "default": 60},
}
WAIT_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    **WAIT_ARGUMENTS,
    "run_dirs": {"type": "list", "elements": "path"},
    "first": {"type": "int", "default": 0},
    "until": {"type": "str", "choices": ["started", "artifact", "pattern", "finished"], "default": "finished"},
    "pattern": {"type": "str"},
    "log": {"type": "str", "default": ""},
    "logs_dest": {"type": "path"},
    "x_poll": {"type": "dict"},
    "x_settle": {"type": "float", "default": 0.0},
    "x_asked": {"type": "int"},
    "x_logs": {"type": "dict"},
}


@dataclass(frozen=True)
class WaitOptions:
    """The options of a wait. Times are in seconds; a `wait_timeout` of 0 is none. `first`: the end of so many of the
    launches ends the wait; 0: of all.
    """

    run_dir: str | None
    run_dirs: Sequence[str] | None
    first: int
    until: str
    pattern: str | None
    log: str
    logs_dest: str | None
    wait_timeout: int
    poll_min: float
    poll_max: float
    outcome_grace: int
    reconnect_timeout: int
    queue_budget: int

    @property
    def many(self) -> bool:
        """Whether the result is one of several launches."""
        return self.run_dirs is not None

    def compiled(self) -> re.Pattern[str] | None:
        """The pattern of a wait for a log line. Raises RankzeroError if the options contradict each other."""
        if self.log and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", self.log):
            raise RankzeroError(f"log: must be the name of a log file such as rank-0003.log, not {self.log!r}")
        if self.first < 0 or (self.first and not self.many):
            raise RankzeroError(f"first: must be a number of the launches in run_dirs, not {self.first}")
        if (self.until == "pattern") != bool(self.pattern):
            raise RankzeroError("pattern: requires until: pattern, and until: pattern requires it")
        try:
            return re.compile(self.pattern) if self.pattern else None
        except re.error as error:
            raise RankzeroError(f"pattern: {self.pattern!r} is not a regular expression: {error}") from error


NOTIFY_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    "run_dirs": {"type": "list", "elements": "path"},
    "urls": {"type": "dict", "default": {}, "no_log": True},
    "metrics_file": {"type": "path"},
    "metrics_hours": {"type": "int", "default": 24},
    "x_stalled": {"type": "dict", "default": {}},
}
# Of a log with more new bytes, only the end is fetched, unless the user asks for more.
TAIL_BYTES = 64 * 1024 * 1024
LOGS_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    "dest": {"type": "path", "default": "runs"},
    "tail_bytes": {"type": "int", "default": TAIL_BYTES},
    "head_bytes": {"type": "int", "default": 0},
    "redact": {"type": "bool", "default": True},
    "merge": {"type": "bool", "default": False},
    "follow": {"type": "bool", "default": False},
    "follow_timeout": {"type": "int", "default": 0},
    "reconnect_timeout": {"type": "int", "default": 120},
    "x_request": {"type": "dict"},
}
PULL_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    "dest": {"type": "path", "default": "runs"},
    "paths": {"type": "list", "elements": "str", "default": []},
    "reconnect_timeout": {"type": "int", "default": 120},
    "x_request": {"type": "dict"},
}


@dataclass(frozen=True)
class Identity:
    """Name, key (its first 16 digits) and generation from the path of a run directory."""

    name: str
    key: str
    generation: int

    @property
    def job_name(self) -> str:
        """The name under which Slurm knows the job."""
        return f"{self.name}.{self.key}.{self.generation}"


def identity(run_dir: str) -> Identity:
    """Return the identity of a run directory. Raises `RankzeroError` if the path is not that of a run directory."""
    parts = os.path.normpath(run_dir).split(os.sep)
    if len(parts) < 4 or not (NAME.fullmatch(parts[-3]) and KEY.fullmatch(parts[-2]) and NUMBER.fullmatch(parts[-1])):
        raise RankzeroError(
            f"run_dir: {escaped(run_dir)} is not a run directory; expected "
            "<state_root>/runs/<name>/<key>/<generation>, as the module rankzero.slurm.job returns it"
        )
    return Identity(parts[-3], parts[-2], int(parts[-1]))


def is_launch(run_dir: str) -> bool:
    """Return whether a run directory has a name, a key and a generation that a launch can have."""
    with contextlib.suppress(RankzeroError):
        identity(run_dir)
        return True
    return False


def escaped(text: str) -> str:
    """Return a text of unknown origin as at most 200 characters without a meaning to templates, shells and screens."""
    return _STRANGE.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text[:200])[:200]


def state_root_of(run_dir: str) -> str:
    """Return the state root that contains a run directory."""
    return os.path.normpath(os.path.join(run_dir, *[os.pardir] * 4))


def open_run(run_dir: str) -> RunDirectory:
    """Open the run directory at a path from a user. Raises `RankzeroError` if it cannot be read."""
    identity(run_dir)
    run = RunDirectory(os.path.normpath(run_dir))
    try:
        # Listing refreshes a network file system's cache before a name counts as missing.
        run.check_readable()
    except OSError as error:
        raise RankzeroError(
            f"run_dir: {run_dir} cannot be read on this host: {error.strerror}. Module rankzero.slurm.job makes it; "
            "is this the host that launched, is state_root the same, was the file system purged?"
        ) from error
    return run


def names_of(state_root: str) -> list[str]:
    """Return the names under which launches are recorded. Raises `Untrusted`."""
    return [name for name in state_files.of(state_root).folders("runs") if NAME.fullmatch(name)]


def keys_of(state_root: str, name: str) -> list[str]:
    """Return the keys (first 16 digits) of the launches recorded under this name. Raises `Untrusted`."""
    return [key for key in state_files.of(state_root).folders(os.path.join("runs", name)) if KEY.fullmatch(key)]


def key_folder(run: RunDirectory) -> str:
    """Return the folder of all generations of a launch."""
    return os.path.dirname(run.path)


def newest_of_each(runs: Sequence[RunDirectory]) -> list[RunDirectory]:
    """Return the newest generation of each key, most recent launch first."""
    newest = {key_folder(run): run for run in sorted(runs, key=lambda run: run.generation)}
    return sorted(newest.values(), key=made_at, reverse=True)


def made_at(run: RunDirectory) -> float:
    """Return when a generation was created (epoch seconds); 0 if its journal has no time or is not trusted."""
    with contextlib.suppress(Untrusted):
        return min((float(event["time"]) for event in run.own_events()), default=0.0)
    return 0.0


def selection(launch: str) -> Parameters:
    """The options that select a launch: a job id, a run directory, NAME, NAME/KEY or NAME/KEY/GENERATION.

    Raises `RankzeroError`.
    """
    if re.fullmatch(r"\d+(?:[._]\d+)?", launch):
        return {"job_id": launch}
    if launch.startswith(("/", "~")):
        return {"run_dir": launch}
    match = re.fullmatch(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:/(?P<key>[0-9a-f]{4,64})(?:/(?P<generation>\d+))?)?", launch)
    if match is None:
        raise RankzeroError(
            f"launches: {launch!r} names no launch; give a job id, NAME, NAME/KEY, NAME/KEY/GENERATION or "
            "a run directory"
        )
    named = {option: text for option, text in match.groupdict().items() if text}
    return {**named, "generation": int(named["generation"])} if "generation" in named else {**named}
