# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The poll itself: module job_wait, as its action plugin calls it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import Claim
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import WAIT_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import SQUEUE_COLUMNS
from ansible_collections.rankzero.slurm.plugins.module_utils.watch import budget, remote_poll
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import (
    LogChunk,
    Poll,
    Request,
    Staging,
    Target,
    View,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import modules
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.checker import checker
from tests.stand_ins import command
from tests.unit.core.test_module_cache import Host
from tests.writers import Run

RUN = "/state/runs/gpt/0123456789abcdef/1"


class Login(Host):
    """The login node: a process of this machine for each call."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.environment |= {"SQUEUE_FORMAT": "leaked", "SLURM_CONF": "/kept", "XDG_RUNTIME_DIR": str(home)}
        self.sent: tuple[str, bytes] = ("", b"")

    def _low_level_execute_command(self, command: str, in_data: bytes) -> dict[str, Any]:
        self.sent = (command, in_data)
        return super()._low_level_execute_command(command, in_data)

    def answered(self, request: Request, **more: Any) -> dict[str, Any]:
        """The module's answer."""
        given = {"x_poll": request.as_dict(), **more}
        variables = {"ansible_python_interpreter": sys.executable}
        answer = modules.call_module(self, "rankzero.slurm.job_wait", given, variables, WAIT_SPEC)
        assert "poll" in answer, answer
        return answer

    def polled(self, request: Request) -> Poll:
        """What the action plugin makes of the module's answer."""
        return Poll.of(self.answered(request)["poll"])

    def poll(self, target: Target, **options: Any) -> Poll:
        judge = checker() if target.artifact else ()
        return self.polled(Request((target,), checker=judge, **{"log_bytes": 100, **options}))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Login:
    return Login(tmp_path_factory.mktemp("home"))


@pytest.fixture
def login(host: Login, tmp_path: Path) -> Iterator[Login]:
    """The node of all tests, which find programs of their own first."""
    path = host.environment["PATH"]
    host.environment["PATH"] = f"{tmp_path}:{path}"
    yield host
    host.environment["PATH"] = path


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run directory in a folder that would break a shell line without quotes."""
    folder = tmp_path / "it's $(touch pwned) *" / "runs" / "gpt" / "0123456789abcdef" / "1"
    (folder / "logs" / "0").mkdir(parents=True)
    return folder


def test_the_log_that_the_job_names_is_followed_whatever_its_name(login: Login, run_dir: Path) -> None:
    logs = run_dir / "logs" / "0"
    (logs / "rank-0000.log").write_text("first\n")
    (logs / "gpt.7.node02.15.out").write_text("last\n")
    (logs / ".live").symlink_to("gpt.7.node02.15.out")
    (view,) = login.poll(Target(str(run_dir), "7")).views
    assert view.log == LogChunk(0, 0, 5, "last\n")
    # A link that leads nowhere yet: the first rank at least.
    (logs / "gpt.7.node02.15.out").unlink()
    (view,) = login.poll(Target(str(run_dir), "7")).views
    assert view.log is not None and view.log.content == "first\n"


def test_a_poll_that_finds_the_proof_reports_it_where_that_is_wanted(
    login: Login, run_dir: Path, tmp_path: Path
) -> None:
    """It is the last one, and no other call is needed."""
    run = Run(run_dir).launch({}).journal({"event": "intent"}, {"event": "submitted", "job_id": "7"})
    run.claimed().numbered(0).started(nodes=["node01"])
    fake_squeue(tmp_path, "")
    command(tmp_path, "scontrol", "#!/bin/sh\necho node01\n")
    command(tmp_path, "sacct", "#!/bin/sh\nexit 1\n")
    wanted = {"run_dir": str(run_dir), "x_settle": 0.01, "x_asked": 0}
    request = Request((Target(str(run_dir), "7"),))
    assert "report" not in login.answered(request, **wanted)
    run.ended()
    assert "report" not in login.answered(request)
    report = login.answered(request, **wanted)["report"]
    assert (report["success"], report["completed"], report["run_dir"]) == (True, True, str(run_dir))


def test_a_poll_reads_what_the_job_wrote(login: Login, run_dir: Path) -> None:
    Run(run_dir).claimed().started(nodes=["node01"]).ended()
    (run_dir / "logs" / "0" / "rank-0000.log").write_bytes(b"step 1\nstep 2\npart")
    seen = login.poll(Target(str(run_dir), "7"))
    (view,) = seen.views
    assert seen.whole and not seen.asked and view.exists
    assert view.claim == Claim(1, "lab", "7")
    assert view.started == json.loads((run_dir / "started.json").read_text())
    assert view.outcome == json.loads((run_dir / "outcome.json").read_text())
    assert (view.started["nodes"], view.outcome["success"]) == (["node01"], True)
    assert view.log == LogChunk(0, 0, 18, "step 1\nstep 2\npart")
    assert not list(run_dir.parents[3].glob("**/pwned"))


def test_a_poll_moves_new_bytes_only_and_bounds_them(login: Login, run_dir: Path) -> None:
    log = run_dir / "logs" / "0" / "rank-0000.log"
    log.write_bytes(b"0123456789")
    assert login.poll(Target(str(run_dir), "7", 0, 4)).views[0].log == LogChunk(0, 4, 10, "456789")
    assert login.poll(Target(str(run_dir), "7", 0, 10)).views[0].log == LogChunk(0, 10, 10, "")
    # Written anew, then flooded, then another attempt.
    assert login.poll(Target(str(run_dir), "7", 0, 99)).views[0].log == LogChunk(0, 0, 10, "0123456789")
    log.write_bytes(b"a" * 1000 + b"b" * 100)
    assert login.poll(Target(str(run_dir), "7", 0, 10)).views[0].log == LogChunk(0, 1000, 1100, "b" * 100)
    (run_dir / "logs" / "10").mkdir()
    (run_dir / "logs" / "10" / "rank-0000.log").write_bytes(b"new")
    assert login.poll(Target(str(run_dir), "7", 0, 1100)).views[0].log == LogChunk(10, 0, 3, "new")


def test_offsets_count_bytes_whatever_they_are(login: Login, run_dir: Path) -> None:
    (run_dir / "logs" / "0" / "rank-0000.log").write_bytes(b"\xff\xfe\x00step 1\n" + "ü".encode())
    chunk = login.poll(Target(str(run_dir), "7")).views[0].log
    assert chunk is not None and chunk.size == 12
    assert "step 1" in chunk.content


def test_the_copying_to_nodes_is_seen_until_the_ranks_start(login: Login, run_dir: Path) -> None:
    stage = run_dir / "preflight" / "0" / "stage"
    stage.mkdir(parents=True)
    (stage / "code.offer").write_text('{"problem": null, "bytes": 4200, "unpacked": 9000}')
    assert login.poll(Target(str(run_dir), "7")).views[0].staging is None, "no node has made room for it yet"
    for name in ("code.node02.room", "code.node03.room", "code.node02.done", "node02.held", "plan"):
        (stage / name).write_text("{}")
    assert login.poll(Target(str(run_dir), "7")).views[0].staging == Staging("code", 1, 2, 4200)
    (stage / "environment.offer").write_text('{"bytes": ')
    (stage / "environment.node02.room").write_text("{}")
    assert login.poll(Target(str(run_dir), "7")).views[0].staging == Staging("environment", 0, 1, 0)
    # The job writes where it runs before it looks at its nodes, and again when its ranks start.
    Run(run_dir).started()
    assert login.poll(Target(str(run_dir), "7")).views[0].staging == Staging("environment", 0, 1, 0)
    Run(run_dir).started(launched=time.time())
    view = login.poll(Target(str(run_dir), "7")).views[0]
    assert view.staging is None and view.preflight is None


def test_an_empty_or_missing_place_is_no_error(login: Login, tmp_path: Path) -> None:
    assert login.poll(Target(str(tmp_path / "gone"), "7")).views == (View(),)
    for write in (lambda: None, lambda: (tmp_path / "started.json").write_text("{ torn")):
        write()
        (view,) = login.poll(Target(str(tmp_path), "7")).views
        assert view == View(exists=True, state=view.state, local=os.major(tmp_path.stat().st_dev) != 0)
    (tmp_path / "claim").write_text("1 lab 7\n")
    assert not login.poll(Target(str(tmp_path), "7")).views[0].local


def fake_squeue(folder: Path, body: str, rc: int = 0) -> None:
    program = folder / "squeue"
    (folder / "answer").write_text(body)
    program.write_text(
        f'#!/bin/sh\nenv > "{folder}/env"; echo "$@" > "{folder}/args"\n'
        f'cat "{folder}/answer" >&{1 + bool(rc)}; exit {rc}\n'
    )
    program.chmod(0o755)


def row(job_id: str = "7", state: str = "RUNNING", **more: str) -> str:
    values = dict.fromkeys(SQUEUE_COLUMNS, "N/A") | {"JobArrayID": job_id, "State": state, "Name": "gpt.0.1"} | more
    return parse.FIELD.join(values.values()) + parse.RECORD + "\n"


def test_one_squeue_for_all_targets_in_a_clean_environment(login: Login, tmp_path: Path) -> None:
    fake_squeue(tmp_path, row("7") + row("8", "PENDING", Reason="Priority"))
    targets = (Target("/none/1", "7"), Target("/none/2", "8"), Target("/none/3", "7"))
    seen = login.polled(Request(targets, jobs=("7", "8", "7")))
    assert seen.asked and not seen.silent and len(seen.views) == 3
    assert {key: record.state for key, record in seen.queue.items()} == {"7": "RUNNING", "8": "PENDING"}
    assert seen.queue["8"].reason == "Priority" and seen.queue["8"].pending
    assert "--jobs=7,8\n" in (tmp_path / "args").read_text()
    environment = (tmp_path / "env").read_text()
    assert "leaked" not in environment and "SLURM_CONF=/kept" in environment
    assert "SLURM_TIME_FORMAT=%s" in environment and "LC_ALL=C" in environment


@pytest.mark.parametrize(
    ("body", "rc", "silent"),
    [
        ("slurm_load_jobs error: Invalid job id specified\n", 1, False),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1, True),
        ("", 127, True),
        ("", 124, True),
    ],
)
def test_a_queue_without_an_answer_is_silent_not_empty(
    login: Login, tmp_path: Path, body: str, rc: int, silent: bool
) -> None:
    fake_squeue(tmp_path, body, rc)
    seen = login.poll(Target("/none", "7"), jobs=("7",))
    assert seen.asked and seen.queue == {} and bool(seen.silent) == silent


def test_noise_of_a_wrapper_is_a_warning(login: Login, tmp_path: Path) -> None:
    fake_squeue(tmp_path, "maintenance!\n" + row("7"))
    seen = login.poll(Target("/none", "7"), jobs=("7",))
    assert seen.queue["7"].state == "RUNNING"
    assert "maintenance!" in seen.warnings[0]


def test_all_waits_of_a_user_share_a_budget_of_questions(
    login: Login, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_squeue(tmp_path, row("7"))
    place = tmp_path / "runtime"
    place.mkdir()
    monkeypatch.setitem(login.environment, "XDG_RUNTIME_DIR", str(place))

    def ask(budget: int) -> Poll:
        return login.poll(Target("/none", "7"), jobs=("7",), budget=budget)

    asked = [ask(3).asked for _number in range(12)]
    # The minute may turn meanwhile, and then three more are free.
    assert asked[:3] == [True] * 3 and 3 <= sum(asked) <= 6
    held = ask(1)
    assert (held.spent, held.asked, held.queue) == (True, False, {})
    assert ask(0).asked, "no limit"
    (counted,) = place.glob("rankzero-*/asked.*")
    assert counted.stat().st_size >= 1 and counted.parent.stat().st_mode & 0o777 == 0o700
    # The last one to wait takes the folder along; before that another one counts in it.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    minute = int(counted.name.partition(".")[2]) * 60.0
    (counted.parent / "asked.1").touch()
    budget.drop(counted.stat().st_size - 1, clock=lambda: minute)
    assert list(counted.parent.iterdir()) == [counted]
    budget.drop(counted.stat().st_size, clock=lambda: minute)
    assert list(place.iterdir()) == []
    budget.drop(1)
    (place / f"rankzero-{os.getuid()}").symlink_to(tmp_path)
    (tmp_path / "asked.1").touch()
    budget.drop(10**6)
    assert ask(1).asked, "nothing is counted in a folder that is not the user's own"
    assert [path.name for path in tmp_path.glob("asked.*")] == ["asked.1"], "a link is not followed"


def test_jobs_can_be_asked_about_whose_folders_are_not_looked_at(login: Login, tmp_path: Path) -> None:
    fake_squeue(tmp_path, row("7") + row("9"))
    assert set(login.poll(Target("/none", "7"), jobs=("7", "9", "7")).queue) == {"7", "9"}
    assert "--jobs=7,9\n" in (tmp_path / "args").read_text()


def test_more_jobs_than_a_command_takes_are_listed_by_user(login: Login, tmp_path: Path) -> None:
    fake_squeue(tmp_path, row("7") + row("20007"))
    polled = login.poll(Target("/none", "7"), jobs=tuple(str(number) for number in range(7, 20_008)))
    assert polled.asked and not polled.silent and set(polled.queue) == {"7", "20007"}
    assert f"--user={os.getuid()}\n" in (tmp_path / "args").read_text()


def test_a_log_by_its_name_read_whole(login: Login, run_dir: Path) -> None:
    logs = run_dir / "logs" / "0"
    (logs / "rank-0000.log").write_text("first rank\n")
    (logs / "rank-0001.log").write_bytes(b"a" * 300_000 + b"b" * 100_000)
    (run_dir / "logs" / "job.7.log").write_text("batch\n")
    chunk = login.poll(Target(str(run_dir), "7", log="rank-0001.log", whole=True)).views[0].log
    assert chunk is not None and (chunk.start, chunk.size, set(chunk.content)) == (0, 262_144, {"a"})
    chunk = login.poll(Target(str(run_dir), "7", 0, chunk.size, log="rank-0001.log", whole=True)).views[0].log
    assert chunk is not None and (chunk.start, chunk.size, chunk.content[-1]) == (262_144, 400_000, "b")
    chunk = login.poll(Target(str(run_dir), "7", log="job.7.log")).views[0].log
    assert chunk is not None and chunk.content == "batch\n"
    assert login.poll(Target(str(run_dir), "7", log="rank-0009.log")).views[0].log is None


def test_an_artifact_is_judged_once_it_is_listed_and_nothing_that_the_run_names_is_executed(
    login: Login, run_dir: Path
) -> None:
    planted = run_dir / "outcome.py"
    planted.write_text(f"open({str(run_dir / 'canary')!r}, 'w'); raise SystemExit(0)\n")
    (run_dir / "job.sbatch").write_text(f"export RANKZERO_RUNTIME={run_dir}\n")
    run = Run(run_dir).contract(path="out/x.json", require={"loss": {"lt": 2}}).numbered()
    target = Target(str(run_dir), "7", artifact=f"{run_dir}/work/out/x.json")
    assert not login.poll(target).views[0].proven
    place = run_dir / "work" / "out"
    place.mkdir(parents=True)
    (place / "x.json").write_text('{"loss": 3}')
    assert not login.poll(target).views[0].proven
    (place / "x.json").write_text('{"loss": 1}')
    assert login.poll(target).views[0].proven
    (place / "x.json").rename(place / "first.json")
    (place / "x.json").symlink_to("first.json")
    assert login.poll(target).views[0].proven, "a link in a run of one's own is followed"
    (place / "x.json").unlink()
    os.mkfifo(place / "x.json")
    assert not login.poll(target).views[0].proven
    run.altered("contract.json", artifact={"path": "../../x.json", "format": 7})
    assert not login.poll(target).views[0].proven
    assert not (run_dir / "canary").exists()


@pytest.mark.parametrize("name", ["claim", "started.json", "outcome.json"])
def test_a_pipe_a_link_and_a_file_that_others_may_write_are_named_and_not_read(
    login: Login, run_dir: Path, name: str
) -> None:
    target = Target(str(run_dir), "7")
    os.mkfifo(run_dir / name)
    assert str(run_dir / name) in login.poll(target).views[0].untrusted
    (run_dir / name).unlink()
    (run_dir / name).symlink_to("/etc/hostname")
    assert "is a link" in login.poll(target).views[0].untrusted
    (run_dir / name).unlink()
    (run_dir / name).write_text('{"success": true, "attempt": 0}')
    (run_dir / name).chmod(0o666)
    assert "can be written by everybody" in login.poll(target).views[0].untrusted


def test_logs_are_neither_pipes_nor_links_that_lead_away(login: Login, run_dir: Path, tmp_path: Path) -> None:
    logs = run_dir / "logs" / "0"
    os.mkfifo(logs / "rank-0000.log")
    (tmp_path / "secret").write_text("secret\n")
    (logs / ".live").symlink_to(tmp_path / "secret")
    assert login.poll(Target(str(run_dir), "7")).views[0].log is None
    (logs / "rank-0001.log").symlink_to(tmp_path / "secret")
    assert login.poll(Target(str(run_dir), "7", log="rank-0001.log")).views[0].log is None


def test_a_poll_without_an_answer_decides_nothing() -> None:
    watch = Watch(RUN, "7")
    assert watch.feed(Poll.of(None), 0.0) == [] and not watch.done


def test_a_poll_that_does_not_ask_the_queue_starts_no_other_program(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    (view,) = remote_poll.answer(Request((Target(str(run_dir), "7"),))).views
    assert view.exists


def test_the_request_of_another_release_is_refused() -> None:
    with pytest.raises(RankzeroError, match="x_request"):
        Request.of({**Request(()).as_dict(), "marker": "@@"})
