# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a prune takes and what it leaves, in real folders, with a Slurm that answers as it is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.prune import inventory
from ansible_collections.rankzero.slurm.plugins.module_utils.prune import prune as pruning
from ansible_collections.rankzero.slurm.plugins.module_utils.prune.prune import prune
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.store import atomic
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses as marks
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import hold
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import absent
from tests.unit.prune.place import DAY, NOW, OLD, Place
from tests.writers import Run

# A process of its own finds the collection as this one does.
WITH_OURS = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

CODE, OTHER, ENVIRONMENT, RUNTIME = "a" * 64, "b" * 64, "c" * 32, "d" * 32


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def gone(result: Mapping[str, Any]) -> set[str]:
    return {one["path"] for one in result["removed"]}


KEY = "0123456789abcdef"


def test_images_go_with_their_content_unless_a_launch_names_them(place: Place) -> None:
    ours, other, shared = "e" * 32, "f" * 32, place.store / "images" / "sha256" / f"{'9' * 64}.sqsh"
    place.run(f"gpt/{KEY}/1", uses=ours, ended=None)
    place.jobs["7"] = (f"gpt.{KEY}.1", "PENDING")
    kept, going = place.thing(f"images/{ours}"), place.thing(f"images/{other}")
    shared.parent.mkdir(parents=True)
    os.link(going / "file", shared)
    known = shared.with_name(f"{'8' * 64}.sqsh")
    os.link(kept / "file", known)
    names = place.thing("images/names")
    assert gone(place.prune(check_mode=True)) == {str(going)} and shared.exists()
    result = place.prune()
    assert gone(result) == {str(going)} and str(shared) in result["swept"]
    assert kept.exists() and known.exists() and names.exists() and not shared.exists()
    place.jobs.clear()
    Run.below(place.state, key=KEY).ended(at=OLD)
    assert str(kept) in gone(place.prune()) and not known.exists()


def test_everything_of_an_old_launch_goes_and_nothing_else(place: Place) -> None:
    run = place.run(f"gpt/{KEY}/1", uses=CODE)
    code = place.thing(f"code/{CODE}")
    environment = place.thing(f"environments/{ENVIRONMENT}")
    packages = place.thing(f"packages/{ENVIRONMENT}")
    runtime = place.thing(f"runtime/{RUNTIME}", root=place.state)
    archive = place.thing(f"archives/code-{CODE}.tar", root=place.state)
    shell = place.thing(f"shells/gpt/{KEY}", root=place.state)
    os.utime(shell / "file", (OLD, OLD))
    cached = place.state / "cache" / "cluster" / "limits.json"
    cached.parent.mkdir(parents=True)
    cached.write_text("{}")
    os.utime(cached, (OLD, OLD))
    strangers = [place.thing("code/mine"), place.thing("locks/pylock.x.toml"), place.thing("tools/uv-1")]
    outside = place.thing(f"elsewhere/{OTHER}")
    (place.store / "code" / OTHER).symlink_to(outside)

    planned = place.prune(check_mode=True)
    everything = {str(path) for path in (run, code, environment, packages, runtime, archive, shell, cached)}
    assert gone(planned) == everything and planned["changed"]
    assert all(os.path.exists(path) for path in everything)
    sizes = {one["path"]: one["bytes"] for one in planned["removed"]}
    assert (sizes[str(code)], sizes[str(archive)]) == (7, 6)
    assert f"{code}  (not used for 100 days)" in planned["diff"]["before"]

    assert planned["lines"][0].startswith("would remove ") and "environment 1" in planned["lines"][0]

    done = place.prune()
    assert gone(done) == everything and done["bytes"] == planned["bytes"]
    assert done["lines"][0].startswith("removed ") and str(place.store) in done["lines"][0]
    assert not any(os.path.exists(path) for path in everything)
    assert not (place.state / "runs" / "gpt").exists()
    assert all(path.exists() for path in [*strangers, outside])
    assert not list(place.store.rglob("*.tmp")) and not list(place.state.rglob("*.tmp"))
    again = place.prune()
    assert (again["changed"], again["removed"], again["diff"]) == (False, [], {})
    assert again["lines"][0].startswith("nothing to remove")


@pytest.mark.parametrize(
    ("why", "jobs", "down", "run"),
    [
        ("pending", {"7": (f"gpt.{KEY}.1", "PENDING")}, False, {"ended": None}),
        ("requeued after its verdict", {"7": (f"gpt.{KEY}.1", "PENDING")}, False, {}),
        ("silent", {}, True, {"ended": None}),
        ("silent, and a requeue may follow", {}, True, {"ended_by": "signal"}),
        ("silent, and it asked for a requeue", {}, True, {"ended_by": "requeue"}),
        ("ended lately", {}, False, {"ended": NOW - 3 * DAY}),
    ],
)
def test_what_a_launch_may_need_stays(place: Place, why: str, jobs: Any, down: bool, run: Any) -> None:
    place.jobs, place.down = jobs, down
    kept = [place.run(f"gpt/{KEY}/1", uses=CODE, **run), place.thing(f"code/{CODE}")]
    goes = place.thing(f"code/{OTHER}")
    result = place.prune()
    assert all(path.exists() for path in kept), (why, result)
    assert gone(result) == {str(goes)}
    assert {str(path) for path in kept} <= {one["path"] for one in result["kept"]}


def test_a_launch_without_an_outcome_goes_once_slurm_knows_no_such_job(place: Place) -> None:
    run, code = place.run(f"gpt/{KEY}/1", uses=CODE, ended=None), place.thing(f"code/{CODE}")
    assert gone(place.prune()) == {str(run), str(code)}


def test_a_launch_that_was_never_submitted_goes_once_every_source_of_slurm_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its submitter was killed before sbatch: only the intent is recorded."""
    never, lately = (place.run(f"gpt/{letter * 16}/1", ended=None) for letter in "01")
    for run, begun in ((never, OLD), (lately, NOW - DAY)):
        (run / "journal.jsonl").unlink()
        with monkeypatch.context() as then:
            then.setattr(time, "time", lambda begun=begun: begun)
            RunDirectory(str(run)).record("intent", submitter="login:1")
    place.accounting = False
    assert gone(place.prune()) == set()
    place.accounting = True
    result = place.prune()
    assert gone(result) == {str(never)} and "never submitted" in result["removed"][0]["reason"]
    assert lately.exists()


def test_datasets_go_unless_a_launch_names_them_and_so_does_what_nobody_goes_on_with(place: Place) -> None:
    kept, going = place.thing(f"datasets/{'1' * 64}"), place.thing(f"datasets/{'2' * 64}")
    partial, names = place.thing(f"datasets/{'3' * 64}.partial"), place.thing("datasets/by-name")
    place.run(f"gpt/{KEY}/1", uses="1" * 64, ended=None)
    place.jobs["7"] = (f"gpt.{KEY}.1", "PENDING")
    assert gone(place.prune(kinds=["dataset"])) == {str(going), str(partial)}
    assert kept.exists() and names.exists()


def test_kinds_narrow_what_goes(place: Place) -> None:
    run, code = place.run(f"gpt/{KEY}/1", uses=CODE), place.thing(f"code/{CODE}")
    assert gone(place.prune(kinds=["code"])) == {str(code)}
    assert run.exists()


def test_a_run_directory_that_a_living_launch_names_stays(place: Place) -> None:
    old, new = place.run(f"gpt/{KEY}/1"), place.run(f"eval/{KEY}/1", ended=NOW)
    Run(new).launch({"command": ["eval.py", f"{old}/work/model.pt"]})
    assert place.prune()["removed"] == []


def test_the_folder_of_a_sweep_goes_after_the_last_of_its_elements(place: Place) -> None:
    folders = {}
    for number, elements in enumerate((["1" * 64, "2" * 64], ["3" * 64], [])):
        folder = place.state / "runs" / "lr" / f".sweep-{number:016x}"
        (folder / "1" / "logs").mkdir(parents=True)
        if elements:
            (folder / "sweep.json").write_text(json.dumps({"elements": [{"key": key} for key in elements]}))
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (OLD, OLD))
        folders[number] = folder
    Run.below(place.state, "lr", "2" * 16).ended(1)
    place.prune()
    assert [number for number, folder in folders.items() if folder.exists()] == [0, 2]


def test_secrets_of_a_launch_that_ended_unseen_go_and_those_of_a_living_one_stay(place: Place) -> None:
    over, going = place.run("a/0123456789abcdef/1", ended=NOW - 60), place.run("b/0123456789abcdef/1", ended=None)
    for run in (over, going):
        (run / "secrets.env").write_text("A=eA==\n", encoding="utf-8")
    place.down = True  # Slurm does not say what has become of the other one
    assert place.prune(check_mode=True) and (over / "secrets.env").exists()
    place.prune()
    assert not (over / "secrets.env").exists() and (over / "outcome.json").exists()
    assert (going / "secrets.env").exists()


def test_launches_of_other_state_roots_keep_what_they_use(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other state"
    place.run(f"gpt/{KEY}/1", uses=CODE, ended=NOW, root=other)
    marks.register(str(place.store), str(other))
    code, unused = place.thing(f"code/{CODE}"), place.thing(f"code/{OTHER}")
    assert gone(place.prune()) == {str(unused)}
    assert code.exists()
    # It may be another host's disk: nothing is known of its launches then.
    other.rename(tmp_path / "away")
    place.thing(f"code/{OTHER}")
    result = place.prune()
    assert result["removed"] == [] and str(other) in result["kept"][0]["reason"]


def test_roots_that_are_not_ours_are_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for root in ("/", "~", "not/absolute"):
        with pytest.raises(RankzeroError, match="store_root"):
            prune(place.slurm(), store_root=root, state_root=str(place.state), days=1)
    code = place.thing(f"code/{CODE}")
    with pytest.raises(RankzeroError, match=r"state_root.*Name the state_root"):
        prune(place.slurm(), store_root=str(place.store), state_root=str(place.state / "typo"), days=0)
    assert code.exists()


def test_a_folder_of_the_store_that_leads_elsewhere_is_left_alone(place: Place, tmp_path: Path) -> None:
    place.thing(f"code/{CODE}", root=tmp_path / "real")
    place.store.mkdir()
    (place.store / "code").symlink_to(tmp_path / "real" / "code")
    assert place.prune()["removed"] == []


def test_what_was_marked_lately_stays_even_without_a_run(place: Place) -> None:
    code = place.thing(f"code/{CODE}")
    assert absent([Ref("code", CODE, str(code))], str(place.state), print, check_mode=False) == []
    assert place.prune(days=0)["removed"] == []
    mark = place.store / "used" / "code" / CODE
    os.utime(mark, (NOW - 7200, NOW - 7200))
    assert gone(place.prune(days=0)) == {str(code)}
    assert not mark.exists()


def test_a_launch_that_marks_while_the_prune_is_at_it_keeps_its_code(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at all and the removal of one, and between the look at the mark and the rename."""
    code = place.thing(f"code/{CODE}")
    slot = marks.slot_of(str(code))
    assert slot
    with monkeypatch.context() as patch:
        patch.setattr(pruning.inventory, "size", lambda path: marks.touch(slot) or 7)
        assert place.prune()["removed"] == []
    assert code.exists()

    os.utime(slot.mark, (OLD, OLD))
    set_aside = atomic.set_aside

    def late(path: str) -> str | None:
        marks.touch(slot)
        return set_aside(path)

    monkeypatch.setattr(pruning.atomic, "set_aside", late)
    assert place.prune()["removed"] == []
    assert (code / "file").read_text() == "content"


def test_what_is_used_again_and_gone_at_the_rename_is_no_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another prune that lost its lock took it, and the launch that has marked it builds anew."""
    code = place.thing(f"code/{CODE}")
    slot = marks.slot_of(str(code))
    assert slot
    marks.touch(slot)
    os.utime(slot.mark, (OLD, OLD))

    def gone_before(path: str) -> None:
        shutil.rmtree(path)
        marks.touch(slot)

    monkeypatch.setattr(pruning.atomic, "set_aside", gone_before)
    assert place.prune()["removed"] == []
    assert not code.exists()


def test_a_launch_waits_for_the_prune_that_has_its_code_and_builds_anew(place: Place) -> None:
    code = place.thing(f"code/{CODE}")
    slot = marks.slot_of(str(code))
    assert slot
    program = (
        "import sys; from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import absent\n"
        "from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref\n"
        f"ref = Ref('code', 'k', {str(code)!r})\n"
        "print('asks', flush=True); print(len(absent([ref], None, print, check_mode=False)))"
    )
    with hold(slot.lock, 0):
        launch = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=WITH_OURS)
        assert launch.stdout and launch.stdout.readline() == "asks\n"
        while not os.path.exists(slot.mark):
            time.sleep(0.01)
        doomed = atomic.set_aside(str(code))
        assert doomed
        atomic.delete(doomed)
    assert launch.communicate(timeout=60)[0] == "1\n"


PRUNER = """
import sys, time
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.core import clearing
from ansible_collections.rankzero.slurm.plugins.module_utils.prune.prune import prune
if sys.argv[3] == "stop":
    def wait(folder, name):
        print("aside", flush=True)
        time.sleep(600)
    clearing.remove_in = wait
slurm = Slurm(environment={"PATH": "/nowhere"}, extra_path=[])
print(len(prune(slurm, store_root=sys.argv[1], state_root=sys.argv[2], days=30)["removed"]))
"""


def pruner(place: Place, how: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", PRUNER, str(place.store), str(place.state), how]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=WITH_OURS)


def test_a_killed_prune_leaves_no_half_thing_and_the_next_one_sweeps(place: Place) -> None:
    code = place.thing(f"code/{CODE}")
    killed = pruner(place, "stop")
    assert killed.stdout and killed.stdout.readline() == "aside\n"
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not code.exists() and len(list((place.store / "code").iterdir())) == 1
    result = place.prune()
    assert len(result["swept"]) == 1 and result["changed"]
    assert list((place.store / "code").iterdir()) == []


def test_two_prunes_at_once_share_the_work(place: Place) -> None:
    things = [place.thing(f"code/{number:064x}") for number in range(60)]
    things += [place.run(f"gpt/{number:016x}/1") for number in range(60)]
    both = [pruner(place, "go"), pruner(place, "go")]
    counts = [int(one.communicate(timeout=120)[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sum(counts) == len(things)
    assert not any(path.exists() for path in things)
    assert not list(place.store.rglob(".*.tmp")) and not list(place.state.rglob(".*.tmp"))


def test_what_another_prune_takes_after_the_folder_was_read_is_not_there(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, left = place.thing(f"code/{'0' * 64}"), place.thing(f"code/{'1' * 64}")
    entries = inventory._entries

    def and_then_one_goes(folder: str) -> list[os.DirEntry[str]]:
        found = entries(folder)
        if folder == str(taken.parent) and taken.exists():
            atomic.delete(str(taken))
        return found

    monkeypatch.setattr(inventory, "_entries", and_then_one_goes)
    removed = place.prune()["removed"]
    assert [one["path"] for one in removed] == [str(left)] and not left.exists()
