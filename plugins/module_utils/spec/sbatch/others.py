# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of other batch systems in a script, and Slurm's options in their place. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sbatch.reader import Problem, head


@dataclass(frozen=True)
class System:
    """A batch system: how its lines begin, whether sbatch reads them as well, its options in Slurm's words (`{}` is the
    value), and the resources that its option `-l` names.
    """

    name: str
    begins: str
    read: bool = False
    options: Mapping[str, str] | None = None
    resources: Mapping[str, str] | None = None


_COMMON = {"q": "--partition={}", "o": "--output={}", "e": "--error={}", "A": "--account={}", "P": "--account={}"}
SYSTEMS = (
    System(
        "PBS",
        "#PBS",
        read=True,
        options={**_COMMON, "N": "--job-name={}", "J": "--array={}", "t": "--array={}"},
        resources={
            "walltime": "--time={}",
            "nodes": "--nodes={}",
            "select": "--nodes={}",
            "ppn": "--ntasks-per-node={}",
            "mpiprocs": "--ntasks-per-node={}",
            "ompthreads": "--cpus-per-task={}",
            "ngpus": "--gpus-per-node={}",
            "gpus": "--gpus-per-node={}",
            "mem": "--mem={}",
        },
    ),
    System(
        "LSF",
        "#BSUB",
        read=True,
        options={**_COMMON, "J": "--job-name={}", "n": "--ntasks={}", "nnodes": "--nodes={}"},
    ),
    System(
        "Grid Engine",
        "#$",
        options={**_COMMON, "N": "--job-name={}", "t": "--array={}"},
        resources={"h_rt": "--time={}"},
    ),
    System("PJM", "#PJM"),
    System("Cobalt", "#COBALT"),
    System("OAR", "#OAR"),
    System("Moab", "#MSUB"),
)


def _lines(text: str) -> Iterator[tuple[int, System, str, str]]:
    """Yield (number, system, first words, what to write) for each line of another system before the first command."""
    for number, line in head(text):
        for system in SYSTEMS:
            option, *values = line[len(system.begins) :].split() or [""]
            # sbatch reads whatever begins so; what it ignores may be a comment.
            if line.startswith(system.begins) and (system.read or re.match(r"\s+-\w", line[len(system.begins) :])):
                shown = " ".join([system.begins, option, *values[:1]]).strip()
                yield number, system, shown, _in_slurm(system, option.removeprefix("-"), values)


def _in_slurm(system: System, option: str, values: list[str]) -> str:
    """Return an option as sbatch has it; "" where that is not certain."""
    given = " ".join(values)
    if system.name == "Grid Engine" and option == "pe" and len(values) == 2 and values[1].isdecimal():
        return f"#SBATCH --ntasks={values[1]}"
    if option != "l" or not system.resources:
        known = (system.options or {}).get(option)
        return f"#SBATCH {known.format(given)}" if known and len(values) == 1 else ""
    options = []
    for part in re.split("[,:](?=[a-z_]+=)", given):
        name, _equals, value = part.partition("=")
        form = system.resources.get(name)
        if not form or not re.fullmatch(r"[\w:.]+", value):
            return ""
        options.append(form.format(value))
    return f"#SBATCH {' '.join(options)}"


def problems(text: str, *, ignored: bool, slurms: bool) -> list[Problem]:
    """Return a mistake for each such line that sbatch reads, unless that is `ignored`; in a script without a line of
    Slurm's (`slurms`), for each one.
    """
    wrong = []
    for number, system, line, instead in _lines(text):
        write = f"write {instead} in its place" if instead else "write its options as sbatch has them, after #SBATCH"
        if system.read and not ignored:
            sentence = f"{line}: sbatch reads {system.begins} as well; {write}, or add a line #SBATCH --ignore-pbs"
            wrong.append((number, sentence))
        elif not system.read and not slurms:
            wrong.append((number, f"{line}: is a line of {system.name}, which Slurm ignores; {write}, or remove it"))
    return wrong


def warnings(text: str) -> list[str]:
    """Return a warning for each line that Slurm ignores, in a script that has lines of Slurm's as well."""
    return [
        f"script: line {number}: {line} is a line of {system.name}, which Slurm ignores"
        + (f"; if the job needs it, add {instead}" if instead else "")
        for number, system, line, instead in _lines(text)
        if not system.read
    ]
