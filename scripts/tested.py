# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of contributing/tested.md: what each test run tests where, read from the tests and the workflow.

    tested.py REPORT ARGUMENT...    note that pytest has passed with these arguments: its report (--junit-xml)

`scripts/test` does so after a run with another ansible-core. What it noted is in contributing/cores.json.
"""

from __future__ import annotations

import ast
import glob
import importlib.metadata
import json
import os
import platform
import re
import sys

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.release import RELEASES

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = "contributing/tested.md"
#: What ran with each ansible-core the last time: its minor version -> the columns of the table.
RAN = "contributing/cores.json"
#: The tests of other releases of Slurm than the machine's.
OTHER_RELEASES = "tests/cluster/test_releases.py"
#: How others build their clusters -> the tests that play it.
BUILT, FIRST = "test_built_by.py", "test_first_cluster.py"
LAUNCH = (BUILT, "finds_slurm_where_only_the_login_does")
CLUSTERS = {
    "Slurm's commands in a folder that only the login's `PATH` names": LAUNCH,
    "configless: neither the nodes nor the login have a file of Slurm's": LAUNCH,
    "a real Python 3.6 as `python3` of the login (where pyenv has one)": (BUILT, "whose_python_is_too_old"),
    "the same on the nodes, with a newer one under its own name": LAUNCH,
    "`PrivateData` with nodes, jobs and usage": LAUNCH,
    "no accounting": LAUNCH,
    "hosts without a way to an index": ("test_offline_environments.py", "carried_in"),
    "cloud nodes that are off (`POWERED_DOWN`, `~`), and that start for a job (`#`)": (BUILT, "nodes_that_are_off"),
    "limits of accounts, QOS and partitions that are enforced": ("test_launch_admission.py", "what_would_never_run"),
    "the same, as an ordinary user on profile `site`": ("test_site.py", "what_a_site_refuses"),
    "a jump host, a login that asks for a code, and a shared connection that expires": (FIRST, "a_second_factor"),
    "`auth/slurm` in the place of munge, slurmdbd included (26.05)": ("test_releases.py", "what_such_a_lab_is"),
    "several clusters from one inventory": ("test_clusters.py", ""),
}


def clusters() -> list[str]:
    """The lines of the table of clusters. Raises SystemExit where no test has such a name."""
    lines = ["| how a cluster is built | what plays it |", "| --- | --- |"]
    # A copy of the repository may have no tests for clusters.
    for how, (file, words) in CLUSTERS.items() if _sources() else ():
        names = [name for name in _test_names(f"tests/cluster/{file}") if words in name]
        if not names:
            raise SystemExit(f"scripts/tested.py: no test of {file} has {words!r} in its name: correct CLUSTERS")
        lines.append(f"| {how} | `{file}`: {_in_words(names[:1])} |")
    return lines


def cores() -> list[str]:
    """The lines of the table of what the workflow of the repository runs on each ansible-core."""
    with open(os.path.join(ROOT, ".github/workflows/tests.yml"), encoding="utf-8") as stream:
        text = stream.read()
    (arguments,) = re.findall(r'make test-core CORE=.+\s+ARGS="(.+?)"', text)
    pairs = re.findall(r'core: "([\d.]+)", python: "([\d.]+)"', text)
    heads = ["| ansible-core | Python | what the workflow of the repository runs |", "| --- | --- | --- |"]
    return heads + [f"| {core} | {python} | `{arguments}` |" for core, python in pairs]


def page() -> str:
    """The page with each table between its marks `<!-- NAME -->` and `<!-- /NAME -->` written anew."""
    with open(os.path.join(ROOT, PAGE), encoding="utf-8") as stream:
        text = stream.read()
    for name, lines in {"tests": table(), "clusters": clusters(), "cores": cores(), "ran": ran()}.items():
        before, rest = text.split(f"<!-- {name} -->\n")
        after = rest.split(f"<!-- /{name} -->")[1]
        text = "\n".join([f"{before}<!-- {name} -->", *lines, f"<!-- /{name} -->"]) + after
    return text


def ran() -> list[str]:
    """The lines of the table of what was run last with each ansible-core, as `note` kept it."""
    lines = [
        "| ansible-core | Python | passed | skipped | arguments of `make test-core` |",
        "| --- | --- | --- | --- | --- |",
    ]
    return lines + [f"| {' | '.join(row)} |" for _core, row in sorted(_kept().items())]


def note(report: str, arguments: list[str]) -> None:
    """Keep what a run that has passed was, and write the page."""
    with open(report, encoding="utf-8") as stream:
        (head,) = re.findall(r"<testsuite [^>]*>", stream.read())
    tests, skipped = (int(re.findall(rf'\b{name}="(\d+)"', head)[0]) for name in ("tests", "skipped"))
    core = importlib.metadata.version("ansible-core")
    row = [
        core,
        platform.python_version(),
        str(tests - skipped),
        str(skipped),
        f"`{' '.join(word for word in arguments if word != '-q')}`",
    ]
    rows = {**_kept(), ".".join(core.split(".")[:2]): row}
    with open(os.path.join(ROOT, RAN), "w", encoding="utf-8") as stream:
        stream.write(json.dumps(rows, indent=2, sort_keys=True) + "\n")
    text = page()
    with open(os.path.join(ROOT, PAGE), "w", encoding="utf-8") as stream:
        stream.write(text)


def _kept() -> dict[str, list[str]]:
    with open(os.path.join(ROOT, RAN), encoding="utf-8") as stream:
        return dict(json.load(stream))


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
    return _in_words(_test_names(path))


def _test_names(path: str) -> list[str]:
    tree = ast.parse(_sources().get(path, ""))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def _in_words(names: list[str]) -> str:
    return ", ".join(name.removeprefix("test_").replace("_", " ") for name in names)


def _recorded() -> str:
    found = glob.glob(os.path.join(ROOT, "tests/unit/slurm/data/*"))
    return ", ".join(sorted(os.path.basename(path) for path in found if os.path.isdir(path)))


def _range(file: str, package: str) -> str:
    with open(os.path.join(ROOT, file), encoding="utf-8") as stream:
        (line,) = [line for line in stream if line.startswith(package)]
    low, high = re.findall(r"[\d.]+", line)
    return f"{low} to below {high}"


if __name__ == "__main__":
    note(sys.argv[1], sys.argv[2:])
