# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify an environment: each file against its RECORD, packages by import, and env.json."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import (
    MOST_BYTES,
    MOST_LIST_BYTES,
    content_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import normalised

# Libraries of the GPU driver: a login node without GPUs lacks them, but the nodes of the job have them.
_DRIVER = re.compile(r"lib(cuda|nvidia-ml|nvcuvid|amdhip64|hsa-runtime64|rocm_smi64|ze_loader)\.so")

# Files of a .dist-info folder in which an installer records its name and the source of the wheel.
NOTES = ("INSTALLER", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json")

# Imports each module from the command line and prints the result as a line of JSON before the next begins.
_PROBE = """\
import importlib, json, sys
for name in sys.argv[1:]:
    print(json.dumps({"module": name}), flush=True)
    try:
        importlib.import_module(name)
        problem = None
    except BaseException as error:
        problem = "{}: {}".format(type(error).__name__, error)
    print(json.dumps({"module": name, "problem": problem}), flush=True)
"""


@dataclass(frozen=True)
class Installed:
    """A package: name and version, number and bytes of its files, their digest, its modules, its requirements."""

    name: str
    version: str
    files: int
    bytes: int
    content: str
    modules: tuple[str, ...]
    requires: tuple[str, ...]


def verify(path: str, minor: str) -> list[Installed]:
    """Check every file of every package in the environment at `path` (Python `minor`, such as 3.11).

    Returns the packages by name. Raises RankzeroError with the first files that are missing or differ.
    """
    site = os.path.join(path, "lib", f"python{minor}", "site-packages")
    try:
        folders = sorted(name for name in os.listdir(site) if name.endswith(".dist-info"))
    except OSError as error:
        raise RankzeroError(f"environment: {site} cannot be read ({error.strerror}): uv made no environment") from error
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        results = list(pool.map(lambda folder: _package(site, folder), folders))
    wrong = [problem for _package_, problems in results for problem in problems]
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise RankzeroError(
            f"environment: {len(wrong)} installed files differ from their packages' records: "
            f"{', '.join(wrong[:5])}{more}. uv's cache is damaged (run `uv cache clean`) or the storage is."
        )
    return sorted((package for package, _problems in results), key=lambda package: package.name)


def content_digest(packages: Iterable[Installed]) -> str:
    """One digest for all installed packages. The installer's notes about itself do not count."""
    total = hashlib.sha256()
    for package in sorted(packages, key=lambda item: item.name):
        total.update(f"{package.name} {package.version} {package.content}\n".encode())
    return total.hexdigest()


def import_probe(python: str, packages: Iterable[Installed]) -> dict[str, str]:
    """Import the requested packages (those that no other one requires) in one fresh process.

    Returns module -> problem for modules that only fail without a GPU driver, as on a login node. Raises RankzeroError
    for other failures.
    """
    modules = probed_modules(list(packages))
    if not modules:
        return {}
    try:
        done = children.run(
            [python, "-I", "-B", "-c", _PROBE, *modules], child_environment(os.environ), seconds=600, cwd="/"
        )
    except children.Late:
        raise RankzeroError(f"environment: importing {', '.join(modules)} took more than 600 s") from None
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"module"')]
    problems = {answer["module"]: answer["problem"] for answer in answers if answer.get("problem")}
    if done.returncode != 0 and answers and "problem" not in answers[-1]:
        problems[answers[-1]["module"]] = f"the interpreter ended with code {done.returncode}"
    elif done.returncode != 0:
        problems.setdefault(
            modules[0], f"the interpreter ended with code {done.returncode}: {done.stderr.strip()[-300:]}"
        )
    broken = {module: problem for module, problem in problems.items() if not _DRIVER.search(problem)}
    if broken:
        failures = "; ".join(f"import {module}: {problem}" for module, problem in broken.items())
        raise RankzeroError(
            f"environment: installed, but it does not work on this host: {failures}. "
            "Install the system package of a missing library (.so); resolve a version conflict in pyproject.toml."
        )
    return problems


def probed_modules(packages: list[Installed]) -> list[str]:
    """The modules to import: for each package that no other requires, the module of its name, else all public ones."""
    required = {name for package in packages for name in package.requires}
    modules: list[str] = []
    for package in packages:
        if package.name in required:
            continue
        same = [module for module in package.modules if normalised(module) == package.name]
        modules += same or list(package.modules)
    return modules


def _package(site: str, folder: str) -> tuple[Installed, list[str]]:
    try:
        text = content_of(os.path.join(site, folder, "RECORD"), MOST_LIST_BYTES).decode("utf-8")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if len(row) >= 2]
    except OSError as error:
        raise RankzeroError(f"environment: {folder} has no readable RECORD ({error.strerror})") from error
    problems = []
    size = 0
    for name, expected, *_rest in rows:
        if not expected:
            continue
        path = os.path.normpath(os.path.join(site, name))
        algorithm, encoded = (*expected.split("=", 1), "")[:2]
        try:
            size += os.stat(path).st_size
            digest = file_sha256(path) if algorithm == "sha256" else ""
        except OSError:
            problems.append(f"{name} (missing)")
            continue
        if digest != base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).hex():
            problems.append(f"{name} (changed)")
    name, version = folder[: -len(".dist-info")].rsplit("-", 1)
    return (
        Installed(
            normalised(name),
            version,
            len(rows),
            size,
            _content(rows),
            _modules([row[0] for row in rows]),
            _requires(os.path.join(site, folder, "METADATA")),
        ),
        problems,
    )


def _content(rows: Iterable[list[str]]) -> str:
    """sha256 over names and hashes of a RECORD, without what differs between two ways of installing one wheel."""
    counted = sorted(f"{row[0]},{row[1]}\n" for row in rows if row[1] and os.path.basename(row[0]) not in NOTES)
    return hashlib.sha256("".join(counted).encode()).hexdigest()


def _modules(files: Iterable[str]) -> tuple[str, ...]:
    """The public top-level modules in a package's files."""
    names = set()
    for path in files:
        first, rest = (*path.split("/", 1), "")[:2]
        if rest == "__init__.py":
            names.add(first)
        elif not rest:
            match = re.fullmatch(r"([A-Za-z0-9_]+)(\.cpython-[^.]+|\.abi3)?\.(py|so)", first)
            if match:
                names.add(match[1])
    usual = {"tests", "test", "docs", "doc", "examples", "benchmarks", "setup", "conftest"}
    return tuple(sorted(name for name in names if name.isidentifier() and name[0] != "_" and name not in usual))


def _requires(metadata: str) -> tuple[str, ...]:
    """The names of packages that a package requires without an extra."""
    names = []
    with open(metadata, encoding="utf-8", errors="replace") as stream:
        for line in stream.read(MOST_BYTES).split("\n"):
            if not line.strip():
                break  # the description follows
            match = re.match(r"Requires-Dist: *([A-Za-z0-9._-]+)(.*)", line)
            if match and "extra ==" not in match[2]:
                names.append(normalised(match[1]))
    return tuple(names)
