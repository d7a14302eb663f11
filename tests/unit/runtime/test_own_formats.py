# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A format that a cluster declares: its program judges the artifact in the job, and nowhere else."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.course.key import key_of
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import manifest
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import details
from ansible_collections.rankzero.slurm.plugins.module_utils.run.artifact import proof_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.own_formats import OWN_FORMATS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid
from ansible_collections.rankzero.slurm.plugins.module_utils.watch import remote_poll
from tests.unit.plan.containers import planned, problems
from tests.unit.runtime.harness import Site
from tests.unit.runtime.test_formats import outcome, program
from tests.writers import Run

ARTIFACT = {"path": "result.txt", "format": "lines"}
LINES = {"command": ["wc", "-l", "{path}"], "values": False}
#: Prints how many lines it reads.
COUNT = "import json, sys; print(json.dumps({'lines': len(sys.stdin.readlines())}))"


def declared(**formats: Any) -> ClusterSettings:
    return ClusterSettings(artifact_formats=OWN_FORMATS.parse(formats))


def python(program: str, **record: Any) -> dict[str, Any]:
    return {"command": [sys.executable, "-c", program], **record}


def runs(number: int) -> bool:
    """Whether a process is there, and has not ended."""
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / ".attempt").touch()
    (tmp_path / "work" / "result.txt").write_text("a\nb\n", encoding="utf-8")
    return tmp_path


def judged(run: Path, record: dict[str, Any], env: dict[str, str] | None = None, **artifact: Any) -> dict[str, Any]:
    """The report on result.txt, judged by the program of a record."""
    Run(run).launch({"artifact": {**ARTIFACT, **artifact}}, settings=declared(lines=record))
    report: dict[str, Any] = outcome.inspect(str(run), outcome.contracted(str(run), env or {"PATH": "/usr/bin:/bin"}))
    return report


def test_it_is_planned_and_in_the_key_and_the_record() -> None:
    given: dict[str, Any] = {"artifact": ARTIFACT}
    assert "launch_cluster.artifact_formats" in problems({}, **given)[0]
    own = declared(lines=LINES)
    assert problems({}, own, **given) == []
    made = planned({}, settings=own, **given)
    assert "proof is judged by wc -l '{path}' (launch_cluster.artifact_formats)" in details(made)
    assert planned({}, settings=declared(lines={**LINES, "doc": "for people"}), **given).key == made.key
    assert planned({}, settings=declared(lines={**LINES, "seconds": 7}), **given).key != made.key
    assert planned({}, settings=declared(other=LINES)).key == planned({}).key, "one that the job does not use"
    document = manifest(made, merge([Layer("job", {"name": "job", "command": ["train.py"], **given})]), {})
    document = json.loads(json.dumps(document))
    assert document["artifact_format"]["command"] == LINES["command"] and key_of(document) == made.key
    document["artifact_format"]["command"].append("-v")
    assert key_of(document) != made.key


def test_values_are_required_only_of_a_program_that_prints_them() -> None:
    given: dict[str, Any] = {"artifact": {**ARTIFACT, "require": {"lines": {"ge": 2}}}}
    assert "artifact.require" in problems({}, declared(lines=LINES), **given)[0]
    assert problems({}, declared(lines={**LINES, "values": True}), **given) == []


def test_its_program_gets_the_file_and_what_it_prints_are_the_values(run: Path) -> None:
    record = python(COUNT, values=True)
    report = judged(run, record, require={"lines": {"ge": 2}})
    assert (report["valid"], report["scalars"]) == (True, {"lines": 2})
    assert judged(run, record, require={"lines": {"ge": 3}})["errors"] == ["lines: 2 is not ge 3"]
    assert judged(run, {**LINES, "command": ["grep", "-q", "b", "{path}"]})["valid"]
    env = {"PATH": "/usr/bin:/bin", "RANKZERO_PYTHON": sys.executable, "RANKZERO_CODE": str(run)}
    (run / "check.py").write_text(COUNT, encoding="utf-8")
    report = judged(run, {"command": ["{python}", "{code}/check.py"], "values": True}, env)
    assert (report["valid"], report["scalars"]) == (True, {"lines": 2})


@pytest.mark.parametrize(
    ("record", "part"),
    [
        (python("import sys; print('first', file=sys.stderr); sys.exit('no\\x1b[31m good')"), "no?[31m good"),
        (python("import sys; sys.exit(3)"), "exit code 3"),
        (python("import os; os.kill(os.getpid(), 9)"), "exit code -9"),
        (python("import time; time.sleep(600)", seconds=1), "has not ended within 1 s"),
        (python("x = bytearray(1 << 31)", memory="500M"), "MemoryError"),
        (python("print('[1]')", values=True), "must be a JSON object"),
        (python("print('{\"a\": NaN}')", values=True), "NaN is not JSON"),
        (python("import sys\nwhile 1: sys.stdout.write('x' * 65536)"), "File too large"),
        ({"command": ["/nonexistent/judge"]}, "/nonexistent/judge cannot be started"),
    ],
)
def test_any_other_end_of_the_program_proves_nothing_and_says_why(run: Path, record: Any, part: str) -> None:
    report = judged(run, record)
    assert report["valid"] is False and part in report["errors"][0]


def test_what_the_program_has_started_ends_with_it(run: Path) -> None:
    """A child that holds its output open is killed, too: its pipe would be read for ever."""
    program = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, file=open('child', 'w'))"
    assert judged(run, python(program))["valid"]
    number = int((run / "work" / "child").read_text())
    until = time.monotonic() + 60
    while runs(number) and time.monotonic() < until:
        time.sleep(0.05)
    assert not runs(number)


def test_the_job_is_proven_by_it(site: Site) -> None:
    own = declared(lines=python(COUNT, values=True))
    spec = {"shell": "printf 'a\\nb\\n' > result.txt", "artifact": {**ARTIFACT, "require": {"lines": {"eq": 2}}}}
    job = site.job(spec, settings=own)
    assert job.finish() == 0, job.log()
    assert job.outcome()["artifact"]["scalars"] == {"lines": 2}


def test_no_wait_starts_the_program(run: Path) -> None:
    """A wait looks from a login node, at runs of others, too."""
    touched = run / "work" / "touched"
    judged(run, {"command": ["touch", str(touched)]})
    assert touched.exists()
    touched.unlink()
    assert not remote_poll.is_proven(remote_poll._Place(str(run)), program("outcome")) and not touched.exists()
    with pytest.raises(RankzeroError, match="lines"):
        proof_of(RunDirectory(str(run)))


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ("wc", "must be a map of doc, command"),
        ({}, "command is required"),
        ({"command": "wc -l"}, "command must be a list"),
        ({"command": []}, "command must not be empty"),
        ({"command": ["wc", "{paths}"]}, "has the unknown {paths}; did you mean path?"),
        ({"command": ["./wc"]}, "command begins with './wc'"),
        ({"command": ["{path}"]}, "command begins with '{path}'"),
        ({"command": ["wc"], "seconds": 0}, "seconds must be a whole number of seconds from 1 to 600"),
        ({"command": ["wc"], "memory": "much"}, "memory must be a size"),
        ({"command": ["wc"], "value": True}, "has no key 'value'; did you mean values?"),
    ],
)
def test_a_wrong_record_is_refused_with_its_name_its_key_and_what_is_allowed(record: Any, part: str) -> None:
    with pytest.raises(Invalid) as caught:
        OWN_FORMATS.parse({"mine": record})
    assert str(caught.value).startswith("mine ") and part in str(caught.value)


def test_a_folder_is_not_judged_by_a_program() -> None:
    with pytest.raises(Invalid, match="directory"):
        OWN_FORMATS.parse({"directory": LINES})
