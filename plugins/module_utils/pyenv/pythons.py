# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the Python for an environment: what the project requires, and what a host has.

The system's own interpreters are preferred, because every node of a cluster has them at the same path. Root never
chooses an interpreter that other users cannot execute (for example below root's home): jobs run as other users.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import Target

_PATTERNS = (
    "/usr/bin/python3",
    "/usr/bin/python3.[0-9]*",
    "/usr/local/bin/python3",
    "/usr/local/bin/python3.[0-9]*",
    "/opt/python*/bin/python3",
    "~/.local/share/uv/python/cpython-3*/bin/python3",
)

# Prints the properties of an interpreter; the markers are those of PEP 508.
_QUESTION = """\
import json, os, platform, sys
version = "{0.major}.{0.minor}.{0.micro}".format(sys.version_info)
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
except (AttributeError, OSError, ValueError):
    libc = ""
print(json.dumps({
    "path": sys.executable, "venv": sys.prefix != sys.base_prefix, "libc": libc,
    "markers": {
        "implementation_name": sys.implementation.name, "implementation_version": version, "os_name": os.name,
        "platform_machine": platform.machine(), "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(), "platform_system": platform.system(),
        "platform_version": platform.version(), "python_full_version": version,
        "python_version": "{0.major}.{0.minor}".format(sys.version_info), "sys_platform": sys.platform,
    },
}))
"""


@dataclass(frozen=True)
class Python:
    """An interpreter of this host: its real path, its platform markers, and its C library ("glibc 2.36")."""

    path: str
    markers: dict[str, str]
    libc: str

    @property
    def version(self) -> tuple[int, ...]:
        """The full version, such as (3, 11, 2)."""
        return tuple(int(part) for part in self.markers["python_full_version"].split("."))

    @property
    def minor(self) -> str:
        """The minor version, such as 3.11."""
        return self.markers["python_version"]

    def target(self) -> Target | None:
        """The platform that its wheels must fit; None where the C library is not glibc."""
        match = re.fullmatch(r"glibc (\d+)\.(\d+).*", self.libc)
        if not match:
            return None
        return Target(
            (self.version[0], self.version[1]), self.markers["platform_machine"], (int(match[1]), int(match[2]))
        )


def requires_python(pyproject: str) -> str:
    """`requires-python` of a pyproject.toml; empty if it has none.

    Read without a TOML parser, which Python 3.9 and 3.10 lack: one key of one table, in the forms that TOML allows for
    a plain string.
    """
    table = re.search(r"(?ms)^[ \t]*\[[ \t]*project[ \t]*\][ \t]*(?:#[^\n]*)?$(.*?)(?=^[ \t]*\[|\Z)", pyproject)
    if not table:
        return ""
    match = re.search(r"""(?m)^[ \t]*["']?requires-python["']?[ \t]*=[ \t]*(?:"([^"\n]*)"|'([^'\n]*)')""", table[1])
    return (match[1] or match[2] or "").strip() if match else ""


def satisfies(version: Sequence[int], specifiers: str) -> bool:
    """Whether a Python version satisfies specifiers such as ">=3.10,<3.13" (PEP 440, release numbers only).

    Raises RankzeroError for an invalid specifier.
    """
    for part in filter(None, (specifier.strip() for specifier in specifiers.split(","))):
        match = re.fullmatch(r"(===?|!=|~=|>=|<=|>|<)\s*(\d+(?:\.\d+)*)(\.\*)?(?:[a-z].*)?", part)
        if not match:
            raise RankzeroError(
                f'environment.project: requires-python = "{specifiers}" in pyproject.toml cannot be read at {part!r}. '
                'Write it like ">=3.10" or ">=3.10,<3.13".'
            )
        operator, wanted, wildcard = match[1], tuple(int(number) for number in match[2].split(".")), bool(match[3])
        if not _compare(tuple(version), operator, wanted, wildcard):
            return False
    return True


def _compare(version: tuple[int, ...], operator: str, wanted: tuple[int, ...], wildcard: bool) -> bool:
    length = max(len(version), len(wanted))
    have, want = (numbers + (0,) * (length - len(numbers)) for numbers in (version, wanted))
    if operator in ("==", "===", "!="):
        same = version[: len(wanted)] == wanted if wildcard else have == want
        return same is (operator != "!=")
    if operator == "~=":
        return have >= want and version[: len(wanted) - 1] == wanted[:-1]
    return {">=": have >= want, "<=": have <= want, ">": have > want, "<": have < want}[operator]


def choose(
    pyproject: str, request: str | None, candidates: Iterable[str] | None = None, *, anywhere: bool = False
) -> Python:
    """The first interpreter of this host that fits `requires-python` and the requested version ("3.11").

    `anywhere`: accept one that other users cannot execute, because it will be copied. Raises RankzeroError that lists
    the interpreters and the reason against each.
    """
    wanted = requires_python(pyproject)
    refused = []
    for path in _distinct(candidates if candidates is not None else _installed()):
        if os.geteuid() == 0 and not anywhere and not executable_by_all(path):
            refused.append(f"{path} (other users cannot execute it)")
            continue
        python = inspect_python(path)
        if python is None:
            continue
        asked_for = not request or satisfies(python.version, f"=={request}.*")
        if asked_for and satisfies(python.version, wanted):
            return python
        refused.append(f"{path} ({python.markers['python_full_version']})")
    asked = [f'requires-python = "{wanted}" in pyproject.toml'] if wanted else []
    asked += [f"environment.python: {request}"] if request else []
    raise RankzeroError(
        f"{' and '.join(asked) or 'environment'}: no suitable Python on this host. Found: "
        f"{', '.join(refused) or 'none'}. Request one of these with environment.python and requires-python, or have "
        "one installed for all users, at the same path on every node."
    )


def inspect_python(path: str) -> Python | None:
    """The properties of the interpreter at `path`; None if it does not run, is no CPython >= 3.8, or is virtual."""
    try:
        done = children.run([path, "-I", "-S", "-c", _QUESTION], child_environment(os.environ), seconds=30)
        answer = json.loads(done.stdout)
        # A shim (pyenv) starts another file, so take the interpreter's path from the answer.
        python = Python(os.path.realpath(answer["path"]), dict(answer["markers"]), str(answer["libc"]))
        usable = python.version >= (3, 8) and python.markers["implementation_name"] == "cpython"
        return python if usable and not answer["venv"] else None
    except (OSError, ValueError, KeyError, TypeError, children.Late):
        return None


def executable_by_all(path: str) -> bool:
    """Whether every user may execute the file at `path` and enter all folders above it."""
    try:
        folder = path
        while True:
            if not os.stat(folder).st_mode & stat.S_IXOTH:
                return False
            if folder == "/":
                return True
            folder = os.path.dirname(folder)
    except OSError:
        return False


def _installed() -> list[str]:
    paths = []
    for pattern in _PATTERNS:
        # The newest first: 3.10 is newer than 3.9.
        paths += sorted(glob.glob(os.path.expanduser(pattern)), key=_numbers, reverse=True)
    for folder in filter(os.path.isabs, os.environ.get("PATH", "").split(":")):
        candidates = [os.path.join(folder, "python3")] + glob.glob(os.path.join(glob.escape(folder), "python3.[0-9]*"))
        paths += [path for path in sorted(candidates, key=_numbers, reverse=True) if os.access(path, os.X_OK)]
    return [path for path in paths if re.fullmatch(r"python3(\.\d+)?", os.path.basename(path))]


def _numbers(path: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path))


def _distinct(paths: Iterable[str]) -> Iterable[str]:
    """Real paths, each once. A link such as /usr/bin/python3 may point elsewhere later, but an environment must not."""
    return dict.fromkeys(os.path.realpath(path) for path in paths)
