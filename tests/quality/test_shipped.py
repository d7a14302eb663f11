# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module sends to the cluster, and what an action loads on the controller.

Ansible packs, sends and compiles each file that a module imports, every time that it runs. budget.yml names the rooms
of each module and action, and bounds the number and the size of their files. Counts only: no time is measured.
"""

from __future__ import annotations

from typing import Any

from tests.repository import ROOT, files, imported_modules, in_collection, load_yaml

KINDS = {"modules": "plugins/modules/", "actions": "plugins/action/"}


def shipped_with(path: str) -> set[str]:
    """Our files that go along with one module, by their imports: paths relative to the root."""
    found: set[str] = set()
    waiting = [path]
    while waiting:
        for _line, name in imported_modules(waiting.pop()):
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
    taken = {path, *shipped_with(path)}
    parts = [file.split("/") for file in taken]
    return {
        "rooms": sorted({part[2] for part in parts if len(part) > 3 and part[1].endswith("_utils")}),
        "files": len(taken),
        "kb": -(-sum((ROOT / file).stat().st_size for file in taken) // 1000),
    }


def test_modules_and_actions_keep_to_their_budget() -> None:
    budget = load_yaml("tests/quality/budget.yml")
    beyond = []
    for kind, folder in KINDS.items():
        names = {path.rsplit("/", 1)[1].removesuffix(".py") for path in files(folder, ".py")} - {"__init__"}
        assert names == set(budget[kind]), f"{kind}: each has a row in budget.yml, and no other"
        for name in sorted(names):
            row, now = budget[kind][name], measured(f"{folder}{name}.py")
            if now["rooms"] != row["rooms"] or now["files"] > row["files"] or now["kb"] > row["kb"]:
                beyond.append(f"{kind} {name}: {now}, and its row is {row}")
    assert not beyond, "\n".join(beyond)


def test_every_import_counts() -> None:
    """The measure sees what is imported within functions, and what that imports."""
    job = shipped_with("plugins/modules/job.py")
    assert "plugins/module_utils/run/launches.py" in job, "imported within a function of checkpoint_owner.py"
    assert measured("plugins/modules/job.py")["files"] == len(job) + 1
