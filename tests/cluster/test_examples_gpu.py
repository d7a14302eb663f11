# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The four GPU set-ups on a real Slurm, whole but for what no machine of the tests has: the frameworks
(tests/frameworks), pyxis and nvidia-smi (tests/stand_ins.py), and GPUs, which the lab has by name only.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.examples import Example, read_json
from tests.repository import ROOT
from tests.stand_ins import NVIDIA_SMI, PYXIS_SBATCH, PYXIS_SRUN, command, squashfs

GOLDEN = ROOT / "tests" / "golden" / "examples"
#: The lab's nodes have no GPUs of a type, 16 CPUs, and work for several at once.
SMALL: dict[str, Any] = {
    "resources.gpu_type": None,
    "resources.cpus_per_rank": 1,
    "resources.memory": "8G",
    "resources.exclusive": False,
    "resources.time": "00:10:00",
    "monitor.gpu": 1,
    "monitor.timestamps": 1,
}


class GpuExample(Example):
    """An example on a lab with the stand-ins, and the shell of a login node that has pyxis."""

    def __init__(self, lab: LabCluster, name: str, folder: Path, **env: str) -> None:
        super().__init__(lab, name, folder)
        self.tools = f"{self.state_root}.tools"
        tools = self.host_path(self.tools)
        command(tools, "srun", PYXIS_SRUN)
        command(tools, "sbatch", PYXIS_SBATCH)
        # In a container it is enroot's hook that brings it.
        command(tools / "nvidia", "nvidia-smi", NVIDIA_SMI)
        values = {
            "IMAGE": "site",
            "PATH": f"{self.tools}/nvidia:/usr/bin:/bin",
            "WORLD_SIZE": "77",
            "OMP_NUM_THREADS": "99",
        }
        squashfs(tools / "site.sqsh", values)
        shutil.copytree(ROOT / "tests" / "frameworks", tools / "frameworks")
        self.frameworks = f"{self.tools}/frameworks"
        self.checkpoints = f"{self.state_root}.checkpoints"
        self.cluster.update(
            setup={"commands": [f"export PATH={self.tools}:{self.tools}/nvidia:$PATH"]},
            env={name: value.replace("@", self.frameworks) for name, value in env.items()},
        )
        self.user.give(tools)
        # Beside the lab's own shell: the user runs it, too, on the head.
        login = f'#!/bin/sh\nPATH="{self.tools}:$PATH" exec "{lab.shell}" "$@"\n'
        self.shell = command(lab.shell.parent, f"login-{Path(self.state_root).name}", login)

    def contained(self, **container: Any) -> None:
        mounts = [f"{self.frameworks}:{self.frameworks}:ro"]
        self.cluster["container"] = {"image": f"{self.tools}/site.sqsh", "mounts": mounts, **container}

    def train(self, *arguments: str, overrides: Any = None, **how: Any) -> subprocess.CompletedProcess[str]:
        asked = {**SMALL, "checkpoint.dir": self.checkpoints, **(overrides or {})}
        shell = str(self.shell)
        return self.play(*arguments, launch_overrides=asked, ansible_shell_executable=shell, **how)

    def words(self, of: str = "words") -> dict[str, Any]:
        """What the stand-in for pyxis was asked, by the ranks' step or in the job's `header`."""
        found = read_json(self.host_path(f"{self.tools}/site.sqsh.{of}"))
        assert isinstance(found, dict)
        return found

    def remove(self) -> None:
        super().remove()
        self.shell.unlink(missing_ok=True)
        shutil.rmtree(self.host_path(self.tools), ignore_errors=True)
        shutil.rmtree(self.host_path(self.checkpoints), ignore_errors=True)


@pytest.fixture
def made(lab: LabCluster, tmp_path: Path) -> Iterator[Any]:
    examples: list[GpuExample] = []

    def make(name: str, **env: str) -> GpuExample:
        examples.append(GpuExample(lab, name, tmp_path, **env))
        return examples[-1]

    yield make
    for example in examples:
        left = lab.head(["squeue", "--noheader", "--format=%i %Z"]).stdout.splitlines()
        ids = [line.split()[0] for line in left if example.state_root in line]
        if ids:
            lab.head(["scancel", *ids], check=False)
        example.remove()


def seen(run: Path, attempt: int = 0) -> dict[int, dict[str, Any]]:
    """Rank -> what reached the framework."""
    found = {}
    for path in (run / "logs" / str(attempt)).glob("rank-*.log"):
        said = re.search(r"^\[stand-in\] (\{.*\})$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert said, path.read_text(encoding="utf-8")
        found[int(path.stem[5:])] = json.loads(said[1])
    return found


def mapped(run: Path, nodes: int, per_node: int, attempt: int = 0) -> dict[int, dict[str, Any]]:
    """Every rank has its place, all GPUs of its node, and the interface of all."""
    ranks = seen(run, attempt)
    assert sorted(ranks) == list(range(nodes * per_node))
    gpus = ",".join(map(str, range(per_node)))
    for rank, it in ranks.items():
        place = [it[name] for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")]
        expected = [rank, rank % per_node, rank // per_node, nodes * per_node, per_node]
        assert place == [str(number) for number in expected]
        assert it["CUDA_VISIBLE_DEVICES"] == gpus
        assert it["NCCL_SOCKET_IFNAME"] == it["GLOO_SOCKET_IFNAME"] not in ("", None)
    assert len({it["MASTER_PORT"] for it in ranks.values()}) == 1
    return ranks


def test_megatron_lm_ends_itself_once_its_result_is_there_and_names_the_rank_that_breaks(made: Any) -> None:
    """A framework that hangs after its last step; then one whose rank 5 runs out of memory."""
    example = made("megatron_lm", MEGATRON_LM="@", STAND_IN_HANGS="1", STAND_IN_SAMPLED="1")
    example.contained(runtime="pyxis")
    example.edit("jobs/pretrain.yml", {"grace: 60": "grace: 4"})
    done = example.train()
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("megatron-lm")
    ranks = mapped(run, 2, 8)
    options = ranks[0]["options"]
    sizes = ("--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--micro-batch-size")
    assert [options[options.index(name) + 1] for name in (*sizes, "--global-batch-size")] == ["2", "2", "2", "128"]
    assert {it["IMAGE"] for it in ranks.values()} == {"site"} and {it["OMP_NUM_THREADS"] for it in ranks.values()} == {
        "1"
    }
    assert read_json(run / "outcome.json")["ended_by"] == "artifact"
    # The last rank prints the losses: they are seen while one waits, or at the latest at the end.
    assert "losses    iteration      600/ 1000" in done.stdout and "lm loss: 9.090909E-01" in done.stdout
    assert "ranks     16 of 16 started with WORLD_SIZE 16" in done.stdout
    assert "network   NCCL over Socket; Socket is the slow way" in done.stdout
    monitor = sorted(path.name for path in (run / "monitor" / "0").glob("*.gpu.csv"))
    assert len(monitor) == 2
    assert "312.45 W, 97 %, 71234 MiB, 61" in (run / "monitor" / "0" / monitor[0]).read_text(encoding="utf-8")

    example.cluster["env"] = {"MEGATRON_LM": example.frameworks, "STAND_IN_BREAKS": "5"}
    broken = example.train()
    assert broken.returncode != 0
    assert "cuda_oom" in broken.stdout and "rank-0005.log:" in broken.stdout, broken.stdout
    assert "CUDA out of memory" in broken.stdout
    (log,) = (example.runs("megatron-lm")[-1] / "logs").glob("job.*.log")
    assert "is taken over from job " in log.read_text(encoding="utf-8")


# The script of each is in tests/golden.
@pytest.mark.parametrize("launcher", [pytest.param("srun", marks=pytest.mark.more), "torchrun"])
def test_megatron_bridge_by_both_launchers(made: Any, launcher: str) -> None:
    example = made("megatron_bridge", PYTHONPATH="@")
    example.contained()
    shared = f"{example.tools}/caches"
    example.cluster["caches"] = shared
    caches = {"HF_HOME": f"{shared}/huggingface", "NEMO_HOME": f"{shared}/nemo", "UV_CACHE_DIR": f"{shared}/uv"}
    tokens = {"HF_TOKEN": "hf_0123456789", "GH_TOKEN": "gh_012345678901", "WANDB_API_KEY": "w" * 40}
    given = [f"launcher={launcher}", "tp=4", "pp=2", "mbs=1", "gbs=128"]
    step = {"launcher.srun": {"mpi": "pmix", "no-kill": True}} if launcher == "srun" else None
    done = example.train(*[word for pair in given for word in ("-e", pair)], overrides=step, env=tokens)
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("megatron-bridge")
    (log,) = (run / "logs").glob("job.*.log")
    assert "[rankzero] TP=4 PP=2 CP=1 EP=1 DP=2 MBS=1 GBS=128\n" in log.read_text(encoding="utf-8")
    assert ("--mpi=pmix" in (run / "job.sbatch").read_text(encoding="utf-8")) is (launcher == "srun")
    ranks = mapped(run, 2, 8)
    options = ranks[3]["options"]
    names = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size", "global_batch_size")
    assert [options[name] for name in names] == [4, 2, 1, 128]
    for it in ranks.values():
        assert {name: it[name] for name in caches} == caches
        assert it["tokens"] == [len(value) for value in tokens.values()]
    assert "lm loss: 1.666667E+00" in done.stdout
    everything = done.stdout + "".join(
        path.read_text(encoding="utf-8", errors="replace") for path in run.rglob("*") if path.is_file()
    )
    assert not [value for value in tokens.values() if value in everything]
    flags = example.words()["flags"]
    assert flags["image"] == f"{example.tools}/site.sqsh" and "mount-home" not in flags
    assert f"{example.checkpoints}:{example.checkpoints}" in flags["mounts"].split(",")


# Environments are made once in test_environment_build.py; the script is in tests/golden.
@pytest.mark.more
def test_megatron_bridge_from_an_environment_that_uv_made_once(made: Any) -> None:
    example = made("megatron_bridge", PYTHONPATH="@")
    example.contained(runtime="pyxis")
    example.edit(
        "jobs/pretrain_uv.yml",
        {"extras: [bridge]": "extras: []", 'python: "3.12"': "python: null", "torch: cu128": "torch: cpu"},
    )
    # A recipe that nobody has built yet, also in a lab that is kept.
    example.edit("pyproject.toml", {"[project]\n": f"# {example.state_root} {time.time()}\n[project]\n"})
    job = ["-e", "job=jobs/pretrain_uv.yml"]
    done = example.train(*job, env={"HF_TOKEN": "hf_0123456789"})
    assert done.returncode == 0, done.stdout
    assert "Build the environment" in done.stdout
    (run,) = example.runs("megatron-bridge-uv")
    for it in mapped(run, 2, 8).values():
        assert it["python"] == f"{it['VIRTUAL_ENV']}/bin/python" and it["IMAGE"] is None
    again = example.train(*job, "-e", "rerun=true", env={"HF_TOKEN": "hf_0123456789"})
    assert again.returncode == 0, again.stdout
    assert "Build the environment" not in again.stdout


@pytest.mark.more
def test_kempnerforge_on_several_nodes_goes_on_after_its_signal_and_on_one(made: Any) -> None:
    further = json.dumps({"program_args": ["--train.batch_size=4"]})
    example = made("kempnerforge", KEMPNERFORGE="@", PYTHONPATH="@", STAND_IN_HOLD="4321")
    for job in ("multi", "single"):
        example.edit(f"jobs/{job}.yml", {"extras: [gpu]": "extras: []", "torch: cu128": "torch: cpu"})
    said: list[subprocess.CompletedProcess[str]] = []
    playing = threading.Thread(target=lambda: said.append(example.train("-e", further)))
    playing.start()
    try:
        logs = lambda: "".join(  # noqa: E731
            path.read_text(encoding="utf-8")
            for run in example.runs("kempnerforge")
            for path in (run / "logs" / "0").glob("rank-*.log")
        )
        example.lab.wait_until(
            lambda: "[step 4000]" in logs() and logs().count("[stand-in]") == 8, 200, "all ranks train"
        )
        (run,) = example.runs("kempnerforge")
        # What Slurm does before the time limit.
        example.lab.head(["scancel", "--batch", "--signal=USR2", read_json(run / "started.json")["job_id"]])
    finally:
        playing.join()
    (done,) = said
    assert done.returncode == 0, done.stdout
    first, second = mapped(run, 2, 4), mapped(run, 2, 4, attempt=1)
    assert first[0]["options"]["checkpoint.dir"] == example.checkpoints
    # One task a GPU, and the program's own override.
    assert {it["options"]["train.batch_size"] for it in first.values()} == {"4"}
    assert "export RANKZERO_LAUNCHER=srun\n" in (run / "job.sbatch").read_text(encoding="utf-8")
    assert {it["RANKZERO_ATTEMPT"] for it in second.values()} == {"1"}
    log = (run / "logs" / "1" / "rank-0000.log").read_text(encoding="utf-8")
    assert "loaded checkpoint at iteration 4321\n" in log and " attempt=1 " in log
    assert read_json(run / "work" / "result.json")["step"] == 10000
    (script,) = (run / "logs").glob("job.*.log")
    text = script.read_text(encoding="utf-8")
    assert "requeued: attempt 2 of at most 21 follows" in text
    assert "[rankzero] restarted: SLURM_RESTART_COUNT=1\n" in text
    assert "stays this job's, from attempt 1 on" in text

    single = example.train("-e", "job=jobs/single.yml")
    assert single.returncode == 0, single.stdout
    (run,) = example.runs("kempnerforge-single")
    assert {it["MASTER_ADDR"] for it in mapped(run, 1, 4).values()} == {"localhost"}


def test_the_enroot_site_proves_its_map_of_gpus_in_batch_and_in_debug_mode(made: Any) -> None:
    """Nothing of the program is a stand-in here: the ranks tell each other what they have."""
    example = made("enroot_site")
    # As in the example's own inventory.
    example.contained(runtime="pyxis", level="job", remap_root=True, writable=True)
    overrides = {"checkpoint.dir": None}
    done = example.train(overrides=overrides)
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("site-pretrain")
    result = read_json(run / "work" / "result.json")
    assert result["mapping_proven"] and (result["ranks"], result["world_size"]) == (16, 16)
    assert [one["gpu"] for one in result["places"]] == [str(number) for number in [*range(8), *range(8)]]
    flags = example.words()["flags"]
    assert flags["remap-root"] is True and flags["writable"] is True
    # The site's rules for the queue see the same image in the header, and the batch script is on the node all the same.
    assert example.words("header") == flags
    assert len(list((run / "monitor" / "0").glob("*.gpu.csv"))) == 2

    debug = example.train("-e", "nodes=1", "-e", "debug=true", overrides=overrides)
    assert debug.returncode == 0, debug.stdout
    run = example.runs("site-pretrain")[-1]
    rank = (run / "logs" / "0" / "rank-0007.log").read_text(encoding="utf-8")
    (script,) = (run / "logs").glob("job.*.log")
    assert "\n+ export NCCL_SOCKET_IFNAME=ib0\n" in rank
    assert re.search(r"^\++ rankzero_launch srun", script.read_text(encoding="utf-8"), re.MULTILINE)
    assert "export NCCL_DEBUG=INFO" in (run / "job.sbatch").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.sbatch")))
def test_sbatch_takes_the_script_of_each(lab: LabCluster, name: str) -> None:
    """The header for the reader's cluster, but for what this lab does not have: names, GPU types, CPUs, pyxis."""
    text = (GOLDEN / f"{name}.sbatch").read_text(encoding="utf-8")
    text = text.replace("--gpus-per-node=h100:", "--gpus-per-node=").replace("--mem=256G", "--mem=32G")
    text = re.sub(r"^#SBATCH --(partition|account|chdir|(no-)?container-[a-z-]+)\b.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"--cpus-per-task=\d+", "--cpus-per-task=2", text)
    done = lab.head(["sbatch", "--test-only"], input=text, check=False)
    assert done.returncode == 0 and "to start at" in done.stderr, done.stderr
