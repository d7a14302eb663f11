# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""job_script as a playbook uses it: the script of any generation, written on the host, without any cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import recording, warm_playbooks
from tests.repository import BIN, bullet_list

MODULE = "rankzero.slurm.job_script"
JOB = "rankzero.slurm.job"
CLUSTER = {"state_root": "/shared/state", "store_root": "/shared/store"}


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print('hello')\n")
    return {"name": "rendered", "command": ["train.py"], "code": {"src": "code"}, "resources": {"nodes": 2}}


def run_all(
    tmp_path: Path, tasks: Sequence[tuple[str, dict[str, Any]]], *flags: str, ignore_errors: bool = True
) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, what the callback recorded of each task, and all output of a playbook on this machine."""
    listed = [{module: {"cluster": CLUSTER, **given}, "ignore_errors": ignore_errors} for module, given in tasks]
    return played(tmp_path, listed, *flags)


def played(tmp_path: Path, listed: Sequence[dict[str, Any]], *flags: str) -> tuple[int, list[dict[str, Any]], str]:
    """As run_all, for tasks as they stand in a play."""
    (tmp_path / "play.json").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": listed}]))
    command = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.json", *flags]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    record = tmp_path / "record"
    record.unlink(missing_ok=True)
    code, output = warm_playbooks.run(command, tmp_path, {**os.environ, **recording.settings(record)})
    return code, recording.lines(record), output


def run(tmp_path: Path, arguments: dict[str, Any], *flags: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, result and all output of a playbook of one task."""
    code, lines, output = run_all(tmp_path, [(MODULE, arguments)], *flags, ignore_errors=False)
    return code, lines[-1]["result"] if lines else {}, output


def test_the_script_is_returned_for_any_generation(tmp_path: Path, job: dict[str, Any]) -> None:
    code, result, output = run(tmp_path, {"job": job, "generation": 3, "overrides": {"nodes": 4}})
    assert code == 0, output
    assert (result["changed"], result["world_size"], result["generation"]) == (False, 4, 3)
    key = result["key"][:16]
    assert f"#SBATCH --job-name=rendered.{key}.3\n#SBATCH --nodes=4\n" in result["script"]
    assert f"export RANKZERO_RUN_DIR=/shared/state/runs/rendered/{key}/3\n" in result["script"]
    assert json.loads(result["launch"])["key"] == result["key"]


def test_the_command_line_wins(tmp_path: Path, job: dict[str, Any]) -> None:
    code, result, output = run(tmp_path, {"job": job, "overrides": {"nodes": 4}}, "-e", "nodes=5")
    assert code == 0, output
    assert result["world_size"] == 5


def test_a_short_name_on_the_command_line_wins_over_the_roles_variable(tmp_path: Path, job: dict[str, Any]) -> None:
    """`-e job=` over `launch_job` of the inventory; not over that of one include, nor over a task's own job."""
    (tmp_path / "asked.yml").write_text(json.dumps({**job, "name": "asked"}))
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text(json.dumps({"launch_job": {**job, "name": "inventory"}}))
    named: dict[str, Any] = {MODULE: {"job": "{{ launch_job }}", "cluster": CLUSTER}}
    own = {MODULE: {"job": {**job, "name": "task"}, "cluster": CLUSTER}}
    tasks = [named, {**named, "vars": {"launch_job": {**job, "name": "include"}}}, own]
    for flags, first in ((["-e", "job=asked.yml"], "asked"), ([], "inventory")):
        code, lines, output = played(tmp_path, tasks, *flags)
        assert code == 0, output
        names = [json.loads(line["result"]["launch"])["spec"]["name"] for line in lines]
        assert names == [first, "include", "task"], output


def test_an_extra_variable_that_nothing_knows_is_refused(tmp_path: Path, job: dict[str, Any]) -> None:
    """Unless the user declares it, or the play or the job's secrets name it: here beside one that nobody knows."""
    mine = ["-e", "my_own=1", "-e", "token=t", "-e", "time=5", "-e", "launch_variables=my_own"]
    job = {**job, "secrets": {"TOKEN": {"from_var": "token"}}}
    code, result, output = run(tmp_path, {"job": job}, *mine)
    assert code == 0, output
    code, result, output = run(tmp_path, {"job": job}, *mine, "-e", "nodez=5", "-e", "state=absent")
    assert code == 2 and "-e nodez: unknown; did you mean nodes?" in result["msg"]
    assert "-e state: " in result["msg"] and "-e my_own" not in result["msg"] and "-e token" not in result["msg"]


def test_a_playbook_refuses_variables_before_anything_else(tmp_path: Path) -> None:
    """`train -e state=absent` does not submit, and what the inventory defines may be set."""
    (tmp_path / "hosts.yml").write_text("all: {hosts: {here: {ansible_connection: local, scratch: /x}}}")
    command = [str(BIN / "ansible-playbook"), "-i", "hosts.yml", "rankzero.slurm.train", "-e", "cluster=here"]
    command += ["-e", "scratch=/y", "-e", "state=absent", "-e", "gpus=8", "-e", "job=jobs/none.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "-e state: " in done.stdout and "-e gpus: " in done.stdout and "gpus_per_node" in done.stdout
    assert "-e scratch" not in done.stdout and "there is no file" not in done.stdout


def test_localhost_is_never_taken_silently(tmp_path: Path) -> None:
    """Without the group slurm_login: the person is told which inventory was read, and what it holds."""
    (tmp_path / "hosts.yml").write_text("all: {hosts: {login.example: {}}}")
    command = [str(BIN / "ansible-playbook"), "-i", "hosts.yml", "rankzero.slurm.train", "-e", "job=jobs/none.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert "slurm_login" in said and "hosts.yml" in said and "login.example" in said, said
    assert "runs on localhost" in said and done.returncode == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "there is no file or folder"),
        ("all: {}", "Ansible has read no host in"),
        ("slurm_login:\n  hosts", "no host"),
    ],
)
def test_an_inventory_without_hosts_is_refused(tmp_path: Path, text: str | None, told: str) -> None:
    """Ansible warns, and plays on localhost: nobody who gives an inventory means that."""
    (tmp_path / "hosts.yml").write_text(text or "slurm_login: {hosts: {alpha: {}}}")
    name = "hosts.yml" if text else "hots.yml"
    command = [str(BIN / "ansible-playbook"), "-i", name, "rankzero.slurm.status"]
    code, output = warm_playbooks.run(command, tmp_path, dict(os.environ))
    said = " ".join(output.split())
    assert code == 2 and told in said and name in said, output
    assert bool(text) or "did you mean hosts.yml?" in said


@pytest.mark.parametrize("playbook", ["train", "status"])
def test_a_cluster_that_the_inventory_does_not_know_is_refused(tmp_path: Path, playbook: str) -> None:
    """Ansible alone says that no host matches, and ends with 0: nobody would notice that nothing was launched."""
    (tmp_path / "hosts.yml").write_text("slurm_login: {hosts: {alpha: {}, beta: {}}}")
    words = ["-i", "hosts.yml", f"rankzero.slurm.{playbook}", "-e", "cluster=alfa", "-e", "launch_job=none.yml"]
    words = words if playbook == "train" else words[:-2]
    code, output = warm_playbooks.run([str(BIN / "ansible-playbook"), *words], tmp_path, dict(os.environ))
    assert code == 2, output
    said = " ".join(output.split())
    assert "cluster: 'alfa' matches no host" in said and "did you mean alpha?" in said, output


def test_the_script_is_written_once_and_shown_as_a_diff(tmp_path: Path, job: dict[str, Any]) -> None:
    target = tmp_path / "kept.sbatch"
    arguments = {"job": job, "path": str(target)}
    code, result, output = run(tmp_path, arguments, "--check", "--diff")
    assert code == 0 and result["changed"] and not target.exists(), output
    assert "+#SBATCH --nodes=2" in output
    code, result, output = run(tmp_path, arguments)
    assert code == 0 and result["changed"], output
    assert target.read_text() == result["script"]
    assert not run(tmp_path, arguments)[1]["changed"]
    changed = {**job, "resources": {"nodes": 3}}
    code, result, output = run(tmp_path, {**arguments, "job": changed}, "--diff")
    assert result["changed"] and "-#SBATCH --nodes=2" in output and "+#SBATCH --nodes=3" in output


def test_wrong_values_and_internal_options_are_named(tmp_path: Path, job: dict[str, Any]) -> None:
    """Also a task that hands the module job a launch of its own."""
    wrong: list[tuple[str, dict[str, Any], str]] = [
        (MODULE, {"path": "/nowhere/at/all/x.sbatch"}, "its folder must exist"),
        (MODULE, {"pth": "x"}, "unknown option pth; allowed: job, cluster, overrides, generation, path"),
        (MODULE, {"x_script": "echo"}, "unknown option x_script"),
        (MODULE, {"overrides": {"nods": 2}}, "did you mean nodes"),
        (MODULE, {"generation": "many"}, "generation"),
        (JOB, {"x_request": {}}, "unknown option x_request"),
        (JOB, {"x_runtime": {}}, "unknown option x_runtime"),
        (JOB, {"x_code": ""}, "unknown option x_code"),
    ]
    tasks = [(module, {"job": job, **arguments}) for module, arguments, _message in wrong]
    code, lines, output = run_all(tmp_path, tasks)
    assert code == 0 and len(lines) == len(wrong), output
    unnamed = [
        f"{arguments}: {line['result']['msg']}"
        for (_module, arguments, message), line in zip(wrong, lines, strict=True)
        if line["outcome"] != "failed" or message not in line["result"]["msg"]
    ]
    assert not unnamed, bullet_list(unnamed)


def test_a_conda_environment_is_looked_up_on_the_host(
    tmp_path: Path, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conda itself is a stand-in that lists what is there."""
    place = tmp_path / "conda" / "envs" / "torch"
    for folder in (place / "bin", place / "conda-meta", tmp_path / "conda" / "bin"):
        folder.mkdir(parents=True)
    (place / "bin" / "python").symlink_to(sys.executable)
    conda = tmp_path / "conda" / "bin" / "conda"
    conda.write_text(f"#!/bin/sh\necho '{json.dumps({'envs': [str(place)]})}'\n", encoding="utf-8")
    conda.chmod(0o755)
    monkeypatch.setenv("CONDA_EXE", str(conda))
    named = [{"job": {**job, "environment": {"mode": "path", "conda": name}}} for name in ("torch", "jax")]
    _code, lines, _output = run_all(tmp_path, [(MODULE, arguments) for arguments in named])
    by_name, unknown = (line["result"] for line in lines)
    assert f"rankzero_adopt {place}\n" in by_name["script"]
    assert "environment.conda: jax is not a conda environment on the login node; there: torch" in unknown["msg"]
