# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On the controller one file writes into the user's folders: plugin_utils/output/writer.py, which follows no link."""

from __future__ import annotations

import ast

import pytest

from tests.repository import bullet_list, files, syntax_tree

WRITER = "plugins/plugin_utils/output/writer.py"
CONTROLLER = [
    path
    for folder in ("plugins/action/", "plugins/plugin_utils/", "plugins/callback/", "plugins/inventory/", "python/")
    for path in files(folder, ".py")
]
#: What writes by itself: `file function` -> why that is no output in a folder of the user's.
WRITES_ITSELF = {
    "plugins/action/code_snapshot.py _bring": "an archive in a temporary folder of its own",
    "plugins/action/course_class.py _sent": "an archive in a temporary folder of its own",
    "plugins/action/image.py _send": "an archive in a temporary folder of its own",
    "plugins/callback/records.py _append": "the file of the command `rankzero`, in its temporary folder",
    "plugins/plugin_utils/actions/packages.py supply": "an archive in a temporary folder of its own",
    "plugins/plugin_utils/jobs/render.py dump_bytecode": "the user's own cache, whose owner is checked",
    "plugins/plugin_utils/screen/terminal.py main": "a terminal",
    "plugins/plugin_utils/sources/code.py pack": "an archive in a temporary folder of the caller",
    "plugins/plugin_utils/sources/dataset.py write": "pieces in a temporary folder of its own",
    "plugins/plugin_utils/sources/git.py __init__": "the view of a repository, in a temporary folder of its own",
    "plugins/plugin_utils/sources/git.py _link": "the view of a repository, in a temporary folder of its own",
    "plugins/plugin_utils/sources/git.py _settings": "the view of a repository, in a temporary folder of its own",
    "plugins/plugin_utils/sources/git.py _configure": "the view of a repository, in a temporary folder of its own",
    "plugins/plugin_utils/sources/hub.py pack": "an archive in a temporary folder of its own",
    "plugins/plugin_utils/sources/kept_snapshots.py save": "a new file in the command's temporary folder",
    "plugins/plugin_utils/sources/provenance.py _both_sides": "copies of files in a temporary folder of its own",
    "plugins/plugin_utils/sources/provenance.py _write": "copies of files in a temporary folder of its own",
    "plugins/plugin_utils/sources/wheelhouse.py _resolve": "files for uv in a temporary folder of its own",
    "python/rankzero/command.py main": "/dev/null",
    "python/rankzero/init.py _write": "new files of a project, which follow no link",
    "python/rankzero/playbook.py play": "a temporary folder of its own",
}
#: Writes by module and name. `open` and `os.open` count by their mode.
WRITING = {
    "os": {"replace", "rename", "renames", "mkdir", "makedirs", "link", "symlink", "unlink", "remove", "truncate"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "unpack_archive"},
    "tempfile": {"mkstemp", "NamedTemporaryFile"},
    "tarfile": {"extractall"},
}
METHODS = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"}
#: Functions of module_utils that write a file at a path; they follow links on the way to it.
OF_LIBRARY = {"write_text", "write_durably", "publish_files"}


def writes(call: ast.Call) -> bool:
    """Whether a call makes, changes, moves or removes a file or a folder."""
    name = ast.unparse(call.func)
    module, _dot, last = name.rpartition(".")
    if name in ("open", "io.open", "tarfile.open", "gzip.open"):
        modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
        return any(not (isinstance(mode, ast.Constant) and not set("wax+") & set(str(mode.value))) for mode in modes)
    if name == "os.open":
        return any(flag in ast.unparse(call.args[1]) for flag in ("WRONLY", "RDWR", "CREAT"))
    return last in WRITING.get(module, ()) or last in METHODS or (not module and last in OF_LIBRARY)


def writers(path: str, tree: ast.AST) -> set[str]:
    """The functions of a file that write by themselves."""
    return {
        f"{path} {function.name}"
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and writes(node)
    }


def test_one_file_writes_on_the_controller() -> None:
    found = {name for path in CONTROLLER if path != WRITER for name in writers(path, syntax_tree(path))}
    assert found == set(WRITES_ITSELF), bullet_list(sorted(found ^ set(WRITES_ITSELF)))


def test_no_output_is_resolved() -> None:
    """`realpath` of an output follows what somebody else has put there. What is read may be resolved."""
    rooms = ("plugins/plugin_utils/page/", "plugins/plugin_utils/screen/", "plugins/action/", "python/")
    found = [
        f"{path}:{node.lineno}"
        for path in CONTROLLER
        if path.startswith((*rooms, "plugins/plugin_utils/output/fetched.py", "plugins/plugin_utils/actions/"))
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.path.realpath", "Path.resolve")
    ]
    assert not found, bullet_list(found)


@pytest.mark.parametrize(
    "line",
    [
        "open(p, 'w')",
        "open(p, mode='ab')",
        "open(p, mode)",
        "os.open(p, os.O_WRONLY)",
        "os.replace(a, b)",
        "os.makedirs(a)",
        "path.write_text(x)",
        "write_text(p, x)",
        "tempfile.mkstemp(dir=d)",
        "shutil.copy2(a, b)",
    ],
)
def test_a_write_is_seen(line: str) -> None:
    assert writers("x.py", ast.parse(f"def f():\n    {line}\n")) == {"x.py f"}


@pytest.mark.parametrize("line", ["open(p)", "open(p, 'rb')", "os.open(p, os.O_RDONLY)", "os.path.join(a, b)"])
def test_a_read_is_no_write(line: str) -> None:
    assert not writers("x.py", ast.parse(f"def f():\n    {line}\n"))
