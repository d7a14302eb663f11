# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples' jobs and logs against programs of others, from their own checkouts (tests/checkouts.py): the arguments
are read by the programs' own parsers, the logs by a course's own evaluator, and jobs of the checkouts are planned.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site as Cluster
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.ensure import make_elsewhere, wanted_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.gather import aim_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.request import PackagesRequest
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import pack_trees, project_recipe
from tests import checkouts
from tests.repository import ROOT
from tests.unit.pyenv import supplies
from tests.unit.runtime.harness import Site

EXAMPLE = ROOT / "examples" / "megatron_bridge"
#: Runs a program up to its parser: what it imports of packages that are not here is a stand-in that has any name.
PARSE = """
import argparse, importlib.abc, importlib.machinery, json, runpy, sys
from unittest import mock

class Anything(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in OUTSIDE:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = mock.MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        for name, value in KNOWN.items():
            setattr(module, name, value)
        return module

    def exec_module(self, module):
        pass

program, OUTSIDE, KNOWN = sys.argv[1], set(json.loads(sys.argv[2])), json.loads(sys.argv[3])
sys.argv = [program, *sys.argv[4:]]
sys.meta_path.insert(0, Anything())
read = argparse.ArgumentParser.parse_known_args

def stop(parser, *given, **named):
    options, rest = read(parser, *given, **named)
    wrong = [word for word in rest if word.startswith("-") or "=" not in word]
    if wrong:
        parser.error(f"unknown: {wrong}")
    raise SystemExit(0)

argparse.ArgumentParser.parse_known_args = stop
runpy.run_path(program, run_name="__main__")
raise SystemExit("this program has no parser")
"""
OUTSIDE = [
    "megatron",
    "torch",
    "omegaconf",
    "transformers",
    "benchmark_parallelism",
    "recipe_metadata",
    "recipe_runner",
]
PROGRAMS = {
    "recipe": "scripts/training/run_recipe.py",
    "sft": "scripts/training/run_recipe.py",
    "convert": "examples/conversion/hf_megatron_roundtrip_multi_gpu.py",
    "generate": "examples/conversion/hf_to_megatron_generate_text.py",
}


def parsed(folder: Path, release: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of a release, ended by its parser: 0, or 2 with what it says of the arguments."""
    path = folder / program
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(checkouts.text(checkouts.BRIDGE, program, release), encoding="utf-8")
    names = checkouts.text(checkouts.BRIDGE, "src/megatron/bridge/recipes/utils/dataset_utils.py", release)
    kinds = {
        name: re.findall(r'^    "([\w-]+)"[:,]', match[1], re.M)
        for name in ("DATASET_TYPES", "DATASET_PRESETS")
        if (match := re.search(rf"^{name}\b[^\n]*= [\[{{]\n(.*?)^[\]}}]", names, re.M | re.S))
    }
    words = [sys.executable, "-c", PARSE, str(path), json.dumps(OUTSIDE), json.dumps(kinds), *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def arguments_of(job: str) -> list[str]:
    """What the program of a job gets: the words of its `sh -c`, then the job's own, with values for the variables."""
    spec: dict[str, Any] = yaml.safe_load((EXAMPLE / "jobs" / f"{job}.yml").read_text(encoding="utf-8"))
    line, _name, *own = spec["command"][2:]
    given = 'set -- "$@"; ' + re.sub(r"^exec python \S+", "printf '%s\\\\n'", line)
    settings = dict.fromkeys(re.findall(r"\$(\w+)", line), "1")
    done = subprocess.run(
        ["sh", "-c", given, "sh", *map(str, own)], capture_output=True, text=True, check=True, env=settings
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("release", checkouts.BRIDGE_RELEASES)
@pytest.mark.parametrize("job", sorted(PROGRAMS))
def test_a_release_reads_what_its_job_says(tmp_path: Path, job: str, release: str) -> None:
    done = parsed(tmp_path, release, PROGRAMS[job], *arguments_of(job))
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("release", "arguments"),
    [
        ("v0.6.0", "--dataset mock"),
        ("v0.6.0", "--dataset gsm8k"),
        ("v0.5.1", "--dataset llm-pretrain-mock"),
        ("v0.5.1", "--dataset llm-finetune --packed_sequence dataset.dataset_name=gsm8k"),
        ("v0.4.2", "--dataset llm-pretrain-mock"),
        ("v0.4.2", "--dataset llm-finetune --packed_sequence dataset.dataset_name=gsm8k"),
    ],
)
def test_a_release_reads_the_data_of_its_column(tmp_path: Path, release: str, arguments: str) -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert f"`{arguments}`" in readme and release in readme
    done = parsed(tmp_path, release, PROGRAMS["sft"], *arguments_of("sft"), *arguments.split())
    assert done.returncode == 0, done.stderr[-2000:]


def test_other_arguments_are_refused_by_the_same_parsers(tmp_path: Path) -> None:
    """So the tests above can fail."""
    newest = parsed(tmp_path, "v0.6.0", PROGRAMS["sft"], *arguments_of("sft"), "--packed_sequence")
    older = parsed(tmp_path, "v0.5.1", PROGRAMS["sft"], *arguments_of("sft"), "--dataset", "mock")
    assert (newest.returncode, older.returncode) == (2, 2), (newest.stderr, older.stderr)


def test_kempnerforge_reads_the_configuration_and_arguments_of_the_example(tmp_path: Path) -> None:
    example = ROOT / "examples" / "kempnerforge"
    folder = checkouts.unpacked(checkouts.KEMPNERFORGE, tmp_path / "checkout")
    read = (
        "import sys; from kempnerforge.config.loader import load_config; "
        "config = load_config(sys.argv[1], cli_args=sys.argv[2:]); print(config.train.max_steps, config.model.dim)"
    )
    for job in sorted((example / "jobs").glob("*.yml")):
        _program, configuration, *arguments = yaml.safe_load(job.read_text(encoding="utf-8"))["command"]
        more = ["--train.batch_size=4", "--train.seq_len=2048"]  # of its README
        words = [sys.executable, "-c", read, str(example / configuration), *arguments, *more]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        (steps,) = [word.partition("=")[2] for word in arguments if word.startswith("--train.max_steps=")]
        assert done.stdout.split() == [steps, "512"]


def test_the_evaluator_of_the_cpu_lab_passes_logs_of_its_style(tmp_path: Path) -> None:
    """The files are those of the real job script; the ranks print what its train_tiny.py prints first."""
    evaluator = tmp_path / "eval_logs.py"
    evaluator.write_text(checkouts.text(checkouts.CPU_LAB, "labs/tiny/eval_logs.py"), encoding="utf-8")
    site = Site(tmp_path)
    site.environment()
    spec = {
        "shell": 'echo "[RANK $RANK] WORLD_SIZE=$WORLD_SIZE"',
        "resources": {"nodes": 2},
        "launcher": {"kind": "torchrun", "ranks_per_node": 2},
        "logs": {"style": "slurm"},
    }
    job = site.job(spec, environment=True)
    assert job.finish(job_id=42, SLURMD_NODENAME="localhost") == 0, job.log(42)
    words = [sys.executable, str(evaluator), "--job", "42", "--logs-dir", str(job.run / "logs" / "0")]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.splitlines()[-1].endswith("PASS"), said
    assert "nnodes=2  nproc_per_node=2" in said and "All ranks accounted for" in said
    assert "1/1 nodes had both proj & pkgs visible" in said


#: What the lock of a release has no wheel of, for an image with Python 3.12: built where the set of packages is made.
#: fast-hadamard-transform asks for the image's torch and compiler.
SOURCES = {
    "v0.6.0": {
        "antlr4-python3-runtime 4.9.3 (sdist)",
        "emerging-optimizers 0.2.0 (vcs)",
        "fast-hadamard-transform 1.1.0 (vcs)",
        "megatron-core (directory)",
        "wget 3.2 (sdist)",
    },
}


@pytest.mark.parametrize("release", sorted(SOURCES))
def test_the_project_of_megatron_bridge_is_read_with_its_submodule(tmp_path: Path, release: str) -> None:
    """Its pyproject.toml and uv.lock as they are. Its packages are not fetched here: they are for GPUs."""
    folder = checkouts.unpacked(checkouts.BRIDGE, tmp_path / "bridge", release, "pyproject.toml", "uv.lock")
    place = "3rdparty/Megatron-LM"
    submodule = checkouts.submodule(checkouts.BRIDGE, place, release)
    own = ("pyproject.toml", "README.md", "megatron/core/package_info.py")
    checkouts.unpacked(checkouts.MEGATRON, folder / place, submodule, *own)
    platform = "x86_64-manylinux_2_39"
    made = project_recipe(str(folder), {"extras": [], "python": "3.12", "torch": "auto", "mode": "venv"})
    assert [tree.path for tree in made.trees] == [place]
    sent = pack_trees(str(folder), made, str(tmp_path))
    options = supplies.options(str(tmp_path / "store"), python="3.12", platform=platform)
    wanted = wanted_of(options, PackagesRequest(sent.pyproject, sent.lock, trees=sent.trees))
    with pytest.raises(RankzeroError, match=r"no wheel fits Python 3\.12") as caught:
        make_elsewhere(str(tmp_path / "set"), wanted, aim_of(wanted), None)
    missing = caught.value.partial["missing"]
    assert isinstance(missing, list) and set(missing) == SOURCES[release]


#: A project -> a job of its users in its checkout, by their own words.
JOBS: dict[str, dict[str, Any]] = {
    checkouts.KEMPNERFORGE: {
        "command": ["scripts/train.py", "configs/train/7b.toml", "--train.max_steps=1000"],
        "resources": {"nodes": 4, "gpus_per_node": 4},
    },
    checkouts.BRIDGE: {
        "command": ["scripts/training/run_recipe.py", "--recipe", "llama32_1b_pretrain_config"],
        "resources": {"nodes": 2, "gpus_per_node": 8},
    },
    checkouts.MEGATRON: {
        "command": ["pretrain_gpt.py", "--num-layers", "2", "--mock-data"],
        "launcher": {"kind": "torchrun", "port": 29500},
        "resources": {"nodes": 2, "gpus_per_node": 8},
    },
    checkouts.CPU_LAB: {
        "command": ["labs/tiny/train_tiny.py", "--subset", "2000", "--epochs", "1"],
        "launcher": {"kind": "torchrun", "ranks_per_node": 2},
        "resources": {"nodes": 3},
    },
}


@pytest.mark.parametrize("name", sorted(JOBS))
def test_a_job_file_in_its_checkout_is_planned(tmp_path: Path, name: str) -> None:
    job = JOBS[name]
    folder = checkouts.unpacked(name, tmp_path / "checkout", "HEAD", *{job["command"][0], "configs"} & listed(name))
    read = read_job({"name": "job", **job}, None, None, None, str(folder))
    made = prepare(read, Cluster("/state", "/store", read.settings), relaunch="on_failure", facts={})
    assert job["command"][0] in {entry.path for entry in made.snapshot.files}
    (line,) = [
        line for line in made.files["job.sbatch"].splitlines() if job["command"][0] in line and "srun" not in line
    ]
    assert all(word in line for word in job["command"])


def listed(name: str) -> set[str]:
    """The files and the folders at the top of a checkout."""
    return {part for path in checkouts.files(name) for part in (path, path.split("/")[0])}
