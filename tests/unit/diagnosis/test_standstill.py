# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank the others wait for, from stacks in the shape that faulthandler and py-spy write."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import links, standstill

TORCH = "/env/lib/python3.11/site-packages/torch/"
POLL = 'Thread 0x00007f01 (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 320 in wait\n\n'


#: Where torch lies: a short path, and that of an environment below the home of an ordinary user.
FOLDERS = {
    "short": "/env",
    "long": f"/shared/home/groups/vision/students/user260001/.local/share/rankzero/environments/{'0f' * 32}/tree",
}


@pytest.fixture(autouse=True, params=FOLDERS)
def _folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TORCH", f"{FOLDERS[request.param]}/lib/python3.11/site-packages/torch/")


def stack(*frames: tuple[str, int, str]) -> str:
    lines = "".join(f'  File "{file}", line {line} in {name}\n' for file, line, name in frames)
    return f"{POLL}Current thread 0x00007f02 (most recent call first):\n{lines}"


def collective(name: str = "all_reduce", line: int = 50) -> str:
    return stack(
        (TORCH + "distributed/distributed_c10d.py", 2900, name),
        (TORCH + "distributed/c10d_logger.py", 81, "wrapper"),
        ("/code/train.py", line, "main"),
    )


def nodes(*stacks: str, **culprit: object) -> list[dict[str, object]]:
    """A node for each two ranks. `culprit`: more of the last rank."""
    rows: list[dict[str, object]] = [
        {"rank": rank, "state": "S", "cpu": 0.0, "waits_in": "", "stack": text} for rank, text in enumerate(stacks)
    ]
    rows[-1].update(culprit)
    return [{"node": f"node{at // 2 + 1:02}", "processes": rows[at : at + 2]} for at in range(0, len(rows), 2)]


def judged(*stacks: str, **culprit: object) -> standstill.Verdict | None:
    return standstill.verdict(standstill.states_of(nodes(*stacks, **culprit)))


@pytest.mark.parametrize(
    ("more", "activity"),
    [
        ({"waits_in": "hrtimer_nanosleep"}, "sleeps"),
        ({"waits_in": "futex_do_wait"}, "waits for a lock or another thread"),
        ({"state": "D"}, "waits for a disk or a network file system"),
        ({"state": "R", "cpu": 1.0}, "computes"),
    ],
)
def test_the_rank_outside_the_collective_is_the_culprit(more: dict[str, object], activity: str) -> None:
    data = stack(("/code/data.py", 42, "__next__"), ("/code/train.py", 30, "main"))
    verdict = judged(collective(), collective(), collective(), data, **more)
    assert verdict is not None and verdict.kind == "behind"
    (rank,) = verdict.ranks
    assert (rank.rank, rank.node, rank.place) == (3, "node02", "/code/data.py:42, in __next__")
    assert rank.activity == activity
    assert "3 other ranks wait in all_reduce (/code/train.py:50, in main)" in verdict.message


def test_a_long_path_is_shown_by_its_end() -> None:
    data = stack((f"{FOLDERS['long']}/tiny/data.py", 42, "__next__"))
    verdict = judged(collective(), collective(), collective(), data)
    assert verdict is not None
    place = verdict.ranks[0].place
    assert place.startswith("...") and place.endswith("/tree/tiny/data.py:42, in __next__") and len(place) < 150


def test_a_stopped_rank_is_the_culprit_without_a_stack() -> None:
    verdict = judged(collective(), collective(), collective(), "", state="T")
    assert verdict is not None and [one.rank for one in verdict.ranks] == [3]


def test_different_operations_are_a_mismatch() -> None:
    verdict = judged(collective(), collective(), collective(), collective("barrier", 70))
    assert verdict is not None and (verdict.kind, [one.rank for one in verdict.ranks]) == ("mismatch", [3])
    assert verdict.ranks[0].operation == "barrier"


def test_no_rank_is_blamed_where_all_wait_in_the_same_place() -> None:
    verdict = judged(collective(), collective())
    assert verdict is not None and (verdict.kind, verdict.ranks) == ("same", ())


def test_a_rank_that_waits_for_gradients_is_no_culprit() -> None:
    backward = stack((TORCH + "autograd/graph.py", 869, "_engine_run_backward"), ("/code/train.py", 40, "main"))
    data = stack(("/code/data.py", 42, "__next__"))
    verdict = judged(backward, backward, data)
    assert verdict is not None and [one.rank for one in verdict.ranks] == [2]


def test_nothing_is_said_without_knowledge() -> None:
    assert standstill.verdict([]) is None
    assert judged("", "") is None
    assert judged(stack(("/code/a.py", 1, "f")), stack(("/code/a.py", 1, "f"))) is None
    assert standstill.states_of([{"processes": [None, {"rank": "x"}, 3]}, {"processes": "no"}]) == []


def test_py_spys_stacks_are_read() -> None:
    text = (
        'Thread 9 (idle): "Thread-1"\n    wait (threading.py:320)\n'
        'Thread 7 (idle): "MainThread"\n    __next__ (/code/data.py:42)\n    <module> (/code/train.py:9)\n'
    )
    assert standstill.main_thread(text)[0] == standstill.Frame("/code/data.py", 42, "__next__")
    assert len(standstill.main_thread(text)) == 2


def entry(
    sequence: int, operation: str = "all_reduce", shape: int = 10, kind: str = "Float", line: int = 16
) -> dict[str, object]:
    """A collective as a node keeps it of a flight recorder."""
    return {
        "process_group": ["0", "default_pg"], "collective_seq_id": sequence, "is_p2p": False, "retired": False,
        "profiling_name": f"gloo:{operation}", "input_sizes": [[shape]], "input_dtypes": [kind],
        "place": f"/code/train.py:{line}, in train",
    }  # fmt: skip


def trace(sequence: int, operation: str = "all_reduce", shape: int = 10, kind: str = "Float") -> dict[str, object]:
    """What a node keeps of a flight recorder: the collectives of an undisturbed run, and one."""
    return {"entries": [*[entry(number) for number in range(800, sequence)], entry(sequence, operation, shape, kind)]}


def traced(*traces: Mapping[str, object]) -> standstill.Verdict | None:
    documents = nodes(*[collective() for _trace in traces])
    for rank, one in enumerate(traces):
        documents[rank // 2]["processes"][rank % 2]["trace"] = one  # type: ignore[index]
    return standstill.verdict(standstill.states_of(documents))


def test_the_recorder_numbers_the_collective() -> None:
    verdict = traced(trace(812), trace(812))
    assert verdict is not None and "wait in all_reduce #812 (" in verdict.message


@pytest.mark.parametrize(
    "other",
    [trace(811), trace(813), trace(812, shape=20), trace(812, operation="broadcast"), trace(812, kind="Half")],
    ids=["older", "newer", "shape", "operation", "type"],
)
def test_the_recorder_tells_ranks_in_the_same_line_apart(other: dict[str, object]) -> None:
    verdict = traced(trace(812), trace(812), other, trace(812))
    assert verdict is not None and (verdict.kind, [one.rank for one in verdict.ranks]) == ("mismatch", [2])
    assert "exclude" not in verdict.remedy


@pytest.mark.parametrize("world", [2, 4])
def test_a_call_that_one_rank_alone_makes_is_found_long_after_it(world: int) -> None:
    """`if rank == 0: all_reduce` of a size that fits: the others pair it with their next one, and so on until the end.

    Only the line of that one tells it from theirs.
    """
    usual = {"entries": [entry(number) for number in range(790, 812)]}
    extra = {"entries": [entry(number, line=31 if number == 805 else 16) for number in range(790, 813)]}
    verdict = traced(extra, *[usual] * (world - 1))
    assert verdict is not None and (verdict.kind, [one.rank for one in verdict.ranks]) == ("mismatch", [0])
    assert "rank 0 on node01 called all_reduce #805 [[10]] Float (/code/train.py:31, in train), and 1 more" in (
        verdict.message
    )
    assert "suspect" not in verdict.message


def test_ranks_may_call_the_same_from_lines_of_their_own() -> None:
    other = {"entries": [entry(number, line=40) for number in range(800, 813)]}
    verdict = traced(trace(812), trace(812), other, trace(812))
    assert verdict is not None and verdict.kind == "same"


def test_a_slow_link_may_hold_a_collective_up_that_others_have_left() -> None:
    documents = nodes(*[collective() for _rank in range(4)])
    for rank, number in enumerate((812, 812, 813, 813)):
        documents[rank // 2]["processes"][rank % 2]["trace"] = trace(number)  # type: ignore[index]
    states = standstill.states_of(documents)
    verdict = standstill.verdict(states, network=["node02"])
    assert verdict is not None and verdict.kind == "same" and "suspect node02" in verdict.message


def test_a_rank_that_waits_for_a_dead_mount_is_the_culprit_without_a_stack() -> None:
    verdict = judged(collective(), collective(), collective(), "", state="D")
    assert verdict is not None and [one.rank for one in verdict.ranks] == [3]
    assert "waits for a disk or a network file system" in verdict.message
    assert verdict.remedy.endswith("`resources.exclude: [node02]`.")


def test_the_main_thread_counts_whichever_thread_took_the_signal() -> None:
    taken = 'Current thread 0x1 (most recent call first):\n  File "/hook/recorder.py", line 44 in serve\n\n'
    main = 'Thread 0x2 (most recent call first):\n  File "/code/data.py", line 42 in read\n'
    assert [frame.name for frame in standstill.main_thread(taken + main)] == ["read"]
    assert [frame.name for frame in standstill.main_thread(taken + main + "...\n")] == ["serve"], "of 100 threads"
    assert [frame.name for frame in standstill.main_thread(taken + main + "Thread 0x3 (most")] == ["serve"], "cut"
    assert [frame.name for frame in standstill.main_thread(POLL + taken)] == ["serve"]


def test_a_rank_that_wants_a_cpu_computes() -> None:
    """Its node may be so short of CPUs that it gets none."""
    verdict = judged(collective(), collective(), collective(), stack(("/code/train.py", 7, "augment")), state="R")
    assert verdict is not None and "rank 3 on node02 computes (/code/train.py:7, in augment)" in verdict.message


def test_a_rank_without_a_process_is_gone() -> None:
    states = standstill.states_of(nodes(collective(), collective(), collective()))
    verdict = standstill.verdict(states, world=4, silent=["node09"])
    assert verdict is not None and (verdict.kind, [one.rank for one in verdict.ranks]) == ("gone", [3])
    assert "node09 does not answer; 3 other ranks wait in all_reduce" in verdict.message
    ended = standstill.verdict(states, world=4)
    assert ended is not None and "rank 3 has no process: it has ended or was killed" in ended.message
    several = standstill.verdict(states, world=6, silent=["node09"])
    assert several is not None and "ranks 3, 4, 5 have no process: node09 does not answer" in several.message


def test_the_node_whose_connections_are_full_is_suspected() -> None:
    rows = [{"from": "10.0.0.1", "to": "10.0.0.3"}, {"from": "10.0.0.2", "to": "10.0.0.3"}]
    own: list[dict[str, object]] = [
        {"node": "node01", "network": rows[:1], "addresses": ["10.0.0.1", "192.168.0.1"]},
        {"node": "node02", "network": rows[1:], "addresses": ["10.0.0.2", "192.168.0.1"]},
        {"node": "node03", "network": "no", "addresses": ["10.0.0.3", 7]},
        {"node": "node04", "addresses": "no"},
    ]
    suspects = links.slow_nodes(own)
    assert suspects == ["node03"]
    assert links.slow_nodes(own[:1]) == []
    assert links.slow_nodes(own[:2]) == ["10.0.0.3"], "a node that did not answer has no name"
    shared: list[dict[str, object]] = [{"network": [{"from": "192.168.0.1", "to": "192.168.0.1"}]}]
    assert links.slow_nodes(shared) == ["192.168.0.1"]
    for document in own[:2]:
        shared.append({**document, "network": []})
    assert links.slow_nodes(shared) == ["192.168.0.1"], "an address of two nodes names none of them"
    verdict = standstill.verdict(standstill.states_of(nodes(collective(), collective())), network=suspects)
    assert verdict is not None and verdict.kind == "same" and "suspect node03" in verdict.message


def test_two_slow_links_are_both_suspected() -> None:
    slow = [("node01", "node02", 5), ("node03", "node04", 5), ("node05", "node06", 1)]
    documents: list[dict[str, object]] = [
        {"node": here, "network": [{"from": here, "to": there}] * count} for here, there, count in slow
    ]
    documents += [{"node": f"node{number:02}"} for number in (2, 4, 6, 7, 8)]
    assert links.slow_nodes(documents) == ["node01", "node02", "node03", "node04"]
    assert links.slow_nodes(documents[:1] + documents[3:]) == ["node01", "node02"], "the two ends of one"
    everywhere: list[dict[str, object]] = [
        {"node": f"node{here}", "network": [{"from": f"node{here}", "to": f"node{here % 4 + 1}"}]}
        for here in (1, 2, 3, 4)
    ]
    assert links.slow_nodes(everywhere) == [], "as many as do not stand out"


def inner(file: str, name: str) -> str:
    """A rank whose innermost function is one of torch, below line 50 of the program."""
    return stack((TORCH + file, 286, name), ("/code/train.py", 50, "main"))


@pytest.mark.parametrize(
    ("file", "name", "operation"),
    [
        ("distributed/rendezvous.py", "_create_c10d_store", "_create_c10d_store"),
        ("distributed/utils.py", "_verify_param_shape_across_processes", "_verify_param_shape_across_processes"),
        ("nn/parallel/distributed.py", "_pre_forward", "_pre_forward"),
        ("distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_reduce", "foreach_reduce"),
    ],
)
def test_functions_of_torch_that_wait_in_c_are_operations(file: str, name: str, operation: str) -> None:
    data = stack(("/code/data.py", 42, "__next__"), ("/code/train.py", 30, "main"))
    verdict = judged(inner(file, name), inner(file, name), data)
    assert verdict is not None and [one.rank for one in verdict.ranks] == [2]
    assert f"2 other ranks wait in {operation} (/code/train.py:50, in main)" in verdict.message


def test_a_rank_that_writes_a_checkpoint_waits_for_nobody() -> None:
    saves = inner("distributed/checkpoint/filesystem.py", "_write_files")
    verdict = judged(collective("barrier"), collective("barrier"), saves)
    assert verdict is not None and [one.rank for one in verdict.ranks] == [2]


def test_ranks_that_never_meet_are_named_with_the_ones_that_wait_for_them() -> None:
    meets = stack(
        (TORCH + "distributed/rendezvous.py", 189, "_create_c10d_store"),
        (TORCH + "distributed/distributed_c10d.py", 1800, "init_process_group"),
        ("/code/train.py", 12, "main"),
    )
    verdict = judged(meets, meets, meets, stack(("/code/data.py", 42, "download")), waits_in="hrtimer_nanosleep")
    assert verdict is not None and [one.rank for one in verdict.ranks] == [3]
    assert "rank 3 on node02 sleeps (/code/data.py:42, in download); 3 other ranks wait in init_process_group" in (
        verdict.message
    )


def test_a_rank_may_wait_for_a_collective_that_it_began_before() -> None:
    """`handle.wait()` is in C++ below the program's own line: the flight recorder knows what is not over."""
    waits = stack(("/code/train.py", 71, "step"))
    documents = nodes(waits, waits, stack(("/code/data.py", 42, "__next__")))
    for rank in (0, 1):
        documents[0]["processes"][rank].update(waits_in="futex_do_wait", trace=trace(812))  # type: ignore[index]
    verdict = standstill.verdict(standstill.states_of(documents))
    assert verdict is not None and [one.rank for one in verdict.ranks] == [2]
    assert "2 other ranks wait in all_reduce #812 (/code/train.py:71, in step)" in verdict.message


def test_the_last_rank_is_named_after_the_others_have_ended() -> None:
    uploads = stack(("/usr/lib/python3.11/threading.py", 1112, "join"), ("/code/train.py", 103, "upload"))
    verdict = standstill.verdict(standstill.states_of(nodes(uploads)), world=6, silent=["node02", "node03"])
    assert verdict is not None and (verdict.kind, [one.rank for one in verdict.ranks]) == ("behind", [0])
    assert "(/code/train.py:103, in upload); no process is seen of 5 other ranks" in verdict.message


def test_a_program_that_imports_is_not_held_up() -> None:
    def importing(module: str) -> str:
        return stack(("<frozen importlib._bootstrap>", 1176, "_find_and_load"), (f"/code/{module}.py", 3, "<module>"))

    looks = [standstill.states_of(nodes(collective(), importing(module))) for module in ("model", "model", "data")]
    assert standstill.same(looks[0], looks[1]) and not standstill.same(looks[1], looks[2])
    assert not standstill.same([], [])
