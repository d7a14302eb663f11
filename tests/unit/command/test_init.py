# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --from`: five hand-written set-ups become jobs whose step is the one that was written by hand."""

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
from rankzero.errors import RankzeroError
from rankzero.sbatch.convert import converted, job_of
from tests.plans import plan

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


@pytest.mark.parametrize("name", WRITTEN)
def test_set_up_written_by_hand_imports_untouched_and_renders_its_own_step(name: str, tmp_path: Path) -> None:
    source = SCRIPTS / f"{name}.sbatch"
    (tmp_path / "jobs").mkdir()
    found = converted(str(source), str(tmp_path / "jobs"))
    job = tmp_path / "jobs" / f"{found.name}.yml"
    job.write_text(found.text, encoding="utf-8")
    assert "Not understood" not in found.text
    assert "not_a_real_token" not in found.text, "a secret's value was copied"

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


def spec_of(body: str, header: str = "") -> dict[str, Any]:
    return job_of(f"{HEAD}{header}{body}\n").spec


#: What a script says -> a part of the job.
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "accelerate": (
        "accelerate launch --num_processes 8 --num_machines 2 --mixed_precision bf16 train.py --lr 1",
        {
            "launcher": {"kind": "torchrun", "ranks_per_node": 4},
            "env": {"ACCELERATE_MIXED_PRECISION": "bf16"},
            "command": ["train.py", "--lr", "1"],
        },
    ),
    "deepspeed": (
        "deepspeed --num_gpus 4 --hostfile h train.py --deepspeed ds.json",
        {"launcher": {"kind": "torchrun", "ranks_per_node": 4}, "command": ["train.py", "--deepspeed", "ds.json"]},
    ),
    "standalone": (
        "torchrun --standalone --nproc_per_node=gpu train.py",
        {"launcher": {"kind": "standalone"}, "command": ["train.py"]},
    ),
    "module": ("srun python3 -m pkg.train --x", {"command": ["python", "-m", "pkg.train", "--x"]}),
    "torchrun module": (
        "srun python -m torch.distributed.run --nproc-per-node 2 -m pkg.train",
        {"command": ["python", "-m", "pkg.train"], "launcher": {"kind": "torchrun", "ranks_per_node": 2}},
    ),
    "apptainer": (
        "srun apptainer exec --nv --bind /data,/scratch/me:/work -B /x:/y:ro image.sif python train.py",
        {
            "container": {
                "runtime": "apptainer",
                "image": "image.sif",
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
    "value of the node": (
        "export TMP_DIR=/local/$USER\nsrun python train.py",
        {"setup": {"commands": ['export TMP_DIR="/local/$USER"']}},
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
def test_part_of_a_script(name: str) -> None:
    body, wanted = PARTS[name]
    found = spec_of(body)
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("header", "resources"),
    [
        ("#SBATCH -n 8 --ntasks-per-node=4\n", {"nodes": 2}),
        ("#SBATCH --gpus=h100:16\n", {"gpus_per_node": 8, "gpu_type": "h100"}),
        ("#SBATCH --gres=gpu:4,lscratch:500\n", {"gpus_per_node": 4, "gres": ["lscratch:500"]}),
        ("#SBATCH --exclude=node[01-03],node07\n", {"exclude": ["node[01-03]", "node07"]}),
        ("#SBATCH --mail-type=END --hold\n", {"sbatch": {"mail-type": "END", "hold": True}}),
    ],
)
def test_options_of_the_header(header: str, resources: dict[str, Any]) -> None:
    found = spec_of("srun python train.py", header)["resources"]
    assert {key: found.get(key) for key in resources} == resources


@pytest.mark.parametrize(
    "left", ["rsync -a data/ /tmp/data", "for i in 1 2; do\n  ./step $i\ndone", "if [ -f x ]; then\n  y\nfi"]
)
def test_what_is_not_understood_is_kept_as_a_comment(left: str, tmp_path: Path) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text(f"{HEAD}{left}\nsrun python train.py\n", encoding="utf-8")
    found = converted(str(script), str(tmp_path / "jobs"))
    comments = [line for line in found.text.splitlines() if line.startswith("#")]
    assert "line 3: " + left.splitlines()[0] in "\n".join(comments)
    assert all(any(part.strip() in line for line in comments) for part in left.splitlines())
    assert yaml.safe_load(found.text)["command"] == ["train.py"]
    assert found.notes


def test_script_that_starts_nothing_is_refused() -> None:
    with pytest.raises(RankzeroError) as raised:
        job_of(f"{HEAD}echo hello\n")
    assert "torchrun" in str(raised.value)


def test_init_writes_a_project_and_replaces_nothing(rankzero: Callable[..., int], tmp_path: Path) -> None:
    folder = tmp_path / "My project!"
    folder.mkdir()
    assert rankzero("init", str(folder), "--login", "login.example.org") == 0
    job = folder / "jobs" / "My-project.yml"
    read_job(str(job), CLUSTER, {}, {}, str(folder))
    inventory = yaml.safe_load((folder / "inventory" / "hosts.yml").read_text(encoding="utf-8"))
    assert list(inventory["slurm_login"]["hosts"]) == ["login.example.org"]
    job.write_text("mine", encoding="utf-8")
    assert rankzero("init", str(folder)) == 2
    assert job.read_text(encoding="utf-8") == "mine"
    assert rankzero("init", str(folder), "--force") == 0
    assert job.read_text(encoding="utf-8") != "mine"
