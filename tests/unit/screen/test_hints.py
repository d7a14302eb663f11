# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command that the collection suggests: built in one place, with the inventory of the run, quoted."""

from __future__ import annotations

import io
import os
import re
import shlex
import tokenize
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending, Launched
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import (
    commands_of,
    launch_command,
    playbook_command,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.report_rows import report
from rankzero.direct_wait import named_by
from tests.repository import ROOT

RUN_DIR = "/s/my runs/gpt/0123456789abcdef/2"
INVENTORY = {"ansible_inventory_sources": ["my hosts"]}
BY_COMMAND = {"RANKZERO_RECORDS": "/f", "RANKZERO_OPTIONS": "-i 'my hosts' -c ux"}
# The program, an option or one of our playbooks: a command line, and not the program's name in a sentence.
COMMAND_LINE = re.compile(r"ansible-playbook +(-|\{|rankzero\.slurm\.|\S+\.yml)")
BUILDER = "plugins/plugin_utils/screen/hints.py"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (playbook_command("attach", INVENTORY, run_dir=RUN_DIR), ["rankzero.slurm.attach", "-e", f"run_dir={RUN_DIR}"]),
        (playbook_command("train.yml", INVENTORY, "/s/vars/a b.json"), ["train.yml", "-e", "@/s/vars/a b.json"]),
        (
            launch_command("diagnose", RUN_DIR, INVENTORY, {}),
            ["rankzero.slurm.diagnose", "-e", f"run_dir={RUN_DIR}"],
        ),
    ],
)
def test_a_command_names_the_inventory_of_the_run(given: str, expected: list[str]) -> None:
    assert shlex.split(given) == ["ansible-playbook", "-i", "my hosts", *expected]


def test_without_an_inventory_none_is_named() -> None:
    assert " -i " not in playbook_command("attach", {}, run_dir=RUN_DIR)


@pytest.mark.parametrize(
    ("host", "logins", "cluster"),
    [
        ("alpha", ["alpha"], []),
        ("alpha", ["alpha", "beta"], ["-e", "cluster=alpha"]),
        ("gamma", ["alpha"], ["-e", "cluster=gamma"]),
        ("gamma", [], ["-e", "cluster=gamma"]),
        ("localhost", ["alpha"], []),
    ],
)
def test_a_cluster_among_several_is_named(host: str, logins: list[str], cluster: list[str]) -> None:
    given = {**INVENTORY, "inventory_hostname": host, "groups": {"slurm_login": logins}}
    words = shlex.split(launch_command("attach", RUN_DIR, given, {}))
    assert words[-2 - len(cluster) :] == ["-e", f"run_dir={RUN_DIR}", *cluster]


@pytest.mark.parametrize(("playbook", "verb"), [("attach", "attach"), ("cancel", "cancel"), ("diagnose", "why")])
def test_a_run_of_the_command_is_followed_by_the_command(playbook: str, verb: str) -> None:
    words = shlex.split(launch_command(playbook, RUN_DIR, INVENTORY, BY_COMMAND))
    assert words == ["rankzero", verb, "gpt/0123456789abcdef/2", "-i", "my hosts", "-c", "ux"]


def test_the_report_of_a_launch_that_goes_on_names_the_inventory() -> None:
    rows = report(INVENTORY, Ending(Launched("gpt", RUN_DIR, "7")))
    assert all(command in rows[-1].text for command in commands_of(RUN_DIR, INVENTORY).values())
    assert rows[-1].text.count("-i 'my hosts'") == 2


def _strings(path: Path) -> list[tuple[int, str]]:
    """Line and text of each string in a Python file, except docstrings and documentation of modules."""
    source = path.read_text(encoding="utf-8")
    if "ansible-playbook" not in source:  # most files: to split them into tokens takes seconds
        return []
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    kinds = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    return [
        (token.start[0], token.string)
        for token in tokens
        if token.type in kinds and not re.match(r"""[rR]?(\"\"\"|''')""", token.string)
    ]


def test_no_other_place_builds_a_command_line() -> None:
    """Neither Python code nor a task of a role or playbook."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "plugins").rglob("*.py"))
        if path != ROOT / BUILDER
        for number, text in _strings(path)
        if COMMAND_LINE.search(text)
    ]
    tasks = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    wrong += [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(tasks)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"ansible-playbook\b(?! runs)", line.split("#", 1)[0])
    ]
    assert not wrong, f"build these command lines with {BUILDER}: {wrong}"


def test_a_playbook_that_the_same_process_starts_later_names_its_own_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKZERO_OPTIONS", "-c a")
    monkeypatch.delenv("RANKZERO_RECORDS", raising=False)
    before = dict(os.environ)
    with named_by(["-c", "b c"]):
        assert launch_command("attach", "/runs/gpt/0123/1") == "rankzero attach gpt/0123/1 -c 'b c'"
    assert dict(os.environ) == before
