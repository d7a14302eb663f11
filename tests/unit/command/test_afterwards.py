# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""--json of every verb, also on errors: one document on stdout with a code and what may be typed next."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import errors as own_errors
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.plan import plan_markdown
from rankzero import errors
from rankzero.options import VERBS
from rankzero.parsing import parse
from tests.json_documents import checked
from tests.repository import ROOT, read
from tests.unit.command.conftest import Ansible
from tests.unit.command.test_documents import KEY, LAUNCH, PLAYED, PROVEN, REPORT, RUN
from tests.unit.command.test_many import RUNNING
from tests.unit.page.test_plan import GONE, NEW, result

LOCAL = {
    "init": "init .",
    "completion": "completion bash",
    "spec": "spec resources",
    "mcp": "mcp",
    "skill": "skill list",
}
LINES = {**{verb: line for verb, (line, _results) in PLAYED.items()}, **LOCAL}
ONE = f"gpt/{KEY}/1"

Typed = Callable[..., dict[str, Any]]


@pytest.fixture
def typed(rankzero: Callable[..., int], capfd: pytest.CaptureFixture[str]) -> Typed:
    """What a command line prints with --json: one document, and nothing else on stdout. Each command in it is one."""

    def document(line: str, code: int = errors.OK) -> dict[str, Any]:
        before, dashes, after = line.partition(" -- ")
        assert rankzero(*shlex.split(f"{before} --json{dashes}{after}")) == code
        shown = capfd.readouterr()
        made = checked(json.loads(shown.out))
        assert made["exit_code"] == code and (made["code"] is None) == (code == errors.OK)
        # What a playbook says, and its stand-in does not, is on stderr, too.
        assert code != errors.USAGE or made["error"] in shown.err
        for command in made["next"]:
            program, *words = shlex.split(command)
            if program == "rankzero" and "--help" not in words:
                parse(words)
        return made

    return document


def test_every_verb_has_a_line_here() -> None:
    assert set(LINES) == set(VERBS)


@pytest.mark.parametrize("verb", LINES)
def test_an_error_is_a_document_of_its_verb(verb: str, typed: Typed, ansible: Ansible) -> None:
    wrong = typed(f"{LINES[verb]} --no-such-option", errors.USAGE)
    assert (wrong["schema"], wrong["next"]) == (f"rankzero/{verb}/1", [f"rankzero {verb} --help"])
    assert wrong["code"] == "usage"
    if verb in LOCAL:
        return
    ansible.answer(4, ("job_info", "unreachable", {"msg": "no route to login"}))
    away = typed(LINES[verb], errors.UNREACHABLE)
    assert (away["code"], away["next"]) == ("unreachable", [f"rankzero {LINES[verb]}"])
    ansible.answer(2, ("job", "failed", {"msg": "no licence", "error_code": "slurm_refused"}))
    assert typed(LINES[verb], errors.REFUSED)["code"] == "slurm_refused"


@pytest.mark.parametrize("verb", LINES)
def test_a_folder_that_is_gone_leaves_one_document_and_never_the_code_of_a_failed_launch(
    verb: str,
    rankzero: Callable[..., int],
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code = rankzero(*shlex.split(LINES[verb].partition(" -- ")[0]), "--json")
    made = checked(json.loads(capfd.readouterr().out))
    assert made["exit_code"] == code != errors.FAILED and made["schema"] == f"rankzero/{verb}/1"


def test_a_word_that_is_no_verb_is_a_document_without_rows(typed: Typed) -> None:
    wrong = typed("status", errors.USAGE)
    assert (wrong["schema"], wrong["next"]) == ("rankzero/error/1", ["rankzero --help"]) and "ls" in wrong["error"]
    # What follows -- is the program's.
    assert "--json" not in read("README.md") and parse(["run", "x.yml", "--", "--json"]).json is False


def test_mistakes_in_a_job_lead_to_what_the_keys_mean(typed: Typed, ansible: Ansible) -> None:
    problem = own_errors.SpecError(["resources.nodes: must be at least 1", "jobs/train.yml:3: launcher.kind: unknown"])
    ansible.answer(2, ("job", "failed", {"msg": problem.message, **problem.partial}))
    refused = typed("run jobs/train.yml", errors.REFUSED)
    assert (refused["code"], refused["next"]) == ("job_spec", ["rankzero spec resources.nodes"])
    lost = own_errors.NoLaunch("no launch with name=gtp is recorded")
    ansible.answer(2, ("job_wait", "failed", {"msg": lost.message, **lost.partial}))
    assert typed("attach gtp", errors.REFUSED)["next"] == ["rankzero ls"]


def test_what_follows_a_launch(typed: Typed, ansible: Ansible) -> None:
    queued = ("job", "ok", {**LAUNCH, "submission": "submitted", "standing": "waiting"})
    ansible.answer(0, queued)
    there = "-i hosts.yml -c ux"
    assert typed(f"run jobs/train.yml -d {there}")["next"] == [
        f"rankzero {verb} {ONE} {there}" for verb in ("attach", "cancel")
    ]
    ansible.answer(0, queued, ("job_wait", "ok", PROVEN))
    assert typed("run jobs/train.yml")["next"] == [f"rankzero pull {ONE}", f"rankzero report {ONE}"]
    report = ("job_report", "failed", {"standing": "failed", "msg": "gpt failed"})
    ansible.answer(2, queued, ("job_wait", "ok", REPORT.as_dict()), report)
    assert typed("run jobs/train.yml", errors.FAILED)["next"] == [f"rankzero why {ONE}", f"rankzero logs {ONE}"]
    ansible.answer(0, ("job_wait", "ok", {**PROVEN, **RUNNING}))
    assert typed("attach gpt", errors.UNFINISHED)["next"] == [f"rankzero attach {ONE}", f"rankzero cancel {ONE}"]
    ansible.answer(0, ("job_info", "ok", {"launches": [REPORT.as_dict()]}))
    assert typed("ls")["next"] == [f"rankzero why {ONE}", f"rankzero logs {ONE}"]


def test_what_follows_a_trial(typed: Typed, ansible: Ansible) -> None:
    ansible.answer(0, ("job", "ok", {**LAUNCH, "submission": "planned", "plan": [], "explain": [], "missing": []}))
    planned = typed("plan jobs/train.yml -n 4 --explain -- --check")
    assert planned["next"] == ["rankzero run jobs/train.yml -n 4 -- --check"]
    changed = own_errors.PlanAgain("planned: another launch")
    ansible.answer(2, ("job", "failed", {"msg": changed.message, **changed.partial}))
    again = typed(f"run jobs/train.yml -d --planned gpt/{KEY}/1/60 -n 4 -- run -d", errors.REFUSED)
    assert (again["code"], again["next"]) == ("plan_again", ["rankzero plan jobs/train.yml -n 4 -- run -d"])
    assert ansible.variables()["launch_planned"] == f"gpt/{KEY}/1/60"
    ansible.answer(0)
    assert typed("reconcile jobs --check")["next"] == ["rankzero reconcile jobs"]


def test_verbs_without_a_playbook(typed: Typed, ansible: Ansible) -> None:
    (job,) = typed("init .")["files"]
    assert (job["kind"], job["written"]) == ("job", True)
    assert typed("init . --force")["next"] == [f"rankzero plan {job['path']}"]
    assert typed("init .", errors.REFUSED)["code"] == "refused"
    assert "complete" in typed("completion bash")["scripts"][0]["script"]
    assert ansible.calls() == []


def test_a_key_is_explained_as_on_its_page(
    typed: Typed, rankzero: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    """What `spec` says is what the page says, of every key."""
    page = read("docs/job-spec.md")
    keys = typed("spec")["keys"]
    assert len(keys) > 150 and len({row["key"] for row in keys}) == len(keys)
    for row in keys:
        own = row["key"].removeprefix("roles.NAME.").removeprefix("launch_cluster.")
        assert f"- **`{own}`**: {row['doc']}" in page, row["key"]
    (nodes,) = typed("spec nodes")["keys"]
    assert (nodes["key"], nodes["sbatch"], nodes["default"]) == ("resources.nodes", "nodes", 1) and nodes[
        "in_launch_key"
    ]
    assert typed("spec gpus")["keys"][0]["key"] == "resources.gpus_per_node"
    assert typed("spec artifact")["keys"][0]["key"] == "artifact.path"
    assert "artifact.require" in typed("spec require", errors.USAGE)["error"]
    assert rankzero("spec", "resources.nodes") == errors.OK
    assert "Number of nodes." in capfd.readouterr().out


def test_the_codes_are_documented() -> None:
    page = read("docs/command.md").partition("## JSON")[2].partition("\n## ")[0]
    own = {getattr(kind, "CODE", "") for kind in vars(own_errors).values()} - {""}
    for code in {*errors.CODES.values(), *own}:
        assert f"`{code}`" in page, code


def test_the_pages_for_programs_have_all_verbs_codes_and_pages() -> None:
    """They are in the wheel, too, and their links lead somewhere."""
    agents, pages = read("AGENTS.md"), read("llms.txt")
    own = {getattr(kind, "CODE", "") for kind in vars(own_errors).values()} - {""}
    assert [word for word in (*VERBS, *errors.CODES.values(), *own) if f"`{word}`" not in agents] == []
    assert all(line.count("](") == 1 for line in pages.splitlines() if line.startswith("- ")) and "job-spec.md" in pages
    links = re.findall(r"\]\(([^)#]+)", agents + pages)
    assert [link for link in links if not (ROOT / link).exists()] == []
    for name in ("AGENTS.md", "llms.txt"):
        assert f'"{name}" = "ansible_collections/rankzero/slurm/{name}"' in read("pyproject.toml")


def test_ctrl_c_is_a_document(typed: Typed, ansible: Ansible, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_given: Any, **_more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rankzero.command.directly", lambda *_given: None)
    monkeypatch.setattr("rankzero.command.play", interrupted)
    assert typed(f"attach {RUN}", errors.INTERRUPTED)["code"] == "interrupted"


def test_the_command_prints_the_plan_as_markdown_and_as_json(
    rankzero: Callable[..., int], ansible: Ansible, capfd: pytest.CaptureFixture[str]
) -> None:
    failed = result(NEW, GONE, msg="1 launch was not possible")
    ansible.answer(2, ("reconcile", "failed", failed))
    assert rankzero("reconcile", "jobs", "--check", "--markdown") == errors.REFUSED
    shown = capfd.readouterr()
    assert shown.out == plan_markdown({"login": failed}, "1 launch was not possible") and "PLAY" in shown.err
    assert rankzero("reconcile", "jobs", "--check", "--json") == errors.REFUSED
    steps = checked(json.loads(capfd.readouterr().out))["steps"]
    told = [(step["action"], step["name"], step["changes"], step["node_hours"]) for step in steps]
    assert told == [("launch", "gpt-wide", list(NEW.changes), 16.0), ("gone", "old", [], None)]
    assert rankzero("reconcile", "jobs", "--markdown", "--json") == errors.USAGE
