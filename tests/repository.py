# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests ask about the repository itself: its files, its plugins, and how to run a tool on it."""

from __future__ import annotations

import ast
import functools
import os
import posixpath
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
COLLECTION = "ansible_collections.rankzero.slurm"
#: One place for what the tests make and may keep between runs. Git ignores it.
CACHE = ROOT / ".cache"
#: How the names of pages in Markdown end.
PAGES = (".md", "llms.txt")
#: The environment whose Python runs these tests also has the tools.
BIN = Path(sys.executable).parent


def _playbook(argv: list[str], cwd: Path, env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """ansible-playbook, without its imports where that is the same."""
    from tests import warm_playbooks

    code, output = warm_playbooks.run([warm_playbooks.PROGRAM, *argv[1:]], cwd, env, timeout)
    return subprocess.CompletedProcess(argv, code, output)


def leaving(values: Iterable[Any], more: Collection[Any]) -> list[Any]:
    """The values of a parameter, of which those in `more` are left to `make test-all`."""
    return [pytest.param(value, marks=pytest.mark.more) if value in more else value for value in values]


def values_of(test: str, request: pytest.FixtureRequest) -> list[str]:
    """The values of the one parameter of a test that this session runs: what is left out is not made ready, either."""
    return [
        item.name.partition("[")[2].removesuffix("]")
        for item in request.session.items
        if item.name.startswith(f"{test}[")
    ]


def run(
    *command: str | Path,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = 1200,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a tool without a terminal. A failure fails the test and shows the command and all that it said.

    `env` is added to the caller's environment. stdout and stderr come together, in `stdout`.
    """
    argv = [str(part) for part in command]
    settings = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **(env or {})}
    completed = (
        _playbook(argv, cwd, settings, timeout)
        if argv[0] == "ansible-playbook"
        else subprocess.run(
            argv,
            cwd=cwd,
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    )
    if check and completed.returncode != 0:
        report = f"{shlex.join(argv)}\nended with {completed.returncode} in {cwd}:\n\n{completed.stdout}"
        pytest.fail(report, pytrace=False)
    return completed


@functools.cache
def tracked_files() -> tuple[str, ...]:
    """Paths, relative to the root, of the working tree's files that git does not ignore."""
    listing = run(
        "git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"
    ).stdout
    return tuple(sorted(path for path in set(listing.split("\0")) if path and (ROOT / path).is_file()))


def files(prefix: str = "", suffix: str = "") -> list[str]:
    """The tracked files below `prefix` whose name ends in `suffix`."""
    return [path for path in tracked_files() if path.startswith(prefix) and path.endswith(suffix)]


def read(path: str) -> str:
    """The text of a tracked file."""
    return (ROOT / path).read_text(encoding="utf-8")


def load_yaml(path: str) -> Any:
    """A tracked file as YAML."""
    return yaml.safe_load(read(path))


def plugin_names(kind: str) -> list[str]:
    """The names of the plugins in plugins/`kind`."""
    return [Path(path).stem for path in files(f"plugins/{kind}/", ".py") if not path.endswith("__init__.py")]


def syntax_tree(path: str) -> ast.Module:
    """A tracked Python file, parsed once for all tests of a process."""
    return _parsed(path, read(path))


@functools.cache
def _parsed(path: str, text: str) -> ast.Module:
    return ast.parse(text, path)


@functools.cache
def module_documentation(name: str, variable: str = "DOCUMENTATION") -> str:
    """The text of a documentation variable of a module; empty when it has none."""
    for node in syntax_tree(f"plugins/modules/{name}.py").body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", None) == variable for target in node.targets):
            value = ast.literal_eval(node.value)
            return value if isinstance(value, str) else ""
    return ""


def imported_modules(path: str) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of everything that a Python file imports, also inside functions.

    `from a.b import c` gives `a.b.c` where that is a module of this collection or of the job runtime, else `a.b`. A
    relative import gives a name that begins with dots.
    """
    return _imports(syntax_tree(path))


@functools.cache
def _imports(tree: ast.Module) -> tuple[tuple[int, str], ...]:
    return tuple(_each_import(tree))


def _each_import(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}" if _is_module(f"{base}.{alias.name}") else base


@functools.cache
def _is_module(dotted: str) -> bool:
    if not dotted.startswith(f"{COLLECTION}."):
        # The rooms of the job runtime import each other by their own names.
        return (ROOT / "plugins" / "runtime" / (dotted.replace(".", "/") + ".py")).is_file()
    path = ROOT.joinpath(*dotted[len(COLLECTION) + 1 :].split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def in_collection(dotted: str) -> str | None:
    """`plugins.module_utils.core.errors` for the full name of such a module; None for anything outside of it."""
    return dotted[len(COLLECTION) + 1 :] if dotted.startswith(f"{COLLECTION}.") else None


def dead_links(pages: Mapping[str, str], held: Collection[str], top: str = "") -> list[str]:
    """The links of Markdown pages that lead to nothing. `held`: the files that were built; `top`: where its pages are.

    An address of the repository begins as galaxy.yml says; the file behind it is one of this checkout. The first page
    has no other links, because an index shows it alone.
    """
    held = {*held, *(str(folder) for name in held for folder in PurePosixPath(name).parents)}
    ours = re.compile(rf"{re.escape(load_yaml('galaxy.yml')['repository'])}/(?:blob|tree|raw)/[^/]+/([^#]*)")
    dead = []
    for page, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path = target.partition("#")[0]
            public = ours.match(target)
            if public:
                there = (ROOT / public[1]).exists()
            elif re.match(r"[a-z]+:", target):
                there = True
            else:
                name = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
                there = name in held and (page != f"{top}README.md" or not path)
            if not there:
                dead.append(f"{page}: {target}")
    return dead


def bullet_list(problems: Sequence[str]) -> str:
    """Problems as an assertion message, one a line."""
    return "\n" + "\n".join(f"  - {problem}" for problem in problems)
