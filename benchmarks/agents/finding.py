# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks about what has happened or is wrong: a bug, a launch that stands still, a strange cluster, what is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.agents.ground import Ground, Task
from benchmarks.agents.running import TRAIN, job, one

BUG = """\
import json, os, time

ROWS = {0: "a", 1: "b", 3: "d"}
rank = int(os.environ["RANK"])
time.sleep(1 if rank == 2 else 4)
label = ROWS[rank]
if rank == 0:
    json.dump({"loss": 0.5}, open("result.json", "w"))
"""
OFF_BY_ONE = """\
import json

LOSSES = [0.9, 0.7, 0.5]
best = min(LOSSES[step] for step in range(len(LOSSES) + 1))
json.dump({"loss": best}, open("result.json", "w"))
"""
LEFT = """\
import time
for step in range(1, 2000):
    print(f"step {step}/2000 loss {1 / step:.3f}", flush=True)
    time.sleep(0.3)
"""
RIGHT = """\
import time
for step in range(1, 8):
    print(f"step {step}/2000 loss {1 / step:.3f}", flush=True)
    time.sleep(0.3)
time.sleep(3600)
"""
ONCE = """\
import json, random, time
time.sleep(15)
json.dump({"loss": round(random.random(), 6)}, open("result.json", "w"))
"""
HISTORY = """\
import json, sys
json.dump({"loss": {"red": 0.7, "green": 0.3, "blue": 0.5}[sys.argv[1]]}, open("result.json", "w"))
"""
DATA = """\
import json, sys
json.dump({"loss": float(open(sys.argv[1]).read())}, open("result.json", "w"))
"""

_ANSWER = """python3 -c '
import json, sys
{lines}
json.dump(answer, open("answer.json", "w"))'"""


def _bug(ground: Ground) -> Iterator[str]:
    answer = ground.answer()
    if answer.get("rank") != 2 or answer.get("line") != 6 or len(ground.jobs("bug")) != 1:
        yield f"the answer is {answer}, after {len(ground.jobs('bug'))} jobs"


def _mended(ground: Ground) -> Iterator[str]:
    runs = ground.proven("mend")
    if [run.result.get("loss") for run in runs] != [0.5]:
        yield f"the results are {[dict(run.result) for run in runs]}"


def _stands(ground: Ground) -> Iterator[str]:
    if ground.active("right"):
        yield "right, which stands still, was not cancelled"
    if not ground.active("left"):
        yield "left, which makes progress, runs no more"


def _adopted(ground: Ground) -> Iterator[str]:
    yield from one(ground, "once")
    for run in ground.proven("once"):
        if ground.answer().get("loss") != run.result["loss"]:
            yield f"the answer is {ground.answer()}, and the result {dict(run.result)}"


def _lowest(ground: Ground) -> Iterator[str]:
    (best,) = [run for run in ground.proven("history") if run.result["loss"] == 0.3]
    key = str(ground.answer().get("key", ""))
    if len(key) < 8 or not best.key.startswith(key):
        yield f"the answer is {ground.answer()}, and the key {best.key[:16]}"
    if len(ground.jobs("history")) != 3:
        yield "something was launched"


def _moved(ground: Ground) -> Iterator[str]:
    yield from one(ground, "moved") if not ground.active("moved") else ["a job of it still waits"]


def _narrow(ground: Ground) -> Iterator[str]:
    if len(ground.proven("wide")) != 1 or ground.active("wide"):
        yield "no launch has succeeded, or one still waits"
    for run in ground.proven("wide"):
        if len(run.nodes) != 2:
            yield f"it ran on {len(run.nodes)} nodes"


def _seeing(ground: Ground) -> Iterator[str]:
    runs = ground.proven("data")
    if not runs or not all(run.result.get("loss") == 0.125 and len(run.nodes) == 1 for run in runs):
        yield f"the results are {[dict(run.result) for run in runs]}"
    copies = [path for path in ground.place.rglob("data.txt") if path.is_file()]
    if copies or not all(ground.notes["data"] in " ".join(run.spec["command"]) for run in runs):
        yield "the program read something else"


def _partition_down(ground: Ground) -> Callable[[], None]:
    default = next(word[:-1] for word in ground.slurm("sinfo", "-h", "-o", "%P").split() if word.endswith("*"))
    ground.slurm("scontrol", "update", f"PartitionName={default}", "State=DOWN")
    return lambda: void(ground.slurm("scontrol", "update", f"PartitionName={default}", "State=UP"))


def _drained(ground: Ground) -> Callable[[], None]:
    nodes = ",".join(sorted(ground.lab.nodes)[2:])
    ground.slurm("scontrol", "update", f"NodeName={nodes}", "State=DRAIN", "Reason=memory")
    return lambda: void(ground.slurm("scontrol", "update", f"NodeName={nodes}", "State=RESUME"))


def _blind(ground: Ground) -> Callable[[], None]:
    inside = f"{ground.site.state_root}.data"
    place = ground.site.host_path(inside)
    place.mkdir()
    (place / "data.txt").write_text("0.125", encoding="utf-8")
    ground.notes["data"] = f"{inside}/data.txt"
    ground.write("code/data.py", DATA)
    ground.write("jobs/data.yml", job("data", "data.py", ground.notes["data"]))
    node = sorted(ground.lab.nodes)[0]
    ground.lab.faults.hide(node, inside)
    return lambda: ground.lab.faults.unhide(node, inside)


def void(_printed: str) -> None:
    """Nothing: what a command has printed is of no interest."""


TASKS = (
    Task(
        "find-a-bug",
        "The launch `bug` has failed. Which rank failed first, and at which line of code/bug.py? Launch nothing; write "
        'answer.json: {"rank": NUMBER, "line": NUMBER}.',
        _bug,
        "rankzero why bug --json | "
        + _ANSWER.format(
            lines='import re\n(row,) = json.load(sys.stdin)["launches"]\ntext = json.dumps(row)\n'
            'answer = {"rank": row["diagnosis"]["ranks"][0], "line": int(re.search(r"bug.py\\D+(\\d+)", text)[1])}'
        ),
        {
            "code/bug.py": BUG,
            "jobs/bug.yml": job("bug", "bug.py", nodes=2).replace(
                "resources", "launcher: {ranks_per_node: 2}\nresources"
            ),
        },
        before="rankzero run jobs/bug.yml",
    ),
    Task(
        "mend-a-bug",
        "The launch `mend` fails. Mend code/mend.py, such that the job proves the lowest of its losses.",
        _mended,
        "sed -i 's/ + 1))/))/' code/mend.py; rankzero run jobs/mend.yml",
        {"code/mend.py": OFF_BY_ONE, "jobs/mend.yml": job("mend", "mend.py")},
        before="rankzero run jobs/mend.yml",
    ),
    Task(
        "what-stands-still",
        "Two launches run: `left` and `right`. One of them makes no progress any more. Cancel that one, and leave the "
        "other alone.",
        _stands,
        "sleep 5; for name in left right; do rankzero logs $name --dest $name.1 > /dev/null; done; sleep 5\n"
        "for name in left right; do rankzero logs $name --dest $name.2 > /dev/null\n"
        'cat $(find $name.1 -name "rank*" -type f) > one; cat $(find $name.2 -name "rank*" -type f) > two\n'
        "if cmp -s one two; then rankzero cancel $name; fi; done",
        {
            "code/left.py": LEFT,
            "code/right.py": RIGHT,
            **{f"jobs/{name}.yml": job(name, f"{name}.py") for name in ("left", "right")},
        },
        before="rankzero run jobs/left.yml -d; rankzero run jobs/right.yml -d; sleep 12",
    ),
    Task(
        "what-runs-already",
        "Somebody has launched jobs/once.yml a moment ago. Its program must not run a second time. Wait for its "
        'result, and write it to answer.json: {"loss": NUMBER}.',
        _adopted,
        "rankzero run jobs/once.yml --json | "
        + _ANSWER.format(lines='(row,) = json.load(sys.stdin)["launches"]\nanswer = row["status"]["result"]'),
        {"code/once.py": ONCE, "jobs/once.yml": job("once", "once.py")},
        before="rankzero run jobs/once.yml -d",
    ),
    Task(
        "the-best-so-far",
        "Three launches of the name `history` have succeeded. Which has the lowest loss? Launch nothing; write its key "
        '(at least 8 digits) to answer.json: {"key": TEXT}.',
        _lowest,
        "rankzero ls history --all --json | "
        + _ANSWER.format(
            lines='rows = json.load(sys.stdin)["launches"]\n'
            'answer = {"key": min(rows, key=lambda row: row["status"]["result"]["loss"])["key"]}'
        ),
        {"code/history.py": HISTORY, "jobs/history.yml": job("history", "history.py")},
        before="for word in red green blue; do rankzero run jobs/history.yml -- $word; done",
    ),
    Task(
        "a-partition-that-is-down",
        "Run the job jobs/moved.yml on this cluster until it is proven, by one job. Something is wrong with the "
        "default partition; you cannot change the cluster.",
        _moved,
        "rankzero run jobs/moved.yml --partition short",
        {"code/train.py": TRAIN, "jobs/moved.yml": job("moved", "train.py")},
        prepare=_partition_down,
    ),
    Task(
        "a-cluster-that-is-drained",
        "Run the job jobs/wide.yml until it is proven, on as many nodes as this cluster can give now, and leave "
        "nothing waiting.",
        _narrow,
        "rankzero run jobs/wide.yml -n 2",
        {"code/train.py": TRAIN, "jobs/wide.yml": job("wide", "train.py", nodes=4)},
        prepare=_drained,
    ),
    Task(
        "a-node-that-is-blind",
        "Run the job jobs/data.yml until it is proven. It fails, for a reason that is not in the program, and is not "
        "the same on every node. The data stay where they are, and the job has one node.",
        _seeing,
        "rankzero run jobs/data.yml; node=$(rankzero ls data --json | python3 -c 'import json, sys\n"
        'print(json.load(sys.stdin)["launches"][0]["status"]["nodes"][0])\')\n'
        "rankzero run jobs/data.yml --exclude $node",
        prepare=_blind,
    ),
)
