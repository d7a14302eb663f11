# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judge of the artifact, run as the job runs it: a program of its own."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Imported so that these tests run with the library's, under every Python.
from tests.repository import ROOT
from tests.writers import Run

#: Whose verdict it is.
OWNER = ("--key", "k" * 64, "--generation", "1")
PROGRAM = ROOT / "plugins" / "runtime" / "artifact" / "outcome.py"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory whose attempt has begun."""
    made = Run.below(tmp_path).numbered(0).path
    (made / "work").mkdir()
    return made


def contract(run: Path, **artifact: Any) -> None:
    Run(run).contract(**{"path": "result.json", **artifact})


def leave(run: Path, content: str | bytes) -> None:
    (run / "work" / "result.json").write_bytes(content.encode() if isinstance(content, str) else content)


def finish(run: Path, ended_by: str = "program", exit_code: int = 0, message: str = "") -> tuple[int, Any]:
    """(exit code, outcome.json) of the verdict."""
    ended = subprocess.run(
        [
            *(sys.executable, "-I", str(PROGRAM), "finish", str(run), "--job-id", "7", "--attempt", "0", *OWNER),
            *("--started", "1", "--ended-by", ended_by, "--exit-code", str(exit_code), "--message", message),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    outcome = json.loads((run / "outcome.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert f"[rankzero] {'success' if outcome['success'] else 'failure'}: " in ended.stdout
    return ended.returncode, outcome


def judged(run: Path, content: str | bytes, **artifact: Any) -> list[str]:
    """What is wrong with an artifact."""
    contract(run, **artifact)
    leave(run, content)
    _code, outcome = finish(run)
    errors = outcome["artifact"]["errors"]
    assert outcome["success"] is outcome["artifact"]["valid"] is (not errors)
    assert isinstance(errors, list)
    return errors


def test_a_valid_artifact_is_reported_whole(run: Path) -> None:
    contract(run, require={"loss": {"lt": 4.0}})
    leave(run, '{"loss": 2.5, "steps": 10, "ok": true, "name": "x", "deep": {"a": 1}, "list": [1], "none": null}')
    code, outcome = finish(run)
    assert code == 0
    assert outcome.pop("time") > 1
    artifact = outcome.pop("artifact")
    assert artifact.pop("sha256") == hashlib.sha256((run / "work" / "result.json").read_bytes()).hexdigest()
    assert outcome == {
        "job_id": "7",
        "attempt": 0,
        "started": 1.0,
        "exit_code": 0,
        "ended_by": "program",
        "success": True,
        "message": "the artifact is proven; the program ended with exit code 0",
        "unfit_nodes": {},
        "together": None,
        "key": OWNER[1],
        "generation": 1,
    }
    assert artifact == {
        "path": str(run / "work" / "result.json"),
        "valid": True,
        "bytes": 96,
        "scalars": {"loss": 2.5, "steps": 10, "ok": True, "name": "x"},
        "required": ["loss"],
        "errors": [],
    }


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "is empty"),
        ("{", "is not valid JSON"),
        ('{"loss": 1.0', "is not valid JSON"),
        ('{"loss": NaN}', "is not valid JSON: NaN is not JSON"),
        ('{"loss": -Infinity}', "is not valid JSON: -Infinity is not JSON"),
        ('{"loss": -1e999}', "is not valid JSON: -1e999 is too large for a number"),
        ("[1]", "must be a JSON object, not a list"),
        ("3", "must be a JSON object, not a int"),
        (b"\xff\xfe{}", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"loss": 1.0} {"loss": 2.0}', "is not valid JSON"),
    ],
)
def test_what_is_no_json_object_proves_nothing(run: Path, content: str | bytes, error: str) -> None:
    (found,) = judged(run, content)
    assert found.startswith(error)


@pytest.mark.parametrize(
    ("require", "error"),
    [
        ({"loss": {}}, None),
        ({"loss": {"lt": 4}}, None),
        ({"loss": {"lt": 2.5}}, "loss: 2.5 is not lt 2.5"),
        ({"loss": {"le": 2.5, "ge": 2.5, "gt": 2, "ne": 3, "eq": 2.5}}, None),
        ({"loss": {"gt": 2.5}}, "loss: 2.5 is not gt 2.5"),
        ({"loss": {"ne": 2.5}}, "loss: 2.5 is not ne 2.5"),
        ({"eval.loss": {"lt": 3}}, None),
        ({"eval.none.x": {}}, "eval.none.x: is missing"),
        ({"loss.x": {}}, "loss.x: is missing"),
        ({"a.b": {"eq": 1}}, None),
        ({"accuracy": {}}, "accuracy: is missing"),
        ({"ok": {"eq": True}}, None),
        ({"ok": {"eq": False}}, "ok: True is not eq False"),
        ({"ok": {"eq": 1}}, "ok: True is not eq 1"),
        ({"ok": {"lt": 4.0}}, "ok: True is not lt 4"),
        ({"ok": {"ne": 1}}, None),
        ({"name": {"eq": "x"}}, None),
        ({"name": {"lt": 4}}, "name: 'x' is not lt 4"),
        ({"eval": {"lt": 4}}, "eval: {'loss': 2} is not lt 4"),
    ],
)
def test_requirements(run: Path, require: dict[str, Any], error: str | None) -> None:
    document = {"loss": 2.5, "eval": {"loss": 2}, "ok": True, "name": "x", "a.b": 1, "a": {"b": 2}}
    assert judged(run, json.dumps(document), require=require) == ([error] if error else [])


def test_every_requirement_that_fails_is_named(run: Path) -> None:
    errors = judged(run, '{"a": 1}', require={"a": {"gt": 2, "lt": 0}, "b": {}})
    assert errors == ["a: 1 is not gt 2", "a: 1 is not lt 0", "b: is missing"]


def test_a_missing_artifact(run: Path) -> None:
    contract(run)
    code, outcome = finish(run)
    assert code == 65
    assert outcome["artifact"]["errors"] == ["cannot be read: No such file or directory"]
    assert outcome["message"].endswith("work/result.json cannot be read: No such file or directory")


def test_an_artifact_of_an_earlier_attempt_proves_nothing(run: Path) -> None:
    contract(run)
    leave(run, "{}")
    before = (run / ".attempt").stat().st_mtime - 10
    os.utime(run / "work" / "result.json", (before, before))
    code, outcome = finish(run)
    assert (code, outcome["artifact"]["errors"]) == (65, ["is older than this attempt"])


def test_any_file_will_do_where_the_format_is_any(run: Path) -> None:
    assert judged(run, b"\0binary", format="any") == []
    assert judged(run, "", format="any") == ["is empty"]


@pytest.mark.parametrize("kind", ["any", "json"])
def test_a_pipe_or_a_folder_is_no_artifact(run: Path, kind: str) -> None:
    contract(run, format=kind)
    os.mkfifo(run / "work" / "result.json")
    assert finish(run)[1]["artifact"]["errors"] == ["is not a regular file"]
    (run / "work" / "result.json").unlink()
    (run / "work" / "result.json").mkdir()
    assert finish(run)[1]["artifact"]["errors"] == ["is not a regular file"]


#: ended_by, exit code of the program, artifact (None: none is asked for) -> success, exit code of the job, message
VERDICTS = [
    ("program", 0, None, True, 0, "the program ended with exit code 0"),
    ("program", 3, None, False, 3, "the program ended with exit code 3"),
    ("program", 137, None, False, 137, "the program ended with exit code 137"),
    ("program", 0, "{}", True, 0, "the artifact is proven; the program ended with exit code 0"),
    ("program", 3, "{}", False, 3, "the program ended with exit code 3"),
    ("program", 0, "[", False, 65, "the artifact PATH is not valid JSON: Expecting value: line 1 column 2 (char 1)"),
    ("program", 3, "[", False, 3, "the program ended with exit code 3"),
    ("artifact", 143, "{}", True, 0, "the artifact is proven; the job ended itself"),
    ("artifact", 0, "{}", True, 0, "the artifact is proven; the job ended itself"),
    ("artifact", 143, "", False, 65, "the artifact PATH is empty"),
    ("signal", 143, None, False, 143, "ended by a signal (cancelled, time limit or preemption)"),
    ("signal", 0, None, False, 143, "ended by a signal (cancelled, time limit or preemption)"),
    ("signal", 0, "{}", False, 143, "ended by a signal (cancelled, time limit or preemption)"),
    ("signal", 9, "[", False, 9, "ended by a signal (cancelled, time limit or preemption)"),
    ("setup", 78, None, False, 78, "why"),
    ("setup", 78, "{}", False, 78, "why"),
]


@pytest.mark.parametrize(("ended_by", "exit_code", "artifact", "success", "job_code", "message"), VERDICTS)
def test_verdict(
    run: Path, ended_by: str, exit_code: int, artifact: str | None, success: bool, job_code: int, message: str
) -> None:
    if artifact is None:
        Run(run).contract()
    else:
        contract(run)
        leave(run, artifact)
    code, outcome = finish(run, ended_by, exit_code, "why" if ended_by == "setup" else "")
    assert (outcome["success"], code) == (success, job_code)
    assert outcome["message"] == message.replace("PATH", str(run / "work" / "result.json"))
    assert (outcome["exit_code"], outcome["ended_by"]) == (exit_code, ended_by)
    assert (outcome["artifact"] is None) is (artifact is None)
    assert [path.name for path in run.iterdir() if path.name.endswith(".tmp")] == []


def test_a_batch_script_that_knows_more_of_a_signal_says_it(run: Path) -> None:
    Run(run).contract()
    code, outcome = finish(run, "signal", 0, "requeued: attempt 2 of at most 6 follows")
    assert (code, outcome["success"]) == (143, False)
    assert outcome["message"] == "requeued: attempt 2 of at most 6 follows"


@pytest.mark.parametrize(("artifact", "code"), [("{}", 0), ("[", 1), (None, 1)])
def test_proven_says_whether_the_artifact_is_valid_now(run: Path, artifact: str | None, code: int) -> None:
    contract(run)
    if artifact is not None:
        leave(run, artifact)
    assert subprocess.run([sys.executable, "-I", PROGRAM, "proven", str(run)], check=False).returncode == code


def test_a_verdict_that_the_locale_cannot_print_is_written_all_the_same(run: Path) -> None:
    Run(run).contract()
    words = [str(PROGRAM), "finish", str(run), "--job-id", "7", "--attempt", "0", *OWNER, "--started", "1"]
    words += ["--ended-by", "setup", "--exit-code", "3", "--message", "gr\xf6\xdfe"]
    # -I ignores PYTHONIOENCODING: the stream is made what an ASCII locale makes it.
    program = (
        "import runpy, sys; sys.stdout.reconfigure(encoding='ascii', errors='strict'); "
        f"sys.argv = {words!a}; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "[rankzero] failure: gr\\xf6\\xdfe\n")
    assert json.loads((run / "outcome.json").read_text(encoding="utf-8"))["message"] == "gr\xf6\xdfe"


def test_without_a_contract_there_is_no_success(run: Path) -> None:
    for text in ("", "{}", "{"):
        (run / "contract.json").write_text(text, encoding="utf-8")
        ended = subprocess.run(
            [
                *(sys.executable, "-I", str(PROGRAM), "finish", str(run), "--job-id", "7", "--attempt", "0", *OWNER),
                *("--started", "1", "--ended-by", "program", "--exit-code", "0"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 65
        assert "contract.json cannot be read" in ended.stdout
        assert not (run / "outcome.json").exists()


class Watch:
    """`outcome.py watch`, and the process that it signals."""

    def __init__(self, run: Path) -> None:
        told = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}); print(flush=True); "
        self.told = subprocess.Popen(
            [sys.executable, "-c", told + "signal.sigwait({signal.SIGUSR1}); print('landed', flush=True)"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.told.stdout is not None
        self.told.stdout.readline()
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(PROGRAM), "watch", str(run), "--signal-to", str(self.told.pid)]
        )

    def landed(self) -> bool:
        assert self.process.wait(timeout=60) == 0
        said, _ = self.told.communicate(timeout=60)
        return "landed" in said

    def silent(self) -> bool:
        """It has judged what is there and goes on watching. It polls four times a second."""
        try:
            self.process.wait(timeout=1.2)
        except subprocess.TimeoutExpired:
            return self.told.poll() is None
        return False

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.process, self.told):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        if self.told.stdout:
            self.told.stdout.close()


def test_watch_waits_for_a_valid_artifact(run: Path) -> None:
    contract(run, require={"loss": {"lt": 4}})
    with Watch(run) as watch:
        assert watch.silent()
        leave(run, '{"loss"')
        assert watch.silent()
        leave(run, '{"loss": 5.0}')
        assert watch.silent()
        leave(run, '{"loss": 3.0, "more": 1}')
        assert watch.landed()


def test_watch_waits_until_a_file_of_any_format_rests(run: Path) -> None:
    contract(run, format="any")
    with Watch(run) as watch:
        leave(run, "half")
        assert watch.landed()


SRUN_SAYS = """[rankzero] job 7 attempt 0 on node01 node02; master node01:15259
srun: error: node02: task 3: Exited with exit code 5
srun: launch/slurm: _step_signal: Terminating StepId=7.0
srun: error: node01: tasks 0-1: Terminated
"""


def test_the_exit_code_is_that_of_the_task_that_ended_first(run: Path) -> None:
    """srun returns the largest code: 143, of the ranks that were ended for the one that failed."""
    Run(run).contract()
    (run / "logs" / "job.7.log").write_text(SRUN_SAYS, encoding="utf-8")
    code, outcome = finish(run, exit_code=143)
    assert (code, outcome["exit_code"]) == (5, 5)
    assert outcome["message"] == (
        "the program ended with exit code 5 (first: task 3 on node02, Exited with exit code 5)"
    )


def test_a_task_ended_by_a_signal_leaves_the_exit_code_of_srun(run: Path) -> None:
    Run(run).contract()
    (run / "logs" / "job.7.log").write_text("srun: error: node01: task 0: Out Of Memory\n", encoding="utf-8")
    code, outcome = finish(run, exit_code=137)
    assert (code, outcome["exit_code"]) == (137, 137)
    assert outcome["message"].endswith("(first: task 0 on node01, Out Of Memory)")


def test_what_an_earlier_attempt_left_in_the_log_says_nothing_of_this_one(run: Path) -> None:
    Run(run).contract()
    text = SRUN_SAYS.replace("attempt 0", "attempt 1").replace("exit code 5", "exit code 9")
    (run / "logs" / "job.7.log").write_text(text + SRUN_SAYS, encoding="utf-8")
    assert finish(run, exit_code=143)[1]["exit_code"] == 5
    (run / "logs" / "job.7.log").write_text(SRUN_SAYS, encoding="utf-8")
    assert finish(run, exit_code=0)[1]["success"] is True


def test_what_seems_invalid_is_read_again_under_a_new_name(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system may show a file as it was; tests/cluster/test_site.py has one that does."""
    found = importlib.util.spec_from_file_location("outcome", PROGRAM)
    assert found and found.loader
    outcome = importlib.util.module_from_spec(found)
    found.loader.exec_module(outcome)
    leave(run, '{"loss": 1.0}')
    artifact = {"path": "result.json", "format": "json", "require": {}}
    true, names = outcome.inspect, []

    def stale(run_dir: str, asked: dict[str, Any], path: str | None = None) -> dict[str, Any]:
        names.append(path)
        report: dict[str, Any] = true(run_dir, asked, path)
        return report if path else {**report, "valid": False, "errors": ["is still being written"]}

    monkeypatch.setattr(outcome, "inspect", stale)
    report = outcome.settled(str(run), artifact)
    assert report["valid"] and report["path"] == str(run / "work" / "result.json")
    assert len(names) == 2 and names[0] is None
    assert os.listdir(run / "work") == ["result.json"], "nothing is left"
