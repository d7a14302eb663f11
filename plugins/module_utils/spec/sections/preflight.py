# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section `preflight` of the job spec: what is checked on each node before the ranks start, and the consequences."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option

_SIZE = t.text(r"[0-9]{1,12}[KMGT]?", "a size such as 10G (MiB without a unit), or 0 for any", meant=t.size_meant)
# Binary exponents of the units. As in sbatch, sizes without a unit are in MiB.
_UNITS = {"K": 10, "": 20, "M": 20, "G": 30, "T": 40}


_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_ORIGIN = re.compile(r"code|/[^\s:@]*")


def _parse_import(value: object) -> str:
    """NAME, or NAME@ORIGIN for a map with `name` and `from`."""
    name, origin = value, None
    if isinstance(value, Mapping):
        if set(value) != {"name", "from"}:
            raise t.Invalid(f"must have the keys name and from, not {', '.join(map(str, value)) or 'none'}")
        name, origin = value["name"], value["from"]
    if not isinstance(name, str) or not _MODULE.fullmatch(name):
        raise t.Invalid(f"must be the name of a module, or {{name: NAME, from: code}}, not {t.shown(name)}")
    if origin is None:
        return name
    if not isinstance(origin, str) or not _ORIGIN.fullmatch(origin):
        raise t.Invalid(f"from: must be code, or an absolute path without blanks, not {t.shown(origin)}")
    return f"{name}@{origin}"


_IMPORT = t.Type(
    "name of a module, or a map of name and from",
    _parse_import,
    {
        "type": ["string", "object"],
        "pattern": f"^({_MODULE.pattern})$",
        "properties": {
            "name": {"type": "string", "pattern": f"^({_MODULE.pattern})$"},
            "from": {"type": "string", "pattern": f"^({_ORIGIN.pattern})$"},
        },
        "required": ["name", "from"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True)
class Preflight:
    """Section `preflight`: the checks of every node before the ranks start."""

    enabled: bool = option(
        t.BOOLEAN,
        "Check every node before the ranks start: code, environment, run directory, CPUs, GPUs, network.",
        True,
        key=False,
        short="preflight",
    )
    imports: tuple[str, ...] = option(
        t.listed(_IMPORT),
        "Python modules that must be importable on every node; their versions are shown. `{name: NAME, from: code}` "
        "also requires that the module comes from the job's code, or from a folder given as an absolute path, and not "
        "from another copy in the environment or the image.",
        (),
        key=False,
        example=["torch"],
    )
    budget: int = option(
        t.integer(5, 3600, seconds=True),
        "Seconds within which every node must report; `all_reduce` gets the same time again.",
        60,
        key=False,
    )
    on_failure: str = option(
        t.choice("stop", "replace", "requeue"),
        "What to do if a node is not fit. `stop`: end the job with that verdict. `replace`: continue without the "
        "node if `resources.spares` suffice, otherwise end the job. `requeue`: if they do not suffice, requeue the "
        "job with the node excluded, at most `checkpoint.max_restarts` times.",
        "replace",
        key=False,
        example="requeue",
    )
    exclude_for: int = option(
        t.integer(0, 31_536_000, seconds=True),
        "Seconds for which launches on this cluster exclude a node that was not fit; 0 disables this.",
        86400,
        key=False,
        example=3600,
    )
    free_run: str = option(
        _SIZE, "Free space required on the run directory's file system.", "100M", key=False, example="10G"
    )
    free_tmp: str = option(
        _SIZE, "Free space required in each node's $TMPDIR, or /tmp.", "100M", key=False, example="10G"
    )
    gpu_health: str = option(
        t.choice("fail", "warn", "off"),
        "How to treat GPU errors reported by nvidia-smi and the kernel's log: the node is unfit, the error is only "
        "shown, or GPUs are not checked.",
        "fail",
        key=False,
    )
    all_reduce: int = option(
        t.integer(0, 65536),
        "MB that neighbouring nodes all-reduce with each other before the ranks start, to find slow nodes; 0 "
        "disables the test.",
        0,
        key=False,
        example=64,
    )
    slow: str = option(
        t.choice("warn", "fail"),
        "How to treat a slow node, which lacks the fast interface that most nodes have, or whose bandwidth "
        "(`all_reduce`) is less than half of the median: only name it, or treat it as not fit.",
        "warn",
        key=False,
        example="fail",
    )
    stage: str = option(
        t.choice("missing", "never", "always"),
        "Which nodes get code and environment copied to their own disk for the duration of the job: those that do "
        "not see them, none (such a node is then not fit), or all. Not used with a container.",
        "missing",
        key=False,
        example="always",
    )
    stage_budget: int = option(
        t.integer(10, 86400, seconds=True),
        "Time limit in seconds for copying code and environment to the nodes.",
        600,
        key=False,
    )


def size_bytes(value: str) -> int:
    """Return the bytes in a size that matches _SIZE. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+)([KMGT]?)", value)
    if not match:
        raise ValueError(f"not a size: {value!r}")
    return int(match[1]) << _UNITS[match[2]]
