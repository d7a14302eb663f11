# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment policy: which variables a job gets, and why. Pure.

Values that are known only on the node (RANK, MASTER_ADDR, the network interface ...) are set by the runtime's rank
wrapper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import (
    cpus_per_rank,
    has_all_cpus,
    world_size,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import Setting, fabric, names
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import Kind
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.registry import settings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import suggestion

# Set by the rank wrapper after the job has started; a user's value would be wrong on all nodes but one.
RUNTIME_NAMES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
# Prefixes of variables that Slurm commands in a job's script read as options (INPUT ENVIRONMENT VARIABLES in their
# manual pages). Such a variable would override the script's own options.
RESERVED_PREFIXES = (
    "SLURM_", "SLURMD_", "SALLOC_", "SBATCH_", "SRUN_", "SBCAST_", "SCANCEL_", "SCONTROL_", "SACCT_", "SACCTMGR_",
    "SINFO_", "SQUEUE_", "SSTAT_", "STRIGGER_", "RANKZERO_", "rankzero_",
)  # fmt: skip
# Names that change how bash reads the script, that it refuses to assign, or that it changes by itself (bash(1), Shell
# Variables). Names that begin with BASH are reserved as well.
SHELL_NAMES = (
    "COMP_WORDBREAKS", "DIRSTACK", "ENV", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "FUNCNEST", "GROUPS",
    "HISTCMD", "IFS", "LINENO", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "PIPESTATUS", "POSIXLY_CORRECT", "PPID", "PS4",
    "PWD", "RANDOM", "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "UID", "_",
)  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """One exported variable: why it is set, the topic or fabric it belongs to (`source`), and where it was set."""

    name: str
    value: str
    reason: str
    source: str
    set_by: str = "policy"
    workaround: str = ""


# GPU types as sites name them -> hardware generation.
GENERATIONS = {
    "ampere": ("a100", "a40", "a30", "a10"),
    "hopper": ("h100", "h200", "h800", "h20", "gh200"),
    "blackwell": ("b100", "b200", "b300", "gb200", "gb300"),
    "amd": ("mi200", "mi210", "mi250", "mi300", "mi300a", "mi300x", "mi325x", "mi355x"),
}
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


def generation(gpu_type: str | None) -> str | None:
    """Return the hardware generation of a GPU type (`h100`, `nvidia_h100_80gb`); None if the name is unknown."""
    words = re.split(r"[^a-z0-9]+", (gpu_type or "").lower())
    return next((name for name, types in GENERATIONS.items() if set(types) & set(words)), None)


@dataclass(frozen=True)
class Rule:
    """What a rule requires of a variable: this value, or (value None) any value except `forbidden`."""

    value: str | None
    forbidden: str | None
    reason: str


def connection_rules(spec: LaunchSpec) -> list[Rule]:
    """Return the rules for CUDA_DEVICE_MAX_CONNECTIONS, the number of hardware queues for a GPU's kernels."""
    wanted, hardware = spec.parallelism, generation(spec.resources.gpu_type)
    if not spec.resources.gpus_per_node or hardware == "blackwell":
        return []
    rules = []
    if wanted.strategy in ("fsdp2", "megatron_fsdp"):
        rules.append(Rule(None, "1", f"parallelism.strategy {wanted.strategy} overlaps: one queue would serialise it"))
    elif wanted.strategy != "fsdp" and hardware in ("ampere", "hopper") and max(wanted.tensor, wanted.context) > 1:
        sizes = f"tensor {wanted.tensor}, context {wanted.context}"
        rules.append(
            Rule("1", None, f"{sizes} on {hardware}: kernels must start in order, and the framework asserts it")
        )
    if wanted.expert > 1 and wanted.expert_overlap:
        rules.append(Rule("32", None, f"expert {wanted.expert} with expert_overlap needs many queues"))
    return rules


def conflicts(spec: LaunchSpec, own: Mapping[str, tuple[Setting, ...]]) -> list[tuple[list[str], str]]:
    """Return conflicting values, each with the paths in the spec and a sentence that names both sides."""
    conflicts = []
    rules, given = connection_rules(spec), spec.env.get(CONNECTIONS)
    path = f"env.{CONNECTIONS}"
    values = sorted({rule.value for rule in rules if rule.value is not None})
    if given is None and len(values) > 1:
        both = "; ".join(f"{rule.value} because {rule.reason}" for rule in rules)
        conflicts.append(
            (["parallelism"], f"{CONNECTIONS}: two rules disagree: {both}; set {path} to the one you want")
        )
    for rule in rules:
        if given is not None and len(values) < 2 and (given == rule.forbidden or rule.value not in (None, given)):
            wanted = f"must be {rule.value}" if rule.value else f"may not be {rule.forbidden}"
            conflicts.append(([path, "parallelism"], f"{path}: {given} conflicts: it {wanted}, because {rule.reason}"))
    if fabric(spec.fabric, own) is None:
        known = names(own)
        hint = suggestion(spec.fabric, known)
        conflicts.append((["fabric"], f"fabric: {spec.fabric} is not known{hint}; known: {', '.join(known)}"))
    return conflicts


# A tool's cache variable -> its folder below the cluster's caches. Caches of compilers (Triton, inductor) are left out:
# they consist of thousands of small files, which every node creates for itself.
CACHES = {
    "HF_HOME": "huggingface",
    "NEMO_HOME": "nemo",
    "TORCH_HOME": "torch",
    "UV_CACHE_DIR": "uv",
    "XDG_CACHE_HOME": "xdg",
}
# Variables that make tools use cached files and look nothing up.
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def cache_variables(caches: str | None) -> list[Variable]:
    """Return the variables that point each tool's cache to one folder that all nodes see."""
    if not caches:
        return []
    reason = "a cache of one node is missing on the others: all nodes share one"
    return [
        Variable(name, f"{caches}/{folder}", reason, "caches", "launch_cluster.caches")
        for name, folder in CACHES.items()
    ]


def offline_variables(set_by: str) -> list[Variable]:
    """Return the variables of a job without network access. `set_by`: where `offline` was set."""
    reasons = {"TOKENIZERS_PARALLELISM": "threads of a tokenizer that is forked by a data loader can hang"}
    default = "offline is true: take what is cached, do not wait for a network that the nodes do not have"
    return [Variable(name, value, reasons.get(name, default), "offline", set_by) for name, value in OFFLINE.items()]


# The newest collectives that torch's flight recorder keeps for each rank: some hundred kilobytes.
RECORDED = "512"


def recorder_variables(spec: LaunchSpec) -> list[Variable]:
    """Return the variables that switch on torch's flight recorder, for launches of several ranks."""
    gpus = spec.resources.gpus_per_node
    if world_size(spec) < 2:
        return []
    reason = f"the last {RECORDED} collectives of a rank are kept: a hang shows which rank is behind in which one"
    variables = [Variable("TORCH_FR_BUFFER_SIZE", RECORDED, reason, "hangs")]
    if gpus:
        dump = "a collective that times out leaves the recorded ones in the run directory"
        variables.append(Variable("TORCH_NCCL_TRACE_BUFFER_SIZE", RECORDED, f"{reason} (torch before 2.9)", "hangs"))
        variables.append(Variable("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", dump, "hangs"))
    return variables


# What `debug` sets for every rank.
_DEBUG = [
    Variable("NCCL_DEBUG", "INFO", "debug is on", "debug"),
    Variable("NCCL_DEBUG_SUBSYS", "INIT,NET", "all subsystems of many ranks would write gigabytes", "debug"),
    Variable("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "debug is on", "debug"),
    Variable("CUDA_LAUNCH_BLOCKING", "1", "debug is on", "debug"),
]


def _of_ranks(spec: LaunchSpec) -> list[Variable]:
    """Return the policy for programs whose ranks the launch itself starts. A script says all that itself."""
    result = [
        Variable("PYTHONUNBUFFERED", "1", "a rank's lines appear while it runs", "logs"),
        Variable("PYTHONFAULTHANDLER", "1", "a crash prints where it happened", "crashes"),
        Variable(
            "PYTHONDONTWRITEBYTECODE", "1", "the code snapshot and the environment stay as published", "environments"
        ),
    ]
    return [*result, _threads(spec), *recorder_variables(spec)]


def _threads(spec: LaunchSpec) -> Variable:
    if has_all_cpus(spec):
        reason = "the job has whole nodes: the ranks of each share its CPUs, which are counted there"
        return Variable("OMP_NUM_THREADS", "auto", reason, "threads")
    cpus = cpus_per_rank(spec)
    reason = f"resources.cpus_per_rank is {cpus}: ranks x threads must fit the CPUs"
    return Variable("OMP_NUM_THREADS", str(cpus), reason, "threads")


def _of_gpus(spec: LaunchSpec) -> list[Variable]:
    """Return the policy for ranks on GPUs."""
    rules = [(rule.value, rule.reason) for rule in connection_rules(spec)]
    result = [Variable(CONNECTIONS, value, reason, "parallelism") for value, reason in rules if value is not None]
    if spec.resources.gpus_per_node and not spec.debug:
        result.append(Variable("NCCL_DEBUG", "WARN", "NCCL's warnings belong in the logs of the ranks", "logs"))
    return result


def variables(
    spec: LaunchSpec,
    merged: Merged,
    environment_path: str | None,
    own: Mapping[str, tuple[Setting, ...]] | None = None,
    caches: str | None = None,
    conda: bool = False,
) -> list[Variable]:
    """Return the exported variables in order. A job's own value replaces the policy's.

    `own`: fabrics of the cluster. `caches`: its folder for caches (launch_cluster.caches). `conda`: whether the
    environment is a conda environment.
    """
    result = [] if spec.script is not None else _of_ranks(spec)
    if environment_path and spec.environment.mode != "sealed":
        name = "CONDA_PREFIX" if conda else "VIRTUAL_ENV"
        result.append(Variable(name, environment_path, "the environment of the job", "environment"))
    result += cache_variables(caches)
    result += offline_variables(merged.origin("offline") or "policy") if spec.offline else []
    if spec.seed is not None:
        result.append(Variable("RANKZERO_SEED", str(spec.seed), "one seed for all ranks", "seed"))
    result += [] if spec.script is not None else _of_gpus(spec)
    chosen = fabric(spec.fabric, own or {})
    if chosen:
        source = f"fabric {chosen.name}"
        set_by = "launch_cluster.fabrics" if spec.fabric in (own or {}) else "policy"
        result += [
            Variable(item.name, item.value, item.reason, source, set_by, item.workaround) for item in chosen.settings
        ]
    result += _DEBUG if spec.debug else []
    jobs = {
        name: Variable(name, value, "the job sets it", "env", merged.origin(f"env.{name}") or "job")
        for name, value in spec.env.items()
    }
    # If two rules set the same variable, the job's own value has resolved the conflict, and the later rule is kept.
    named = {variable.name: variable for variable in result}
    return [jobs.pop(name, variable) for name, variable in named.items()] + list(jobs.values())


def tracker_variables(
    spec: LaunchSpec, merged: Merged, trackers: Sequence[Kind], launch: Mapping[str, str]
) -> list[Variable]:
    """Return the variables that make the launch one run of each tracker, without those that the job sets itself.

    `trackers`: the records of those that the job names. `launch`: the texts of spec/trackers/base.py:OF_LAUNCH.
    """
    return [
        Variable(setting.name, value, setting.reason, tracker, merged.origin(f"trackers.{tracker}") or "policy")
        for tracker, setting, value in settings(spec.trackers, trackers, launch)
        if setting.name not in spec.env and setting.name not in spec.secrets
    ]


def reserved(name: str, *, of_ranks: bool = True) -> str | None:
    """Return why a job may not set a variable; None if it may. `of_ranks`: the job has ranks, which are told theirs."""
    if of_ranks and name in RUNTIME_NAMES:
        return "is set for each rank when the job runs"
    if name.startswith(RESERVED_PREFIXES):
        return "belongs to Slurm or to this collection"
    if name in SHELL_NAMES or name.startswith("BASH"):
        return "belongs to bash, which runs the job's script"
    return None
