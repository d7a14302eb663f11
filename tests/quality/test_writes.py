# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On the controller one file writes into the user's folders: plugin_utils/output/writer.py, which follows no link.

Tasks of playbooks and roles write there only through actions of the collection, which use that file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.repository import bullet_list, files, load_yaml, syntax_tree

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
    "plugins/plugin_utils/actions/packages.py _supplied": "an archive in a temporary folder of its own",
    "plugins/plugin_utils/screen/terminal.py main": "a terminal",
    "plugins/plugin_utils/sources/code.py pack": "an archive in a temporary folder of the caller",
    "plugins/plugin_utils/sources/dataset.py write": "pieces in a temporary folder of its own",
    "plugins/plugin_utils/sources/git.py __init__": "the view of a repository, in a temporary folder of its own",
    "plugins/plugin_utils/sources/git.py update_index": "the view of a repository, in a temporary folder of its own",
    "plugins/plugin_utils/sources/git.py _link": "the view of a repository, in a temporary folder of its own",
    "plugins/plugin_utils/sources/git.py _settings": "the view of a repository, in a temporary folder of its own",
    "plugins/plugin_utils/sources/git.py _configure": "the view of a repository, in a temporary folder of its own",
    "plugins/plugin_utils/sources/hub.py pack": "an archive in a temporary folder of its own",
    "plugins/plugin_utils/sources/kept_snapshots.py save": "a new file in the command's temporary folder",
    "plugins/plugin_utils/sources/project.py pack_trees": "archives in a temporary folder of the caller",
    "plugins/plugin_utils/sources/wheelhouse.py _kept_file": "a wheel in the user's cache",
    "plugins/plugin_utils/sources/wheelhouse.py collect": "files for uv in a temporary folder of its own",
    "python/rankzero/both_ways.py _stand_ins": "a temporary folder of its own",
    "python/rankzero/command.py main": "/dev/null",
    "python/rankzero/first.py asked": "/dev/null",
    "python/rankzero/host.py control_folder": "Ansible's own folder of connections",
    "python/rankzero/mcp_server/budget.py held": "what its launches may use, in a folder of the user's own state",
    "python/rankzero/init.py _write": "new files of a project, which follow no link",
    "python/rankzero/sbatch/jail.py _file": "a root folder in memory",
    "python/rankzero/sbatch/jail.py root": "a root folder in memory",
    "python/rankzero/sbatch/jail.py run": "a root folder in memory",
    "python/rankzero/sbatch/jail.py stand_ins": "a root folder in memory",
    "python/rankzero/sbatch/jail.py copy": "a root folder in memory",
    "python/rankzero/sbatch/jail.py written": "a root folder in memory",
    "python/rankzero/sbatch/stand_in.py note": "a new file in a folder of the launch, on the cluster",
    "python/rankzero/sbatch/stand_in.py places": "as note, before a container mounts it",
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
        if path.startswith(
            (
                *rooms,
                "plugins/plugin_utils/output/fetched.py",
                "plugins/plugin_utils/actions/",
                "plugins/plugin_utils/waits/",
            )
        )
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.path.realpath", "Path.resolve")
        # It resolves job files, which are read: those that lie outside of its folder are refused.
        if not path.startswith("python/rankzero/mcp_server/")
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


OURS = "rankzero.slurm."
#: Ansible's modules that write nothing, with or without `ansible.builtin.`.
WRITES_NOTHING = {
    "add_host", "assert", "debug", "fail", "import_playbook", "import_role", "import_tasks", "include_role",
    "include_tasks", "meta", "set_fact", "stat",
}  # fmt: skip
#: Names without a collection that mean a module, and `action`, which names one in another place.
SHORT = {
    "action", "apt", "assemble", "blockinfile", "command", "copy", "fetch", "file", "get_url", "git", "lineinfile",
    "raw", "replace", "script", "shell", "slurp", "synchronize", "template", "unarchive", "uri",
}  # fmt: skip
#: Other tasks: `file: task` -> why that writes nothing into a folder of the user's on the controller.
OTHER_TASKS = {
    "examples/cpu_ddp_lab/trainer.yml: Write the corpus": "a folder on the login node",
    **dict.fromkeys(
        (
            f"playbooks/both_ways.yml: {task}"
            for task in (
                "Make a folder for this comparison",
                "Send the stand-ins",
                "Run the script by plain sbatch",
                "End the job of plain sbatch",
                "Remove the folder of this comparison",
            )
        ),
        "a folder on the login node",
    ),
    "playbooks/plan.yml: Look for a cluster that answers": "asks Slurm, on the login node",
    "roles/lab_cluster/tasks/packages.yml: List the installed packages": "asks dpkg, on the lab's host",
    "roles/lab_cluster/tasks/packages.yml: Install what is missing": "packages of the lab's host",
    "roles/tokenizer/tasks/train.yml: Train it from the corpus": "a folder on the login node",
}
#: What makes another machine, or the controller, do a task.
ELSEWHERE = {"delegate_to", "local_action", "connection"}
#: Words of a play or a task beside the name of its module.
PLAYS = {"hosts", "roles", "tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"}


def tasks(node: Any) -> Iterator[dict[str, Any]]:
    """Every task and play of a parsed file, those in blocks included."""
    for each in node if isinstance(node, list) else ():
        if isinstance(each, dict):
            yield each
            for word in PLAYS & set(each):
                yield from tasks(each[word])


def beside_our_actions(path: str, content: Any) -> set[str]:
    """The tasks of a file that are done by other modules than ours, or somewhere else, as `file: task`."""
    found = set()
    for task in tasks(content):
        modules = [word for word in task if "." in word or word in SHORT]
        strange = [
            word
            for word in modules
            if not word.startswith(OURS) and word.removeprefix("ansible.builtin.") not in WRITES_NOTHING
        ]
        sent = ELSEWHERE & set(task) - ({"connection"} if "hosts" in task else set())
        if strange or sent:
            found.add(f"{path}: {task.get('name')}")
    return found


def test_tasks_write_on_the_controller_only_through_actions_of_ours() -> None:
    shipped = [path for folder in ("playbooks/", "roles/", "examples/") for path in files(folder, ".yml")]
    found = {name for path in shipped for name in beside_our_actions(path, load_yaml(path))}
    assert found == set(OTHER_TASKS), bullet_list(sorted(found ^ set(OTHER_TASKS)))


@pytest.mark.parametrize(
    "task",
    [
        "{name: x, ansible.builtin.copy: {content: a, dest: b}}",
        "{name: x, copy: {content: a, dest: b}}",
        "{name: x, action: copy content=a dest=b}",
        "{name: x, block: [{name: x, ansible.builtin.template: {src: a, dest: b}}]}",
        "{name: x, hosts: all, tasks: [{name: x, ansible.builtin.fetch: {src: a, dest: b}}]}",
        "{name: x, rankzero.slurm.job_logs: {run_dir: a}, delegate_to: localhost}",
        "{name: x, local_action: command true}",
        "{name: x, community.general.archive: {path: a}}",
    ],
)
def test_a_task_that_may_write_is_seen(task: str) -> None:
    assert beside_our_actions("y.yml", yaml.safe_load(f"[{task}]")) == {"y.yml: x"}
