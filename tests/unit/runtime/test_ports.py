# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports that a launch gives to its ranks: free, and in nobody's way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.runtime.harness import Site, runtime_parts

#: Ports of Ray's workers (ray start --help).
RAY = range(10002, 20000)


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    with runtime_parts("start.ports") as module:
        monkeypatch.setattr(module, "RANGE", str(tmp_path / "range"))
        yield module


def test_they_are_the_jobs_own_or_the_next_free_ones(ports: ModuleType) -> None:
    first, *more = ports.free("7")
    assert 20259 <= first < 24000 and len({first, *more}) == 9
    with socket.create_server(("127.0.0.1", first)):
        assert first not in ports.free("7")
    # Two launches inside one job start from different ones.
    assert 20461 <= ports.free("7.2")[0] < 24000 and 20461 <= ports.free("7_3.2")[0] < 24000


def test_tasks_of_an_array_that_meet_on_a_node_have_their_own(ports: ModuleType) -> None:
    """Neither listens yet while the other one looks for free ones."""
    own = [
        {*ports.free(f"1000001_{task}"), *range(row, row + 3)}
        for task in range(8)
        if (row := ports.row(f"1000001_{task}", 3))
    ]
    assert len(own) == 8 and len(set().union(*own)) == sum(map(len, own))


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("32768\t60999\n", range(20000, 24000)),
        ("24000\t65535\n", range(20000, 24000)),
        ("20500\t65535\n", range(20000, 20500)),
        ("15000\t65535\n", range(7000, 8000)),
        # A site that gives all to connections.
        ("1024\t65535\n", range(20000, 24000)),
    ],
)
def test_they_are_neither_rays_nor_the_kernels_where_that_is_possible(
    ports: ModuleType, tmp_path: Path, given: str, where: range
) -> None:
    (tmp_path / "range").write_text(given)
    for job in range(0, 400, 7):
        given_to_it = ports.free(str(job))
        assert len(given_to_it) == 9 and not [port for port in given_to_it if port not in where or port in RAY]


@pytest.mark.parametrize("launcher", [{}, {"port": 29500}])
def test_the_ranks_get_them(site: Site, launcher: dict[str, int]) -> None:
    job = site.job({"launcher": launcher})
    assert job.finish() == 0, job.log()
    environment = job.seen()["env"]
    named = [int(port) for port in environment["RANKZERO_PORTS"].split()]
    assert len({*named, int(environment["MASTER_PORT"])}) == 9
    assert not launcher or environment["MASTER_PORT"] == "29500"
