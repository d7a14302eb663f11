# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options, names, addresses and ports."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import layout
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab, Partition
from ansible_collections.rankzero.slurm.plugins.modules import lab_cluster

# What is done with a lab, not what it is.
NOT_THE_LABS = ("state", "prune")
ROLE = Path(__file__).parents[3] / "roles" / "lab_cluster"


def lab(**options: object) -> Lab:
    return Lab(**{"name": "lab", "directory": "/var/lib/rankzero-lab/lab", **options})  # type: ignore[arg-type]


def test_the_defaults_are_allowed() -> None:
    layout.check(lab(), uid=0)
    layout.check(lab(way="simple"), uid=1000)


def test_all_mistakes_are_reported_at_once() -> None:
    bad = lab(
        name="Lab 1",
        directory="a/b c",
        way="real",
        nodes=81,
        cpus=0,
        memory=1,
        gpus=17,
        accounting="mysql",
        partitions=(Partition("a b", "soon"), Partition("x", default=True), Partition("x", default=True)),
        slurm_conf=("PrivateData", "A=1\nB=2"),
        gres=("lscratch", "gpu:2"),
        binds=("relative", "/", "/shared/x"),
        slurm="23.02",
    )
    with pytest.raises(RankzeroError) as caught:
        layout.check(bad, uid=0)
    problems = caught.value.partial["problems"]
    assert isinstance(problems, list)
    assert [problem.split(":")[0] for problem in problems] == [
        "name", "directory", "nodes", "cpus", "memory", "gpus", "accounting", "way", "slurm", "gres", "gres",
        "partitions", "partitions.max_time", "partitions", "partitions",
        "slurm_conf", "slurm_conf", "binds", "binds", "binds",
    ]  # fmt: skip
    assert "nodes: 81 is not allowed; allowed are 1 to 80" in caught.value.message


def test_the_realistic_way_needs_root() -> None:
    with pytest.raises(RankzeroError, match="become root or use way=simple"):
        layout.check(lab(), uid=1000)


def test_another_slurm_needs_the_realistic_way() -> None:
    layout.check(lab(slurm="24.11"), uid=0)
    with pytest.raises(RankzeroError, match=r"slurm: '24\.11' is not allowed; .* needs way=realistic"):
        layout.check(lab(slurm="24.11", way="simple"), uid=1000)


@pytest.mark.parametrize("length", ["UNLIMITED", "INFINITE", "60", "30:00", "01:00:00", "2-0", "1-12:00:00"])
def test_time_limits_as_slurm_writes_them(length: str) -> None:
    layout.check(lab(partitions=(Partition("p", length),)), uid=0)


def test_every_address_is_another() -> None:
    most = layout.MOST_NODES["realistic"]
    this = lab(nodes=most)
    addresses = [this.address(name, interface) for name in this.node_names for interface in ("eth0", "ib0")]
    addresses.append(this.address("head"))
    assert len(set(addresses)) == 2 * most + 1
    for interface in ("eth0", "ib0"):
        for name in this.node_names:
            assert ipaddress.ip_address(this.address(name, interface)) in this.subnet(interface)
    assert not this.subnet("eth0").overlaps(this.subnet("ib0"))
    assert this.subnet("eth0").is_private


@pytest.mark.parametrize("nodes", [8, 90, 91, layout.MOST_NODES["simple"]])
def test_ports_lie_below_the_ephemeral_ones_and_every_block_is_tried(nodes: int) -> None:
    this = lab(nodes=nodes, way="simple")
    count = 221 - this.ports // 100
    blocks = {this.port_block(attempt) for attempt in range(count)}
    assert len(blocks) == count
    assert min(blocks) >= 10000
    assert max(blocks) + this.ports <= 32768
    assert 10 + nodes <= this.ports < 110 + nodes


@pytest.mark.parametrize(("way", "most"), layout.MOST_NODES.items())
def test_more_nodes_than_there_are_addresses_or_ports_are_refused(way: str, most: int) -> None:
    layout.check(lab(nodes=most, way=way), uid=0)
    with pytest.raises(RankzeroError, match=f"nodes: {most + 1} is not allowed; allowed are 1 to {most}"):
        layout.check(lab(nodes=most + 1, way=way), uid=0)


def test_instances_differ() -> None:
    one, other = lab(), lab(directory="/var/lib/rankzero-lab/other")
    assert one.cluster_name != other.cluster_name
    assert one.marker != other.marker


def test_a_long_path_puts_the_sockets_elsewhere() -> None:
    assert lab().socket_directory(0) == "/var/lib/rankzero-lab/lab/run"
    elsewhere = lab(directory="/" + "d" * 120).socket_directory(1000)
    assert elsewhere.startswith("/tmp/rankzero-lab-1000-")
    assert len(elsewhere) < 50


def test_where_it_lives() -> None:
    assert layout.default_directory("a", 0, "/root") == "/var/lib/rankzero-lab/a"
    assert layout.default_directory("a", 1000, "/home/u") == "/home/u/.local/share/rankzero-lab/a"


def test_the_simple_way_shares_its_own_directory() -> None:
    assert lab().shared_inside == "/shared"
    simple = lab(way="simple")
    assert simple.shared_inside == simple.shared == "/var/lib/rankzero-lab/lab/shared"


# ---- one default, said in four places ---------------------------------------------------------------------------


def role_defaults() -> dict[str, object]:
    defaults: dict[str, object] = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
    return {name.removeprefix("lab_cluster_"): value for name, value in defaults.items()}


def test_the_roles_defaults_are_its_argument_specs() -> None:
    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options = specs["argument_specs"]["main"]["options"]
    assert {name.removeprefix("lab_cluster_"): entry["default"] for name, entry in options.items()} == role_defaults()


def test_the_modules_options_are_documented_with_their_defaults() -> None:
    documented = yaml.safe_load(lab_cluster.DOCUMENTATION)["options"]
    assert {name: entry.get("default") for name, entry in documented.items()} == {
        name: entry.get("default") for name, entry in lab_cluster.ARGUMENTS.items()
    }


def test_the_role_and_the_module_agree() -> None:
    # directory: empty in the role, not given to the module
    own = {"install", "packages", "root_packages", "site_packages", "directory"}
    ours = {name: value for name, value in role_defaults().items() if name not in own}
    assert ours == {name: entry["default"] for name, entry in lab_cluster.ARGUMENTS.items() if name != "directory"}


def test_the_labs_defaults_are_the_modules() -> None:
    options = {
        name: entry.get("default") for name, entry in lab_cluster.ARGUMENTS.items() if name not in ("state", "prune")
    }
    assert layout.from_options({**options, "way": "simple", "directory": "/x/"}) == Lab("lab", "/x", way="simple")


def test_what_is_switched_reaches_the_lab() -> None:
    options = {
        name: entry.get("default") for name, entry in lab_cluster.ARGUMENTS.items() if name not in ("state", "prune")
    }
    switched = layout.from_options({**options, "way": "simple", "internet": False, "job_comments": True})
    assert (switched.internet, switched.job_comments) == (False, True)
