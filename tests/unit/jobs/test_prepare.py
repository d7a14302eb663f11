# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shipped for a launch, and what never is."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.action.job_script import wanted_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import (
    RUNTIME,
    RUNTIME_FILES,
    prepare,
    runtime_bundle,
    secret_lines,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, parse_job_text, read_job
from tests.unit.jobs.projects import job, ready

Make = Callable[..., Job]


# --- prepare


@pytest.mark.parametrize(("fresh", "owned"), [(False, "/c/gpt"), (True, None)])
def test_a_folder_of_checkpoints_that_no_other_launch_can_have_is_not_asked_for(
    project: Path, fresh: bool, owned: str | None
) -> None:
    request = ready(job(project, checkpoint={"dir": "/c//gpt", "fresh": fresh})).sent()
    assert request["checkpoint_dir"] == owned


def test_nodes_that_see_no_store_are_told_where_the_archives_are(project: Path) -> None:
    made = ready(job(project, {"store_shared": False, "local_dir": "/local"}))
    code = made.plan.ref("code")
    assert code
    assert made.sent()["archives"] == [
        {"folder": code.path, "archive": f"/state/archives/code-{code.key}.tar"},
    ]
    script = made.files["job.sbatch"]
    assert "export RANKZERO_ARCHIVES=/state/archives\n" in script and "export RANKZERO_LOCAL_DIR=/local\n" in script
    shared = ready(job(project))
    assert shared.sent()["archives"] == []
    # Where the store lies says nothing about the result.
    assert shared.plan.key == made.plan.key


def test_what_was_used_this_month_is_part_of_the_request_from_the_start(project: Path) -> None:
    used = {"node_hours": 3.5, "gpu_hours": 0.0}
    made = prepare(job(project), Site("/state", "/store", used=used), relaunch="on_failure", facts={})
    assert made.sent()["limits"]["used"] == used


def test_a_prepared_launch_is_what_the_module_asks_for(project: Path) -> None:
    made = ready(job(project, artifact={"then": "end"}, resources={"nodes": 2, "time": "01:30:00", "partition": "p"}))
    arguments = made.sent()
    assert arguments["stores"] == {"store_root": "/store", "stores": [], "store_group_writable": False}
    # Every argument is one of the request's, and the rest is the module's own.
    names = {field.name for field in fields(Request)}
    assert set(arguments) <= names
    assert names - set(arguments) == {"submitter", "secrets_file", "waits_for", "supersedes", "last", "any_of", "first"}
    assert Request.of(arguments).name_of(3) == f"x.{made.plan.key[:16]}.3"
    assert set(arguments["files"]) == {"job.sbatch", "launch.json", "contract.json"}
    assert arguments["runs_dir"] == f"/state/runs/x/{made.plan.key[:16]}"
    assert [ref["kind"] for ref in arguments["refs"]] == ["code", "runtime"]
    assert arguments["limits"] == {
        "nodes": 2,
        "partition": "p",
        "time_minutes": 90.0,
        "gpus_per_node": 0,
        "gpu_type": None,
        "gres": [],
        "cpus_per_node": 1,
        "memory": None,
        "account": None,
        "qos": None,
        "constraint": None,
        "reservation": None,
        "early": None,
        "requeue": None,
        "segment": None,
        "switches": None,
        "group_nodes": 1,
        "budget": {},
        "attempts": 1,
        "used": {},
        "also": [],
    }
    assert arguments["places"] == {
        "roots": {"state_root": "/state", "store_root": "/store"},
        "min_free_kib": 100 * 1024,
        "sources": [],
    }
    assert json.loads(made.files["contract.json"])["artifact"]["then"] == "end"
    # The token stands in the place of the generation in the script, and in no other file's way.
    assert made.plan.token in made.files["job.sbatch"]
    # All of it can travel as a module's arguments.
    json.dumps(arguments, allow_nan=False)


def test_the_manifest_is_runnable_from_anywhere(project: Path) -> None:
    made = ready(job(project, environment={"mode": "venv"}))
    record = json.loads(made.files["launch.json"])
    assert record["collection"] == "1.2.3"
    assert record["code"]["digest" if "digest" in record["code"] else "key"]
    again = read_job(dict(parse_job_text(made.files["launch.json"], "x").data), None, None, None, "/elsewhere")
    assert (again.code_src, again.project) == (str(project), str(project))
    assert ready(again).plan.key == made.plan.key


def test_code_and_environment_are_in_the_key_and_the_runtime_is_not(project: Path) -> None:
    first = ready(job(project, environment={"mode": "venv"})).plan.key
    (project / "train.py").write_text("print('y')\n", encoding="utf-8")
    second = ready(job(project, environment={"mode": "venv"})).plan.key
    (project / "pyproject.toml").write_text(
        (project / "pyproject.toml").read_text(encoding="utf-8").replace("numpy", "numpy>=2"), encoding="utf-8"
    )
    third = ready(job(project, environment={"mode": "venv"}, code={"exclude": ["pyproject.toml"]})).plan.key
    assert len({first, second, third}) == 3
    assert runtime_bundle()[0] not in first


def test_the_runtime_is_one_bundle_with_all_its_files() -> None:
    key, files = runtime_bundle()
    # Bytecode that a test has left is not part of the runtime.
    paths = [path.relative_to(RUNTIME) for path in Path(RUNTIME).rglob("*.*") if path.is_file()]
    assert set(files) == set(RUNTIME_FILES) == {str(path) for path in paths if "__pycache__" not in path.parts}
    assert len(key) == 32


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ["trian.py"],
            r"command: the program trian.py is not in the code snapshot of \S+; did you mean train.py\?; its",
        ),
        (["zzz/x.py"], r"command: the program zzz/x.py is not in the code snapshot of \S+; its Python files: train.py"),
        (["./train.py"], None),
        (["/opt/site/run.py"], None),
        (["python", "missing.py"], None),
        (["hostname"], None),
    ],
)
def test_a_program_file_that_is_not_there_is_told_before_anything_is_sent(
    project: Path, command: list[str], message: str | None
) -> None:
    read = job(project, command=command)
    if message is None:
        assert ready(read).plan.argv[-len(command) :] == tuple(command)
    else:
        with pytest.raises(SpecError, match=message):
            ready(read)


def test_the_program_file_of_any_role_is_looked_for(project: Path) -> None:
    roles = {"trainer": {"command": ["train.py"]}, "server": {"command": ["sevre.py"]}}
    read = read_job({"name": "x", "roles": roles}, None, None, None, str(project))
    with pytest.raises(SpecError, match=r"roles\.server\.command: the program sevre\.py is not in the code snapshot"):
        ready(read)


def test_a_project_without_pyproject_is_told(project: Path) -> None:
    (project / "pyproject.toml").unlink()
    with pytest.raises(RankzeroError, match=r"environment.project: there is no pyproject.toml in .*mode to none"):
        ready(job(project, environment={"mode": "venv"}))


# --- secrets


def spec(**secrets: dict[str, str]) -> LaunchSpec:
    return validated(merge([Layer("job", {"name": "x", "command": ["x"], "secrets": secrets})]))


def test_values_that_the_controller_holds() -> None:
    wanted = spec(B={"from_env": "HB"}, A={"from_var": "va"}, C={"from_file": "/c"})
    value = "a=b\n\"'$(id)` é🚀\n"
    lines = secret_lines(wanted, {"HB": value}, {"va": "x"}.get).splitlines()
    # Sorted; a file on the cluster is the cluster's to read.
    assert [line.split(b"=", 1)[0] for line in lines] == [b"A", b"B"]
    assert base64.b64decode(lines[1].split(b"=", 1)[1]).decode() == value


def test_bytes_of_the_environment_that_are_no_text_survive() -> None:
    line = secret_lines(spec(A={"from_env": "A"}), {"A": "a\udcff"}, dict[str, str]().get)
    assert base64.b64decode(line.split(b"=", 1)[1]) == b"a\xff"


@pytest.mark.parametrize(
    ("source", "variables", "message"),
    [
        ({"from_env": "HF"}, {}, "secrets.T: HF is not a set environment variable of the controller"),
        ({"from_env": "EMPTY"}, {}, "secrets.T: EMPTY is not a set environment variable of the controller"),
        ({"from_var": "v"}, {}, "secrets.T: v is not a set Ansible variable with text"),
        ({"from_var": "v"}, {"v": ""}, "secrets.T: v is not a set Ansible variable with text"),
        ({"from_var": "v"}, {"v": 12345}, "secrets.T: v is not a set Ansible variable with text"),
        ({"from_var": "v"}, {"v": {"a": "hidden"}}, "secrets.T: v is not a set Ansible variable with text"),
    ],
)
def test_a_value_that_is_not_there_is_named(source: dict[str, str], variables: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        secret_lines(spec(T=source), {"EMPTY": ""}, variables.get)
    assert caught.value.problems == [message]


def test_all_missing_values_are_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        secret_lines(spec(A={"from_env": "A"}, B={"from_var": "b"}), {}, dict[str, str]().get)
    assert len(caught.value.problems) == 2


def test_a_secrets_value_is_in_nothing_that_is_prepared(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "planted-value")
    secrets = {"HF_TOKEN": {"from_env": "HF_TOKEN"}, "V": {"from_var": "v"}, "F": {"from_file": "/run/token"}}
    made = ready(job(project, secrets=secrets))
    everything = json.dumps([made.sent(), made.files, made.lines, made.explained(), repr(made.plan.variables)])
    assert "planted" not in everything
    assert made.sent()["secret_files"] == {"F": "/run/token"}
    assert "export RANKZERO_SECRETS=F,HF_TOKEN,V\n" in made.files["job.sbatch"]


# --- site templates


def test_a_folder_of_templates_without_ours_is_told(project: Path, tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match=r"launch_cluster.templates: there is no job.sbatch.j2 in \S+/none "):
        ready(job(project, {"templates": str(tmp_path / "none")}))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% extends 'rankzero/job.sbatch.j2' %}\n{% block x %}", r"template job.sbatch.j2 line 2 of \S+: "),
        ("{{ nothing }}", r"template job.sbatch.j2 of \S+: 'nothing' is undefined"),
        ("{% extends 'rankzero/none.j2' %}", r"template job.sbatch.j2 of \S+: .*none.j2"),
        ("{{ 'a b' | bare }}", r"'a b' needs quotes in a script"),
        ("{{ 'a\nb' | sbatch }}", r"must be one line without control characters"),
    ],
)
def test_a_template_that_does_not_work_is_told(project: Path, tmp_path: Path, template: str, message: str) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "job.sbatch.j2").write_text(template, encoding="utf-8")
    with pytest.raises(RankzeroError, match=message):
        ready(job(project, {"templates": str(site)}, code={"exclude": ["site"]}))


def test_what_a_template_prints_is_quoted(project: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    text = "{{ \"it's $HOME\" }}|{{ ['a b', 'c'] | words }}|{{ 'x\ny\x07' | comment }}|{{ 'a;b' | shell_line }}|"
    text += "{{ 'a\"b#c\\\\' | sbatch }}|{{ 7 }}"
    (site / "job.sbatch.j2").write_text(text, encoding="utf-8")
    script = ready(job(project, {"templates": str(site)}, code={"exclude": ["site"]})).files["job.sbatch"]
    assert script == "'it'\"'\"'s $HOME'|'a b' c|x y |a;b|\"a\\\"b\\#c\\\\\"|7"


# --- roots on the cluster


class Action(LaunchAction):
    """The action with a shell of this machine in the place of the connection."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.asked: list[str] = []

    def _low_level_execute_command(self, command: str, sudoable: bool = True) -> dict[str, Any]:
        self.asked.append(command)
        done = subprocess.run(
            ["/bin/sh", "-c", command], env=self.environment, capture_output=True, text=True, check=False
        )
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    def act(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError


def roots(environment: dict[str, str], state: str, store: str) -> tuple[tuple[str, str], int]:
    read = read_job({"name": "x", "command": ["x"]}, {"state_root": state, "store_root": store}, None, None, "/")
    action = Action(environment)
    return tuple(action.roots(read)), len(action.asked)  # type: ignore[return-value]


def test_absolute_roots_cost_no_look_at_the_cluster() -> None:
    assert roots({}, "/project/x/", "/scratch") == (("/project/x", "/scratch"), 0)


def test_roots_are_expanded_by_the_cluster() -> None:
    environment = {"HOME": "/home/me", "SCRATCH": "/scr/a b"}
    assert roots(environment, "~", "$SCRATCH/it's $(id)") == (("/home/me", "/scr/a b/it's $(id)"), 1)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        # Without the check this would be /rankzero, at the top of the file system.
        ("$SCRATCH/rankzero", "cannot be expanded on the cluster; give absolute paths"),
        ("~other/x", "may begin with ~/ or \\$NAME/ only"),
        ("$(id)/x", "may begin with ~/ or \\$NAME/ only"),
        ("${HOME}/x", "may begin with ~/ or \\$NAME/ only"),
    ],
)
def test_roots_that_nobody_can_expand(state: str, message: str) -> None:
    with pytest.raises(RankzeroError, match=message):
        roots({"HOME": "/home/me"}, state, "/store")


def test_a_relative_expansion_is_refused() -> None:
    with pytest.raises(RankzeroError, match="cannot be expanded"):
        roots({"HOME": "/home/me", "SCRATCH": "here"}, "$SCRATCH", "/store")


@pytest.mark.parametrize(("given", "generation"), [(None, 1), (3, 3), ("3", 3)])
def test_the_generation_to_render_for(given: Any, generation: int) -> None:
    assert wanted_generation(given) == generation


@pytest.mark.parametrize("given", [0, -1, "two", 1.5, True])
def test_a_generation_that_is_none(given: Any) -> None:
    with pytest.raises(RankzeroError, match=r"^generation: must be a whole number of at least 1, not "):
        wanted_generation(given)


def test_nothing_of_ansible_reaches_the_library() -> None:
    class Text(str):
        pass

    found = plain({Text("a"): [Text("b"), (Text("c"), 1)], 2: None, "d": True})
    assert found == {"a": ["b", ["c", 1]], 2: None, "d": True}
    assert {type(found_key) for found_key in found} == {str, int}
    assert type(found["a"][0]) is str


def test_uncommitted_changes_are_kept_beside_the_run_or_refused(project: Path) -> None:
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.org", *words], cwd=project, check=True)
    refuse = {"code": {"dirty": "refuse"}}
    clean = ready(job(project, refuse))
    assert "code.diff" not in clean.files
    (project / "train.py").write_text("print('y')\n", encoding="utf-8")
    assert "+print('y')" in ready(job(project)).files["code.diff"]
    with pytest.raises(SpecError, match=r"code\.dirty: refuse.*train\.py"):
        ready(job(project, refuse))
    # The job's own word stands above the cluster's.
    assert ready(job(project, refuse, code={"dirty": "allow"})).plan.key != clean.plan.key
