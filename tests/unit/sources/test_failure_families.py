# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own families: what the docs show works, and every mistake is named with file, family and key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.advice import diagnosis_of
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import model, registry
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.failure_families import load_families
from tests.repository import ROOT

GOOD: dict[str, Any] = {
    "family": "license",
    "what": "no licence is free: {feature}",
    "remedy": "Let Slurm count them.",
    "says": [{"regex": r"License checkout failed: (?P<feature>\w+)", "needles": ["License checkout failed"]}],
    "examples": ["License checkout failed: solver"],
}


def loaded(folder: Path, *families: Any, name: str = "own.yml") -> list[dict[str, Any]]:
    (folder / name).write_text(yaml.safe_dump(list(families)))
    return load_families([name], str(folder))


def test_the_example_of_the_docs_is_a_family_of_twenty_lines(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(# diagnosis/families.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(example.splitlines()) <= 20
    (tmp_path / "families").mkdir()
    (tmp_path / "families" / "license.yml").write_text(example)
    signatures = registry.with_own(load_families(["families"], str(tmp_path)))
    (tmp_path / "job.log").write_text("step 1 loss 2.0\nsolver: License checkout failed: solver (all 8 seats taken)\n")
    found = scan.scan([str(tmp_path / "job.log")], signatures=signatures)
    told = diagnosis_of(cause.find_cause(found.logs), found, str(tmp_path))
    assert (told.family, told.root and told.root.line, told.retry) == ("license", 2, True)
    assert told.what == "no licence is free: solver"


def test_a_site_may_know_an_exception_and_through_what_it_went(tmp_path: Path) -> None:
    own = {**GOOD, "says": [], "raises": [{"regex": "NoLicenseError", "strength": "cause"}], "what": "no licence"}
    own["examples"] = ["solver.NoLicenseError: 8 of 8"]
    (family,) = loaded(tmp_path, own)
    assert model.signature(family).matches[0].regex.search("NoLicenseError")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"famly": "x"}, "the key famly is unknown; did you mean family?"),
        ({"family": None}, "family is required, as text"),
        ({"family": "No Name"}, "family 'No Name' is not"),
        ({"family": "cuda_oom"}, "one of the collection's"),
        ({"remedy": 5}, "remedy is required, as text"),
        ({"retry": "yes"}, "retry must be true or false"),
        ({"examples": []}, "examples is required"),
        ({"says": []}, "says or raises is required"),
        ({"says": "License"}, "says must be a list of maps"),
        (
            {"says": [{"regex": "(License", "needles": ["License"]}]},
            "says[0].regex '(License'",
        ),
        ({"says": [{"regex": "Li\\w+"}]}, "says[0].needles is required"),
        ({"says": [{"regex": "{seat}"}]}, "names {seat}, which is not in parts"),
        ({"says": [{"regex": "License", "needles": ["a"]}]}, "4 letters or more"),
        ({"says": [{"regex": "L", "needles": ["License"], "strength": "sure"}]}, "allowed are decisive, cause"),
        ({"says": [{"regex": "L", "needle": ["License"]}]}, "did you mean needles?"),
        ({"examples": ["all is well"]}, "the example 'all is well' is not recognised"),
        ({"evidence": "(seat"}, "evidence '(seat' is not a valid regular expression"),
        ({"evidence": 5}, "evidence must be a regular expression"),
        ({"evidence": "the port"}, "the evidence of 'no licence is free: {feature}' is in none of the examples"),
        (
            {"says": [{**GOOD["says"][0], "evidence": "seat"}]},
            "says[0].evidence proves a sentence: give what beside it",
        ),
        (
            {"says": [{**GOOD["says"][0], "printed_by": ["solver"]}]},
            "says[0].printed_by must be a list of programs with",
        ),
        ({"what": "no {seat}"}, "what names {seat}, which no regex captures"),
    ],
)
def test_a_mistake_is_named_with_file_family_and_key(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(RankzeroError) as caught:
        loaded(tmp_path, {**GOOD, **change})
    assert words in caught.value.message
    assert "own.yml, family " in caught.value.message


def test_files_that_are_none_and_names_that_come_twice(tmp_path: Path) -> None:
    for text, words in (
        ("{a: [", "own.yml:1 is not YAML"),
        ("!!python/object/apply:os.system [id]", "is not YAML"),
        ("5", "must hold one family"),
    ):
        (tmp_path / "own.yml").write_text(text)
        with pytest.raises(RankzeroError, match=re.escape(words)):
            load_families(["own.yml"], str(tmp_path))
    with pytest.raises(RankzeroError, match="there is no file"):
        load_families(["nowhere.yml"], str(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(RankzeroError, match="contains no"):
        load_families(["empty"], str(tmp_path))
    with pytest.raises(RankzeroError, match="defined 2 times"):
        loaded(tmp_path, GOOD, GOOD)
