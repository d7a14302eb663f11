# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remembered nodes: what a job writes is read until it expires, and no launch is left with too few nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import FIELD, RECORD
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import excluded_nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.exclusion import Exclusion
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Placement, Request

NOW = 1_800_000_000.0
PLACEMENT = Placement()
LIMITS = ResourceNeeds(nodes=2, partition="batch")


def one(node: str, time: float = NOW - 10, expires: float = NOW + 3600, reason: str = "too hot") -> Exclusion:
    return Exclusion(node, reason, "7", time, expires)


class Cluster:
    """Nodes with state and features; those of `others` are not in the default partition. Host lists have commas."""

    def __init__(self, nodes: Mapping[str, tuple[str, str]], others: Sequence[str] = ()) -> None:
        self.nodes = nodes
        self.others = others
        self.asked: list[str] = []

    def __call__(self, argv: Sequence[str], *_how: object) -> CommandResult:
        self.asked.append(" ".join(argv[1:]))
        text = ""
        if argv[1:3] == ["show", "config"]:
            text = "Configuration data as of 2026-01-01\nClusterName             = lab\n"
        elif argv[1:3] == ["show", "hostnames"]:
            text = argv[3].replace(",", "\n")
        elif argv[1:3] == ["show", "reservation"]:
            text = f"ReservationName={argv[3]} StartTime=0\n   Nodes=n1,n2 NodeCnt=2\n"
        else:
            rows = (
                (name, "16", "1000", "gpu:8", state, "other" if name in self.others else "batch*", features)
                for name, (state, features) in self.nodes.items()
            )
            text = "".join(FIELD.join(row) + RECORD + "\n" for row in rows)
        return CommandResult(tuple(argv), 0, text, "")

    def slurm(self) -> Slurm:
        return Slurm(self, environment={"PATH": "/bin"}, which=lambda name, _path: f"/usr/bin/{name}")


FIVE = {f"n{number}": ("idle", "a,b") for number in range(1, 6)}


def written(root: Path, *exclusions: Exclusion) -> str:
    for exclusion in exclusions:
        excluded_nodes.remember(str(root), "lab", exclusion)
    return str(root)


def test_only_what_holds_now_is_read_and_rubbish_counts_for_nothing(tmp_path: Path) -> None:
    root = written(tmp_path, one("n2"), one("n1"), one("n3", expires=NOW))
    folder = Path(excluded_nodes.folder(root, "lab"))
    for name, text in {"a.json": "{", "b.json": "[]", "c.json": '{"node": "n9"}', "n4.json.1.tmp": "{}"}.items():
        (folder / name).write_text(text)
    assert excluded_nodes.load(root, "lab", NOW) == [one("n1"), one("n2")]
    assert excluded_nodes.load(root, "other", NOW) == []
    # The newest word counts.
    written(tmp_path, one("n1", reason="no code"))
    assert excluded_nodes.load(root, "lab", NOW)[0].reason == "no code"
    excluded_nodes.forget(root, "lab", "n1")
    excluded_nodes.forget(root, "lab", "n1")
    assert [found.node for found in excluded_nodes.load(root, "lab", NOW)] == ["n2"]


def test_slurm_is_asked_nothing_where_nothing_is_remembered(tmp_path: Path) -> None:
    cluster = Cluster(FIVE)
    assert excluded_nodes.for_request(cluster.slurm(), str(tmp_path), PLACEMENT, LIMITS, NOW) == ([], [])
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("wanted", "nodes", "by_name", "applied", "kept"),
    [
        (2, "n1 n2 n3 n4 n5", "", "n1 n2 n3", ""),
        (3, "n1 n2 n3 n4 n5", "", "n2 n3", "n1"),  # the newest stay out
        (5, "n1 n2 n3 n4 n5", "", "", "n3 n2 n1"),
        (2, "n3 n4 n5", "", "n3", ""),  # of the others sbatch is not told: it may not know them
        (2, "n1 n2 n3 n4 n5", "n2", "n1 n3", "n2"),
        (3, "n1- n2- n3 n4 n5", "", "n1 n2", "n3"),  # what is down now is left out without a loss
        (4, "n1- n2- n3 n4 n5", "", "n3", "n2 n1"),  # the job waits for some that are down anyway
    ],
)
def test_never_so_many_that_too_few_are_left(wanted: int, nodes: str, by_name: str, applied: str, kept: str) -> None:
    remembered = [one("n1", NOW - 30), one("n2", NOW - 20), one("n3", NOW - 10)]
    known = {name.rstrip("-"): not name.endswith("-") for name in nodes.split()}
    found, left = excluded_nodes.choose(remembered, known, wanted, by_name.split())
    assert [exclusion.node for exclusion in found] == applied.split()
    assert [exclusion.node for exclusion, _why in left] == kept.split()


@pytest.mark.parametrize(
    ("wishes", "applied", "warned"),
    [
        ({}, "n1 n2", 0),
        ({"exclude": ["n1"]}, "n2", 0),
        ({"exclude": ["n3", "n4"]}, "", 2),
        ({"nodelist": "n2,n3"}, "n1", 1),
        ({"constraint": "b&c"}, "n2", 0),
        ({"constraint": "b|c"}, "n1 n2", 0),  # too clever for us: all nodes count
        ({"reservation": "course"}, "", 2),
    ],
)
def test_a_launch_leaves_out_what_its_own_wishes_allow(
    tmp_path: Path, wishes: dict[str, Any], applied: str, warned: int
) -> None:
    nodes = {**FIVE, "n2": ("idle", "b,c"), "n3": ("idle", "b,c"), "n4": ("mixed*", "b,c"), "n5": ("down*", "b")}
    root = written(tmp_path, one("n1", NOW - 20), one("n2", NOW - 10))
    of_nodes = {name: value for name, value in wishes.items() if name in ("constraint", "reservation")}
    placement = Placement(**{name: value for name, value in wishes.items() if name not in of_nodes})
    limits = replace(LIMITS, **of_nodes)
    found, warnings = excluded_nodes.for_request(Cluster(nodes).slurm(), root, placement, limits, NOW)
    assert [exclusion.node for exclusion in found] == applied.split()
    assert len(warnings) == warned
    assert all("(job 7: too hot)" in text for text in warnings)


def test_each_component_of_a_job_leaves_out_what_its_own_nodes_allow(tmp_path: Path) -> None:
    # The second component could do without n1, and the first could not.
    nodes = {**FIVE, "n1": ("idle", "x,y"), "n2": ("idle", "y"), "n3": ("idle", "x,y")}
    root = written(tmp_path, one("n1", NOW - 20), one("n2", NOW - 10))
    first = replace(LIMITS, nodes=2, constraint="x")
    second = replace(LIMITS, nodes=1, constraint="y")
    limits = replace(first, also=[second])
    left_out, (kept,) = excluded_nodes.for_request(Cluster(nodes).slurm(), root, Placement(), limits, NOW)
    assert [exclusion.node for exclusion in left_out] == ["n2"] and "n1" in kept
    request = cast("Request", SimpleNamespace(placement=Placement(exclude=["n9"]), limits=limits))
    assert excluded_nodes.option(request, left_out) == ["--exclude=n9,n2", ":", "--exclude=n9,n2"]
    assert excluded_nodes.option(request, []) == []


def test_a_site_that_hides_its_nodes_keeps_nobody_from_launching(tmp_path: Path) -> None:
    root, cluster = written(tmp_path, one("n1")), Cluster(FIVE)
    slurm, real = cluster.slurm(), cluster.slurm().call

    def call(command: str, *words: str) -> Any:
        if command == "sinfo":
            raise SlurmError("sinfo: error: Access/permission denied")
        return real(command, *words)

    slurm.call = call  # type: ignore[assignment,method-assign]
    found, (warning,) = excluded_nodes.for_request(slurm, root, PLACEMENT, LIMITS, NOW)
    assert found == []
    assert warning.startswith("not left out, although they were not fit: n1 until") and "denied" in warning


def test_nodes_that_are_too_small_do_not_count(tmp_path: Path) -> None:
    root = written(tmp_path, one("n1"))
    limits = ResourceNeeds(nodes=5, gpus_per_node=8, cpus_per_node=16)
    more = {**FIVE, "n6": ("idle", "a")}
    assert len(excluded_nodes.for_request(Cluster(more).slurm(), root, PLACEMENT, limits, NOW)[0]) == 1
    assert (
        excluded_nodes.for_request(Cluster(more).slurm(), root, PLACEMENT, replace(limits, cpus_per_node=17), NOW)[0]
        == []
    )


def test_without_a_partition_the_nodes_of_the_default_one_count(tmp_path: Path) -> None:
    root = written(tmp_path, one("n1"), one("n4"))
    cluster = Cluster(FIVE, others=["n3", "n4", "n5"])
    found, warnings = excluded_nodes.for_request(cluster.slurm(), root, PLACEMENT, replace(LIMITS, partition=None), NOW)
    assert (found, len(warnings)) == ([], 1), "n1 is needed, and n4 is none of those"


def test_a_person_adds_and_forgets(tmp_path: Path) -> None:
    cluster = Cluster(FIVE)

    def change(check_mode: bool = False, **given: Any) -> dict[str, Any]:
        options = {"state_root": str(tmp_path), "nodes": None, "reason": None, "exclude_for": 60, **given}
        return excluded_nodes.change(cluster.slurm(), options, NOW, check_mode)

    present = {"state": "present", "nodes": ["n1,n2", "n3"], "reason": "loud"}
    assert change(True, **present)["changed"]
    assert not (tmp_path / "clusters").exists()
    made = change(**present)
    assert made["changed"] and made["cluster"] == "lab"
    assert [entry["node"] for entry in made["exclusions"]] == ["n1", "n2", "n3"]
    assert made["exclusions"][0] == {"node": "n1", "reason": "loud", "job_id": "", "time": NOW, "expires": NOW + 60}
    assert made["diff"]["after"].splitlines()[0] == "n1 until 2027-01-15 08:01 UTC (loud)"
    assert not change(**present)["changed"]
    assert change(**{**present, "reason": "hot"})["changed"]
    assert change(state="absent", nodes=["n2"])["exclusions"][1]["node"] == "n3"
    assert not change(state="absent", nodes=["n2"])["changed"]
    gone = change(state="absent")
    assert gone["changed"] and gone["exclusions"] == []
    assert os.listdir(excluded_nodes.folder(str(tmp_path), "lab")) == []


def test_a_root_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "clusters").write_text("a file")
    with pytest.raises(RankzeroError, match=r"state_root: cannot write .*n1\.json"):
        excluded_nodes.remember(str(tmp_path), "lab", one("n1"))
    (tmp_path / "clusters").unlink()
    target = Path(excluded_nodes.folder(str(tmp_path), "lab")) / "n1.json"
    (target / "x").mkdir(parents=True)
    with pytest.raises(RankzeroError, match=r"state_root: cannot remove .*n1\.json"):
        excluded_nodes.forget(str(tmp_path), "lab", "n1")


def test_what_a_job_writes_is_read(tmp_path: Path) -> None:
    folder = Path(excluded_nodes.folder(str(tmp_path), "lab"))
    folder.mkdir(parents=True)
    text = {"node": "n1", "reason": "no code", "job_id": "12", "time": int(NOW), "expires": int(NOW) + 5}
    (folder / "n1.json").write_text(json.dumps(text))
    (found,) = excluded_nodes.load(str(tmp_path), "lab", NOW)
    assert found.words() == "n1 until 2027-01-15 08:00 UTC (job 12: no code)"
