# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that the controller and the login node start: no Python imports from the folder where it is started, and
what runs code of others gets a list of variables.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.repository import bullet_list, files, syntax_tree

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
    "plugins/plugin_utils/actions/reconnect.py": "ssh, for Ansible's own connection",
    "plugins/plugin_utils/screen/terminal.py": "ps, and a command of the user's terminal",
    "python/rankzero/playbook.py": "ansible-playbook, as a person starts it",
}


def started() -> Iterator[tuple[str, ast.Call]]:
    """Each call that starts a program, with its file."""
    for path in files():
        if path.startswith(PLACES) and path.endswith(".py") and "/lab/" not in path:
            for node in ast.walk(syntax_tree(path)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in STARTS:
                    yield path, node


def whole(text: str) -> bool:
    """Whether an expression hands on all variables."""
    return text == "os.environ" or "**os.environ" in text or "environ.items()" in text or "environ.copy()" in text


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
                if "-I" not in given:
                    loose.append(f"{path}:{node.lineno}: {ast.unparse(node)[:80]}")
    assert seen > 5, "the children were not found: this test would pass on anything"
    assert all(place.startswith("plugins/module_utils/pyenv/sealed.py:") for place in loose), bullet_list(loose)


def test_a_child_gets_a_list_of_variables() -> None:
    found = list(started())
    assert len(found) > 15, "the children were not found: this test would pass on anything"
    loose = [
        f"{path}:{call.lineno}"
        for path, call in found
        if path not in WHOLE_ENVIRONMENT
        and (
            "env" not in {keyword.arg for keyword in call.keywords}
            or any(keyword.arg == "env" and whole(ast.unparse(keyword.value)) for keyword in call.keywords)
        )
    ]
    assert not loose, "Give it child_environment(...) of core/edges.py as env:\n" + bullet_list(loose)
    assert set(WHOLE_ENVIRONMENT) <= {path for path, _call in found}, "a row that nothing needs"
