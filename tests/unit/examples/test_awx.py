# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The survey and the credential type of examples/awx: the rules of AWX, and a playbook that gets their answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import known_names
from tests.repository import load_yaml, run

SURVEY = load_yaml("examples/awx/survey.yml")
CREDENTIAL = load_yaml("examples/awx/credential_type.yml")
#: Kinds of questions -> the type of an answer, and of its default.
ANSWERS = {
    **dict.fromkeys(("text", "textarea", "password", "multiplechoice"), str),
    "multiselect": list,
    "integer": int,
    "float": float,
}
VALUE = "hf_do-not-show"


def test_the_survey_is_one_and_asks_for_variables_of_the_playbook() -> None:
    assert {*SURVEY} == {"name", "description", "spec"}
    names = [question["variable"] for question in SURVEY["spec"]]
    assert len(names) == len({*names}) and {*names} <= {*known_names("train")} and "job" in names
    for question in SURVEY["spec"]:
        assert {"question_name", "variable", "type", "required"} <= {*question}, question
        kind, default = question["type"], question["default"]
        assert type(default) is ANSWERS[kind], question
        size = default if kind in ("integer", "float") else len(str(default))
        assert question["min"] <= size <= question["max"], question
        assert kind not in ("multiplechoice", "multiselect") or default in question["choices"], question


def test_the_credential_type_gives_secrets_to_the_environment_alone() -> None:
    inputs, injectors = CREDENTIAL["inputs"], CREDENTIAL["injectors"]
    assert CREDENTIAL["kind"] in ("cloud", "net") and {*inputs} <= {"fields", "required"}
    fields = {field["id"]: field for field in inputs["fields"]}
    assert len(fields) == len(inputs["fields"]) and {*inputs["required"]} <= {*fields} and "tower" not in fields
    for name, field in fields.items():
        assert re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) and field["label"]
        assert (field["type"], field["secret"]) == ("string", True), field
        assert {*field} <= {"id", "label", "type", "secret", "help_text", "format", "multiline", "default", "choices"}
    assert {*injectors} == {"env"}, "AWX shows extra variables, and a file would stay in the container"
    rendered = environment({name: name for name in fields})
    assert sorted(rendered.values()) == sorted(fields), "each field has its variable"
    assert all(re.fullmatch("[A-Z_][A-Z0-9_]*", name) for name in rendered)


def environment(values: dict[str, str]) -> dict[str, str]:
    """What AWX sets for a credential with these values."""
    templates: dict[str, Any] = CREDENTIAL["injectors"]["env"]
    jinja = Environment(undefined=StrictUndefined)
    return {name: jinja.from_string(text).render(values) for name, text in templates.items()}


def test_a_playbook_takes_the_answers(tmp_path: Path) -> None:
    names = [field["id"] for field in CREDENTIAL["inputs"]["fields"]]
    given = environment(dict.fromkeys(names, VALUE))
    job = {
        "name": "asked",
        "command": ["train.py"],
        "resources": {"nodes": 1, "time": "00:10:00"},
        "secrets": {name: {"from_env": name} for name in given},
    }
    answers = {question["variable"]: question["default"] for question in SURVEY["spec"]}
    path = tmp_path / answers["job"]
    path.parent.mkdir()
    path.write_text(json.dumps(job), encoding="utf-8")
    (path.parent / "train.py").write_text("", encoding="utf-8")
    # AWX passes answers as one map of extra variables.
    (tmp_path / "extra.json").write_text(json.dumps({**answers, "nodes": 3}), encoding="utf-8")
    done = run("ansible-playbook", "rankzero.slurm.plan", "-v", "-e", "@extra.json", cwd=tmp_path, env=given)
    assert "#SBATCH --nodes=3" in done.stdout, done.stdout
    assert "HF_TOKEN" in done.stdout and VALUE not in done.stdout, done.stdout
