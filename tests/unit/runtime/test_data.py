# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datasets in a job: read in place, mounted from one file, gone at the end; what is not there is named. No Slurm."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import DATASET
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.ensure import ensure_dataset
from tests.unit.runtime.harness import Job, Site

pytestmark = pytest.mark.skipif(
    shutil.which("mksquashfs") is None or shutil.which("unsquashfs") is None, reason="no squashfs-tools on this machine"
)
SHOW = (
    'cat "$RANKZERO_DATA_TEXT/a.txt" > "$RANKZERO_RUN_DIR/said"; echo "$RANKZERO_DATA_TEXT" >> "$RANKZERO_RUN_DIR/said"'
)


def job_of(site: Site, data: dict[str, Any]) -> Job:
    # A program and not a function: others than bash start it.
    site.program("srun", f'exec {shlex.join([sys.executable, "-I", str(site.tools / "srun.py")])} "$@"')
    return site.job({"setup": {"commands": [f"export PATH={site.tools}:$PATH"]}, "shell": SHOW, "data": {"text": data}})


@pytest.fixture
def dataset(site: Site, tmp_path: Path) -> dict[str, Any]:
    """What module dataset returns of a packed one in the site's store."""
    source = tmp_path / "texts"
    source.mkdir()
    (source / "a.txt").write_text("hello\n")
    defaults = {name: option.get("default") for name, option in DATASET.items()}
    given = {"name": "text", "source": "cluster", "src": str(source), "store_root": str(site.store), "pack": True}
    return ensure_dataset({**defaults, **given})


def test_it_is_read_where_it_is(site: Site, dataset: dict[str, Any]) -> None:
    job = job_of(site, dataset["ref"])
    assert job.finish() == 0, job.log()
    assert (job.run / "said").read_text() == f"hello\n{dataset['dataset']['folder']}\n"


@pytest.mark.parametrize("copy", ["never", "always"])
def test_its_one_file_is_there_as_long_as_the_job(site: Site, dataset: dict[str, Any], copy: str) -> None:
    job = job_of(site, {**dataset["ref"], "packed": True, "local_copy": copy})
    assert job.finish() == 0, job.log()
    text, place = (job.run / "said").read_text().splitlines()
    assert text == "hello" and place.startswith("/tmp/rankzero-") and place.endswith("/data-text")
    assert not os.path.lexists(place) and place not in Path("/proc/mounts").read_text()


@pytest.mark.parametrize(
    ("break_it", "packed", "said"),
    [
        (lambda file: shutil.rmtree(file.parent / "data"), False, "data.text: .* is not on .*: stage it on"),
        (lambda file: file.unlink(), True, r"data.text: localhost: .*dataset\.sqsh is not on this node, or was not"),
        (lambda file: os.truncate(file, 1000), True, "data.text: localhost: .* is damaged: .* and has 1000 here"),
    ],
)
def test_what_is_not_there_is_named_before_the_ranks_start(
    site: Site, dataset: dict[str, Any], break_it: Callable[[Path], None], packed: bool, said: str
) -> None:
    break_it(Path(dataset["dataset"]["packed"]))
    job = job_of(site, {**dataset["ref"], "packed": packed})
    assert job.finish() in (66, 69)
    assert re.search(said, job.outcome()["message"]), job.outcome()
    assert not (job.run / "said").exists()
