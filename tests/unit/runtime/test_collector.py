# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an attempt on many nodes, with stand-ins for Slurm's commands: how many there are, what is in them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.logs import names
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import ends_by_rank
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import read_rank
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.heat_maps import read_heat_maps
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.monitor import read_samples
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.rank_looks import query_ranks
from tests.unit.runtime.harness import Job, Site, runtime_parts, wait_for

#: Folders of a run in which an attempt leaves files.
OF_AN_ATTEMPT = ("logs", "ended", "monitor", "preflight", "stacks")


@pytest.fixture(scope="module")
def collector() -> Iterator[ModuleType]:
    with runtime_parts("rank.collector") as part:
        yield part


def many(site: Site, nodes: int, shell: str, ranks: int = 3, **spec: Any) -> Job:
    """A job with collectors."""
    sizes = {"resources": {"nodes": nodes}, "launcher": {"ranks_per_node": ranks}}
    return site.job({"shell": shell, "logs": {"per": "node"}, "monitor": {"host": 1}, **sizes, **spec})


@contextlib.contextmanager
def opens(folder: str, opened: list[str]) -> Iterator[None]:
    """Note the paths below a folder that this process opens meanwhile."""
    active = [True]

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if active and event == "open" and str(arguments[0]).startswith(folder):
            opened.append(str(arguments[0]))

    sys.addaudithook(note)
    try:
        yield
    finally:
        active.clear()


#: Until the sampler of a rank's node has sampled. It has the lowest priority.
SAMPLED = 'until [ "$(cat "$RANKZERO_SPOOL/$SLURMD_NODENAME"/samples/*.csv | wc -l)" -ge 2 ]; do sleep 0.1; done'


def node_names(count: int) -> str:
    return ",".join(f"n{number}" for number in range(count))


def left(job: Job) -> list[Path]:
    return [path for name in OF_AN_ATTEMPT for path in (job.run / name).rglob("*") if path.is_file()]


def logs(job: Job) -> dict[int, str]:
    """Rank -> file with its log."""
    root = Beneath(str(job.run / "logs" / "0"))
    return names.by_rank(names.log_names(root.names))


def test_an_attempt_leaves_one_file_a_node_and_a_few_more(site: Site) -> None:
    counts = []
    for nodes in (2, 5):
        job = many(site, nodes, f'{SAMPLED}; echo "rank $RANK"', name=f"of{nodes}")
        assert job.finish(nodes=node_names(nodes)) == 0, job.log()
        counts.append(len(left(job)))
        assert set(logs(job)) == set(range(3 * nodes))
    assert counts[1] - counts[0] == 3, "each further node adds one file, however many ranks it has"
    assert counts[1] <= 5 + 20, [str(path) for path in left(job)]


def test_what_the_ranks_said_is_read_rank_by_rank(site: Site) -> None:
    """Also what ended without a newline, a progress bar, an empty line, and a line that looks as if it were marked."""
    shell = (
        'for i in 1 2 3; do echo "step $i/3 loss $RANK.5"; done; echo; echo "0: of rank $RANK"; '
        "printf '10%%\\r20%%\\r30%%'; sleep 2; printf '\\r40%%\\nthe end of %s' \"$RANK\"; exit $((RANK == 4))"
    )
    job = many(site, 2, shell)
    assert job.finish(nodes=node_names(2)) != 0
    folder = job.run / "logs" / "0"
    assert sorted(path.name for path in folder.iterdir()) == [
        ".live", "n0.ranks-1-2.log", "n1.ranks-3-5.log", "rank-0000.log", "step.log",
    ]  # fmt: skip
    assert os.readlink(folder / ".live") == "rank-0000.log"
    ends = dict(ends_by_rank(names.by_rank(str(path) for path in folder.iterdir())))
    own = {rank: log.tail[log.tail.index("step 1/3") :].splitlines() for rank, log in ends.items()}
    for rank, lines in own.items():
        assert lines[:5] == [*(f"step {step}/3 loss {rank}.5" for step in (1, 2, 3)), "", f"0: of rank {rank}"]
        assert lines[-1] == f"the end of {rank}" and ends[rank].head.startswith(f"[rankzero] RANK={rank} ")
    assert "10%\r20%\r30%\r40%" in ends[4].tail
    steps = read_rank(Beneath(str(folder)), "n1.ranks-3-5.log", 4, 1 << 20)
    assert (steps.lines, steps.first, steps.last) == (3, 1, 3)


def test_the_samples_of_all_nodes_are_in_one_file(site: Site) -> None:
    job = many(site, 2, SAMPLED)
    assert job.finish(nodes=node_names(2)) == 0, job.log()
    (path,) = (job.run / "monitor" / "0").iterdir()
    samples = read_samples(Beneath(str(path.parent)))
    assert set(samples) == {"n0", "n1"} and all((usage.memory_total_mb or 0) > 0 for usage in samples.values())


def test_first_keeps_both_ends_of_the_other_ranks(site: Site) -> None:
    shell = 'echo begun; head -c 3000000 /dev/zero | tr "\\0" "\\n" | sed "s/^/line/"; echo "ended $RANK"'
    job = many(site, 2, shell, ranks=2, logs={"per": "first"})
    assert job.finish(nodes=node_names(2)) == 0, job.log()
    folder = job.run / "logs" / "0"
    sizes = {path.name: path.stat().st_size for path in folder.iterdir() if "rank" in path.name}
    assert set(sizes) == {"rank-0000.log", "n0.ranks-1.log", "n1.ranks-2-3.log"}
    assert sizes["rank-0000.log"] > 15_000_000 and sizes["n1.ranks-2-3.log"] < 4_500_000
    for rank, log in ends_by_rank(names.by_rank(str(path) for path in folder.iterdir())):
        assert "begun\n" in log.head and log.tail.endswith(f"ended {rank}\n")
    assert "bytes of this rank were left out here" in (folder / "n1.ranks-2-3.log").read_text()


def test_a_signal_that_ends_the_job_still_brings_the_last_lines(site: Site) -> None:
    shell = "trap 'echo saved; exit 0' TERM; echo ready; until false; do sleep 0.1; done"
    job = many(site, 2, shell)
    process = job.start(nodes=node_names(2))
    path = job.run / "logs" / "0" / "n1.ranks-3-5.log"
    wait_for(lambda: path.exists() and path.read_text().count("ready") == 3, process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert path.read_text().count("saved") == 3, job.log()


def late(job: Job, what: str) -> None:
    """Let what comes before the collectors' step be this, while the ranks' starts at once."""
    job.site.functions["srun"] = f'case "$*" in *collector.py*) {what} ;; esac; ' + job.site.functions["srun"]


def test_the_ranks_start_at_once_and_wait_for_the_collector_of_their_node(site: Site) -> None:
    """The one that is followed waits for nobody."""
    shell = (
        'there=; [ ! -d "$RANKZERO_SPOOL/$SLURMD_NODENAME" ] || there=" beside its collector"; '
        f'echo "rank $RANK$there"; {SAMPLED}'
    )
    job = many(site, 2, shell, ranks=2)
    late(job, "sleep 1.5")
    assert job.finish(nodes=node_names(2)) == 0, job.log()
    folder = job.run / "logs" / "0"
    assert "\nrank 0\n" in (folder / "rank-0000.log").read_text()
    assert "\n1: rank 1 beside its collector\n" in (folder / "n0.ranks-1.log").read_text()
    assert "\n3: rank 3 beside its collector\n" in (folder / "n1.ranks-2-3.log").read_text()
    (path,) = (job.run / "monitor" / "0").iterdir()
    assert set(read_samples(Beneath(str(path.parent)))) == {"n0", "n1"}, "the samplers wait, too"


@pytest.mark.parametrize(
    ("how", "reason", "said"),
    [
        ("exit 1", "it could not start", "no collector has come up on n0 n1"),
        ("sleep 1000", "none after 4 s", "no collector has come up on n0 n1"),
    ],
)
def test_a_rank_whose_collector_does_not_come_writes_its_own_log(site: Site, how: str, reason: str, said: str) -> None:
    """It says so, and the job's log names the nodes. More than a thousand go into folders."""
    job = many(site, 2, 'echo "rank $RANK"; sleep 3', ranks=2, setup={"commands": ["export RANKZERO_SPOOL_SECONDS=4"]})
    late(job, how)
    assert job.finish(nodes=node_names(2)) == 0, job.log()
    assert [logs(job)[rank] for rank in range(4)] == [f"rank-{rank:04d}.log" for rank in range(4)]
    for rank in range(1, 4):
        text = (job.run / "logs" / "0" / f"rank-{rank:04d}.log").read_text()
        assert text.startswith(f"[rankzero] this rank has a log of its own: no collector on this node ({reason})\n")
        assert text.endswith(f"\nrank {rank}\n")
    assert said in job.log()


def test_a_collector_that_finds_no_room_lets_its_ranks_go_on(site: Site) -> None:
    job = many(site, 2, "true", ranks=2)
    # Of two values of an option the last one counts.
    late(job, 'set -- "$@" --local-dir /proc')
    assert job.finish(nodes=node_names(2)) == 0, job.log()
    assert [logs(job)[rank] for rank in range(4)] == [f"rank-{rank:04d}.log" for rank in range(4)]
    assert "it could not start" in (job.run / "logs" / "0" / "rank-0003.log").read_text()
    assert "no room: " in job.log()


def test_more_than_a_thousand_ranks_have_folders(site: Site) -> None:
    job = site.job({"shell": "true", "launcher": {"ranks_per_node": 2}})
    script = job.run / "job.sbatch"
    script.write_text(script.read_text().replace("export RANKZERO_WORLD_SIZE=2", "export RANKZERO_WORLD_SIZE=1001"))
    assert job.finish() == 0, job.log()
    assert logs(job) == {0: "rank-0000.log", 1: "000/rank-0001.log"}


def made(collector: ModuleType, tmp_path: Path, per: str = "node", ranks: int = 2) -> Any:
    for name in ("spool/samples", "logs"):
        (tmp_path / name).mkdir(parents=True)
    printed: list[str] = []

    class Printing(collector.Collector):  # type: ignore[name-defined,misc]
        def print(self, text: str) -> None:
            printed.append(text)

    collected = Printing(str(tmp_path / "spool"), str(tmp_path / "logs"), per, "n1", ranks)
    collected.printed = printed
    return collected


def test_a_line_without_an_end_waits_but_not_for_ever(
    collector: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = made(collector, tmp_path, ranks=1)
    log, there = tmp_path / "spool" / "rank-7.log", tmp_path / "logs" / "n1.ranks-7.log"
    log.write_bytes(b"one\ntwo")
    collected.scan()
    assert there.read_bytes() == b"7: one\n"
    with log.open("ab") as stream:
        stream.write(b" more\nbar 1\rbar 2")
    collected.scan()
    assert there.read_bytes() == b"7: one\n7: two more\n"
    monkeypatch.setattr(collector, "HELD", 0.0)
    collected.scan()
    assert there.read_bytes().endswith(b"7: bar 1\rbar 2\n")
    with log.open("ab") as stream:
        stream.write(b"x" * (collector.LONGEST + 1))
    monkeypatch.setattr(collector, "HELD", 1000.0)
    collected.scan()
    assert there.read_bytes().count(b"\n7: xxx") == 1
    collected.scan(final=True)
    assert there.read_bytes().count(b"\n") == 4


def test_a_node_opens_its_file_once_a_look_and_all_nodes_bounded_times_a_second(
    collector: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of ranks and nodes. A silent node opens none."""
    ranks, nodes, now, opened = 8, 1024, [1000.0], []
    monkeypatch.setattr(collector, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with opens(str(tmp_path / "logs"), opened):
        collected = made(collector, tmp_path, ranks=ranks)
        collected.share_storage(nodes)
        spool = tmp_path / "spool"
        for second in range(60):
            for rank in range(ranks):
                with (spool / f"rank-{rank}.log").open("a") as stream:
                    stream.write(f"step {second}\n")
            collected.scan()
            now[0] += collector.EVERY
        assert 0 < len(opened) * nodes / 60 <= 250
        collected.scan(final=True)
        count = len(opened)
        for _second in range(60):
            collected.scan()
            now[0] += collector.EVERY
        assert len(opened) == count
    lines = (tmp_path / "logs" / "n1.ranks-0-7.log").read_text().splitlines()
    for rank in range(ranks):
        assert [line for line in lines if line.startswith(f"{rank}: ")] == [
            f"{rank}: step {each}" for each in range(60)
        ]


def test_the_nodes_hear_from_the_first_what_they_are_asked(site: Site) -> None:
    """They answer, and do not look at the run directory for it."""
    shell = (
        f'{SAMPLED}; : > "$RANKZERO_RUN_DIR/ready-$RANK"; until [ -e "$RANKZERO_RUN_DIR/answered" ]; do sleep 0.1; done'
    )
    job = many(site, 2, shell, ranks=1)
    process = job.start(nodes=node_names(2))
    wait_for(lambda: len(list(job.run.glob("ready-*"))) == 2, process)
    answers = query_ranks(RunDirectory(str(job.run)), 0, patience=60)
    (job.run / "answered").touch()
    process.wait(timeout=60)
    assert {answer["node"] for answer in answers} == {"n0", "n1"}, job.log()


def test_a_rank_that_begins_late_gets_a_file_of_its_own(
    collector: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = made(collector, tmp_path, ranks=3)
    for rank in (8, 9):
        (tmp_path / "spool" / f"rank-{rank}.log").write_bytes(b"a\n")
    collected.scan()
    assert not list((tmp_path / "logs").iterdir()), "the third one may be about to begin"
    monkeypatch.setattr(collector, "GATHER", 0.0)
    collected.scan()
    (tmp_path / "spool" / "rank-10.log").write_bytes(b"late\n")
    collected.scan(final=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "logs").iterdir()} == {
        "n1.ranks-8-9.log": b"8: a\n9: a\n",
        "n1.ranks-10.log": b"10: late\n",
    }


def test_no_folder_has_more_than_a_thousand_logs_of_nodes(collector: ModuleType, tmp_path: Path) -> None:
    assert [collector.log_folder("logs", 1000, place) for place in (0, 999)] == ["logs"] * 2
    folders = [collector.log_folder(str(tmp_path), 2500, place) for place in (0, 999, 1000, 2499)]
    assert [Path(folder).name for folder in folders] == ["000", "000", "001", "002"]
    for place, folder in enumerate(folders):
        Path(folder).mkdir(exist_ok=True)
        (Path(folder) / names.of_node(f"n{place}", [2 * place + 1, 2 * place + 2])).touch()
    logs = names.by_rank(names.log_names(Beneath(str(tmp_path)).names))
    assert list(logs) == list(range(1, 9)) and logs[7] == "002/n3.ranks-7-8.log"


def test_samples_are_brought_when_somebody_wants_them(collector: ModuleType, tmp_path: Path) -> None:
    collected = made(collector, tmp_path)
    lines = [f"2026-01-02T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}+0000,1.00,5,7,9\n"
             for second in range(0, 9000, 3)]  # fmt: skip
    text = "time,load1,mem_used_mb,cpu_percent,mem_total_mb\n" + "".join(lines) + "not asked\n"
    (tmp_path / "spool" / "samples" / "n1.host.csv").write_text(text)
    collected.scan()
    assert not "".join(collected.printed)
    (tmp_path / "spool" / "wanted").touch()
    collected.scan()
    (tmp_path / "monitor" / "0").mkdir(parents=True)
    (tmp_path / "monitor" / "0" / "nodes").write_text("".join(collected.printed))
    kept = collector.thinned(text).splitlines()
    assert len(kept) <= collector.MOST_SAMPLES + 3 and kept[0].startswith("time,") and lines[-1].strip() in kept
    assert "not asked" in kept
    assert read_samples(Beneath(str(tmp_path / "monitor" / "0")))["n1"].load == 1.0
    began = datetime(2026, 1, 2, tzinfo=timezone.utc).timestamp()
    maps = read_heat_maps(Beneath(str(tmp_path / "monitor")), [0], began, began + 9000)
    assert set(maps.sums["cpu"]) == {"n1"} and all(maps.counts["cpu"]["n1"]), "evenly over the whole time"


@pytest.mark.parametrize(
    ("ranks", "name"),
    [([3], "a.b.ranks-3.log"), ([8, 9, 10], "a.b.ranks-8-10.log"), ([0, 4, 5], "a.b.ranks-0,4-5.log")],
)
def test_a_name_tells_node_and_ranks(ranks: list[int], name: str) -> None:
    assert names.of_node("a.b", ranks) == name
    assert names.node_of(f"x/{name}") == "a.b" and list(names.ranks_of(f"x/{name}")) == ranks
    assert names.rank_of(name) is None


def test_a_name_of_another_user_costs_no_memory() -> None:
    assert len(names.ranks_of("n.ranks-0-99999999999.log")) < 10_000
    assert names.ranks_of("n.ranks-5-2.log") == ()
