# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job spec: one field table, and the typed LaunchSpec that is read from merged layers.

The dataclasses below are the table. Each field's metadata holds its type, default, documentation, example, short name
for `-e`, and whether its value is part of the launch key. The reference page, the JSON Schema and the doc fragment are
generated from the table (scripts/generate_reference.py). Pure; no I/O.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import AUTO
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option, section
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.artifact import CONDITIONS, FORMATS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.checkpoint import (
    NOTIFY,
    Checkpoint,
    Logs,
    Monitor,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.code import Code
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.container import Container
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.data import DATA, Dataset
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import Environment, Setup
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.parallelism import Parallelism
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.preflight import Preflight
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import Launcher, Resources
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.roles import ROLES, RoleKeys
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.secrets import (
    SECRETS,
    VARIABLE,
    VARIABLE_NAME,
    SecretSource,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.sweep import Sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.registry import KINDS, TRACKERS, Tracker

if TYPE_CHECKING:
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.notify import Receiver

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

_path = t.text(r"[^\0\n]+", "a path")
# A normalized path: the runtime compares it with the names in the code snapshot.
_relative_path = t.Type(_path.title, lambda value: posixpath.normpath(_path.parse(value)), _path.schema)


@dataclass(frozen=True)
class Artifact:
    """Section `artifact`: the result that proves the launch."""

    TEXT_IS: ClassVar[str] = "{{path: {}}}"

    path: str = option(
        _relative_path,
        "The result file, relative to the ranks' working directory.",
        "result.json",
        example="result.json",
    )
    format: str = option(
        t.declared("artifact_formats", *(kind.name for kind in FORMATS)),
        "When it is complete. " + " ".join(f"`{kind.name}`: {kind.whole}." for kind in FORMATS),
        "json",
    )
    complete: str | None = option(
        _relative_path,
        "With `format: directory`: the file that is written last in it, such as `metadata.json`. If it is a JSON "
        "object, `require` refers to its values.",
        None,
        example="metadata.json",
    )
    require: dict[str, Any] = option(
        t.mapped(r".+", "a key of the result (dots separate levels)", CONDITIONS),
        "Requirements: key -> {lt, le, gt, ge, eq, ne: value}. An empty map requires only that the key exists.",
        {},
        example={"loss": {"lt": 4.0}},
    )
    together: str = option(
        t.choice("reported", "required"),
        "Ranks of which none was in a process group of torch with others: `reported` says so with the result; with "
        "`required`, the artifact counts only if the ranks were seen in such a group.",
        "reported",
    )
    then: str = option(
        t.choice("let_run", "end"),
        "What to do once the artifact is valid: let the program end by itself, or end the job at once.",
        "let_run",
        key=False,
        example="end",
    )
    grace: int = option(
        t.integer(0, 86400, seconds=True),
        "With `then: end`: seconds between the artifact and the end of the job, for checkpoints that are still "
        "being written.",
        0,
        key=False,
        example=30,
    )
    role: str | None = option(
        t.text(),
        "With `roles`: the one that decides about the launch, by its end and its artifact. Default: `trainer`.",
        example="client",
    )


@dataclass(frozen=True)
class Role:
    """A program of a launch: its name, its own spec (what it says over what the launch says), and its other keys."""

    name: str
    spec: LaunchSpec
    keys: RoleKeys


@dataclass(frozen=True)
class LaunchSpec:
    """A complete job spec, checked and with all defaults. Fields without a section are at its top level."""

    name: str = option(
        t.text(NAME, "letters, digits, '.', '_' and '-', at most 64, beginning with a letter or digit"),
        "Name of the job. Its run directories are stored under this name.",
        "",
        key=False,
        required=True,
        example="gpt-small",
        instead_of=("job-name",),
    )
    command: tuple[str, ...] = option(
        t.listed(t.text(), filled=True),
        "The program of every rank as a list of arguments, run without a shell: `$NAME`, `~` and `*` stay as they are, "
        "and the plan warns of them. If the first argument ends in `.py`, the environment's Python runs it.",
        (),
        example=["train.py", "--steps", "1000"],
        instead_of=("wrap",),
        also=("entrypoint", "program"),
    )
    shell: str | None = option(
        t.text(r"[\s\S]+", "a shell line"),
        "A line for bash, run by every rank, instead of `command`, with `pipefail` (`set +o pipefail;` turns it off).",
        example="python train.py --out $RANKZERO_RUN_DIR | tee log",
        also=("run", "cmd"),
    )
    script: str | None = option(
        t.text(),
        "A batch script instead of `command`: its path, or its text if that begins with `#!`. It runs once, on the "
        "first node, as sbatch would run it. Its #SBATCH lines are a layer below the job. See docs/script-jobs.md.",
        key=False,
        example="train.sbatch",
    )
    script_args: tuple[str, ...] = option(t.listed(t.text()), "Arguments of `script`.", (), example=["configs/8b.yaml"])
    roles: dict[str, Role] = option(
        ROLES,
        "Several programs in one job instead of one: name -> its `command` or `shell`, `nodes`, `launcher`, `env`, "
        "`container`, `environment`, `secrets`, `data`, `resources` of its nodes (CPUs, GPUs, partition), and "
        "`ready`, `after_ready`, `on_exit`. "
        "What a role does not say is as at the top of the job. See docs/roles.md.",
        {},
        example={
            "server": {"command": ["serve.py", "--port", "{port}"], "ready": {"http": "/health"}},
            "trainer": {"command": ["train.py", "{server.urls}"], "after_ready": ["server"]},
        },
    )
    resources: Resources = section(Resources, "Resources that the job requests from Slurm.")
    launcher: Launcher = section(Launcher, "How the ranks are started.")
    setup: Setup = section(Setup, "Set-up that the site needs before the launch.")
    code: Code = section(Code, "The program's files.")
    environment: Environment = section(Environment, "The Python environment of the ranks.")
    container: Container = section(Container, "The container in which every rank runs.")
    fabric: str = option(
        t.text(r"[a-z][a-z0-9_]*", "the name of a fabric"),
        "The network between the nodes, as a named set of variables. `auto` sets none and chooses the interface on "
        "the nodes.",
        AUTO,
        key=False,
        short="fabric",
        example="infiniband_h100",
    )
    parallelism: Parallelism = section(
        Parallelism,
        "How the model is distributed over the ranks. The sizes are checked against the world size, some variables "
        "are set accordingly, and the ranks get the sizes as RANKZERO_TP, _PP, _CP, _EP, _DP, _MBS and _GBS.",
    )
    data: dict[str, Dataset] = option(
        DATA,
        "Staged datasets that the ranks read: name -> a path, a ref of module `dataset`, or a map of path, digest "
        "(the version), packed (mount its single squashfs file on every node) and local_copy (never, auto, always: "
        "whether a node copies that file to its own disk). The ranks get each path as RANKZERO_DATA_NAME. The "
        "digest is part of the launch key; without a digest, the path is.",
        {},
        key=False,
        example={"text": {"path": "/scratch/ml/rankzero/datasets/by-name/text"}},
        also=("file_mounts", "datasets"),
    )
    env: dict[str, str] = option(
        t.mapped(VARIABLE, VARIABLE_NAME, t.text()),
        "Environment variables of every rank.",
        {},
        example={"HF_HUB_OFFLINE": "1"},
        instead_of=("export", "export-file"),
        also=("envs", "env_vars"),
    )
    secrets: dict[str, SecretSource] = option(
        SECRETS,
        "Environment variables whose values are never written to a script, log or diff: name -> the source of the "
        "value.",
        {},
        key=False,
        example={"HF_TOKEN": {"from_env": "HF_TOKEN"}},
    )
    offline: bool = option(
        t.BOOLEAN,
        "Make Hugging Face's libraries use cached files only. Set it in `launch_cluster` if nodes have no network.",
        False,
        key=False,
        short="offline",
    )
    seed: int | None = option(
        t.integer(0, 2**32 - 1),
        "Random seed of all ranks, exported as RANKZERO_SEED and recorded. Default: one is drawn for each launch, the "
        "same for all ranks and attempts.",
        short="seed",
        example=1234,
    )
    debug: bool = option(
        t.BOOLEAN,
        "Trace the batch script and the ranks' start, and make NCCL (subsystems INIT and NET) and torch.distributed "
        "verbose.",
        False,
        key=False,
        short="debug",
    )
    preflight: Preflight = section(Preflight, "Checks on each node before the ranks start.")
    checkpoint: Checkpoint = section(Checkpoint, "Saving before the time limit, and requeueing after it.")
    monitor: Monitor = section(Monitor, "Samples recorded on the nodes while the job runs.")
    logs: Logs = section(Logs, "Names of the ranks' logs, and which rank's lines are shown while waiting.")
    artifact: Artifact | None = field(
        default=None,
        metadata={
            "section": Artifact,
            "optional": True,
            "doc": "The result file that proves success. Without it, exit code 0 of the program counts as success.",
        },
    )
    trackers: dict[str, Tracker] = option(
        TRACKERS,
        f"Experiment trackers to which a launch reports as one run, however often it is restarted: "
        f"{', '.join(kind.name for kind in KINDS)}, each with its options (project, entity, server, offline). "
        "See docs/trackers.md.",
        {},
        key=False,
        example={"wandb": {"project": "gpt", "offline": True}},
    )
    notify: tuple[Receiver, ...] = option(
        NOTIFY,
        "Who is told about the launch, each event once: for each receiver url_env, url_file or mail, a format (slack, "
        "teams, ntfy, json), events (started, first_step, stalled, failed, proven) and from_job. See docs/notify.md.",
        (),
        key=False,
        example=[{"url_file": "~/.rankzero/slack", "format": "slack", "events": ["failed", "proven"]}],
    )
    after: tuple[str, ...] = option(
        t.listed(t.text(r"[^\0\n]+", "the path of a job file")),
        "Job files, relative to this one, whose launches must succeed before this job starts. Their keys are part "
        "of this job's key. The ranks get their run directories as RANKZERO_AFTER_NAME. See "
        "rankzero.slurm.pipeline.",
        (),
        key=False,
        example=["tokenise.yml"],
        also=("depends_on",),
    )
    sweep: Sweep | None = field(
        default=None,
        metadata={
            "section": Sweep,
            "optional": True,
            "doc": "Run the job with many values, as one job array. See rankzero.slurm.sweep.",
        },
    )

    @property
    def programs(self) -> dict[str, LaunchSpec]:
        """The spec of each program by the option that it stands in: `roles.NAME.`, or "" for a job with one."""
        return {f"roles.{role.name}.": role.spec for role in self.roles.values()} or {"": self}

    def host(self, role: Role) -> str:
        """Return the name of the role on whose nodes a role runs; empty where it has nodes of its own."""
        return next(iter(self.roles), "") if role.keys.share is True else str(role.keys.share or "")

    @property
    def one_container(self) -> bool:
        """Whether all programs run in the same container, or all in none."""
        return all(program.container == self.container for program in self.programs.values())

    @property
    def one_environment(self) -> bool:
        """Whether all programs have the same Python environment."""
        return all(program.environment == self.environment for program in self.programs.values())

    @property
    def all_secrets(self) -> dict[str, SecretSource]:
        """The secrets of all programs."""
        return {name: source for program in self.programs.values() for name, source in program.secrets.items()}

    @property
    def all_data(self) -> dict[str, Dataset]:
        """The datasets of all programs."""
        return {name: source for program in self.programs.values() for name, source in program.data.items()}

    @property
    def contained(self) -> bool:
        """Whether any of the programs runs in a container."""
        return any(program.container.runtime != "none" for program in self.programs.values())
