# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A prune beside real jobs: what a running one uses stays, what a finished one used goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import UNTIL_GO, Played, Site

PRUNE = "rankzero.slurm.store_prune"


def removed(played: Played) -> dict[str, str]:
    """Path -> kind of what went."""
    assert played.rc == 0, played.output
    return {one["path"]: one["kind"] for one in played.results(PRUNE)[-1]["removed"]}


def test_a_running_jobs_code_stays_and_a_finished_ones_goes(
    lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    site = Site(lab, tmp_path, request.node.name)
    site.cluster["store_root"] = f"{site.state_root}.store"
    try:
        done = site.launch(site.job("true", name="done"))
        assert site.outcome(done)["success"]
        site.ended(done["job_id"])
        (site.folder / "code" / "README").write_text("Another program.\n")
        running = site.launch(site.job(UNTIL_GO, name="running"))
        site.wait_for(site.run_dir(running) / "work")
        store = site.host_path(site.cluster["store_root"])
        assert len(list((store / "code").iterdir())) == 2

        # Both were launched just now, so nothing of them goes, whatever the user says.
        assert "-e older_than=" in site.play(None, "--check", playbook="rankzero.slurm.prune").output
        lately = removed(site.play(None, "--check", playbook="rankzero.slurm.prune", older_than=0))
        assert lately == {done["run_dir"]: "run"}
        assert removed(site.play(None, playbook="rankzero.slurm.prune", older_than=0, kinds=["code"])) == {}
        past = time.time() - 7200
        for root in (store, site.host_path(site.state_root)):
            for mark in (root / "used").glob("*/*"):
                os.utime(mark, (past, past))

        used = set((site.run_dir(running) / "work" / "README").resolve().parts) & set(os.listdir(store / "code"))
        (idle,) = set(os.listdir(store / "code")) - used
        expected = {done["run_dir"]: "run", f"{site.cluster['store_root']}/code/{idle}": "code"}
        foreseen = site.play(None, "--check", "--diff", playbook="rankzero.slurm.prune", older_than=0)
        assert removed(foreseen) == expected
        assert "not used for" in foreseen.output and (store / "code" / idle).exists()
        assert removed(site.play(None, playbook="rankzero.slurm.prune", older_than=0)) == expected
        assert not (store / "code" / idle).exists() and not site.run_dir(done).exists()

        site.go(running)
        assert site.outcome(running)["success"]
    finally:
        site.close()
