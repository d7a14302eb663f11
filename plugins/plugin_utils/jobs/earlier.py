# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches of earlier releases, whose code contained the files of its folder that belong to launching.

The same launch has another key now. Where an earlier release has made it, it keeps that code and that key: what is
proven does not run again, and what is active is adopted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Inputs
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import launch_key, short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot

#: From the names of launches to the names and keys (NAME/KEY) of those that are on the cluster.
Known = Callable[[Collection[str]], Collection[str]]

_GENERATION = re.compile(r"^\./([^/\n]+/[0-9a-f]{16})/[1-9][0-9]*$", re.MULTILINE)
# find(1) ends with 1 if there is no launch of a name. Ansible appends a command to the last line.
_LOOK = """[ -d {runs} ] || exit 0
cd {runs} || exit 2
find -H {names} -mindepth 2 -maxdepth 2 -name '[1-9]*' 2>/dev/null || [ $? -eq 1 ]"""


def code_of(snapshot: Snapshot, specs: Sequence[LaunchSpec], inputs: Inputs, known: Known) -> Snapshot:
    """The code of the launches `specs`: the snapshot, or the whole folder if an earlier release has made more of them
    than this one. `inputs`: their other inputs.
    """
    if snapshot.whole is None:
        return snapshot
    launches = known({spec.name for spec in specs})

    def count(code: str) -> int:
        keys = ((spec.name, launch_key(spec, replace(inputs, code=code).keyed(spec))) for spec in specs)
        return sum(f"{name}/{short_key(key)}" in launches for name, key in keys)

    return snapshot.whole if launches and count(snapshot.whole.digest) > count(snapshot.digest) else snapshot


class LaunchesOfNames:
    """The launches of a state root that have one of the command's names. The cluster is asked once."""

    def __init__(self, ask: Callable[[str], tuple[int, str]]) -> None:
        """`ask`: runs a shell command on the cluster and returns its exit code and all its output."""
        self.ask = ask
        # The names that the command will ask for. More may be added while nothing has been asked.
        self.names: set[str] = set()
        self._launches: dict[str, frozenset[str]] = {}

    def of(self, state_root: str, names: Collection[str]) -> frozenset[str]:
        """NAME/KEY of the launches of these names. Raises RankzeroError if they cannot be listed."""
        if not self._launches.keys() >= set(names):
            asked = sorted(self.names.union(names))
            runs = shlex.quote(f"{state_root}/runs")
            code, output = self.ask(_LOOK.format(runs=runs, names=shlex.join(f"./{name}" for name in asked)))
            if code != 0:
                raise RankzeroError(
                    f"launch_cluster.state_root: {state_root}/runs cannot be listed ({output.strip()[-200:] or code}), "
                    "so it is not known which launches exist. Nothing was submitted. Make it readable for the user of "
                    "the login node"
                )
            paths = _GENERATION.findall(output.replace("\r", ""))
            for name in asked:
                self._launches[name] = frozenset(path for path in paths if path.rpartition("/")[0] == name)
        return frozenset().union(*(self._launches[name] for name in names))
