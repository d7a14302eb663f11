# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --login HOST`: what a cluster says of itself, the inventory of it, and a first launch."""

from __future__ import annotations

import json
import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankzero import errors
from rankzero.known_inventory import Login, NotPlain
from rankzero.library import importable
from rankzero.playbook import Call, play

Answer = Mapping[str, Any]
HOST = re.compile(r"(?:(?P<user>[A-Za-z0-9_][\w.-]*)@)?(?P<name>[A-Za-z0-9][\w.-]*)", re.ASCII)
#: What may go from a cluster into an inventory, in which Ansible takes braces for a program.
WORD, PATH = re.compile(r"[\w.+@-]+", re.ASCII), re.compile(r"/[\w.+@/ -]*", re.ASCII)
HELLO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hello")
INVENTORY = """\
# What Slurm said when this was written:
{facts}
slurm_login:
  hosts:
    {host}:
{variables}      launch_cluster:
        state_root: {state} # private to you, on storage that the nodes share; small, never purged
        store_root: {store} # large: code and environments; scratch is a good place
        {resources}
"""


@dataclass(frozen=True)
class Cluster:
    """A cluster as its login node described it. `answer`: that of cluster_info."""

    login: str
    answer: Answer

    @property
    def proposal(self) -> Answer:
        """What a first job names and gets."""
        proposed: Answer = self.answer["proposal"]
        return proposed

    def job(self, torch: bool) -> dict[str, str]:
        """What a new job file says of its size."""
        gpus = int(self.proposal["gpus_per_node"])
        lines = f"  gpus_per_node: {gpus}\n" if gpus and torch else f"  # gpus_per_node: {gpus}\n" if gpus else ""
        return {
            "nodes": str(int(self.proposal["nodes"])),
            "time": json.dumps(_time(self.proposal["max_time"])),
            "gpus": lines,
            "ranks": str(gpus or 1) if torch else "1",
        }

    def inventory(self) -> str:
        """The text of inventory/hosts.yml. Raises RankzeroError if the nodes share no folder."""
        shown = HOST.fullmatch(self.login)
        assert shown is not None
        variables = f"      ansible_user: {json.dumps(shown['user'])}\n" if shown["user"] else ""
        variables += "      ansible_connection: local\n" if shown["name"] == "localhost" else ""
        named = {key: self.proposal[key] for key in ("account", "partition") if self.proposal[key]}
        strange = [value for value in named.values() if not WORD.fullmatch(value)]
        if strange:
            raise errors.RankzeroError(f"{self.login}: {strange[0]!a} is no name of Slurm; write the inventory by hand")
        resources = f"resources: {json.dumps(named)}"
        state, store = self._roots()
        return INVENTORY.format(
            facts="\n".join(f"#   {fact}" for fact in self._facts()),
            host=shown["name"],
            variables=variables,
            state=json.dumps(f"{state}/state"),
            store=json.dumps(f"{store}/store"),
            resources=resources if named else "# resources: {account: ml, partition: batch} # defaults for every job",
        )

    def _facts(self) -> list[str]:
        """A line for each partition."""
        facts = []
        for partition in self.answer["partitions"]:
            gpus = f", {partition['gpus_per_node']} GPUs" if partition["gpus_per_node"] else ""
            most = f", jobs of at most {partition['max_time']}" if partition["max_time"] else ""
            default = " (default)" if partition["default"] else ""
            line = f"{partition['name']}{default}: {partition['total_nodes']} nodes"
            facts.append(ascii(f"{line} of {partition['cpus_per_node']} CPUs{gpus}{most}")[1:-1])
        return facts

    def lines(self) -> list[str]:
        """What the inventory says, for a screen."""
        state, store = self._roots()
        named = [f"{key} {value}" for key in ("account", "partition") if (value := self.proposal[key])]
        return [*self._facts(), f"state in {state}, store in {store}", *named]

    def _roots(self) -> tuple[str, str]:
        """The folders for state and store: the first shared one, and one with much more space if there is any."""
        found = [folder for folder in self.answer["shared_folders"] if PATH.fullmatch(folder["path"])]
        if not found:
            raise errors.RankzeroError(
                f"{self.login}: its nodes share no folder that you can write, of your home and the usual places; ask "
                "its administrators for one, and name it with --shared FOLDER"
            )
        largest = max(found, key=lambda folder: int(folder["free_mib"]))
        state = found[0]
        return self._below(state), self._below(largest if largest["free_mib"] > 2 * state["free_mib"] else state)

    def _below(self, folder: Answer) -> str:
        if folder["home"]:
            return "~/.rankzero"
        user = str(self.answer["mine"]["user"])
        own = "rankzero" if folder["own"] else f"rankzero-{user if WORD.fullmatch(user) else 'state'}"
        return f"{folder['path'].rstrip('/')}/{own}"


def ask_cluster(login: str, shared: Sequence[str] | None) -> Cluster:
    """Ask the login node, also for the folders that its nodes share. None: no job looks for them.

    Raises RankzeroError if it cannot be asked, has no Slurm, or the nodes do not share a folder of `shared`.
    """
    importable()
    from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.shared_folders import CLUSTER_SPEC
    from rankzero.host import Host, control_folder

    shown = HOST.fullmatch(login)
    if shown is None:
        raise errors.UsageError(
            f"--login {login!a}: expected HOST or USER@HOST, as for ssh; a port is set in ~/.ssh/config"
        )
    control_folder()
    connection = "local" if shown["name"] == "localhost" else "ssh"
    name = shown["name"]
    login_node = Login(name, connection, name, shown["user"], None, "python3", "/bin/sh", {}, [])
    host = Host(login_node, check_mode=False)
    try:
        answer = host.called("cluster_info", {} if shared is None else {"folders": list(shared)}, CLUSTER_SPEC)
    except NotPlain as reason:
        needed = f"`ssh {login} python3 --version` must work without a question"
        told = f"--login {login}: {needed}. Nothing was written. {reason}"
        raise errors.RankzeroError(told, errors.UNREACHABLE) from None
    if answer.get("failed"):
        raise errors.RankzeroError(f"--login {login}: {answer.get('msg')} Nothing was written.")
    seen = [folder["path"] for folder in answer.get("shared_folders", [])]
    missing = [folder for folder in shared or () if folder.startswith("/") and os.path.normpath(folder) not in seen]
    if missing:
        others = f"; they do so with {', '.join(seen)}" if seen else ""
        raise errors.RankzeroError(
            f"--shared {missing[0]}: the nodes do not see what {login} writes there, or you cannot write it{others}. "
            "Nothing was written."
        )
    return Cluster(login, answer)


def hello(given: Namespace, cluster: Cluster, inventory: str) -> int:
    """A launch on the cluster that proves that its nodes meet. Returns its exit code; its output is the screen's."""
    nodes = int(cluster.proposal["nodes"])
    job = {
        "name": "hello",
        "command": ["hello.py"],
        "code": {"src": HELLO},
        "resources": {"nodes": nodes, "cpus_per_rank": 1, "time": "00:05:00"},
        "launcher": {"kind": "srun", "ranks_per_node": 1},
        "artifact": {"path": "hello.json", "require": {"nodes": {"eq": nodes}}},
    }
    host = cluster.login.rpartition("@")[2]
    call = Call("train", {"job": job, "cluster": host, "launch_wait": True}, {}, (), (inventory,))
    return play(call, verbose=given.verbose).exit_code()


def _time(longest: str | None) -> str:
    """An hour, or the partition's limit if that is shorter ([days-]hours:minutes:seconds, as cluster_info says it)."""
    return longest if longest and "-" not in longest and longest < "01:00:00" else "01:00:00"
