# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of inputs that a launch needs on the cluster. Each is declared here once; other code reads the fields.

contributing/extending.md shows how to add a kind. Data only.
"""

from __future__ import annotations

from dataclasses import dataclass

# What the nodes compare with a digest before they use an input: nothing, the list in its record file, or the one large
# file whose digest is in its record file (if the launch uses that file).
NOTHING, LISTED, PACKED = "", "listed", "packed"


@dataclass(frozen=True)
class InputKind:
    """One kind of input.

    `name`: the kind in refs and messages. `folder`: the folder of its entries, below the store. `names`: the form of
    their names; a group in it is the key. `label`: its step on the screen. `producer`: the module that makes it, empty
    if users put it there themselves. `doing`: what the step of that module does.
    """

    name: str
    folder: str
    names: str
    label: str
    producer: str = ""
    doing: str = ""
    # The name of the key among the inputs of the launch key. Empty if the spec, which is hashed as well, contains it.
    keyed: str = ""
    # The option of the job spec that names an input of this kind: by its key, if the option's value is text.
    option: str = ""
    # What to do if it is not there. Set for a kind that the user brings to the cluster before the launch.
    advice: str = ""
    # The file in an entry that says what it is, and what the nodes compare.
    record: str = ""
    compared: str = NOTHING
    # Whether the key is the digest of its files, so that two of them can be compared file by file.
    tree: bool = False
    # Whether the container sees it at its own path. The image is the container itself.
    mounted: bool = True
    # Whether it takes so long to make that the launch is checked before.
    costly: bool = False
    # Whether jobs copy it to nodes that do not see the store, and whether each node reads it only in the store.
    copied: bool = False
    read_in_store: bool = False
    # False: it lies in the state root, next to the runs, because a node that does not see the store needs it.
    in_store: bool = True

    @property
    def variable(self) -> str:
        """The variable in which the ranks find the path of an input that `option` names by its key."""
        return f"RANKZERO_{self.name.upper()}"

    def entry(self, key: str, path: str, digest: str | None, *, present: bool | None = None) -> dict[str, object]:
        """What its module returns as `ref`. `digest`: None if it is not there, unless `present` says otherwise."""
        there = digest is not None if present is None else present
        return {"kind": self.name, "key": key, "path": path, "digest": digest, "present": there}


CODE = InputKind(
    "code", "code", "[0-9a-f]{64}", "code", "code_snapshot", "publishing", keyed="code", tree=True, copied=True
)
ENVIRONMENT = InputKind(
    "environment",
    "environments",
    "[0-9a-f]{32,64}",
    "env",
    "uv_environment",
    "building",
    keyed="environment",
    record="env.json",
    compared=PACKED,
    costly=True,
    copied=True,
)
PACKAGES = InputKind(
    "packages",
    "packages",
    "[0-9a-f]{32}",
    "env",
    "uv_environment",
    "building",
    keyed="environment",
    record="packages.json",
    compared=LISTED,
    read_in_store=True,
)
IMAGE = InputKind("image", "images", "[0-9a-f]{32}", "image", "image", "building", keyed="image", mounted=False)
DATASET = InputKind(
    "dataset",
    "datasets",
    r"([0-9a-f]{64})(?:\.partial)?",  # includes partial downloads that no run resumed
    "dataset",
    "dataset",
    "staging",
    option="data",
    advice="stage the dataset first (role or module dataset), or name the existing version (digest)",
    record="dataset.json",
    compared=PACKED,
)
RUNTIME = InputKind("runtime", "runtime", "[0-9a-f]{32}", "runtime", costly=True, in_store=False)

#: All kinds, in the order in which a launch names its inputs.
KINDS: tuple[InputKind, ...] = (
    CODE,
    ENVIRONMENT,
    PACKAGES,
    IMAGE,
    DATASET,
    RUNTIME,
)
BY_NAME = {kind.name: kind for kind in KINDS}
#: What a store holds.
STORED = tuple(kind for kind in KINDS if kind.in_store)
