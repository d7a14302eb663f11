# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rendered scripts, compared whole with the files beside this one: a diff shows a reviewer what a change does to jobs.

A missing file fails. `RANKZERO_UPDATE_GOLDEN=1 make unit ARGS="tests/golden"` writes them anew; read the diff before it
is committed.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import MODES
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import EXTRA_PATH
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, Merged, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import ON_NODES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from tests.plans import plan

HERE = Path(__file__).parent
UPDATE = "RANKZERO_UPDATE_GOLDEN"
SITE = "site-template"

SPECS: dict[str, dict[str, Any]] = {
    "srun-minimal": {"name": "minimal", "command": ["train.py", "--steps", "10"]},
    "torchrun-environment-artifact": {
        "name": "first-run",
        "command": ["train.py", "--steps", "60"],
        "resources": {"nodes": 4, "cpus_per_rank": 2, "memory": "4G", "time": "00:20:00", "partition": "batch"},
        "launcher": {"kind": "torchrun", "ranks_per_node": 2},
        "environment": {"mode": "venv"},
        "artifact": {"require": {"loss": {"lt": 3.5}}, "then": "end", "grace": 5},
        "seed": 1,
    },
    "roles": {
        "name": "grpo",
        "resources": {"time": "04:00:00"},
        "setup": {"modules": ["site"]},
        "roles": {
            "rollout": {
                "nodes": 2,
                "setup": {"modules": ["cuda/12.4"], "commands": ["export CACHE=/local/serve"]},
                "command": ["serve.py", "--port", "{port}"],
                "ready": {"http": "/health", "within": "00:15:00"},
                "on_exit": "restart",
                "env": {"MODE": "serve"},
            },
            "trainer": {
                "nodes": 4,
                "launcher": {"kind": "torchrun", "ranks_per_node": 2},
                "env": {"LR": "1e-5"},
                "after_ready": ["rollout"],
                "command": ["train.py", "--rollout", "{rollout.urls}"],
            },
        },
        "artifact": {"require": {"reward": {"gt": 0.6}}, "then": "end"},
    },
    "roles-nodes": {
        "name": "grpo",
        "resources": {"time": "04:00:00", "partition": "h100", "account": "ml", "exclude": ["node07"]},
        "checkpoint": {"requeue": True},
        "roles": {
            "environment": {
                "nodes": 3,
                "partition": "cpu",
                "memory": "0",
                "resources": {"cpus_per_rank": 32},
                "command": ["play.py", "--port", "{port}"],
                "ready": {"port": True},
            },
            "judge": {"share": "environment", "nodes": 1, "command": ["judge.py", "{environment.urls}"]},
            "trainer": {
                "nodes": 2,
                "resources": {"gpus_per_node": 8, "gpu_type": "h100"},
                "after_ready": ["environment"],
                "command": ["train.py", "{environment.urls}"],
            },
        },
        "artifact": {"require": {"reward": {"gt": 0.6}}, "then": "end"},
    },
    "roles-containers": {
        "name": "evaluation",
        "resources": {"time": "01:00:00"},
        "roles": {
            "server": {
                "container": {"runtime": "pyxis", "image": "/project/images/vllm.sqsh", "mounts": ["/data:/data:ro"]},
                "command": ["vllm", "serve", "/data/model", "--port", "{port}"],
                "ready": {"http": "/health"},
                "env": {"VLLM_LOGGING_LEVEL": "INFO"},
            },
            "judge": {
                "container": {"runtime": "apptainer", "image": "/project/images/judge.sif", "workdir": "/judge"},
                "command": ["judge", "--port", "{port}"],
                "ready": {"port": True},
            },
            "client": {"after_ready": ["server", "judge"], "command": ["evaluate.py", "{server.urls}", "{judge.urls}"]},
        },
        "artifact": {"role": "client", "require": {"tokens": {"gt": 0}}},
    },
    "exclusive-all-cpus": {
        "name": "whole",
        "command": ["train.py"],
        "resources": {"nodes": 2, "gpus_per_node": 8, "exclusive": True},
    },
    **{
        f"launcher-{kind}": {
            "name": kind,
            "command": ["train.py", "--lr", "1"],
            "resources": {"nodes": 2, "cpus_per_rank": 2},
            "launcher": {"kind": kind, **({} if kind == "none" else {"ranks_per_node": 4})},
        }
        for kind in ("accelerate", "deepspeed", "mpirun", "none")
    },
    "srun-gpus": {
        "name": "gpt",
        "command": ["train.py"],
        "resources": {
            "nodes": 8,
            "gpus_per_node": 8,
            "gpu_type": "h100",
            "cpus_per_rank": 12,
            "memory": 0,
            "time": "1-12:00:00",
            "account": "ml",
            "qos": "high",
            "constraint": "ib&nvme",
            "exclude": ["node[07-08]", "node12"],
            "exclusive": True,
            "dependency": "afterok:123",
        },
        "launcher": {"port": 29500, "srun": {"cpu-bind": "cores", "mpi": "none"}},
        "environment": {"mode": "venv"},
        "env": {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "4"},
    },
    "set-up": {
        "name": "set-up",
        "shell": 'python train.py | tee "$RANKZERO_RUN_DIR/log" # it\'s a shell line',
        "setup": {"modules": ["cuda/12.4", "nccl/2.21"], "commands": ["ulimit -l unlimited", "export SITE_FLAG='a b'"]},
        "resources": {"time": "04:00:00"},
        "checkpoint": {
            "signal_before_end": 120,
            "requeue": True,
            "max_restarts": 3,
            "progress": "./check points/last.pt",
        },
        "monitor": {"host": 0, "gpu": 5, "timestamps": 120},
        "debug": True,
    },
    "further-options": {
        "name": "options",
        "command": ["./run", "with space", "$(date)", "it's", "-x", "", "é", "line\nline"],
        "resources": {
            "sbatch": {
                "mail-type": "END,FAIL",
                "comment": 'say "hello" #1 \\ $HOME',
                "signal": "B:TERM@120",
                "requeue": True,
                "nodelist": False,
            }
        },
        "launcher": {"srun": {"label": True, "prolog": "/site/pro log.sh"}},
        "env": {"GREETING": 'it\'s "quoted" $HOME\nsecond line # not a comment'},
        "secrets": {"HF_TOKEN": {"from_env": "HF_TOKEN"}, "B_TOKEN": {"from_file": "~/.b"}},
        "code": {"writable": True},
        "data": {
            "images": {
                "path": "/store/datasets/by-name/images",
                "digest": "d" * 64,
                "packed": True,
                "local_copy": "auto",
            },
            "text": "/project/texts of ours",
        },
        "trackers": {
            "wandb": {"project": "gpt", "entity": "ml", "offline": True},
            "tensorboard": {},
            "trackio": {},
            "mlflow": {"server": "https://mlflow.example.org", "project": "gpt"},
        },
    },
    "script": {
        "name": "script",
        "script": '#!/bin/bash\nsrun python train.py "$@"\n',
        "script_args": ["configs/8b.yaml", "it's"],
        "resources": {
            "nodes": 4,
            "gpus_per_node": 8,
            "gpu_type": "h100",
            "gres": ["lscratch:500"],
            "exclusive": True,
            "partition": "batch",
            "sbatch": {"ntasks": "32", "nodes": "2-4", "output": "logs/%x-%j.out", "job-name": "two words"},
        },
        "checkpoint": {"signal_before_end": 90, "signal": "USR1"},
        "preflight": {"enabled": False},
        "env": {"DATA_ROOT": "/x y"},
        "artifact": {"path": "result.json"},
    },
    "script-container": {
        "name": "script",
        "script": "#!/bin/bash\nsrun ./worker.sh\n",
        "script_args": ["a", "--", "b"],
        "code": {"in_place": "/project/ml/gpt"},
        "container": {
            "runtime": "pyxis",
            "image": "/project/images/torch.sqsh",
            "mounts": ["/data:/data:ro"],
            "workdir": "/project/ml/gpt",
        },
        "preflight": {"enabled": False},
    },
    "sealed": {
        "name": "sealed",
        "command": ["train.py"],
        "resources": {"nodes": 2},
        "environment": {"mode": "sealed", "local_copy": "always"},
    },
    "container-pyxis-srun": {
        "name": "in-pyxis",
        "command": ["train.py"],
        "resources": {"nodes": 2, "gpus_per_node": 8, "gpu_type": "h100"},
        "container": {
            "runtime": "pyxis",
            "image": "/project/images/torch.sqsh",
            "mounts": ["/data:/data:ro+nosuid", "/scratch:/scratch"],
            "env": ["NVIDIA_DRIVER_CAPABILITIES"],
        },
    },
    "container-pyxis-local": {
        "name": "in-pyxis",
        "command": ["train.py"],
        "resources": {"nodes": 2},
        "environment": {"mode": "sealed"},
        "data": {
            "images": {"path": "/store/datasets/by-name/images", "digest": "d" * 64, "packed": True},
            "text": "/project/texts",
        },
        "container": {"runtime": "pyxis", "image": "/project/images/torch.sqsh"},
    },
    "container-pyxis-torchrun": {
        "name": "in-pyxis",
        "command": ["/workspace/train.py"],
        "resources": {"nodes": 2},
        "launcher": {"kind": "torchrun", "ranks_per_node": 4},
        "environment": {"mode": "venv"},
        "container": {
            "runtime": "pyxis",
            "image": "nvcr.io#nvidia/pytorch:24.07-py3",
            "workdir": "/workspace",
            "mount_home": True,
            "remap_root": True,
            "writable": True,
        },
        "artifact": {"then": "end"},
    },
    "container-apptainer": {
        "name": "in-apptainer",
        "command": ["train.py", "it's"],
        "resources": {"nodes": 2, "gpus_per_node": 4},
        "setup": {"modules": ["apptainer"]},
        "container": {"runtime": "apptainer", "image": "/project/images/torch.sif", "mounts": ["/data:/data:ro"]},
    },
    "container-oci": {
        "name": "in-oci",
        "command": ["train.py", "it's"],
        "resources": {"nodes": 2, "gpus_per_node": 4},
        "container": {
            "runtime": "oci",
            "image": "/project/images/torch",
            "mounts": ["/data:/data:ro"],
            "writable": True,
        },
    },
    "container-pyxis-job-level": {
        "name": "as-enroot-sites",
        "command": ["train.py"],
        "resources": {"nodes": 2, "gpus_per_node": 8, "gpu_type": "h100"},
        "container": {
            "runtime": "pyxis",
            "level": "job",
            "image": "/project/images/torch.sqsh",
            "mounts": ["/data:/data:ro"],
        },
    },
    "attach": {
        "name": "attached",
        "command": ["train.py"],
        "resources": {"nodes": 2, "gpus_per_node": 4, "gpu_type": "h100", "memory": "64G", "partition": "batch"},
        "launcher": {"inside_job": "1234"},
        "artifact": {"then": "end"},
    },
    "site-environment": {
        "name": "adopted",
        "command": ["train.py"],
        "environment": {"mode": "path", "path": "/shared/envs/my torch"},
        "fabric": "roce",
        "offline": True,
    },
    "sweep": {
        "name": "lr",
        "command": ["train.py", "--lr", "{lr}"],
        "env": {"RUN": "lr {lr}", "SAME": "1"},
        "checkpoint": {"dir": "/scratch/lr/{lr}/{seed}"},
        "artifact": {},
        "sweep": {"parameters": {"lr": ["1e-3", "it's"], "seed": ["1", "2"]}, "metric": "loss", "parallel": 2},
    },
    "sweep-of-roles": {
        "name": "rl",
        "env": {"MODE": "all"},
        "roles": {
            "server": {"command": ["serve.py", "{port}"], "ready": {"port": True}, "env": {"HEAT": "{heat}"}},
            "trainer": {"command": ["train.py", "--lr", "{lr}", "{server.urls}"], "after_ready": ["server"]},
        },
        "artifact": {},
        "sweep": {"parameters": {"lr": ["1e-3", "it's"], "heat": ["0.7", "1"]}, "metric": "reward", "parallel": 2},
    },
    "each-node-makes-it": {
        "name": "offline",
        "command": ["train.py"],
        "resources": {"nodes": 2},
        "environment": {"mode": "cache"},
    },
    "conda": {"name": "conda", "command": ["train.py"], "environment": {"mode": "conda", "file": "environment.yml"}},
    SITE: {"name": "site", "command": ["train.py"], "resources": {"account": "ml"}},
}

#: What only the cluster says, of some of them.
FOUND: dict[str, dict[str, Any]] = {
    "conda": {"conda": True},
    "site-environment": {"adopted_key": "conda-3.11.2-" + "d" * 64, "conda": True, "caches": "/scratch/ml/the caches"},
}

#: What shellcheck may not know of a script whose other half is the runtime. One place; a new exclusion needs a reason.
SHELLCHECK_EXCLUDED = {
    "SC1090": "the runtime is sourced from a path that is known on the cluster only",
    "SC1091": "the same, for /etc/profile",
    "SC2030": "what a role sets is set in a shell of its own: that is the point",
    "SC2031": "the same, where it is read",
    "SC2016": "what a user gives is quoted so that nothing in it expands: that is the point",
}


def rendered(name: str) -> str:
    """The script of the first generation, for fixed inputs."""
    data = SPECS[name]
    merged = merge([Layer(f"jobs/{name}.yml", data)])
    spec = validated(merged)

    def plan_of(spec: LaunchSpec, merged: Merged) -> Plan:
        return plan(
            spec,
            merged,
            code_key="c0de" * 16,
            environment_key="e" * 32 if spec.environment.mode in (*MODES, "conda") else None,
            packages_key="a" * 32 if spec.environment.mode in ON_NODES else None,
            runtime_key="4" * 32,
            # With a blank, which has to be quoted; only a container cannot mount such a path.
            state_root="/project/ml/rankzero" + ("" if spec.contained else " state"),
            store_root="/scratch/ml/rankzero",
            **FOUND.get(name, {}),
        )

    if spec.sweep is not None:
        elements, _notes = sweep.elements(spec, sweep.specs(spec, merged), plan_of)
        made = sweep.array_plan(spec, elements, "/project/ml/rankzero state")
    else:
        made = plan_of(spec, merged)
    text = render_script(made, str(HERE / "templates") if name == SITE else None)
    return with_generation(text, made.token, 1).replace(sweep.tasks_token(made.key), "0-3%2")


@pytest.mark.parametrize("name", SPECS)
def test_script(name: str) -> None:
    golden = HERE / f"{name}.sbatch"
    text = rendered(name)
    if os.environ.get(UPDATE) == "1":
        golden.write_text(text, encoding="utf-8")
    assert golden.exists(), f"{golden} is missing: set {UPDATE}=1 once to write it, and read it before it is committed"
    assert golden.read_bytes() == text.encode()


def test_every_golden_file_has_its_spec() -> None:
    assert {path.stem for path in HERE.glob("*.sbatch")} == set(SPECS)


@pytest.mark.parametrize("path", sorted(HERE.glob("*.sbatch")), ids=lambda path: path.stem)
def test_bash_and_shellcheck_accept_it(path: Path) -> None:
    excluded = f"--exclude={','.join(SHELLCHECK_EXCLUDED)}"
    for command in (["bash", "-n", str(path)], ["shellcheck", "--shell=bash", excluded, str(path)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(HERE.glob("*.sbatch")), ids=lambda path: path.stem)
def test_sbatch_reads_the_whole_header(path: Path) -> None:
    """sbatch stops reading options at the first line that is neither a comment nor empty. Each name stands once, for
    each component of the job.
    """
    lines = path.read_text(encoding="utf-8").split("\n")
    first_command = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    options = [number for number, line in enumerate(lines) if line.startswith("#SBATCH")]
    assert lines[0] == "#!/bin/bash"
    assert max(options) < first_command
    names = " ".join(lines[number].split("=", 1)[0].removeprefix("#SBATCH ") for number in options)
    for component in names.split(" hetjob "):
        assert len(component.split()) == len(set(component.split()))


def test_a_job_looks_for_slurm_where_the_login_node_does() -> None:
    lines = (HERE / "srun-minimal.sbatch").read_text(encoding="utf-8").splitlines()
    (path,) = [line.split('"')[1] for line in lines if line.startswith('export PATH="/')]
    assert set(EXTRA_PATH) <= set(path.split(":"))
