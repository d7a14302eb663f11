# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --from`: hand-written set-ups become jobs with the step that was written by hand, or script jobs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import STARTERS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from rankzero.sbatch.convert import Converted, converted
from tests.plans import plan
from tests.unit.command.sbatch.recorded import needs_sandbox

pytestmark = needs_sandbox

SCRIPTS = Path(__file__).parent / "scripts"
CLUSTER = {"state_root": "/project/ml/rankzero", "store_root": "/scratch/ml/rankzero"}

#: Script -> what its header and its srun line ask for, how many ranks a node has, and how its program is started.
WRITTEN: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "megatron_bridge": (
        {
            "nodes": "2",
            "ntasks": "2",
            "ntasks-per-node": "1",
            "cpus-per-task": "96",
            "mpi": "pmix",
            "container-image": "/project/images/nemo-25.09.sqsh",
            "no-container-mount-home": "",
            "container-mounts": "/project/ml/data:/data:ro,/project/ml/Megatron-Bridge:/opt/bridge:ro,"
            "/scratch/ml/cache:/scratch/ml/cache",
        },
        {"RANKZERO_LAUNCHER": "torchrun", "RANKZERO_RENDEZVOUS": "static", "RANKZERO_RANKS_PER_NODE": "8"},
        "pretrain.py --train-iters 500 --tp 2 --pp 2",
    ),
    "megatron_lm": (
        {
            "nodes": "2",
            "ntasks": "16",
            "ntasks-per-node": "8",
            "cpus-per-task": "12",
            "container-image": "/project/images/pytorch-24.07.sqsh",
            "no-container-mount-home": "",
            "container-mounts": "/project/ml/data:/data:ro,/project/ml/Megatron-LM:/opt/megatron-lm:ro",
        },
        {"RANKZERO_LAUNCHER": "srun", "RANKZERO_RANKS_PER_NODE": "8", "RANKZERO_GPUS_PER_NODE": "8"},
        "pretrain.py --train-iters 1000 --num-layers 24 --hidden-size 2048 --num-attention-heads 32",
    ),
    "kempnerforge": (
        {"nodes": "2", "ntasks": "2", "ntasks-per-node": "1", "cpus-per-task": "64"},
        {"RANKZERO_LAUNCHER": "torchrun", "RANKZERO_RENDEZVOUS": "c10d", "RANKZERO_RANKS_PER_NODE": "4"},
        "train.py --steps 10000",
    ),
    "cpu_ddp_lab": (
        {"nodes": "3", "ntasks": "3", "ntasks-per-node": "1", "cpus-per-task": "2"},
        {"RANKZERO_LAUNCHER": "torchrun", "RANKZERO_RANKS_PER_NODE": "2", "RANKZERO_LOG_STYLE": "slurm"},
        "ddp.py --epochs 30",
    ),
    "enroot_site": (
        {
            "nodes": "2",
            "ntasks": "16",
            "ntasks-per-node": "8",
            "cpus-per-task": "12",
            "container-image": "/project/images/site-pytorch.sqsh",
            "container-mounts": "/project/ml/data:/data:ro",
            "container-remap-root": "",
            "container-writable": "",
        },
        {"RANKZERO_LAUNCHER": "srun", "RANKZERO_TIMESTAMPS": "120", "RANKZERO_MONITOR_GPU": "15"},
        "pretrain.py --steps 100",
    ),
}
#: Script -> header lines that must stand in the rendered script too.
HEADER: dict[str, list[str]] = {
    "megatron_bridge": [
        "account=ml",
        "partition=gpu",
        "gpus-per-node=h100:8",
        "mem=0",
        "exclusive",
        "time=04:00:00",
        "requeue",
    ],
    "megatron_lm": ["account=ml", "partition=gpu", "gpus-per-node=h100:8", "mem=0", "exclusive", "time=08:00:00"],
    "kempnerforge": [
        "account=lab_dev",
        "partition=gpu_h100",
        "gpus-per-node=h100:4",
        "mem=256G",
        "time=2-00:00:00",
        "requeue",
    ],
    "cpu_ddp_lab": ["mem=4G", "time=00:20:00", "exclude=node07"],
    "enroot_site": ["account=ml", "gpus-per-node=h100:8", "mem=0", "container-image=/project/images/site-pytorch.sqsh"],
}


#: What every step gets in addition: the exit of one rank ends the others, variables and logs, the binding that the
#: launcher needs (docs/job-spec.md).
ADDED = {
    "kill-on-bad-exit": "1",
    "wait": "3600",
    "export": "ALL",
    "output": "$RANKZERO_LOGS/step.log",
    "open-mode": "append",
}
BINDING = {"srun": "cores", "torchrun": "none"}
#: What a container gets in addition, unless the script says otherwise: nothing depends on the site's own defaults.
CONTAINER = {
    "no-container-entrypoint": "",
    "no-container-mount-home": "",
    "no-container-remap-root": "",
    "container-readonly": "",
}
CONTRARY = {"container-remap-root": "no-container-remap-root", "container-writable": "container-readonly"}


def expected_options(asked: dict[str, str], launcher: str) -> dict[str, str]:
    """Every option of the ranks' srun but the folders of the launch, which the collection chooses."""
    added = {**ADDED, "cpu-bind": BINDING[launcher]}
    if "container-image" in asked:
        added |= CONTAINER
    for option in asked:
        added.pop(CONTRARY.get(option, ""), None)
    return {**added, **asked}


def expected_start(launcher: str, rendezvous: str | None, container: bool) -> list[str]:
    """The words between the options of srun and the user's program."""
    enter = ["$RANKZERO_RUNTIME/container/enter.sh"] if container else []
    (row,) = [row for row in STARTERS if row.kind == launcher]
    command = row.words(rendezvous)
    count = [str(len(command))] if command else []
    return ["/bin/bash", *enter, f"$RANKZERO_RUNTIME/{row.script}", *count, *command, "$RANKZERO_PYTHON"]


def rendered(job: Path) -> str:
    read = read_job(str(job), CLUSTER, {}, {}, str(job.parent))
    made = plan(
        read.spec,
        read.merged,
        code_key="c0de" * 16,
        environment_key="e" * 32 if read.spec.environment.mode == "venv" else None,
        runtime_key="4" * 32,
        state_root=CLUSTER["state_root"],
        store_root=CLUSTER["store_root"],
        settings=read.settings,
    )
    return with_generation(render_script(made), made.token, 1)


def step(script: str) -> tuple[dict[str, str], list[str]]:
    """The whole line of the ranks' srun: its options, and the words behind them."""
    (line,) = re.findall(r"^rankzero_launch srun (.*?)\n(?!    )", script.replace("\\\n", " "), re.M | re.S)
    words = shlex.split(line)
    count = next(number for number, word in enumerate(words) if not word.startswith("--"))
    options = dict(word[2:].partition("=")[::2] for word in words[:count])
    assert len(options) == count, f"an option is given twice: {words[:count]}"
    return options, words[count:]


#: Set-up -> what of it only a script can say, by line: steps besides the program, conditions, a loop that waits.
KEPT: dict[str, set[int]] = {
    "megatron_bridge": {43, 46},
    "megatron_lm": {23, 29, 32},
    "cpu_ddp_lab": {20},
}
#: Set-up -> its lines that no job has: without them the rest is the job.
WITHOUT: dict[str, tuple[tuple[str, str], ...]] = {
    "megatron_bridge": (
        (r"srun --nodes=1 --ntasks=1.*?uv sync --frozen\"\n", ""),
        (r"grep .*\n", ""),
    ),
    "megatron_lm": ((r"\$MODEL &", "$MODEL"), (r"while .*", "")),
    "cpu_ddp_lab": ((r"srun --ntasks-per-node=1 .*?\n", ""), (r"if \[.*?\nfi\n", "")),
}


def project(folder: Path, name: str) -> Path:
    """A folder with a set-up's script and the files that it names. Returns the script."""
    for file in ("pretrain.py", "train.py", "ddp.py", "pyproject.toml"):
        (folder / file).touch()
    (folder / "jobs").mkdir(exist_ok=True)
    script = folder / f"{name}.sbatch"
    script.write_text((SCRIPTS / script.name).read_text(encoding="utf-8"), encoding="utf-8")
    return script


@pytest.mark.parametrize("name", KEPT)
def test_set_up_with_more_than_one_program_is_a_script_job(name: str, tmp_path: Path) -> None:
    made = converted(str(project(tmp_path, name)), str(tmp_path / "jobs"))
    assert yaml.safe_load(made.text)["script"] == f"../{name}.sbatch"
    assert KEPT[name] <= {row.line for row in made.rows if row.kept and row.why}
    assert "not_a_real_token" not in made.text, "a secret's value was copied"
    job = tmp_path / "jobs" / f"{made.name}.yml"
    job.write_text(made.text, encoding="utf-8")
    assert rendered(job)


@pytest.mark.parametrize("name", WRITTEN)
def test_set_up_written_by_hand_imports_and_renders_its_own_step(name: str, tmp_path: Path) -> None:
    source = project(tmp_path, name)
    text = source.read_text(encoding="utf-8")
    for pattern, instead in WITHOUT.get(name, ()):
        text = re.sub(pattern, instead, text, flags=re.S if "*?" in pattern or "while" in pattern else 0)
    source.write_text(text, encoding="utf-8")
    made = converted(str(source), str(tmp_path / "jobs"))
    job = tmp_path / "jobs" / f"{made.name}.yml"
    job.write_text(made.text, encoding="utf-8")
    assert [row for row in made.rows if row.kept] == []
    assert "not_a_real_token" not in made.text, "a secret's value was copied"

    script = rendered(job)
    asked, exported, program = WRITTEN[name]
    given, started = step(script)
    launcher = exported["RANKZERO_LAUNCHER"]
    asked = dict(asked)
    mounts = {name: options.pop("container-mounts", "").split(",") for name, options in (("by", asked), ("in", given))}
    assert mounts["in"][: len(mounts["by"])] == mounts["by"]
    # The launch's own folders come behind: code, environment, runtime, run directory.
    places = (CLUSTER["state_root"], CLUSTER["store_root"])
    assert all(mount.startswith(places) for mount in mounts["in"][len(mounts["by"]) :])
    assert given.pop("container-workdir", places[0]).startswith(places[0])
    assert given == expected_options(asked, launcher)
    assert started == [
        *expected_start(launcher, exported.get("RANKZERO_RENDEZVOUS", "static"), "container-image" in asked),
        *program.split(),
    ]
    exports = dict(re.findall(r"^export (\w+)=(.*)$", script, re.M))
    assert {variable: exports.get(variable) for variable in exported} == exported
    header = set(re.findall(r"^#SBATCH --(.*)$", script, re.M))
    assert set(HEADER[name]) <= header, header


HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n"


def made_of(folder: Path, body: str, header: str = "") -> Converted:
    """What becomes of a script that lies beside its programs."""
    for file in ("train.py", "pyproject.toml"):
        (folder / file).touch()
    script = folder / "train.sbatch"
    script.write_text(f"{HEAD}{header}{body}\n", encoding="utf-8")
    return converted(str(script), str(folder / "jobs"))


def spec_of(folder: Path, body: str, header: str = "") -> dict[str, Any]:
    made = made_of(folder, body, header)
    assert [row for row in made.rows if row.kept] == []
    return dict(yaml.safe_load(made.text))


#: What a script says -> a part of the job.
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "accelerate": (
        "srun accelerate launch --num_processes 8 --num_machines 2 --mixed_precision bf16 train.py --lr 1",
        {
            "launcher": {"kind": "torchrun", "ranks_per_node": 4},
            "env": {"ACCELERATE_MIXED_PRECISION": "bf16"},
            "command": ["train.py", "--lr", "1"],
        },
    ),
    "accelerate by its own launcher": (
        "srun accelerate launch --num_processes 8 --num_machines 2 --same_network -m pkg.train --lr 1",
        {
            "launcher": {"kind": "accelerate", "ranks_per_node": 4},
            "command": ["python", "-m", "pkg.train", "--lr", "1"],
        },
    ),
    "deepspeed": (
        "srun deepspeed --num_gpus 4 --hostfile h train.py --deepspeed ds.json",
        {"launcher": {"kind": "deepspeed", "ranks_per_node": 4}, "command": ["train.py", "--deepspeed", "ds.json"]},
    ),
    "module": ("srun python3 -m pkg.train --x", {"command": ["python", "-m", "pkg.train", "--x"]}),
    "torchrun module": (
        "srun python -m torch.distributed.run --nnodes 2 --nproc-per-node 2 -m pkg.train",
        {"command": ["python", "-m", "pkg.train"], "launcher": {"kind": "torchrun", "ranks_per_node": 2}},
    ),
    "apptainer": (
        "srun apptainer exec --nv --bind /data,/scratch/me:/work -B /x:/y:ro /i/image.sif python train.py",
        {
            "container": {
                "runtime": "apptainer",
                "image": "/i/image.sif",
                "mounts": ["/data:/data", "/scratch/me:/work", "/x:/y:ro"],
                "mount_home": True,
            }
        },
    ),
    "modules in order": (
        "module use /site\nmodule load cuda/12 nccl\nsrun python train.py",
        {"setup": {"commands": ["module use /site", "module load cuda/12 nccl"]}},
    ),
    "variables": (
        "LR=1e-3\nexport OUT=${OUT:-/scratch/x}\nsrun python train.py --lr $LR --out ${OUT} &> log",
        {"command": ["train.py", "--lr", "1e-3", "--out", "/scratch/x"], "env": {"OUT": "/scratch/x"}},
    ),
    "folders before the node's": (
        "export PATH=/x/bin:$PATH PYTHONPATH=$PYTHONPATH:/src\nsrun python train.py",
        {"setup": {"commands": ['export PATH="/x/bin:${PATH}"']}, "env": {"PYTHONPATH": "/src"}},
    ),
    "venv of the project": (
        "source .venv/bin/activate && srun python train.py",
        {"environment": {"mode": "venv", "project": ".."}},
    ),
    "shell": (
        "srun bash -c 'cd x; ./prepare $RANK; python train.py'",
        {"shell": "cd x; ./prepare $RANK; python train.py"},
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_part_of_a_script(name: str, tmp_path: Path) -> None:
    body, wanted = PARTS[name]
    found = spec_of(tmp_path, body)
    assert {key: found.get(key) for key in wanted} == wanted


def test_a_launcher_of_one_node_needs_no_srun(tmp_path: Path) -> None:
    made = spec_of(tmp_path, "torchrun --standalone --nproc_per_node=gpu train.py", "#SBATCH --nodes=1\n")
    assert (made["launcher"], made["command"]) == ({"kind": "standalone"}, ["train.py"])


@pytest.mark.parametrize(
    ("header", "resources"),
    [
        ("#SBATCH -n 8 --ntasks-per-node=4\n", {"nodes": 2}),
        ("#SBATCH --gpus=h100:16 --ntasks-per-node=8\n", {"gpus_per_node": 8, "gpu_type": "h100"}),
        ("#SBATCH --gres=gpu:4,lscratch:500 --ntasks-per-node=4\n", {"gpus_per_node": 4, "gres": ["lscratch:500"]}),
        ("#SBATCH --exclude=node[01-03],node07\n", {"exclude": ["node[01-03]", "node07"]}),
        ("#SBATCH --mail-type=END --hold\n", {"sbatch": {"mail-type": "END", "hold": True}}),
    ],
)
def test_options_of_the_header(header: str, resources: dict[str, Any], tmp_path: Path) -> None:
    found = spec_of(tmp_path, "srun python train.py", header)["resources"]
    assert {key: found.get(key) for key in resources} == resources


def test_init_writes_a_project_and_replaces_nothing(rankzero: Callable[..., int], tmp_path: Path) -> None:
    folder = tmp_path / "My project!"
    folder.mkdir()
    assert rankzero("init", str(folder)) == 0
    job = folder / "jobs" / "My-project.yml"
    read_job(str(job), CLUSTER, {}, {}, str(folder))
    job.write_text("mine", encoding="utf-8")
    assert rankzero("init", str(folder)) == 2
    assert job.read_text(encoding="utf-8") == "mine"
    assert rankzero("init", str(folder), "--force") == 0
    assert job.read_text(encoding="utf-8") != "mine"
