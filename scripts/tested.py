# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of contributing/tested.md: what each test run tests where, read from the tests themselves."""

from __future__ import annotations

import ast
import glob
import os
import re

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.release import RELEASES

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = "contributing/tested.md"
#: The tests of other releases of Slurm than the machine's.
OTHER_RELEASES = "tests/cluster/test_releases.py"


def table() -> list[str]:
    """The lines of the table."""
    suites = "; ".join(f"{release.version} (Debian {release.suite})" for release in RELEASES.values())
    cores = f"ansible-core {_range('requirements.txt', 'ansible-core')}"
    newest = "every test, with the newest that supports the machine's Python; `make test-core CORE=2.22` takes another"
    rows = {
        "Slurm of the machine, profile `friendly`": "every file of `tests/cluster/` but those below",
        "the same, profile `site`": _files("site_lab"),
        f"Slurm {suites}": f"`{OTHER_RELEASES}`: {_tests(OTHER_RELEASES)}",
        "output of Slurm's commands, recorded": f"the parsers, with {_recorded()}",
        cores: newest,
        "other Pythons of the machine, from 3.9 on": "the tests of the library, with the oldest and the newest",
        "only in `make test-all`": f"{_files('^pytestmark = .*mark.more', 'tests/integration')}; the Pythons between",
    }
    heads = ["| where | what runs there in every test run |", "| --- | --- |"]
    return heads + [f"| {where} | {what} |" for where, what in rows.items()]


def _sources(*folders: str) -> dict[str, str]:
    """Path -> text of each file of tests for clusters, and of those in `folders`."""
    texts = {}
    for folder in ("tests/cluster", *folders):
        for path in sorted(glob.glob(os.path.join(ROOT, folder, "test_*.py"))):
            with open(path, encoding="utf-8") as stream:
                texts[os.path.relpath(path, ROOT)] = stream.read()
    return texts


def _files(pattern: str, *folders: str) -> str:
    matching = [path for path, text in _sources(*folders).items() if re.search(pattern, text, re.M)]
    return ", ".join(f"`{os.path.basename(path)}`" for path in matching)


def _tests(path: str) -> str:
    """The names of a file's tests, in words."""
    tree = ast.parse(_sources().get(path, ""))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return ", ".join(name.removeprefix("test_").replace("_", " ") for name in names)


def _recorded() -> str:
    found = glob.glob(os.path.join(ROOT, "tests/unit/slurm/data/*"))
    return ", ".join(sorted(os.path.basename(path) for path in found if os.path.isdir(path)))


def _range(file: str, package: str) -> str:
    with open(os.path.join(ROOT, file), encoding="utf-8") as stream:
        (line,) = [line for line in stream if line.startswith(package)]
    low, high = re.findall(r"[\d.]+", line)
    return f"{low} to below {high}"
