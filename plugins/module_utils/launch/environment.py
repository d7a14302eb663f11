# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment policy: which variables a job gets, and why (E5, E8, E9, L5). Pure.

What can only be known on the node (RANK, MASTER_ADDR, the network interface ...) is set by the runtime's rank wrapper.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.launch.merge import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.spec import LaunchSpec

# Set by the rank wrapper after the job has started; a user's value would be wrong on all nodes but one.
RUNTIME_NAMES = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
RESERVED_PREFIXES = ("SLURM_", "SBATCH_", "SRUN_", "RANKZERO_", "rankzero_")
# Names that change how bash itself reads the script, that it refuses to assign, or that it changes by itself (bash(1),
# Shell Variables); all that begin with BASH besides.
SHELL_NAMES = (
    "COMP_WORDBREAKS", "DIRSTACK", "ENV", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "FUNCNEST", "GROUPS",
    "HISTCMD", "IFS", "LINENO", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "PIPESTATUS", "POSIXLY_CORRECT", "PPID", "PS4",
    "PWD", "RANDOM", "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "UID", "_",
)  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """One exported variable: `reason` in words, `source` (a rule or a requirement id), `set_by` policy or an origin."""

    name: str
    value: str
    reason: str
    source: str
    set_by: str = "policy"


def variables(spec: LaunchSpec, merged: Merged, environment_path: str | None) -> list[Variable]:
    """The exported variables in order; a job's own value replaces the policy's."""
    result = [
        Variable("PYTHONUNBUFFERED", "1", "a rank's lines appear while it runs", "R1"),
        Variable("PYTHONFAULTHANDLER", "1", "a crash prints where it happened", "E5"),
        Variable(
            "PYTHONDONTWRITEBYTECODE", "1", "the code snapshot and the environment stay as published", "environments"
        ),
        Variable(
            "OMP_NUM_THREADS",
            str(spec.resources.cpus_per_rank),
            f"resources.cpus_per_rank is {spec.resources.cpus_per_rank}: ranks x threads must fit the CPUs",
            "L5",
        ),
    ]
    if environment_path:
        result.append(Variable("VIRTUAL_ENV", environment_path, "the environment of the job", "L8"))
    if spec.seed is not None:
        result.append(Variable("RANKZERO_SEED", str(spec.seed), "one seed for all ranks", "E9"))
    if spec.debug:
        result += [
            Variable("NCCL_DEBUG", "INFO", "debug is on", "E8"),
            Variable("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "debug is on", "E8"),
            Variable("CUDA_LAUNCH_BLOCKING", "1", "debug is on", "E8"),
        ]
    own = {
        name: Variable(name, value, "the job sets it", "env", merged.origin(f"env.{name}") or "job")
        for name, value in spec.env.items()
    }
    return [own.pop(variable.name, variable) for variable in result] + list(own.values())


def reserved(name: str) -> str | None:
    """Why a job may not set a variable, or None."""
    if name in RUNTIME_NAMES:
        return "is set for each rank when the job runs"
    if name.startswith(RESERVED_PREFIXES):
        return "belongs to Slurm or to this collection"
    if name in SHELL_NAMES or name.startswith("BASH"):
        return "belongs to bash, which runs the job's script"
    return None
