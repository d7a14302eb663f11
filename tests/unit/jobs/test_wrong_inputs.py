# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people get wrong in a job file, on the command line and in a cluster's settings. Each message names the option,
the value that was given, and what is allowed or what to write, and the line where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job

START = "name: x\ncommand: [python, train.py]\n"


@dataclass(frozen=True)
class Wrong:
    """`text` follows START in the job file, or is all of it with `whole`. `facts`: what the message must contain."""

    text: str
    facts: tuple[str, ...]
    whole: bool = False
    line: int = 3
    extra: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)


def option(section: str, *facts: str) -> Wrong:
    """A wrong third line."""
    return Wrong(section + "\n", facts)


def whole(text: str, *facts: str, line: int = 0) -> Wrong:
    """A wrong file."""
    return Wrong(text, facts, whole=True, line=line)


def outside(*facts: str, extra: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> Wrong:
    """A wrong value beside the job file."""
    return Wrong("", facts, line=0, extra=extra or {}, cluster=cluster or {})


JOB_FILES = [
    whole("", "job.yml", "`name` and `command`", "empty"),
    whole("just text\n", "job.yml", "`name` and `command`", "not text"),
    whole("- name: x\n", "job.yml", "`name` and `command`", "remove the `-`"),
    whole("command: [a]\n", "name: is required"),
    whole("name: x\n", "command: is required", "shell"),
    whole("name: my job\ncommand: [a]\n", "name:", "'my job'", "letters, digits", line=1),
    whole("name: x\ncommand: python train.py\n", "command:", "'python train.py'", "[python, train.py]", line=2),
    whole("#SBATCH --nodes=2\nsrun true\n", "`name` and `command`", "begins with #!/bin/bash"),
    option("resources: {partition: a b}", "resources.partition", "'a b'", "with commas and no blanks"),
    option("resources: {exclude: ['n[1-']}", "resources.exclude", "'n[1-'", "node[01-04,07]"),
    option("checkpoint: {every: 10m}", "checkpoint.every: unknown key; known here"),
    whole(START + "\tresources: 1\n", "'\\t'", "indent with spaces", line=3),
    whole(START + "resources: {nodes: 2\n", "opened in line 3 is not closed"),
    whole(START + "name: y\n", "'name' appears twice", "first in line 1", "keep one", line=3),
    whole(START + "env:\n  A: 1\n   B: 2\n", "indent all keys", line=5),
    option("nodes: 4", "nodes: unknown key", "resources: {nodes: 4}"),
    option("time: 01:00:00", "time: unknown key", 'resources: {time: "01:00:00"}'),
    option("image: a.sqsh", "image: unknown key", "container: {image: a.sqsh}"),
    option("resorces: {nodes: 2}", "resorces: unknown key", "did you mean resources?"),
    option("resources: {node: 2}", "resources.node: unknown key", "nodes"),
    option("resources: {mem: 64}", "resources.mem: unknown key", "resources.memory"),
    option("resources: {gpus: 8}", "resources.gpus: unknown key", "resources.gpus_per_node"),
    option("resources: {ntasks_per_node: 8}", "resources.ntasks_per_node", "launcher.ranks_per_node"),
    option("resources: {gpus_per_node: 'h100:8'}", "gpus_per_node", "'h100:8'", "gpu_type: h100, gpus_per_node: 8"),
    option("resources: {nodes: two}", "resources.nodes", "'two'", "whole number"),
    option("resources: {nodes: 0}", "resources.nodes", "'0'", "at least 1"),
    option("resources: {time: 2h}", "resources.time", "'2h'", "04:00:00"),
    option("resources: {memory: lots}", "resources.memory", "'lots'", "64G"),
    option("resources: {gpus_per_node: -1}", "resources.gpus_per_node", "'-1'", "at least 0"),
    option("resources: {sbatch: {nodes: 4}}", "resources.sbatch.nodes", "use resources.nodes"),
    option("trackers: wandb", "trackers:", "'wandb'", "write {wandb: {}}"),
    option("setup: pip install x", "setup:", 'write {commands: ["pip install x"]}'),
    option("container: x.io/y:1", "container:", 'write {runtime: ..., image: "x.io/y:1"}'),
    option("launcher: torchrun", "launcher:", "'torchrun'", "write {kind: torchrun}"),
    option("container: pyxis", "container:", "'pyxis'", "write {runtime: pyxis}"),
    option("launcher: mpirun", "launcher:", "'mpirun'", "some of the keys kind"),
    option("launcher: {nproc_per_node: 8}", "launcher.nproc_per_node", "launcher.ranks_per_node"),
    option("launcher: {kind: mpiexec}", "launcher.kind", "'mpiexec'", "srun, torchrun, standalone"),
    option("launcher: {ranks_per_node: 0}", "launcher.ranks_per_node", "'0'", "at least 1"),
    option("launcher: {port: 80}", "launcher.port", "'80'", "1024 to 65535"),
    option("artifact: {path: ../result.json}", "artifact.path", "'../result.json'", "relative"),
    option("artifact: {path: r.json, require: loss}", "artifact.require", "'loss'", "map"),
    option("artifact: {require: {loss: {lt: low}}}", "artifact.require", "'low'", "number"),
    option("artifact: {require: {loss: 1}}", "artifact.require", "'1'", "{lt: 4.0}"),
    option("artifact: {require: {loss: {below: 1}}}", "artifact.require", "below", "lt, le, gt"),
    option("env: {RANK: 0}", "env.RANK", "may not be set", "each rank"),
    option("env: {MASTER_ADDR: node01}", "env.MASTER_ADDR", "may not be set"),
    option("env: {1X: a}", "env:", "'1X'", "letters, digits and _"),
    option("env: [A=B]", "env:", "['A=B']", "{NAME: VALUE}"),
    option("environment: {mode: poetry}", "environment.mode", "'poetry'", "venv, sealed"),
    option("environment: {mode: path}", "environment.path", "required", "venv or conda"),
    option("container: {runtime: docker}", "container.runtime", "'docker'", "pyxis, apptainer, oci"),
    option("container: {image: a.sqsh}", "container.image", "set container.runtime to pyxis"),
    option(
        "container: {runtime: apptainer, image: 'docker://pytorch/pytorch'}",
        "container.image",
        "'docker://pytorch/pytorch'",
        "absolute path",
        "container.build.reference",
    ),
    option("container: {mounts: [/data]}", "container.mounts", "'/data'", "source:target"),
    option("container: {mounts: {/data: /d}}", "container.mounts", "{'/data': '/d'}", "must be a list", "[/data:/d]"),
    Wrong("after: [nosuch.yml]\n", ("after", "there is no", "nosuch.yml", "job files"), line=0),
    option("notify: [{url: 'https://hooks.example/T0/secret', on: [end]}]", "notify", "url_file", "url_env"),
    option("secrets: {HF_TOKEN: abc}", "secrets: HF_TOKEN", "{from_env: NAME}"),
    option("secrets: {HF_TOKEN: {from_vault: x}}", "secrets: HF_TOKEN", "from_vault", "{from_env: NAME}"),
    option("code: {src: ., include: train.py}", "code.include", "'train.py'", "[train.py]"),
    whole("name: x\ncommand: [trian.py]\ncode: {src: .}\n", "trian.py", "did you mean train.py?"),
    option("checkpoint: {progress: step.txt}", "checkpoint.progress", "checkpoint.requeue", "signal_before_end"),
    option("checkpoint: {fresh: true}", "checkpoint.fresh", "without checkpoint.dir"),
    option("checkpoint: {signal_before_end: 65000}", "checkpoint.signal_before_end", "65000", "time limit"),
    option("parallelism: {tensor: 3}", "parallelism", "tensor 3", "the next that fits is 3 ranks", "a product of 1"),
    option(
        "parallelism: {tensor: 3}\nresources: {nodes: 2, gpus_per_node: 4}",
        "the 8 ranks",
        "the next that fit are 6 and 9 ranks, and for 8 a product of 2 or 4",
    ),
    option("parallelism: {expert: 3, experts: 8}\nresources: {gpus_per_node: 8}", "the 8 ranks of", "it may be 2 or 4"),
    # Times and sizes as other tools write them.
    option("checkpoint: {signal_before_end: 5m}", "signal_before_end", "whole number of seconds", "'5m'; write 300"),
    option("checkpoint: {signal_before_end: '00:05:00'}", "'00:05:00'; write 300"),
    option("launcher: {wait: 1h30m}", "launcher.wait", "seconds", "write 5400"),
    option("artifact: {then: end, grace: 2 minutes}", "artifact.grace", "write 120"),
    option("preflight: {budget: soon}", "preflight.budget", "seconds from 5 to 3600, not 'soon'"),
    option("resources: {time: 90s}", "resources.time", "write 00:01:30"),
    option("resources: {time: 2 days}", "resources.time", "write 2-00:00:00"),
    option("resources: {memory: 64GiB}", "resources.memory", "'64GiB'; write 64G"),
    option("resources: {memory: 64 gb}", "write 64G"),
    option("preflight: {free_tmp: 10GB}", "preflight.free_tmp", "write 10G"),
    # Options that sbatch and srun do not have.
    option("resources: {sbatch: {nodez: 2}}", "--nodez", "did you mean --nodes, which is resources.nodes here?"),
    option("resources: {sbatch: {mail-usr: me}}", "--mail-usr", "did you mean --mail-user?", "plugin_options"),
    option("launcher: {srun: {cpu-bnid: none}}", "launcher.srun.cpu-bnid", "srun has no", "did you mean --cpu-bind?"),
    option(
        "resources: {sbatch: {walltime: '60'}}", "no option --walltime; did you mean --time, which is resources.time"
    ),
    option("resources: {sbatch: {mem-per-gpu: 64GiB}}", "resources.sbatch.mem-per-gpu", "'64GiB'; write 64G"),
    option("resources: {sbatch: {tmp: lots}}", "resources.sbatch.tmp", "a size of Slurm such as 64G, not 'lots'"),
    option("launcher: {srun: {mem: 64 GiB}}", "launcher.srun.mem", "'64 GiB'; write 64G"),
    # Templates of other tools.
    option("seed: '{{ seed }}'", "seed:", "'{{ seed }}'", "no template, write the value"),
    whole("name: x\ncommand: ['{{ prog }}']\n", "the program is {{ prog }}", "no template; write its name", line=2),
    # Job files of other tools.
    option("slurm_array_parallelism: 4", "did you mean sweep.parallel (sweep: {parallel: 4})?"),
    option("num_nodes: 4", "did you mean resources.nodes (resources: {nodes: 4})?"),
    option("resources: {accelerators: 'A100:8'}", "(resources: {gpu_type: A100, gpus_per_node: 8})?"),
    option("run: python train.py", 'did you mean shell (shell: "python train.py")?'),
    option("resources: {accelerators: {H100: 8}}", "(resources: {gpu_type: H100, gpus_per_node: 8})?"),
    option("resources: {mem_gb: 64}", "did you mean resources.memory (resources: {memory: 64G})?"),
    option("mem_mb: 500", "did you mean resources.memory (resources: {memory: 500M})?"),
    option("resources: {mem_gb: 1.5}", "(resources: {memory: ...})?"),
    option("resources: {mem_per_cpu: 4G}", "resources.sbatch.mem-per-cpu (resources: {sbatch: {mem-per-cpu: 4G}})?"),
    option("mail_type: END", "did you mean resources.sbatch.mail-type (resources: {sbatch: {mail-type: END}})?"),
    option("container_mounts: ['/a:/b']", 'did you mean container.mounts (container: {mounts: ["/a:/b"]})?'),
    option("cloud: slurm", "cloud: unknown key; a job does not name its cluster", "-c NAME chooses one; remove it"),
    option("resources: {cloud: aws}", "resources.cloud: unknown key; a job does not name its cluster"),
    option("resources: {use_spot: true}", "resources.partition", "checkpoint.requeue", "remove it"),
    option("resources: {disk_size: 256}", "(preflight: {free_tmp: 10G})"),
    option("entrypoint: [python, train.py]", 'did you mean command (command: ["python", "train.py"])?'),
    option("workdir: .", "did you mean code.src (code: {src: .})?"),
    option("envs: {A: b}", "did you mean env (env: ...)?"),
    option("file_mounts: {/data: ./data}", "did you mean data"),
    option("image_id: docker:a/b", "did you mean container.image"),
    option("slurm_partition: gpu", "did you mean resources.partition (resources: {partition: gpu})?"),
    option("timeout_min: 60", "did you mean resources.time (resources: {time: 60})?"),
    option("tasks_per_node: 8", "did you mean launcher.ranks_per_node (launcher: {ranks_per_node: 8})?"),
    option("mem: 64GB", "did you mean resources.memory (resources: {memory: 64G})?"),
    option(
        "parallelism: {tensor_model_parallel_size: 1}", "did you mean parallelism.tensor (parallelism: {tensor: 1})?"
    ),
    option("max_retries: 3", "did you mean checkpoint.max_restarts"),
    option("code: .", "code:", 'write {src: "."}'),
    option("artifact: out/model.pt", "artifact:", 'write {path: "out/model.pt"}'),
    option("sweep: {lr: [0.1]}", "sweep.lr: unknown key", "belongs into sweep.parameters"),
    option("fabric: infinyband", "fabric", "infinyband", "infiniband_h100"),
    option("seed: -1", "seed", "'-1'", "0 to 4294967295"),
    option("preflight: {all_reduce: true}", "preflight.all_reduce", "'true'", "0 to 65536"),
    outside("resources.nodes", "'many'", "whole number", "command line", extra={"nodes": "many"}),
    outside("resources.time", "'soon'", "04:00:00", "command line", extra={"time": "soon"}),
    outside("args", "'--steps 5'", "[--lr, 3e-4]", extra={"args": "--steps 5"}),
    outside("launch_cluster.state_rot: unknown", "state_root", cluster={"state_rot": "/x"}),
    outside("launch_cluster.state_root", "'relative/x'", "absolute path", cluster={"state_root": "relative/x"}),
    outside("launch_cluster.stores", "'/x'", "must be a list", cluster={"stores": "/x"}),
]


def prepared(folder: Path, wrong: Wrong) -> Prepared:
    (folder / "train.py").write_text("")
    path = folder / "job.yml"
    path.write_text(wrong.text if wrong.whole else START + wrong.text)
    job = read_job(str(path), wrong.cluster, {}, wrong.extra, str(folder))
    return prepare(job, Site("/state", "/store", job.settings, None), relaunch="on_failure", facts={})


@pytest.mark.parametrize("wrong", JOB_FILES, ids=lambda wrong: " ".join(wrong.facts)[:40])
def test_a_wrong_input_is_explained(wrong: Wrong, tmp_path: Path) -> None:
    with pytest.raises(RankzeroError) as error:
        prepared(tmp_path, wrong)
    message = error.value.message
    assert not [fact for fact in wrong.facts if fact not in message], message
    assert not wrong.line or f"job.yml:{wrong.line}" in message, message
    assert "Traceback" not in message and len(message.splitlines()) <= 3, message


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("resources: {sbatch: {uenv: prgenv}}\n", ["resources.sbatch.uenv: Slurm's sbatch has no option --uenv;"]),
        ("launcher: {srun: {renice: '5'}}\n", ["launcher.srun.renice: Slurm's srun has no option --renice;"]),
        ("resources: {sbatch: {comment: a, hold: true}}\nlauncher: {srun: {cpu-bind: none}}\n", []),
        ("env: {OUT: '/scratch/{{ user }}'}\n", ["env.OUT: a job file is no template, so {{ user }} stays"]),
        ("env: {OUT: '{{ user }}'}\n", ["if it means a value, write that, or give -s env.OUT=... on the command line"]),
        ("setup: {commands: ['a {{ b }}']}\n", []),
    ],
)
def test_what_may_be_right_is_a_warning_in_the_plan(text: str, warned: list[str], tmp_path: Path) -> None:
    told = [line for line in prepared(tmp_path, Wrong(text, ())).lines if line.startswith("warning: ")]
    assert len(told) == len(warned) and all(part in line for part, line in zip(warned, told)), told


def test_a_site_names_the_options_of_its_plugins(tmp_path: Path) -> None:
    text = "resources: {sbatch: {uenv: prgenv, cpufreq: high, lic: a}}\n"  # --lic begins --licenses
    with pytest.raises(RankzeroError, match=r"--cpufreq; did you mean --cpu-freq\?"):
        prepared(tmp_path, Wrong(text, ()))
    lines = prepared(tmp_path, Wrong(text, (), cluster={"plugin_options": ["uenv", "cpufreq", "lic"]})).lines
    assert not [line for line in lines if line.startswith("warning: ")]


def test_a_secret_in_env_is_warned_of_and_not_shown(tmp_path: Path) -> None:
    job = Wrong("env: {HF_TOKEN: hf_0123456789, TOKENIZERS_PARALLELISM: 'false', WANDB_API_KEY: ''}\n", ())
    warnings = [line for line in prepared(tmp_path, job).lines if line.startswith("warning: ")]
    assert len(warnings) == 1, warnings
    assert "env.HF_TOKEN" in warnings[0] and "{from_env: HF_TOKEN}" in warnings[0] and "hf_0" not in warnings[0]
