# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What --json prints is what its JSON Schema says, also where the launch failed or nothing could be asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import jsonschema
import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis, Evidence
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnosis_report import DiagnosisReport
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import Answer
from ansible_collections.rankzero.slurm.plugins.module_utils.report.comparison import Measured
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Attempt, LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import ElementResult, SweepResult
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.sums import Used, sums
from rankzero import errors
from rankzero.command import LOCAL
from rankzero.documents import ERROR, PER_HOST, ROWS, VERSION, status, written
from rankzero.options import VERBS
from tests.json_documents import SCHEMAS, checked, schema_of
from tests.repository import read
from tests.unit.command.conftest import Ansible

KEY = "0123456789abcdef"
RUN = f"/state/runs/gpt/{KEY}/1"
LAUNCH = {"name": "gpt", "key": KEY * 4, "generation": 1, "job_id": "7", "run_dir": RUN}
REPORT = LaunchReport(
    name="gpt",
    key=KEY,
    generation=1,
    standing="failed",
    slurm_state="FAILED",
    message="the program ended with 1",
    run_dir=RUN,
    logs_dir=f"{RUN}/logs",
    job_id="7",
    completed=True,
    exit_code=1,
    nodes=["node01"],
    attempts=[Attempt(0, "7", "FAILED", 1.0, 2.0, "node01", ["node01"], 1), Attempt(1)],
    started_at=1.0,
    finished_at=2.0,
    wall_time=1.0,
)
PROVEN = {
    **REPORT.as_dict(),
    "standing": "succeeded",
    "success": True,
    "artifact": {"valid": True, "scalars": {"loss": 1.5, "note": "x"}},
}
LINE = Evidence("0/rank-0000.log", 3, "CUDA out of memory", "cuda_oom", 0, "node01")
DIAGNOSED = DiagnosisReport(
    Diagnosis("cuda_oom", "out of memory", root=LINE, ranks=[0], nodes=["node01"], evidence=[LINE], chain=["ended"]),
    [Answer("Did all ranks start?", "yes", True), Answer("Was the model saved?", "not known", None)],
    REPORT,
).as_dict()
USED = Used("ada", "physics", "2026-03", "gpt", 2.5, None, 1.25, 0.5, True, {"steps": 2.0, "lost": 0.5})
ELEMENT = ElementResult(0, KEY * 4, {"lr": "1"}, "submitted", "new", "waiting", "7_0", RUN, 1)
SWEPT = SweepResult("lr", KEY, "/state/runs/lr/.sweep", "submitted", True, {"submitted": 1}, [ELEMENT]).result()
SWEPT_TO = {
    "key": KEY * 4,
    "standing": "succeeded",
    "metric": 1.5,
    "scalars": {"loss": 1.5},
    "message": "",
    "wall_time": 2.0,
}
STEP = {
    **LAUNCH,
    "action": "launch",
    "kind": "job",
    "file": "jobs/gpt.yml",
    "reason": "new",
    "changes": ["command --steps 100 -> 200"],
    "node_hours": 1.5,
    "done": True,
    "error": "",
}
FILE = {"path": "result.json", "bytes": 3, "sha256": "ab"}

#: Verb -> what a person types, and the results of the playbook's tasks: (module, outcome, result).
PLAYED: dict[str, tuple[str, list[list[tuple[str, str, dict[str, Any]]]]]] = {
    "run": (
        "run jobs/train.yml",
        [
            [("job", "ok", {**LAUNCH, "submission": "submitted"})],
            [
                ("job", "ok", {**LAUNCH, "submission": "unchanged", "standing": "succeeded"}),
                ("job_wait", "ok", PROVEN),
            ],
            [
                ("job", "ok", {**LAUNCH, "submission": "submitted", "standing": "waiting"}),
                ("job_wait", "ok", REPORT.as_dict()),
                ("job_logs", "ok", {"dest": "/home/me/runs"}),
                ("job_diagnosis", "ok", {"diagnosis": DIAGNOSED, "lines": []}),
                ("job_report", "failed", {"standing": "failed", "msg": "gpt failed"}),
            ],
            [("job", "failed", {"msg": "nodes: must be a number"})],
        ],
    ),
    "pipeline": (
        "pipeline jobs/both.yml",
        [
            [
                (
                    "job_pipeline",
                    "ok",
                    {
                        "stages": [
                            {**LAUNCH, "kind": "job", "file": "train.yml", "submission": "submitted"},
                            {**SWEPT, "kind": "sweep", "file": "lr.yml"},
                        ]
                    },
                ),
                ("job_wait", "ok", PROVEN),
            ],
            [("job_pipeline", "failed", {"msg": "after: a circle"})],
        ],
    ),
    "ls": ("ls", [[("job_info", "ok", {"launches": [REPORT.as_dict(), PROVEN]})], []]),
    "why": (
        "why gpt",
        [
            [("job_diagnosis", "ok", {"diagnosis": DIAGNOSED, "lines": ["cause"]})],
            [("job_diagnosis", "ok", {"diagnosis": DiagnosisReport(Diagnosis("none")).as_dict(), "lines": []})],
        ],
    ),
    "usage": (
        "usage --by account,month",
        [[("usage_info", "ok", {"rows": sums([USED, USED], ["account", "month"]), "lines": []})], []],
    ),
    "sweep": (
        "sweep jobs/train.yml",
        [
            [("job_sweep", "ok", SWEPT), ("job_sweep_info", "ok", {"elements": [SWEPT_TO]})],
            [("job_sweep", "ok", {**SWEPT, "elements": [{**ELEMENT.__dict__, "job_id": None, "run_dir": None}]})],
        ],
    ),
    "plan": (
        "plan jobs/train.yml",
        [
            [
                (
                    "job",
                    "ok",
                    {
                        **LAUNCH,
                        "submission": "planned",
                        "plan": ["gpt"],
                        "explain": [],
                        "missing": [{"kind": "code", "key": "c0de", "path": "/store/code/c0de"}],
                    },
                )
            ],
            [
                (
                    "job_script",
                    "ok",
                    {"name": "gpt", "key": KEY * 4, "generation": 1, "plan": [], "explain": [], "world_size": 4},
                )
            ],
        ],
    ),
    "attach": (
        "attach gpt",
        [
            [("job_wait", "ok", PROVEN), ("job_logs", "ok", {"dest": "/home/me/runs"})],
            [
                ("job_wait", "ok", REPORT.as_dict()),
                ("job_diagnosis", "ok", {"diagnosis": DIAGNOSED, "lines": []}),
                ("job_report", "failed", {"standing": "failed", "msg": "gpt failed"}),
            ],
        ],
    ),
    "logs": (
        "logs gpt",
        [[("job_logs", "ok", {"run_dir": RUN, "job_id": "7", "dest": "/h", "bytes": 1, "files": [{"path": "a"}]})]],
    ),
    "compare": (
        "compare gpt",
        [[("job_compare", "ok", {"launches": [asdict(Measured("gpt", KEY, 1, "7", RUN, 2, 4, 1.5, {"loss": 1.5}))]})]],
    ),
    "cancel": (
        "cancel gpt",
        [
            [("job_cancel", "ok", {"cancelled": [{**LAUNCH, "standing": "running"}], "unchanged": [LAUNCH]})],
            [("job_pipeline", "ok", {"stages": [{**LAUNCH, "changed": True}]})],
        ],
    ),
    "report": ("report", [[("report_page", "ok", {"kind": "index", "page": "/p", "summary": "/p.md", "bytes": 9})]]),
    "sync": ("sync", [[("tracker_sync", "ok", {"folders": [{"run_dir": RUN, "folder": "w", "state": "open"}]})]]),
    "notify": (
        "notify",
        [[("job_notify", "ok", {"messages": [{"run_dir": RUN, "event": "ended", "receiver": "me", "state": "sent"}]})]],
    ),
    "shell": ("shell jobs/train.yml", [[("job_shell", "ok", {"commands": ["salloc"], "folder": "/w", "nodes": []})]]),
    "reconcile": ("reconcile jobs", [[("reconcile", "ok", {"steps": [STEP]})]]),
    "lab": ("lab", [[("lab_cluster", "ok", {"was": "absent", "now": "running", "directory": "/l", "nodes": ["n1"]})]]),
    "pull": (
        "pull gpt",
        [
            [
                (
                    "job_pull",
                    "ok",
                    {
                        **LAUNCH,
                        "dest": "/here",
                        "bytes": 3,
                        "files": [FILE],
                        "artifact": {"path": "/here/r", "sha256": "ab"},
                    },
                )
            ],
            [("job_pull", "ok", {**LAUNCH, "dest": "/here", "bytes": 3, "files": [{**FILE, "sha256": None}]})],
        ],
    ),
}


def test_the_result_of_a_status_is_what_a_valid_artifact_says() -> None:
    assert status(PROVEN)["result"] == {"loss": 1.5, "note": "x"}
    artifact = {**PROVEN["artifact"], "valid": False}
    assert status({**PROVEN, "artifact": artifact})["result"] is None


def test_every_verb_has_a_schema_and_results_to_check() -> None:
    assert {*VERBS} == {*PER_HOST, *LOCAL} and {*PLAYED} == {*PER_HOST} and not {*PER_HOST} & {*LOCAL}
    assert {path.name for path in SCHEMAS.iterdir()} == {f"{verb}-{VERSION}.json" for verb in (*VERBS, ERROR)}
    for verb in (*VERBS, ERROR):
        schema = schema_of(f"rankzero/{verb}/{VERSION}")
        jsonschema.Draft7Validator.check_schema(schema)
        assert schema["properties"]["schema"]["const"] == f"rankzero/{verb}/{VERSION}"


@pytest.mark.parametrize("verb", PLAYED)
def test_document_is_what_its_schema_says(
    verb: str, rankzero: Callable[..., int], ansible: Ansible, capfd: pytest.CaptureFixture[str]
) -> None:
    line, results = PLAYED[verb]
    for records in results:
        failed = any(outcome == "failed" for _module, outcome, _result in records)
        ansible.answer(2 if failed else 0, *records)
        code = rankzero(*line.split(), "--json")
        document = checked(json.loads(capfd.readouterr().out))
        assert (document["exit_code"], document["error"] is not None) == (code, failed)
        assert document[ROWS.get(verb, "launches")] or not any(outcome == "ok" for _module, outcome, _result in records)


def test_a_document_that_lacks_a_key_or_has_another_is_noticed() -> None:
    document: dict[str, Any] = written("ls", [])
    checked(document)
    for wrong in ({**document, "more": 1}, {**document, "launches": [{"cluster": "login"}]}):
        with pytest.raises(jsonschema.ValidationError):
            checked(wrong)


def test_exit_codes_are_documented() -> None:
    page = read("docs/command.md")
    codes = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    table = page.partition("## Exit codes")[2].partition("\n## ")[0]
    documented = {int(row.split("|")[1]) for row in table.splitlines() if row.split("|")[1:2] and row[2].isdigit()}
    assert documented == codes
