# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many launches in one call: what they ask Slurm, how they follow each other, and what a failure means."""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import (
    bundle_key,
    publish_files,
    read_bundle,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit import refs
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.many.batch import Batch, SlurmOfMany
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.many.launches import (
    BatchLaunch,
    Before,
    packed,
    unpacked,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Stores
from tests.unit.submit.bench import TOKEN, Bench, Cluster


class Folder:
    """The launches of a folder of specs, and a Slurm that counts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bench = Bench(root)
        self.cluster = self.bench.cluster

    def launch(self, name: str, *follows: str, **changes: Any) -> BatchLaunch:
        """One launch, whose script names the generations of those that it follows."""
        script = f"#!/bin/bash\n#SBATCH --job-name={name}.0123456789abcdef.{TOKEN}\n# {' '.join(map(token, follows))}\n"
        changed = {
            "name": name,
            "token": token(name),
            "runs_dir": str(self.root / "state" / "runs" / name / "0123456789abcdef"),
            "job_name": f"{name}.0123456789abcdef.{token(name)}",
            "files": {**self.bench.request.files, "job.sbatch": script.replace(TOKEN, token(name))},
            "refs": [],
            **changes,
        }
        request = replace(self.bench.request, **changed, stores=Stores(str(self.bench.store)))
        return BatchLaunch(name, request, follows)

    def batch(self, check_mode: bool = False, **known: Before) -> Batch:
        slurm = SlurmOfMany(self.cluster, environment={"PATH": "/bin"}, which=lambda name, _path: f"/usr/bin/{name}")
        return Batch(slurm, dict(known), check_mode)

    def made(self, launches: Sequence[BatchLaunch], check_mode: bool = False, **known: Before) -> Batch:
        """Pack, unpack and make the launches, as the module does."""
        self.cluster.asked.clear()
        unpacked_launches, before = unpacked(packed(launches, known))
        batch = self.batch(check_mode, **before)
        batch.look_up(unpacked_launches)
        for launch in unpacked_launches:
            batch.launch(launch)
        return batch

    def script(self, name: str, generation: int = 1) -> str:
        place = self.root / "state" / "runs" / name / "0123456789abcdef" / str(generation)
        return (place / "job.sbatch").read_text(encoding="utf-8")

    def commands(self) -> collections.Counter[str]:
        return collections.Counter(self.cluster.commands)


def token(name: str) -> str:
    return f"GENERATION-{name}-{TOKEN[-8:]}"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def besides_sbatch(cluster: Cluster) -> int:
    return sum(command != "sbatch" for command in cluster.commands)


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_commands_besides_sbatch_do_not_grow(folder: Folder, check_mode: bool) -> None:
    counts = []
    for number in (1, 30):
        launches = [folder.launch(f"n{number}-{each}") for each in range(number)]
        batch = folder.made(launches, check_mode)
        assert [answer.msg for answer in batch.answers.values()] == [""] * number
        assert folder.commands()["sbatch"] == number
        counts.append(besides_sbatch(folder.cluster))
    assert counts[1] <= counts[0], counts
    assert len(folder.cluster.jobs) == (0 if check_mode else 31)


def test_the_files_of_the_job_runtime_are_read_once_for_all_launches(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred of them: on shared storage that is what a call costs most."""
    files = {"start/attempt.py": "pass\n", "rank/rank.sh": "true\n"}
    runtime = Ref("runtime", bundle_key(files), str(folder.bench.store / "runtimes" / bundle_key(files)))
    publish_files(runtime.path, files)
    read: list[str] = []
    monkeypatch.setattr(refs, "read_bundle", lambda path: read.append(path) or read_bundle(path))
    batch = folder.made([folder.launch(f"j{number}", refs=[runtime]) for number in range(5)])
    assert {answer.job and answer.job.submission for answer in batch.answers.values()} == {"submitted"}
    assert read == [runtime.path]
    # The next call reads them again.
    (Path(runtime.path) / "rank" / "rank.sh").write_text("false\n", encoding="utf-8")
    batch = folder.made([folder.launch(f"k{number}", refs=[runtime]) for number in range(5)])
    assert [[ref["kind"] for ref in answer.missing] for answer in batch.answers.values()] == [[]] * 5
    assert not any(answer.job and answer.job.job_id for answer in batch.answers.values())


def test_what_failed_is_looked_up_by_one_query(folder: Folder) -> None:
    launches = [folder.launch(f"j{number}", relaunch="on_failure") for number in range(8)]
    folder.made(launches)
    # Without a verdict, only Slurm knows how these have ended.
    for job in folder.cluster.jobs.values():
        job.update(state="FAILED", exit=1)
    batch = folder.made(launches)
    assert [answer.job and answer.job.generation for answer in batch.answers.values()] == [2] * 8
    # One query about all, and one each for a job whose run directory was removed under it.
    assert [sum("--jobs=" in " ".join(words) for words in folder.cluster.asked), folder.commands()["squeue"]] == [1, 9]
    assert folder.commands()["sinfo"] == 1
    # What is active is adopted, and nothing is submitted twice.
    batch = folder.made(launches)
    assert {answer.job and answer.job.submission for answer in batch.answers.values()} == {"adopted"}
    assert folder.commands()["sbatch"] == 0


def test_a_look_tells_which_generation_is_there_or_none(folder: Folder) -> None:
    there, new = folder.launch("there"), folder.launch("new")
    folder.made([there])
    batch = folder.batch()
    batch.look_up([there, new])
    assert batch.check(there) and batch.check(new)
    assert (batch.known["there"].generation, batch.known["new"].generation) == ("1", "1")


def test_a_launch_waits_for_the_jobs_of_those_it_follows(folder: Folder) -> None:
    known = {"there": Before(token("there"), "4", ["77"])}
    folder.made([folder.launch("data"), folder.launch("train", "data", "there")], **known)
    submitted = [words for words in folder.cluster.asked if words[0] == "sbatch"]
    assert "--dependency=afterok:101:77" in submitted[1]
    assert "# 1 4\n" in folder.script("train") and not re.search("GENERATION", folder.script("train"))


def test_one_refusal_holds_up_only_what_follows_it(folder: Folder) -> None:
    refused = folder.launch("bad")
    submit = folder.cluster.sbatch

    def sbatch(argv: Sequence[str]) -> tuple[int, str, str]:
        script = next(word for word in argv if word.endswith("job.sbatch"))
        return (1, "", "sbatch: error: invalid partition\n") if "/bad/" in script else submit(argv)

    folder.cluster.sbatch = sbatch
    batch = folder.made(
        [refused, folder.launch("after", "bad"), folder.launch("last", "after"), folder.launch("other")]
    )
    answers = batch.answers
    assert "invalid partition" in answers["bad"].msg
    assert answers["after"].msg == "follows bad, which could not be launched now"
    assert answers["last"].msg == "follows after, which could not be launched now"
    assert answers["other"].job and len(folder.cluster.jobs) == 1


def test_what_must_be_built_holds_up_what_follows_without_an_error(folder: Folder) -> None:
    nowhere = Ref("code", "k" * 64, str(folder.bench.store / "code" / ("k" * 64)))
    batch = folder.made([folder.launch("new", refs=[nowhere]), folder.launch("after", "new")])
    assert [ref["kind"] for ref in batch.answers["new"].missing] == ["code"]
    after = batch.answers["after"]
    assert (after.msg, after.missing, after.job) == ("", [], None) and not folder.cluster.jobs


def test_a_silent_slurm_is_asked_no_more(folder: Folder) -> None:
    folder.cluster.down = True
    batch = folder.made([folder.launch(f"j{number}") for number in range(5)])
    assert all("does not answer" in answer.msg for answer in batch.answers.values())
    assert len(folder.cluster.asked) == 1 and not folder.cluster.jobs


def test_an_answer_is_small(folder: Folder) -> None:
    big = {**folder.bench.request.files, "job.sbatch": f"#!/bin/bash\n#SBATCH --job-name=x\n{'#' * 50_000}\n"}
    batch = folder.made([folder.launch("big", files=big)])
    assert len(str(batch.results())) < 1000
    assert len(packed([folder.launch(f"j{number}") for number in range(200)], {})) < 200 * 300
