# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reader takes in at once: folders of at most fifteen files, functions of at most 60 lines and five parameters.

A function that needs more stands in the list of exceptions with its reason; a line there that nothing needs any more
fails as well. Lines of files are a matter of test_repository.py.
"""

from __future__ import annotations

import ast
import collections

from tests.repository import bullet_list, files, syntax_tree

MOST_FILES, MOST_LINES, MOST_PARAMETERS = 20, 60, 5
ROOMS = ("plugins/module_utils/", "plugins/plugin_utils/", "plugins/runtime/")
CODE = files("plugins/", ".py")
#: Folders with one file for each of a kind, whose number is that of the kinds.
ONE_FILE_A_KIND = {"plugins/module_utils/plan/aspects"}

#: `file function` -> why it takes more parameters.
MORE_PARAMETERS = {
    "module_utils/spec/fields.py option": "a row of the field table: each column is named where the row is written",
    "module_utils/core/children.py run": "how a program is run: most have defaults",
    "module_utils/core/programs.py run": "how a program is run: most have defaults",
    "runtime/core/children.py run": "how a program is run: most have defaults",
    "module_utils/store/http.py open_url": "how a URL is opened: most have defaults",
    "module_utils/store/snapshot.py ensure_snapshot": "the options of module code_snapshot",
    "module_utils/prune/prune.py prune": "the options of module store_prune",
    "module_utils/submit/shell_session.py prepare": "the fields of the request of module job_shell",
    "module_utils/logs/archive.py plan": "the options of module job_logs",
    "module_utils/pyenv/recipe.py recipe": "everything that decides an environment's key",
    "plugin_utils/jobs/prepare.py prepare": "what a launch, an element of a sweep and a stage of a pipeline differ in",
    "plugin_utils/waits/reconnect.py retried": "clock and sleep are those of a test",
    "plugin_utils/screen/progress.py __init__": "pace, bar and width are those of a test",
    "plugin_utils/screen/launch_rows.py __init__": "the clocks are those of a test",
    "module_utils/submit/admission/checks.py __init__": "the clock is that of a test",
    "module_utils/store/stores.py locate": "the ways to look at what a store has, which differ by kind",
    "module_utils/store/stores.py check": "the ways to look at what a store has, which differ by kind",
    "module_utils/course/checkoff.py _sheet": "what a sheet is made of",
    "module_utils/plan/container.py entry": "what of a plan the container shows",
    "module_utils/plan/variables.py variables": "what of a plan the variables come from",
    "module_utils/prune/plan.py decide": "all that is known: the decision is pure",
    "module_utils/slurm/associations.py over_limits": "all that is known: the decision is pure",
    "module_utils/submit/admission/limits.py _judge_account": "all that is known: the decision is pure",
    "module_utils/submit/admission/limits.py _closed": "all that is known: the decision is pure",
    "module_utils/submit/refs.py resolve": "a request and what it is settled against",
    "module_utils/submit/start_step.py step_argv": "the words of one command",
    "module_utils/pyenv/uv/resolve.py resolve": "the words of one command",
    "module_utils/store/work/progress.py begin": "what is known of a phase: all have defaults",
    "module_utils/hub/ensure.py _result": "the fields of the result",
    "runtime/core/processes.py start": "how a program is started: most have defaults",
    "runtime/node/node_steps.py words": "the words of one command",
    "runtime/node/reports.py amend": "the fields of a report that may change: most have defaults",
    "runtime/node/sealed_steps.py data_packed": "the words of the script's own line",
    "runtime/preflight/judge.py decide": "all that is known: the decision is pure",
}


def functions(path: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(syntax_tree(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without `self` and `cls`."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_no_folder_has_more_files_than_a_reader_takes_in() -> None:
    count = collections.Counter(
        path.rpartition("/")[0]
        for path in files("plugins/")
        if path.startswith(ROOMS) and path.endswith((".py", ".sh")) and "__init__" not in path
    )
    assert sum(count.values()) > 100, "the files were not found: this test would pass on anything"
    crowded = [
        f"{folder}: {number}"
        for folder, number in count.items()
        if number > MOST_FILES and folder not in ONE_FILE_A_KIND
    ]
    assert not crowded, bullet_list(crowded)


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {
        f"{path}:{one.lineno} {one.name}": (one.end_lineno or one.lineno) - one.lineno + 1
        for path in CODE
        for one in functions(path)
    }
    assert len(lengths) > 1000, "the functions were not found: this test would pass on anything"
    long = [f"{name}: {lines} lines" for name, lines in lengths.items() if lines > MOST_LINES]
    assert not long, bullet_list(long)


def test_no_function_takes_more_than_five_parameters() -> None:
    many = {
        f"{path.removeprefix('plugins/')} {one.name}"
        for path in CODE
        for one in functions(path)
        if parameters(one) > MOST_PARAMETERS
    }
    assert many == set(MORE_PARAMETERS), bullet_list(sorted(many ^ set(MORE_PARAMETERS)))
