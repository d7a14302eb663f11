# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module sends to the cluster, and what an action loads on the controller.

Ansible packs, sends and compiles each file that a module imports, every time that it runs. budget.yml names the rooms
of each module and action, and bounds the number of their files; no file is longer than test_repository.py allows. Of an
action only what is loaded with it counts: an import within a function waits until it is needed. No time is measured.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.repository import ROOT, files, imported_modules, in_collection, load_yaml, syntax_tree

KINDS = {"modules": "plugins/modules/", "actions": "plugins/action/"}


def loaded_modules(path: str) -> Iterator[tuple[int, str]]:
    """As imported_modules, without what stands in a function or under TYPE_CHECKING."""
    lines = set(_lines_run_at_once(syntax_tree(path)))
    return ((line, name) for line, name in imported_modules(path) if line in lines)


def _lines_run_at_once(node: ast.AST) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child.lineno
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from _lines_run_at_once(child)


def shipped_with(path: str, imports: Callable[[str], Iterable[tuple[int, str]]] = imported_modules) -> set[str]:
    """Our files that go along with one module, by their imports: paths relative to the root."""
    found: set[str] = set()
    waiting = [path]
    while waiting:
        for _line, name in imports(waiting.pop()):
            ours = in_collection(name)
            file = f"{ours.replace('.', '/')}.py" if ours else ""
            if file and file not in found and (ROOT / file).is_file():
                found.add(file)
                waiting.append(file)
    return found


def test_a_launch_does_not_send_what_only_the_controller_thinks() -> None:
    """Spec, plan and key are settled before the call. Only what each container runtime needs on a node goes along."""
    shipped = shipped_with("plugins/modules/job.py")
    assert "plugins/module_utils/submit/launch.py" in shipped
    thinking = {
        path.removeprefix("plugins/module_utils/") for path in shipped if path.split("/")[2] in ("spec", "plan")
    }
    containers = {
        path.removeprefix("plugins/module_utils/")
        for path in files("plugins/module_utils/spec/containers/", ".py")
        if not path.endswith("__init__.py")
    }
    assert thinking == containers


def measured(path: str) -> dict[str, Any]:
    """What one plugin takes along, itself included, as budget.yml says it."""
    taken = {path, *shipped_with(path, loaded_modules if path.startswith(KINDS["actions"]) else imported_modules)}
    parts = [file.split("/") for file in taken]
    return {
        "rooms": sorted({part[2] for part in parts if len(part) > 3 and part[1].endswith("_utils")}),
        "files": len(taken),
    }


def test_modules_and_actions_keep_to_their_budget() -> None:
    budget = load_yaml("tests/quality/budget.yml")
    beyond = []
    for kind, folder in KINDS.items():
        names = {path.rsplit("/", 1)[1].removesuffix(".py") for path in files(folder, ".py")} - {"__init__"}
        assert names == set(budget[kind]), f"{kind}: each has a row in budget.yml, and no other"
        for name in sorted(names):
            row, now = budget[kind][name], measured(f"{folder}{name}.py")
            if now["rooms"] != row["rooms"] or now["files"] > row["files"]:
                beyond.append(f"{kind} {name}: {now}, and its row is {row}")
    assert not beyond, "\n".join(beyond)


def test_every_import_counts() -> None:
    """The measure sees what is imported within functions, and what that imports."""
    job = shipped_with("plugins/modules/job.py")
    within_a_function = "plugins/plugin_utils/jobs/built_image.py"
    assert within_a_function in shipped_with("plugins/action/job.py")
    assert measured("plugins/modules/job.py")["files"] == len(job) + 1


def test_an_action_loads_what_one_launch_needs() -> None:
    """Sweeps, pipelines, conda, images and sets of packages belong to other launches than a plain one."""
    loaded = shipped_with("plugins/action/job.py", loaded_modules)
    assert "plugins/plugin_utils/jobs/prepare.py" in loaded
    others = {
        "plugins/module_utils/image/containerfile.py",
        "plugins/module_utils/plan/sweep.py",
        "plugins/module_utils/pyenv/conda.py",
        "plugins/module_utils/pyenv/packages/package_set.py",
        "plugins/plugin_utils/jobs/folder.py",
        "plugins/plugin_utils/jobs/pipeline.py",
        "plugins/plugin_utils/jobs/sweep.py",
        "plugins/plugin_utils/actions/launch_many.py",
        "plugins/module_utils/reconcile/plan.py",
        "plugins/module_utils/submit/many/launches.py",
    }
    assert all((ROOT / path).is_file() for path in others) and not others & loaded
    assert "plugins/plugin_utils/jobs/built_image.py" in shipped_with("plugins/action/job.py") - loaded


def test_a_module_takes_what_its_work_needs() -> None:
    """A launch finds its run directory by its key, and submits one job. A wait and a fetch submit nothing."""
    others = {
        "job": (
            "run/search/find.py",
            "submit/sweep.py",
            "submit/many/batch.py",
            "reconcile/plan.py",
            "logs/archive.py",
        ),
        "job_wait": ("submit/launch.py", "diagnosis/scan.py", "store/stores.py"),
        "job_logs": ("submit/launch.py", "diagnosis/scan.py", "watch/poll.py"),
    }
    wrong = []
    for name, paths in others.items():
        taken = shipped_with(f"plugins/modules/{name}.py")
        full = [f"plugins/module_utils/{path}" for path in paths]
        assert all((ROOT / path).is_file() for path in full)
        wrong += [f"{name}: {path}" for path in full if path in taken]
    assert not wrong, wrong
