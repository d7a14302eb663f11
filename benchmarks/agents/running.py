# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks about a program that runs: to write its job, to port its script, to prove what it makes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from benchmarks.agents.ground import Ground, Task

TRAIN = """\
import json, os
if os.environ["RANK"] == "0":
    json.dump({"loss": 0.5, "ranks": int(os.environ["WORLD_SIZE"])}, open("result.json", "w"))
"""
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=old
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:05:00
export EPOCHS=3
srun python3 old.py --lr 0.1
"""
OLD = """\
import json, os, sys
if os.environ["SLURM_PROCID"] == "0":
    made = {"ranks": int(os.environ["SLURM_NTASKS"]), "epochs": int(os.environ["EPOCHS"]), "lr": float(sys.argv[2])}
    json.dump(made, open("result.json", "w"))
"""
BROKEN = """\
name: broken
code: {src: ../code}
nodes: 2
comand: [train.py]
resources: {time: ten minutes, partition: cpu-large}
artifact: result.json
launcher: {kind: torchrunn}
"""
MENDED = {"nodes": "2", "time": "00:10:00", "partition": "None"}
THRESHOLD = """\
import json, sys
json.dump({"loss": round(1 / int(sys.argv[1]), 4)}, open("result.json", "w"))
"""
SWEPT = """\
import json, sys
json.dump({"loss": round((float(sys.argv[1]) - 0.25) ** 2, 6)}, open("result.json", "w"))
"""
TOLD = """\
import hashlib, json, os
json.dump({"sha256": hashlib.sha256(os.environ["TOKEN"].encode()).hexdigest()}, open("result.json", "w"))
"""
TOKEN = "agents-0a1b2c3d4e5f"  # noqa: S105  # of a task, and of nothing else
WEIGHTS = """\
import json, os
open("weights.bin", "wb").write(bytes(range(256)) * 64)
json.dump({"loss": 0.5}, open("result.json", "w"))
"""
MAKE = 'import json; json.dump({"tokens": 12}, open("made.json", "w"))\n'
USE = 'import json; json.dump({"loss": 0.25}, open("used.json", "w"))\n'


def job(name: str, *words: str, nodes: int = 1, path: str = "result.json", require: str = "{loss: {}}") -> str:
    """The text of a job file in jobs/, whose program is in code/ and whose artifact needs these numbers."""
    return (
        f"name: {name}\ncode: {{src: ../code}}\ncommand: {json.dumps(words)}\n"
        f"resources: {{nodes: {nodes}, time: '00:05:00'}}\n"
        f"artifact: {{path: {path}, require: {require}}}\n"
    )


def one(ground: Ground, name: str) -> Iterator[str]:
    """That this launch has succeeded, by one job."""
    if len(ground.proven(name)) != 1:
        yield f"{len(ground.proven(name))} launches of {name} have succeeded, not one"
    elif len(ground.jobs(name)) != 1:
        yield f"there were {len(ground.jobs(name))} jobs of {name}, not one"


def _first(ground: Ground) -> Iterator[str]:
    yield from one(ground, "first")
    for run in ground.proven("first"):
        if len(run.nodes) != 2 or run.result.get("ranks") != 2:
            yield f"it ran on {len(run.nodes)} nodes with {run.result.get('ranks')} ranks, not on 2 with 2"


def _ported(ground: Ground) -> Iterator[str]:
    yield from one(ground, "ported")
    for run in ground.proven("ported"):
        if dict(run.result) != {"ranks": 4, "epochs": 3, "lr": 0.1}:
            yield f"its result is {dict(run.result)}"
        if "script" in run.spec:
            yield "it runs the batch script, which the job was to replace"


def _unchanged(ground: Ground) -> Iterator[str]:
    yield from one(ground, "old")
    if (ground.place / "old.sbatch").read_text(encoding="utf-8") != SCRIPT:
        yield "old.sbatch was changed"
    for run in ground.proven("old"):
        if "script" not in run.spec or run.result.get("ranks") != 4:
            yield f"it did not run the script: {dict(run.result)}"


def _mended(ground: Ground) -> Iterator[str]:
    if ground.runs():
        yield "something was launched"
    elif "exit=0" not in ground.types("rankzero run jobs/broken.yml -d; echo exit=$?"):
        yield "jobs/broken.yml is still refused"
    else:
        (run,) = ground.runs()
        resources = {name: run.spec["resources"].get(name) for name in ("nodes", "time", "partition")}
        if {name: str(value) for name, value in resources.items()} != MENDED:
            yield f"its resources are {resources}"
        if run.spec["command"] != ["train.py"] or "loss" not in run.spec["artifact"].get("require", {}):
            yield f"its command is {run.spec['command']}, and its artifact {run.spec['artifact']}"


def _threshold(ground: Ground) -> Iterator[str]:
    if not ground.proven("threshold"):
        yield "nothing was proven"
    for run in ground.proven("threshold"):
        required = run.spec.get("artifact", {}).get("require", {}).get("loss", {})
        if {name: str(value) for name, value in required.items()} != {"lt": "0.1"}:
            yield f"what is required was changed to {required}"


def _best(ground: Ground) -> Iterator[str]:
    runs = ground.proven("swept")
    if sorted(run.result["loss"] for run in runs) != [0.0025, 0.0225, 0.0225]:
        yield f"the elements have {[dict(run.result) for run in runs]}"
    if ground.answer().get("lr") != 0.2:
        yield f"the answer is {ground.answer()}"


def _secret(ground: Ground) -> Iterator[str]:
    yield from one(ground, "told")
    for run in ground.proven("told"):
        if hashlib.sha256(TOKEN.encode()).hexdigest() != _artifact(run.path / "work" / "result.json").get("sha256"):
            yield "the program had another token"
    roots = [ground.site.host_path(ground.site.state_root), ground.place]
    for path in [file for root in roots for file in root.rglob("*")]:
        if path.is_file() and TOKEN.encode() in path.read_bytes():
            yield f"{path.name} contains the token"


def _artifact(path: object) -> dict[str, object]:
    with open(str(path), encoding="utf-8") as stream:
        document: dict[str, object] = json.load(stream)
    return document


def _pulled(ground: Ground) -> Iterator[str]:
    place = ground.place / "here" / "weights.bin"
    if not place.exists() or place.read_bytes() != bytes(range(256)) * 64:
        yield "here/weights.bin is not the file of the launch"
    yield from one(ground, "weights")


def _in_order(ground: Ground) -> Iterator[str]:
    yield from one(ground, "make")
    yield from one(ground, "use")
    if ground.proven("make") and ground.proven("use"):
        made = _artifact(ground.proven("make")[0].path / "outcome.json")["time"]
        used = _artifact(ground.proven("use")[0].path / "started.json")["time"]
        # The start has whole seconds.
        if not isinstance(made, (int, float)) or not isinstance(used, (int, float)) or used < int(made):
            yield f"use began at {used}, and make was proven at {made}"


def _all_there(ground: Ground) -> Iterator[str]:
    for name in ("a", "b", "c"):
        yield from one(ground, name)


def _planned(ground: Ground) -> Iterator[str]:
    if ground.runs():
        yield "something was launched"
    row = json.loads(ground.types("rankzero plan jobs/big.yml -n 4 --json 2> /dev/null"))["launches"][0]
    key = str(ground.answer().get("key", ""))
    if len(key) < 8 or not row["key"].startswith(key[:16]):
        yield f"the answer is {ground.answer()}, and the key {row['key']}"


def _again(ground: Ground) -> Iterator[str]:
    generations = sorted(run.generation for run in ground.proven("again"))
    if generations != [1, 2]:
        yield f"the generations that have succeeded are {generations}, not 1 and 2"


TASKS = (
    Task(
        "first-run",
        "train.py writes result.json with the number loss. Write the job `first`, which runs it on 2 nodes with one "
        "rank each, and run it until its result is proven.",
        _first,
        "mkdir -p jobs; cat > jobs/first.yml <<'END'\n"
        f"{job('first', 'train.py', nodes=2).replace('../code', '..')}END\n"
        "rankzero run jobs/first.yml",
        {"train.py": TRAIN},
    ),
    Task(
        "port-a-script",
        "old.sbatch is how old.py was run so far. Write the job `ported`, which does the same without the batch "
        "script (old.py must not be changed), with result.json as its proof, and run it once.",
        _ported,
        "rankzero init --from old.sbatch > /dev/null 2>&1; mkdir -p jobs; cat > jobs/ported.yml <<'END'\n"
        "name: ported\ncode: {src: ..}\ncommand: [old.py, --lr, '0.1']\nenv: {EPOCHS: '3'}\n"
        "launcher: {ranks_per_node: 2}\n"
        "resources: {nodes: 2, time: '00:05:00'}\nartifact: {path: result.json, require: {ranks: {eq: 4}}}\nEND\n"
        "rankzero run jobs/ported.yml",
        {"old.sbatch": SCRIPT, "old.py": OLD},
    ),
    Task(
        "run-a-script-as-it-is",
        "Run old.sbatch exactly once as it is, without changing it, as the launch `old`, such that it has only "
        "succeeded if result.json has the number ranks.",
        _unchanged,
        "cat > old.yml <<'END'\nname: old\nscript: old.sbatch\n"
        "artifact: {path: result.json, require: {ranks: {eq: 4}}}\nEND\nrankzero run old.yml",
        {"old.sbatch": SCRIPT, "old.py": OLD},
    ),
    Task(
        "mend-a-job-file",
        "jobs/broken.yml is refused. Mend it, so that `rankzero plan jobs/broken.yml` accepts it: 2 nodes, 10 minutes, "
        "the default partition, train.py started by srun, result.json with the number loss as artifact. Launch "
        "nothing.",
        _mended,
        "cat > jobs/broken.yml <<'END'\nname: broken\ncode: {src: ../code}\ncommand: [train.py]\n"
        "resources: {nodes: 2, time: '00:10:00'}\n"
        "artifact: {path: result.json, require: {loss: {}}}\nlauncher: {kind: srun}\nEND\n"
        "rankzero plan jobs/broken.yml",
        {"code/train.py": TRAIN, "jobs/broken.yml": BROKEN},
    ),
    Task(
        "reach-a-threshold",
        "jobs/threshold.yml requires a loss below 0.1, and fails. The first argument of loss.py is the number of "
        "steps. Find one with which the launch succeeds; what the job requires stays as it is.",
        _threshold,
        'rankzero run jobs/threshold.yml; sed -i \'s/"5"/"20"/\' jobs/threshold.yml; rankzero run jobs/threshold.yml',
        {
            "code/loss.py": THRESHOLD,
            "jobs/threshold.yml": job("threshold", "loss.py", "5", require="{loss: {lt: 0.1}}"),
        },
    ),
    Task(
        "sweep",
        "swept.py takes a learning rate as its argument. Run the job `swept` with 0.1, 0.2 and 0.4 as one sweep, and "
        'write the rate with the lowest loss to answer.json: {"lr": NUMBER}.',
        _best,
        "cat > jobs/swept.yml <<'END'\n"
        + job("swept", "swept.py", "{lr}")
        + "sweep: {parameters: {lr: ['0.1', '0.2', '0.4']}}\nEND\nrankzero sweep jobs/swept.yml --json | python3 -c '\n"
        'import json, sys\nrows = json.load(sys.stdin)["elements"]\n'
        'best = min(rows, key=lambda row: row["scalars"]["loss"])\n'
        'json.dump({"lr": float(best["parameters"]["lr"])}, open("answer.json", "w"))\'',
        {"code/swept.py": SWEPT, "jobs/swept.yml": job("swept", "swept.py", "{lr}")},
    ),
    Task(
        "bring-a-secret",
        "~/token.txt holds a token. Run the job jobs/told.yml once, whose program reads it from the variable TOKEN. "
        "The token must be in no file of this folder and in none of the launch.",
        _secret,
        "echo 'secrets: {TOKEN: {from_env: TOKEN}}' >> jobs/told.yml\n"
        "TOKEN=$(cat ~/token.txt) rankzero run jobs/told.yml",
        {"code/told.py": TOLD, "jobs/told.yml": job("told", "told.py", require="{sha256: {}}")},
        before=f"umask 077; echo {TOKEN} > ~/token.txt",
    ),
    Task(
        "fetch-a-file",
        "The launch `weights` has succeeded. Bring the file weights.bin of its working directory to here/weights.bin.",
        _pulled,
        "rankzero pull weights weights.bin --dest fetched; mkdir -p here; "
        'cp "$(find fetched -name weights.bin)" here/weights.bin',
        {"code/weights.py": WEIGHTS, "jobs/weights.yml": job("weights", "weights.py")},
        before="rankzero run jobs/weights.yml",
    ),
    Task(
        "in-order",
        "Run jobs/make.yml and jobs/use.yml, each once. The job `use` may only start after `make` has been proven.",
        _in_order,
        "echo 'jobs: [jobs/make.yml, jobs/use.yml]' > both.yml; rankzero pipeline both.yml",
        {
            "code/make.py": MAKE,
            "code/use.py": USE,
            "jobs/make.yml": job("make", "make.py", path="made.json", require="{tokens: {}}"),
            "jobs/use.yml": job("use", "use.py", path="used.json"),
        },
    ),
    Task(
        "a-folder-of-jobs",
        "Make the cluster match the folder jobs: each of its three jobs has succeeded, exactly once. One has succeeded "
        "already.",
        _all_there,
        "rankzero reconcile jobs; for name in a b c; do rankzero attach jobs/$name.yml; done",
        {"code/train.py": TRAIN, **{f"jobs/{name}.yml": job(name, "train.py") for name in ("a", "b", "c")}},
        before="rankzero run jobs/b.yml",
    ),
    Task(
        "only-a-plan",
        "Which launch would jobs/big.yml be on 4 nodes? Launch nothing; write its key (at least 8 digits) to "
        'answer.json: {"key": TEXT}.',
        _planned,
        "rankzero plan jobs/big.yml -n 4 --json | python3 -c 'import json, sys\n"
        'row = json.load(sys.stdin)["launches"][0]\n'
        'json.dump({"key": row["key"]}, open("answer.json", "w"))\'',
        {"code/train.py": TRAIN, "jobs/big.yml": job("big", "train.py", nodes=2) + "launcher: {ranks_per_node: 2}\n"},
    ),
    Task(
        "once-more",
        "The launch `again` has succeeded. Its data has changed since: run it once more, unchanged.",
        _again,
        "rankzero run jobs/again.yml --rerun",
        {"code/train.py": TRAIN, "jobs/again.yml": job("again", "train.py")},
        before="rankzero run jobs/again.yml",
    ),
)
