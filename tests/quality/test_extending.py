# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""contributing/extending.md: its diffs apply, and each addition passes the checks of its kind."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.repository import COLLECTION, ROOT, bullet_list, read, run, tracked_files

PAGE = "contributing/extending.md"
SECTION = re.compile(r"^## (?P<kind>.+?)\n(?P<text>.*?)(?=^## |\Z)", re.M | re.S)
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.M | re.S)
CHECKS = re.compile(r"^The checks: `pytest (.+?)`\.$", re.M)
SECTIONS = {match["kind"]: match["text"] for match in SECTION.finditer(read(PAGE))}
#: Each kind, with a check that passes only where the addition is declared.
KINDS = {
    "A launcher": "[numa]",
    "A container runtime": "[charliecloud]",
    "A fabric": "[omni_path]",
    "A failure family": "::test_a_family_stands_in_the_file_of_its_name_and_says_what_to_do",
    "An artifact format": "[jsonl]",
    "An experiment tracker": "[swanlab]",
    "A Slurm option": "[resources.licenses]",
    "A role option": "[reconcile_max_launches]",
    "A kind of input": "[weights]",
}
#: What an addition may consist of.
NEW_FILES, LINES_ELSEWHERE = 1, 6
#: Folders that no check of a kind reads.
LEFT_OUT = ("benchmarks/", "tests/cluster/", "tests/diagnosis/", "tests/golden/", "tests/integration/", "extensions/")

every_kind = pytest.mark.parametrize("kind", KINDS)


def diff_of(kind: str) -> str:
    (diff,) = DIFF.findall(SECTIONS[kind])
    return str(diff)


def checks_of(kind: str) -> list[str]:
    (checks,) = CHECKS.findall(SECTIONS[kind])
    return str(checks).split()


def changes(diff: str) -> dict[str, str]:
    """The part of a diff for each file."""
    parts = re.split(r"^diff --git a/\S+ b/(\S+)\n", diff, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2]))


def copy_tree(top: Path) -> None:
    """Copy the working tree to a folder that is a collections path and a repository of its own."""
    for path in tracked_files():
        if not path.startswith(LEFT_OUT):
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, top / path)
    namespace = top / ".cache" / "collections" / Path(*COLLECTION.split(".")[:2])
    namespace.mkdir(parents=True)
    (namespace / COLLECTION.split(".")[2]).symlink_to(top)
    run("git", "init", "--quiet", cwd=top)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree with all additions, its generated files, and a collections path of its own."""
    top = tmp_path_factory.mktemp("extended")
    copy_tree(top)
    for number, kind in enumerate(KINDS):
        diff = top / ".cache" / f"{number}.diff"
        diff.write_text(diff_of(kind), encoding="utf-8")
        run("git", "apply", diff, cwd=top)
    env = {"PYTHONPATH": str(top / ".cache" / "collections")}
    run(sys.executable, "scripts/generate_reference.py", cwd=top, env=env)
    return top


@pytest.fixture(scope="module")
def results(extended: Path) -> list[str]:
    """What pytest says of each test of all kinds: `tests/unit/spec/test_fabrics.py::test_x[omni_path] PASSED`."""
    checks = [check for kind in KINDS for check in checks_of(kind)]
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--color=no", *checks]
    env = {"PYTHONPATH": str(extended / ".cache" / "collections"), "PYTEST_ADDOPTS": ""}
    return run(*command, cwd=extended, env=env).stdout.splitlines()


def test_the_page_has_every_kind() -> None:
    assert set(KINDS) == {kind for kind, text in SECTIONS.items() if DIFF.search(text)}


@every_kind
def test_an_addition_passes_the_checks_of_its_kind(kind: str, results: list[str]) -> None:
    for check in checks_of(kind):
        assert any(line.startswith(check) and " PASSED" in line for line in results), check
    proof = [line for line in results if line.startswith(checks_of(kind)[0]) and KINDS[kind] in line]
    assert proof and all(" PASSED" in line for line in proof)


def test_the_additions_keep_to_the_style(extended: Path) -> None:
    changed = [path for kind in KINDS for path in changes(diff_of(kind))]
    python = [path for path in changed if path.endswith(".py")]
    run("ruff", "check", "--no-cache", *python, cwd=extended)
    run("ruff", "format", "--no-cache", "--check", *python, cwd=extended)
    scripts = [path for path in changed if path.endswith(".sh")]
    if scripts:
        run("shellcheck", *scripts, cwd=extended)


def test_an_addition_is_at_most_a_file_and_six_lines() -> None:
    large = []
    for kind in KINDS:
        parts = changes(diff_of(kind))
        new = [path for path, part in parts.items() if part.startswith("new file mode")]
        lines = [line for path in parts.keys() - set(new) for line in re.findall(r"^\+(?!\+\+ ).*", parts[path], re.M)]
        if len(new) > NEW_FILES or len(lines) > LINES_ELSEWHERE or not (new or lines):
            large.append(f"{kind}: {len(new)} new files, {len(lines)} lines elsewhere")
    assert not large, bullet_list(large)
