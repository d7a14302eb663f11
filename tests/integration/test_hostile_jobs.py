# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pull request of job files against a CI runner: one run of the playbook, as a plan, over all that it may try.

Each attack by itself: tests/unit/sources/test_hostile_git.py and test_hostile_checkout.py (git),
tests/unit/sources/test_allowed_folders.py (files, secrets, images), tests/unit/jobs/test_documents.py (YAML and JSON).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import BIN

JOB = "name: {name}\ncommand: [train.py]\ncode: {{src: ../code}}\n"


def git(folder: Path, *arguments: str) -> None:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True)


def plant(tmp_path: Path) -> Path:
    """The checkout that the runner has."""
    top, canary = tmp_path / "repo", tmp_path / "canary"
    (top / "code").mkdir(parents=True)
    (top / "code/train.py").write_text("print('x')\n")
    payload = tmp_path / "payload"
    payload.write_text(f"#!/bin/sh\nenv > '{canary}'\ncat\n")
    payload.chmod(0o755)
    # A bare repository among the job files, whose filter is to run.
    jobs = top / "jobs"
    jobs.mkdir()
    (jobs / ".gitattributes").write_text("* filter=x\n")
    (jobs / "ok.yml").write_text(JOB.format(name="ok"))
    git(jobs, "init", "-q")
    git(jobs, "add", ".")
    git(jobs, "commit", "-q", "-m", "x")
    for name, value in (("filter.x.clean", str(payload)), ("core.worktree", "."), ("core.fsmonitor", str(payload))):
        git(jobs, "config", name, value)
    for item in (jobs / ".git").iterdir():
        item.rename(jobs / item.name)
    (jobs / ".git").rmdir()
    (jobs / "ok.yml").write_text(JOB.format(name="fine"))
    git(top, "init", "-q")
    git(top, "add", "-f", "jobs", "code")
    git(top, "commit", "-q", "-m", "a pull request")
    (jobs / "token.yml").write_text(JOB.format(name="token") + "secrets: {X: {from_env: CI_DEPLOY_TOKEN}}\n")
    (jobs / "escape.yml").write_text("name: escape\ncommand: [train.py]\ncode: {src: ../../secret}\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("a-private-key: x\n")
    (jobs / "link.yml").symlink_to("../../secret/key")
    (jobs / "credentials.yml").symlink_to("../.git/config")
    (jobs / "device.yml").symlink_to("/dev/zero")
    os.mkfifo(jobs / "pipe.yml")
    (jobs / "large.yml").write_text(JOB.format(name="large") + "#" * 1_000_000)
    (jobs / "deep.yml").write_text(JOB.format(name="deep") + "env: " + "[" * 10_000)
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    bomb += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]" for number in range(1, 10)]
    (jobs / "bomb.yml").write_text("\n".join(bomb))
    (jobs / "twice.yml").write_text(JOB.format(name="twice") + "code: {src: ..}\n")
    (jobs / "number.yml").write_text(JOB.format(name="number") + f"resources: {{time: {'9' * 100_000}}}\n")
    return top


def planned(top: Path) -> str:
    """What a runner says that plans and cannot reach a cluster."""
    command = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "rankzero.slurm.reconcile"]
    command += ["-e", "jobs=jobs", "-e", f"ansible_python_interpreter={sys.executable}", "--check", "--diff"]
    hidden = {"CI": "true", "CI_DEPLOY_TOKEN": "value-of-the-token", "HOME": str(top.parent)}
    done = subprocess.run(command, cwd=top, env={**os.environ, **hidden}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_a_plan_runs_nothing_and_names_everything_that_was_tried(tmp_path: Path) -> None:
    top = plant(tmp_path)
    output = planned(top)
    for words in (
        "jobs: 11 problems",
        "token.yml: 1 mistake in the job spec",
        "launch_cluster.secrets_from does not allow from_env CI_DEPLOY_TOKEN",
        "code.src: ",
        "escape.yml: 1 mistake in the job spec",
        "link.yml: ",
        "credentials.yml: ",
        "device.yml: ",
        "pipe.yml cannot be read: is not a regular file",
        "large.yml has more than 1000000 bytes",
        "deep.yml:4 is not a job file: it is nested more than 50 levels deep",
        "aliases count each time",
        "the key 'code' appears twice",
        "number.yml: 1 mistake in the job spec",
    ):
        assert words in output, output
    for secret in ("value-of-the-token", "a-private-key"):
        assert secret not in output
    # What is no attack on the reader gets as far as git, which is asked about the folder and the code.
    for path in (top / "jobs").glob("*.yml"):
        if path.name != "ok.yml":
            path.unlink()
    output = planned(top)
    assert "problem" not in output and "Slurm" in output, output
    assert not (tmp_path / "canary").exists()


def test_what_is_brought_without_a_job_comes_from_allowed_folders_too(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    (tmp_path / "secret").mkdir()
    for name in ("key", "Containerfile", "pyproject.toml"):
        (tmp_path / "secret" / name).write_text("a-private-key\n")
    (top / "tokenizer").mkdir(parents=True)
    (top / "tokenizer/tokenizer.json").symlink_to("../../secret/key")
    # A folder that leads to the user's own keys, in one that may be sent.
    for name in ("model", "data"):
        (top / name).mkdir()
        (top / name / "keys").symlink_to("../../secret", target_is_directory=True)
    outside = "is outside of the folders from which this controller may send files"
    tasks: list[tuple[str, dict[str, object], str]] = [
        ("code_snapshot", {"src": "../secret"}, outside),
        ("dataset", {"name": "x", "src": "../secret/key"}, outside),
        ("dataset", {"name": "x", "src": "data"}, "keys is a link to a path outside of the folder"),
        ("hub_cache", {"repo": "a/b", "src": "tokenizer"}, outside),
        ("hub_cache", {"repo": "a/b", "src": "model"}, "model has no file that matches"),
        ("image", {"name": "x", "containerfile": "../secret"}, outside),
        ("uv_environment", {"project": "../secret", "mode": "wheelhouse"}, outside),
        ("uv_environment", {"project": "../secret"}, outside),
        ("job_diagnosis", {"path": ".", "families": ["../secret/key"]}, outside),
    ]
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [
            {f"rankzero.slurm.{name}": {**options, "code_roots": ["."]}, "ignore_errors": True}
            for name, options, _words in tasks
        ],
    }
    (top / "play.json").write_text(json.dumps([play]))
    command = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.json"]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(command, cwd=top, capture_output=True, text=True, check=False)
    for (name, _options, words), said in zip(tasks, done.stdout.split("TASK [")[1:]):
        assert said.startswith(f"rankzero.slurm.{name}]")
        assert words in said, said
    assert "a-private-key" not in done.stdout + done.stderr


@pytest.mark.parametrize("brought", ["a file", "a link"])
@pytest.mark.parametrize("playbook", ["train", "sweep", "pipeline"])
def test_results_that_cannot_be_kept_are_refused_before_a_cluster_is_asked(
    tmp_path: Path, playbook: str, brought: str
) -> None:
    """No Slurm is here: who asks the cluster says so."""
    top = tmp_path / "repo"
    (top / "code").mkdir(parents=True)
    (top / "code/train.py").write_text("print('x')\n")
    words, sweep = "[train.py]", ""
    if playbook == "sweep":
        words, sweep = "[train.py, '{lr}']", "sweep: {method: grid, parameters: {lr: [1, 2]}}\n"
    job = JOB.format(name="gpt").replace("[train.py]", words).replace("../code", "code")
    (top / "job.yml").write_text(job + sweep)
    (top / "runs/gpt").mkdir(parents=True)
    if brought == "a file":
        (top / "runs/gpt/0123456789abcdef").write_text("x\n")
    else:
        (top / "runs/gpt/0123456789abcdef").symlink_to("../../code")
    git(top, "init", "-q")
    git(top, "add", "-f", ".")
    command = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", f"rankzero.slurm.{playbook}"]
    command += ["-e", "job=job.yml"]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]

    def said(*more: str) -> str:
        done = subprocess.run([*command, *more], cwd=top, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    refused = said()
    assert "dest: runs is for what is fetched from the cluster, and git tracks it" in refused, refused
    assert "sbatch" not in refused
    # Another folder is fine, and so is a cancel, which fetches nothing.
    for more in ("launch_logs_dest=elsewhere", "state=absent"):
        if (playbook, more) != ("train", "state=absent"):
            assert "git tracks it" not in said("-e", more)


def test_a_play_of_ones_own_names_where_results_will_go(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('x')\n")
    (tmp_path / "job.yml").write_text("name: gpt\ncommand: [train.py]\n")
    (tmp_path / "runs").symlink_to(".git")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", ".")
    sweep = {"name": "s", "command": ["train.py", "{lr}"], "sweep": {"method": "grid", "parameters": {"lr": [1]}}}
    jobs = {"job": "job.yml", "job_sweep": sweep, "job_pipeline": "job.yml"}
    tasks = [
        {f"rankzero.slurm.{name}": {"job": job, "logs_dest": "runs"}, "ignore_errors": True}
        for name, job in jobs.items()
    ]
    (tmp_path / "play.json").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    command = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.json"]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    refused = [said for said in done.stdout.split("TASK [")[1:] if "dest: runs is for what is fetched" in said]
    assert len(refused) == len(jobs), done.stdout


def test_sums_are_written_through_no_link_that_came_with_the_code(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    top.mkdir()
    (top / "tables").symlink_to(".git")
    git(top, "init", "-q")
    git(top, "add", ".")
    before = (top / ".git/config").read_bytes()
    command = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "rankzero.slurm.usage"]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    command += ["-e", json.dumps({"launch_cluster": {"state_root": str(tmp_path / "state")}})]

    def summed(path: str, *more: str) -> subprocess.CompletedProcess[str]:
        argv = [*command, "-e", f"csv={path}", *more]
        return subprocess.run(argv, cwd=top, capture_output=True, text=True, check=False)

    done = summed("tables/config")
    assert done.returncode != 0 and "tables is a link" in done.stdout + done.stderr, done.stdout
    assert (top / ".git/config").read_bytes() == before
    assert summed("usage.csv", "--check").returncode == 0 and not (top / "usage.csv").exists()
    assert "changed=1" in summed("usage.csv").stdout and (top / "usage.csv").read_text().startswith(
        "user,account,month,"
    )
    assert "changed=0" in summed("usage.csv").stdout
