# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of sbatch and srun: which fields set them, and which ones a job may set itself. Pure.

A field declares its option in its metadata (fields.Sbatch). The rules for these options are derived from there.

Slurm reads its options with getopt_long(3), which accepts any unambiguous prefix of a long option: `--job-nam=x`
renames the job. Therefore a name must be written in full; otherwise every rule about an option could be bypassed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import Sbatch, fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import nearest


@dataclass(frozen=True)
class Declared:
    """A field of the job spec that is passed to Slurm as an option: its path, its default, and the option."""

    path: str
    default: Any
    sbatch: Sbatch
    instead_of: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The long names, without dashes, that a user might pass to sbatch for this field."""
        return (self.sbatch.name, *self.instead_of)

    def given(self, spec: LaunchSpec) -> Any:
        """The field's own value."""
        return getattr(self._section(spec), self.path.rpartition(".")[2])

    def line(self, spec: LaunchSpec) -> str | bool | None:
        """Return the value in the job's header; None if there is no such line."""
        value: str | bool | None = self.sbatch.value(self._section(spec)) if self.sbatch.value else self.given(spec)
        return value

    def for_salloc(self, spec: LaunchSpec) -> str | bool | None:
        """Return the value for an interactive session (salloc)."""
        return self.sbatch.salloc(self._section(spec)) if self.sbatch.salloc else self.line(spec)

    def _section(self, spec: LaunchSpec) -> Any:
        section: Any = spec
        for part in self.path.split(".")[:-1]:
            section = getattr(section, part)
        return section


DECLARED = tuple(
    Declared(info.path, info.default, info.meta["sbatch"], info.meta["instead_of"])
    for info in fields_of(LaunchSpec)
    if info.meta["sbatch"]
)
# The fields that have a header line with the field's own value, in the order of the table.
PLAIN = tuple(row for row in DECLARED if not row.sbatch.size and not row.sbatch.either)


def _owned_by_fields() -> Iterator[tuple[str, str]]:
    """Iterate over (option of sbatch that a field always decides, path of that field)."""
    for info in fields_of(LaunchSpec):
        declared: Sbatch | None = info.meta["sbatch"]
        if declared is None or not declared.either:
            for name in (*([declared.name] if declared else []), *info.meta["instead_of"]):
                yield name, info.path


_OURS = (
    "output error input open-mode cluster clusters uid gid external parsable test-only help usage version autocomplete"
)
_OURS_SBATCH = f"{_OURS} chdir array wait quiet"
_OURS_SRUN = (
    f"{_OURS} kill-on-bad-exit jobid multi-prog pty interactive async external-launcher no-allocate debugger-test"
)
# Options that a field or the collection itself decides -> the field; "" for the collection.
OWNED_SBATCH = {
    **dict(_owned_by_fields()),
    **dict.fromkeys(_OURS_SBATCH.split(), ""),
}
OWNED_SRUN = {
    **{name: row.path for row in DECLARED if row.sbatch.size for name in row.names},
    "export": OWNED_SBATCH["export"],
    **dict.fromkeys(_OURS_SRUN.split(), ""),
}
# Options that only make sense in a batch script, and options that only sbatch accepts (salloc(1)).
BATCH_ONLY = (
    "batch", "chdir", "export", "export-file", "ignore-pbs", "job-name", "no-requeue", "open-mode", "output",
    "propagate", "requeue", "signal",
)  # fmt: skip
# Options that decide when or how often a job runs. Inside another job they would have no effect.
SCHEDULING = ("begin", "deadline", "hold", "no-requeue", "requeue", "signal")
STEP_ONLY = (
    *("mpi", "kill-on-bad-exit", "label", "unbuffered", "overlap", "exact", "cpu-bind", "task-prolog"),
    *("task-epilog", "resv-ports"),
)
# srun options that choose nodes, and those for sharing a job between steps.
PLACING = ("exclude", "nodefile", "nodelist", "relative")
SHARING = ("exact", "exclusive", "overlap")
# Options of the ranks' step that a session decides itself: they divide it between tasks or nodes, bound its time, or do
# not go together with a terminal or a quiet srun.
_OF_SESSIONS = (
    "accel-bind bcast bcast-exclude chdir compress cores-per-socket cpu-bind cpus-per-gpu disable-status "
    "distribution gpu-bind gpus gpus-per-task het-group label launch-cmd launcher-opts ntasks-per-core ntasks-per-gpu "
    "ntasks-per-socket ntasks-per-tres pack-group preserve-env quit-on-interrupt send-libs spread-job threads time "
    "tres-bind tres-per-task unbuffered use-min-nodes verbose wait-for-children"
)
OF_SESSIONS = frozenset(_OF_SESSIONS.split()) | {*PLACING, *SHARING}
# These options imply a binding of one GPU per task. LOCAL_RANK would then name a GPU that the rank cannot see.
BINDS_GPUS = ("gpus-per-task", "ntasks-per-gpu")
# Options whose value is a size of memory or of a disk.
SIZES = ("mem", "mem-per-cpu", "mem-per-gpu", "tmp")
# Options that assign devices to tasks if their value names GPUs.
TRES = ("tres-per-task",)

# The other long options of Slurm 22.05 to 26.11 that both commands accept (salloc(1), sbatch(1), srun(1)), documented
# or not. A name that is neither one of them nor a prefix of one is passed on, because a site's plugins have options as
# well.
_COMMON = (
    "acctg-freq bb bbf begin cluster-constraint comment consolidate-segments container container-id context contiguous "
    "core-spec cores-per-socket cpu-freq cpus-per-gpu deadline delay-boot distribution extra extra-node-info gpu-bind "
    "gpu-freq gpus-per-task gres-flags hint hold licenses mail-type mail-user mcs-label mem-bind mem-per-cpu "
    "mem-per-gpu mem-update mincpus network nice no-kill nodefile nodelist ntasks-per-core ntasks-per-gpu "
    "ntasks-per-socket ntasks-per-tres oom-kill-step overcommit oversubscribe power prefer priority profile propagate "
    "reboot resources runtime segment share signal sockets-per-node spread-job spread-segments stepmgr switches "
    "thread-spec threads-per-core time-min tmp tres-bind tres-per-task use-min-nodes verbose wckey"
)
_SBATCH = "batch burst-buffer ignore-pbs kill-on-invalid-dep no-requeue requeue wait-all-nodes workdir"
_SRUN = (
    "accel-bind bcast bcast-exclude compress disable-status epilog exact het-group ignore-signals immediate "
    "label launch-cmd launcher-opts mpi msg-timeout overlap pack-group preserve-env prolog quit-on-interrupt relative "
    "resv-ports send-libs slurmd-debug task-epilog task-prolog threads treewidth unbuffered wait-for-children whole x11"
)
_PYXIS = (
    "container-image container-mounts container-workdir container-name container-save container-mount-home "
    "no-container-mount-home container-remap-root no-container-remap-root container-entrypoint "
    "container-entrypoint-log no-container-entrypoint container-writable container-readonly container-env"
)
# The options that only one command's rules know count for the other as well: in doubt, a name must be written in full.
SBATCH = frozenset(f"{_COMMON} {_SBATCH} {_PYXIS}".split()) | set(OWNED_SBATCH) | set(STEP_ONLY)
SRUN = frozenset(f"{_COMMON} {_SRUN} {_PYXIS}".split()) | set(OWNED_SBATCH) | set(OWNED_SRUN) | set(STEP_ONLY)


def misspelt(name: str, known: frozenset[str]) -> str | None:
    """Return the option that an unknown name is a slip of the pen from; None for one that is no more than similar, as
    options of a site's plugins may be.
    """
    near = None if name in known else nearest(name, known, 0.75)
    # One wrong letter in a short name is a quarter of it.
    slip = near is not None and near[0] == name[0] and (len(near) == len(name) or nearest(name, [near], 0.8))
    return near if slip else None
