# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log may hold any text: huge numbers, hex dumps, long ids. No reader fails on it or works for long."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils import logs as logs_room
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import one_alone
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import model, registry
from ansible_collections.rankzero.slurm.plugins.module_utils.logs import names
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import (
    checklist,
    from_files,
    from_logs,
    heat_maps,
    monitor,
    slowdown,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import MetricSet, Span
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import is_saved, parse_metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.silence import find_stall
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import values_in
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.step_times import read_step_times
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import log_facts
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import failure_families
from tests.repository import ROOT

BASE = logs_room.__name__.rpartition(".")[0]
#: Room -> how many times the work of a plain quadratic pattern a line may take. The readers of each line are linear.
ROOMS = {
    "logs": 20,
    "metrics": 20,
    "usage": 20,
    "watch": 20,
    "report": 20,
    "explain": 20,
    "notify": 20,
    "diagnosis.hangs": 20,
    "diagnosis": 80,
}
CHARACTERS = 1000
UNITS = (
    "1", "9.", "1,", "a", "a_", "a.", "a ", " ", "\t", "/", "[", '"', ":", "-", "a/", "a:", "1:", "loss_", "step ",
    "%|", "x1", "A", "a=1 ", "Error: ", "1 k tok",
)  # fmt: skip
#: Family -> what begins one of its patterns, and may follow itself: a start, and a place where the rest may begin.
REPEATED = {
    "device_assert": ".cu:1: x: block: [1Assertion ",
    "gloo_interface": "gloo connect ",
    "address_in_use": "bind 9 (errno: 98 - ",
    "container_start": "runc exec: ",
    "nccl_network": "UCX  ERROR ibv_x() for x",
}
REPEATED_CHARACTERS = 3700
#: So much of an example is its beginning, in characters.
OPENING = 32
DECLARED = failure_families.declared(["plugins/module_utils/diagnosis/families"], str(ROOT), ours=())
SEARCHES = ("search", "finditer", "findall", "sub", "subn", "split")


def _modules(room: str) -> Iterator[tuple[str, object]]:
    package = importlib.import_module(f"{BASE}.{room}")
    yield package.__name__, package
    for info in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
        yield info.name, importlib.import_module(info.name)


def _patterns(value: object, seen: set[int]) -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    """The patterns in a value of a module, also those in its tables and rules."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for each in [*value, *value.values()]:
            yield from _patterns(each, seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from _patterns(each, seen)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _patterns(getattr(value, field.name), seen)


@functools.cache
def _methods(folder: Path) -> dict[str, set[str]]:
    """Name of a constant -> the methods of it that the code uses."""
    used: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
                name = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                used.setdefault(name, set()).add(node.attr)
    return used


def _all_patterns(room: str) -> list[tuple[str, re.Pattern[str] | re.Pattern[bytes], str]]:
    """(where, pattern, the method that is used)."""
    package = importlib.import_module(BASE)
    used = _methods(Path(str(next(iter(package.__path__)))).parent)
    found = {}
    for module, content in _modules(room):
        for name, value in vars(content).items():
            for pattern in _patterns(value, set()):
                methods = used.get(name, set()) if isinstance(value, re.Pattern) else {"search"}
                own = "search" if methods & set(SEARCHES) else "match" if "match" in methods else "fullmatch"
                found.setdefault((pattern.pattern, pattern.flags), (f"{module} {name}", pattern, own))
    return list(found.values())


def _lines(pattern: re.Pattern[str] | re.Pattern[bytes]) -> Iterator[str]:
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    words = list(re.findall(r"[A-Za-z][A-Za-z ]{2,}", text))[:8]
    for unit in (*UNITS, *words):
        yield unit * (CHARACTERS // len(unit))
    for word in words[:3]:
        for unit in UNITS:
            yield word + unit * (CHARACTERS // len(unit))
            yield unit * (CHARACTERS // len(unit)) + word


def _work(pattern: re.Pattern[str] | re.Pattern[bytes], method: str, line: str, repeats: int) -> float:
    """The least CPU time of some repeats."""
    text = line if isinstance(pattern.pattern, str) else line.encode()
    times = []
    for _repeat in range(repeats):
        began = time.thread_time()
        call = getattr(pattern, method)
        call(text)
        times.append(time.thread_time() - began)
    return min(times)


@pytest.mark.parametrize("room", list(ROOMS))
def test_a_pathological_line_takes_bounded_work_in_every_pattern(room: str) -> None:
    plain = re.compile("a*b")

    def unit() -> float:
        return _work(plain, "search", "a" * CHARACTERS, 5)

    limit = ROOMS[room] * unit()
    found, slow = _all_patterns(room), []
    assert found or room in ("watch", "report", "notify")
    for where, pattern, method in found:
        for line in _lines(pattern):
            if _work(pattern, method, line, 1) <= limit:
                continue
            # Measured again beside the plain pattern: the machine may have been busy with others' work.
            if all(_work(pattern, method, line, 3) > ROOMS[room] * unit() for _again in range(4)):
                slow.append(f"{where} {pattern.pattern!r:.200} on {line[:30]!r}")
                break
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize(("family", "piece"), REPEATED.items())
def test_a_line_that_begins_a_pattern_again_and_again_takes_bounded_work(family: str, piece: str) -> None:
    line, plain = piece * (REPEATED_CHARACTERS // len(piece)), re.compile("a*b")
    (signature,) = (signature for signature in registry.SIGNATURES if signature.family == family)
    slow = [
        match.regex.pattern
        for match in signature.matches
        if all(
            _work(match.regex, "search", line, 1) > 20 * _work(plain, "search", "a" * REPEATED_CHARACTERS, 3)
            for _again in range(4)
        )
    ]
    assert not slow, "\n".join(slow)


def _openings(lines: list[str]) -> set[str]:
    """How these lines begin: whatever may start a pattern anew."""
    return {line[: match.end()] for line in lines for match in re.finditer(r"\w+|\W", line[:OPENING])}


def test_a_line_that_begins_an_example_again_and_again_takes_bounded_work() -> None:
    """The beginnings of the lines that a wording knows start it again at each place."""
    plain, slow = re.compile("a*b"), []

    def limit() -> float:
        return 12 * _work(plain, "search", "a" * CHARACTERS, 3)

    first = limit()
    for family in DECLARED:
        for wording in (wording for kind in model.WHERE for wording in family.get(kind) or ()):
            pattern = re.compile(failure_families.pattern(wording["regex"], family.get("parts") or {}))
            for piece in _openings(wording["examples"]):
                line = piece * (CHARACTERS // len(piece))
                if _work(pattern, "search", line, 1) > first and all(
                    _work(pattern, "search", line, 3) > limit() for _again in range(4)
                ):
                    slow.append(f"{family['family']} {pattern.pattern!r:.200} on {piece!r}")
                    break
    assert not slow, "\n".join(slow)


numbers = st.one_of(
    st.integers(0, 10**6).map(str),
    st.sampled_from(
        ["9" * 400, "9" * 5000, "0x" + "af09" * 900, "1" * 16, "1e999", "1e-9999", "1.2.3.4", "٣" * 30, "²"]
    ),
    st.integers(10**14, 10**40).map(str),
)
WORDS = """step loss iteration tok/s tokens_per_sec= ms s/it it/s / elapsed host= Epoch , : 0: %|
[rankzero] RANK= LOCAL_RANK= WORLD_SIZE= saved checkpoint 2026-01-02 03:04:05 {"step": "loss": } RuntimeError:"""
words = st.sampled_from(
    [*WORDS.split(), " [00:03", "\r", "[rankzero] RANK=", '{"step": ', "Traceback (most recent call last):\n"]
)
hostile = st.lists(st.one_of(numbers, words, st.text(max_size=20)), max_size=24).map(" ".join)


@given(st.lists(hostile, min_size=1, max_size=5))
def test_every_reader_takes_any_text(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    attempt = folder / "logs" / "0"
    attempt.mkdir(parents=True)
    text = "\n".join(lines) + "\n"
    for name in ("rank-0000.log", "node1.ranks-1-2.log", "rank-0007.log"):
        (attempt / name).write_text(text, "utf-8", "replace")
    (folder / "metrics.jsonl").write_text(text, "utf-8", "replace")
    for name in ("a.host.csv", "a.gpu.csv", "nodes"):
        (folder / name).write_text(text, "utf-8", "replace")
    root, span = Beneath(str(attempt)), Span(0, 1767323045.0, 1767330000.0)
    for line in lines:
        metrics = parse_metrics(line)
        if metrics is not None:
            values_in(line, metrics)
        is_saved(line)
    ends = dict(checklist.ends_by_rank(log_facts.rank_logs(Beneath(str(folder / "logs")))))
    facts = {rank: checklist.facts_of(log, 1767323045.0) for rank, log in ends.items()}
    checklist.answers(facts, begun=1767323045.0, now=1767330000.0)
    find_stall(facts, 1767330000.0, 10.0, 60.0)
    slowdown.find_slowdown(ends.items())
    collected = MetricSet()
    for rank, name in names.by_rank(names.log_names(root.names)).items():
        from_logs.read_metrics(collected, root, name, span, rank)
        from_logs.read_rank(root, name, rank, 1 << 20)
    from_files.read_json_lines(collected, Beneath(str(folder)), "metrics.jsonl", 0)
    from_files.step_times(Beneath(str(folder)), 1 << 20)
    read_step_times(root, span)
    monitor.read_samples(Beneath(str(folder)))
    heat_maps.read_heat_maps(Beneath(str(folder.parent)), [0], 0.0, 100.0)
    log_facts.evidence(str(folder / "logs"))
    read = scan.scan([str(path) for path in sorted(attempt.iterdir())])
    assert not read.unreadable, "a rule that fails hides the file"
    assert all(abs(point.step) < 10**15 for series in collected.series.values() for point in series.points)


def test_a_number_of_any_length_is_no_step() -> None:
    """Python raises for 5,000 digits, and 400 digits are no float."""
    assert parse_metrics("step " + "9" * 5000 + " loss 1.0") is None
    for digits in (16, 400, 3900):
        found = parse_metrics("step " + "9" * digits + " loss 1.0")
        assert found is not None and (found.step, found.loss) == (None, 1.0)


def test_names_that_claim_all_ranks_are_read_in_bounded_memory() -> None:
    """Twenty thousand names, each with a hundred spans of ranks."""
    spans = ",".join(f"{start}-9999999" for start in range(0, 1000, 10))
    assert len(names.ranks_of(f"n.ranks-{spans}.log")) <= 4096
    claimed = names.by_rank(f"n{index}.ranks-{index * 5000}-{index * 5000 + 4095}.log" for index in range(2000))
    assert len(claimed) < 80_000
    assert names.rank_of("rank-" + "9" * 200 + ".log") is None


def test_what_one_launch_wrote_is_a_sentence_among_the_others() -> None:
    told: list[str] = []
    with one_alone(told.append):
        raise OverflowError("int too large to convert to float")
    assert len(told) == 1 and "int too large" in told[0]
