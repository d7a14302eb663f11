# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inputs of an environment and its key, which is known before the build and the same on every controller.

The key hashes the *text* of pyproject.toml (Python 3.10 has no TOML parser, and two parsers could give two keys), so a
changed comment is a new environment. Facts that the recipe does not fix are recorded in the environment's env.json: the
exact interpreter, the platform, the packages and their sources.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

# The forms of an environment in the store. `venv`: a folder with bin/python. `sealed`: one file that each node mounts.
MODES = ("venv", "sealed")
# The settings of a mode: name -> allowed values, the default first. Only values other than the default enter the key.
SETTINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "venv": {},
    "sealed": {"compression": ("zstd", "lz4"), "interpreter": ("auto", "managed", "copied", "node")},
}

# Increased when the same recipe must give another environment: every environment of the mode is then built again.
FORMAT = 1
FORMATS = {"sealed": 2}  # 2: no links in the path to the packages

_TORCH = re.compile(r"auto|cpu|xpu|cu[0-9]{2,3}|rocm[0-9]+(\.[0-9]+){1,2}")
_PYTHON = re.compile(r"3(\.[0-9]{1,2}){1,2}")
# What uv replaces in a requirement.
_EXPANDED = re.compile(r"\$\{[A-Z0-9_]+\}")
# A requirement that names an address or a path; settings of uv that decide where packages are from.
_DIRECT = re.compile(
    r"[\w.\])-]+(?:\s+@\s*[^\s\"',]*[/:][^\s\"',]*|\s*@\s*(?:(?:[a-z]+\+)?(?:https?|file|git|ssh)(?:\+[a-z]+)?:|[./~])[^\s\"',]*)",
    re.IGNORECASE,
)
_OWN_SETTINGS = re.compile(
    r"""(?mx) ^\s* \[+ \s* ["']?tool["']? \s*\.\s* ["']?uv["']? \s*\.\s* ["']?(?:sources|index|pip)\b ["']? .* $
    | ^\s* (?: (?:extra-)?index-(?:url|strategy) | find-links | no-(?:index|binary|build)[a-z-]* | exclude-newer
    | (?:constraint|override)-dependencies ) \s* = """
)
_EXTRA = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class Tree:
    """A folder that a project names as a package. `path`: relative to the project; `digest`: of its files.

    `archive`: the path of its tar.gz on this host, None if it is not here.
    """

    path: str
    digest: str
    archive: str | None = None


@dataclass(frozen=True)
class Recipe:
    """The inputs of an environment. `key`: 32 hex digits; `lock`: the user's own uv.lock, None without one.

    `settings`: each setting of the mode with its value. `trees`: the project's folders that are packages.
    """

    key: str
    pyproject: str
    lock: str | None
    extras: tuple[str, ...]
    python: str | None
    torch: str
    mode: str = "venv"
    settings: Mapping[str, str] = field(default_factory=dict)
    trees: tuple[Tree, ...] = ()


def recipe(
    pyproject_text: str,
    lock_text: str | None = None,
    extras: Sequence[str] = (),
    python: str | None = None,
    torch: str = "auto",
    mode: str = "venv",
    settings: Mapping[str, str] | None = None,
    trees: Sequence[Tree] = (),
) -> Recipe:
    """The recipe for an environment with the packages of a pyproject.toml.

    extras: names from `[project.optional-dependencies]`; their order and spelling (`a_b`, `A-B`) do not matter.
    python: a version such as "3.11", or None for the head's own python3. torch: the source of torch: `auto` (a wheel in
    a directory that pip's settings name, else the one from the index), or a build by uv's name for it (`cpu`, `cu128`,
    `rocm6.4`, `xpu`). With a uv.lock, only the lock decides, and `torch` changes nothing but the key.
    mode: one of MODES; settings: those of other modes are ignored. trees: the folders that are packages, see `Tree`.
    Raises RankzeroError for an invalid value.
    """
    if python is not None and not _PYTHON.fullmatch(python):
        raise RankzeroError(
            f'environment.python: {python!r} is not a Python version. Write it like "3.11" or "3.11.2".'
        )
    if not _TORCH.fullmatch(torch):
        raise RankzeroError(
            f"environment.torch: {torch!r} is not a build of torch. Allowed: auto, cpu, xpu, and versions such as "
            "cu128 (CUDA 12.8) or rocm6.4."
        )
    for extra in extras:
        if not _EXTRA.fullmatch(extra):
            raise RankzeroError(
                f"environment.extras: {extra!r} is not a name of optional dependencies. Write the names below "
                "[project.optional-dependencies] in pyproject.toml."
            )
    for filename, text in (("pyproject.toml", pyproject_text), ("uv.lock", lock_text)):
        no_variables(filename, text or "")
    chosen = _settings(mode, settings or {})
    names = tuple(sorted({re.sub(r"[-_.]+", "-", extra).lower() for extra in extras}))
    inputs = {
        "format": FORMATS.get(mode, FORMAT),
        "pyproject": text_sha256(pyproject_text),
        "lock": None if lock_text is None else text_sha256(lock_text),
        "extras": names,
        "python": python,
        "torch": torch,
    }
    if trees:
        inputs["trees"] = tree_rows(trees)
    # Environments of mode venv keep their key; in other modes, a new setting with its default does not change the key.
    if mode != "venv":
        changed = {name: value for name, value in chosen.items() if value != SETTINGS[mode][name][0]}
        inputs["mode"] = {"name": mode, **changed}
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode("ascii")).hexdigest()[:32]
    return Recipe(key, pyproject_text, lock_text, names, python, torch, mode, chosen, tuple(trees))


def tree_rows(trees: Sequence[Tree]) -> list[list[str]]:
    """What a key knows of trees."""
    return sorted([tree.path, tree.digest] for tree in trees)


def no_variables(filename: str, text: str) -> None:
    """Raise RankzeroError if a text of a project has a variable that uv would replace."""
    expanded = _EXPANDED.search(_plain(text))
    if expanded:
        raise RankzeroError(
            f"environment: {filename} contains {expanded[0]}, which uv replaces by that variable of the machine on "
            "which it runs, and sends away in an address. Write the value itself; credentials of a package source "
            "belong into pip.conf or uv's own settings."
        )


def only_data(made: Recipe) -> None:
    """Raise RankzeroError where a recipe asks for more than names and versions from the configured package sources.

    For the controller, which also works on projects of people who may not run anything there. With a uv.lock, only
    the lock decides.
    """
    if made.lock is not None:
        return
    text = _plain(made.pyproject)
    other = _DIRECT.search(text) or _OWN_SETTINGS.search(text)
    if other:
        raise RankzeroError(
            f"environment: pyproject.toml contains `{other[0].strip()}`: the machine that runs Ansible takes packages "
            "only by name from its own package sources (pip.conf, or uv's settings), not from an address or by a "
            "setting of the project. Run `uv lock` and commit uv.lock, or let the cluster's host fetch the packages "
            "(download: head)."
        )


def _plain(text: str) -> str:
    """A TOML text in which no escape hides a character. Python 3.9 and 3.10 have no parser: patterns have to do."""
    joined = re.sub(r"\\[ \t]*\r?\n\s*", "", text)
    return re.sub(
        r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2}))",
        lambda hit: chr(min(int(hit[1] or hit[2] or hit[3], 16), 0x10FFFF)),
        joined,
    )


def _settings(mode: str, given: Mapping[str, str]) -> dict[str, str]:
    """All settings of a mode with their values. Raises RankzeroError."""
    if mode not in MODES:
        raise RankzeroError(f"environment.mode: {mode!r} is not a build mode. Allowed: {', '.join(MODES)}.")
    chosen = {}
    for name, allowed in SETTINGS[mode].items():
        chosen[name] = given.get(name) or allowed[0]
        if chosen[name] not in allowed:
            raise RankzeroError(f"environment.{name}: {chosen[name]!r} is not one of {', '.join(allowed)}")
    return chosen


def text_sha256(text: str) -> str:
    """sha256 of a text file, normalised: without a byte order mark, line ends as \\n, exactly one at the end."""
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").rstrip("\n") + "\n"
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


def environment_path(store_root: str, key: str) -> str:
    """The path of the environment with this key; its interpreter is `bin/python` below it."""
    return f"{store_root.rstrip('/')}/environments/{key}"
