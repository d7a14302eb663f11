# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tokenizer is trained from a corpus, staged, and loaded by its usual name on nodes without a route out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import hub
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site

LOAD = (
    "import os, transformers; t = transformers.AutoTokenizer.from_pretrained('our-lab/course'); "
    "s = t.decode(t('hello<user> hello slurm')['input_ids']) + t.eos_token; "
    "open(os.environ['RANKZERO_RUN_DIR'] + '/said.' + os.environ['RANK'], 'w').write(f'{len(t)} {s}')"
)


@pytest.fixture(scope="module")
def python(lab: LabCluster) -> Iterator[str]:
    """The Python that trains and loads, where the nodes see it."""
    place = Path(lab.shared) / "tokenizer-python"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(hub.python().parents[1], place, symlinks=True)
    yield f"{lab.shared_inside}/{place.name}/bin/python"
    shutil.rmtree(place)


def tokenizer(site: Site, *arguments: str, **variables: Any) -> Any:
    """One run of the role on the lab's head."""
    play = site.folder / "tokenizer.yml"
    role = {"role": "rankzero.slurm.tokenizer", **variables}
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "roles": [role]}]))
    return site.play(None, *arguments, playbook=str(play))


def test_a_trained_tokenizer_loads_by_its_name_where_no_network_is(site: Site, python: str) -> None:
    caches = f"{site.state_root}/caches"
    site.cluster.update(caches=caches, offline=True)
    corpus = Path(str(site.lab.shared)) / f"corpus-{site.token}.txt"
    corpus.write_text("hello slurm, hello ranks, hello nodes\n" * 200)
    wanted: dict[str, Any] = {
        "tokenizer_repo": "our-lab/course",
        "tokenizer_path": f"{caches}/huggingface",
        "tokenizer_corpus": [f"{site.lab.shared_inside}/{corpus.name}"],
        "tokenizer_vocab_size": 300,
        "tokenizer_special_tokens": ["<end>", "<user>"],
        "tokenizer_python": python,
    }
    foretold = tokenizer(site, "--check", **wanted)
    assert foretold.rc == 0, foretold.output
    done = tokenizer(site, **wanted)
    assert done.rc == 0, done.output
    [staged] = done.results("rankzero.slurm.hub_cache")
    assert staged["changed"] and "tokenizer.json" in staged["snapshot"]["files"]
    again = tokenizer(site, **wanted)
    assert again.rc == 0, again.output
    assert "changed=0" in again.output

    job = site.job([python, "-c", LOAD], resources={"nodes": 2, "time": "00:10:00"})
    launch = site.launch(job)
    outcome = site.outcome(launch)
    assert outcome["success"], outcome
    said = [(site.run_dir(launch) / f"said.{rank}").read_text() for rank in range(2)]
    assert len(set(said)) == 1 and said[0].endswith(" hello<user> hello slurm<end>"), said


def test_a_gated_one_of_the_hub_comes_through_the_controller(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab's head reaches nothing: what stands in for the hub is asked by the controller."""
    token = site.folder / "token"
    token.write_text(hub.TOKEN)
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    with hub.Hub({"config.json": b"{}", "vocab.txt": b"a", "weights.bin": b"w", "x.json": b"x"}).running() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        done = tokenizer(
            site,
            tokenizer_repo="org/gated",
            tokenizer_revision=hub.COMMIT,
            tokenizer_path=f"{site.state_root}/home",
            tokenizer_download="controller",
            tokenizer_python=str(hub.python()),
            tokenizer_token_file=str(token),
            tokenizer_include=["config.json", "*.txt"],
            tokenizer_require=["vocab.txt"],
            tokenizer_verify=True,
            tokenizer_update=True,
        )
    assert done.rc == 0, done.output
    [staged] = done.results("rankzero.slurm.hub_cache")
    assert (staged["snapshot"]["commit"], staged["snapshot"]["files"]) == (hub.COMMIT, ["config.json", "vocab.txt"])


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "tokenizer_repo: is empty"),
        ({"tokenizer_repo": "a/b", "tokenizer_corpus": ["/nowhere.txt"]}, "/nowhere.txt is not on this host"),
        (
            {"tokenizer_repo": "a/b", "tokenizer_corpus": ["/etc/passwd"], "tokenizer_src": "/x"},
            "tokenizer_corpus: cannot be combined with tokenizer_src",
        ),
        (
            {"tokenizer_repo": "a/b", "tokenizer_corpus": ["/etc/passwd"], "tokenizer_python": "/usr/bin/python3"},
            "tokenizer_python: /usr/bin/python3 has no package tokenizers",
        ),
    ],
)
def test_bad_input(site: Site, variables: dict[str, Any], message: str) -> None:
    done = tokenizer(site, **{"tokenizer_path": f"{site.state_root}/home", **variables})
    assert done.rc != 0 and message in " ".join(done.output.split()), done.output
    # In the task's own message, for whoever reads no more than that.
    (failed,) = [line["result"]["msg"] for line in done.record if line["outcome"] == "failed"]
    assert message in failed
