# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a repository that are made to keep the controller busy, or to mean something else than they show."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import MOST_BYTES, named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.conda import conda_recipe
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.folder import read_folder
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import load_job_file
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import documents
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.build_context import read_build
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.documents import (
    MOST_LEVELS,
    MOST_VALUES,
    json_document,
    text_document,
    typed_document,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.failure_families import load_families
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import project_recipe, requirements

BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]" for number in range(1, 10)]
)
MERGES = "\n".join(
    ["a0: &a0 {x: 1, y: 2}"]
    + [f"a{number}: &a{number} {{<<: [{', '.join([f'*a{number - 1}'] * 10)}]}}" for number in range(1, 10)]
)
READERS: dict[str, Callable[[str], Any]] = {"text": text_document, "typed": typed_document}


def made(monkeypatch: pytest.MonkeyPatch, read: Callable[[str], Any], text: str) -> tuple[str, int]:
    """(the problem that a reader sees, how many events it took from the parser until then)."""
    taken = 0
    ask = yaml.parser.Parser.get_event

    def counted(self: Any) -> Any:
        nonlocal taken
        taken += 1
        return ask(self)

    monkeypatch.setattr(yaml.parser.Parser, "get_event", counted)
    with pytest.raises(yaml.YAMLError) as caught:
        read(text)
    return str(getattr(caught.value, "problem", "")), taken


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("text", [BOMB, MERGES], ids=["aliases", "merge keys"])
def test_aliases_are_counted_before_anything_is_made_of_them(
    text: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, taken = made(monkeypatch, READERS[kind], text)
    assert problem.startswith(f"it contains more than {MOST_VALUES} values")
    assert taken < 200


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("text", ["[" * 500_000, "{a: " * 250_000, "- " * 400_000, "? " * 400_000])
def test_nesting_ends_long_before_the_text_does(text: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, taken = made(monkeypatch, READERS[kind], text)
    assert problem == f"it is nested more than {MOST_LEVELS} levels deep"
    assert taken < 5 * MOST_LEVELS


@pytest.mark.parametrize("kind", READERS)
def test_a_long_list_is_read_as_far_as_anybody_could_mean_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_VALUES", 1000)
    problem, taken = made(monkeypatch, READERS[kind], "[" + "[]," * 300_000)
    assert problem.startswith("it contains more than 1000 values")
    assert taken < 2100


@pytest.mark.parametrize("kind", READERS)
def test_aliases_that_people_write_are_followed(kind: str) -> None:
    found = READERS[kind]("a: &one {x: b, y: [c, d]}\nz: [*one, *one]\n")
    document = found[0] if kind == "text" else found
    assert document["z"] == [{"x": "b", "y": ["c", "d"]}] * 2


@pytest.mark.parametrize("text", ["a: " + "9" * 100_000, "a: " + "1:" * 50_000 + "1", "a: -" + "1" * 41])
def test_a_number_without_end_is_none(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="a number may have 40 digits"):
        typed_document(text)
    # In a job file it is text, and each type says what it takes.
    assert text_document(text)[0]["a"] == text[3:]


def test_a_key_stands_once() -> None:
    for text in ("a: 1\na: 2\n", "x: {a: 1, b: 2, a: 3}\n"):
        with pytest.raises(yaml.YAMLError, match="the key 'a' appears twice"):
            typed_document(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice in a map"),
        ('{"a": ' + "9" * 100_000 + "}", "a number may have 40 digits, and one has 100000"),
        ('{"a": 0.' + "1" * 100_000 + "}", "a number may have 40 digits"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
    ],
)
def test_json_that_is_made_for_trouble(text: str, words: str) -> None:
    with pytest.raises(RankzeroError, match=words):
        json_document(text, "job: x")


@pytest.mark.parametrize("text", ['{"a":' * 100_000, "{" + "[" * 500_000, "", "name: x"])
def test_what_is_no_json(text: str) -> None:
    assert json_document(text, "job: x") is None


def no_file(kind: str, path: Path) -> Path:
    """Something in place of a file, and where it is."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as stream:
            stream.truncate(MOST_BYTES + 1 if kind == "large file" else 50_000_000_000)
    return path


KINDS = {
    "pipe": "is not a regular file",
    "device": "is not a regular file",
    "large file": "more than",
    "endless file": "more than",
}


@pytest.mark.parametrize("kind", [*KINDS, "folder"])
def test_only_a_file_of_a_reasonable_size_is_read(kind: str, tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match=f"job: .*{KINDS.get(kind, 'Is a directory')}"):
        named_text(str(no_file(kind, tmp_path / "x.yml")), "job")


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_of_a_job_is_read_so(kind: str, tmp_path: Path) -> None:
    def wanted(folder: str) -> dict[str, Any]:
        return {"extras": [], "python": None, "torch": "auto", "mode": "venv"}

    readers: dict[str, Callable[[str], object]] = {
        "job.yml": lambda path: load_job_file(path, "/"),
        "family.yml": lambda path: load_families([path], "/"),
        "Containerfile": lambda path: read_build(path, None, {}),
        "pyproject.toml": lambda path: project_recipe(os.path.dirname(path), wanted(path)),
        "requirements.txt": lambda path: requirements(os.path.dirname(path), "requirements.txt"),
    }
    if kind in ("pipe", "device"):
        readers["environment.yml"] = conda_recipe
    for name, read in readers.items():
        path = no_file(kind, tmp_path / name)
        with pytest.raises(RankzeroError, match=KINDS[kind]):
            read(str(path))


def test_a_folder_with_such_a_job_file_launches_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("name: a\ncommand: [x]\n")
    os.mkfifo(tmp_path / "b.yml")
    (tmp_path / "c.yml").symlink_to("/dev/zero")
    (tmp_path / "d.yml").write_text(BOMB)
    with pytest.raises(RankzeroError) as caught:
        read_folder(".", None, str(tmp_path))
    assert caught.value.message.startswith("jobs: 3 problems")
    for words in (
        "b.yml cannot be read: is not a regular file",
        "c.yml cannot be read: is not a regular file",
        "aliases count each time",
    ):
        assert words in caught.value.message


@pytest.mark.parametrize(
    "settings",
    [
        "resources: {time: %s}",
        "resources: {memory: %s}",
        "resources: {nodes: %s}",
        "seed: %s",
        "sweep: {method: random, samples: 3, parameters: {lr: {min: 1, max: %s}}}",
        "artifact: {require: {loss: {lt: %s}}}",
        "environment: {python: %s.1}",
        "preflight: {free_run: %s}",
    ],
)
def test_no_number_of_a_job_file_is_without_end(settings: str, tmp_path: Path) -> None:
    text = "name: a\ncommand: [x, '{lr}']\n" + settings % ("9" * 100_000)
    (tmp_path / "a.yml").write_text(text)
    with pytest.raises(RankzeroError) as caught:
        read_folder(".", None, str(tmp_path))
    assert "99999" in caught.value.message
    assert len(caught.value.message) < 2000
