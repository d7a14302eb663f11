# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of specs in git, reconciled with a real cluster by the playbook, as GitOps does it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import UNTIL_GO, Played, Site, read_json

PLAYBOOK = "rankzero.slurm.reconcile"
MODULE = "rankzero.slurm.reconcile"


class Repository:
    """A user's repository of job files, and reconciliations of it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.folder = site.folder / "jobs"
        self.code: dict[str, Any] = {"src": "../code"}
        self.git("init", "--quiet")
        self.git("remote", "add", "origin", f"https://bot:token@git.example.org/{site.token}.git")

    def git(self, *arguments: str) -> str:
        settings = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *settings, *arguments], cwd=self.site.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, **programs: str | None) -> str:
        """Write (None: remove) job files by name, and commit them; the commit."""
        for name, program in programs.items():
            if program is None:
                (self.folder / f"{name}.yml").unlink()
            else:
                job = {**self.site.job(program, name), "code": self.code}
                self.site.write(job, f"jobs/{name}.yml")
        self.git("add", "--all", "jobs", "code")
        self.git("commit", "--quiet", "--message", "jobs")
        return self.git("rev-parse", "HEAD")

    def reconcile(self, *arguments: str, rc: int = 0, **variables: Any) -> tuple[dict[str, Any], Played]:
        """(the last result of the module, the play)"""
        given = {"jobs": "jobs", "launch_wait": None, "launch_logs_dest": None, **variables}
        played = self.site.play(None, *arguments, playbook=PLAYBOOK, **given)
        assert played.rc == rc, played.output
        return played.results(MODULE)[-1], played


def actions(result: dict[str, Any]) -> dict[str, list[str]]:
    """Short name of the job (`a` of `...-a-<token>`) -> its actions."""
    found: dict[str, list[str]] = {}
    for step in result["steps"]:
        found.setdefault(step["name"].split("-")[-2], []).append(step["action"])
    return found


@pytest.fixture
def repository(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Repository]:
    site = Site(lab, tmp_path, request.node.name)
    yield Repository(site)
    site.close()


def test_the_cluster_follows_the_folder(repository: Repository) -> None:
    site = repository.site
    programs = {"a": UNTIL_GO, "b": "echo b", "c": "exit 3"}
    commit = repository.commit(**programs)
    planned, played = repository.reconcile("--check", "--diff")
    assert actions(planned) == {"a": ["launch"], "b": ["launch"], "c": ["launch"]}
    assert site.jobs() == {} and site.runs() == [], "check mode stops at the plan"
    assert "+name: " in played.output and "no launch of this content is there" in played.output

    done, played = repository.reconcile()
    assert actions(done) == {"a": ["launch"], "b": ["launch"], "c": ["launch"]} and done["changed"]
    assert all(step["done"] and step["job_id"] for step in done["steps"])
    launches = {step["name"].split("-")[-2]: step for step in done["steps"]}
    manifest = read_json(site.run_dir(launches["a"]) / "launch.json")
    assert manifest["job_file"] == {
        "repository": f"https://git.example.org/{site.token}.git",
        "commit": commit,
        "branch": repository.git("branch", "--show-current"),
        "dirty": False,
        "folder": "jobs",
        "path": "a.yml",
        "set": f"https://git.example.org/{site.token}.git:jobs",
    }
    code = manifest["code"]
    assert (code["repository"], code["commit"], code["dirty"]) == (manifest["job_file"]["repository"], commit, False)
    site.outcome(launches["b"]), site.outcome(launches["c"])
    site.ended(launches["c"]["job_id"])

    # Again, from another checkout: nothing is launched twice, and the failure stays one.
    elsewhere = site.folder / "elsewhere"
    shutil.copytree(site.folder / ".git", elsewhere / ".git")
    subprocess.run(["git", "checkout", "--quiet", "--force", "HEAD"], cwd=elsewhere, check=True)
    again, played = repository.reconcile(jobs=str(elsewhere / "jobs"))
    assert actions(again) == {"a": ["adopt"], "b": ["unchanged"], "c": ["failed"]} and not again["changed"]
    assert again["active"] == [launches["a"]["run_dir"]]
    assert "the program ended with exit code 3" in played.output and len(site.jobs()) == 3

    # `a` changes while it runs, `b` is removed while nothing of it runs, `c` is mended.
    repository.commit(a=f"true; {UNTIL_GO}", b=None, c="echo mended")
    shown, _played = repository.reconcile("--check")
    (mended,) = [step for step in shown["steps"] if step["action"] == "launch"]
    assert [change for change in mended["changes"] if change.endswith("-> echo mended")], mended
    waiting, _played = repository.reconcile()
    assert actions(waiting) == {"a": ["wait"], "b": ["gone"], "c": ["launch"]}
    assert site.jobs()[launches["a"]["job_id"]] == "RUNNING"
    replaced, _played = repository.reconcile(reconcile_changed="replace")
    assert actions(replaced)["a"] == ["cancel", "launch"]
    assert site.ended(launches["a"]["job_id"]) == "CANCELLED"
    new = next(
        step for step in replaced["steps"] if (step["name"], step["action"]) == (launches["a"]["name"], "launch")
    )
    site.wait_for(site.run_dir(new) / "started.json")

    # And goes: by default its job may end, by policy it is cancelled.
    repository.commit(a=None)
    kept, _played = repository.reconcile()
    assert actions(kept)["a"] == ["keep"] and site.jobs()[new["job_id"]] == "RUNNING"
    ended, _played = repository.reconcile(removed="cancel")
    assert actions(ended)["a"] == ["cancel"] and site.ended(new["job_id"]) == "CANCELLED"


def test_two_reconcilers_at_once_launch_everything_once(repository: Repository) -> None:
    site = repository.site
    repository.commit(**{f"j{number}": f"{UNTIL_GO} # {number}" for number in range(3)})
    variables = {"launch_wait": None, "launch_logs_dest": None, "launch_cluster": None, "reconcile_jobs": "jobs"}
    # The role's own variables, as an inventory has them.
    variables |= {"reconcile_cluster": site.cluster, "reconcile_set": "mine", "reconcile_removed": "keep"}
    variables |= {"reconcile_relaunch": "on_failure", "reconcile_max_failures": 2}
    plays = [site.start(None, playbook=PLAYBOOK, **variables) for _number in range(2)]
    results = [play.finish() for play in plays]
    assert [result.rc for result in results] == [0, 0], results[0].output + results[1].output
    assert len(site.jobs()) == 3 and len(site.runs()) == 3
    ids = [{step["job_id"] for step in result.results(MODULE)[-1]["steps"]} for result in results]
    assert ids[0] == ids[1] == set(site.jobs())
    waited = site.play(None, playbook=PLAYBOOK, **variables, reconcile_wait=True, reconcile_wait_timeout=1)
    assert waited.rc == 2 and "0 of 3 succeeded, 0 failed, 3 not over" in waited.output


#: As argv from the second word on: a file that mends the second element, and the element's value.
TRAIN = """[ "$2" = 1 ] || [ -e "$1" ] || exit 4; echo "{}" > result.json"""


@pytest.mark.more
def test_a_sweep_and_what_follows_it_are_reconciled_like_the_others(repository: Repository) -> None:
    site = repository.site
    mend = site.host_path(f"{site.lab.shared_inside}/mend-{site.token}")
    code = {"code": {"src": "../code"}}
    first = site.job("echo 1 > tokens", "tokens", artifact={"path": "tokens", "format": "any"}, **code)
    train = site.job(
        ["sh", "-c", TRAIN, "p", f"{site.lab.shared_inside}/{mend.name}", "{lr}"],
        "train",
        artifact={},
        sweep={"parameters": {"lr": ["1", "2"]}},
        after=["tokens.yml"],
        **code,
    )
    name = "RANKZERO_AFTER_" + train["name"].upper().replace("-", "_")
    last = site.job(f'cp "${name}/sweep.json" result.json', "eval", artifact={}, after=["train.yml"], **code)
    for job in (first, train, last):
        site.write(job, f"jobs/{job['name'].split('-')[-2]}.yml")
    planned, played = repository.reconcile("--check", "--diff")
    assert actions(planned) == {"eval": ["launch"], "tokens": ["launch"], "train": ["launch"]}
    assert "0 of 2 elements succeeded, 2 unsubmitted" in played.output and "2 elements" in played.output
    assert site.jobs() == {} and site.runs() == []

    # Two reconcilers at once: one array of two tasks, and one job each.
    plays = [site.start(None, playbook=PLAYBOOK, jobs="jobs", launch_wait=None, launch_logs_dest=None) for _n in "ab"]
    results = [play.finish() for play in plays]
    assert [result.rc for result in results] == [0, 0], results[0].output + results[1].output
    steps = {step["name"].split("-")[-2]: step for step in results[0].results(MODULE)[-1]["steps"]}
    evaluated = steps["eval"]
    assert site.ended(evaluated["job_id"]) == "CANCELLED", "Slurm ends what can never start"
    # Only now: an array all of which waits is one job to Slurm.
    assert len(site.jobs()) == 4, site.jobs()

    # One element has failed for good: what follows waits for a person, or for the policy.
    stuck, played = repository.reconcile()
    assert actions(stuck) == {"eval": ["wait"], "tokens": ["unchanged"], "train": ["failed"]}
    assert (
        "1 of 2 elements succeeded, 1 failed; element 1: has failed: the program ended with exit code 4"
        in played.output
    )
    assert stuck["steps"][-1]["counts"] == {
        "succeeded": 1,
        "running": 0,
        "waiting": 0,
        "failed": 1,
        "unsubmitted": 0,
    }
    mend.touch()
    again, played = repository.reconcile(relaunch="on_failure", reconcile_wait=True)
    assert actions(again) == {"eval": ["launch"], "tokens": ["unchanged"], "train": ["launch"]}
    assert len(site.jobs()) == 6 and "it ended before it began" in played.output
    done, _played = repository.reconcile()
    assert actions(done) == {"eval": ["unchanged"], "tokens": ["unchanged"], "train": ["unchanged"]}
    assert not done["changed"] and done["slurm_commands"] == 0
    copied = read_json(site.run_dir(done["steps"][0]) / "work" / "result.json")
    assert [one["parameters"] for one in copied["elements"]] == [{"lr": "1"}, {"lr": "2"}]

    # A grid that shrinks needs nothing, but has a folder of its own; one that grows runs what is new.
    (repository.folder / "eval.yml").unlink()
    train["sweep"]["parameters"]["lr"] = ["2"]
    site.write(train, "jobs/train.yml")
    narrow, _played = repository.reconcile()
    assert (
        actions(narrow)["train"] == ["unchanged"] and site.run_dir(narrow["steps"][-1]).joinpath("sweep.json").exists()
    )
    train["command"][2] = UNTIL_GO
    site.write(train, "jobs/train.yml")
    changed, _played = repository.reconcile()
    assert actions(changed)["train"] == ["launch"]
    # And goes: what runs of it is ended by policy, and what has ended is nobody's affair.
    (repository.folder / "train.yml").unlink()
    ended, played = repository.reconcile(removed="cancel")
    assert actions(ended) == {"tokens": ["unchanged"], "train": ["cancel"]}
    assert "1 active element: its spec is gone (removed: cancel)" in played.output
    assert site.ended(changed["steps"][-1]["job_id"]) == "CANCELLED"


def test_mistakes_stop_everything_before_anything_is_done(repository: Repository) -> None:
    site = repository.site
    repository.commit(a="echo a")
    shutil.copy(repository.folder / "a.yml", repository.folder / "copy.yml")
    site.write({**site.job("x", "d"), "resorces": {}}, "jobs/d.yml")
    site.write({**site.job("x", "f"), "after": ["elsewhere.yml"]}, "jobs/f.yml")
    failed, _played = repository.reconcile(rc=2)
    assert "f.yml: after: elsewhere.yml is not a job file of this folder" in failed["msg"]
    (repository.folder / "f.yml").unlink()
    assert "a.yml and copy.yml have one name" in failed["msg"] and "resources" in failed["msg"]
    # One that Slurm refuses does not hold up the others.
    (repository.folder / "copy.yml").unlink()
    # Its code would be another one with every change of any job file: that is said.
    site.write({**site.job("echo e", "e"), "code": {"src": "."}}, "jobs/e.yml")
    site.write({**site.job("x", "d"), "resources": {"partition": "nowhere"}}, "jobs/d.yml")
    failed, played = repository.reconcile(rc=2)
    assert f"the code of {site.job('', 'e')['name']} contains the job files" in played.output
    assert failed["msg"].startswith("1 launch was not possible:") and "nowhere" in failed["msg"]
    assert {step["name"].split("-")[-2]: step["done"] for step in failed["steps"]} == {
        "a": True,
        "d": False,
        "e": True,
    }
    assert len(site.jobs()) == 2
    for step in failed["steps"]:
        if step["done"]:
            site.outcome(step)
