# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a launch sends to the cluster: each file that module `job` imports is packed, sent and compiled every time."""

from __future__ import annotations

from tests.repository import ROOT, files, imported_modules, in_collection


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
