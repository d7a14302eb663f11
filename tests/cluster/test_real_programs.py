# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of others, by their own entry points, as the package index has them: 2 nodes x 2 ranks, on CPUs, without
a network, by srun and by torchrun.

A program that is on no index runs from a clone of its repository (tests/checkouts.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import checkouts
from tests.cluster.conftest import LabCluster
from tests.cluster.examples import Example, read_json

# Each rank imports torch and more, and the environment is large.
pytestmark = pytest.mark.more

PACKAGES = ["torch", "numpy", "accelerate", "lightning", "jsonargparse[signatures]", "megatron-core", "transformers"]
WORLD = 4
#: Runs a module, or a file, as `python -m` or `python` would, and ends without an interpreter's shutdown: threads of
#: Gloo that outlive the process group can abort that on a busy node.
RUN = (
    "import os, runpy, sys; name = sys.argv.pop(1); "
    "(runpy.run_path if name.endswith('.py') else runpy.run_module)(name, run_name='__main__'); "
    "sys.stdout.flush(); sys.stderr.flush(); os._exit(0)"
)
#: Lightning's command line, with a model and data that it ships.
LIGHTNING = """
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringDataModule, DemoModel

LightningCLI(DemoModel, BoringDataModule)
"""
FIT = {
    "accelerator": "cpu", "strategy": "ddp", "num_nodes": 2, "devices": 2, "max_epochs": 1, "logger": "false",
    "enable_progress_bar": "false", "enable_checkpointing": "false",
}  # fmt: skip

#: Megatron-core's process groups and a layer of its model: tensor parallel inside a node, data parallel between nodes.
#: Its attention needs CUDA, also where all else is on CPUs.
MEGATRON = """
import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
from megatron.core.transformer.mlp import MLP, MLPSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig

dist.init_process_group("gloo")
parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
config = TransformerConfig(
    num_layers=1, hidden_size=16, num_attention_heads=2, tensor_model_parallel_size=2, use_cpu_initialization=True
)
torch.manual_seed(1)
mlp = MLP(config, MLPSubmodules(linear_fc1=ColumnParallelLinear, linear_fc2=RowParallelLinear))
optimizer = torch.optim.SGD(mlp.parameters(), lr=0.5)
data = torch.randn(8, 4, 16)
for step in range(1, 31):
    output, bias = mlp(data)
    loss = (output + bias - data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in mlp.parameters():
        dist.all_reduce(parameter.grad, group=parallel_state.get_data_parallel_group())
    optimizer.step()
    print(f"step {step}/30 loss {loss.item():.6f}", flush=True)
sizes = parallel_state.get_tensor_model_parallel_world_size(), parallel_state.get_data_parallel_world_size()
print(f"tensor {sizes[0]} data {sizes[1]}")
dist.destroy_process_group()
"""
#: Where KempnerForge asks for a GPU although all else would run on CPUs.
CUDA = re.compile(r'"cuda"|\btorch\.cuda\.set_device\(.*\)')


@pytest.fixture(scope="module")
def example(lab: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    made = Example(lab, "cpu_ddp_lab", tmp_path_factory.mktemp("programs"), offline=True)
    project = made.folder / "programs"
    project.mkdir()
    dependencies = ", ".join(f'"{package}"' for package in PACKAGES)
    (project / "pyproject.toml").write_text(
        f'[project]\nname = "programs"\nversion = "1"\nrequires-python = ">=3.10"\ndependencies = [{dependencies}]\n',
        encoding="utf-8",
    )
    yield made
    made.remove()


def launch(example: Example, name: str, command: list[str], code: Path | None = None, **job: Any) -> str:
    """Run a program; what all ranks said."""
    spec = {
        "name": name,
        "resources": {"nodes": 2, "cpus_per_rank": 1, "memory": "6G", "time": "00:10:00"},
        "launcher": {"kind": "srun", "ranks_per_node": 2},
        "command": command,
        **({"code": {"src": str(code)}} if code else {}),
        "environment": {"project": str(example.folder / "programs"), "mode": "venv", "torch": "cpu"},
        **job,
    }
    file = example.folder / "jobs" / f"{name}.yml"
    file.write_text(yaml.safe_dump(spec), encoding="utf-8")
    done = example.play("-e", f"job=jobs/{name}.yml")
    assert done.returncode == 0, done.stdout
    world = 2 * spec["launcher"]["ranks_per_node"]
    assert f"ranks     {world} of {world} started with WORLD_SIZE {world}" in done.stdout
    (run,) = example.runs(name)
    assert read_json(run / "outcome.json")["success"] is True
    logs = sorted((run / "logs" / "0").glob("rank-*.log"))
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in logs)


def written(example: Example, name: str, text: str) -> Path:
    """A folder with the program train.py."""
    folder = example.folder / name
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(text, encoding="utf-8")
    return folder


BY = pytest.mark.parametrize("kind", ["srun", "torchrun"])


@pytest.mark.parametrize("kind", ["srun", "torchrun", "accelerate"])
def test_the_script_by_which_accelerate_tests_an_installation(example: Example, kind: str) -> None:
    """One of its tests holds for two ranks only."""
    said = launch(
        example,
        f"accelerate-{kind}",
        ["python", "-c", RUN, "accelerate.test_utils.scripts.test_script"],
        launcher={"kind": kind, "ranks_per_node": 1},
        # Without it, accelerate takes a machine without GPUs for one that trains alone. Its own launcher sets it, too.
        env={"ACCELERATE_USE_CPU": "true"},
    )
    assert said.count("Distributed environment: DistributedType.MULTI_CPU  Backend: gloo") == 2
    assert said.count("Training yielded the same results on one CPU or distributed setup with batch split.") >= 1
    assert "**Breakpoint trigger test**" in said  # the last of its tests


@BY
def test_lightnings_command_line_trains_over_gloo(example: Example, kind: str) -> None:
    trainer = [f"--trainer.{name}={value}" for name, value in FIT.items()]
    said = launch(
        example,
        f"lightning-{kind}",
        ["python", "-c", RUN, "train.py", "fit", *trainer],
        written(example, "lightning", LIGHTNING),
        launcher={"kind": kind, "ranks_per_node": 2},
    )
    members = sorted(set(re.findall(rf"GLOBAL_RANK: (\d+), MEMBER: \d+/{WORLD}", said)))
    assert members == [str(rank) for rank in range(WORLD)]
    assert "distributed_backend=gloo" in said and "`Trainer.fit` stopped: `max_epochs=1` reached." in said


@BY
def test_megatron_cores_parallel_layers_learn_alike_on_all_ranks(example: Example, kind: str) -> None:
    program = written(example, "megatron", MEGATRON)
    said = launch(
        example,
        f"megatron-core-{kind}",
        ["python", "-c", RUN, "train.py"],
        program,
        launcher={"kind": kind, "ranks_per_node": 2},
    )
    assert said.count("tensor 2 data 2\n") == WORLD
    losses = [[float(loss) for loss in re.findall(rf"step {step}/30 loss (\S+)", said)] for step in (1, 30)]
    assert [len(set(step)) for step in losses] == [1, 1] and losses[1][0] < losses[0][0]


@BY
def test_kempnerforge_trains_its_debug_configuration(example: Example, kind: str) -> None:
    """Its own program and configuration, by srun as its authors start several nodes. What it asks of a GPU by name, it
    asks of a CPU.
    """
    copy = example.folder / "kempnerforge"
    if not copy.exists():
        checkouts.unpacked(checkouts.KEMPNERFORGE, copy)
        for path in (copy / "kempnerforge").rglob("*.py"):
            path.write_text(CUDA.sub(_on_cpus, path.read_text(encoding="utf-8")), encoding="utf-8")
    command = ["python", "-c", RUN, "scripts/train.py", "configs/train/debug.toml", "--train.max_steps=2"]
    # torch for CPUs has no NCCL, which the program's own default names.
    command += ["--distributed.backend=gloo", "--metrics.log_interval=1", "--train.batch_size=1", "--train.seq_len=128"]
    said = launch(
        example,
        f"kempnerforge-{kind}",
        command,
        copy,
        launcher={"kind": kind, "ranks_per_node": 2},
        env={"PYTHONPATH": "."},
    )
    assert "Starting training: step=0, max_steps=2, batch_size=1, grad_accum=1, world_size=4" in said
    assert re.findall(r"\[step (\d+)\] loss=1\d\.", said) == ["1", "2"]
    assert "Checkpoint committed: checkpoints/debug/step_2" in said and "Training complete: 2 steps" in said


def _on_cpus(found: re.Match[str]) -> str:
    return '"cpu"' if found[0] == '"cuda"' else "pass"
