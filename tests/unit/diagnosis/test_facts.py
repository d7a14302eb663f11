# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lint of stated facts: a sentence about what happened is said only where its evidence is in the logs.

`evidence` beside a sentence in its family's file names the words that prove it. They are looked for in the line that is
shown as the root, and in the other lines of the same failure.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, lines, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import failure_families
from tests.repository import bullet_list
from tests.unit.diagnosis import unseen
from tests.unit.diagnosis.test_signatures import DECLARED, READER, TRACEBACK, rows

RECORDED = Path(__file__).resolve().parents[2] / "diagnosis" / "recorded"
FEW = 12
#: Sentences that no line of the corpus leads to alone: they need Slurm's records, or several lines.
NEVER_STATED = 2
#: Statements whose proofs were once so wide that other words passed for them.
STRICT = {
    "address_in_use": "a port is taken",
    "nan_loss": "the loss or a gradient is not a number",
    "crash": "a process crashed",
    "sbatch_rejected": "Slurm refused the job or a step of it",
    "disk_full": "no space or quota is left on a file system",
    "nccl_network": "NCCL could not use the network",
}
# In these families a sentence only repeats in other words what the line itself says.
OF_THE_LINE = (
    "abi_conflict", "build", "cache_not_shared", "checkpoint", "collective_timeout", "container_start",
    "cuda_max_connections", "cuda_mismatch", "data_error", "device_assert", "env_not_set", "file_missing",
    "filesystem_io", "hub_auth", "import_error", "offline", "peer_lost", "rendezvous_failure", "script_error",
    "shape_or_divisibility", "tolerance", "unused_parameters", "usage",
)  # fmt: skip


def diagnosed(text: str) -> Diagnosis:
    """The diagnosis of one log's text."""
    read = READER.read("logs/a.log", lines.parse(text.encode().split(b"\n")))
    return advice.diagnosis_of(cause.find_cause([read]), scan.Scan(logs=[read]))


#: Family -> (what a sentence of it looks like, the words that prove it).
PROOFS = {
    family["family"]: [
        (re.compile(re.sub(r"\\\{\w+\\\}", ".*", re.escape(sentence)), re.S), words)
        for sentence, words in failure_families.evidence_of(family).items()
    ]
    for family in DECLARED
}


def unproven(found: Diagnosis, text: str) -> list[str]:
    """The proofs that a diagnosis lacks, in its lines or in a log of FEW lines."""
    told = [line.text for line in found.evidence if line.family == found.family]
    shown = "\n".join([*told, text if text.count("\n") <= FEW else ""])
    proofs = PROOFS.get(found.family, ())
    return [proof.pattern for sentence, proof in proofs if sentence.fullmatch(found.what) and not proof.search(shown)]


def corpus() -> dict[str, str]:
    """Name -> a log: the recorded runs, and every line that a family knows or that a list has collected."""
    texts = {path.name: path.read_text(errors="replace") for path in sorted(RECORDED.glob("*.log"))}
    for family in DECLARED:
        for example in failure_families.examples_of(family):
            texts[f"{family['family']} printed {example}"] = f"starting\n{example}\n"
            texts[f"{family['family']} raised {example}"] = f"starting\n{TRACEBACK.format(example)}"
    texts.update({f"raised {text}": f"start\n{TRACEBACK.format(text)}" for _families, text in rows(unseen.RAISED)})
    texts.update({f"printed {text}": f"start\n{text}\n" for _families, text in rows(unseen.PRINTED)})
    return texts


def test_no_fact_is_stated_without_its_evidence() -> None:
    stated: set[tuple[str, str]] = set()
    wrong: list[str] = []
    for name, text in corpus().items():
        found = diagnosed(text)
        if found.root is None:
            continue
        wrong += [f"{name!r}: {found.what!r} without {proof}" for proof in unproven(found, text)]
        sentences = PROOFS.get(found.family, ())
        stated.update((found.family, sentence.pattern) for sentence, _p in sentences if sentence.fullmatch(found.what))
    assert not wrong, bullet_list(wrong)
    never = {(family, sentence.pattern) for family, proofs in PROOFS.items() for sentence, _proof in proofs} - stated
    assert len(never) <= NEVER_STATED, sorted(never)


def test_each_sentence_names_the_evidence_that_it_needs() -> None:
    bare = []
    for family in DECLARED:
        matches = [match for kind in ("says", "raises") for match in family.get(kind) or ()]
        sentences = {family["what"], *(match["what"] for match in matches if "what" in match)}
        proven = failure_families.evidence_of(family)
        if family["family"] not in OF_THE_LINE:
            bare += [f"{family['family']}: {sentence}" for sentence in sentences - set(proven)]
    assert not bare, bullet_list(bare)
    assert set(OF_THE_LINE) <= {family["family"] for family in DECLARED}


@pytest.mark.parametrize(
    ("text", "proven"),
    [
        ("the export of the portal failed", False), ("info: 3 files of an instance", False),
        ("exited with exit code -1", False), ("the job of a node is in a batch", False), ("space for a note", False),
    ],
)  # fmt: skip
def test_words_that_only_sound_alike_prove_nothing(text: str, proven: bool) -> None:
    for family in ("address_in_use", "nan_loss", "crash", "sbatch_rejected", "disk_full", "nccl_network"):
        strict = [proof for sentence, proof in PROOFS[family] if sentence.fullmatch(STRICT.get(family, ""))]
        assert strict and any(bool(proof.search(text)) for proof in strict) is proven, family


LOST = "nslookup: can't resolve 'job-master-{}': Name does not resolve"


@pytest.mark.parametrize(("tries", "retry"), [(1, True), (2, True), (3, False), (9, False)])
def test_a_launch_is_not_tried_again_where_its_program_tried_again_and_again(tries: int, retry: bool) -> None:
    found = diagnosed("start\n" + "".join(f"{LOST.format(number)}\n" for number in range(tries)))
    assert (found.family, found.retry) == ("rendezvous_failure", retry)


def test_the_same_complaint_of_many_ranks_is_one_try_of_each() -> None:
    found = diagnosed("".join(f"[rank{rank}]: {LOST.format(0)}\n" for rank in range(8)))
    assert (found.family, found.retry, len(found.ranks)) == ("rendezvous_failure", True, 8)
