# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a project that belong to launching and not to the program. They are left out of the code by default.

The files are recognised by what they are, not by how this command was called: the same folder has the same digest with
another inventory, from another working directory and in CI. A file that is not recognised stays in the code.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import MOST_BYTES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import small_text
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.outputs import FETCHED

# At the top of the folder. Ansible knows it by this name only.
CONFIGURATION = "ansible.cfg"
# Next to an inventory.
VARIABLES = ("group_vars", "host_vars")
_ENDINGS = (".yml", ".yaml", ".json", ".ini")
# The variable of the playbooks that a file for `-e @FILE` sets, such as a student's.
_SETTINGS = "launch_cluster"
# Inventories in INI format often have no ending.
_NAMES = ("hosts", "inventory")
_SPEC_KEYS = frozenset(field.name for field in fields(LaunchSpec)) | {"$schema"}
_PROGRAMS = ("command", "shell", "script")
_KEY = re.compile(r"""^(?:"([^"\n]+)"|'([^'\n]+)'|([A-Za-z_$][\w$-]*))\s*:(?:\s|$)""", re.MULTILINE)
_INVENTORY = re.compile(
    r"^\s*\[?[\"']?slurm_login[\"']?(?:\]|:(?:\s|$))|^plugin:\s*rankzero\.slurm\.nodes\s*$", re.MULTILINE
)
_SEPARATORS = re.compile(r"[\s=:,;'\"(){}\[\]]+")


def launch_files(
    src: str, paths: Collection[str], words: Sequence[str] = (), written: Collection[str] = ()
) -> frozenset[str]:
    """Return those of the code's `paths` below `src` that belong to launching.

    `words`: the program's command and variables; files that they name are the program's. `written`: outputs.outputs.
    """
    texts = _texts(src, paths)
    keys = {path: _keys(text) for path, text in texts.items()}
    specs = {path for path in texts if _is_spec(keys[path])}
    pipelines = {path for path in texts if keys[path] == {"jobs"} and _names_any(path, texts[path], specs)}
    inventories = {path for path in texts if _INVENTORY.search(texts[path])} - specs
    beside = tuple(
        f"{folder}/{name}/" if folder else f"{name}/"
        for folder in {os.path.dirname(path) for path in inventories}
        for name in VARIABLES
    )
    settings = {path for path in texts if _SETTINGS in keys[path]}
    belonging = specs | pipelines | inventories | settings | ({CONFIGURATION} & set(paths)) | set(written)
    belonging |= {path for path in paths if FETCHED.match(path) or (beside and path.startswith(beside))}
    named = _named(words)
    return frozenset(path for path in belonging if not named(path))


def _texts(src: str, paths: Collection[str]) -> Mapping[str, str]:
    """The texts of the files that may be a job file or an inventory, by path."""
    texts = {}
    for path in paths:
        if path.endswith(_ENDINGS) or os.path.basename(path) in _NAMES:
            text = small_text(os.path.join(src, path), MOST_BYTES)
            if text is not None:
                texts[path] = text
    return texts


def _keys(text: str) -> frozenset[str]:
    """The keys of the map that a file contains, in JSON or one line each."""
    if not text.lstrip().startswith("{"):
        return frozenset("".join(parts) for parts in _KEY.findall(text))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(document) if isinstance(document, dict) else frozenset()


def _is_spec(keys: frozenset[str]) -> bool:
    """Whether a file with these keys is a job spec: it has a name and a program and nothing else than a spec may have.
    The manifest of a launch is a job spec as well.
    """
    spec = keys <= _SPEC_KEYS and "name" in keys and not keys.isdisjoint(_PROGRAMS)
    return spec or "rankzero_launch" in keys


def _names_any(path: str, text: str, specs: Collection[str]) -> bool:
    """Whether a pipeline file names a job spec. Its paths are relative to its own folder."""
    folder = os.path.dirname(path)
    return any(os.path.normpath(os.path.join(folder, word)) in specs for word in _SEPARATORS.split(text) if word)


def _named(words: Sequence[str]) -> Callable[[str], bool]:
    """A test for paths: whether one of the words contains the path, or the path of a folder around it."""
    mentioned = {os.path.normpath(part) for word in words for part in _SEPARATORS.split(word) if part}

    def named(path: str) -> bool:
        parts = path.split("/")
        around = {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if FETCHED.match(path):
            # A program that writes to the folder of the fetched logs does not read them.
            around = {folder for folder in around if FETCHED.match(f"{folder}/")}
        return not mentioned.isdisjoint(around)

    return named
