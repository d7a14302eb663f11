# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the sweep, by its parts: who meets whom, what several results become, nccl-tests' output, the ring."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.repository import ROOT
from tests.unit.fabric.sweeps import facts
from tests.unit.runtime.harness import runtime_parts

PROGRAM = str(ROOT / "playbooks" / "files" / "fabric")
HERE = Path(__file__).parent


def part(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(PROGRAM)
    with runtime_parts(name) as module:
        yield module


@pytest.fixture
def schedule(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from part("fabric_schedule", monkeypatch)


@pytest.fixture
def perf(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from part("fabric_nccl_tests", monkeypatch)


@pytest.fixture
def tcp(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from part("fabric_tcp", monkeypatch)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from part("fabric_facts", monkeypatch)


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv("RANKZERO_RUNTIME", RUNTIME)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    yield from part("fabric_sweep", monkeypatch)


@pytest.mark.parametrize("count", range(2, 12))
def test_in_a_round_everybody_has_another_partner(schedule: ModuleType, count: int) -> None:
    rounds = schedule.tournament(count, 99)
    assert len(rounds) == count - 1 + count % 2
    for pairs in rounds:
        assert len({place for pair in pairs for place in pair}) == 2 * len(pairs) == count - count % 2
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == list(itertools.combinations(range(count), 2))
    assert schedule.tournament(count, 2) == rounds[:2]


def rows(*speeds: float, cut: bool = False) -> dict[str, Any]:
    measured = [
        {"size": 10**place, "seconds": 1 / speed, "bus": speed, "cut": False} for place, speed in enumerate(speeds, 1)
    ]
    measured[-1]["cut"] = cut
    return {"rows": measured, "error": ""}


def test_a_measurement_is_as_fast_as_its_slowest_node_saw_it(schedule: ModuleType) -> None:
    found = schedule.combined({"a": rows(5.0, 8.0), "b": rows(4.0, 10.0)}, ["a", "b"])
    assert [(row["bus"], row["seconds"]) for row in found["rows"]] == [(4.0, 0.25), (8.0, 0.125)]
    assert found["error"] == ""
    assert schedule.speed(found) == 8.0


def test_what_one_node_did_not_get_to_does_not_count(schedule: ModuleType) -> None:
    """The other one's buffers swallowed it all."""
    found = schedule.combined({"a": rows(5.0, 800.0, 900.0), "b": rows(5.0, 0.5, cut=True)}, ["a", "b"])
    assert [(row["bus"], row["cut"]) for row in found["rows"]] == [(5.0, False), (0.5, True)]


def test_silence_and_errors_are_no_speed(schedule: ModuleType) -> None:
    found = schedule.combined({"a": rows(5.0), "b": None}, ["a", "b"])
    assert found["error"] == "b: no word of it" and schedule.speed(found) == 0.0
    found = schedule.combined({"a": {"rows": [], "error": "refused"}, "b": rows(1.0)}, ["a", "b"])
    assert found["error"] == "a: refused" and schedule.speed(found) == 0.0


def swept(candidate: str, *pairs: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"candidate": candidate, "nodes": list(names), **rows(speed)} for names, speed in pairs]


def test_one_slow_node_does_not_decide_between_candidates(schedule: ModuleType) -> None:
    """d is slow over a alone; the others' best pairs say which of both is faster."""
    measures = swept("a", ("ab", 9.0), ("cd", 0.1), ("ac", 9.0), ("bd", 0.1))
    measures += swept("b", ("ab", 5.0), ("cd", 5.0), ("ac", 5.0), ("bd", 5.0))
    assert schedule.compare(["b", "a"], measures) == ({"b": 5.0, "a": 9.0}, "a")


def test_noise_replaces_nothing(schedule: ModuleType) -> None:
    measures = swept("now", ("ab", 100.0)) + swept("other", ("ab", 104.0)) + swept("broken")
    assert schedule.compare(["now", "other", "broken"], measures)[1] == "now"
    assert schedule.compare(["other", "now"], measures)[1] == "other"


def test_the_formula_is_that_of_nccl_tests(schedule: ModuleType) -> None:
    """A row of the output below: 33554432 bytes in 199.5 us by 16 ranks are 168.2 GB/s and 315.4 on the bus."""
    assert schedule.bus(33554432, 199.5e-6, 16) / 1e9 == pytest.approx(315.4, rel=1e-3)


def output(name: str) -> str:
    return (HERE / "nccl_tests" / f"{name}.txt").read_text(encoding="utf-8")


def test_output_with_a_root_column(perf: ModuleType) -> None:
    found, ranks, problem = perf.parse(output("newer"))
    assert ([row["size"] for row in found], ranks, problem) == ([1048576, 33554432, 268435456], 16, "")
    assert found[1] == {"size": 33554432, "seconds": pytest.approx(199.5e-6), "bus": 315.43e9, "cut": False}


def test_output_of_an_older_version(perf: ModuleType) -> None:
    found, ranks, problem = perf.parse(output("older"))
    assert (len(found), ranks, problem) == (3, 16, "")
    assert found[-1]["bus"] == pytest.approx(171.85e9)


def test_output_without_a_check_of_the_values(perf: ModuleType) -> None:
    found, _ranks, problem = perf.parse(output("newer").replace("     0", "   N/A"))
    assert len(found) == 3 and problem == ""


def test_wrong_values_are_a_problem(perf: ModuleType) -> None:
    text = output("newer").replace("315.43      0", "315.43     12")
    assert perf.judged(text, 0, False, 16, [1048576, 268435456], 20)["error"] == "wrong results at 33554432 bytes: 12"


def test_a_program_without_mpi_measured_nothing_between_nodes(perf: ModuleType) -> None:
    found = perf.judged(output("newer"), 0, False, 32, [1048576, 268435456], 20)
    assert found["rows"] == [] and found["error"].startswith("it ran with 16 of 32 ranks: was it built with MPI=1")


def test_a_failure_is_its_own_line(perf: ModuleType) -> None:
    found = perf.judged(output("failed"), 2, False, 16, [1048576], 20)
    assert found["rows"] == []
    assert found["error"].startswith("node02: Test NCCL failure common.cu:961 'unhandled system error (run with NCCL_")
    assert perf.judged("", 1, False, 2, [4], 20)["error"] == "it ended with 1"
    assert perf.judged("srun: error: x\n", 1, False, 2, [4], 20)["error"] == "srun: error: x"


def test_what_the_time_limit_cut_has_a_bound(perf: ModuleType) -> None:
    sizes = [1048576, 33554432, 268435456, 1 << 31]
    found = perf.judged(output("newer"), 0, True, 16, sizes, 100)
    assert found["rows"][-1] == {
        "size": 1 << 31, "seconds": 100.0, "bus": pytest.approx((1 << 31) / 100 * 2 * 15 / 16), "cut": True
    }  # fmt: skip


def test_the_command_is_a_step_of_its_own(perf: ModuleType) -> None:
    words = perf.command("/opt/all_reduce_perf", ["n1", "n3"], 8, [1024, 8192, 65536], "pmix")
    assert words[:7] == [
        "srun", "--overlap", "--nodes=2", "--nodelist=n1,n3", "--ntasks=16", "--ntasks-per-node=8", "--mpi=pmix"
    ]  # fmt: skip
    assert words[-9:] == ["/opt/all_reduce_perf", "-b", "1024", "-e", "65536", "-f", "8", "-g", "1"]


GPU_NODE = facts(gpus=8, all_reduce_perf="/opt/all_reduce_perf", torch={"version": "2", "nccl": True, "gloo": True})


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([GPU_NODE, GPU_NODE], ("nccl_tests", "nccl", "all_reduce_perf is on every node")),
        (
            [GPU_NODE, {**GPU_NODE, "all_reduce_perf": ""}],
            ("torch", "nccl", "nccl-tests: no all_reduce_perf on n2"),
        ),
        (
            [{**GPU_NODE, "srun": False}, GPU_NODE],
            ("torch", "nccl", "nccl-tests: no srun on n1, which starts it"),
        ),
        (
            [GPU_NODE, facts(torch={"version": "2", "nccl": False, "gloo": True})],
            ("torch", "gloo", "nccl-tests: the job has no GPU on n2"),
        ),
        (
            [facts(), GPU_NODE],
            ("tcp", "tcp", "nccl-tests: the job has no GPU on n1; torch: no torch on n1 (No module named 'torch')"),
        ),
    ],
)
def test_the_best_that_every_node_has_measures(
    told: ModuleType, nodes: list[dict[str, Any]], expected: tuple[str, str, str]
) -> None:
    assert told.choose("auto", {f"n{place}": one for place, one in enumerate(nodes, 1)}) == expected


def test_what_is_asked_for_and_not_there_is_an_error(told: ModuleType) -> None:
    nodes = {"n1": facts(), "n2": facts(), "n3": facts(), "n4": facts(), "n5": GPU_NODE}
    with pytest.raises(
        ValueError, match="method: nccl_tests is not possible here: the job has no GPU on n1, n2, n3 and"
    ):
        told.choose("nccl_tests", nodes)
    with pytest.raises(ValueError, match="method: torch is not possible here: no torch on n1"):
        told.choose("torch", nodes)
    assert told.choose("tcp", nodes) == ("tcp", "tcp", "asked for")


def test_facts_of_an_adapter(told: ModuleType, tmp_path: Path) -> None:
    port = tmp_path / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    for name, text in {"link_layer": "InfiniBand", "rate": "200 Gb/sec (4X HDR)", "state": "4: ACTIVE"}.items():
        (port / name).write_text(text + "\n")
    (tmp_path / "mlx5_0" / "device").mkdir()
    (tmp_path / "mlx5_0" / "device" / "driver").symlink_to(tmp_path.parent / "mlx5_core")
    assert told.rdma(str(tmp_path)) == [
        {
            "name": "mlx5_0",
            "layer": "InfiniBand",
            "rate": "200 Gb/sec (4X HDR)",
            "state": "ACTIVE",
            "driver": "mlx5_core",
        }
    ]


def compared(sweep: ModuleType, backend: str, *given: dict[str, str], **nodes: list[str]) -> list[tuple[str, str]]:
    """(name, interface) of what is compared on nodes with these interfaces; the first given one is the current one."""
    first = sweep.First.__new__(sweep.First)
    names = ["current", "other", "third"]
    first.plan = {"candidates": [{"name": name, "variables": one} for name, one in zip(names, given)]}
    first.names = list(nodes)
    first.told = {name: facts({each: each[:2] == "ib" for each in own}) for name, own in nodes.items()}
    return [(one["name"], one["interface"]) for one in first.candidates(backend)]


def test_interfaces_that_all_nodes_have_are_the_candidates(sweep: ModuleType) -> None:
    nodes = {"a": ["eth0", "ib0", "ib1", "ib2"], "b": ["ib0", "ib1", "eth0"]}
    every = [("current", "ib0"), ("ib1", "ib1"), ("eth0", "eth0")]
    assert compared(sweep, "gloo", {}, **nodes) == compared(sweep, "tcp", {"X": "1"}, **nodes) == every
    # Not where NCCL chooses, nor where the cluster has chosen one.
    assert compared(sweep, "nccl", {}, **nodes) == [("current", "ib0")]
    assert compared(sweep, "tcp", {"GLOO_SOCKET_IFNAME": "eth0"}, **nodes) == [("current", "eth0")]


def test_candidates_of_the_user_mean_their_interface(sweep: ModuleType) -> None:
    nodes = {"a": ["eth0", "ib0", "ib1"], "b": ["eth0", "ib0", "ib1"]}
    exact, pattern = {"NCCL_SOCKET_IFNAME": "=ib1"}, {"NCCL_SOCKET_IFNAME": "^eth"}
    assert compared(sweep, "tcp", {}, exact, {"GLOO_SOCKET_IFNAME": "ib7"}, **nodes) == [
        ("current", "ib0"),
        ("other", "ib1"),
        ("third", "ib7"),
    ]
    # A pattern of NCCL's is its own business: over the interface the ranks only meet.
    assert compared(sweep, "nccl", {}, exact, pattern, **nodes)[1:] == [("other", "ib1"), ("third", "ib0")]


def around(tcp: ModuleType, folder: Path, count: int, present: int, seconds: float) -> list[Any]:
    """What each place of a ring over the loop-back measured, or the error that it met."""
    names = [f"n{place}" for place in range(count)]
    addresses = {name: f"127.0.0.{place + 1}" for place, name in enumerate(names)}
    results: list[Any] = [None] * present

    def run(place: int) -> None:
        try:
            results[place] = tcp.measure(names, place, addresses, "lo", str(folder), [1024, 1 << 20], seconds)
        except OSError as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(present)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_everybody_in_a_ring_measures_every_size(tcp: ModuleType, tmp_path: Path, count: int) -> None:
    for measured in around(tcp, tmp_path, count, count, 60):
        assert [(row["size"], row["cut"]) for row in measured] == [(1024, False), (1 << 20, False)], measured
        assert all(row["bus"] > 0 and row["seconds"] > 0 for row in measured)


def test_a_node_that_never_comes_is_an_error(tcp: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "TAIL_SECONDS", 1)
    assert all(isinstance(one, OSError) for one in around(tcp, tmp_path, 3, 2, 1))


def test_a_size_that_takes_too_long_is_cut_with_what_came(
    tcp: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "transfer", lambda _out, _into, count, _seconds: (count // 2, 4.0, []))
    first, second = around(tcp, tmp_path, 2, 2, 60)
    assert first == second == [{"size": 1024, "seconds": 4.0, "bus": 128.0, "cut": True}]
