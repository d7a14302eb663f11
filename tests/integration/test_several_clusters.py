# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's own play over two clusters: what launches, cancels, limits or removes does nothing there unasked."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import recording, warm_playbooks
from tests.repository import BIN, ROOT, load_yaml

#: Modules that change something on each of several clusters, and why that is what a play over them means.
OF_EACH = {
    "code_snapshot": "adds to a store what has a key, and starts nothing",
    "dataset": "adds to a store what has a key, and starts nothing",
    "hub_cache": "adds to a store what has a key, and starts nothing",
    "image": "adds to a store what has a key, and starts nothing",
    "uv_environment": "adds to a store what has a key, and starts nothing",
    "tracker_sync": "uploads what is there",
    "job_first": "tells each cluster what has been decided",
    "job_notify": "sends what is due, as the playbook notify does for all clusters",
    "lab_cluster": "boots the cluster itself",
}
#: Modules that change nothing on a cluster.
READING = (
    *("cluster_info", "course_checkoff", "extra_variables", "fabric_info", "fabric_plan", "fabric_report"),
    *("job_compare", "job_diagnosis", "job_info", "job_logs", "job_pull", "job_report", "job_sweep_info", "job_wait"),
    *("report_page", "usage_info"),
)
JOB = {"job": {"name": "x", "command": ["true"]}}
#: The options of the others.
OF_ONE: dict[str, dict[str, Any]] = {
    "job": JOB,
    "job_sweep": JOB,
    "job_pipeline": JOB,
    "job_script": JOB,
    "job_shell": JOB,
    "reconcile": {"jobs": "jobs"},
    "job_cancel": {"run_dir": "/nowhere"},
    "node_exclusion": {"nodes": ["node01"]},
    "store_prune": {"older_than": 1},
    "course_class": {"name": "ddp", "root": "/nowhere", "students": ["ada"]},
}


@pytest.mark.parametrize("module", sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")))
def test_each_module_says_whether_it_acts_on_one_cluster(module: str) -> None:
    held = False
    routed = load_yaml("meta/runtime.yml")["plugin_routing"]["modules"].get(module, {})
    name = routed.get("action_plugin", module).rpartition(".")[2]
    if (ROOT / "plugins" / "action" / f"{name}.py").exists():
        action = importlib.import_module(f"ansible_collections.rankzero.slurm.plugins.action.{name}").ActionModule
        held = getattr(action, "of_one_cluster", False)
    assert [held, module in OF_EACH, module in READING].count(True) == 1
    assert held == (module in OF_ONE)


def play(folder: Path, chosen: dict[str, str], *flags: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The results by module and host. An earlier play, over the first host, was checked as one of ours is."""
    tasks = [{f"rankzero.slurm.{name}": given, "ignore_errors": True} for name, given in OF_ONE.items()]
    before = {"hosts": "a", "gather_facts": False, "tasks": [{"rankzero.slurm.extra_variables": {}}]}
    mine = {"hosts": "a,b", "gather_facts": False, "vars": chosen, "tasks": tasks}
    (folder / "play.json").write_text(json.dumps([before, mine]))
    record = folder / "record"
    record.unlink(missing_ok=True)
    command = [str(BIN / "ansible-playbook"), "-i", "a,b,", "-c", "local", "play.json", *flags]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    environment = {**os.environ, "HOME": str(folder / "home"), **recording.settings(record)}
    _code, output = warm_playbooks.run(command, folder, environment)
    lines = recording.lines(record)
    assert {line["host"] for line in lines} == {"a", "b"}, output
    return {(line["action"].rpartition(".")[2], line["host"]): line["result"] for line in lines}


def test_such_a_module_does_nothing_on_two_clusters_without_a_choice(tmp_path: Path) -> None:
    for name in ("home", "jobs"):
        (tmp_path / name).mkdir()
    refused = play(tmp_path, {})
    for module in OF_ONE:
        for host in ("a", "b"):
            result = refused[module, host]
            assert "are 2 clusters: a, b" in str(result.get("msg")), (module, host, result)
    assert not list((tmp_path / "home").glob(".rankzero*"))
    # With a choice the answer is another one, which shows that no other mistake was refused above.
    chosen = play(tmp_path, {"cluster": "all"}, "--check")
    assert not [key for key, result in chosen.items() if "2 clusters" in str(result.get("msg"))]
