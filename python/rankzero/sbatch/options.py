# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's reader of sbatch's options, which imports nothing: it is loaded from its file, without Ansible."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

from rankzero.library import collection, importable

#: Options of which each further one adds to the ones before.
ADDED = ("container-mounts",)
#: The collection's module with all options of sbatch.
_OPTIONS = "ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options"


def _loaded() -> Any:
    path = os.path.join(collection(), "plugins", "module_utils", "spec", "sbatch", "reader.py")
    spec = importlib.util.spec_from_file_location("rankzero.sbatch.reader", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


#: The module `spec/sbatch/reader.py` of the collection.
reader = _loaded()


def launch_name(text: str, otherwise: str) -> str:
    """A name for a launch that is as close as can be to a text."""
    name: str = reader.launch_name(text, otherwise)
    return name


def name_of(script: str) -> str | None:
    """The name that a batch script gives to its job."""
    name: str | None = reader.job_name(script)
    return name


def header(script: str) -> tuple[list[tuple[int, str, str]], list[tuple[int, str]]]:
    """(line, long name, value) of the #SBATCH lines of a script, and what of them is no option, with its line."""
    importable()
    # By name: a user's strict check of a program that imports rankzero does not find the collection.
    names: frozenset[str] = importlib.import_module(_OPTIONS).SBATCH
    problems: list[tuple[int, str]] = []
    values: list[tuple[int, str, str]] = []
    rest = reader.directives(script, problems)
    while rest:
        for given in reader.options(rest, reader.SBATCH, names, problems):
            values.append((given.line, given.name, _text(given.value)))
        problems += [(line, f"#SBATCH {word}") for line, word in rest[:1]]
        del rest[:1]
    return values, problems


def of_step(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """(options of srun by long name, the words after them)."""
    rest = [(0, word) for word in words]
    values: dict[str, str] = {}
    for given in reader.options(rest, reader.SRUN, reader.SRUN.names, []):
        more = f"{values[given.name]}," if given.name in values and given.name in ADDED else ""
        values[given.name] = more + _text(given.value)
    return values, [word for _line, word in rest]


def names(text: str) -> frozenset[str]:
    """The words in a text."""
    return frozenset(text.split())


def _text(value: str | bool) -> str:
    """The value of an option; "" for one without a value."""
    return "" if value is True else str(value)
