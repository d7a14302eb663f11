# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The declaration of a container runtime. Each runtime has one declaration, in its own file in this folder.

The rules, the step's options, the scripts, the checks on the cluster and on each node, `cluster_info`, the schema and
the documentation read it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Options = tuple[tuple[str, "str | bool"], ...]

#: The kinds of images. `root` and `bundle` are folders: a root file system, and one with OCI's config.json next to it.
IMAGES = ("squashfs", "sif", "root", "bundle", "registry")
#: Matches messages in a step's log, from any runtime or from this collection, that a container did not start.
TROUBLE = r"\[ERROR\]|FATAL|\[rankzero\]"


@dataclass(frozen=True)
class Command:
    """A command that a node may have. `version`: arguments that print its version. `used`: whether a job starts it."""

    name: str
    version: tuple[str, ...] = ("--version",)
    used: bool = True


@dataclass(frozen=True)
class Mount:
    """A folder of the nodes, `source`, mounted at `target` in the container. `flags`: see sections/mounts.py."""

    source: str
    target: str
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join([self.source, self.target, *(["+".join(self.flags)] if self.flags else [])])


@dataclass(frozen=True)
class Wish:
    """The container that a job requests. `gpus`: the vendor whose libraries it needs, `nvidia`, `amd` or ""."""

    image: str
    mounts: tuple[Mount, ...]
    workdir: str
    mount_home: bool = False
    remap_root: bool = False
    writable: bool = False
    env: tuple[str, ...] = ()
    gpus: str = ""


@dataclass(frozen=True)
class Runtime:
    """One container runtime. It has either `step` or `words`.

    For people: `doc`: what it does. `takes`: the images it accepts. `needs`: what the nodes must have. `each`: what
    gets a separate container. `suffix`: that of its usual image file. `refuses`: what is wrong with any other file.

    For the cluster: `commands`: its commands on the nodes, the used ones in order of preference. `images`: the kinds it
    accepts (IMAGES). `since`: pairs (option, release) that reveal the release from the options that srun accepts,
    newest first.

    For the job: `step`: options of the ranks' step. `words`: arguments of the command, between its name and the
    program. `programs`: files of the job runtime, the first of which is started instead of a command. `libraries`:
    where it puts the driver's libraries in the container. `log`: patterns for the step's log, the one that best
    explains a failed start first.

    Rules: `remaps`: a rank can be root inside. `flags`: the mount flags it supports, None for all. `overriding`:
    prefixes of variables that would override the spec. `hides_tmp`: the node's /tmp is not visible. `unseen`: why the
    preflight cannot check the image. `carries`: prefixes of variables that the container gets without the prefix.
    `home`: its configuration is below the user's home.

    `record`: the data that a cluster has declared it with (own_containers.py); None for one of ours.
    """

    name: str
    doc: str
    takes: str
    needs: str
    each: str
    suffix: str
    refuses: str
    images: tuple[str, ...]
    commands: tuple[Command, ...]
    step: Callable[[Wish], Options] | None = None
    words: Callable[[Wish], tuple[str, ...]] | None = None
    since: tuple[tuple[str, str], ...] = ()
    programs: tuple[str, ...] = ()
    built: str = "image.sqsh"
    libraries: str = ""
    log: tuple[str, ...] = (TROUBLE,)
    remaps: bool = False
    flags: tuple[str, ...] | None = None
    overriding: tuple[str, ...] = ()
    hides_tmp: bool = False
    unseen: str = ""
    carries: tuple[str, ...] = ()
    home: bool = False
    record: Mapping[str, Any] | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the commands that a job starts, the preferred one first."""
        return tuple(command.name for command in self.commands if command.used)

    @property
    def searched(self) -> tuple[str, ...]:
        """The commands of which each node uses the first that it has; empty if srun or a file of the job runtime starts
        it.
        """
        return self.used if self.words and not self.programs else ()

    @property
    def variable(self) -> str:
        """The variable in the script that holds the command's path."""
        return f"rankzero_{self.name}"

    @property
    def absent(self) -> str:
        """The beginning of a sentence about a node that has none of the commands."""
        return f"neither {' nor '.join(self.searched)} is" if len(self.searched) > 1 else f"{self.searched[0]} is not"

    def facts(self) -> Iterator[str]:
        """Iterate over the facts that the job's programs need: lines of runtime/container/containers.txt."""
        yield f"images {' '.join(self.images)}"
        for command in self.searched:
            yield f"command {command}"
        if self.searched:
            yield f"absent {self.absent}"
        if self.programs:
            yield "scratch .container"
        if self.libraries:
            yield f"libraries {self.libraries}"
        for pattern in self.log:
            yield f"log {pattern}"
