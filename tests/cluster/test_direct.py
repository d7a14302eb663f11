# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""plan and logs on real Slurm, with and without ansible-playbook: the same requests, and the same files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rankzero import errors
from tests.cluster.launching import RESULT, UNTIL_GO, Site
from tests.cluster.typist import Typist


@pytest.fixture
def typist(site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Typist:
    typist = Typist(site, monkeypatch, capfd)
    # The first call of a user leaves the code on the host.
    typist.types("ls", playbook=False)
    return typist


def test_a_plan_is_the_same_call_by_both_ways(typist: Typist) -> None:
    site = typist.site
    proven = {"require": {"loss": {"lt": 2}}}
    job = site.write(site.job(RESULT, artifact=proven))
    # No other test has brought this code to the cluster.
    (site.folder / "code" / "own.txt").write_text(site.token, encoding="utf-8")
    assert "to be built first: code" in typist.same("plan", job)["out"]
    assert site.play(job, wait=True).rc == 0
    planned = typist.same("plan", job, "-n", "2")
    assert "generation 1 would be submitted" in planned["out"] and len(planned["asked"]) == 1
    typist.same("plan", job, "--json", "--explain", "-s", 'artifact.require={"loss": {"lt": 1e-05}}')
    typist.same("plan", job, "-c", "login", "-s", "env={Z: 1, A: 2}")
    long = site.write(site.job(f"touch begun; {UNTIL_GO}", "long", artifact=proven), "long.yml")
    (launch,) = json.loads(typist.types("run", long, "-d", "--json", playbook=True)["out"])["launches"]
    site.wait_for(site.run_dir(launch) / "work" / "begun")
    assert "already there and active" in typist.same("plan", long)["out"]
    site.go(launch)
    assert typist.same("plan", "nowhere.yml")["code"] == errors.REFUSED


# Without Slurm: tests/integration/test_direct.py.
@pytest.mark.more
def test_logs_are_the_same_by_both_ways(typist: Typist) -> None:
    site = typist.site
    job = site.write(site.job(f"echo a line; {RESULT}", artifact={"require": {"loss": {"lt": 2}}}))
    assert site.play(job, wait=True).rc == 0
    shutil.rmtree("runs")
    directly = typist.types("logs", job, "--merge", playbook=False)
    taken = files("runs")
    assert any("a line" in text for text in taken.values())
    shutil.rmtree("runs")
    played = typist.types("logs", job, "--merge", playbook=True)
    assert directly == played and files("runs") == taken
    assert "nothing new to fetch" in typist.same("logs", job)["out"]
    assert typist.same("logs", "nobody")["code"] == errors.REFUSED


def files(folder: str) -> dict[str, str]:
    """The texts in a folder, by their paths."""
    return {str(path): path.read_text() for path in sorted(Path(folder).rglob("*")) if path.is_file()}
