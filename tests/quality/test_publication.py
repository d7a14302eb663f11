# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What strangers need: licences, one address, a range of ansible-core, what stays at 1.0, and files for a code host."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from packaging.version import Version

import rankzero
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import MINIMUM
from tests.repository import BIN, ROOT, bullet_list, files, load_yaml, plugin_names, read, run, tracked_files

GALAXY = load_yaml("galaxy.yml")
NOX = tomllib.loads(read("antsibull-nox.toml"))["sessions"]


def test_every_file_has_a_licence(exported_collection: Path) -> None:
    run("reuse", "--root", exported_collection, "lint")


def test_the_licence_of_the_chart_library_is_its_own() -> None:
    notes = tomllib.loads(read("REUSE.toml"))["annotations"]
    (library,) = [note for note in notes if note["SPDX-License-Identifier"] == "MIT"]
    words = read("plugins/plugin_utils/page/files/uPlot.LICENSE")
    assert "MIT" in words and library["SPDX-FileCopyrightText"] in words


def test_every_public_address_is_that_of_the_repository() -> None:
    """The release replaces one address. A second one would stay."""
    repository = GALAXY["repository"]
    urls = tomllib.loads(read("pyproject.toml"))["project"]["urls"]
    wanted = {name.title(): GALAXY[name] for name in ("repository", "documentation", "homepage", "issues")}
    assert urls == wanted and all(address.startswith(repository) for address in wanted.values())
    schemas = {path: json.loads(read(path))["$id"] for path in files(suffix=".json") if "schema" in path}
    assert len(schemas) > 5
    assert schemas == {path: f"{repository}/raw/main/{path}" for path in schemas}
    host = repository.split("/")[2]
    others = [
        f"{path}: {address}"
        for path in tracked_files()
        if path.endswith((".md", ".yml", ".yaml", ".toml", ".py", ".json", ".rst"))
        for address in re.findall(rf"https://{re.escape(host)}[^\s\"'`>)]*", read(path))
        if not address.startswith(repository)
    ]
    assert not others, bullet_list(others)


#: The official schema -> the files that a code host, or a program that works on the repository, reads.
READ_BY_OTHERS = {
    "github-workflows": files(".github/workflows/"),
    "github-issue-forms": [path for path in files(".github/ISSUE_TEMPLATE/") if not path.endswith("/config.yml")],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "renovate": ["renovate.json"],
}


@pytest.mark.parametrize("schema", READ_BY_OTHERS)
def test_files_for_a_code_host_are_as_it_wants_them(schema: str) -> None:
    run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *READ_BY_OTHERS[schema])


def test_workflows_run_what_a_developer_runs() -> None:
    steps = [
        step["run"]
        for path in files(".github/workflows/")
        for job in load_yaml(path)["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    targets = {target for step in steps for target in re.findall(r"\bmake ([a-z-]+)", step)}
    assert {"unit", "lint", "test-core", "build"} == targets and any(".ci/run" in step for step in steps)


def test_the_range_of_ansible_core_is_said_alike() -> None:
    """requirements.txt says it. What else does is found by what it looks like."""
    (line,) = [line for line in read("requirements.txt").splitlines() if line.startswith("ansible-core")]
    low, high = re.findall(r"2\.\d+", line)
    assert load_yaml("meta/runtime.yml")["requires_ansible"] == f">={low}.0,<{high}"
    roles = {path: load_yaml(path)["galaxy_info"]["min_ansible_version"] for path in files("roles/", "meta/main.yml")}
    assert roles and set(roles.values()) == {low}, roles
    minors = [f"2.{minor}" for minor in range(int(low[2:]), int(high[2:]))]
    assert re.findall(r"2\.\d+", read("scripts/bootstrap").partition("is not supported; choose")[2]) == minors
    cores = re.findall(r'core: "([\d.]+)"', read(".github/workflows/tests.yml"))
    assert cores == [minors[0], minors[-1]], "the workflow tests the oldest and the newest"
    python = tomllib.loads(read("pyproject.toml"))["project"]["requires-python"].removeprefix(">=")
    said = {
        f"{path}: {match[0]}": match[1] or match[2]
        for path in files("docs/", ".md") + files("roles/", ".md") + ["README.md"]
        for match in re.finditer(r"ansible-core (2\.\d+) or (?:later|newer)|needs Python (3\.\d+) or", read(path))
    }
    wrong = [place for place, number in said.items() if number not in (low, python)]
    assert len(said) > 3 and not wrong, bullet_list(wrong)


def test_what_an_execution_environment_installs_is_what_running_needs() -> None:
    needed = {line for line in read("requirements.txt").splitlines() if line[:1].isalpha()}
    dependencies = load_yaml("meta/execution-environment.yml")["dependencies"]
    named = {line for line in read(dependencies["python"]).splitlines() if line[:1].isalpha()}
    core = needed - named
    assert len(core) == 1 and core.pop().startswith("ansible-core"), "the image brings ansible-core, and nothing else"
    assert (ROOT / dependencies["system"]).is_file()
    (image,) = NOX["ee_check"]["execution_environments"]
    assert image["ansible_core_package"] in needed and all((ROOT / book).is_file() for book in image["test_playbooks"])


def test_the_oldest_uv_is_the_one_that_the_product_takes() -> None:
    (line,) = [line for line in read("requirements.txt").splitlines() if line.startswith("uv")]
    assert Version(re.findall(r"[\d.]+", line)[0]) == Version(".".join(map(str, MINIMUM))), line


def test_sessions_of_nox_are_the_targets_and_the_group_is_that_of_meta() -> None:
    called = re.findall(r'make\(session, "([\w-]+)"\)', read("noxfile.py"))
    assert set(called) == {"lint", "sanity", "unit"} <= set(re.findall(r"^([a-z-]+):", read("Makefile"), re.M))
    (group,) = NOX["extra_checks"]["action_groups_config"]
    members = load_yaml("meta/runtime.yml")["action_groups"][group["name"]]
    assert [name for name in plugin_names("modules") if re.match(group["pattern"], name)] == members


JOB = 'name: tiny\nresources: {nodes: 2, time: "00:10:00"}\ncommand: [echo, hello]\n'


@pytest.mark.parametrize(("wrong", "code"), [("", 0), ("resorces: {}\n", 1)])
def test_the_hook_for_job_files_needs_no_cluster(tmp_path: Path, wrong: str, code: int) -> None:
    (hook,) = load_yaml(".pre-commit-hooks.yaml")
    assert re.search(hook["files"], "jobs/train.yml") and not re.search(hook["files"], "inventory/jobs.yml")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/a.yml").write_text(JOB + wrong, encoding="utf-8")
    (tmp_path / "jobs/b.yml").write_text(JOB, encoding="utf-8")
    command = tmp_path / "bin/rankzero"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m rankzero "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    surroundings = {"PATH": f"{command.parent}:{BIN}:/usr/bin:/bin", "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [*shlex.split(hook["entry"]), "jobs/a.yml", "jobs/b.yml"],
        cwd=tmp_path,
        env={**surroundings, "HOME": str(tmp_path), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache/collections")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("did you mean resources?" in done.stdout) == bool(wrong)


def test_the_page_of_what_stays_names_all_that_is_public() -> None:
    page = read("docs/public-api.md")
    rows = dict(re.findall(r"^\| ([A-Z][\w ]+?) \| (.+?) \|", page, re.M))
    named = {what: re.findall(r"`([\w./]+)`", names) for what, names in rows.items()}
    assert named["Modules"] == sorted(plugin_names("modules"))
    assert named["Roles"] == sorted({path.split("/")[1] for path in files("roles/")})
    playbooks = [Path(path).stem for path in files("playbooks/", ".yml") if path.count("/") == 1]
    assert named["Playbooks"] == sorted(playbooks)
    plugins = [*plugin_names("inventory"), *plugin_names("callback")]
    sources = [Path(path).stem for path in files("extensions/eda/", ".py")]
    assert named["Plugins"] == [*plugins, *sources]
    assert named["The Python module"] == [f"rankzero.{name}" for name in rankzero.__all__]
    schemas = [Path(path).stem.replace("-", "/") for path in files("python/rankzero/schemas/", ".json")]
    assert named["JSON documents"] == [f"rankzero/{name}" for name in schemas]
