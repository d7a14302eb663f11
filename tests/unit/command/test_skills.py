# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero skill`: its files come from the declarations, name only commands that exist, and replace nobody's file."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from rankzero import errors
from rankzero.options import VERBS
from rankzero.parsing import parse
from rankzero.skills import SKILLS, text_of
from rankzero.spec_keys import rows
from tests.repository import ROOT
from tests.unit.command.conftest import Ansible

PLACE = Path(".agents/skills/rankzero-launch/SKILL.md")


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_has_its_head_and_commands_that_exist(name: str) -> None:
    _none, head, text = text_of(name).split("---\n", 2)
    assert yaml.safe_load(head) == {"name": name, "description": SKILLS[name]}
    commands = re.findall(r"`rankzero ([^`]+)`", text)
    assert len(commands) > 4
    for command in commands:
        words = shlex.split(command)
        assert words[0] in VERBS, command
        if words[1:]:
            parse(words)
    assert set(re.findall(r"skill (rankzero-\w+)", text)) <= set(SKILLS)


def test_skills_know_what_is_declared(ansible: Ansible) -> None:
    assert [family.family for family in SIGNATURES if f"`{family.family}`" not in text_of("rankzero-debug")] == []
    keys = [row for row in rows() if not row["key"].startswith(("roles.NAME", "launch_cluster"))]
    assert [row["key"] for row in keys if f"`{row['key']}`" not in text_of("rankzero-job")] == []
    assert [
        row["key"] for row in keys if row["sbatch"] and f"`--{row['sbatch']}`" not in text_of("rankzero-port")
    ] == []
    (example,) = re.findall(r"```yaml\n(.*?)```", text_of("rankzero-job"), re.S)
    Path("pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\n", encoding="utf-8")
    assert read_job(yaml.safe_load(example), None, None, None, str(Path("jobs").resolve())).spec.name == "gpt-small"


def test_skills_are_installed_and_no_file_is_lost(
    rankzero: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert rankzero("skill") == errors.OK
    assert all(name in capsys.readouterr().out for name in ["rankzero-launch"]) and not PLACE.exists()
    assert rankzero("skill", "install") == errors.OK and PLACE.read_text(encoding="utf-8") == text_of("rankzero-launch")
    assert rankzero("skill", "install") == errors.OK and "is there" in capsys.readouterr().out
    PLACE.write_text("my own\n", encoding="utf-8")
    assert rankzero("skill", "install") == errors.REFUSED
    assert PLACE.read_text(encoding="utf-8") == "my own\n" and f"{PLACE} has another content" in capsys.readouterr().err
    assert rankzero("skill", "install", "--dest", "other") == errors.OK and Path("other/rankzero-job/SKILL.md").exists()
    assert rankzero("skill", "install", "--force") == errors.OK and "my own" not in PLACE.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", ["skill install", "mcp --json --jobs ."])
def test_the_command_finds_the_collection_by_itself(words: str, tmp_path: Path) -> None:
    """A process of its own: in that of the tests the collection can be imported already."""
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "python")}
    argv = [sys.executable, "-P", "-m", "rankzero", *words.split()]
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
