# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container runtime is to the rest of the collection: one declaration, in a file of its own beside this one.

Rules, the step's options, the scripts, the checks on the cluster and on each node, `cluster_info`, the schema and the
pages read it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

Options = tuple[tuple[str, "str | bool"], ...]

#: What an image can be. `root` and `bundle` are folders: a root file system, and one with OCI's config.json beside it.
IMAGES = ("squashfs", "sif", "root", "bundle", "registry")
#: In the log of a step: what any runtime, and our own part, may say when it did not start a container.
TROUBLE = r"\[ERROR\]|FATAL|\[rankzero\]"


@dataclass(frozen=True)
class Command:
    """A command that a node may have. `version`: its own words for its version. `used`: whether a job starts it."""

    name: str
    version: tuple[str, ...] = ("--version",)
    used: bool = True


@dataclass(frozen=True)
class Mount:
    """A folder of the nodes, `source`, seen as `target` in the container; `flags` are of sections/mounts.py."""

    source: str
    target: str
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join([self.source, self.target, *(["+".join(self.flags)] if self.flags else [])])


@dataclass(frozen=True)
class Wish:
    """The container that a job asks for. `gpus`: whose libraries it needs, `nvidia`, `amd` or none."""

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

    For people: `doc` says what it does, `takes` which images, `needs` what the nodes must have, `each` what gets a
    container of its own; `suffix` is that of its usual image file and `refuses` what is wrong with another file.

    For the cluster: `commands` it has on the nodes, the used ones in order of preference; `images` (IMAGES); `since`
    (option, release) tells the release by the options that srun knows, the newest first.

    For the job: `step` are options of the ranks' step; `words` those of the command, after its name and before the
    program. `programs`: files of the job runtime, the first of which is started in the place of a command.
    `libraries`: where it puts the driver's libraries in the container. `log`: patterns of the step's log, the one that
    says best why it did not start first.

    Rules: `remaps` says that a rank can be root inside; `flags` are the flags of mounts it knows, None all of them;
    `overriding` begins variables that decide behind the spec; `hides_tmp`: the node's /tmp is not seen; `unseen`: why
    the preflight cannot look into the image. `carries` begins variables whose rest the container gets as its own.
    `home`: its configuration lies below the user's home.
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

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the commands that a job starts, the preferred one first."""
        return tuple(command.name for command in self.commands if command.used)

    @property
    def found(self) -> tuple[str, ...]:
        """Commands of which each node takes the first that it has; none where srun or a program of ours starts it."""
        return self.used if self.words and not self.programs else ()

    @property
    def variable(self) -> str:
        """What the script calls the path of the command."""
        return f"rankzero_{self.name}"

    @property
    def absent(self) -> str:
        """The beginning of a sentence about a node that has none of its commands."""
        return f"neither {' nor '.join(self.found)} is" if len(self.found) > 1 else f"{self.found[0]} is not"

    def facts(self) -> Iterator[str]:
        """What the job's own programs have to know of it: lines of runtime/container/containers.txt."""
        yield f"images {' '.join(self.images)}"
        for command in self.found:
            yield f"command {command}"
        if self.found:
            yield f"absent {self.absent}"
        if self.programs:
            yield "scratch .container"
        if self.libraries:
            yield f"libraries {self.libraries}"
        for pattern in self.log:
            yield f"log {pattern}"
