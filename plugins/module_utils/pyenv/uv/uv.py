# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run uv: find it, set its environment, and interpret its failures. No other module runs uv."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.pip_settings import redact

# The first version that supports pylock.toml in all commands used here.
MINIMUM = (0, 7, 0)

_UNREACHABLE = re.compile(
    r"error sending request|client error \(Connect\)|dns error|tcp connect error|timed out|connection refused"
    r"|network is unreachable|network (?:was|connectivity is) disabled|could not connect|connection (?:reset|closed)"
    r"|status (?:client|server) error \((?:403|407|502|503|504)|index .* returned a (?:401|403|407|50[0-9]) ",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://[^\s`'\")]+")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)


class UvError(RankzeroError):
    """uv failed; the message contains its last lines."""


class Unreachable(UvError):
    """uv could not reach a package source; another machine may be able to."""


class Unsolvable(UvError):
    """No set of packages satisfies the requirements."""


@dataclass(frozen=True)
class Uv:
    """A uv that runs on this host."""

    path: str
    version: str
    environment: Mapping[str, str]

    def run(self, arguments: Sequence[str], cwd: str, doing: str, **environment: str) -> str:
        """Run uv and return its standard output. Raises UvError or a subclass; `doing` names the step."""
        return self._done(arguments, cwd, doing, environment).stdout

    def output(self, arguments: Sequence[str], cwd: str, doing: str, **environment: str) -> str:
        """Like `run`, but returns the standard error, where uv prints its messages."""
        return self._done(arguments, cwd, doing, environment).stderr

    def _done(self, arguments: Sequence[str], cwd: str, doing: str, environment: Mapping[str, str]) -> children.Ended:
        try:
            done = children.run([self.path, *arguments], {**self.environment, **environment}, cwd=cwd)
        except OSError as error:
            raise UvError(f"environment: {doing}: {self.path} cannot be run ({error.strerror})") from error
        if done.returncode != 0:
            raise failure(doing, done.returncode, done.stderr or done.stdout)
        return done


def failure(doing: str, code: int, output: str) -> UvError:
    """The error for a failed uv: the step, its last lines, and a class that the caller can act on."""
    lines = [line.rstrip() for line in redact(output).splitlines() if line.strip()]
    shown = "\n".join(f"  {line}" for line in lines[-12:]) or f"  (no output, exit code {code})"
    if _NO_SPACE.search(output):
        return UvError(
            f"environment: {doing}: no space left. Make room on the storage of store_root (and in uv's cache), or name "
            f"another one with launch_cluster.store_root:\n{shown}"
        )
    # Checked first: offline, uv reports everything that is not in its cache as unsolvable.
    if _UNREACHABLE.search(output):
        return Unreachable(f"environment: {doing}: a package source cannot be reached:\n{shown}")
    if "No solution found" in output:
        return Unsolvable(f"environment: {doing}: no set of packages satisfies the requirements:\n{shown}")
    return UvError(f"environment: {doing} failed:\n{shown}")


def attempt(reason: str) -> str:
    """Return which address uv asked and what answered, in one line; the last line of the reason if it names none."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    # A hint counts only if it says what an index has answered.
    lines = [line for line in lines if not line.startswith("hint:") or " returned " in line]
    asked = next(iter(_ADDRESS.findall("\n".join(lines))), "")
    cause = lines[-1].removeprefix("error: ").removeprefix("cause: ").removeprefix("Caused by: ") if lines else ""
    return f"{asked}: {cause}" if asked and asked not in cause else cause


def find(candidates: Iterable[str], environment: Mapping[str, str]) -> Uv | None:
    """The first uv that runs and is new enough; None if there is none."""
    for path in dict.fromkeys(candidates):
        version = _version(path)
        if version is not None and _numbers(version) >= MINIMUM:
            return Uv(path, version, environment)
    return None


def uv_at(given: str, environment: Mapping[str, str]) -> Uv:
    """The uv at the given path. Raises RankzeroError if it does not run or is too old."""
    path = os.path.expanduser(os.path.expandvars(given))
    version = _version(path)
    if version is None:
        raise RankzeroError(f"uv: {given!r} does not answer `uv --version` on this host")
    if _numbers(version) < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        raise RankzeroError(f"uv: {given!r} is version {version}; at least {needed} is needed")
    return Uv(path, version, environment)


def usual_places(environ: Mapping[str, str]) -> list[str]:
    """The usual paths of uv: on the PATH, or where its installers put it."""
    home = environ.get("HOME") or os.path.expanduser("~")
    uv = shutil.which("uv", path=environ.get("PATH"))
    return ([uv] if uv else []) + [f"{home}/.local/bin/uv", f"{home}/.cargo/bin/uv"]


def _version(path: str) -> str | None:
    try:
        done = children.run([path, "--version"], child_environment(os.environ, "UV_"), seconds=30)
    except (OSError, children.Late):
        return None
    match = re.match(r"uv (\d+\.\d+\.\d+)", done.stdout)
    return match[1] if match and done.returncode == 0 else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
