# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The elements of a sweep as one job array: one script for all, and a line of bash with each element's own values.

The task that runs an element reads its line (runtime/start/job.sh) from a file that is written once and never changed.
The element's key, generation and run directory are put in front of the line on the cluster. Pure; no I/O.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import generation_token
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.roles import RoleStep
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections import sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Options

# How many mistakes are shown at most.
_PROBLEMS_SHOWN = 10
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-]+")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True)
class Element:
    """One launch of a sweep: its number, its values, its spec as a user would write it, and its plan."""

    number: int
    point: Mapping[str, str]
    data: Mapping[str, Any]
    plan: Plan


def specs(
    spec: LaunchSpec, merged: Merged, settings: ClusterSettings | None = None
) -> list[tuple[dict[str, str], Merged, LaunchSpec]]:
    """Return (values, layers, spec) of every element. Raises SpecError that names the elements with invalid values."""
    if spec.sweep is None:
        raise SpecError([f"sweep: {spec.name} has none; give it parameters (job spec, section sweep), or launch it"])
    valid, problems = [], []
    for number, point in enumerate(sweep.points(spec.sweep)):
        layers = Merged(sweep.substituted(merged.data, point), merged.origins, [])
        try:
            valid.append((point, layers, validated(layers, (), settings)))
        except SpecError as error:
            problems += [f"element {number} ({sweep.point_text(point)}): {text}" for text in error.problems]
    if problems:
        left = len(problems) - _PROBLEMS_SHOWN
        raise SpecError(problems[:_PROBLEMS_SHOWN] + ([f"and {left} more"] if left > 0 else []))
    return valid


def elements(
    spec: LaunchSpec,
    points: Iterable[tuple[dict[str, str], Merged, LaunchSpec]],
    plan_of: Callable[[LaunchSpec, Merged], Plan],
) -> tuple[list[Element], list[str]]:
    """Return the elements and notes about them. Raises SpecError.

    Two elements with the same launch key are a mistake, unless they were sampled at random.
    """
    kept: dict[str, Element] = {}
    problems: list[str] = []
    folders: dict[str, int] = {}
    doubled = 0
    for number, (point, merged, element_spec) in enumerate(points):
        made = plan_of(element_spec, merged)
        same = kept.get(made.key)
        if same is not None:
            doubled += 1
            problems.append(
                f"sweep: elements {same.number} and {number} are one launch ({sweep.point_text(point)}): every value "
                "of a list must be another one"
            )
            continue
        asked = element_spec.checkpoint
        folder = posixpath.normpath(asked.dir) if asked.dir and not asked.fresh else ""
        if folder and folders.setdefault(folder, number) != number:
            problems.append(
                f"checkpoint.dir: elements {folders[folder]} and {number} would share {folder}; let it hold all "
                "parameters that differ"
            )
        kept[made.key] = Element(len(kept), point, merged.data, made)
    drawn = spec.sweep is not None and spec.sweep.method == "random"
    problems = [text for text in problems if not (drawn and text.startswith("sweep:"))]
    if problems:
        raise SpecError(problems[:_PROBLEMS_SHOWN])
    notes = [f"{doubled} samples were drawn that are there already; {len(kept)} are left"] if doubled else []
    return list(kept.values()), notes


def container_places(state_root: str, name: str, element_specs: Sequence[LaunchSpec]) -> tuple[str, str | None]:
    """Return what every element's container mounts: the folder of all runs, and the parent of all checkpoints."""
    folders = [posixpath.normpath(element.checkpoint.dir) for element in element_specs if element.checkpoint.dir]
    return f"{state_root}/runs/{name}", posixpath.commonpath(folders) if folders else None


def sweep_key(elements: Sequence[Element]) -> str:
    """Return the key of all elements together, independent of their order."""
    text = json.dumps(sorted(element.plan.key for element in elements))
    return hashlib.sha256(text.encode()).hexdigest()


def tasks_token(key: str) -> str:
    """Return the placeholder for the array's tasks (sbatch --array), until it is known which elements are submitted."""
    return f"TASKS-{key[-24:]}"


def array_plan(spec: LaunchSpec, elements: Sequence[Element], state_root: str) -> Plan:
    """Return the plan of the array, which all elements share. Their own values are in `lines`."""
    first, key = elements[0].plan, sweep_key(elements)
    token = generation_token(key)
    run_dir = f"{state_root}/runs/{spec.name}/.sweep-{short_key(key)}/{token}"
    job_name = f"{spec.name}.{short_key(key)}.{token}"
    own = _own_names(elements)
    replaced: dict[str, str | bool] = {
        "job-name": job_name,
        "output": f"{run_dir}/logs/job.%A_%a.log",
        "chdir": run_dir,
    }
    if "comment" not in spec.resources.sbatch:
        replaced["comment"] = f"rankzero.slurm {job_name}"
    header: Options = tuple((name, replaced.get(name, value)) for name, value in first.header)
    return replace(
        first,
        key=key,
        token=token,
        spec=spec,
        header=(*header, ("array", tasks_token(key))),
        run_dir=run_dir,
        exports=tuple(pair for pair in first.exports if pair[0] not in own),
        variables=tuple(variable for variable in first.variables if variable.name not in own),
        roles=tuple(_shared(role, _swept(elements, number)) for number, role in enumerate(first.roles)),
        array=True,
    )


def _own_names(elements: Sequence[Element]) -> set[str]:
    """Return the names of the variables whose values differ between elements, or contain an element's generation."""
    first = elements[0].plan
    exports, variables = dict(first.exports), {variable.name: variable.value for variable in first.variables}
    names = {name for name, value in variables.items() if elements[0].plan.token in value}
    for element in elements[1:]:
        names |= {name for name, value in element.plan.exports if exports.get(name) != value}
        names |= {each.name for each in element.plan.variables if variables.get(each.name) != each.value}
    return names


def _shared(role: RoleStep, swept: tuple[str, ...]) -> RoleStep:
    """Return what of a role's step all elements share."""
    return replace(role, variables=tuple(each for each in role.variables if each.name not in swept))


def _swept(elements: Sequence[Element], number: int) -> tuple[str, ...]:
    """Return the names of a role's variables whose values differ between elements."""
    rows = [{each.name: each.value for each in element.plan.roles[number].variables} for element in elements]
    names = dict.fromkeys(name for row in rows for name in row)
    return tuple(name for name in names if len({row.get(name) for row in rows}) > 1)


def lines(elements: Sequence[Element]) -> list[str]:
    """Return the line of each element: variables of the runtime, then functions that job.sbatch calls."""
    own = _own_names(elements)
    swept = [_swept(elements, number) for number in range(len(elements[0].plan.roles))]
    result = []
    for element in elements:
        plan = element.plan
        parts = [f"export {name}={one_line(value)}" for name, value in plan.exports if name in own]
        exported = [f"export {each.name}={one_line(each.value)}" for each in plan.variables if each.name in own]
        parts.append(f"rankzero_element_variables() {{ {'; '.join(exported) or ':'}; }}")
        if not plan.roles:
            parts.append(f"rankzero_element_program() {{ {_program(plan.argv, plan.python)}; }}")
        for role, names in zip(plan.roles, swept):
            values = [f"export {each.name}={one_line(each.value)}; " for each in role.variables if each.name in names]
            body = f"{''.join(values)}{_program(role.argv, role.python)}"
            parts.append(f"rankzero_element_role_{role.name}() {{ {body}; }}")
        result.append("; ".join(parts))
    return result


def _program(argv: Sequence[str], python: str) -> str:
    words = [one_line(word) for word in argv]
    if argv[0] == python:
        words[0] = '"$RANKZERO_PYTHON"'
    return f"rankzero_program=({' '.join(words)})"


def one_line(text: str) -> str:
    """Return a text as a bash word on one line, for any text without NUL."""
    if _PLAIN.fullmatch(text):
        return text
    escaped = "".join(
        _ESCAPES.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 32 or ord(char) == 127 else char) for char in text
    )
    return f"$'{escaped}'"
