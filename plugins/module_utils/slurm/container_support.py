# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect which container runtimes a cluster offers, for cluster_info and before a job that needs one is submitted."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import is_squashfs, squashfs_cut_off
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import ContainerNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers import registry
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import Command, Runtime

VERSION_SECONDS = 15.0
COMMANDS = tuple(command for runtime in registry.RUNTIMES for command in runtime.commands)
SIF = b"SIF_MAGIC"


def _options(slurm: Slurm, command: str) -> frozenset[str]:
    """Return the options `container-...` and `no-container-...` that a Slurm command accepts on this host."""
    if slurm.find(command) is None:
        return frozenset()
    return frozenset(re.findall(r"--((?:no-)?container-[a-z-]+)", slurm.attempt(command, "--help", timeout=15).stdout))


def _release(kind: Runtime, known: frozenset[str]) -> str | None:
    """Estimate the plugin's release from the newest option that srun accepts; None without the plugin."""
    if "container-image" not in known:
        return None
    older = f"older than {kind.since[-1][1]}" if kind.since else None
    return next((f"{release} or newer" for option, release in kind.since if option in known), older)


def _version(slurm: Slurm, command: Command) -> dict[str, object]:
    if slurm.find(command.name) is None:
        return {"available": False, "version": None}
    answer = slurm.attempt(command.name, *command.version, timeout=VERSION_SECONDS)
    version = re.search(r"[0-9]+(\.[0-9A-Za-z~+_-]+)+", answer.stdout) if answer.rc == 0 else None
    return {"available": True, "version": version[0] if version else None}


def detect(slurm: Slurm, config: Mapping[str, str]) -> dict[str, object]:
    """Return the container support that this host shows. `config`: Slurm's settings.

    The nodes may differ. A job checks its nodes before its ranks start.
    """
    folder = os.path.dirname(config.get("SLURM_CONF", ""))
    known = _options(slurm, "srun")
    plugins: dict[str, object] = {}
    for kind in registry.BY_STEP:
        plugins[kind.name] = {
            "available": "container-image" in known,
            "version": _release(kind, known),
            "job_level": bool(known) and "container-image" in _options(slurm, "sbatch"),
        }
    own = bool(folder) and os.path.exists(os.path.join(folder, "oci.conf"))
    return {
        **plugins,
        **{command.name: _version(slurm, command) for command in COMMANDS},
        "slurm_oci": {"available": own, "version": None},
    }


def check(slurm: Slurm, needs: ContainerNeeds) -> list[str]:
    """Return a sentence for each reason why this cluster cannot run the job's container.

    A plugin adds its flags to srun on all hosts, so its absence is detected here. The commands of the other runtimes
    must be on the nodes, where `setup` may load a module for them. What cannot be checked here becomes a note, and each
    node checks it before the ranks start. The same applies to paths that this host does not have, unless they belong to
    the file system of the run directory.
    """
    kind = _runtime(needs)
    problems = _plugin(slurm, kind, needs) if kind.step else _command(slurm, kind, needs.own_setup)
    for what, path in [("image", needs.image), *(("mounts", source) for source in needs.sources)]:
        if path and not os.path.lexists(path) and _beside(path, needs.runs_dir):
            problems.append(
                f"container.{what}: {path} does not exist (it should be on the file system of {needs.runs_dir}, which "
                "the nodes share)"
            )
    if needs.image and os.path.exists(needs.image):
        trouble = image_trouble(needs.image, kind)
        problems += [f"container.image: {needs.image} {trouble}."] if trouble else []
    return problems


def _runtime(needs: ContainerNeeds) -> Runtime:
    """Return what is checked here of the job's runtime, ours or the cluster's own."""
    own = needs.own
    if not own:
        return registry.runtime_named(needs.runtime)
    return Runtime(
        name=needs.runtime,
        doc="",
        takes="",
        needs="",
        each="",
        suffix=own["suffix"],
        refuses=own["refuses"],
        images=tuple(own["images"]),
        commands=tuple(Command(name) for name in own["commands"]),
    )


def _command(slurm: Slurm, kind: Runtime, own_setup: bool) -> list[str]:
    if own_setup or any(slurm.find(command) for command in kind.used):
        return []
    slurm.note(
        f"container.runtime: {kind.used[0]} is not in PATH on {socket.gethostname()}, so it cannot be checked here: "
        f"each node checks before the ranks start. If a module provides it, name it in setup.modules.{_seen(slurm)}"
    )
    return []


def _plugin(slurm: Slurm, kind: Runtime, needs: ContainerNeeds) -> list[str]:
    known = _options(slurm, "srun")
    if "container-image" not in known:
        others = [other for other in registry.RUNTIMES if not other.step]
        instead = " or ".join(f"{other.name} with a {other.suffix}" for other in others)
        return [
            (
                f"container.runtime: {kind.name} is not on this cluster (srun on {socket.gethostname()} has no "
                f"--container-image).{_seen(slurm) or ' No other can be seen from here.'} Use container.runtime "
                f"{instead} where the nodes have {' or '.join(other.used[0] for other in others)}, or none with an "
                "environment."
            )
        ]
    lacking = sorted(set(needs.options) - known)
    problems = []
    if lacking:
        problems.append(
            f"container: the {kind.name} of this cluster ({_release(kind, known)}) has no --{', no --'.join(lacking)}; "
            "leave out what asks for it, or use another container.runtime"
        )
    if needs.level == "job" and "container-image" not in _options(slurm, "sbatch"):
        problems.append(
            f"container.level: job needs options that sbatch does not know here ({kind.name} is set up for srun "
            "only); set it to step"
        )
    return problems


def _seen(slurm: Slurm) -> str:
    """Return the container commands on this host, as a sentence."""
    commands = [command.name for command in COMMANDS if command.used and slurm.find(command.name)]
    return f" It has {', '.join(commands)}." if commands else ""


def _beside(path: str, runs_dir: str) -> bool:
    """Return whether a path is on the file system of the runs, which this host and the nodes certainly share."""
    places = []
    for place in (path, runs_dir):
        while place and place != "/" and not os.path.exists(place):
            place = os.path.dirname(place)
        places.append(os.stat(place or "/").st_dev)
    return places[0] == places[1]


def image_trouble(path: str, kind: Runtime) -> str | None:
    """Return the problem of an image that is present on this host, judged by its first bytes; None if there is none."""
    if not os.access(path, os.R_OK):
        return f"may not be read by you on {socket.gethostname()}"
    if os.path.isdir(path):
        if not {"root", "bundle"} & set(kind.images):
            return f"is a folder; {kind.name} needs a {kind.suffix} file"
        if "bundle" in kind.images and os.path.isfile(os.path.join(path, "config.json")):
            return None
        if "root" in kind.images and any(os.path.lexists(os.path.join(path, name)) for name in ("bin", "usr")):
            return None
        return "has neither bin nor usr (nor config.json, as an OCI bundle): it is not an image"
    if "squashfs" in kind.images and is_squashfs(path):
        short = squashfs_cut_off(path)
        return f"is cut off: {short}" if short else None
    with open(path, "rb") as stream:
        return None if "sif" in kind.images and SIF in stream.read(96) else kind.refuses
