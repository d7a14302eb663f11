# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every module on a host whose Python is too old ends with the same sentence, and not with what that Python prints."""

from __future__ import annotations

import json
from pathlib import Path

from tests.repository import ROOT, load_yaml, run

#: Python 3.6 can answer a question, and cannot read Ansible's own part of a module.
OLD = '#!/bin/sh\ncase "$1" in -c) echo 3.6.8 ;; *) echo "SyntaxError: invalid syntax" >&2; exit 1 ;; esac\n'
#: Modules with what they must be given to reach the host, besides those of the launches (tests/cluster).
TASKS = {
    "cluster_info": {},
    "fabric_info": {},
    "fabric_plan": {},
    "job_cancel": {"name": "gpt"},
    "job_compare": {},
    "job_diagnosis": {"name": "gpt"},
    "job_first": {"name": "gpt", "clusters": ["alpha", "beta"]},
    "job_info": {},
    "job_logs": {"name": "gpt"},
    "job_notify": {},
    "job_wait": {"name": "gpt"},
    "node_exclusion": {},
    "report_page": {"dest": "page.html"},
    "store_prune": {},
    "tracker_sync": {},
    "usage_info": {},
}


def test_each_module_names_the_interpreter_and_what_to_set(tmp_path: Path) -> None:
    python = tmp_path / "python3.6"
    python.write_text(OLD)
    python.chmod(0o755)
    # Those that only the controller needs, or that run on a machine of one's own.
    with_action = {path.stem for path in (ROOT / "plugins" / "action").glob("*.py")}
    with_action |= set(load_yaml("meta/runtime.yml")["plugin_routing"]["modules"])
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")} - {"__init__", "lab_cluster"}
    assert modules <= with_action, "a module without an action answers with a traceback"
    tasks = [
        {f"rankzero.slurm.{name}": given, "register": f"of_{name}", "ignore_errors": True}
        for name, given in TASKS.items()
    ]
    shown = {
        "ansible.builtin.debug": {"msg": [f"{name}: {{{{ of_{name}.msg | default(of_{name}) }}}}" for name in TASKS]}
    }
    play = {"hosts": "all", "gather_facts": False, "tasks": [*tasks, shown]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    variables = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"login1": variables}}}))
    done = run(
        "ansible-playbook", "-i", tmp_path / "hosts.json", tmp_path / "play.yml", cwd=tmp_path,
        env={"ANSIBLE_CALLBACK_RESULT_FORMAT": "json", "ANSIBLE_PIPELINING": "1"},
    )  # fmt: skip
    told = done.stdout[done.stdout.rindex('"msg": [') :]
    for name in TASKS:
        (line,) = [line for line in told.splitlines() if f'"{name}: ' in line]
        assert f"{python} on login1 is Python 3.6.8" in line, line
        assert "needs Python 3.9 or newer" in line and "ansible_python_interpreter" in line, line
