# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command's own tests: a folder to work in, and an ansible-playbook that writes down how it was called."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

PROGRAM = """#!{python}
import json, os, sys
with open({calls!r}, "a", encoding="utf-8") as stream:
    given = {{name: value for name, value in os.environ.items() if name.startswith(("ANSIBLE_", "RANKZERO_"))}}
    files = {{word[1:]: open(word[1:], encoding="utf-8").read() for word in sys.argv if word.startswith("@")}}
    stream.write(json.dumps({{"argv": sys.argv[1:], "env": given, "files": files}}) + "\\n")
answer = json.load(open({answer!r}, encoding="utf-8"))
with open(os.environ["RANKZERO_RECORDS"], "a", encoding="utf-8") as stream:
    for record in answer["records"]:
        stream.write(json.dumps(record) + "\\n")
print("PLAY RECAP", flush=True)
if answer["waits"]:
    import signal, time
    # A print would fail where the signal comes during another one.
    signal.signal(signal.SIGINT, lambda *_: (os.write(1, b"detached\\n"), os._exit(99)))
    print("waiting", flush=True)
    time.sleep(60)
sys.exit(answer["rc"])
"""


class Ansible:
    """The stand-in for ansible-playbook. `answer` sets what it returns next."""

    def __init__(self, folder: Path) -> None:
        self._calls, self._answer = folder / "calls", folder / "answer"
        program = folder / "ansible-playbook"
        program.write_text(PROGRAM.format(python=sys.executable, calls=str(self._calls), answer=str(self._answer)))
        program.chmod(0o755)
        self.program = str(program)
        self.answer()

    def answer(self, rc: int = 0, *records: tuple[str, str, dict[str, Any]], waits: bool = False) -> None:
        """records: (module, outcome, result), all of the host `login`. `waits`: until Ctrl-C, then it ends with 99."""
        answered = [
            {"host": "login", "action": f"rankzero.slurm.{module}", "outcome": outcome, "result": result}
            for module, outcome, result in records
        ]
        self._answer.write_text(json.dumps({"rc": rc, "records": answered, "waits": waits}), encoding="utf-8")

    def calls(self) -> list[dict[str, Any]]:
        """How it was called, oldest first."""
        lines = self._calls.read_text(encoding="utf-8").splitlines() if self._calls.exists() else []
        return [json.loads(line) for line in lines]

    def argv(self) -> list[str]:
        """The arguments of the last call."""
        argv: list[str] = self.calls()[-1]["argv"]
        return argv

    def variables(self) -> dict[str, Any]:
        """The extra variables of the last call. Each text in the file for Ansible is one that is no template."""
        call, values = self.calls()[-1], {}
        for option, value in zip(call["argv"], call["argv"][1:]):
            if option == "-e" and value.startswith("@"):
                values.update(yaml.load(call["files"][value[1:]], Unsafe))
            elif option == "-e":
                name, _, text = value.partition("=")
                values.update(json.loads(value) if value.startswith("{") else {name: text})
        return values


class Unsafe(yaml.SafeLoader):
    """Reads the file of variables. A text without the tag is an error, but for names."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        return {name.value: self.construct_object(value, deep=True) for name, value in node.value}


def _untagged(_loader: Unsafe, node: yaml.ScalarNode) -> str:
    assert not set("{}#[]%") & set(node.value), f"{node.value!r} may be a template"
    return str(node.value)


Unsafe.add_constructor("tag:yaml.org,2002:str", _untagged)
Unsafe.add_constructor("!unsafe", lambda _loader, node: node.value)
Unsafe.add_constructor("tag:yaml.org,2002:map", yaml.SafeLoader.construct_yaml_map)


@pytest.fixture
def ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ansible:
    tools = tmp_path / "tools"
    tools.mkdir()
    stand_in = Ansible(tools)
    monkeypatch.setattr("rankzero.playbook.ansible_playbook", lambda: stand_in.program)
    project = tmp_path / "project"
    (project / "jobs").mkdir(parents=True)
    (project / "jobs" / "train.yml").write_text("name: gpt\ncommand: [train.py, --steps, '10']\n", encoding="utf-8")
    (project / "jobs" / "both.yml").write_text("jobs: [train.yml]\n", encoding="utf-8")
    monkeypatch.chdir(project)
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return stand_in


@pytest.fixture
def rankzero(ansible: Ansible) -> Callable[..., int]:
    from rankzero.command import main

    def call(*words: str) -> int:
        return main(list(words))

    return call
