# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""benchmarks/run faults --random: run all batches on one lab, check all launches again after a pause, and make the
table. The result of a batch is saved at once, so an interrupted run loses nothing.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from benchmarks.faults import instants, playing
from benchmarks.faults.batch import Came, Launched, Storm
from benchmarks.faults.ground import Ground
from benchmarks.faults.kinds import KINDS
from benchmarks.faults.run import STOP
from benchmarks.launch import table

#: A proven launch may be repeated late, so all launches are checked again this many seconds after the last has settled.
LOOK_AGAIN = 120.0
#: Counts of `Row`, in words.
_SHAPES = {
    "sealed": "had a sealed environment",
    "arrays": "were job arrays",
    "spares": "had a spare node",
    "restarted": "went on on a spare node",
    "handed_over": "went on in another job",
}


@dataclass
class Row:
    """The results for one kind of fault on one lab, in one batch."""

    lab: str
    batch: int
    kind: str
    injections: int
    launches: int
    seconds: list[float]
    lost: list[str]
    doubled: list[str]
    helped: list[str]
    broken: list[str]
    #: How many waits of playbooks began, those that ended too late, and jobs that outlived their proof.
    waits: int
    late: list[str]
    alive: list[str]
    #: How many launches had a sealed environment, were job arrays, had a spare node, restarted on it, and went on in
    #: another job.
    sealed: int
    arrays: int
    spares: int
    restarted: int
    handed_over: int
    #: How long the batch took, in seconds.
    took: float
    #: Launches of which a process outlived the job, and that a restarted server should have spared and did not.
    left: list[str]
    unhealed: list[str]
    #: Shape of a launch -> how many launches had it, and how many injections met one of them under way.
    shapes: dict[str, int]
    met: dict[str, int]


def rows_of(lab: str, came: Came) -> list[Row]:
    """A batch as rows: one for its kind, or one for each kind of fault that hit its launches."""
    rows: list[Row] = []
    for kind in dict.fromkeys(launch.kind for launch in came.launched):
        of = [launch for launch in came.launched if launch.kind == kind]
        names = {launch.case.name for launch in of}
        late, alive, left, unhealed = (
            [text for text in told if text.partition(":")[0] in names] for told in _wrong(came)
        )
        rows.append(
            Row(
                lab,
                came.batch.number,
                kind,
                came.injected.get(kind, 0),
                len(of),
                [round(launch.seconds, 1) for launch in of if launch.proven],
                [f"{launch.case.name}: {','.join(launch.states)}: {launch.message}" for launch in of if launch.lost],
                [f"{launch.case.name}: {word}" for launch in of for word in [launch.doubled()] if word],
                [] if rows else came.helped,
                [] if rows else came.broken,
                sum(wait.name in names for wait in came.waits),
                late,
                alive,
                *_shapes(of),
                0.0 if rows else round(came.seconds, 1),
                left,
                unhealed,
                dict(Counter(launch.shape for launch in of)),
                {shape: count for (name, shape), count in came.met.items() if name == kind},
            )
        )
    return rows


def _shapes(of: Sequence[Launched]) -> tuple[int, int, int, int, int]:
    """Counts of launches as in `Row`. What became of a launch is in the verdicts of its earlier attempts."""
    earlier = [[said for part in launch.case.parts() for said in part.outcomes().values()] for launch in of]
    return (
        sum("environment" in launch.case.job for launch in of),
        sum(len(launch.case.parts()) > 1 for launch in of),
        sum("spares" in launch.case.job["resources"] for launch in of),
        sum(any(said.get("ended_by") == "restart" for said in launch) for launch in earlier),
        sum(any(" takes over: " in str(said.get("message")) for said in launch) for launch in earlier),
    )


def run_at_random(
    lab: Lab,
    label: str,
    scratch: Path,
    count: int,
    *,
    seed: str,
    out: Path,
    minutes: float = 0.0,
    look_again: float = LOOK_AGAIN,
    scale: instants.Scale | None = None,
    without: frozenset[str] = frozenset(),
) -> list[Row]:
    """Run `count` injections on a running lab. The results are saved in OUT/LABEL/rows.json after each batch, together
    with evidence about failures.

    `minutes`: no batch begins later than that; 0 is no limit.
    `without`: kinds to leave out, in addition to those that the lab does not support.
    """
    ground = Ground(lab, scratch)
    if shutil.which("mksquashfs"):
        ground.sealed = playing.seal(ground)
    storm = Storm(ground, f"{seed}-{label}")
    without |= storm.breaker.impossible()
    deadline = time.monotonic() + minutes * 60 if minutes else None
    shutil.rmtree(out / label, ignore_errors=True)
    (out / label).mkdir(parents=True)
    rows: list[Row] = []
    launched: list[Launched] = []
    for batch in instants.batches(f"{seed}-{label}", count, lab.nodes, without=without, scale=scale):
        if STOP.is_set() or (deadline and time.monotonic() > deadline):
            break
        came = storm.carry_out(batch)
        launched += came.launched
        new = rows_of(label, came)
        rows += new
        write(out / label, rows)
        for launch in came.launched:
            slow = any(text.startswith(f"{launch.case.name}:") for told in _wrong(came) for text in told)
            if slow or launch.lost or launch.doubled():
                keep(ground, launch, out / label)
        _tell(label, came, new)
    _later(storm, rows, launched, 0.0 if STOP.is_set() else look_again, out / label)
    write(out / label, rows)
    return rows


def _wrong(came: Came) -> tuple[list[str], list[str], list[str], list[str]]:
    """Each text begins with the name of its launch."""
    return came.late, came.alive, came.left, came.unhealed


def write(folder: Path, rows: Sequence[Row]) -> None:
    (folder / "rows.new").write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    (folder / "rows.new").rename(folder / "rows.json")


def saved(folder: Path, labs: Sequence[str]) -> list[Row]:
    """The rows saved by the last run on each lab, even if it was interrupted."""
    rows: list[Row] = []
    for lab in labs:
        path = folder / lab / "rows.json"
        if path.exists():
            rows += [Row(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    return rows


def _later(storm: Storm, rows: Sequence[Row], launched: Sequence[Launched], seconds: float, kept: Path) -> None:
    """Check every launch again, and add later failures to its row."""
    STOP.wait(seconds)
    ground, left = storm.ground, storm.left(launched, storm.ends())
    for launch in launched:
        number = int(launch.case.name.partition("-")[0].removeprefix("r"))
        row = next(row for row in rows if row.batch == number and row.kind == launch.kind)
        word = launch.doubled()
        if word and not any(text.startswith(f"{launch.case.name}:") for text in row.doubled):
            row.doubled.append(f"{launch.case.name}: later: {word}")
            keep(ground, launch, kept)
        for text in left:
            if text.startswith(f"{launch.case.name}:") and text not in row.left:
                row.left.append(f"{text} (later)")
                keep(ground, launch, kept)
        if launch.proven and not launch.case.proven():
            row.lost.append(f"{launch.case.name}: its proof is gone")
            keep(ground, launch, kept)


def keep(ground: Ground, launch: Launched, folder: Path) -> None:
    """Save what is needed to find the cause: the launch's folders, its ledger, and the daemons' logs."""
    target = folder / launch.case.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for number, part in enumerate(launch.case.parts()):
        if part.runs.is_dir():
            shutil.copytree(part.runs, target / f"runs-{number}", symlinks=True, ignore_dangling_symlinks=True)
    names = sorted(f"{path.name} {path.stat().st_mtime:.2f}\n" for path in launch.case.ledger.rglob("*"))
    (target / "ledger").write_text("".join(names), encoding="utf-8")
    for log in Path(ground.lab.path("log")).glob("*/slurm*.log"):
        shutil.copy(log, target / f"{log.parent.name}-{log.name}")


def _tell(label: str, came: Came, rows: Iterable[Row]) -> None:
    for row in rows:
        word = "good" if not row.lost and not row.doubled else f"LOST {row.lost} DOUBLED {row.doubled}"
        rest = f"; {row.helped}" if row.helped else ""
        rest += f"; LATE {row.late}" if row.late else ""
        rest += f"; ALIVE {row.alive}" if row.alive else ""
        rest += f"; LEFT {row.left}" if row.left else ""
        rest += f"; UNHEALED {row.unhealed}" if row.unhealed else ""
        rest += f"; {row.broken}" if row.broken else ""
        print(
            f"[faults] {label} {row.batch}: {row.kind}: {row.injections} on {row.launches} launches: {word}"
            f" ({came.seconds:.0f} s: {came.phases}){rest}",
            file=sys.stderr,
            flush=True,
        )


def good(rows: Iterable[Row]) -> bool:
    """Whether nothing is lost, doubled or late. A job that outlives its proof is left to a reader: Slurm may be waiting
    for a lost node.
    """
    return not any(row.lost or row.doubled or row.late or row.left or row.unhealed for row in rows)


def report(rows: Sequence[Row], labs: Sequence[str]) -> str:
    """The table: one row per kind of fault, with the injections on each lab, and the launches lost or doubled."""
    lines: list[Sequence[object]] = []
    for kind, record in KINDS.items():
        of = [row for row in rows if row.kind == kind]
        lines.append(
            [record.title, *_counts(of, labs), table.spread([value for row in of for value in row.seconds], 0)]
        )
    lines.append(["**all**", *_counts(rows, labs), None])
    counted = ["launches", "lost", "doubled", "left", "waits", "late waits", "alive 10 s after its proof"]
    head = ["fault at a random time", *labs, *counted, "seconds until it is proven"]
    helped = [text for row in rows for text in row.helped]
    counts = "".join(f"\n- {text}: {helped.count(text)} times" for text in sorted(set(helped)))
    shapes = ", ".join(f"{sum(getattr(row, name) for row in rows)} {text}" for name, text in _SHAPES.items())
    count = sum(row.injections for row in rows)
    seconds = max((sum(row.took for row in rows if row.lab == lab) for lab in labs), default=0.0)
    return (
        f"{count} injections on {sum(row.launches for row in rows)} launches in {seconds / 60:.0f} min.\n\n"
        f"{table.markdown(head, lines)}\n{_by_shape(rows)}\nOf the launches: {shapes}.\n"
        + (f"\nLeft to an administrator by Slurm:\n{counts}\n" if counts else "")
    )


def _counts(rows: Sequence[Row], labs: Sequence[str]) -> list[object]:
    each: list[object] = [sum(row.injections for row in rows if row.lab == lab) or None for lab in labs]
    launches, waits = sum(row.launches for row in rows), sum(row.waits for row in rows)
    lost, doubled, left, late, alive = (
        sum(len(getattr(row, name)) for row in rows) for name in ("lost", "doubled", "left", "late", "alive")
    )
    return [*each, launches, lost, doubled, left, waits, late, alive]


def _by_shape(rows: Sequence[Row]) -> str:
    """A row per kind of fault: how many injections met a launch of each shape under way; then what became of them."""
    lines: list[Sequence[object]] = []
    for kind, record in KINDS.items():
        of = [row for row in rows if row.kind == kind]
        lines.append([record.title, *(sum(row.met.get(shape, 0) for row in of) or None for shape in instants.SHAPES)])
    lines.append(["**launches**", *(sum(row.shapes.get(shape, 0) for row in rows) for shape in instants.SHAPES)])
    for count in ("lost", "doubled", "left", "late", "alive", "unhealed"):
        # A launch's name has its shape as second word.
        told = Counter(text.split("-")[1] for row in rows for text in getattr(row, count))
        lines.append([f"**{count}**", *(told[shape] for shape in instants.SHAPES)])
    return table.markdown(["fault met by launches", *instants.SHAPES], lines)
