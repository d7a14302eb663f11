# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which jobs a pipeline has, in which order, and what each follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import text_replaced
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.pipeline import stages
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job


class Folder:
    """A user's folder with job files; `order` is what comes of a pipeline in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def job(self, path: str, name: str = "", **spec: Any) -> str:
        return self.write(path, {"name": name or Path(path).stem, "command": ["x"], **spec})

    def write(self, path: str, data: Any) -> str:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(yaml.safe_dump(data), encoding="utf-8")
        return path

    def order(self, given: Any) -> list[tuple[str, list[str]]]:
        found = stages(given, lambda path: read_job(path, {}, {}, {}, str(self.root)), str(self.root))
        return [(one.job.spec.name, [found[index].job.spec.name for index in one.after]) for one in found]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    for name in ("tokenise", "train", "evaluate"):
        made.job(f"jobs/{name}.yml")
    return made


CHAIN = [("tokenise", []), ("train", ["tokenise"]), ("evaluate", ["train"])]


def test_a_list_is_one_after_the_other(folder: Folder) -> None:
    paths = [f"jobs/{name}.yml" for name in ("tokenise", "train", "evaluate")]
    assert folder.order(paths) == CHAIN
    assert folder.order([str(folder.root / path) for path in paths]) == CHAIN
    folder.write("pipelines/gpt.yml", {"jobs": [f"../{path}" for path in paths]})
    assert folder.order("pipelines/gpt.yml") == CHAIN


def test_a_job_file_brings_what_it_follows(folder: Folder) -> None:
    folder.job("jobs/train.yml", after=["tokenise.yml"])
    folder.job("jobs/evaluate.yml", after=["train.yml", "../jobs/tokenise.yml"])
    assert folder.order("jobs/evaluate.yml") == [*CHAIN[:2], ("evaluate", ["train", "tokenise"])]
    assert folder.order("jobs/tokenise.yml") == CHAIN[:1]


def test_after_says_otherwise_than_the_order_of_the_list(folder: Folder) -> None:
    folder.job("jobs/train.yml", after=["tokenise.yml"])
    # `tokenise` stands after `train`, which follows it: the item says that it follows nobody.
    items: list[Any] = [
        "jobs/train.yml",
        {"job": "jobs/tokenise.yml", "after": []},
        {"job": "jobs/evaluate.yml", "after": []},
    ]
    folder.write("all.yml", {"jobs": items})
    assert folder.order("all.yml") == [("tokenise", []), ("train", ["tokenise"]), ("evaluate", [])]
    items[2] = {"job": "jobs/evaluate.yml", "after": ["jobs/tokenise.yml"]}
    folder.write("all.yml", {"jobs": items})
    assert folder.order("all.yml")[2] == ("evaluate", ["tokenise"])


def test_the_overrides_reach_every_job(folder: Folder) -> None:
    found = stages(
        ["jobs/tokenise.yml", "jobs/train.yml"],
        lambda path: read_job(path, {"resources": {"account": "ml"}}, {"time": "00:07:00"}, {}, str(folder.root)),
        str(folder.root),
    )
    assert {(one.job.spec.resources.account, one.job.spec.resources.time) for one in found} == {("ml", "00:07:00")}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "job: is required: the path of a job file or of a pipeline file"),
        ({"name": "x"}, "job: is required"),
        ([], "jobs must be a list of job files, not []"),
        ([7], "an item must be the path of a job file, or {job, after}; not 7"),
        ([{"job": "jobs/train.yml", "afte": []}], "afte: unknown key; did you mean after?"),
        ([{"job": "jobs/train.yml", "after": "x"}], "after must be a list of job files, not 'x'"),
        ([{"after": []}], "not None"),
        (["jobs/none.yml"], "there is no file"),
        ("extra.yml", "extra.yml:3: name: unknown key of a pipeline file; known: jobs"),
        ("circle-a.yml", "in a circle: ROOT/circle-a.yml -> ROOT/circle-b.yml -> ROOT/circle-a.yml"),
        ("both.yml", "both.yml follows two jobs of the name train; the ranks find each by its name"),
        ("after.yml", "resources.any_of: ROOT/several.yml has several jobs of which one runs, and ROOT/after.yml"),
    ],
)
def test_a_mistake_says_what_to_do(folder: Folder, given: Any, said: str) -> None:
    folder.write("extra.yml", {"jobs": ["jobs/train.yml"], "name": "x"})
    folder.job("circle-a.yml", after=["circle-b.yml"])
    folder.job("circle-b.yml", after=["circle-a.yml"])
    folder.job("other.yml", name="train")
    folder.job("several.yml", resources={"any_of": [{"account": "a"}, {"account": "b"}]})
    folder.job("after.yml", after=["several.yml"])
    folder.job("both.yml", after=["other.yml", "jobs/train.yml"])
    with pytest.raises(RankzeroError) as caught:
        folder.order(given)
    assert said.replace("ROOT", str(folder.root)) in caught.value.message


def test_tokens_are_replaced_wherever_they_stand() -> None:
    given = {"files": {"job.sbatch": "a T1 b T2"}, "lines": ["T1", 3, None]}
    assert text_replaced(given, {"T1": "1", "T2": "2"}) == {"files": {"job.sbatch": "a 1 b 2"}, "lines": ["1", 3, None]}
    assert text_replaced([Ref("code", "T1", "/T2")], {"T1": "1", "T2": "2"}) == [Ref("code", "1", "/2")]
