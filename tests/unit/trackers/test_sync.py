# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module tracker_sync uploads what wandb has logged offline: once, in order, and wandb's exit code is not believed.

The stand-in for wandb does what release 0.31 was seen to do, and writes down how it was called. tests/cluster/
test_trackers.py uses the real one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.trackers.sync import ARGUMENTS, sync
from tests.unit.run.test_launches import KEY, SUBMITTED, make_run, outcome, queue, started
from tests.writers import Run

KEY_OF_WANDB = "0123456789abcdef" * 2
WANDB = """\
#!/bin/bash
[ "$2" != --help ] || { echo "Usage: wandb sync  HELP"; exit 0; }
folder=${@: -1}; file=$(ls "$folder"/*.wandb)
printf '%s|%s|%s\\n' "$*" "$WANDB_BASE_URL" "${WANDB_MODE-}" >> CALLS
[ -n "$WANDB_API_KEY" ] || { echo "Error: No API key configured."; exit 1; }
case $(head -c 9 "$file") in
    *torn*) echo "wandb: ERROR Failed to sync all data from \\"$folder\\": the file ends with an incomplete record." ;;
    *lost*) echo "wandb: ERROR cannot reach the server with $WANDB_API_KEY" ;;
    *hangs*) sleep 60 ;;
    *) touch "$file.synced" ;;
esac
exit 0
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of run directories, and wandb in the PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "wandb").write_text(WANDB.replace("CALLS", str(tmp_path / "calls")))
    (tools / "wandb").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    (tmp_path / "key").write_text(f"{KEY_OF_WANDB}\n")
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


def launch(root: Path, *contents: str, over: bool = True, **more: Any) -> Path:
    """A launch with an offline folder for each content."""
    ended = {"outcome_json": outcome()} if over else {}

    def manifest(made: Run) -> Run:
        return made.launch({"env": {"WANDB_BASE_URL": "https://wandb.example.org"}})

    run = make_run(
        root, *SUBMITTED, claim="1 lab 7\n", started_json=started(), launch_json=manifest, **{**ended, **more}
    )
    for number, content in enumerate(contents):
        folder = run / "wandb" / f"offline-run-20260101_00000{number}-gpt-{KEY[:16]}-1"
        folder.mkdir(parents=True)
        (folder / f"run-gpt-{KEY[:16]}-1.wandb").write_text(content)
    return run


def synced(root: Path, *launches: str, check_mode: bool = False, state: str = "COMPLETED", **more: Any) -> Any:
    given = {name: option.get("default") for name, option in ARGUMENTS.items()}
    given.update(launches=list(launches), state_root=str(root), **{"api_key_file": str(root.parent / "key"), **more})
    return sync(queue(state).slurm(), given, check_mode=check_mode)


def states(result: Any) -> list[str]:
    return [row["state"] for row in result["folders"]]


def calls(root: Path) -> list[str]:
    path = root.parent / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_all_attempts_are_uploaded_once_and_in_order(root: Path) -> None:
    run = launch(root, "first file", "torn file", "header", "third file")
    next(run.glob("wandb/*0002*/*.wandb")).write_bytes(b":W&B...")
    planned = synced(root, check_mode=True)
    assert planned["changed"] is True and states(planned) == ["pending", "pending", "empty", "pending"]
    assert calls(root) == []
    result = synced(root)
    assert result["changed"] is True and states(result) == ["uploaded", "uploaded", "empty", "uploaded"]
    assert "incomplete" in result["folders"][1]["message"]
    told = [line.split("|") for line in calls(root)]
    assert [line[0].rsplit("_", 1)[1][:6] for line in told] == ["000000", "000001", "000003"]
    assert {tuple(line[1:]) for line in told} == {("https://wandb.example.org", "")}
    for check_mode in (False, True):
        again = synced(root, check_mode=check_mode)
        assert again["changed"] is False and states(again) == ["synced", "synced", "empty", "synced"]
        assert again["lines"][-1] == "3 uploaded before"
    assert len(calls(root)) == 3


def test_a_folder_that_was_not_uploaded_fails_and_holds_back_the_later_ones(root: Path) -> None:
    run = launch(root, "first file", "lost file", "third file")
    with pytest.raises(
        RankzeroError, match=r"1 of 3 folders were not uploaded; the first is .*000001.*\*\*\*"
    ) as error:
        synced(root, "gpt")
    assert KEY_OF_WANDB not in json.dumps(error.value.partial)
    assert states(error.value.partial) == ["uploaded", "failed", "pending"] and error.value.partial["changed"] is True
    next(run.glob("wandb/*000001*/*.wandb")).write_text("found file")
    assert states(synced(root, "gpt")) == ["synced", "uploaded", "uploaded"]


def test_the_newest_folder_of_a_launch_that_runs_is_left(root: Path) -> None:
    run = launch(root, "first file", "second file", over=False)
    assert states(synced(root, state="RUNNING")) == ["uploaded", "open"]
    outcome()(Run(run))
    assert states(synced(root)) == ["synced", "uploaded"]


def test_a_folder_that_has_grown_is_uploaded_again(root: Path) -> None:
    run = launch(root, "first file")
    synced(root)
    marker = next(run.glob("wandb/*/*.synced"))
    os.utime(marker, (marker.stat().st_mtime - 60,) * 2)
    assert states(synced(root)) == ["uploaded"] and states(synced(root)) == ["synced"]
    assert "--include-synced" in calls(root)[1] and "--include-synced" not in calls(root)[0]


def test_a_clock_that_is_behind_makes_no_second_upload(root: Path) -> None:
    """The node that wrote the file and the host that uploads it may have different clocks."""
    run = launch(root, "first file")
    file = next(run.glob("wandb/*/*.wandb"))
    os.utime(file, (file.stat().st_mtime + 3600,) * 2)
    assert states(synced(root)) == ["uploaded"] and states(synced(root)) == ["synced"]


def test_old_releases_append(root: Path) -> None:
    wandb = root.parent / "tools" / "wandb"
    wandb.write_text(wandb.read_text().replace("HELP", "[--append]"))
    launch(root, "first file")
    synced(root)
    assert calls(root)[0].startswith("sync --append /")


def test_what_cannot_be_done_names_the_option(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launch(root, "hangs file")
    with pytest.raises(RankzeroError, match="did not end within 1 s"):
        synced(root, timeout=1)
    (tmp_path / "key").write_text("\n")
    for given, message in (
        ({"wandb": "/no/wandb"}, r"wandb: /no/wandb is no program on this host"),
        ({"api_key_file": "/no/key"}, r"api_key_file: /no/key cannot be read"),
        ({"api_key_file": str(tmp_path / "key")}, r"api_key_file: .* is empty"),
    ):
        with pytest.raises(RankzeroError, match=message):
            synced(root, **{"api_key_file": None, **given})
    with pytest.raises(RankzeroError, match="No API key configured"):
        synced(root, api_key_file=None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RankzeroError, match=r"wandb: neither .*pip install wandb"):
        synced(root, api_key_file=None)


@pytest.mark.parametrize("kind", ["built", "path"])
def test_the_environment_of_the_launch_has_wandb(root: Path, tmp_path: Path, kind: str) -> None:
    key = "e" * 32
    place = tmp_path / "environments" / key / "bin"
    place.mkdir(parents=True)
    (tmp_path / "tools" / "wandb").rename(place / "wandb")
    run = launch(root, "first file")
    if kind == "built":
        Run(run).launch(environment_key=key, store_root=str(tmp_path))
    else:
        Run(run).launch({"environment": {"mode": "path", "path": str(place.parent)}})
    assert states(synced(root)) == ["uploaded"]


def test_launches_without_offline_folders_ask_nobody(root: Path) -> None:
    make_run(root, *SUBMITTED, claim="1 lab 7\n", outcome_json=outcome())
    assert synced(root) == {"changed": False, "folders": [], "lines": []}
