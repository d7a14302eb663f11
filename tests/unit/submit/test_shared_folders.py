# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders that the nodes of a cluster share, and what a first job there must name."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.shared_folders import (
    proposal,
    shared_folders,
)
from tests.unit.slurm.recorded import FakeSlurm, said

PROPOSED = {"partition": None, "account": "ml", "nodes": 2, "gpus_per_node": 0, "max_time": None}


class Nodes(FakeSlurm):
    """A cluster whose nodes run what srun is given here. `blind`: the nodes that do not see some folder."""

    def __init__(self, blind: Mapping[int, Path]) -> None:
        super().__init__(srun=said(), scancel=said())
        self.blind = blind

    def __call__(self, argv: Sequence[str], *rest: Any, **more: Any) -> CommandResult:
        super().__call__(argv, *rest, **more)
        if not argv[0].endswith("srun"):
            return said()
        words = list(argv[argv.index("/bin/sh") :])
        out = ""
        for node in range(2):
            own = [word if str(self.blind.get(node)) not in word else "/nowhere" for word in words]
            out += subprocess.run(
                own, env={"SLURM_PROCID": str(node)}, capture_output=True, text=True, check=True
            ).stdout
        return said(out)


def paths(nodes: FakeSlurm, *given: Path) -> list[str]:
    return [folder["path"] for folder in shared_folders(nodes.slurm(), [str(path) for path in given], PROPOSED)]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = [tmp_path / name for name in ("home", "one", "two")]
    for folder in made:
        folder.mkdir()
    return made


def test_a_folder_is_shared_if_every_node_reads_what_was_written(folders: list[Path]) -> None:
    home, own, other = folders
    nodes = Nodes({1: own})
    seen = paths(nodes, own, other)
    assert str(own) not in seen and seen.index(str(other)) < seen.index(str(home))
    assert "--account=ml" in nodes.asked[0] and "--nodes=2" in nodes.asked[0]
    assert not any(word.startswith("--partition") for word in nodes.asked[0])
    assert all(not list(folder.iterdir()) for folder in folders), "what was written is removed"


def test_a_job_that_does_not_start_is_cancelled_and_its_reason_said(folders: list[Path]) -> None:
    nodes = FakeSlurm(
        srun=said(stderr="srun: error: Unable to allocate resources: Invalid account\n", rc=1), scancel=said()
    )
    with pytest.raises(RankzeroError, match=r"account ml.*Invalid account"):
        paths(nodes)
    assert nodes.programs == ["srun", "scancel"]
    assert not list(folders[0].iterdir())


def part(name: str, **changes: Any) -> dict[str, Any]:
    usual = {"default": False, "state": "up", "available_nodes": 8, "max_nodes": None, "gpus_per_node": 0}
    rules = {"allow_accounts": "ALL", "deny_accounts": "", "allow_groups": "ALL", "max_time": None}
    return {"name": name, **usual, **rules, **changes}


@pytest.mark.parametrize(
    ("partitions", "accounts", "default_account", "wanted"),
    [
        ([part("a"), part("b", default=True)], ["ml"], "ml", (None, None, 2)),
        ([part("a"), part("b")], ["ml", "bio"], None, ("a", "ml", 2)),
        ([part("a", default=True, state="down"), part("b", max_nodes=1)], [], None, ("b", None, 1)),
        ([part("a", default=True, allow_accounts="bio"), part("b")], ["ml"], "ml", ("b", None, 2)),
        ([part("a", default=True, deny_accounts="ml"), part("b")], ["ml"], None, ("b", "ml", 2)),
        ([part("a", default=True, allow_groups="staff,x"), part("b", available_nodes=0)], [], None, (None, None, 1)),
    ],
)
def test_a_first_job_names_what_slurm_does_not_choose(
    partitions: list[Any], accounts: list[str], default_account: str | None, wanted: tuple[Any, ...]
) -> None:
    mine = {
        "associations": [{"account": name} for name in accounts],
        "default_account": default_account,
        "groups": ["us"],
    }
    found = proposal({"partitions": partitions, "mine": mine})
    assert (found["partition"], found["account"], found["nodes"]) == wanted
