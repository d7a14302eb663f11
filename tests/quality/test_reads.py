# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a launch has left is read below a folder and through no link: `Beneath` in module_utils/core/safe_read.py.

On the cluster the folder is the state root (`RunDirectory.shown`), and on the controller that of the fetched logs
(`Place.files`).
"""

from __future__ import annotations

import ast

import pytest

from tests.repository import bullet_list, files, syntax_tree

#: Whose files come from a launch.
OF_LAUNCHES = (
    "course", "diagnosis", "explain", "logs", "metrics", "monitoring", "notify", "report", "run", "trackers", "usage",
    "watch",
)  # fmt: skip
ROOMS = [
    *(f"plugins/module_utils/{room}/" for room in OF_LAUNCHES),
    *(f"plugins/plugin_utils/{room}/" for room in ("actions", "output", "page", "screen", "waits")),
    "plugins/action/",
    "plugins/modules/",
    "plugins/callback/",
]
#: What opens a file by its path: `file function` -> why that is no file that a launch has left.
OPENS_ITSELF = {
    "plugins/action/code_snapshot.py _bring": "an archive in a temporary folder of its own",
    "plugins/action/course_class.py _sent": "an archive in a temporary folder of its own",
    "plugins/action/image.py _send": "an archive in a temporary folder of its own",
    "plugins/callback/records.py _append": "the file of the command `rankzero`, in its temporary folder",
    "plugins/module_utils/course/folders.py read": "the record of a class, whose owner is checked",
    "plugins/module_utils/diagnosis/lines.py opened": "unpacks an open file",
    "plugins/module_utils/logs/archive.py write_archive": "a new file in a folder of its own",
    "plugins/module_utils/logs/final.py packed": "an archive in a temporary folder of its own",
    "plugins/module_utils/notify/deliver.py _write": "writes, in a folder of this user's",
    "plugins/module_utils/notify/deliver.py address_in_file": "the file that the user has named",
    "plugins/module_utils/trackers/sync.py _key": "the file that the user has named",
    "plugins/module_utils/run/directory.py _append": "the journal of a run of this user's, through no link",
    "plugins/module_utils/run/search/history.py _write": "writes, in a state root of this user's",
    "plugins/module_utils/watch/budget.py _own_folder": "a folder of this user's, through no link",
    "plugins/module_utils/watch/remote_poll.py _bounded": "a file that is open already",
    "plugins/module_utils/watch/remote_poll.py _opened": "the artifact of a run of this user's, who may have linked it",
    "plugins/module_utils/watch/remote_poll.py state_of": "a folder through no link, whose files are not read",
    "plugins/plugin_utils/waits/checker.py _gather": "a file of the collection",
    "plugins/plugin_utils/actions/fetch.py _carry": "an archive in a temporary folder of its own",
    "plugins/plugin_utils/actions/packages.py _supplied": "an archive in a temporary folder of its own",
    "plugins/plugin_utils/output/writer.py opened": "where links begin to matter, on the way to the results",
    "plugins/plugin_utils/page/render.py _file": "a file of the collection",
    "plugins/plugin_utils/screen/terminal.py main": "a terminal",
}
#: Functions that read logs at paths, and get what opens these.
WITH_OPENER = {"scan.scan", "all_facts", "checklist.all_facts", "ends_by_rank", "checklist.ends_by_rank", "read_ends"}
READING = {"open", "io.open", "os.open", "gzip.open", "tarfile.open", "regular", "unlinked", "named_text"}
READING |= {"content_of", "text_of", "json_of", "parsed_json", "read_json", "last_text"}
METHODS = {"read_text", "read_bytes"}


def opens(call: ast.Call) -> bool:
    """Whether a call opens a file by its path, or reads logs without saying what opens them."""
    name = ast.unparse(call.func)
    if name == "os.open":
        return not any(word.arg == "dir_fd" for word in call.keywords)
    if name in WITH_OPENER:
        return "opener" not in ast.unparse(call) and ".at" not in ast.unparse(call)
    return name in READING or (isinstance(call.func, ast.Attribute) and call.func.attr in METHODS)


def openers(path: str, tree: ast.AST) -> set[str]:
    """The functions of a file that open files by themselves."""
    return {
        f"{path} {function.name}"
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and opens(node)
    }


def test_what_a_launch_left_is_opened_below_a_folder() -> None:
    there = {name for room in ROOMS for path in files(room, ".py") for name in openers(path, syntax_tree(path))}
    assert there == set(OPENS_ITSELF), bullet_list(sorted(there ^ set(OPENS_ITSELF)))


@pytest.mark.parametrize(
    "line",
    ["open(p)", "os.open(p, os.O_RDONLY)", "regular(p)", "unlinked(p)", "path.read_text()", "all_facts(paths)"],
)
def test_what_opens_by_a_path_is_seen(line: str) -> None:
    assert openers("x.py", ast.parse(f"def f():\n    {line}\n")) == {"x.py f"}


@pytest.mark.parametrize(
    "line", ["logs.at(p)", "root.stream(n)", "os.open(n, 0, dir_fd=d)", "all_facts(paths, opener=logs.at)"]
)
def test_what_opens_below_a_folder_is_fine(line: str) -> None:
    assert not openers("x.py", ast.parse(f"def f():\n    {line}\n"))
