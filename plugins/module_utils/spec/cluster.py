# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a cluster in its inventory, `launch_cluster`: where it stores files, and what it declares. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import Runtime
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import OWN_FABRICS, Setting
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import OWN_LAUNCHERS, Starter
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.own_containers import OWN_CONTAINERS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.own_formats import OWN_FORMATS, OwnFormat
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.own_reader import OWN_DIAGNOSIS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import BUDGET
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.secrets import SOURCES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.stores import STORES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import Kind
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.own import OWN_TRACKERS


@dataclass(frozen=True)
class ClusterSettings:
    """Settings of a cluster rather than a job. Every other key of `launch_cluster` is a layer below the job."""

    state_root: str = option(
        t.text(r"[/~$][^\0\n%\\]*", "an absolute path, or one that begins with ~ or $NAME"),
        "Folder on small, shared storage that is never purged (home or project space), for runs with their "
        "journals and logs and for the job runtime.",
        "~/.rankzero/state",
        key=False,
        example="/project/ml/rankzero",
    )
    store_root: str = option(
        t.text(r"[/~$][^\0\n%\\]*", "an absolute path, or one that begins with ~ or $NAME"),
        "Folder for everything that can be rebuilt (scratch): code snapshots, environments. Must be shared, unless "
        "`store_shared` is false.",
        "~/.rankzero/store",
        key=False,
        example="/scratch/ml/rankzero",
    )
    stores: tuple[dict[str, Any], ...] = option(
        STORES,
        "Stores of trusted owners, which are read before store_root and never written: each with its path and the "
        "owners whose files are used. Items that anybody else owns or could write are skipped. See docs/stores.md.",
        (),
        key=False,
        example=[{"path": "/shared/platform/rankzero", "owners": ["platform"]}],
    )
    store_group_writable: bool = option(
        t.BOOLEAN,
        "Share one writable store_root among the members of its group. Each member can then run code as any other "
        "member, with that member's files and secrets. Otherwise a store that others can write is refused, or "
        "closed to them if it is the user's own.",
        False,
        key=False,
        example=True,
    )
    store_shared: bool = option(
        t.BOOLEAN,
        "Whether the nodes see store_root. With `false` only the submitting host does: code and environment are "
        "packed into state_root (`archives/`), and each node unpacks them to its own disk for the duration of the "
        "job.",
        True,
        key=False,
        example=False,
    )
    local_dir: str | None = option(
        t.text(r"/[^\0\n%\\]*", "an absolute path"),
        "Folder on each node's own disk for staged files. Default: the first of $SLURM_TMPDIR, $TMPDIR, Slurm's "
        "TmpFS, /tmp and /var/tmp that has room; memory is used only if no disk has room.",
        key=False,
        example="/local/scratch",
    )
    caches: str | None = option(
        t.text(r"[/~$][^\0\n%\\:,]*", "an absolute path, or one that begins with ~ or $NAME"),
        "Folder on shared storage for the caches of tools: HF_HOME, UV_CACHE_DIR, NEMO_HOME, TORCH_HOME and "
        "XDG_CACHE_HOME point below it. By default each tool decides.",
        key=False,
        example="/scratch/ml/caches",
    )
    min_free: str = option(
        t.text(r"[0-9]{1,12}[KMGT]?", "a size such as 500M or 2G", meant=t.size_meant),
        "Free space (disk and quota) required at state_root and store_root before submission; 0 disables the check.",
        "100M",
        key=False,
        example="2G",
    )
    budget: dict[str, str] = option(
        BUDGET,
        "The most that a launch may ask for (nodes x time x attempts), as node_hours and gpu_hours, and the most that "
        "all launches of the state root may use in a calendar month, as node_hours_a_month and gpu_hours_a_month. "
        "Default: no limit. See docs/usage.md.",
        {},
        key=False,
        example={"node_hours": "500", "gpu_hours_a_month": "20000"},
    )
    fabrics: dict[str, tuple[Setting, ...]] = option(
        OWN_FABRICS,
        "Fabrics of this cluster by name, in addition to the built-in ones or replacing them: variable -> value, "
        "or a map of value, reason and, for a workaround, version and expires (a date).",
        {},
        key=False,
        example={"roce": {"NCCL_IB_GID_INDEX": {"value": "1", "reason": "measured in May"}}},
    )
    launchers: dict[str, Starter] = option(
        OWN_LAUNCHERS,
        "Launchers of this cluster by name, in addition to the built-in ones or replacing them: per (rank, node, job), "
        "command (a list of words), rendezvous, ranks, packages, one_node and doc. See docs/site.md.",
        {},
        key=False,
        example={"numa": {"per": "rank", "command": ["numactl", "--localalloc", "{rank}"]}},
    )
    containers: dict[str, Runtime] = option(
        OWN_CONTAINERS,
        "Container runtimes of this cluster by name, in addition to the built-in ones or replacing them, each a "
        "command around a Slurm task: commands, command (a list of words), mounts, images and more. See docs/site.md.",
        {},
        key=False,
        example={
            "shifter": {
                "commands": ["shifter"],
                "command": ["{mounts}", "--workdir={workdir}", "--image={image}", "--"],
                "mounts": ["--volume={source}:{target}"],
                "images": ["squashfs"],
            }
        },
    )
    artifact_formats: dict[str, OwnFormat] = option(
        OWN_FORMATS,
        "Artifact formats of this cluster by name, in addition to the built-in ones or replacing them, each a program "
        "that judges the file in the job: command (a list of words), values, seconds, memory, doc. See docs/site.md.",
        {},
        key=False,
        example={"netcdf": {"command": ["ncdump", "-h", "{path}"]}},
    )
    trackers: dict[str, Kind] = option(
        OWN_TRACKERS,
        "Experiment trackers of this cluster by name, in addition to the built-in ones or replacing them: variables, "
        "options, places, run and doc. An entry without `variables` gives the options of a tracker for all jobs of the "
        "cluster instead. See docs/site.md.",
        {},
        key=False,
        example={"aim": {"variables": {"AIM_RUN": "{run}", "AIM_REPO": "/project/ml/aim"}, "places": ["{AIM_REPO}"]}},
    )
    plugin_options: tuple[str, ...] = option(
        t.listed(t.text(r"[a-z][a-z0-9_-]*", "a long option without its dashes")),
        "Options of sbatch and srun that plugins of this site (SPANK) add. Others that Slurm does not have are passed "
        "on with a warning, or refused where they look like a misspelt option of Slurm.",
        (),
        key=False,
        example=["uenv", "cpufreq"],
    )
    code_roots: tuple[str, ...] | None = option(
        t.listed(t.text(r"[^\0]+", "a path")),
        "Folders on the controller from which jobs may take files (code, project, Containerfile, context). Links "
        "are resolved first. Default: any folder; in `reconcile` the repository of the job files.",
        key=False,
        example=["."],
    )
    build_on_controller: bool = option(
        t.BOOLEAN,
        "Whether the machine that runs Ansible may build packages of an environment that have no wheel (source "
        "archives, git sources, folders of the project), if the cluster cannot. A build runs their code here.",
        False,
        key=False,
        example=True,
    )
    secrets_from: dict[str, tuple[str, ...]] | None = option(
        SOURCES,
        "Permitted sources of secrets: from_env, from_var, from_file -> patterns (`*` matches any text). Default: "
        "any; in `reconcile` none.",
        key=False,
        example={"from_env": ["HF_TOKEN", "WANDB_*"]},
    )
    images_from: tuple[str, ...] | None = option(
        t.listed(t.text(r"\S[^\0\n]*", "a pattern")),
        "Patterns of permitted images, as REGISTRY/NAME:TAG or paths on the cluster, also for images in a "
        "Containerfile. Default: any.",
        key=False,
        example=["nvcr.io/nvidia/*", "/project/images/*"],
    )
    templates: str | None = option(
        t.text(r"[^\0]+", "a path"),
        "Folder on the controller with the site's own job.sbatch.j2, which extends rankzero/job.sbatch.j2.",
        key=False,
        example="templates",
    )
    diagnosis_families: tuple[str, ...] = option(
        t.listed(t.text(r"[^\0]+", "a path")),
        "YAML files, or folders of them, with failure families of the site's own programs (docs/diagnosis.md).",
        (),
        key=False,
        example=["diagnosis/families"],
    )
    diagnosis: dict[str, Any] = option(
        OWN_DIAGNOSIS,
        "reader: a program of the site's own on the controller, as command (a list of words) and seconds (20). It gets "
        "a digest of at most 2 kB of a failure that no family knows, and its sentence is shown as its own. Off by "
        "default. See docs/diagnosis.md.",
        {},
        key=False,
        example={"reader": {"command": ["/opt/site/bin/read-failure"]}},
    )
