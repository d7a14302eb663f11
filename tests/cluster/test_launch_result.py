# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Success is decided in the job, by its artifact, whatever Slurm and the exit code say, watched or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import (
    CLOSING,
    JOB_SECONDS,
    RESULT,
    UNTIL_GO,
    Played,
    Site,
    log_of,
    nothing_left,
    rank_logs,
    read_json,
)
from tests.repository import leaving, values_of

CONTRACT = {"require": {"loss": {"lt": 2}}}
ENDING = {**CONTRACT, "then": "end"}


@dataclass(frozen=True)
class Case:
    """A program and what must become of it: `state` is Slurm's, `said` stands in the verdict's message.

    A step that was ended from outside has no exit code that means anything.
    """

    program: str
    state: str
    said: str
    ended_by: str = "program"
    exit_code: object = 0
    job_exit: str = "0:0"
    spec: dict[str, Any] = field(default_factory=lambda: {"artifact": CONTRACT})


CASES = {
    "proven": Case(RESULT, "COMPLETED", "the artifact is proven"),
    # The program would sleep for ten minutes, and the tests have no such time.
    "ends-itself": Case(
        f"{RESULT}; sleep 600", "COMPLETED", "the artifact is proven", "artifact", ANY, spec={"artifact": ENDING}
    ),
    "half-written-first": Case(
        """printf '{"loss": 1.' > result.json; sleep 1; printf '5}' >> result.json; sleep 600""",
        *("COMPLETED", "the artifact is proven", "artifact", ANY),
        spec={"artifact": ENDING},
    ),
    "checkpoint-in-the-grace-period": Case(
        f"{RESULT}; sleep 1; touch checkpoint; sleep 600",
        *("COMPLETED", "the artifact is proven", "artifact", ANY),
        # On a busy machine a second is several. The others of the playbook take longer than this one in any case.
        spec={"artifact": {**ENDING, "grace": 12}},
    ),
    "no-contract": Case("true", "COMPLETED", "exit code 0", spec={}),
    "exits-1": Case("exit 1", "FAILED", "exit code 1", exit_code=1, job_exit="1:0"),
    "exits-7-with-artifact": Case(f"{RESULT}; exit 7", "FAILED", "exit code 7", exit_code=7, job_exit="7:0"),
    "one-rank-fails": Case(
        """[ "$RANK" = 0 ] || exit 5; sleep 600""",
        *("FAILED", "exit code 5 (first: task 1 on node"),
        exit_code=5,
        job_exit="5:0",
        spec={"launcher": {"ranks_per_node": 2}},
    ),
    "no-artifact": Case("true", "FAILED", "cannot be read: No such file", job_exit="65:0"),
    "empty": Case(": > result.json", "FAILED", "is empty", job_exit="65:0"),
    "invalid-json": Case("""echo '{"loss": 1.5' > result.json""", "FAILED", "is not valid JSON", job_exit="65:0"),
    "not-a-number": Case("""echo '{"loss": NaN}' > result.json""", "FAILED", "NaN is not JSON", job_exit="65:0"),
    "unmet": Case("""echo '{"loss": 3.5}' > result.json""", "FAILED", "loss: 3.5 is not lt 2", job_exit="65:0"),
    "missing-key": Case("""echo '{"steps": 9}' > result.json""", "FAILED", "loss: is missing", job_exit="65:0"),
}  # fmt: skip


#: Left to `make test-all`: one judge reads every text, and tests/unit/runtime/test_outcome.py has it read these.
MORE = ("empty", "invalid-json", "not-a-number", "missing-key")
#: Whose launches other tests look at, too.
LOOKED_AT = ("proven", "ends-itself", "checkpoint-in-the-grace-period", "exits-1")


@pytest.fixture(scope="module")
def played(
    lab: LabCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[Site, Played]]:
    """All cases of this session launched, waited for, fetched and reported by the role, in one playbook."""
    site = Site(lab, tmp_path_factory.mktemp("result"), "result")
    cases = {host: CASES[host] for host in {*values_of("test_the_verdict_is_the_artifacts", request), *LOOKED_AT}}
    jobs = {host: {"launch_job": site.job(case.program, name=host, **case.spec)} for host, case in cases.items()}
    # An artifact that lies in the repository is none.
    (site.folder / "published").mkdir()
    (site.folder / "published" / "result.json").write_text('{"loss": 0.1}')
    code = {"src": str(site.folder / "published")}
    jobs["published"] = {"launch_job": site.job("true", name="published", code=code, artifact=CONTRACT)}
    yield site, site.play_many(jobs, "--forks=6", wait=True)
    site.close()


@pytest.mark.parametrize("host", leaving(CASES, MORE))
def test_the_verdict_is_the_artifacts(host: str, played: tuple[Site, Played]) -> None:
    site, play = played
    case, launch = CASES[host], play.launch(host)
    assert launch["submission"] == "submitted", launch
    outcome = site.outcome(launch)
    success = case.state == "COMPLETED"
    assert outcome["success"] is success, outcome
    assert case.said in outcome["message"], outcome
    assert (outcome["ended_by"], outcome["exit_code"]) == (case.ended_by, case.exit_code), outcome
    assert (outcome["job_id"], outcome["attempt"]) == (launch["job_id"], 0)
    # Slurm's own word is the same, so that dependants and mails are right too.
    assert site.ended(launch["job_id"]) == case.state
    shown = site.lab.head(["scontrol", "show", "job", launch["job_id"]]).stdout
    assert f"ExitCode={case.job_exit}" in shown.split(), shown
    said = log_of(site.run_dir(launch), launch["job_id"])
    assert f"[rankzero] {'success' if success else 'failure'}: " in said and case.said in said, said
    # And so is what the role makes of it.
    (waited,) = play.results("rankzero.slurm.job_wait", host)
    assert (waited["completed"], waited["success"]) == (True, success), waited
    # It waits some seconds for Slurm to close the job; a busy machine takes longer. Slurm's last word is above.
    assert waited["slurm_state"] in (case.state, *CLOSING), waited
    (report,) = play.results("rankzero.slurm.job_report", host)
    assert report["failed"] is not success and report["standing"] == ("succeeded" if success else "failed"), report
    assert f"job {launch['job_id']}, generation 1: submitted" in play.output


def test_a_failure_of_any_launch_fails_the_playbook(played: tuple[Site, Played]) -> None:
    assert played[1].rc == 2


def test_values_of_a_proven_artifact_are_kept(played: tuple[Site, Played]) -> None:
    site, play = played
    artifact = site.outcome(play.launch("proven"))["artifact"]
    assert artifact["valid"] and artifact["scalars"] == {"loss": 1.5} and artifact["errors"] == []
    assert artifact["bytes"] == len((site.run_dir(play.launch("proven")) / "work" / "result.json").read_bytes())


def test_a_checkpoint_is_written_in_the_grace_period(played: tuple[Site, Played]) -> None:
    site, play = played
    assert (site.run_dir(play.launch("checkpoint-in-the-grace-period")) / "work" / "checkpoint").exists()


def test_an_artifact_of_the_repository_proves_nothing(played: tuple[Site, Played]) -> None:
    site, play = played
    outcome = site.outcome(play.launch("published"))
    assert outcome["success"] is False and "cannot be read" in outcome["message"], outcome


def test_nothing_runs_on_after_a_job_has_ended_itself(played: tuple[Site, Played]) -> None:
    """The allocation is free, and so are the nodes: no step, no rank, no watcher is left behind."""
    site, play = played
    nothing_left(site, play.launch("ends-itself"))


def test_a_job_ends_itself_without_its_controller(site: Site) -> None:
    """The laptop falls asleep right after the submission: the artifact still ends the job."""
    job = site.job(f"{UNTIL_GO}; {RESULT}; sleep 600", artifact=ENDING)
    play = site.start(job, wait=True)
    site.lab.wait_until(lambda: ": submitted;" in play.output, JOB_SECONDS, "the job is submitted")
    play.signal(signal.SIGKILL)
    assert play.process.wait(30) == -signal.SIGKILL
    (run,) = site.runs()
    site.wait_for(run / "work").joinpath("go").touch()
    outcome = read_json(site.wait_for(run / "outcome.json"))
    assert (outcome["success"], outcome["ended_by"]) == (True, "artifact")
    assert site.ended(outcome["job_id"]) == "COMPLETED"
    # Whoever comes back finds it done, with its logs.
    back = site.play(job, wait=True)
    assert back.rc == 0, back.output
    assert back.launch()["submission"] == "unchanged"
    assert (site.folder / "runs").exists()


def test_a_requeued_job_keeps_its_launch(site: Site) -> None:
    """Same job id, same claim, same generation; logs and verdict of each attempt apart; no stale artifact counts."""
    say = 'echo "this is attempt $RANKZERO_ATTEMPT"'
    writes = site.job(f"{say}; {RESULT}; {UNTIL_GO}", name="writes", artifact=CONTRACT)
    stale = site.job(f"{say}; [ $RANKZERO_ATTEMPT = 1 ] || {RESULT}; {UNTIL_GO}", name="stale", artifact=CONTRACT)
    jobs = {"writes": {"launch_job": writes}, "stale": {"launch_job": stale}}
    first = site.play_many(jobs)
    launches = {host: first.launch(host) for host in jobs}
    for launch in launches.values():
        site.wait_for(site.run_dir(launch) / "work" / "result.json")
        site.lab.head(["scontrol", "requeue", launch["job_id"]])
    # Waiting for its second attempt it is still the same launch.
    again = site.play_many(jobs)
    for host, launch in launches.items():
        assert (again.launch(host)["submission"], again.launch(host)["job_id"]) == ("adopted", launch["job_id"])
    for host, launch in launches.items():
        run = site.run_dir(launch)
        # The ranks of an attempt begin after its started.json, of which there is none between two attempts.
        site.wait_for(run / "logs" / "1" / "rank-0000.log")
        assert read_json(run / "started.json")["attempt"] == 1
        site.go(launch)
        outcome = site.outcome(launch)
        assert (outcome["job_id"], outcome["attempt"]) == (launch["job_id"], 1)
        assert outcome["success"] is (host == "writes"), outcome
        assert (run / "claim").read_text().split()[0::2] == ["1", launch["job_id"]]
        for attempt in (0, 1):
            said = rank_logs(run, attempt)["rank-0000.log"]
            assert f"this is attempt {attempt}" in said and f"this is attempt {1 - attempt}" not in said, said
        job_log = log_of(run, launch["job_id"])
        assert "attempt 0 on" in job_log and "attempt 1 on" in job_log, "the requeue does not empty the job's log"
    assert "is older than this attempt" in site.outcome(launches["stale"])["message"]
    assert len(site.runs()) == 2


#: Runs on the head: takes what is posted, a line each.
RECEIVER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(sys.argv[1], "a") as stream:
            stream.write(json.dumps({"path": self.path, "event": body["event"], "repeated": body["repeated"],
                                     "client": self.client_address[0]}) + chr(10))
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("", 0), Handler)
with open(sys.argv[1] + ".port", "w") as stream:
    stream.write(str(server.server_address[1]) + chr(10))
server.serve_forever()
"""


@pytest.fixture
def receiver(site: Site) -> Iterator[tuple[str, Path]]:
    """The address of a receiver of webhooks on the head, which the nodes reach, and the file with what was posted."""
    posts = site.host_path(f"{site.state_root}.posts")
    posts.parent.mkdir(parents=True, exist_ok=True)
    words = ["/usr/bin/python3", "-c", RECEIVER, f"{site.state_root}.posts"]
    process = subprocess.Popen([str(site.lab.dir / "bin" / "head"), *words], stdin=subprocess.DEVNULL)
    try:
        port = site.wait_for(posts.with_name(f"{posts.name}.port"))
        site.lab.wait_until(lambda: port.read_text(encoding="utf-8").endswith("\n"), what="its port")
        address = site.lab.head(["hostname", "-I"]).stdout.split()[0]
        yield f"http://{address}:{port.read_text(encoding='utf-8').strip()}", posts
    finally:
        process.kill()
        process.wait()


def kill_with_its_workers(pid: int) -> None:
    """Ansible's workers are sessions of their own, and would go on without the program."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    os.kill(pid, signal.SIGKILL)
    for child in map(int, children):
        kill_with_its_workers(child)


def test_each_message_is_sent_once_by_the_wait_the_job_or_a_timer(site: Site, receiver: tuple[str, Path]) -> None:
    """The command is killed after the first step: the rest is the job's and the timer's."""
    url, posts = receiver
    address = site.host_path(f"{site.state_root}.url")
    address.touch(mode=0o600)
    address.write_text(f"{url}/both/s3cr3t\n", encoding="utf-8")
    site.user.give(address)
    everything = ["started", "first_step", "failed", "proven"]
    both = {"url_file": f"{site.state_root}.url", "events": everything, "from_job": True}
    waits = {"url_env": "RANKZERO_NOTIFY_TEST", "events": everything}
    env = {"RANKZERO_NOTIFY_TEST": f"{url}/waits/s3cr3t"}
    # A proxy of this machine knows no way to the lab.
    run_it = 'exec /bin/sh "$@"'
    text = f"""exec "$LAB_SHELL" -c 'export no_proxy="*"; {run_it}' sh "$@\""""
    direct = {"ansible_shell_executable": site.shell("direct", text)}
    # A timer has its variables on the login node itself.
    on_head = text.replace("export ", f"export RANKZERO_NOTIFY_TEST={env['RANKZERO_NOTIFY_TEST']} ")
    of_timer = {"ansible_shell_executable": site.shell("timer", on_head)}

    def told(path: str) -> list[str]:
        lines = [json.loads(line) for line in posts.read_text(encoding="utf-8").splitlines()] if posts.exists() else []
        assert not any(line["repeated"] for line in lines)
        return [line["event"] for line in lines if line["path"] == f"/{path}/s3cr3t"]

    job = site.job(f"echo step 1/2 loss 2.5; {UNTIL_GO}; {RESULT}", notify=[both, waits], artifact=CONTRACT)
    play = site.start(job, wait=True, env=env, **direct)
    site.lab.wait_until(lambda: len(told("waits")) == len(told("both")) == 2, JOB_SECONDS, "start and first step")
    assert "was not told" not in play.output, play.output
    (run,) = site.runs()
    # What has arrived is noted a moment later, and a sender that is killed in between has it sent once more.
    noted = lambda: len(list((run / "notify").glob("*.sent"))) == 4  # noqa: E731
    site.lab.wait_until(noted, JOB_SECONDS, "the four messages are noted as sent")
    kill_with_its_workers(play.process.pid)
    play.process.wait()
    (site.wait_for(run / "work") / "go").touch()
    site.ended(read_json(run / "started.json")["job_id"])
    assert (sorted(told("both")), told("waits")) == (["first_step", "proven", "started"], ["started", "first_step"])
    timer = {"playbook": "rankzero.slurm.notify", "launch_wait": None, "launch_logs_dest": None, **of_timer}
    shown = site.play(None, "--check", **timer)
    assert shown.rc == 0 and told("waits") == ["started", "first_step"], shown.output
    for _number in range(2):
        done = site.play(None, **timer)
        assert done.rc == 0, done.output
    assert told("waits") == ["started", "first_step", "proven"] and len(told("both")) == 3
    assert not list(site.host_path(f"{site.state_root}/notify").iterdir()), "a timer has nothing left to look at"
    followed = site.play(
        None,
        playbook="rankzero.slurm.attach",
        run_dir=f"{site.state_root}/runs/" + "/".join(run.parts[-3:]),
        launch_wait=None,
        launch_logs_dest=None,
        env=env,
        **direct,
    )
    assert followed.rc == 0 and len(told("waits")) == len(told("both")) == 3, followed.output
    written = [path for path in run.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in written if b"s3cr3t" in path.read_bytes()], "no address in the run directory"
    assert "s3cr3t" not in play.output + shown.output + done.output + followed.output
