# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch that is meant where only one can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import find, launch_list
from tests.unit.run.test_launches import NOW, SUBMITTED, make_run, options, queue


def test_a_single_launch_is_the_one_that_a_wait_would_choose(tmp_path: Path) -> None:
    """attach() of the Python API and the command name the same launch."""
    old = {"time": NOW - 500, "event": "intent"}
    make_run(tmp_path, old, key="1" * 16)
    make_run(tmp_path, old, *SUBMITTED, key="2" * 16)
    make_run(tmp_path, old, key="2" * 16, generation=2)
    root = {"state_root": str(tmp_path), "name": "gpt"}
    chosen = find.one_run(options(**root))
    found = launch_list.job_info(queue("RUNNING").slurm(), options(**root, single=True))
    assert [launch["run_dir"] for launch in found["launches"]] == [chosen.path]
    assert "the newest of 2 launches named gpt" in found["choice"]
    with pytest.raises(RankzeroError, match="no launch with name=gtp"):
        launch_list.job_info(queue("RUNNING").slurm(), options(state_root=str(tmp_path), name="gtp", single=True))
