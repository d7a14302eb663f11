# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An existing environment of the site (environment.mode path): whether it exists, what it is, whether it has changed;
and where the conda environment is that is given by its name.

It is inspected once through the connection, before anything is rendered, because the installed packages are part of the
launch key. The caller runs the command; nothing here does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import suggestion
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.documents import json_document

# This reads conda's history of installed packages, the marker of a venv, and the names of installed distributions,
# which contain their versions. It does not read the files themselves, which would take minutes on a network file
# system. So an edit inside a package, or in the source of an editable one, does not cause a new launch. What cannot be
# read is an error: a digest without it would be another key, and so another launch.
_LOOK = """env={path}
if [ ! -d "$env" ]; then echo 'rankzero:missing'; exit 0; fi
if [ ! -x "$env/bin/python" ]; then echo 'rankzero:no-python'; exit 0; fi
kind=venv
[ ! -d "$env/conda-meta" ] || kind=conda
version=$("$env/bin/python" -I -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>&1) || version=broken
read_names() {{
  for file in "$env/conda-meta/history" "$env/pyvenv.cfg"; do
    [ ! -e "$file" ] || cat "$file" || return
  done
  for folder in "$env"/lib/python*/site-packages; do
    [ -e "$folder" ] || continue
    names=$(ls -1 "$folder") || return
    printf '%s\\n' "$names" | LC_ALL=C grep -E '\\.(dist-info|egg-info|egg-link|pth)$' | LC_ALL=C sort
  done
}}
digest=$({{ {{ read_names || printf unreadable- >&3; }} | sha256sum | cut -d' ' -f1; }} 3>&1)
printf 'rankzero:%s:%s:%s\\n' "$kind" "$version" "$digest"
"""


# All programs are asked: each lists the environments of its own root. Without one, as where a module brings it, conda's
# own record of what it has made is read.
_LIST = """asked=:
for tool in "$MAMBA_EXE" "$CONDA_EXE" {tools}; do
  case $tool in '~'/*) tool=$HOME/${{tool#'~'/}} ;; esac
  tool=$(command -v "$tool" 2>/dev/null) || continue
  case $asked in *:"$tool":*) continue ;; esac
  asked=$asked$tool:
  echo "rankzero:program:$tool"
  timeout 60 "$tool" env list --json </dev/null 2>/dev/null
done
echo
echo rankzero:record:
cat "$HOME/.conda/environments.txt" 2>/dev/null
echo rankzero:end:
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


def inspect_command(path: str) -> str:
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


def conda_list() -> str:
    """The shell command that lists the conda environments of the user."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.conda import TOOLS, USUAL

    tools = [*TOOLS, *(f"{folder}/{tool}" for folder in USUAL for tool in TOOLS)]
    return _LIST.format(tools=" ".join(map(shlex.quote, tools))).rstrip()


def conda_place(name: str, output: str, given: str | None) -> str:
    """The path of the environment with this name, from the command's output. `given`: the path in the job, or None.

    Raises SpecError, with the names that exist.
    """
    listed, programs = _listed(output)
    named = {path: _name(path, programs) for path in listed}
    places = [path for path in listed if named[path] == name]
    problem = ""
    if len(places) > 1:
        problem = f"{name} is the name of several: {', '.join(places)}; give one of them as environment.path"
    elif not places and not any(named.values()):
        asked = f"{', '.join(programs)} lists none" if programs else "there is no conda, mamba or micromamba"
        problem = (
            f"{name} cannot be looked up on the login node: {asked}, and ~/.conda/environments.txt has none; give the "
            "folder of the environment as environment.path"
        )
    elif not places:
        names = sorted({value for value in named.values() if value})
        problem = (
            f"{name} is not a conda environment on the login node{suggestion(name, names)}; there: {', '.join(names)}"
        )
    elif given not in (None, places[0]):
        problem = f"{name} is {places[0]}, and environment.path is {given}; leave environment.path out"
    if problem:
        raise SpecError([f"environment.conda: {problem}"])
    return places[0]


def _listed(output: str) -> tuple[list[str], list[str]]:
    """(the paths of all environments, the programs that were asked)."""
    programs, paths = [], []
    for kind, rest in re.findall(r"(?ms)^rankzero:(program|record):(.*?)(?=^rankzero:)", output):
        first, _line, text = rest.partition("\n")
        if kind == "record":
            paths += text.split("\n")
            continue
        programs.append(first.strip())
        begin, end = text.find("{"), text.rfind("}")
        answer = json_document(text[begin : end + 1], f"environment.conda: {first.strip()}")
        envs = answer.get("envs") if isinstance(answer, dict) else None
        paths += [path for path in envs if isinstance(path, str)] if isinstance(envs, list) else []
    return sorted({path.strip().rstrip("/") for path in paths if path.strip().startswith("/")}), programs


def _name(path: str, programs: Sequence[str]) -> str:
    """The name of an environment: that of its folder in a folder `envs`; `base` for that of a program; else empty."""
    folder, name = path.rsplit("/", 1)
    if folder.endswith("/envs"):
        return name
    return "base" if any(program.startswith(f"{path}/") for program in programs) else ""
