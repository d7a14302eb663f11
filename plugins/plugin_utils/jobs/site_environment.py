# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An existing environment of the site (environment.mode path): whether it exists, what it is, whether it has changed.

It is inspected once through the connection, before anything is rendered, because the installed packages are part of the
launch key. The caller runs the command; nothing here does.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError

# This reads conda's history of installed packages, the marker of a venv, and the names of installed distributions,
# which contain their versions. It does not read the files themselves, which would take minutes on a network file
# system. So an edit inside a package, or in the source of an editable one, does not cause a new launch.
_LOOK = """env={path}
if [ ! -d "$env" ]; then echo 'rankzero:missing'; exit 0; fi
if [ ! -x "$env/bin/python" ]; then echo 'rankzero:no-python'; exit 0; fi
kind=venv
[ ! -d "$env/conda-meta" ] || kind=conda
version=$("$env/bin/python" -I -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>&1) || version=broken
digest=$({{ cat "$env/conda-meta/history" "$env/pyvenv.cfg" 2>/dev/null
  for folder in "$env"/lib/python*/site-packages; do
    ls -1 "$folder" 2>/dev/null | LC_ALL=C grep -E '\\.(dist-info|egg-info|egg-link|pth)$' | LC_ALL=C sort
  done
}} | sha256sum | cut -d' ' -f1)
printf 'rankzero:%s:%s:%s\\n' "$kind" "$version" "$digest"
"""


@dataclass(frozen=True)
class Adopted:
    """The environment at a path: venv or conda, its Python version (3.11.2), and a digest of what is installed."""

    path: str
    kind: str
    version: str
    digest: str

    @property
    def key(self) -> str:
        """The part of the launch key for the environment. The path is a separate part."""
        return f"{self.kind}-{self.version}-{self.digest}"

    def line(self) -> str:
        """A line for the card shown before a launch."""
        return f"environment {self.path} ({self.kind}, Python {self.version}, {self.digest[:12]})"


def look(path: str) -> str:
    """The shell command that inspects the environment."""
    return _LOOK.format(path=shlex.quote(path)).rstrip()  # Ansible appends a command to the last line


def adopted(path: str, output: str, wanted_python: str | None) -> Adopted:
    """Parse the command's output. Raises SpecError if the environment cannot be used."""
    answers = re.findall(r"^rankzero:(.*)$", output, re.MULTILINE)
    answer = answers[-1].strip() if answers else ""
    parts = answer.split(":")
    problem = ""
    if answer == "missing":
        problem = f"{path} is not on the cluster; name the folder of a venv or conda environment on shared storage"
    elif answer == "no-python":
        problem = f"{path} has no bin/python, so it is neither a venv nor a conda environment"
    elif len(parts) != 3 or not re.fullmatch(r"[0-9a-f]{64}", parts[2]):
        problem = f"{path} cannot be read on the cluster: {output.strip()[-200:] or 'no answer'}"
    elif not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", parts[1]):
        problem = f"{path}/bin/python does not start on the cluster; is what it was made from still there?"
    elif wanted_python and not f"{parts[1]}.".startswith(f"{wanted_python}."):
        problem = f"{path} has Python {parts[1]}, and environment.python asks for {wanted_python}"
    if problem:
        raise SpecError([f"environment.path: {problem}"])
    return Adopted(path, *parts)
