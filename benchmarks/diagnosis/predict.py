#!/usr/bin/env python3
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Diagnose every *.log file of a folder separately, and print one JSON object per file for a scorer.

usage: predict.py LOGS_DIR > predictions.jsonl
"""

from __future__ import annotations

import glob
import importlib.machinery
import json
import os
import sys
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

#: Our families -> the label set's classes, where the names differ.
CLASSES = {
    "abi_conflict": "module_conflict",
    "build": "uv_or_pip_build_failure",
    "cache_not_shared": "file_not_found_or_not_shared",
    "checkpoint": "checkpoint_corrupt_or_mismatch",
    "collective_timeout": "nccl_timeout_rank0",
    "crash": "segfault_or_bus_error",
    "cuda_device": "cuda_driver_or_ecc",
    "cuda_max_connections": "assertion_cuda_max_connections",
    "cuda_mismatch": "nccl_version_or_cuda_mismatch",
    "device_assert": "python_exception_other",
    "disk_full": "disk_full_or_quota",
    "duplicate_gpu": "cuda_driver_or_ecc",
    "exception": "python_exception_other",
    "file_missing": "file_not_found_or_not_shared",
    "hub_auth": "auth_or_gated_hub",
    "hub_limit": "hub_rate_limited",
    "mpi_call": "python_exception_other",
    "launcher": "python_exception_other",
    "nccl_shm": "dataloader_worker_shm",
    "offline": "offline_network",
    "open_files": "dataloader_worker_shm",
    "peer_lost": "nccl_timeout_rank0",
    "process_limit": "dataloader_worker_shm",
    "script_error": "argparse_or_config",
    "syntax_error": "python_exception_other",
    "time_limit": "slurm_timeout",
    "tolerance": "python_exception_other",
    "unused_parameters": "python_exception_other",
    "usage": "argparse_or_config",
}


def as_collection() -> None:
    """Make this checkout importable as `ansible_collections.rankzero.slurm`, in any folder."""
    for name in ("ansible_collections", "ansible_collections.rankzero", "ansible_collections.rankzero.slurm"):
        package = types.ModuleType(name)
        package.__path__ = [ROOT] if name.endswith("slurm") else []
        package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules.setdefault(name, package)


def main() -> None:
    as_collection()
    from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import find_cause
    from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.scan import scan

    for path in sorted(glob.glob(os.path.join(glob.escape(sys.argv[1]), "*.log"))):
        scanned = scan([path])
        cause = find_cause(scanned.logs)
        line = cause.root.line if cause.root else None
        name = os.path.basename(path)[: -len(".log")]
        family = CLASSES.get(cause.family, cause.family)
        print(json.dumps({"id": name, "class": family, "root_lineno": line, "confidence": cause.confidence}))


if __name__ == "__main__":
    main()
