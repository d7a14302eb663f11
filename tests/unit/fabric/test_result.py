# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module fabric_report makes of a result on the cluster (share, mads, expected), and its file here (dest)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric import result as results
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.judge import Rule
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fabric_file import write_file
from tests.unit.fabric.sweeps import four

ABOUT = ("format", "backend", "why", "measured_at", "job_id", "ranks_per_node")


def swept(folder: Path, **more: Any) -> str:
    """A run directory with the document that the program writes."""
    whole = {**four("n3"), **more}
    document = {"about": {name: whole.pop(name) for name in ABOUT}, **whole}
    run_dir = folder
    (run_dir / "work").mkdir(exist_ok=True)
    (run_dir / "work" / "result.json").write_text(json.dumps(document))
    return str(run_dir)


def text(folder: Path, **more: Any) -> str:
    written: str = results.described(swept(folder, **more), {}, Rule(0.7, 4.0))["group_vars"]
    return written


def test_a_file_is_written_once_and_its_folder_made(tmp_path: Path) -> None:
    dest = tmp_path / "group_vars" / "slurm_login" / "fabric.yml"
    content = text(tmp_path)
    pretended = write_file(str(dest), content, overwrite=False, pretend=True)
    assert pretended.changed and not dest.parent.exists()
    first = write_file(str(dest), content, overwrite=False, pretend=False)
    assert first == pretended and dest.read_text() == content
    assert (first.before, first.after) == ("", content)
    assert not write_file(str(dest), content, overwrite=False, pretend=False).changed
    # What was written here gives way to a newer measurement.
    newer = text(tmp_path, job_id="8")
    assert write_file(str(dest), newer, overwrite=False, pretend=False).changed and dest.read_text() == newer
    # Beside it only the record of what the tool itself has written there, which is never code.
    assert {path.name for path in dest.parent.iterdir()} - {".rankzero"} == {"fabric.yml"}


def test_what_somebody_wrote_stays_unless_it_is_to_go_and_then_is_kept(tmp_path: Path) -> None:
    dest, content = tmp_path / "fabric.yml", text(tmp_path)
    own = content.replace("nccl_measured:", "# tried it in May\nnccl_measured:")
    dest.write_text(own)
    with pytest.raises(RankzeroError, match="was written or changed by something else and is left unchanged"):
        write_file(str(dest), content, overwrite=False, pretend=False)
    assert dest.read_text() == own
    assert write_file(str(dest), content, overwrite=True, pretend=True).changed and dest.read_text() == own
    done = write_file(str(dest), content, overwrite=True, pretend=False)
    assert dest.read_text() == content and Path(str(done.backup)).read_text() == own


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RankzeroError, match=r"dest: .*/file/fabric.yml cannot be written: "):
        write_file(str(tmp_path / "file" / "fabric.yml"), "x", overwrite=False, pretend=False)


def test_everything_about_a_sweep(tmp_path: Path) -> None:
    found = results.described(swept(tmp_path), {"partitions": []}, Rule(0.7, 4.0))
    assert (found["verdict"], found["slow_nodes"], found["chosen"]) == ("slow_nodes", ["n3"], "current")
    assert found["reason"] == "slow in the fabric check of 2026-09-21 (job 7)"
    assert found["variables"] == {} and found["suggestions"]["fabrics"][0]["fabric"] == "auto"
    assert found["table"][-1].startswith("1 of 4 nodes slow (slow is below 0.7 of the median and 4")


def test_what_is_no_result_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match="does not exist: the sweep has not ended, or has failed"):
        results.described(str(tmp_path), {}, Rule(0.7, 4.0))
    swept(tmp_path, format=0)
    with pytest.raises(RankzeroError, match="is not a result of this version's sweep: run it again"):
        results.described(str(tmp_path), {}, Rule(0.7, 4.0))
    (tmp_path / "work" / "result.json").write_text("[1")
    with pytest.raises(RankzeroError, match="is not a result of this version's sweep"):
        results.described(str(tmp_path), {}, Rule(0.7, 4.0))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(1.0, 4.0), "share: must be above 0 and below 1, not 1"),
        (Rule(0.7, -1.0), "must not be negative, not -1 and 0"),
        (Rule(0.7, 4.0, -5.0), "must not be negative, not 4 and -5"),
    ],
)
def test_a_rule_that_is_none(tmp_path: Path, rule: Rule, message: str) -> None:
    with pytest.raises(RankzeroError, match=message):
        results.described(swept(tmp_path), {}, rule)
