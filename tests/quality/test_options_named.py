# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option that a remedy, an error or a warning names is in the field table, and our own validator takes it."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import reasons
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from tests.repository import ROOT, bullet_list

FIELDS = {info.path: info for info in fields_of(LaunchSpec)}
SECTIONS = {attribute.name for attribute in dataclasses.fields(LaunchSpec)}
SETTINGS = {attribute.name for attribute in dataclasses.fields(ClusterSettings)}
#: Fields whose keys are free: what stands behind the dot is a name of the user's or of Slurm's.
MAPS = ("env", "secrets", "data", "resources.sbatch", "launcher.srun", "artifact.require", "sweep.parameters")
OPTION = re.compile(r"(?<![\w./{}$<-])([a-z][a-z_]*)\.([A-Za-z_*]+)((?:\.[\w*-]+)*)(?![\w/(-]|\.\w)")
#: Files of a run or a project whose names begin like a section.
ENDINGS = {"yml", "json", "py", "sh", "diff", "gz", "tar", "sqsh", "conf", "cfg", "log", "pt", "j2", "made"}


def texts() -> Iterator[tuple[str, str]]:
    """Every text in the sources that is no docstring of Python and no documentation of Ansible's."""
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        if path.parent.name in ("modules", "doc_fragments", "inventory"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        passed = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
    for path in sorted((ROOT / "plugins").rglob("*.sh")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "rankzero_" in line and '"' in line:
                yield f"{path.relative_to(ROOT)}:{number}", line
    # Remedies name an option as sbatch does; this is what people read.
    for code in reasons.REASONS:
        yield f"reason {code}", reasons.explain(code).remedy


@cache
def named() -> dict[str, str]:
    """Option -> the first place that names it."""
    found: dict[str, str] = {}
    for where, text in texts():
        for match in OPTION.finditer(text):
            first, second, rest = match.groups()
            whole = f"{first}.{second}{rest}"
            if whole.rsplit(".", 1)[-1] in ENDINGS and whole not in FIELDS:
                continue
            if (ROOT / "plugins/runtime" / f"{whole.replace('.', '/')}.py").is_file():
                continue
            if (first in SECTIONS and first not in FIELDS) or first in (*MAPS, "launch_cluster"):
                found.setdefault(whole, where)
    return found


def of_a_map(option: str) -> tuple[str, str] | None:
    return next(((one, option[len(one) + 1 :]) for one in MAPS if option.startswith(one + ".")), None)


def test_there_are_options_to_look_at() -> None:
    """The pattern finds what it is for, in remedies, f-strings and shell."""
    assert {"resources.nodes", "resources.sbatch.nodelist", "resources.gpus_per_node"} <= {*named()}
    assert len(named()) > 100


def test_every_option_that_is_named_exists_and_is_taken() -> None:
    """In one test: every worker of a run collects, and would read all sources to know the names of many."""
    wrong = [f"{where}: {option}" for option, where in sorted(named().items()) if not is_taken(option)]
    assert not wrong, bullet_list(wrong)


def is_taken(option: str) -> bool:
    if option.startswith("launch_cluster."):
        return option.split(".")[1] in SETTINGS | SECTIONS
    inside = of_a_map(option)
    if inside is None:
        return option.removesuffix(".*") in {*FIELDS, *SECTIONS, *(path.rpartition(".")[0] for path in FIELDS)}
    of, key = inside
    return of not in ("resources.sbatch", "launcher.srun") or not refusals(of, key)


def refusals(of: str, key: str) -> list[str]:
    """What our own validator says about one further option of sbatch or srun; [] if some job may have it."""
    section, name = of.split(".")
    refused: list[str] = []
    for program in ({"command": ["x"]}, {"script": "#!/bin/sh\n"}):
        data: dict[str, Any] = {"name": "job", **program, section: {name: {key: "NONE"}}}
        try:
            validated(merge([Layer("job", data)]))
        except SpecError as error:
            refused += error.problems
        else:
            return []
    return refused
