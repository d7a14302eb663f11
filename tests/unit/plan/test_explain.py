# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why is it set: the table of a job's variables, and that of a fabric beside the site's own files."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import explain, fabric_report
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from tests.plans import plan

TODAY = date(2026, 11, 21)


def explained(conda: bool = False, **data: Any) -> dict[str, dict[str, str]]:
    merged = merge([Layer("job.yml", {"name": "x", "command": ["x"], **data})])
    made = plan(
        validated(merged),
        merged,
        code_key="c",
        environment_key=None,
        runtime_key="r",
        state_root="/s",
        store_root="/t",
        conda=conda,
    )
    variables = explain.rows(made, merged)
    assert len({row["name"] for row in variables}) == len(variables), "each name once"
    assert all(row["reason"] and row["source"] and row["set_by"] for row in variables)
    assert [line.split()[0] for line in explain.table(variables)] == [row["name"] for row in variables]
    return {row["name"]: row for row in variables}


def test_what_is_known_on_the_node_only_is_said() -> None:
    rows = explained(resources={"nodes": 2, "gpus_per_node": 4}, launcher={"port": 29500})
    assert (rows["WORLD_SIZE"]["value"], rows["MASTER_PORT"]["value"]) == ("8", "29500")
    for name in ("RANK", "MASTER_ADDR", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES"):
        assert rows[name]["value"] == "(on the node)"
    assert rows["RANK"]["reason"].endswith("from SLURM_PROCID")
    torchrun = explained(launcher={"kind": "torchrun"}, env={"NCCL_SOCKET_IFNAME": "ib0"})
    assert torchrun["RANK"]["source"] == "launcher"
    assert (torchrun["NCCL_SOCKET_IFNAME"]["value"], torchrun["NCCL_SOCKET_IFNAME"]["set_by"]) == ("ib0", "job.yml")
    assert "CUDA_VISIBLE_DEVICES" not in torchrun
    adopted = explained(conda=True, environment={"mode": "path", "path": "/envs/a"})
    assert adopted["CONDA_PREFIX"]["value"] == "/envs/a" and "VIRTUAL_ENV" not in adopted


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"from_env": "HF"}, "the environment variable HF of the controller"),
        ({"from_file": "/home/eve/.hf"}, "the file /home/eve/.hf on the cluster"),
        ({"from_var": "vault_hf"}, "the Ansible variable vault_hf"),
    ],
)
def test_a_secret_is_named_and_hidden(source: dict[str, str], words: str) -> None:
    row = explained(secrets={"HF_TOKEN": source})["HF_TOKEN"]
    assert (row["value"], row["source"], row["set_by"]) == ("(hidden)", "secrets", "job.yml")
    assert words in row["reason"]


def test_the_lines_are_aligned_and_short() -> None:
    common = {"reason": "so", "source": "fabric", "set_by": "policy"}
    rows = [
        {"name": "A", "value": "1", "workaround": "", **common},
        {"name": "LONGER", "value": "x" * 50 + "\n", "workaround": "for NCCL 2.19, until 2027-06-30", **common},
    ]
    assert explain.table(rows) == [
        f"A       1{' ' * 39}  so (fabric; set by policy)",
        f"LONGER  {'x' * 39}…  so (fabric; set by policy; workaround for NCCL 2.19, until 2027-06-30)",
    ]
    assert explain.table([]) == []


# --- a fabric, for those who run the cluster


def described(name: str = "roce", fabrics: object = None, **more: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"site": {}, "gpu_types": [], "today": TODAY, **more}
    return fabric_report.describe(name, fabrics or {}, **options)


def test_auto_sets_nothing_and_leaves_the_sites_files_alone() -> None:
    found = described("auto", site={"/etc/nccl.conf": {"NCCL_DEBUG": "WARN"}})
    (row,) = found["settings"]
    assert (row["name"], row["value"], row["source"], row["replaces"]) == ("NCCL_DEBUG", "WARN", "/etc/nccl.conf", "")
    assert found["site_files"] == {"/etc/nccl.conf": {"NCCL_DEBUG": "WARN"}}
    assert described("auto")["table"][1].startswith("  sets nothing; the nodes' own files and plugins decide")


def test_a_value_that_stands_above_a_file_of_the_site_says_so() -> None:
    found = described(site={"/etc/nccl.conf": fabric_report.parse_conf("# site\nNCCL_NET = Socket # slow\n\nX\n")})
    rows = {row["name"]: row for row in found["settings"]}
    assert rows["NCCL_NET"]["replaces"] == "/etc/nccl.conf (Socket)"
    assert any("replaces /etc/nccl.conf (Socket)" in line for line in found["table"])
    assert rows["NCCL_IB_GID_INDEX"]["version"] == "NCCL before 2.21" and not rows["NCCL_IB_GID_INDEX"]["expired"]


def test_workarounds_past_their_day_are_told_of_every_fabric_of_the_cluster() -> None:
    old = {"A": {"value": "0", "version": "NCCL 2.19", "expires": "2026-01-31"}}
    found = described("mine", {"mine": {"B": "1"}, "other": old})
    assert [sentence.split(":")[0] for sentence in found["expired"]] == ["fabric other"]
    assert found["known"][-2:] == ["mine", "other"]
    (line,) = described("other", {"other": old})["table"][1:]
    assert line.endswith("(launch_cluster.fabrics.other; workaround for NCCL 2.19, until 2026-01-31, EXPIRED)")


def test_gpus_that_a_fabric_was_not_written_for() -> None:
    assert described("infiniband_h100", gpu_types=["a100", "x"])["notes"] == [
        "fabric infiniband_h100 was written for hopper GPUs, and this cluster has a100"
    ]
    for kinds in ([], ["x"], ["h200"], ["h100", "a100"]):
        assert described("infiniband_h100", gpu_types=kinds)["notes"] == []
    assert described("roce", gpu_types=["a100"])["notes"] == []
    assert described("infiniband_h100", {"infiniband_h100": {"A": "1"}}, gpu_types=["a100"])["notes"] == []


def test_mistakes_in_the_clusters_settings() -> None:
    with pytest.raises(SpecError, match="fabric: rocee is not known; did you mean roce"):
        described("rocee")
    with pytest.raises(SpecError, match=r"launch_cluster\.fabrics: .*must be a map"):
        described("auto", ["x"])


def test_what_was_measured_says_whether_it_is_in_use() -> None:
    """Option `measured` of fabric_info; its `cluster` is what suggestions are made of."""
    written = {"measured": {"GLOO_SOCKET_IFNAME": {"value": "ib1", "reason": "ib1 is faster"}}}
    line = "  GLOO_SOCKET_IFNAME  ib1  ib1 is faster"
    assert fabric_report.measured(written, {}, "auto") == [
        "fabric measured: measured, and not in launch_cluster.fabrics: no job can choose it",
        line,
    ]
    assert fabric_report.measured(written, written, "auto")[0] == (
        "fabric measured: measured; a job may choose it, and gets auto else"
    )
    assert fabric_report.measured(written, written, "measured") == ["fabric measured: measured, and in use", line]
    changed = {"measured": {"GLOO_SOCKET_IFNAME": "ib0"}}
    assert "not in launch_cluster.fabrics" in fabric_report.measured(written, changed, "measured")[0]
    assert fabric_report.measured({"measured": {}}, {}, "auto")[1] == "  sets nothing: what jobs got then was the best"
    assert fabric_report.measured({}, {}, "auto") == []
    with pytest.raises(SpecError, match="nccl_measured: "):
        fabric_report.measured({"x": []}, {}, "auto")
