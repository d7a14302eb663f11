# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""run on real Slurm, with and without ansible-playbook: the same requests, screens and exit codes, and one job."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest

import rankzero
from rankzero import errors
from rankzero.direct import directly
from rankzero.direct_launch import MOST_CODE
from rankzero.parsing import parse
from rankzero.verbs import call_of
from tests.cluster.launching import JOB_SECONDS, RESULT, UNTIL_GO, Site
from tests.cluster.typist import Typist
from tests.repository import ROOT
from tests.terminals import Terminal

PROVEN = {"require": {"loss": {"lt": 2}}}
#: In place of ssh: carries out the command, and loses the answer to the first call of module job.
LOSING = """
for last; do :; done
input=$(mktemp); cat > "$input"
sh -c "$last" < "$input" > "$input.out"; code=$?
if grep -q '"module": "job"' "$input" && [ -e {marks}/lose ]; then
    rm {marks}/lose
    echo "Connection to login closed by remote host." >&2
    exit 255
fi
cat "$input.out"
exit $code
"""


@pytest.fixture
def typist(site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Typist:
    return warmed(Typist(site, monkeypatch, capfd))


def named(path: str) -> str:
    """The name in a job file."""
    name: str = json.loads(Path(path).read_text(encoding="utf-8"))["name"]
    return name


def warmed(typist: Typist) -> Typist:
    """The same, where the code of all its jobs is on the cluster, and that of the modules."""
    done = typist.site.play(typist.site.job("true", "first"), wait=True)
    assert done.rc == 0, done.output
    # The first call of a user leaves the modules there.
    typist.types("ls", playbook=False)
    return typist


def test_a_launch_is_the_same_call_by_both_ways(typist: Typist) -> None:
    site = typist.site
    job = site.write(site.job(RESULT, artifact=PROVEN))
    checked = typist.same("run", job, "--check")
    assert "would be submitted" in checked["out"] and not site.jobs(named(job))
    proven = typist.afresh("run", job)
    assert (
        proven["code"] == errors.OK
        and "Proven" in proven["out"]
        and any("rank-0000" in path for path in proven["files"])
    )
    # It has its result: nothing is submitted.
    assert "Proven" in typist.same("run", job)["out"]
    same = typist.same("run", job, "--json", "--explain")
    (launch,) = json.loads(same["out"])["launches"]
    assert launch["submission"] == "unchanged" and launch["status"]["result"] == {"loss": 1.5}
    assert typist.same("run", job, "-d")["code"] == errors.OK
    assert typist.same("run", "nowhere.yml")["code"] == errors.REFUSED


@pytest.mark.more
def test_a_launch_that_fails_is_the_same_by_both_ways(typist: Typist) -> None:
    site = typist.site
    job = site.write(site.job("echo 'RuntimeError: CUDA out of memory'; exit 1", "bad"))
    failed = typist.afresh("run", job)
    assert failed["code"] == errors.FAILED and "CUDA" in failed["out"] and "rankzero: " in failed["err"]
    assert [call["module"] for call in map(json.loads, failed["asked"])][-1] == "job_diagnosis"
    document = json.loads(typist.types("run", job, "--json", playbook=False)["out"])
    (launch,) = document["launches"]
    assert document["exit_code"] == errors.FAILED and launch["diagnosis"]["what"] in failed["out"]
    assert launch["generation"] == 2 and launch["ledger"] and Path(launch["logs"]).is_dir()


def test_a_queued_launch_is_adopted_by_both_ways_and_runs_once(typist: Typist) -> None:
    site = typist.site
    job = site.write(site.job(UNTIL_GO))
    queued = typist.types("run", job, "-d", playbook=False)
    assert queued["code"] == errors.OK and "To follow it: rankzero attach" in queued["out"]
    assert "adopted" in typist.same("run", job, "-d")["out"]
    again = typist.same("run", job, "-d", "--json")
    (launch,) = json.loads(again["out"])["launches"]
    assert launch["submission"] == "adopted" and len(site.jobs(named(job))) == 1
    site.go(launch)


def test_ctrl_c_leaves_the_job_alone_by_both_ways(typist: Typist) -> None:
    """At a terminal, as a person does."""
    site = typist.site
    job = site.write(site.job(UNTIL_GO))
    (launch,) = json.loads(typist.types("run", job, "-d", "--json", playbook=False)["out"])["launches"]
    ends = []
    for left in (False, True):
        block = "import rankzero.command as c; c.directly = lambda *_: None; " if left else ""
        start = f"{block}from rankzero.command import main; import sys; sys.exit(main(sys.argv[1:]))"
        given = {"PYTHONPATH": str(ROOT / "python")}
        given |= {"ANSIBLE_REMOTE_TMP": "/tmp/rankzero-test-$(id -u)"} if left else {}
        terminal = Terminal([sys.executable, "-c", start, "run", job], Path(os.getcwd()), 120, **given)
        try:
            terminal.read("waiting for the first step")
            terminal.interrupt()
            lines = [line.strip() for line in terminal.read().splitlines()]
            ends.append((terminal.process.wait(), lines[-3:]))
        finally:
            terminal.close()
    assert ends[0] == ends[1] and ends[0][0] == errors.INTERRUPTED
    assert "rankzero: interrupted; the job continues" in ends[0][1][0]
    assert site.jobs(named(job)) == {launch["job_id"]: "RUNNING"}
    site.go(launch)


def test_a_lost_answer_is_not_asked_for_again(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The job may have failed meanwhile, and would be submitted once more."""
    marks = site.folder / "marks"
    marks.mkdir()
    tools = site.folder / "tools"
    tools.mkdir()
    (tools / "ssh").write_text("#!/bin/sh\n" + LOSING.format(marks=marks))
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    typist = warmed(Typist(site, monkeypatch, capfd, ansible_connection="ssh", ansible_host="login.example"))
    inside = f"{site.state_root}-ran"
    ran = site.own(inside)
    ways = []
    for playbook in (False, True):
        job = site.write(site.job(f"echo x >> {inside}/{playbook}; {UNTIL_GO}", f"lost-{playbook}"[:6]))
        (marks / "lose").touch()
        lost = typist.types("run", job, "-d", playbook=playbook)
        assert not (marks / "lose").exists() and lost["code"] == errors.UNREACHABLE
        assert [json.loads(text)["module"] for text in lost["asked"]][-1:] == ["job"]
        assert "closed by remote host" in lost["out"]
        ways.append((lost["code"], [json.loads(text)["module"] for text in lost["asked"]]))
        again = typist.types("run", job, "-d", "--json", playbook=playbook)
        (launch,) = json.loads(again["out"])["launches"]
        assert launch["submission"] == "adopted" and launch["generation"] == 1
        site.wait_for(ran / str(playbook))
        site.go(launch)
    assert ways[0] == ways[1] and (ran / "False").read_text() == "x\n"


def test_edited_code_goes_with_the_call_and_more_is_left_to_a_playbook(typist: Typist) -> None:
    site = typist.site
    edited, own = site.folder / "code" / "own.txt", f"cat own.txt; {RESULT}"
    edited.write_text(site.token, encoding="utf-8")
    job = site.write(site.job(own, artifact=PROVEN))
    assert directly(call_of(parse(["run", job, "--rerun"]))) is None
    done = typist.types("run", job, playbook=False)
    asked = [json.loads(text) for text in done["asked"]]
    assert done["code"] == errors.OK and " sent" in done["out"], done["out"] + done["err"]
    assert [call["module"] for call in asked[:3]] == ["job", "job", "job_wait"]
    (log,) = Path("runs", named(job)).rglob("rank-0000.log")
    assert site.token in log.read_text()
    places = site.host_path(site.cluster["store_root"]).glob(f"code/*/{edited.name}")
    (place,) = [path for path in places if path.read_text() == site.token]
    assert place.stat().st_mode & 0o777 == 0o444
    assert "Proven" in typist.same("run", job)["out"]
    # Of a large tree only what has changed is sent, which is a step of its own.
    edited.write_bytes(os.urandom(MOST_CODE + 1))
    assert directly(call_of(parse(["run", job]))) is None
    assert len(site.jobs(named(job))) == 1


def test_a_program_that_launches_again_and_again_starts_no_playbook(
    typist: Typist, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The Python module; with it, each line comes in the thread that has called."""

    def none() -> str:
        raise AssertionError("a playbook")

    monkeypatch.setattr("rankzero.playbook.ansible_playbook", none)
    site, heard = typist.site, list[tuple[int, str]]()
    jobs = [site.job(RESULT, name, artifact=PROVEN) for name in ("one", "two", "three")]
    launches = [
        rankzero.run(job, listener=lambda line: heard.append((threading.get_ident(), line)), inventory="inventory")
        for job in jobs
    ]
    assert len(site.jobs()) >= 3 and {thread for thread, _line in heard} == {threading.get_ident()}
    assert all(any(launch.key[:8] in line for _thread, line in heard) for launch in launches)
    again = rankzero.attach(jobs[1]["name"], inventory="inventory")
    assert (again.run_dir, again.job_id) == (launches[1].run_dir, launches[1].job_id)
    site.lab.wait_until(lambda: launches[2].status().completed, JOB_SECONDS, "the job has ended")
    assert launches[2].result == {"loss": 1.5} and launches[2].diagnosis().healthy and launches[2].logs()
    assert capfd.readouterr() == ("", "")
    with pytest.raises(rankzero.Refused, match="did you mean"):
        rankzero.run({**jobs[1], "resorces": {}}, inventory="inventory")
