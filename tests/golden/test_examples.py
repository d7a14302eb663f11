# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script of every job of the examples, for the cluster of its inventory, compared whole."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible.vars.manager import VariableManager

from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import parallelism
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import MODES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse_cluster, split_cluster
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import ON_NODES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from tests.golden.test_scripts import SHELLCHECK_EXCLUDED, UPDATE
from tests.plans import plan
from tests.repository import ROOT

EXAMPLES = ROOT / "examples"
HERE = Path(__file__).parent / "examples"
#: Golden file -> example, job, and what the command line adds.
SCRIPTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "cpu_ddp_lab": ("cpu_ddp_lab", "ddp", {}),
    "cpu_ddp_lab-trainer": ("cpu_ddp_lab", "trainer", {}),
    "megatron_lm": ("megatron_lm", "pretrain", {}),
    "megatron_lm-torchrun": ("megatron_lm", "pretrain_torchrun", {}),
    "megatron_bridge": ("megatron_bridge", "pretrain", {"tp": "4", "pp": "2", "mbs": "1", "gbs": "128"}),
    "megatron_bridge-torchrun": ("megatron_bridge", "pretrain", {"launcher": "torchrun"}),
    "megatron_bridge-uv": ("megatron_bridge", "pretrain_uv", {}),
    "megatron_bridge-recipe": ("megatron_bridge", "recipe", {"tp": "2", "program_args": ["train.train_iters=50"]}),
    "megatron_bridge-sft": ("megatron_bridge", "sft", {}),
    "megatron_bridge-convert": ("megatron_bridge", "convert", {}),
    "megatron_bridge-generate": ("megatron_bridge", "generate", {"program_args": ["--prompt", "What is AI?"]}),
    "kempnerforge-multi": ("kempnerforge", "multi", {}),
    "kempnerforge-single": ("kempnerforge", "single", {}),
    "site_parts-charliecloud": ("site_parts", "charliecloud", {}),
    "site_parts-spectrum": ("site_parts", "spectrum", {}),
    "site_parts-tracked": ("site_parts", "tracked", {}),
    "site_parts-gentle": ("site_parts", "gentle", {}),
    "site_parts-restarting": ("site_parts", "restarting", {}),
    "enroot_site": ("enroot_site", "pretrain", {}),
    "enroot_site-debug": ("enroot_site", "pretrain", {"debug": "true", "nodes": "1"}),
}
#: Where `~` and `$SCRATCH` of an inventory would lead.
ROOTS = {"~": "/home/user", "$SCRATCH": "/scratch/user"}


def cluster_of(example: str) -> dict[str, Any]:
    """The cluster that an example's inventory describes."""
    folder = EXAMPLES / example / "inventory"
    file = next(path for path in (folder / "cluster.yml", folder / "login_node.yml") if path.exists())
    (host,) = yaml.safe_load(file.read_text(encoding="utf-8"))["slurm_login"]["hosts"].values()
    settings = host["launch_cluster"]
    assert isinstance(settings, dict)
    return settings


def planned(name: str) -> Plan:
    example, job, given = SCRIPTS[name]
    folder = EXAMPLES / example
    read = read_job(f"jobs/{job}.yml", cluster_of(example), {}, given, str(folder))

    def root(path: str) -> str:
        start, _, rest = path.partition("/")
        return f"{ROOTS.get(start, start)}/{rest}"

    return plan(
        read.spec,
        read.merged,
        code_key="c0de" * 16,
        environment_key="e" * 32 if read.spec.environment.mode in MODES else None,
        packages_key="b" * 32 if read.spec.environment.mode in ON_NODES else None,
        runtime_key="4" * 32,
        state_root=root(read.settings.state_root),
        store_root=root(read.settings.store_root),
        settings=read.settings,
        caches=root(read.settings.caches) if read.settings.caches else None,
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str) -> None:
    golden = HERE / f"{name}.sbatch"
    made = planned(name)
    text = with_generation(render_script(made), made.token, 1)
    if os.environ.get(UPDATE) == "1":
        golden.write_text(text, encoding="utf-8")
    assert golden.exists(), f"{golden} is missing: set {UPDATE}=1 once to write it, and read it before it is committed"
    assert golden.read_bytes() == text.encode()
    excluded = f"--exclude={','.join(SHELLCHECK_EXCLUDED)}"
    for command in (["bash", "-n", str(golden)], ["shellcheck", "--shell=bash", excluded, str(golden)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_job_of_every_example_has_its_script() -> None:
    assert {path.stem for path in HERE.glob("*.sbatch")} == set(SCRIPTS)
    jobs = {(path.parts[-3], path.stem) for path in EXAMPLES.glob("*/jobs/*.yml")}
    # Those that any cluster can run have tests of their own.
    elsewhere = ("database", "evaluation", "first_run", "gitops", "grpo", "ray", "sweep")
    assert {job for job in jobs if job[0] not in elsewhere} == {(example, job) for example, job, _ in SCRIPTS.values()}


def values(name: str) -> dict[str, str]:
    return {variable.name: variable.value for variable in planned(name).variables} | dict(planned(name).exports)


@pytest.mark.parametrize(
    "name", ["megatron_lm", "megatron_lm-torchrun", "megatron_bridge", "megatron_bridge-torchrun", "megatron_bridge-uv"]
)
def test_connections_follow_from_the_parallelism_and_nobody_writes_them(name: str) -> None:
    """Tensor parallelism on Hopper; the job says nothing of the variable."""
    example, job, _given = SCRIPTS[name]
    assert "CUDA_DEVICE_MAX_CONNECTIONS:" not in (EXAMPLES / example / "jobs" / f"{job}.yml").read_text(
        encoding="utf-8"
    )
    assert values(name)["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    assert "CUDA_DEVICE_MAX_CONNECTIONS" not in values("kempnerforge-multi")


def test_the_sizes_of_the_command_line_reach_the_program() -> None:
    given = values("megatron_bridge")
    names = ("TP", "PP", "CP", "EP", "DP", "MBS", "GBS")
    assert [given[f"RANKZERO_{name}"] for name in names] == ["4", "2", "1", "1", "2", "1", "128"]


def test_a_conversion_fits_where_the_generation_of_text_does_not() -> None:
    """On 16 GPUs with the experts over 8 of them the weights can be loaded, and nothing more."""
    spec = planned("megatron_bridge-generate").spec
    assert not parallelism.warnings(planned("megatron_bridge-convert").spec) and not parallelism.warnings(spec)
    (warning,) = parallelism.warnings(replace(spec, parallelism=replace(spec.parallelism, expert=8)))
    assert "too much to infer on this GPU; parallelism.expert: 16 or more would fit" in warning


def test_the_example_of_a_platform_store_fits_together() -> None:
    """What the users' inventory trusts is what the team's writes; a user's own settings win over the defaults."""
    place = EXAMPLES / "platform_store"
    [team] = yaml.safe_load((place / "team" / "hosts.yml").read_text(encoding="utf-8"))["slurm_login"]["hosts"].values()
    loader = DataLoader()
    inventory = InventoryManager(loader, [str(place / "users"), str(place / "me.yml")])
    [host] = inventory.get_hosts("slurm_login")
    variables = VariableManager(loader, inventory).get_vars(host=host)
    given = Templar(loader, variables).template(variables["launch_cluster"])
    own, below = split_cluster(given)
    settings, problems = parse_cluster(merge([Layer("user", own)]))
    written, more = parse_cluster(merge([Layer("team", team["launch_cluster"])]))
    assert not problems and not more
    assert below["resources"] == {"partition": "batch", "account": "ml"}, "one from the team, one from the user"
    assert settings.stores == ({"path": written.store_root, "owners": (team["ansible_user"],)},)
    assert settings.store_root != written.store_root
