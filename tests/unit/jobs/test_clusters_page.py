# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories in docs/clusters.md: each has the group, and settings that a job accepts."""

from __future__ import annotations

import re
from typing import Any

import yaml

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from tests.repository import ROOT, read

#: Below `hosts`, next to Ansible's own variables.
OURS = "launch_cluster"


def inventories() -> list[dict[str, Any]]:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", read("docs/clusters.md"), re.DOTALL | re.MULTILINE)
    return [yaml.safe_load(block) for block in blocks]


def test_the_inventories_on_the_page_are_accepted() -> None:
    page = read("docs/clusters.md")
    tools = page[page.index("## Clusters built") :].count("\n### ")
    assert len(inventories()) == tools + 1 and tools > 5
    for inventory in inventories():
        assert list(inventory) == ["slurm_login"]
        for host, variables in inventory["slurm_login"]["hosts"].items():
            assert all(name.startswith("ansible_") or name == OURS for name in variables), host
            job = read_job({"name": "x", "command": ["x"]}, variables[OURS], {}, {}, str(ROOT))
            assert job.spec.resources.nodes == 1 and all(variables[OURS][root] for root in ("state_root", "store_root"))
