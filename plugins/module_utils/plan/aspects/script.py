# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job whose program is a user's own batch script: it runs once, on the first node, as sbatch would run it.

Its header has what a layer has set and nothing else, because an option that the script does not have would change what
its own srun lines get.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.batch_script import (
    CARRIED,
    NO_EXPORT,
    gpus_and_others,
    problem,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import (
    Resources,
    gpus,
    with_singleton,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import DECLARED, OWNED_SBATCH, PLAIN
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Option

# Where sbatch writes what a script prints, if the script names no file (sbatch(1), --output).
DEFAULT_OUTPUT = "slurm-%j.out"
# Fields that have no meaning for a script, which starts its own programs -> what to do instead.
_OF_RANKS = {
    "launcher.kind": "the script starts its own programs",
    "launcher.gpus": "the script starts its own programs",
    "launcher.rendezvous": "the script starts its own programs",
    "launcher.port": "the script chooses its own port",
    "launcher.srun": "write the options in the script's own srun lines",
    "launcher.inside_job": "run the script by hand in that job",
    "resources.spares": "the script uses all nodes of the job",
    "sweep": "give a script that uses srun its values by program_args, one launch for each; else write `shell: bash "
    "SCRIPT` instead of `script`, with launcher.kind none",
}
# A longer line is no command that people wrote.
_LINE = 2000
# A line that asks Slurm for what is another one in a launch -> what it asks for. sacct's -n is no name.
_ASKED = (
    (
        re.compile(
            r"^[^#]*\b(?:(?:squeue|scancel)\b[^#|;&]*\s(?:--(?:job)?name\b|-[A-Za-z]*n\b)|sacct\b[^#|;&]*\s--name\b)"
        ),
        "asks Slurm for jobs by name, and that of this one is {name}.KEY.GENERATION; use $SLURM_JOB_ID",
    ),
    (
        re.compile(r"^[^#]*(?:\b(?:Command|WorkDir|StdOut|StdErr)=|\bsqueue\b[^#|;&]*%\.?\d*[oZ]\b)"),
        "asks Slurm where the script or its output lies, and Slurm knows the launch's own; use $SLURM_SUBMIT_DIR",
    ),
)


class Script(Aspect):
    """The batch script of a user."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield a text that sbatch would not take, and what a script job cannot have."""
        if spec.script is None:
            if spec.script_args:
                yield ["script_args", "script"], "script_args: has no effect without `script`; use program_args"
            if spec.code.in_place:
                yield ["code.in_place", "script"], "code.in_place: has no effect without `script`; use code.src"
            return
        wrong = problem(spec.script)
        if wrong:
            yield ["script"], f"script: {wrong}"
        for path, instead in _OF_RANKS.items():
            if _differs(spec, path):
                yield [path, "script"], f"{path}: has no effect on a script job; {instead}"
        if spec.preflight.enabled and {"ntasks", "gpus"} & set(spec.resources.sbatch) and spec.resources.nodes == 1:
            yield (
                ["preflight.enabled", "resources.nodes"],
                "preflight.enabled: needs to know how many nodes the script's job has; set resources.nodes",
            )
        if spec.code.in_place and spec.code.dirty == "refuse":
            yield (
                ["code.in_place", "code.dirty"],
                "code.in_place: takes the files as they are, and code.dirty is refuse; remove one",
            )
        if spec.resources.sbatch.get("export", NO_EXPORT) != NO_EXPORT:
            yield (
                ["resources.sbatch.export"],
                f"resources.sbatch.export: may be {NO_EXPORT} for a script job; give variables as `env`",
            )
        folder = spec.resources.sbatch.get("chdir")
        if spec.artifact and isinstance(folder, str) and posixpath.isabs(folder):
            yield (
                ["artifact", "resources.sbatch"],
                f"artifact: is looked for in the job's own folder, and --chdir of the script is {folder}; remove one",
            )

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Yield the name that the script sees, where it works, and its output as patterns of sbatch(1)."""
        spec = context.spec
        if spec.script is None:
            return
        given = spec.resources.sbatch
        yield "RANKZERO_SCRIPT_NAME", str(given.get("job-name") or spec.name)
        if spec.code.in_place:
            yield "RANKZERO_SCRIPT_IN_PLACE", posixpath.normpath(spec.code.in_place)
        yield "RANKZERO_SCRIPT_FOLDER", str(given.get("chdir") or ".")
        yield "RANKZERO_SCRIPT_OUTPUT", str(given.get("output") or DEFAULT_OUTPUT)
        if given.get("error"):
            yield "RANKZERO_SCRIPT_ERROR", str(given["error"])


def for_its_steps(spec: LaunchSpec, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what a script's own steps get of its environment if it asks for nothing (`--export=NONE`): the variables
    that the launch sets (`names`) and its secrets.
    """
    if spec.resources.sbatch.get("export") == NO_EXPORT and spec.script is not None:
        yield "RANKZERO_SCRIPT_EXPORT", ",".join(sorted({*names, *spec.secrets})) or NO_EXPORT


def warnings(spec: LaunchSpec) -> list[str]:
    """Return a warning for each line of a script that looks for its job, or for itself, as Slurm does not know it."""
    return [
        f"script: line {number} {what.format(name=spec.name)}"
        for number, line in enumerate((spec.script or "").split("\n"), 1)
        for asks, what in _ASKED
        if asks.search(line[:_LINE])
    ]


def _differs(spec: LaunchSpec, path: str) -> bool:
    row: object = spec
    usual: object = LaunchSpec(name=spec.name)
    for part in path.split("."):
        row, usual = getattr(row, part), getattr(usual, part)
    return row != usual


def header(context: Context) -> Iterator[Option]:
    """Yield what the layers of a script job ask of Slurm by the fields of the job spec."""
    spec = context.spec
    for row in DECLARED:
        if row.path not in context.given or row.sbatch.either:
            continue
        if row.sbatch.name in ("gpus-per-node", "gres"):
            continue
        value = row.line(spec) if row in PLAIN else row.given(spec)
        if value:
            yield row.sbatch.name, value if value is True else str(value)
    yield from _generic_resources(spec.resources)
    if "resources.dependency" not in context.given and (added := with_singleton(spec.resources)):
        yield "dependency", added


def _generic_resources(asked: Resources) -> Iterator[Option]:
    """Yield the GPUs and other resources of a node: as the script has said it, unless a layer above says otherwise."""
    gres = str(asked.sbatch.get("gres") or "")
    own_gpus, others = gpus_and_others(gres) if gres else (None, [])
    stands = gres and list(asked.gres) in ([], others) and own_gpus in (None, gpus(asked) or None)
    if gpus(asked) and not (stands and own_gpus):
        yield "gpus-per-node", gpus(asked)
    if stands:
        yield "gres", gres
    elif asked.gres:
        yield "gres", ",".join(asked.gres)


def passed_on(context: Context, name: str) -> bool:
    """Return whether an option under `resources.sbatch` goes into the header of a script job: unless the job's runtime
    carries it out, or a layer has set the field that decides the same.
    """
    return name not in (*CARRIED, "gres") and OWNED_SBATCH.get(name, "") not in context.given
