# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that the controller, the login node and the job start, each by one helper. On the first two, no
Python imports from the folder where it is started, and what runs code of others gets a list of variables.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.repository import ROOT, bullet_list, files, syntax_tree

PLACES = (
    "plugins/module_utils/",
    "plugins/plugin_utils/",
    "plugins/action/",
    "plugins/inventory/",
    "python/",
    "extensions/eda/",
)
STARTS = {f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output")}
#: Who hands on the caller's variables, and why that tells nobody anything: these programs run no code of a project, and
#: put no variable into an address. Labs are the machine's own.
WHOLE_ENVIRONMENT = {
    "extensions/eda/plugins/event_source/launches.py": "the command rankzero, as a person starts it",
    "plugins/module_utils/dataset/sources/programs.py": "rclone and rsync, with this user's own settings for them",
    "plugins/module_utils/diagnosis/lines.py": "zstd",
    "plugins/module_utils/diagnosis/prefilter.py": "grep or ripgrep",
    "plugins/module_utils/image/layers.py": "decompressors",
    "plugins/module_utils/image/squash.py": "mksquashfs",
    "plugins/module_utils/image/unsquash.py": "unsquashfs",
    "plugins/module_utils/notify/deliver.py": "sendmail",
    "plugins/module_utils/store/squash.py": "mksquashfs",
    "plugins/module_utils/submit/start_step.py": "srun, with Slurm's variables only",
    "plugins/plugin_utils/waits/reconnect.py": "ssh, for Ansible's own connection",
    "plugins/plugin_utils/screen/terminal.py": "ps, and a command of the user's terminal",
    "python/rankzero/host.py": "ssh and the shell of this machine, as Ansible's connections start them",
    "python/rankzero/mcp_server/tools.py": "the command rankzero, as a person starts it",
    "python/rankzero/playbook.py": "ansible-playbook, as a person starts it",
    "python/rankzero/sbatch/stand_in.py": "ranks, as a launcher starts them",
}


#: What starts programs for all others, on the hosts and in a job. In a job a program gets the job's own variables.
HELPER, RUNTIME = "plugins/module_utils/core/programs.py", "plugins/runtime/"
#: Who starts one by itself, and what it needs that `children.run` does not do.
BY_THEMSELVES = {
    HELPER: "it is the helper",
    "plugins/runtime/artifact/declared.py": "the artifact as its input, and limits of its memory and its files",
    "plugins/runtime/core/processes.py": "the conductor's children, which run on while it heeds signals",
    "plugins/runtime/node/sealed_mount.py": "the process of a mount, which goes on",
    "plugins/runtime/owner.py": "a program of a user may call it by its path, so it imports no other file",
    "extensions/eda/plugins/event_source/launches.py": "a process of Ansible's rulebooks, with its output in files",
    "plugins/module_utils/dataset/sources/programs.py": "the bytes of a file, as they come from rclone",
    "plugins/module_utils/diagnosis/lines.py": "the lines of a log, as they are unpacked",
    "plugins/module_utils/diagnosis/prefilter.py": "hits as they come, open files, and a limit of memory",
    "plugins/module_utils/image/engine.py": "the log of a build, in a file",
    "plugins/module_utils/image/layers.py": "a layer as it is unpacked",
    "plugins/module_utils/image/squash.py": "a tree as it is packed, and the tool's log in a file",
    "plugins/module_utils/notify/deliver.py": "it is also part of the job's runtime, which has no such room",
    "plugins/module_utils/submit/start_step.py": "a step that goes on",
    "plugins/plugin_utils/screen/terminal.py": "it is run as a program of its own",
    "plugins/plugin_utils/sources/git.py": "the beginning of a diff of any size",
    "python/rankzero/host.py": "ssh, whose messages a process keeps open that goes on",
    "python/rankzero/playbook.py": "the user's terminal",
    "python/rankzero/sbatch/stand_in.py": "it lies on the cluster, with some files beside it",
    "python/rankzero/sbatch/recorder.py": "the beginning of what a sandbox answers",
}


def started(*places: str) -> Iterator[tuple[str, ast.Call]]:
    """Each call that starts a program in these places, with its file."""
    for path in files():
        # The runtime has links to files of the other rooms, which are judged there.
        if path.startswith(places) and path.endswith(".py") and "/lab/" not in path and not (ROOT / path).is_symlink():
            for node in ast.walk(syntax_tree(path)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in {*STARTS, "children.run"}:
                    yield path, node


def whole(text: str) -> bool:
    """Whether an expression hands on all variables."""
    return text == "os.environ" or "**os.environ" in text or "environ.items()" in text or "environ.copy()" in text


def listed(call: ast.Call) -> bool:
    """Whether a program is told only some variables: the second argument of `children.run`, or `env`."""
    given = call.args[1:2] if ast.unparse(call.func) == "children.run" else []
    given += [keyword.value for keyword in call.keywords if keyword.arg == "env"]
    return bool(given) and not any(whole(ast.unparse(value)) for value in given)


def test_one_helper_starts_programs() -> None:
    """What each spelled for itself was forgotten by one: a closed input, a limit of time, the list of variables."""
    alone = {path for path, call in started(*PLACES, RUNTIME) if ast.unparse(call.func) in STARTS}
    assert not alone - set(BY_THEMSELVES), "Use children.run of core/children.py, which the runtime has, too"
    assert not set(BY_THEMSELVES) - alone, "a row that nothing needs"


def test_no_python_imports_from_the_folder_where_it_is_started() -> None:
    """`-c` and `-m` search the current folder first: a folder `venv` or `tensorboard` of a project would run there."""
    loose, seen = [], 0
    for path in files():
        if not path.startswith(PLACES) or not path.endswith(".py") or "/lab/" in path:
            continue
        for node in ast.walk(syntax_tree(path)):
            # A list of words that begins with a Python: a name, an attribute or a path.
            if not isinstance(node, ast.List) or not node.elts or isinstance(node.elts[0], ast.Constant):
                continue
            given = {each.value for each in node.elts if isinstance(each, ast.Constant)}
            program = ast.unparse(node.elts[0])
            if given & {"-c", "-m"} and ("python" in program or program == "sys.executable"):
                seen += 1
                # -P leaves the current folder out, and the user's own packages in.
                if not given & {"-I", "-P"}:
                    loose.append(f"{path}:{node.lineno}: {ast.unparse(node)[:80]}")
    assert seen > 5, "the children were not found: this test would pass on anything"
    assert all(place.startswith("plugins/module_utils/pyenv/sealed.py:") for place in loose), bullet_list(loose)


def test_a_child_gets_a_list_of_variables() -> None:
    found = list(started(*PLACES))
    assert len(found) > 15, "the children were not found: this test would pass on anything"
    loose = [f"{path}:{call.lineno}" for path, call in found if path not in WHOLE_ENVIRONMENT and not listed(call)]
    assert not loose, "Give it child_environment(...) of core/process.py as env:\n" + bullet_list(loose)
    assert set(WHOLE_ENVIRONMENT) <= {path for path, _call in found}, "a row that nothing needs"


def test_whether_a_process_lives_is_asked_in_one_way() -> None:
    """One that has ended and was not collected still has its folder in /proc: `processes.identity` sees that."""
    asks = re.compile(r"(exists|isdir)\(\s*f?[\"']/proc/|os\.kill\([^()]*, 0\)")
    found = [
        path for path in files("plugins/runtime/", ".py") if asks.search((ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not found, bullet_list(found)
