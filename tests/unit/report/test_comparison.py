# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches side by side (module job_compare): what is compared, how they scale, and which selections are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.report import changed_code
from ansible_collections.rankzero.slurm.plugins.module_utils.report.changed_code import MOST_CHARACTERS, MOST_LINES
from ansible_collections.rankzero.slurm.plugins.module_utils.report.comparison import compare, numbers
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import selection
from tests.unit.run.test_launches import SUBMITTED, make_run, outcome, queue, started
from tests.writers import Run

THREE, FIVE, FAILED = "3" * 16, "5" * 16, "f" * 16


def finished(root: Path, key: str, ranks: int, values: dict[str, Any], name: str = "lab", success: bool = True) -> Path:
    nodes = [f"node{number:02d}" for number in range(1, ranks // 2 + 1)]
    end = outcome(success, values=values)
    begun = started(nodes=nodes, world_size=ranks)
    return make_run(root, *SUBMITTED, name=name, key=key, claim="1 lab 7\n", started_json=begun, outcome_json=end)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    finished(tmp_path, THREE, 6, {"epochs": 2, "seconds_per_epoch": 3.0, "torch": "2.13.0", "saved": True})
    finished(tmp_path, FIVE, 10, {"epochs": 2, "seconds_per_epoch": 2.0, "extra": 1})
    finished(tmp_path, FAILED, 6, {}, name="bad", success=False)
    return tmp_path


def compared(root: Path, *launches: str, time: str | None = None) -> dict[str, Any]:
    return compare(queue("COMPLETED").slurm(), {"launches": list(launches), "time": time, "state_root": str(root)})


def test_three_nodes_against_five(root: Path) -> None:
    found = compared(root, f"lab/{THREE[:8]}", f"lab/{FIVE}/1")
    assert found["time"] == "seconds_per_epoch"
    three, five = found["launches"]
    assert (three["nodes"], three["ranks"], three["scalars"]) == (3, 6, {"epochs": 2, "seconds_per_epoch": 3.0})
    assert (three["speed_up"], three["efficiency"]) == (1.0, 1.0)
    assert (five["nodes"], five["ranks"], five["seconds"]) == (5, 10, 2.0)
    assert (five["speed_up"], five["efficiency"]) == (1.5, pytest.approx(0.9))
    rows = {line.rsplit(None, 2)[0]: line.split()[-2:] for line in found["lines"]}
    assert rows["nodes"] == ["3", "5"] and rows["ranks"] == ["6", "10"] and rows["epochs"] == ["2", "2"]
    assert rows["speed-up (seconds_per_epoch)"] == ["1", "1.5"] and rows["efficiency"] == ["100%", "90%"]


def test_a_single_name_is_all_its_keys_and_the_first_is_the_base(root: Path) -> None:
    both = compared(root, "lab")["launches"]
    assert {launch["key"] for launch in both} == {THREE, FIVE}
    run_dir = str(root / "runs" / "lab" / FIVE / "1")
    assert [launch["key"] for launch in compared(root, run_dir, f"lab/{THREE}")["launches"]] == [FIVE, THREE]


def test_a_name_leaves_out_what_has_no_result(root: Path) -> None:
    """One failed key, or one that still runs, does not end all comparisons of the name."""
    finished(root, FAILED, 6, {}, success=False)
    make_run(root, *SUBMITTED, name="lab", key="a" * 16, claim="1 lab 7\n", started_json=started())
    found = compared(root, "lab")
    assert {launch["key"] for launch in found["launches"]} == {THREE, FIVE}
    (line,) = [line for line in found["lines"] if "left out" in line]
    assert "lab/ffffffff/1" in line and "lab/aaaaaaaa/1" in line
    named = compared(root, f"lab/{THREE}", f"lab/{FAILED}", f"lab/{FIVE}")
    assert [launch["key"] for launch in named["launches"]] == [THREE, FIVE] and "lab/ffffffff/1" in named["lines"][-1]
    with pytest.raises(RankzeroError, match=r"only launches that have succeeded.*lab/ffffffff/1"):
        compared(root, f"lab/{THREE}", f"lab/{FAILED}")
    for key in (THREE, FIVE):
        finished(root, key[:15] + "0", 6, {}, name="none", success=False)
    with pytest.raises(RankzeroError, match="only launches that have succeeded"):
        compared(root, "none")


def test_another_time_and_the_time_of_the_whole_job(root: Path) -> None:
    found = compared(root, "lab", time="wall_time")
    assert [launch["seconds"] for launch in found["launches"]] == [launch["wall_time"] for launch in found["launches"]]
    with pytest.raises(RankzeroError, match=r"time: .*'seconds_per_epok'; did you mean seconds_per_epoch"):
        compared(root, "lab", time="seconds_per_epok")


@pytest.mark.parametrize(
    ("launches", "said"),
    [
        (["bad", "lab"], "only launches that have succeeded.*bad/ffffffff/1"),
        (["nothing"], "needs two different launches; none"),
        ([f"lab/{THREE}", f"lab/{THREE}"], "needs two different launches"),
        (["lab/../x", "lab"], "'lab/../x' names no launch"),
    ],
)
def test_what_cannot_be_compared(root: Path, launches: list[str], said: str) -> None:
    with pytest.raises(RankzeroError, match=said):
        compared(root, *launches)


def test_a_launch_is_named_as_the_command_names_it() -> None:
    assert selection("1234_5") == {"job_id": "1234_5"}
    assert selection("~/runs/a/0123/1") == {"run_dir": "~/runs/a/0123/1"}
    assert selection("gpt/72ee2a70/2") == {"name": "gpt", "key": "72ee2a70", "generation": 2}
    assert numbers({"a": 1, "b": True, "c": "1", "d": float("inf"), "e": 0.5}) == {"a": 1, "e": 0.5}


def coded(root: Path, key: str, code: str, **files: str | bytes) -> Path:
    """A launch that has succeeded; the folder with the code that it keeps (dots as underscores)."""
    run = Run(finished(root, key, 4, {"loss": 1.0}, name="code"))
    run.launch(code_key=code * 64, store_root=str(root / "store"))
    refs = json.loads((run.path / "launch.json").read_text())["refs"]
    place = Path(next(ref["path"] for ref in refs if ref["kind"] == "code"))
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (place / name.replace("_", ".")).write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def test_the_changed_lines_of_code_are_shown_without_secrets(tmp_path: Path) -> None:
    first, second, same = "1" * 16, "2" * 16, "3" * 16
    lines = "".join(f"line {number}\n" for number in range(50))
    coded(tmp_path, first, "a", train_py=f"{lines}lr = 1\n", gone_py="x = 1\n", same_py="y\n", b_bin=b"\0a")
    new = "password = 'hunter22hunter'\n\x1b[31mred\n"
    coded(tmp_path, second, "b", train_py=f"{lines}lr = 2\n", new_py=new, same_py="y\n", b_bin=b"\0b")
    coded(tmp_path, same, "a")
    found = compared(tmp_path, f"code/{first}", f"code/{second}", f"code/{same}")
    base, changed, unchanged = [launch["code_changes"] for launch in found["launches"]]
    assert base == () and unchanged == []
    text = "\n".join(changed)
    assert "b.bin: changed" in changed and "-lr = 1" in changed and "+lr = 2" in changed
    assert "-x = 1" in changed and "--- /dev/null" in changed and " line 49" in changed
    assert "line 48" not in text and "same.py" not in text
    assert "hunter22" not in text and "+password" in text and "\x1b" not in text
    (at,) = [number for number, line in enumerate(found["lines"]) if line.startswith("code, code/1111")]
    assert found["lines"][at + 1 : at + 1 + len(changed)] == [f"  {line}" for line in changed]


def test_the_code_of_another_users_launch_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record could name a folder that is the reader's alone."""
    first, second = "1" * 16, "2" * 16
    coded(tmp_path, first, "a", a_py="mine\n")
    coded(tmp_path, second, "b", a_py="private\n")
    monkeypatch.setattr(changed_code, "is_own", lambda path: second not in path)
    _base, other = compared(tmp_path, f"code/{first}", f"code/{second}")["launches"]
    assert len(other["code_changes"]) == 1 and "private" not in str(other), other


def test_the_changed_lines_are_bounded_and_code_that_is_gone_is_said(tmp_path: Path) -> None:
    first, second, third = "1" * 16, "2" * 16, "3" * 16
    coded(tmp_path, first, "a", a_py="".join(f"a {number}\n" for number in range(900)))
    coded(tmp_path, second, "b", a_py="".join(f"{'b' * 900} {number}\n" for number in range(50)))
    shutil.rmtree(coded(tmp_path, third, "c", a_py="x"))
    named = [f"code/{key}" for key in (first, second, third)]
    _base, changed, gone = compared(tmp_path, *named)["launches"]
    lines = changed["code_changes"]
    assert len(lines) == MOST_LINES + 1 and lines[-1].startswith("and ") and lines[-1].endswith("more lines")
    assert max(map(len, lines)) <= MOST_CHARACTERS
    assert gone["code_changes"] == ["the code differs; that of one launch is not kept, or too large to be compared"]
