# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files belong to launching: recognised by what they are, left out of the code unless the program reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Chosen, patterns_of, take_snapshot
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.provenance import refuse_changes
from tests.unit.sources.trap import git

SPEC = "name: a\ncommand: [train.py]\nresources: {time: '1'}\n"
FILES = {
    "train.py": "print()\n",
    "jobs/train.yml": SPEC,
    "jobs/eval.json": '{\n  "name": "b",\n  "shell": "true",\n  "resources": {\n    "nodes": 2\n  }\n}\n',
    "jobs/one line.yml": '{"name": "c", "command": ["x"]}',
    "jobs/broken.json": '{"name": "d", "command": [',
    "jobs/model.yml": "name: small\ncommand: x\nlayers: 12\n",
    "jobs/small.yml": "name: small\n",
    "pipelines/all.yml": "jobs:\n  - job: ../jobs/train.yml\n    after: []\n",
    "pipelines/work.yml": "jobs: [build, test]\n",
    "again/launch.json": '{"rankzero_launch": 1, "name": "a", "spec": {}}',
    "ansible.cfg": "[defaults]\n",
    "tools/ansible.cfg": "not Ansible's\n",
    "inventory/hosts.yml": "slurm_login:\n  hosts: {a: {}}\n",
    "inventory/hosts.ini": "[slurm_login]\na\n",
    "sites/hosts": "[slurm_login]\na\n[slurm_login:vars]\nx=1\n",
    "sites/host_vars/a.yml": "x: 1\n",
    "sites/nodes.yml": "plugin: rankzero.slurm.nodes\n",
    "play.yml": "- hosts: slurm_login\n",
    "inventory/group_vars/all.yml": "x: 1\n",
    "inventory/loader.py": "pass\n",
    "group_vars/all.yml": "x: 1\n",
    "logs/a/0123456789abcdef/1/logs/0/rank-0000.log": "x\n",
    "logs/a/sweep-0123456789abcdef/results.csv": "x\n",
    "logs/sweep-a/results.csv": "x\n",
    "ada.json": '{\n "launch_cluster": {\n  "account": "ada"\n }\n}\n',
    "site.yml": "launch_cluster:\n  account: ada\n",
    "settings.yml": "cluster:\n  launch_cluster: no\n",
}
LEFT_OUT = [
    "ada.json",
    "again/launch.json",
    "ansible.cfg",
    "inventory/group_vars/all.yml",
    "inventory/hosts.ini",
    "inventory/hosts.yml",
    "jobs/eval.json",
    "jobs/one line.yml",
    "jobs/train.yml",
    "logs/a/0123456789abcdef/1/logs/0/rank-0000.log",
    "logs/a/sweep-0123456789abcdef/results.csv",
    "pipelines/all.yml",
    "site.yml",
    "sites/host_vars/a.yml",
    "sites/hosts",
    "sites/nodes.yml",
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_files_of_launching_are_left_out_and_all_others_are_the_program(project: Path) -> None:
    snapshot = take_snapshot(str(project))
    assert sorted(snapshot.left_out) == LEFT_OUT
    assert {entry.path for entry in snapshot.files} == set(FILES) - set(LEFT_OUT)
    everything = take_snapshot(str(project), Chosen.everything())
    assert everything.digest != snapshot.digest and everything.left_out == ()


def test_a_changed_time_leaves_the_digest_as_it_is(project: Path) -> None:
    before = take_snapshot(str(project)).digest
    (project / "jobs/train.yml").write_text(SPEC.replace("'1'", "'2'"), encoding="utf-8")
    assert take_snapshot(str(project)).digest == before
    (project / "jobs/model.yml").write_text("layers: 13\n", encoding="utf-8")
    assert take_snapshot(str(project)).digest != before


@pytest.mark.parametrize("words", [("jobs/train.yml",), ("--config=./jobs/train.yml",), ("cat jobs/train.yml; ls",)])
def test_a_file_that_the_command_names_is_the_programs(project: Path, words: tuple[str, ...]) -> None:
    assert sorted(set(LEFT_OUT) - set(take_snapshot(str(project), Chosen(words=words)).left_out)) == ["jobs/train.yml"]


def test_include_puts_files_back(project: Path) -> None:
    kept = take_snapshot(str(project), Chosen(include=("jobs/", "ansible.cfg")))
    back = [path for path in LEFT_OUT if path.startswith("jobs/")]
    assert sorted(set(LEFT_OUT) - set(kept.left_out)) == ["ansible.cfg", *back]
    with pytest.raises(RankzeroError, match=r"code\.include"):
        take_snapshot(str(project), Chosen(include=("!x",)))


def test_a_folder_of_nothing_else_is_sent_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(SPEC, encoding="utf-8")
    assert take_snapshot(str(tmp_path)).left_out == ()


def test_a_program_that_writes_to_the_folder_of_the_fetched_logs_does_not_read_them(project: Path) -> None:
    assert (
        take_snapshot(str(project), Chosen(words=("--output", "logs"))).left_out == take_snapshot(str(project)).left_out
    )
    named = Chosen(words=("cat logs/a/0123456789abcdef/1/logs/0/rank-0000.log",))
    assert len(take_snapshot(str(project), named).left_out) == len(LEFT_OUT) - 1


def test_a_pattern_for_each_file_gives_the_same_files(project: Path) -> None:
    odd = project / "jobs" / "[a] *?!(b)$.yml"
    odd.write_text(SPEC, encoding="utf-8")
    (project / "jobs" / "a xx!(b)$.yml").write_text("not a job\n", encoding="utf-8")
    snapshot = take_snapshot(str(project), Chosen(("*.ini",)))
    assert f"jobs/{odd.name}" in snapshot.left_out
    assert take_snapshot(str(project), Chosen.everything(patterns_of(snapshot, ("*.ini",)))).files == snapshot.files


def test_a_changed_job_file_is_no_change_of_the_code_and_no_exact_commit(project: Path) -> None:
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "x"]):
        git(project, *words)
    refuse_changes(take_snapshot(str(project)))
    (project / "jobs/train.yml").write_text(SPEC.replace("'1'", "'2'"), encoding="utf-8")
    snapshot = take_snapshot(str(project))
    assert not snapshot.dirty and snapshot.diff_digest is None
    with pytest.raises(RankzeroError, match=r"jobs/train\.yml"):
        refuse_changes(snapshot)
