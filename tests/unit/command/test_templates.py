# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API and the listings hand to a real ansible-playbook is never a template: names come from the cluster."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rankzero
from rankzero import playbook
from rankzero.playbook import Call
from tests.unit.command.conftest import Ansible

PIPE = '{{ lookup("pipe", "touch MARK; echo 1") }}'
TEXTS = (PIPE, "{% for a in [1] %}" + PIPE + "{% endfor %}", "a\n" + PIPE, "é\u2028'\"\\" + PIPE, PIPE * 300)
KEY = "0123456789abcdef"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inventory").write_text("[slurm_login]\nlocalhost ansible_connection=local\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANSIBLE_INVENTORY", raising=False)
    return tmp_path


def launch(text: str) -> rankzero.Launch:
    """A launch as a list of somebody else's state root gives it."""
    known = {
        "cluster": "localhost",
        "name": text,
        "key": text,
        "generation": 1,
        "job_id": text,
        "run_dir": f"/{text}/1",
    }
    return rankzero.Launch(known, rankzero.api.Options(inventory="inventory"))


def calls(mark: str) -> dict[str, Callable[[], Any]]:
    texts = [text.replace("MARK", mark) for text in TEXTS]
    pipe, every = texts[0], "".join(texts)
    deep = {"name": pipe, "command": texts, "env": {"A": every}, "resources": {"nodes": pipe}}
    return {
        "run, the job": lambda: rankzero.run(deep, *texts, overrides={"env.B": every}, inventory="inventory"),
        "plan, its path": lambda: rankzero.plan(f"jobs/{pipe}.yml", inventory="inventory"),
        "the cluster": lambda: rankzero.launches(cluster=pipe, inventory="inventory"),
        "a run directory": lambda: rankzero.attach(f"/{every}/1", inventory="inventory"),
        "diagnosis": lambda: launch(every).diagnosis(),
        "logs": lambda: launch(pipe).logs(dest=every),
        "pull": lambda: launch(pipe).pull(*texts, dest=pipe),
    }


@pytest.mark.parametrize("call", calls(""))
def test_no_argument_of_the_api_is_a_template(here: Path, call: str) -> None:
    with pytest.raises(rankzero.RankzeroError):
        calls(str(here / "PWN"))[call]()
    assert not (here / "PWN").exists()


def test_the_same_text_typed_for_ansible_is_one(here: Path) -> None:
    """So the test above would see it."""
    where = {"inventory": ("inventory",)}
    run_dir = PIPE.replace("MARK", str(here / "PWN"))
    playbook.play(Call("diagnose", {}, {"run_dir": run_dir}, **where), listener=lambda _line: None)
    assert (here / "PWN").exists()


@pytest.mark.parametrize(
    "text",
    [
        *TEXTS,
        "",
        " ",
        "null",
        "3",
        "@/etc/passwd",
        "-e",
        "😀\x00\x07\x85",
        "a: b",
        "#",
        "~",
        "<<",
        "=",
        "on",
        "0x1F",
        "1_0",
        "+1.5e3",
        ".inf",
        "2001-12-14 21:59:43.10 -5",
        "012",
        "#jinja2: variable_start_string:'[['\n[[ 1 ]]",
    ],
)
def test_every_text_arrives_as_it_is(text: str, tmp_path: Path) -> None:
    import yaml
    from ansible.parsing.dataloader import DataLoader

    given = {"text": text, "deep": {text: [text, {"a": text}, 1, None, True, 1.5, 1e-05, 2.5e-07, -1e16, 1e22]}}
    path = tmp_path / "variables.yml"
    path.write_text(Call("status", given).unsafe(), encoding="ascii")
    loaded = DataLoader().load_from_file(str(path))
    assert json.loads(json.dumps(loaded, default=str)) == json.loads(json.dumps(given))
    assert yaml.compose(path.read_text())


def test_values_are_in_a_private_file_that_goes_away(
    ansible: Ansible, rankzero: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    attached = playbook._attached

    def seen(argv: list[str], *more: Any) -> int:
        path = Path(next(word[1:] for word in argv if word.startswith("@")))
        modes.append((path, stat.S_IMODE(path.parent.stat().st_mode)))
        return attached(argv, *more)

    monkeypatch.setattr(playbook, "_attached", seen)
    assert rankzero("ls", "gpt/0123abcd", "-e", "forks={{ 1 + 2 }}") == 0
    ((path, mode),) = modes
    assert mode == 0o700 and not path.exists()
    assert "gpt" not in " ".join(ansible.argv()) and ansible.variables()["launch_name"] == "gpt"
    # What the user types for Ansible has Ansible's meaning.
    assert ansible.variables()["forks"] == "{{ 1 + 2 }}" and "{{ 1 + 2 }}" in " ".join(ansible.argv())


def test_the_line_that_is_shown_holds_no_text_that_would_be_a_template(
    ansible: Ansible, rankzero: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    rankzero("logs", "/state/{{ x }}/runs/1", "--dest", "out", "-v")
    shown = capsys.readouterr().err
    assert "{{" not in shown and "-e dest=out" in shown
