# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The walk of somebody who types `rankzero`: plan, run, ls, why, logs, attach, cancel; and the same from Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rankzero
from rankzero import errors
from tests.cluster.launching import RESULT, UNTIL_GO, Site
from tests.json_documents import checked
from tests.repository import BIN, ROOT

SECONDS = 240


class Person:
    """Types commands in a folder with an inventory; `more` are further variables of its login node."""

    def __init__(self, site: Site, **more: Any) -> None:
        self.site = site
        own = {
            "ansible_connection": "local",
            "ansible_shell_executable": str(site.lab.shell),
            "ansible_python_interpreter": "/usr/bin/python3",
            "launch_cluster": site.cluster,
            **site.user.variables(),
            **more,
        }
        (site.folder / "inventory").mkdir()
        content = {"slurm_login": {"hosts": {"login": own}}}
        (site.folder / "inventory" / "hosts.json").write_text(json.dumps(content), encoding="utf-8")

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.starts(sys.executable, "-m", "rankzero", *words)

    def starts(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        return subprocess.run(
            words,
            cwd=self.site.folder,
            env={**environment, "PYTHONPATH": str(ROOT / "python")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def asks(self, *words: str, code: int = errors.OK) -> list[dict[str, Any]]:
        """The launches of the document that --json prints."""
        done = self.types(*words, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        document = json.loads(done.stdout)
        checked(document)
        assert document["schema"] == f"rankzero/{words[0]}/1" and document["exit_code"] == code
        launches: list[dict[str, Any]] = document["launches"]
        return launches


@pytest.fixture
def person(site: Site) -> Person:
    return Person(site)


def test_walk_with_the_command(person: Person) -> None:
    site = person.site
    good = site.write(site.job(RESULT, "good", artifact={"require": {"loss": {"lt": 2}}}), "jobs/good.yml")
    bad = site.write(site.job("echo 'RuntimeError: CUDA out of memory'; exit 1", "bad"), "jobs/bad.yml")
    long = site.write(site.job(UNTIL_GO, "long"), "jobs/long.yml")

    (planned,) = person.asks("plan", good)
    assert planned["submission"] == "planned" and planned["cluster"] == "login"
    (ran,) = person.asks("run", good)
    assert ran["status"]["success"] and ran["status"]["result"] == {"loss": 1.5}
    assert ran["key"] == planned["key"] and Path(ran["logs"]).is_dir()
    (again,) = person.asks("run", good, "-d")
    assert (again["submission"], again["job_id"]) == ("unchanged", ran["job_id"])

    (failed,) = person.asks("run", bad, code=errors.FAILED)
    assert failed["diagnosis"] and not failed["status"]["success"]
    (why,) = person.asks("why", bad)
    assert why["run_dir"] == failed["run_dir"] and why["diagnosis"]["family"] == failed["diagnosis"]["family"]

    (queued,) = person.asks("run", long, "-d")
    assert queued["submission"] == "submitted" and queued["status"] is None
    (active,) = person.asks("ls", "--active")
    assert active["job_id"] == queued["job_id"]
    assert person.types("attach", long, "--timeout", "2").returncode == errors.UNFINISHED
    stopped = person.types("cancel", long)
    assert stopped.returncode == errors.OK and f"job {queued['job_id']} cancelled" in stopped.stdout
    assert person.types("logs", str(ran["job_id"])).returncode == errors.OK

    listed = {launch["run_dir"]: launch["status"]["success"] for launch in person.asks("ls")}
    assert listed == {ran["run_dir"]: True, failed["run_dir"]: False, queued["run_dir"]: False}
    assert person.asks("ls", "--sort", "loss")[0]["run_dir"] == ran["run_dir"], "the only one that has one comes first"
    table = person.types("ls", "--sort=-loss", "-e", "width=80").stdout.splitlines()
    (row,) = [line for line in table if "loss 1.5" in line]
    assert max(map(len, table)) <= 80 and ran["key"][:8] in row and "succeeded" in row, table
    (pulled,) = person.asks("pull", good)
    brought = Path(pulled["dest"]) / "result.json"
    assert json.loads(brought.read_text(encoding="utf-8")) == {"loss": 1.5} and pulled["artifact"]["path"] == str(
        brought
    )
    (again,) = person.asks("pull", good)
    assert again["bytes"] == 0 and again["files"] == pulled["files"]
    assert person.types("pull", good, "nothing").returncode == errors.REFUSED

    assert person.types("cancel", "nobody").returncode == errors.REFUSED


def test_a_pipeline_with_the_command(person: Person) -> None:
    site = person.site
    checked_by = {"require": {"loss": {"lt": 2}}}
    for name in ("first", "second"):
        site.write(site.job(RESULT, name, artifact=checked_by), f"jobs/{name}.yml")
    both = site.write({"jobs": ["jobs/first.yml", "jobs/second.yml"]}, "both.yml")
    planned = person.asks("pipeline", both, "--check")
    assert [row["submission"] for row in planned] == ["planned"] * 2 and site.runs() == []
    first, second = person.asks("pipeline", both)
    assert [row["submission"] for row in (first, second)] == ["submitted"] * 2
    assert first["status"]["success"] and second["status"]["success"] and first["name"] != second["name"]
    manifest = json.loads((site.run_dir(second) / "launch.json").read_text(encoding="utf-8"))
    assert first["key"][:16] in json.dumps(manifest), "the second one follows the first"
    again = person.asks("pipeline", both, "-d")
    assert [(row["submission"], row["run_dir"]) for row in again] == [
        ("unchanged", row["run_dir"]) for row in (first, second)
    ]
    assert len(site.jobs()) == 2


def test_what_a_command_writes_into_the_project_is_not_code(person: Person) -> None:
    site = person.site
    job = site.write(site.job(RESULT, artifact={"require": {"loss": {"lt": 2}}}, code={"src": str(site.folder)}))
    command = f"'{sys.executable}' -m rankzero run {job}"
    playbook = f"'{BIN / 'ansible-playbook'}' -i inventory rankzero.slurm.train -e job={job}"
    for line in (f"{command} > train.log 2>&1", f"{command} 2>&1 | tee tee.log", f"{playbook} | tee play.log"):
        done = person.starts("bash", "-c", f"set -o pipefail; {line}")
        name = line.split()[-1 if "tee " in line else -2]
        assert done.returncode == errors.OK, (site.folder / name).read_text() + done.stderr
        assert f"not code: {name}" in (site.folder / name).read_text()
    reported = person.types("report", job, "-o", "report.html")
    assert reported.returncode == errors.OK and (site.folder / "report.html").is_file(), reported.stderr
    (last,) = person.asks("run", job, "-d")
    assert last["submission"] == "unchanged" and last["generation"] == 1
    assert [path.name for path in (site.host_path(last["run_dir"]).parent.parent).iterdir() if path.is_dir()] == [
        last["key"]
    ]


def test_walk_with_python(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    site, lines = person.site, []
    monkeypatch.chdir(site.folder)
    where = {"inventory": str(site.folder / "inventory"), "listener": lines.append}
    launch = rankzero.run(site.job(RESULT, "good", artifact={"require": {"loss": {"lt": 2}}}), nodes=2, **where)
    assert launch.cluster == "login" and launch.job_id
    assert launch.wait().result["loss"] == 1.5
    site.ended(str(launch.job_id))
    status = launch.status()
    assert status.success and [attempt.slurm_state for attempt in status.attempts] == ["COMPLETED"]
    assert [path.name for path in launch.pull(dest=site.folder / "fetched")] == ["result.json"]
    assert any(path.name == "rank-0000.log" for path in launch.logs(site.folder / "fetched"))
    assert any(status.result and "loss 1.5" in line for line in lines)

    endless = rankzero.run(site.job(UNTIL_GO, "long"), **where)
    with pytest.raises(rankzero.Unfinished):
        endless.wait(timeout=2)
    assert [one.run_dir for one in rankzero.launches(active=True, **where)] == [endless.run_dir]
    assert not endless.cancel().success
    site.ended(str(endless.job_id))
    with pytest.raises(rankzero.LaunchFailed):
        _ = rankzero.attach(str(endless.job_id), **where).result
    failed = rankzero.run(site.job("exit 3", "bad"), **where)
    with pytest.raises(rankzero.LaunchFailed):
        failed.wait()
    assert not failed.diagnosis().healthy
    with pytest.raises(rankzero.Refused):
        rankzero.run({"name": "bad name!", "command": ["x"]}, **where)
