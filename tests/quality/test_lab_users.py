# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who drives the labs in the cluster tests: an ordinary user with a number of six digits, as on a cluster.

Root passes every check of owner and mode, has no limits, and owns what others plant: what a user meets, such a test
does not see.
"""

from __future__ import annotations

import ast

import pytest

from tests.repository import ROOT, bullet_list

#: Files whose tests are root throughout, and why. The list only gets shorter.
AS_ROOT = {
    "test_benchmarks.py": "starts the benchmarks, which boot labs and have their own users",
    "test_lab_faults.py": "breaks and repairs the lab itself",
    "test_lab_lifecycle.py": "starts and removes labs, which needs root of the machine",
    "test_lab_nodes.py": "looks at what a lab gives each node, its users among it",
    "test_lab_repairs.py": "kills starts of labs and repairs them",
    "test_lab_role.py": "runs the role that makes a lab",
}
#: Files that ask for root, for a test or for all. The list only gets shorter.
ASKS_FOR_ROOT = {
    "attack.py": "an attack has its own users, one of whom is the administrator",
    "test_environment_example.py": "one test: a suite needs subordinate user ids, which this machine gives nobody",
    "test_example_cpu_ddp_lab.py": "the teacher makes the lab and its accounts, and his students have no logins",
    "test_course.py": "the teacher administers Slurm's accounts, and reads the files of the students",
    "test_launch_pyxis.py": "no machine of the tests has pyxis: what has not run as another user stays as it is",
}
#: What makes a file work as an ordinary user: fixtures and classes of tests/cluster, and the benchmarks' own ground.
ORDINARY = {
    "Site", "site", "Example", "Bench", "bench", "LabUser", "AttackLab", "attack_lab", "become_user",
    "become_variables", "run_matrix",
}  # fmt: skip


def names_of(tree: ast.AST) -> set[str]:
    """Names that a file imports, calls, or takes as a fixture."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def as_root(tree: ast.AST) -> list[str]:
    """Where a file asks for root: `root=True`, and marks `needs_root`, with their reasons."""
    asked = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            asked += ["root=True" for word in node.keywords if word.arg == "root" and ast.unparse(word.value) == "True"]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "needs_root":
                asked.append(" ".join(ast.literal_eval(argument) for argument in node.args))
    return asked


def trees() -> dict[str, ast.AST]:
    paths = sorted((ROOT / "tests" / "cluster").glob("*.py"))
    return {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def test_every_file_is_driven_by_an_ordinary_user() -> None:
    without = {name for name, tree in trees().items() if name.startswith("test_") and not names_of(tree) & ORDINARY}
    assert without == set(AS_ROOT), bullet_list(sorted(without ^ set(AS_ROOT)))


def test_whoever_is_root_says_why() -> None:
    asked = {name: reasons for name, tree in trees().items() if (reasons := as_root(tree))}
    assert set(asked) == set(ASKS_FOR_ROOT), bullet_list(sorted(set(asked) ^ set(ASKS_FOR_ROOT)))
    assert all(reason for reasons in asked.values() for reason in reasons)


@pytest.mark.parametrize(
    ("source", "reasons"),
    [
        ("Site(lab, folder, 'x')", []),
        ("Site(lab, folder, 'x', root=True)", ["root=True"]),
        ("@pytest.mark.needs_root('it mounts')\ndef test_it(site): ...", ["it mounts"]),
    ],
)
def test_a_request_for_root_is_seen(source: str, reasons: list[str]) -> None:
    assert as_root(ast.parse(source)) == reasons
