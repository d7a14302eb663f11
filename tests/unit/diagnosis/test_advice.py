# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a diagnosis says, on the screen and as data, and what Slurm's word adds to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils import post_mortem
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan

NO_FILE = "[rank{0}]: FileNotFoundError: [Errno 2] No such file or directory: '/data/x.npy'\n"
TRACE = '[rank{0}]: Traceback (most recent call last):\n[rank{0}]:   File "t.py", line 1\n'


def diagnosed(folder: Path, text: str) -> dict[str, Any]:
    (folder / "job.log").write_text(text)
    found = scan.scan(scan.find_logs(str(folder)))
    return advice.report(cause.find_cause(found.logs), found, str(folder))


def test_cause_where_evidence_and_remedy_fit_the_screen(tmp_path: Path) -> None:
    text = "".join((TRACE + NO_FILE).format(rank) for rank in range(4, 20)) + "x" * 5000
    found = diagnosed(tmp_path, text + "\n[rank0]: RuntimeError: NCCL error in: x, ncclRemoteError\n")
    lines = advice.screen(found, "/runs/a/diagnosis.json")
    assert len(lines) <= advice.SCREEN_LINES
    shown = "\n".join(lines)
    for words in ("a file is missing: /data/x.npy", "rank", "job.log:3", "HF_HOME", "diagnosis.json"):
        assert words in shown
    assert found["ranks"][0] == 4
    assert found["chain"][0].endswith("a file is missing: /data/x.npy")
    assert any("another rank went away" in link for link in found["chain"])


def test_a_node_is_blamed_where_its_device_failed(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "node07: RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    assert (found["family"], found["blame"], found["retry"]) == ("cuda_device", ["node07"], True)


def test_a_healthy_log_says_so(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "all is well\n")
    assert found["healthy"]
    assert advice.screen(found) == ["no cause found: 1 log read, and none of them shows a failure"]


def test_a_hole_that_nothing_fills_goes() -> None:
    assert advice.filled("a package is missing: {module}", None) == "a package is missing"


def test_the_logs_of_the_newest_attempt_come_rank_by_rank(tmp_path: Path) -> None:
    for name in ("0/rank-0000.log", "1/rank-0002.log", "1/rank-0010.log", "1/step.log", "job.7.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [str(Path(path).relative_to(tmp_path)) for path in post_mortem.newest_logs(str(tmp_path), 1)]
    assert found == ["1/rank-0002.log", "1/rank-0010.log", "1/step.log", "job.7.log"]
