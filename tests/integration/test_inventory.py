# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin as Ansible runs it, with a scontrol that repeats what a real one said (recorded)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.slurm.recorded import DATA

ANSWER = DATA / "24.11" / "nodes.txt"


class Site:
    """A folder with a configuration file and a scontrol that counts its calls."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, root / "calls"
        self.answer = f"cat {ANSWER}"
        self.scontrol = root / "scontrol"

    def ask(self, *lines: str, command: str | None = None, name: str = "lab.slurm_nodes.yml") -> tuple[Any, str]:
        """What ansible-inventory says of these lines of configuration: (the inventory or None, its messages)."""
        self.scontrol.write_text(f'#!/bin/bash\necho "$*" >> {self.calls}\n{self.answer}\n', encoding="utf-8")
        self.scontrol.chmod(0o755)
        head = ["plugin: rankzero.slurm.nodes", f"command: [{command or self.scontrol}]"]
        (self.root / name).write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
        done = subprocess.run(
            ["ansible-inventory", "-i", str(self.root / name), "--list"],
            env={**os.environ, "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true", "ANSIBLE_NOCOLOR": "1"},
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(done.stdout) if done.returncode == 0 else None, " ".join(done.stderr.split())

    def asked(self) -> list[str]:
        return self.calls.read_text(encoding="utf-8").splitlines() if self.calls.exists() else []


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_hosts_groups_and_variables_by_one_question(site: Site) -> None:
    found, said = site.ask(
        "compose: {ansible_host: slurm_address}",
        "groups: {ready: slurm_available and slurm_gpus > 1}",
        "keyed_groups: [{key: slurm_cpus | string, prefix: cpus}]",
    )
    assert found, said
    assert site.asked() == ["show node"]
    hosts = {name: group["hosts"] for name, group in found.items() if "hosts" in group}
    everyone = [f"node{number:02d}" for number in range(1, 9)]
    assert hosts["partition_batch"] == hosts["gpu_h100"] == hosts["slurm_nodes"] == hosts["cpus_4"] == everyone
    assert hosts["state_allocated"] == ["node02"]
    assert hosts["flag_drain"] == ["node03", "node04"]
    assert hosts["feature_ib"] == hosts["feature_rack_1"] == ["node01", "node02", "node03"]
    assert hosts["ready"] == ["node01", "node02", "node06", "node07", "node08"]
    variables = found["_meta"]["hostvars"]["node03"]
    assert variables["ansible_host"] == variables["slurm_address"]
    assert (variables["slurm_gpus"], variables["slurm_gpu_types"]) == (2, [{"__ansible_unsafe": "h100"}])


def test_what_slurm_says_is_text_and_no_template(site: Site) -> None:
    """A reason is what an administrator typed."""
    site.answer = "echo NodeName=n1; echo ' State=DOWN'; echo ' Reason={{ 6 * 7 }}'"
    found, said = site.ask("compose: {why: slurm_reason}")
    assert found, said
    assert found["_meta"]["hostvars"]["n1"]["why"] == {"__ansible_unsafe": "{{ 6 * 7 }}"}


def test_some_partitions_and_some_kinds_of_groups(site: Site) -> None:
    found, said = site.ask("partitions: [urgent]", "group_by: [state]")
    assert found, said
    assert found["slurm_nodes"]["hosts"] == ["node01"]
    assert sorted(set(found) - {"_meta", "all", "ungrouped"}) == ["slurm_nodes", "state_idle"]


def test_a_second_look_is_answered_by_the_cache(site: Site) -> None:
    cache = ["cache: true", "cache_plugin: ansible.builtin.jsonfile", f"cache_connection: {site.root}/cache"]
    first, _ = site.ask(*cache)
    second, _ = site.ask(*cache)
    assert first and first == second
    assert len(site.asked()) == 1


@pytest.mark.parametrize(
    ("lines", "answer", "message"),
    [
        (
            ["partitions: [gpus]"],
            None,
            "partitions: no nodes in gpus; partitions with nodes: batch, short, small, urgent",
        ),
        (["group_by: [rack]"], None, "group_by"),
        (["timeout: 1"], "exec sleep 20", "has not answered within 1 s (timeout)"),
        ([], "echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact slurm"),
        ([], "true", "it printed no node name"),
    ],
)
def test_what_cannot_be_answered_is_an_error(site: Site, lines: list[str], answer: str | None, message: str) -> None:
    site.answer = answer or site.answer
    found, said = site.ask(*lines)
    assert found is None
    assert message in said


def test_a_command_that_is_not_there_is_named(site: Site) -> None:
    found, said = site.ask(command="/nowhere/scontrol")
    assert found is None
    assert "command: '/nowhere/scontrol show node' cannot be run: No such file or directory; name the words" in said


def test_a_file_of_another_name_is_not_the_plugins(site: Site) -> None:
    found, _ = site.ask(name="lab.yml")
    assert found is None
    assert site.asked() == []
