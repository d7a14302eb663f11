# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select the source that the options describe."""

from __future__ import annotations

import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.request import DatasetRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.base import Source
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.local import Local
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.programs import HubFiles, Objects, Rsync
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.upload import Sent
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.web import Web
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.fetch import read_token

#: Option -> the sources that support it.
GO_WITH = {
    "files": ("http",),
    "revision": ("hub",),
    "python": ("hub",),
    "token_file": ("hub", "http"),
}


def check(options: Parameters) -> None:
    """Check that the options are compatible. Raises RankzeroError."""
    source = options["source"]
    if options["state"] == "absent":
        return
    if options["src"] is None:
        raise RankzeroError("src: is missing; give the source of the dataset")
    for name, sources in GO_WITH.items():
        if options[name] and source not in sources:
            raise RankzeroError(f"{name}: requires source {' or '.join(sources)}; source is {source}")
    if options["sha256"] and options["checksums"]:
        raise RankzeroError(
            "sha256 and checksums: give only one of them; sha256 is for a single file, checksums for several"
        )
    sha256 = options["sha256"]
    if sha256 and (len(sha256) != 64 or sha256.strip("0123456789abcdef")):
        raise RankzeroError(f"sha256: {sha256!r} is not a sha256; expected 64 hexadecimal digits in lower case")
    if source == "hub" and (sha256 or options["checksums"]):
        raise RankzeroError("checksums: the hub has its own; pin a revision (a commit) instead")


def source_of(options: Parameters, request: DatasetRequest) -> Source:
    """The source of the options. Raises RankzeroError."""
    kind, src = options["source"], options["src"]
    made: Source
    if kind == "controller":
        if request.files is None:
            raise RankzeroError("source: controller needs the action plugin of this module; call it from a playbook")
        made = Sent(request.files, str(request.said))
    elif kind == "http":
        made = Web(src, options["files"], options["checksums"], token=read_token(options["token_file"]))
    elif kind == "rsync":
        made = Rsync(src)
    elif kind == "hub":
        made = HubFiles(src, options["revision"], options["python"], options["token_file"])
    elif kind == "object":
        made = Objects(src)
    else:
        made = Local(local_path(src))
    made.parallel = max(1, options["parallel"])
    return made


def local_path(src: str) -> str:
    """A path on the cluster with `~` and variables expanded. Raises RankzeroError unless it is absolute."""
    path = os.path.expanduser(os.path.expandvars(src))
    if not os.path.isabs(path):
        raise RankzeroError(f"src: {src!r} is not an absolute path on the cluster (it expands to {path!r})")
    return path


def source_text(options: Parameters) -> str:
    """The source as text, without the query of a URL, which may contain secrets."""
    return str(options["src"]).partition("?")[0]
