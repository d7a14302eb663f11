# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has become of a launch is said in one set of words, which run/standings.py declares (docs/glossary.md)."""

from __future__ import annotations

import ast
import dataclasses
import json
import re

from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import STANDINGS
from tests.repository import bullet_list, files, read, syntax_tree

DECLARED = "plugins/module_utils/run/standings.py"
#: Rooms whose files speak of what else may wait, run or fail: deliveries, folders, uploads, parts of an hour, a lab.
OTHERS = ("notify/", "trackers/", "usage/", "lab/", "fabric/", "course/", "diagnosis/", "dataset/", "runtime/", "live/")
OTHERS += ("notices.py",)
#: The keys by which results said what had become of a launch, each in words of its own.
KEYS = {"launch_state", "verdict"}


def sources() -> list[str]:
    paths = [*files("plugins/", ".py"), *files("python/rankzero/", ".py")]
    return [path for path in paths if path != DECLARED and not any(room in path for room in OTHERS)]


def collections_of(tree: ast.AST) -> list[tuple[int, set[str]]]:
    """The texts of each collection that a module declares by itself: a tuple, a list, a set, a dictionary's keys."""
    found = []
    for node in ast.walk(tree):
        parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        words = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        found.append((getattr(node, "lineno", 0), words))
    return found


def test_no_other_file_declares_words_for_the_standing_of_a_launch() -> None:
    """Two of them side by side are such a declaration; it imports those of run/standings.py in place of that."""
    again = [
        f"{path}:{line}: {', '.join(sorted(words))}"
        for path in sources()
        for line, texts in collections_of(syntax_tree(path))
        if len(words := texts & set(STANDINGS)) > 1
    ]
    assert not again, bullet_list(again)


def test_a_launch_has_one_standing_and_slurms_state_beside_it() -> None:
    names = {field.name for field in dataclasses.fields(LaunchReport)}
    assert {"standing", "slurm_state"} <= names and not names & {"state", "status", *KEYS}
    texts = {path: read(path) for path in [*files("plugins/modules/job", ".py"), *files("plugins/action/job", ".py")]}
    left = [
        f"{path}: {key}" for path, text in texts.items() for key in KEYS if re.search(rf'(?m)^ *{key}:|"{key}"', text)
    ]
    assert not left, bullet_list(left)


def test_the_glossary_and_the_documents_have_each_standing() -> None:
    (row,) = (line for line in read("docs/glossary.md").splitlines() if line.startswith("| **standing** |"))
    assert [word for word in STANDINGS if f"`{word}`" not in row] == []
    described = " ".join(read("plugins/modules/job_info.py").split())
    assert [word for word in STANDINGS if f"V({word})" not in described] == []
    for verb in ("run", "ls"):
        launch = json.loads(read(f"python/rankzero/schemas/{verb}-1.json"))["properties"]["launches"]["items"]
        assert launch["properties"]["status"]["properties"]["standing"]["enum"] == list(STANDINGS)
