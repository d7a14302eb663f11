# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make new`: what it writes of each kind, in a copy of the working tree, passes the checks of that kind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.quality.test_extending import KINDS as SECTIONS
from tests.quality.test_extending import NEW_FILES, copy_tree
from tests.repository import ROOT, leaving, run, values_of

sys.path.insert(0, str(ROOT / "scripts"))

import new  # beside the repository's tests

#: KIND -> the name of an addition, and a check that passes only where it is declared.
NAMES = {
    "launcher": ("taskset", "[taskset]"),
    "container": ("sarus", "[sarus]"),
    "fabric": ("slingshot_two", "[slingshot_two]"),
    "family": ("file_locks", "::test_a_family_stands_in_the_file_of_its_name_and_says_what_to_do"),
    "format": ("ndjson", "[ndjson]"),
    "tracker": ("neptune", "[neptune]"),
    # An option that sbatch has.
    "option": ("mcs_label", "[resources.mcs_label]"),
    "input": ("tokens", "[tokens]"),
}
#: Those whose checks `make test` runs.
FEW = {"launcher", "family"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree with an addition of each kind, by the program."""
    top = tmp_path_factory.mktemp("new")
    copy_tree(top)
    run("git", "add", "--all", cwd=top)
    for kind, (name, _proof) in NAMES.items():
        run(sys.executable, "scripts/new.py", kind, name, cwd=top)
    return top


@pytest.fixture(scope="module")
def results(written: Path, request: pytest.FixtureRequest) -> list[str]:
    """What pytest says of each test of the kinds that this session checks, after the reference was written."""
    kinds = values_of("test_what_is_written_passes_the_checks_of_its_kind", request)
    env = {"PYTHONPATH": str(written / ".cache" / "collections"), "PYTEST_ADDOPTS": ""}
    run(sys.executable, "scripts/generate_reference.py", cwd=written, env=env)
    checks = list(dict.fromkeys(check for kind in kinds for check in new.section(str(ROOT), kind).checks.split()))
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--color=no", *checks]
    return run(*command, cwd=written, env=env).stdout.splitlines()


def test_there_is_one_for_each_kind_that_has_a_worked_addition() -> None:
    """Of a role option only its own lines are new: there is nothing to write around them."""
    assert {section for section, _worked in new.KINDS.values()} == set(SECTIONS) - {"A role option"}
    assert set(NAMES) == set(new.KINDS)


# test_extending.py runs the checks of all kinds, with additions that are written by hand.
@pytest.mark.parametrize("kind", leaving(NAMES, NAMES.keys() - FEW))
def test_what_is_written_passes_the_checks_of_its_kind(kind: str, results: list[str]) -> None:
    checks, proof = new.section(str(ROOT), kind).checks.split(), NAMES[kind][1]
    for check in checks:
        assert any(line.startswith(check) and " PASSED" in line for line in results), check
    proofs = [line for line in results if line.startswith(tuple(checks)) and proof in line]
    assert proofs and all(" PASSED" in line for line in proofs)


def test_it_is_small_in_style_and_has_nothing_of_the_worked_one(written: Path) -> None:
    added = run("git", "ls-files", "--others", "--exclude-standard", "plugins", cwd=written).stdout.split()
    assert len(added) <= NEW_FILES * len(NAMES)
    assert not [path for path in added for _section, worked in new.KINDS.values() if worked in path]
    changed = [*added, *run("git", "diff", "--name-only", "plugins", "tests", cwd=written).stdout.split()]
    python = [path for path in changed if path.endswith(".py")]
    assert len(python) > len(NAMES)
    run("ruff", "check", "--no-cache", *python, cwd=written)
    run("ruff", "format", "--no-cache", "--check", *python, cwd=written)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree. No kind of addition touches another's lines."""
    top = tmp_path_factory.mktemp("copy")
    copy_tree(top)
    return top


@pytest.mark.parametrize("kind", NAMES)
def test_the_same_kind_is_written_twice_with_other_names_and_not_with_the_same(kind: str, copy: Path) -> None:
    first = new.write(str(copy), kind, NAMES[kind][0])
    again = new.write(str(copy), kind, f"{NAMES[kind][0]}_two")
    assert len(first) == len(again)
    assert any(f"{NAMES[kind][0]}_two" in (copy / path).read_text() for path in again)


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["new.py", "format", "../x"])
    with pytest.raises(SystemExit):
        new.main()
    assert "NAME must be" in capsys.readouterr().err
