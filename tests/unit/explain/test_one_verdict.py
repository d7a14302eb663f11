# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten recorded failures, each shown in eight places: all say what the launch itself said, and the same cause."""

from __future__ import annotations

import html
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import verdict_of
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis
from ansible_collections.rankzero.slurm.plugins.module_utils.notify import due
from ansible_collections.rankzero.slurm.plugins.module_utils.report.page import Page
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import final_report
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import INFO_SPEC
from ansible_collections.rankzero.slurm.plugins.modules import job_info
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page import annotations as ci_annotations
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.markdown import markdown
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.render import html as page
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending, Launched
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.report_rows import report
from rankzero import documents
from tests.repository import ROOT
from tests.unit.page.runs import found
from tests.unit.run.test_launches import NOW, queue
from tests.writers import Run, write_diagnosis

RECORDED = ROOT / "tests" / "diagnosis" / "recorded"
OWN = "not requeued: no progress: saved is the same after attempt 1 and attempt 2"
ENDED = {"StartTime": str(int(NOW) - 91), "EndTime": str(int(NOW) - 9)}
TEN = (
    "attribute", "chained-exception", "disk-full", "file-missing", "memory-numpy", "nan-guard", "no-module",
    "permission", "shm-small", "killed-torchrun",
)  # fmt: skip


def folded(text: object) -> str:
    """A text without the ends of its lines, and without what Markdown, HTML and annotations escape."""
    plain = html.unescape(str(text)).replace("\\", "").replace("%25", "%")
    return " ".join(plain.encode().decode("unicode_escape" if "u003" in plain else "utf-8").split())


def places(root: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], dict[str, Any]]:
    """What each place shows, and the diagnosis."""
    slurm = queue("FAILED", **ENDED)
    told = write_diagnosis(slurm.slurm(), run)
    why = told["diagnosis"]
    launch = final_report(slurm.slurm(), RunDirectory(str(run)))
    ending = Ending(Launched("gpt", str(run)), launch, diagnosis=Diagnosis.of(why))
    rows = report({"inventory_hostname": "lab"}, ending)
    monkeypatch.setattr(job_info, "Slurm", slurm.slurm)
    given = {name: option.get("default") for name, option in INFO_SPEC.items()}
    listed = job_info.logic(SimpleNamespace(params={**given, "state_root": str(root)}))
    seen = found(root, "gpt")
    message, _facts = due._failed(slurm.slurm(), launch)
    shown = {
        "card": "\n".join(row.text for row in rows),
        "why": "\n".join(told["lines"]),
        "ls": "\n".join(listed["lines"]),
        "ls --json": listed["launches"][0]["message"],
        "page": page(seen),
        "Markdown": markdown(Page.of(seen)),
        "annotation": "\n".join(ci_annotations.annotation_lines(Page.of(seen))),
        "JSON": documents._picked(why, documents.DIAGNOSIS)["sentence"],
        "message": message,
    }
    return {name: folded(text) for name, text in shown.items()}, why


@pytest.mark.parametrize("name", TEN)
def test_a_failure_has_one_verdict_in_all_places(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.below(tmp_path).launch({}).journal({"event": "intent"}, {"event": "submitted", "job_id": "7"})
    run.claimed().numbered(0).started().ended(1, OWN)
    log = run.path / "logs" / "0" / "rank-0000.log"
    log.write_bytes((RECORDED / f"{name}.log").read_bytes())
    shown, why = places(tmp_path, run.path, monkeypatch)
    assert why["root"] and why["root"]["file"].endswith("rank-0000.log")
    both = verdict_of({"message": OWN}, why["what"])
    assert (both.own, both.cause) == (OWN, why["what"])
    lacks = [place for place, text in shown.items() if OWN not in text or folded(both.cause) not in text]
    assert not lacks, {place: shown[place][:400] for place in lacks}
    sentences = ("ls", "ls --json", "page", "Markdown", "annotation", "JSON", "message")
    assert [place for place in sentences if folded(both.sentence) not in shown[place]] == []


def test_a_verdict_says_nothing_twice() -> None:
    assert verdict_of({"message": "stopped: disk full"}, "disk full").sentence == "stopped: disk full"
    assert verdict_of(None, "disk full", "exit code 1").sentence == "disk full"
    assert verdict_of(None, "", "exit code 1").sentence == "exit code 1"
    assert verdict_of({"message": "not requeued"}, "disk full").sentence == "not requeued; disk full"


def test_a_diagnosis_of_an_earlier_attempt_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.below(tmp_path).launch({}).journal({"event": "intent"}, {"event": "submitted", "job_id": "7"})
    run.claimed().numbered(0).started().ended(1, OWN)
    (run.path / "logs" / "0" / "rank-0000.log").write_bytes((RECORDED / "no-module.log").read_bytes())
    _shown, why = places(tmp_path, run.path, monkeypatch)
    run.numbered(1).started(1).ended(1, "it ended again", number=1)
    listed = job_info.logic(SimpleNamespace(params={
        **{name: option.get("default") for name, option in INFO_SPEC.items()}, "state_root": str(tmp_path)
    }))  # fmt: skip
    assert "it ended again" in listed["launches"][0]["message"]
    assert why["what"] not in listed["launches"][0]["message"]
