# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the first node concludes from the reports: who is fit, who is chosen, who is blamed for what."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.runtime.harness import runtime_parts


@pytest.fixture(scope="module")
def judge() -> Iterator[ModuleType]:
    with runtime_parts("preflight.judge") as part:
        yield part


ETHERNET = "interface eth0 (no fast network: the first by name)"


def report(
    folder: Path,
    name: str,
    reach: Sequence[str] = ("eth0",),
    *problems: str,
    heads: Sequence[str] = ("n1",),
    own: Sequence[str] | None = None,
    **more: Any,
) -> None:
    document = {
        "columns": {"proj": "ok", "cpus": "4"},
        "problems": list(problems),
        "ailments": [],
        "torch": False,
        "ports": [20000, 20001],
        "own": dict.fromkeys(reach if own is None else own, f"10.0.0.{name[1:]}"),
        "rules": dict.fromkeys((n for n in own or reach if n.startswith("ib")), "InfiniBand"),
        "usable": {head: list(reach) for head in heads},
        **more,
    }
    (folder / f"{name}.json").write_text(json.dumps(document))


def measured(folder: Path, speeds: Mapping[tuple[str, str], float], nodes: Sequence[str]) -> None:
    """What came in at the first of each pair from the second, MB/s."""
    (folder / "exchange.json").write_text(json.dumps({"nodes": nodes, "words": "a measurement"}))
    for name in nodes:
        pairs = {other: speed for (at, other), speed in speeds.items() if at == name}
        (folder / f"{name}.exchange.json").write_text(json.dumps({"pairs": pairs}))


def judged(folder: Path, names: str, wanted: int | None = None, **options: Any) -> tuple[list[str], dict[str, Any]]:
    """(lines of the table, judgement by its words: the names of nodes with a blank between)."""
    asked = {"wanted": len(names.split(",")) if wanted is None else wanted, "budget": 9, **options}
    with runtime_parts("preflight.judge") as part:
        given = vars(part.judge(part.Question(str(folder), names.split(","), **asked)))
    texts = {name: " ".join(words) for name, words in given.items() if name in ("chosen", "blamed")}
    return given["lines"], {**given, **texts}


def test_the_fast_interface_that_all_nodes_reach_the_first_one_by_is_chosen(tmp_path: Path) -> None:
    report(tmp_path, "n1", ["ib0", "ib1", "eth0"])
    report(tmp_path, "n2", ["ib1", "eth0"], own=["ib0", "ib1", "eth0"])
    report(tmp_path, "n3", ["ib0", "ib1", "eth0"])
    table, verdict = judged(tmp_path, "n1,n2,n3")
    assert [line.split()[0] for line in table] == ["n1", "n2", "n3", "slow", "interface"]
    assert table[3:] == ["slow n2: does not reach n1 over ib0", "interface ib1 (InfiniBand)"]
    assert (verdict["action"], verdict["chosen"], verdict["interface"]) == ("run", "n1 n2 n3", "ib1")


def test_without_a_common_interface_none_is_chosen(tmp_path: Path) -> None:
    report(tmp_path, "n1", ["ib0"])
    report(tmp_path, "n2", ["eth1"])
    table, verdict = judged(tmp_path, "n1,n2")
    assert table[-1] == "n2 proj=ok cpus=4"
    assert (verdict["action"], verdict["interface"]) == ("run", "")


def test_a_step_that_ended_early_is_not_called_a_timeout(tmp_path: Path) -> None:
    report(tmp_path, "n1")
    _table, verdict = judged(tmp_path, "n1,n2", ended="after 3 s with exit code 1")
    assert verdict["message"] == "n2: no report: the preflight's step ended after 3 s with exit code 1"


def test_separate_rails_are_nobodys_fault(tmp_path: Path) -> None:
    report(tmp_path, "n1", ["ib0", "eth0"])
    report(tmp_path, "n2", ["eth0"], own=["ib0", "eth0"])
    report(tmp_path, "n3", ["eth0"], own=["ib0", "eth0"])
    table, verdict = judged(tmp_path, "n1,n2,n3", slow="fail")
    assert verdict["interface"] == "eth0" and verdict["action"] == "run"
    assert not [line for line in table if line.startswith(("slow", "unfit"))]


def test_the_table_as_the_launchers_of_a_course_print_it() -> None:
    table = [
        "n1 proj=ok env=ok cpus=4 python=3.11.2 torch=2.3.1 transformers=4.41.2 datasets=2.19.0 numpy=1.26.4 free=9G",
        "n2 proj=staged env=missing cpus=4",
        "n3 no report within 60 s",
        "unfit n2: environment: ModuleNotFoundError: No module named 'torch'",
        "unfit n3: no report within 9 s",
    ]
    with runtime_parts("preflight.handout") as handout:
        seen = handout.seen(table, ["n1", "n2", "n3"])
        probed = handout.probed(table, ["n1", "n2", "n3"], {"python", "torch", "transformers", "numpy", "datasets"})
    assert seen == ["n1 proj=ok pkgs=ok", "n2 proj=staged pkgs=missing", "n3 proj=missing pkgs=missing"]
    assert probed == ["NODE n1 OK -> PY 3.11.2 torch 2.3.1 tfm 4.41.2 numpy 1.26.4 datasets 2.19.0"]


def test_bad_and_silent_nodes_are_named(tmp_path: Path) -> None:
    report(tmp_path, "n1")
    report(tmp_path, "n2", ["eth0"], "the code /c is not here", "/r is not\nwritable")
    said = ["[node] n4", "bash: a warning", "binding.sh: No such file or directory", ""]
    (tmp_path / "_tasks.log").write_text("".join(f"3: {line}\n" for line in said))
    table, verdict = judged(tmp_path, "n1,n2,n3,n4")
    assert table[2:4] == ["n3 no report within 9 s", "n4 no report: binding.sh: No such file or directory"]
    assert verdict["action"] == "stop"
    assert verdict["message"] == (
        "n2: the code /c is not here; n2: /r is not writable; n3: no report within 9 s; "
        "n4: no report: binding.sh: No such file or directory"
    )
    unfit = json.loads((tmp_path / "unfit.json").read_text())
    assert unfit["n2"] == "the code /c is not here; /r is not\nwritable" and set(unfit) == {"n2", "n3", "n4"}


@pytest.mark.parametrize(
    ("policy", "wanted", "action", "chosen"),
    [
        ("stop", 2, "stop", ""),
        ("replace", 2, "run", "n2 n4"),
        ("replace", 3, "stop", ""),
        ("requeue", 2, "run", "n2 n4"),
        ("requeue", 3, "requeue", ""),
    ],
)
def test_policies(tmp_path: Path, policy: str, wanted: int, action: str, chosen: str) -> None:
    heads = ["n1", "n2", "n3"]
    for name in ("n1", "n3"):
        report(tmp_path, name, ["eth0"], "the code /c is not here", heads=heads)
    for name in ("n2", "n4"):
        report(tmp_path, name, heads=heads, ports=[20000 + int(name[1]), 20009])
    table, verdict = judged(tmp_path, "n1,n2,n3,n4", wanted, policy=policy)
    assert (verdict["action"], verdict["chosen"]) == (action, chosen)
    assert verdict["blamed"] == "n1 n3"
    assert verdict["message"] == "n1: the code /c is not here; n3: the code /c is not here"
    if chosen:
        # The port is one that is free on the first node of the ranks.
        assert (table[-2:], verdict["ports"]) == (["nodes n2 n4", ETHERNET], [20002, 20009])


def test_what_all_nodes_have_in_common_is_blamed_on_none(tmp_path: Path) -> None:
    for name in ("n1", "n2"):
        report(tmp_path, name, ["eth0"], "environment: No module named 'x'")
    report(tmp_path, "n2", ["eth0"], "environment: No module named 'x'", "/tmp has less than 1G free")
    _table, verdict = judged(tmp_path, "n1,n2", policy="requeue")
    assert (verdict["action"], verdict["blamed"]) == ("stop", "n2")
    assert verdict["message"].endswith("not requeued: all nodes have this in common, so another one would have it, too")


def bound(folder: Path, name: str, task: int, *cpus: str) -> None:
    lines = [
        f"{task + number}: [binding] task={task + number} node={name} cpus={listed} online=0-7 gpus=none\n"
        for number, listed in enumerate(cpus)
    ]
    with (folder / "_tasks.log").open("a") as stream:
        stream.writelines(lines)


def test_a_node_that_is_bound_to_too_little_is_as_unfit_as_any_other(tmp_path: Path) -> None:
    names = ["n1", "n2", "n3"]
    for place, name in enumerate(names):
        report(tmp_path, name, heads=names)
        bound(tmp_path, name, 2 * place, "0-1", "1" if name == "n2" else "2-3")
    geometry = {"tasks_per_node": 2, "cpus_per_task": 2}
    few = "task 3 is bound to 1 CPU (1) for 2 that the job asked for"
    where = "(resources.cpus_per_rank, launcher.srun.cpu-bind)"
    # A spare steps in; the table shows what the ranks are bound to.
    table, verdict = judged(tmp_path, "n1,n2,n3", 2, policy="replace", **geometry)
    assert (verdict["action"], verdict["chosen"], verdict["blamed"]) == ("run", "n1 n3", "n2")
    assert table[3:] == [
        "bound n1,n3 0:cpus=0-1 1:cpus=2-3",
        f"unfit n2: {few} {where}",
        "blamed n2",
        "nodes n1 n3",
        ETHERNET,
    ]
    verdict = judged(tmp_path, "n1,n2,n3", policy="requeue", **geometry)[1]
    assert (verdict["action"], verdict["blamed"]) == ("requeue", "n2")
    # All of them: that is the job's own doing, although each says it with its own numbers.
    for place, name in enumerate(names):
        bound(tmp_path, name, 2 * place, "0-1", str(place))
    table, verdict = judged(tmp_path, "n1,n2,n3", policy="requeue", **geometry)
    assert (verdict["action"], verdict["blamed"]) == ("stop", "")
    assert verdict["message"].startswith("n1: task 1 is bound to 1 CPU (0) for 2 that the job asked for (resources")
    assert table[3:6] == [f"bound n{1 + place} 0:cpus=0-1 1:cpus={place}" for place in range(3)]


def test_the_last_words_of_a_silent_node_are_found_among_those_of_all(tmp_path: Path) -> None:
    report(tmp_path, "n1")
    said = "{} [binding] task={} node={} cpus=0-3 online=0-3 gpus=none\n"
    lines = [
        said.format("00:", 0, "n1"),
        said.format(" 1:", 1, "n1"),
        said.format("12:", 12, "n2"),
        "12: no python3 here\n",
        # Of a job of several components.
        said.format("P1 3:", 3, "n4"),
        "P1 3: no shared folder\n",
    ]
    (tmp_path / "_tasks.log").write_text(
        "srun: a line without a task\n" + "".join(lines) + "00: of n1\n13: of nobody\n"
    )
    words, verdict = judged(tmp_path, "n1,n2,n3,n4,n5", unstarted={"n5": "Communication connection failure"})
    assert verdict["message"] == (
        "n2: no report: no python3 here; n3: no report within 9 s; n4: no report: no shared folder; "
        "n5: no report: srun could not start a task there: Communication connection failure"
    )
    assert any(line.startswith("bound n1 0:cpus=0-3 1:cpus=0-3") for line in words), words


def test_of_a_job_on_one_node_only_what_nothing_but_the_node_can_have_is_blamed_on_it(tmp_path: Path) -> None:
    report(tmp_path, "n1", ["eth0"], "environment: No module named 'x'")
    assert judged(tmp_path, "n1", policy="requeue")[1]["action"] == "stop"
    report(tmp_path, "n1", ["eth0"], "GPU 3: too hot", ailments=["GPU 3: too hot"])
    verdict = judged(tmp_path, "n1", policy="requeue")[1]
    assert (verdict["action"], verdict["blamed"]) == ("requeue", "n1")


def test_the_node_that_is_slow_with_everybody_is_named_and_left_over_first(tmp_path: Path) -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    for name in nodes:
        report(tmp_path, name, heads=nodes[:2])
    ring = [("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n1")]
    speeds = dict.fromkeys(ring, 900.0) | {(b, a): 800.0 for a, b in ring}
    # What n2 sends is slow: its neighbours receive little, and send as fast as ever.
    speeds[("n1", "n2")] = speeds[("n3", "n2")] = 100.0
    measured(tmp_path, speeds, nodes)
    table, verdict = judged(tmp_path, ",".join(nodes), 3)
    assert [line.split("net=")[1] for line in table[:4]] == ["800MB/s", "100MB/s", "800MB/s", "800MB/s"]
    assert table[4] == "slowest n2 100 MB/s, median 800 MB/s: a measurement"
    assert table[5] == "slow n2: 100 MB/s, less than half of the median 800 MB/s"
    assert (verdict["action"], verdict["chosen"], verdict["blamed"]) == ("run", "n1 n3 n4", "")
    # Needed, it is taken; by policy it is not fit.
    assert judged(tmp_path, ",".join(nodes), 4)[1]["chosen"] == "n1 n2 n3 n4"
    verdict = judged(tmp_path, ",".join(nodes), 4, slow="fail", policy="requeue")[1]
    assert (verdict["action"], verdict["blamed"]) == ("requeue", "n2")
    (tmp_path / "n3.exchange.json").unlink()
    assert "slow n3: no result in the exchange" in judged(tmp_path, ",".join(nodes), 4)[0]


def test_two_nodes_have_no_median_to_be_far_from(tmp_path: Path) -> None:
    for name in ("n1", "n2"):
        report(tmp_path, name)
    measured(tmp_path, {("n1", "n2"): 1.0, ("n2", "n1"): 900.0}, ["n1", "n2"])
    table, _verdict = judged(tmp_path, "n1,n2", slow="fail")
    assert table[2:] == ["slowest n1 1.0 MB/s, median 1.0 MB/s: a measurement", ETHERNET]


@pytest.mark.parametrize("torch", [True, False])
def test_the_fit_nodes_measure_with_each_other(tmp_path: Path, judge: ModuleType, torch: bool) -> None:
    for name in ("n1", "n3", "n4"):
        report(tmp_path, name, ["ib0", "eth0"], heads=["n1", "n2"], torch=torch or name == "n1")
    report(tmp_path, "n2", ["eth0"], "the code /c is not here", heads=["n1", "n2"])
    report(tmp_path, "n5", ["eth0"], heads=["n1", "n2"], torch=torch)
    asked = judge.Question(str(tmp_path), ["n1", "n2", "n3", "n4", "n5"], wanted=4, budget=70)
    assert judge.select(asked, 64) == ["n1", "n3", "n4"]
    plan = json.loads((tmp_path / "exchange.json").read_text())
    assert (plan["interface"], plan["torch"], plan["seconds"]) == ("ib0", torch, 20)
    assert ("all-reduce by torch" in plan["words"]) == torch
    assert "of 64 MB between neighbours over ib0" in plan["words"]


@pytest.mark.parametrize("count", range(2, 12))
def test_every_node_meets_each_neighbour_one_at_a_time(judge: ModuleType, count: int) -> None:
    rounds = judge.rounds(count)
    for now in rounds:
        places = [place for pair in now for place in pair]
        assert len(places) == len(set(places))
    pairs = [frozenset(pair) for now in rounds for pair in now]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == {frozenset((place, (place + 1) % count)) for place in range(count)}
    assert judge.rounds(1) == []


def test_two_thousand_nodes_are_judged_with_few_listings(
    tmp_path: Path, judge: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing of the folder costs as much as all its names: one for each node would be millions of names."""
    names = [f"n{number:04d}" for number in range(2000)]
    for name in names:
        report(tmp_path, name, heads=names[:1])
    listings: list[str] = []
    listdir = os.listdir
    monkeypatch.setattr(judge.os, "listdir", lambda folder: listings.append(str(folder)) or listdir(folder))
    reports = judge.reports_of(str(tmp_path), names)
    assert len(listings) == 1 and all(reports.values()) and list(reports) == names
    assert judge.bandwidths(str(tmp_path), names) == ({}, "") and len(listings) == 2
    assert judge.common_interfaces(names, reports) == ["eth0"]


def test_the_whole_judgement_of_two_thousand_nodes_costs_what_its_reports_cost(
    tmp_path: Path, judge: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 nodes of 8 ranks, a quarter of them silent: each file is opened once, and the folder is listed as often as
    for a small job.
    """

    def counts(nodes: int) -> tuple[int, int, int]:
        folder = tmp_path / str(nodes)
        folder.mkdir()
        names = [f"n{number:04d}" for number in range(nodes)]
        for place, name in enumerate(names):
            bound(folder, name, 8 * place, *["0-7"] * 8)
            if place % 4 != 3:
                report(folder, name, heads=names[:1])
        asked = judge.Question(
            str(folder), names, wanted=nodes // 2, budget=9, policy="replace", tasks_per_node=8, group_nodes=4
        )
        listings, opens, listdir, opening = [0], [0], os.listdir, open
        monkeypatch.setattr(os, "listdir", lambda *where: listings.__setitem__(0, listings[0] + 1) or listdir(*where))

        def counting(*words: Any, **options: Any) -> Any:
            opens[0] += 1
            return opening(*words, **options)

        with monkeypatch.context() as patch:
            patch.setattr("builtins.open", counting)
            judged = judge.judge(asked)
        monkeypatch.setattr(os, "listdir", listdir)
        assert judged.action == "run"
        return listings[0], opens[0], nodes

    small, large = counts(100), counts(2000)
    assert small[0] == large[0] <= 6
    assert (large[1] - small[1]) / (large[2] - small[2]) <= 2.5


def test_who_waits_for_a_document_asks_ever_less_often(
    tmp_path: Path, judge: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = importlib.import_module("core.files")
    now, asked = [0.0], []
    monkeypatch.setattr(files.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(files.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(files.os, "listdir", lambda _folder: asked.append(now[0]) or [])
    assert files.await_document(str(tmp_path / "heads" / "n1.addresses"), 60.0) is None
    assert len(asked) < 60 and now[0] == pytest.approx(60.0)
    assert sum(moment < 1.0 for moment in asked) >= 6, "a document that comes soon is seen soon"
