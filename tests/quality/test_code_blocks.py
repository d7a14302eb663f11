# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every code block of the pages: run where that is possible offline, else read by what would read it for a user.

Each block falls into one class: run, validated (by the reader of job files, ansible-playbook, ansible-inventory, the
table of variables or the parser of the command), parsed, or skipped with a reason. `pytest -s` shows the counts.
"""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields as fields_of_class
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

import rankzero
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import parse
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import (
    cluster_settings,
    parse_job_text,
    read_job,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_script
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import EVERYWHERE, PLAYBOOKS
from tests.blocks import PAGES, Block, blocks, commands, inline_commands, script, wrong_command
from tests.plans import plan
from tests.quality.test_documentation import all_options
from tests.repository import CACHE, ROOT, bullet_list, files, load_yaml, run

SPEC = {attribute.name for attribute in fields_of_class(LaunchSpec)}
#: Blocks that a test of their own runs: page and language -> the test.
RUN_ELSEWHERE = {
    ("contributing/extending.md", "diff"): "tests/quality/test_extending.py",
    ("docs/diagnosis.md", "yaml"): "tests/unit/sources/test_failure_families.py",
}
OUTPUT = "output of a command, or a drawing"
#: Commands that need no cluster and no network. They are run in a folder with train.sbatch.
#: `init --compare` runs two jobs: tests/cluster/test_init_compare.py.
OFFLINE = re.compile(r"rankzero (?:--version|init (?!.*--(?:compare|login)).*|completion .*)$")
SBATCH = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --time=10:00\nsrun python train.py --steps 10\n"


class Wrong(Exception):
    """What is wrong with a block."""


READ_ERRORS = (
    *(Wrong, RankzeroError, SyntaxError, ValueError),
    *(yaml.YAMLError, jinja2.TemplateError, configparser.Error),
)


class Reader:
    """Gives each block its class. Plays and inventories are collected, because Ansible reads many in one start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plays: dict[str, Block] = {}
        self.inventories: dict[str, Block] = {}
        self.offline: dict[str, list[str]] = {}
        self.role_options = {
            name
            for path in files("roles/", "meta/argument_specs.yml")
            for entry in load_yaml(path)["argument_specs"].values()
            for name in entry.get("options") or {}
        }

    def outcome(self, block: Block) -> str:
        """The class of a block, and for a skipped one the reason. Raises Wrong, or the error of its reader."""
        if (block.page, block.language) in RUN_ELSEWHERE:
            return "run"
        read: Callable[[Block], str] | None = getattr(self, f"_{block.language}", None)
        if read is None:
            raise Wrong(f"no test reads the language {block.language!r}")
        return read(block)

    def _text(self, _block: Block) -> str:
        return f"skipped: {OUTPUT}"

    def _json(self, block: Block) -> str:
        json.loads(block.text)
        return "parsed"

    def _jinja(self, block: Block) -> str:
        jinja2.Environment().parse(block.text)
        return "parsed"

    def _ini(self, block: Block) -> str:
        configparser.ConfigParser(allow_no_value=True).read_string(block.text)
        return "parsed"

    def _python(self, block: Block) -> str:
        tree = ast.parse(block.text)
        used = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rankzero"
        }
        if unknown := [name for name in used if not hasattr(rankzero, name)]:
            raise Wrong(f"the module rankzero has no {unknown}")
        return "validated" if used else "parsed"

    def _sh(self, block: Block) -> str:
        text = script(block)
        path = self.folder / "block.sh"
        path.write_text(text, encoding="utf-8")
        run("bash", "-n", path)
        typed = list(commands(text))
        for words in typed:
            if problem := wrong_command(words):
                raise Wrong(f"{' '.join(words)}: {problem}")
        ours = [words for words in typed if words[0] in ("ansible-playbook", "rankzero", "make")]
        offline = [words for words in ours if OFFLINE.match(" ".join(words))]
        self.offline.update({" ".join(words): words for words in offline})
        return "run" if offline else "validated" if ours else "parsed"

    def _yaml(self, block: Block) -> str:
        data = next(iter(yaml.safe_load_all(block.text)), None)
        if data is None:
            return "parsed"  # comments only
        if isinstance(data, list):
            return self._play(block, data)
        keys = set(data)
        if keys <= SPEC:
            return self._job(block)
        if keys == {"jobs"} or "plugin" in keys:
            return "parsed"
        if all(isinstance(value, dict) and {"hosts", "children", "vars"} & set(value) for value in data.values()):
            self.inventories[self._write(block, self.folder / "inventories")] = block
            for settings in _values_of(data, "launch_cluster"):
                _check_cluster(settings)
            return "validated"
        own = {name for names in PLAYBOOKS.values() for name in names}
        unknown = keys - own - set(EVERYWHERE) - self.role_options - {"nccl_measured"}
        if unknown:
            raise Wrong(f"neither a job file, a play, an inventory nor variables of ours: {sorted(unknown)}")
        if "launch_cluster" in data:
            _check_cluster(data["launch_cluster"])
        return "validated"

    def _play(self, block: Block, data: list[Any]) -> str:
        if not {"hosts", "import_playbook"} & set(data[0]):
            for task in data:
                _check_options(task)
            text = yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": data}])
            block = Block(block.page, block.line, block.language, text)
        self.plays[self._write(block, self.folder / "plays")] = block
        return "validated"

    def _job(self, block: Block) -> str:
        layer = parse_job_text(block.text, block.place)
        if "name" not in layer.data or not {"command", "shell", "roles"} & set(layer.data):
            merged = merge([Layer("a whole job", {"name": "part", "command": ["true"]}), layer])
            if problems := _without_placeholders(parse(merged).problems):
                raise Wrong("; ".join(problems))
            return "validated"
        job = read_job(layer.data, {}, {}, {}, str(self.folder))
        planned: Plan = plan(
            job.spec, job.merged, code_key="c" * 64, runtime_key="r" * 64, state_root="/state", store_root="/store",
            environment_key="e" * 64,
        )  # fmt: skip
        rendered = self.folder / "job.sbatch"
        rendered.write_text(render_script(planned), encoding="utf-8")
        run("bash", "-n", rendered)
        return "run"

    def _write(self, block: Block, folder: Path) -> str:
        folder.mkdir(exist_ok=True)
        path = folder / f"{re.sub(r'[^a-z0-9]+', '_', block.page.lower())}_{block.line}.yml"
        path.write_text(block.text, encoding="utf-8")
        return str(path)


def _values_of(data: Any, name: str) -> Iterator[Any]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key == name:
                yield value
            else:
                yield from _values_of(value, name)


def _without_placeholders(problems: list[str]) -> list[str]:
    """The mistakes that are not about a value that a page has shortened to `...`."""
    return [problem for problem in problems if "..." not in problem]


def _check_cluster(settings: dict[str, Any]) -> None:
    own, below, problems = cluster_settings(settings)
    merged = merge([Layer("a whole job", {"name": "part", "command": ["true"]}), Layer("launch_cluster", below)])
    templates = [problem for problem in [*problems, *parse(merged).problems] if "{{" not in problem]
    if problems := _without_placeholders(templates):
        raise Wrong(f"launch_cluster: {'; '.join(problems)}; {own}")


def _check_options(task: dict[str, Any]) -> None:
    for name, arguments in task.items():
        module = name.removeprefix("rankzero.slurm.")
        if module != name and (unknown := set(arguments or {}) - set(all_options(module))):
            raise Wrong(f"{name} has no option {sorted(unknown)}")


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Reader, dict[Block, str], list[str]]:
    """The reader after all blocks, the class of each, and what is wrong."""
    folder = tmp_path_factory.mktemp("blocks")
    reader, outcomes, wrong = Reader(folder), {}, []
    for block in blocks():
        try:
            outcomes[block] = reader.outcome(block)
        except (
            Wrong,
            RankzeroError,
            SyntaxError,
            yaml.YAMLError,
            jinja2.TemplateError,
            ValueError,
            configparser.Error,
        ) as error:
            wrong.append(f"{block.place}: {error}")
    return reader, outcomes, wrong


def test_every_code_block_is_right(read: tuple[Reader, dict[Block, str], list[str]]) -> None:
    _reader, outcomes, wrong = read
    counts = Counter(outcome.partition(":")[0] for outcome in outcomes.values())
    print(f"\n{len(blocks())} code blocks on {len(PAGES)} pages: {dict(sorted(counts.items()))}")
    assert not wrong, bullet_list(wrong)
    assert set(counts) == {"run", "validated", "parsed", "skipped"} and sum(counts.values()) == len(blocks())


def test_commands_in_the_text_are_right() -> None:
    typed = [(page, words) for page in PAGES for words in inline_commands(page)]
    assert len(typed) > 5, "the pattern finds no commands: this test would pass on anything"
    wrong = [f"{page}: {' '.join(words)}: {why}" for page, words in typed if (why := wrong_command(words))]
    assert not wrong, bullet_list(wrong)


@pytest.mark.parametrize(
    "line",
    [
        "ansible-playbook rankzero.slurm.trian -e job=jobs/train.yml",
        "ansible-playbook rankzero.slurm.train -e jobb=jobs/train.yml",
        "ansible-playbook rankzero.slurm.status -e nodes=4",
        "rankzero submit jobs/train.yml",
        "rankzero run jobs/train.yml --node 4",
        "ansible-doc rankzero.slurm.jobs",
        "cd project && rankzero logs gpt --folow",
    ],
)
def test_a_wrong_command_is_seen(line: str) -> None:
    assert any(wrong_command(words) for words in commands(line))


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("yaml", "name: x\nresources: {node: 4}\n"),
        ("yaml", "name: x\ncommand: [a]\nresources: {nodes: many}\n"),
        ("yaml", "slurm_login: {hosts: {a: {launch_cluster: {state_rot: /x}}}}\n"),
        ("yaml", "launch_clustr: {}\n"),
        ("yaml", "- rankzero.slurm.dataset: {nam: corpus}\n"),
        ("yaml", "a: [\n"),
        ("python", "import rankzero\nrankzero.launch('x')\n"),
        ("json", "{"),
        ("sh", "rankzero run --nodes\n"),
        ("perl", "1;"),
    ],
)
def test_a_wrong_block_is_seen(language: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(READ_ERRORS):
        Reader(tmp_path).outcome(Block("page.md", 1, language, text))


def test_ansible_reads_the_plays_and_inventories(read: tuple[Reader, dict[Block, str], list[str]]) -> None:
    """One start for all plays, one for all inventories."""
    reader, _outcomes, _wrong = read
    assert len(reader.plays) > 8 and len(reader.inventories) > 1
    env = {"ANSIBLE_COLLECTIONS_PATH": str(CACHE / "collections"), "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}
    run("ansible-playbook", "-i", "localhost,", "--syntax-check", *reader.plays, cwd=reader.folder, env=env)
    inventories = [argument for path in reader.inventories for argument in ("-i", path)]
    listed = run("ansible-inventory", *inventories, "--list", cwd=reader.folder, env=env).stdout
    assert "slurm_login" in listed


def test_the_command_does_offline_what_the_pages_say(
    read: tuple[Reader, dict[Block, str], list[str]], tmp_path: Path
) -> None:
    reader, _outcomes, _wrong = read
    assert len(reader.offline) > 2
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(CACHE / "collections")]), "HOME": str(tmp_path)}
    for number, words in enumerate(reader.offline.values()):
        project = tmp_path / str(number)
        project.mkdir()
        (project / "train.sbatch").write_text(SBATCH, encoding="utf-8")
        run(sys.executable, "-m", *words, cwd=project, env=env)
        shutil.rmtree(project)
