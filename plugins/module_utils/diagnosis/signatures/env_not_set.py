# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program needs variables that a launcher sets, and was started without one."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="env_not_set",
    what="an environment variable is not set: {variable}",
    remedy=(
        "Start the program with `command`, not in `setup.commands` or under its own srun: `launcher.kind: srun` and "
        "`torchrun` both set RANK, WORLD_SIZE, MASTER_ADDR and the rest for every rank. Other variables belong in "
        "`env` or `secrets`."
    ),
    look=(
        "See where the program expects that variable, and whether all ranks were started by the launcher; an "
        "earlier error may have kept it from being set."
    ),
    matches=(
        raises(
            r"environment variable (?P<variable>\w+) expected, but not set|KeyError: '(?P<name>RANK|"
            r"WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT|SLURM_\w+|LOCAL_WORLD_SIZE|NODE_RANK|"
            r"(?:HF|WANDB|CUDA|OMPI|PMI|NCCL|MLFLOW|AWS)_[A-Z_]+|[A-Z]\w*_API_KEY)'$|"
            "(?:[Ee]nvironment variable|env var|"
            r"[Ee]nvironment)\S* \S+ (?:is )?(?:not set|undefined|missing)|must be (?:launched|"
            "run) with (?:torchrun|mpirun)|Please set (?:the )?(?:environment variable|env)|"
            r"[Uu]nset environment variable|[Ee]nvironment variable.{0,60} (?:must be set|not found)"
        ),
        # A program's own dictionary may have such keys as well.
        raises(
            r"KeyError: '(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)'$",
            frames=r"environ|getenv|[/\\]os\.py|<frozen os>|\A\Z",
        ),
        # Often because its initialisation failed, which the program did not mind.
        raises(
            r"(?:[Pp]rocess group|parallel group|[Dd]istributed(?: environment| package)?) (?:has not been|is not|"
            r"not) initiali[sz]ed",
            strength=WEAK + 2,
            what="a collective was used before its process group was initialised",
            remedy=(
                "The program used a collective without `init_process_group`, or after it failed: see whether it is "
                "meant to run as several processes. If so, start it with `launcher.kind: torchrun` or `srun`; on one "
                "device switch its distributed part off (an argument in `command`)."
            ),
        ),
        says(
            r"^(?!.*(?:WARN|INFO)).*: line \d+: (?P<variable>\w+): unbound variable|"
            r": (?P<name>\w+): parameter (?:null or )?not set",
            "unbound variable",
            "not set",
        ),
        # Printed, before the program ends with exit code 1.
        says(
            r"must be (?:launched|run|started) (?:with|by|via|using) `?"
            r"(?:torchrun|mpirun|torch\.distributed|accelerate)",
            "must be launched",
            "must be run",
            "must be started",
            strength=WEAK + 3,
        ),
    ),
    examples=(
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable "
            "WORLD_SIZE expected, but not set"
        ),
        "KeyError: 'LOCAL_RANK'",
        "run.sh: line 4: DATA_DIR: unbound variable",
        "This script must be launched with torchrun",
    ),
)
