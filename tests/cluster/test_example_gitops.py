# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GitOps example: the very commands of its CI files and of its pull script, on the lab."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import LabCluster
from tests.cluster.examples import ALL_LINES
from tests.cluster.lab_user import LabUser
from tests.cluster.launching import JOB_SECONDS
from tests.repository import BIN, ROOT

EXAMPLE = ROOT / "examples" / "gitops"


def github() -> list[str]:
    steps = yaml.safe_load((EXAMPLE / ".github/workflows/reconcile.yml").read_text())["jobs"]["reconcile"]["steps"]
    return [step["run"] for step in steps if "run" in step]


def gitlab() -> list[str]:
    document = yaml.safe_load((EXAMPLE / ".gitlab-ci.yml").read_text())
    jobs = [document[stage] for stage in document["stages"]]
    return [line for job in jobs for line in [*job["script"], *job.get("after_script", ())]]


#: In the place of gh and curl: they keep what they were told, and the body that they would post.
POSTS = """#!/bin/sh
printf '%s\\n' "$0 $*" > posted
for word; do [ "$word" != @- ] || cat >> posted; done
cat plan.md >> posted
"""


class Clone:
    """The example as a repository of its own, and a shell in it as a runner has one."""

    def __init__(self, folder: Path, lab: LabCluster) -> None:
        self.folder, self.lab = folder / "repository", lab
        shutil.copytree(EXAMPLE, self.folder, ignore=shutil.ignore_patterns("runs", "__pycache__"))
        # The place of the example's inventory, where its user has to exist.
        user = LabUser(lab)
        user.place("rankzero")
        (self.folder / "inventory" / "host_vars").mkdir()
        (self.folder / "inventory" / "host_vars" / "lab.yml").write_text(json.dumps(user.variables()))
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def git(self, *arguments: str) -> None:
        settings = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *settings, *arguments], cwd=self.folder, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "jobs")

    def sh(self, command: str, rc: int = 0, **environment: str) -> str:
        variables = {
            **ALL_LINES,
            "PATH": f"{self.folder.parent}:{BIN}:{os.environ['PATH']}",
            "CI": "true",
            "RANKZERO_LAB": str(self.lab.dir),
        }
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env={**os.environ, **variables, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == rc, done.stdout + done.stderr
        return done.stdout + (done.stderr if rc else "")

    def jobs(self) -> dict[str, str]:
        """Job name up to its key -> state, of this example's jobs."""
        listed = self.lab.head(["squeue", "--noheader", "--states=all", "--Format=State:20,Name:200"]).stdout
        words = [line.split() for line in listed.splitlines()]
        return {name.split(".")[0]: state for state, name in words if name.startswith("gitops-")}


def test_every_way_to_reconcile_finds_the_same_launches(lab: LabCluster, tmp_path: Path) -> None:
    (plan, comment, act), (of_gitlab, note, act_too) = github(), gitlab()
    assert (plan, act) == (of_gitlab, act_too), "both CI systems are told the same"
    clone = Clone(tmp_path, lab)
    command = f'#!/bin/sh\nPYTHONPATH={ROOT}/python exec {sys.executable} -P -m rankzero "$@"\n'
    for program, text in (("rankzero", command), ("gh", POSTS), ("curl", POSTS)):
        (tmp_path / program).write_text(text)
        (tmp_path / program).chmod(0o755)
    assert clone.sh(plan) == "" and clone.jobs() == {}
    clone.sh(comment, PULL_REQUEST="7")
    posted = (clone.folder / "posted").read_text()
    assert "pr comment 7" in posted and "| launch | gitops-small \\(small.yml\\) | no launch of this content" in posted
    assert "Launches: 2, at most" in posted
    (clone.folder / "posted").unlink()
    clone.sh(note, CI_MERGE_REQUEST_IID="")
    assert not (clone.folder / "posted").exists(), "no merge request"
    word = "hidden"
    given = {"CI_MERGE_REQUEST_IID": "7", "CI_API_V4_URL": "https://g/api", "CI_PROJECT_ID": "3"}
    clone.sh(note, **given, GITLAB_TOKEN=word)
    first, *rest = (clone.folder / "posted").read_text().splitlines()
    assert first.endswith("https://g/api/projects/3/merge_requests/7/notes") and word not in first
    assert rest[0] == f"PRIVATE-TOKEN: {word}" and rest[1:] == posted.splitlines()[1:]
    (clone.folder / "posted").unlink()

    # What is not committed is no plan that anybody could review.
    (clone.folder / "jobs" / "third.yml").write_text(
        (clone.folder / "jobs" / "small.yml").read_text().replace("gitops-small", "gitops-third")
    )
    refused = clone.sh(act, rc=2)
    assert "jobs differ from commit" in refused and clone.jobs() == {}
    (clone.folder / "jobs" / "third.yml").unlink()
    done = clone.sh(act)
    assert "gitops-large: job" in done and "generation 1: submitted" in done
    assert set(clone.jobs()) == {"gitops-large", "gitops-small"}
    lab.wait_until(lambda: set(clone.jobs().values()) == {"COMPLETED"}, JOB_SECONDS, "both jobs end")

    # ansible-pull, from a clone of its own: what is there is left alone; a spec that was deleted is not missed.
    (clone.folder / "jobs" / "large.yml").unlink()
    clone.commit()
    where: dict[str, Any] = {"REPOSITORY": f"file://{clone.folder}", "CHECKOUT": str(tmp_path / "pulled")}
    pulled = clone.sh("./pull.sh", **where)
    assert "unchanged gitops-small (small.yml, job" in pulled and "gone      gitops-large (job" in pulled
    assert "gitops-large" not in clone.sh("./pull.sh", **where), "that is said once"
    assert len(clone.jobs()) == 2


@pytest.mark.parametrize("name", ["small", "large"])
def test_the_program_runs_by_hand(tmp_path: Path, name: str) -> None:
    job = yaml.safe_load((EXAMPLE / "jobs" / f"{name}.yml").read_text())
    shutil.copy(EXAMPLE / "fit.py", tmp_path)
    done = subprocess.run(["python3", *job["command"]], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "step 200/200" in done.stdout and (tmp_path / "result.json").exists()
