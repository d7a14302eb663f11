# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a launch left besides its logs, and what the diagnosis makes of it: states, accounting, preflight, monitors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import SETUP, Event, FileEvents
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import LIMIT, WEAK
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import diagnose, evidence
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import step_usage
from tests.unit.runtime.test_preflight_judge import judged, report
from tests.unit.slurm.recorded import NO_ACCOUNTING, UNKNOWN_ID, FakeSlurm, said
from tests.writers import Run, write_diagnosis

#: Rows of sacct --parsable2 --noconvert with accounting.COLUMNS, | in the place of its separator: a step that the
#: kernel killed for memory (Slurm 22.05 on a lab with control groups), and one that somebody ended.
OUT_OF_MEMORY = """7|OUT_OF_MEMORY|0:125|0:0|||300M|node[01-02]|eats
7.batch|OUT_OF_MEMORY|0:125||14912K|node01||node01|batch
7.0|OUT_OF_MEMORY|0:125||305612K|node02||node[01-02]|bash
"""
KILLED = """8|FAILED|9:0|0:9|||300M|node01|eats
8.batch|FAILED|9:0||1412K|node01||node01|batch
8.0|FAILED|0:9||301612K|node01||node01|bash
"""


def sacct(text: str) -> FakeSlurm:
    return FakeSlurm(sacct=said(text.replace("|", "\x1f")))


def ended(folder: Path, slurm: FakeSlurm, **launch: Any) -> tuple[cause.Cause, dict[str, Any]]:
    """The cause that there is without a single log, and the facts."""
    rejected = launch.pop("rejected", None)
    folder.mkdir(exist_ok=True)
    (folder / "logs").mkdir(exist_ok=True)
    if launch.pop("log", True):
        (folder / "logs" / f"job.{launch.get('job_id', '7')}.log").touch()
    run = RunDirectory(str(folder))
    if rejected:
        run.record("rejected", message=rejected)
    given = {
        "standing": "failed",
        "slurm_state": "FAILED",
        "completed": True,
        "job_id": "7",
        "started_at": 1000.0,
        **launch,
    }
    known = LaunchReport(name="a", key="k", generation=1, message="it ended", run_dir="", logs_dir="", **given)
    told = evidence.of_end(slurm.slurm(), run, known, SIGNATURES)
    return cause.find_cause(told.logs), told.facts


@pytest.mark.parametrize(
    ("state", "rejected", "exit_code", "ended_by", "family"),
    [
        ("OUT_OF_MEMORY", None, 125, None, "host_oom_killed"),
        ("TIMEOUT", None, None, None, "time_limit"),
        ("NODE_FAIL", None, None, None, "node_failure"),
        ("CANCELLED", None, None, "signal", "preempted_or_cancelled"),
        ("REJECTED", "sbatch: error: no such partition", None, None, "sbatch_rejected"),
        ("FAILED", None, 69, "setup", "setup"),
        ("FAILED", None, 0, "program", "artifact"),
        ("FAILED", None, 3, "program", "launcher"),
        ("FAILED", None, 137, "program", "host_oom_killed"),
        ("FAILED", None, 139, "program", "crash"),
        ("FAILED", None, 127, "program", "script_error"),
        ("FAILED", None, 143, "program", "launcher"),
    ],
)
def test_slurm_has_a_word_where_the_logs_have_none(
    tmp_path: Path, state: str, rejected: str | None, exit_code: int | None, ended_by: str | None, family: str
) -> None:
    outcome = {"ended_by": ended_by} if ended_by else None
    found, _facts = ended(
        tmp_path / "1",
        FakeSlurm(sacct=NO_ACCOUNTING),
        slurm_state=state,
        rejected=rejected,
        exit_code=exit_code,
        outcome=outcome,
    )
    assert found.family == family


def test_accounting_says_which_step_was_killed_and_what_it_used(tmp_path: Path) -> None:
    found, facts = ended(tmp_path / "1", sacct(OUT_OF_MEMORY))
    assert found.root is not None and found.family == "host_oom_killed"
    assert found.root.text == "step 7.0 (bash) OUT_OF_MEMORY, MaxRSS 298.4 MiB on node02 of 300 MiB asked"
    assert (found.root.file, found.root.node) == ("sacct", "node02")
    assert [row["step"] for row in facts["accounting"]] == ["7", "7.batch", "7.0"]


def test_a_killed_step_whose_memory_was_used_up_was_killed_for_it(tmp_path: Path) -> None:
    found, _facts = ended(tmp_path / "1", sacct(KILLED), job_id="8")
    assert found.root is not None
    assert (found.family, found.confidence) == ("host_oom_killed", "medium")
    assert "signal 9, MaxRSS 294.5 MiB on node01 of 300 MiB asked" in found.root.text


def test_sizes_of_slurm() -> None:
    assert step_usage.size_of("305612K") == 305612 * 1024
    assert step_usage.size_of("4Gn") == 4 << 30
    assert step_usage.size_of("") is step_usage.size_of("0") is None


def test_what_accounting_does_not_know_yet_is_not_told(tmp_path: Path) -> None:
    """Rows of a job whose start has not arrived at slurmdbd, as Slurm 22.05 wrote them on a busy lab."""
    rows = "7|FAILED|1:0|0:0|||18446744073709551614M|node01|allocation\n7.batch|FAILED|1:0||||||batch\n"
    _found, facts = ended(tmp_path / "1", sacct(rows), slurm_state="FAILED", exit_code=1)
    job, step = facts["accounting"]
    assert (job["name"], job["asked"], step["name"], step["asked"]) == ("", None, "batch", None)


def test_a_job_that_never_started_blames_the_state_root(tmp_path: Path) -> None:
    slurm = sacct("7|FAILED|0:53|0:0|||300M|node01|eats\n7.batch|CANCELLED|0:53||||node01||node01|batch\n")
    found, _facts = ended(tmp_path / "1", slurm, never_started=True, nodes=["node01"])
    diagnosis = advice.diagnosis_of(found, scan.Scan())
    assert (diagnosis.family, diagnosis.confidence, diagnosis.nodes) == ("state_root", "high", ["node01"])
    assert "launch_cluster.state_root" in diagnosis.remedy and "node01" in diagnosis.remedy
    assert "{" not in diagnosis.what + diagnosis.remedy


def test_a_job_that_left_nothing_blames_the_state_root(tmp_path: Path) -> None:
    slurm = FakeSlurm(sacct=NO_ACCOUNTING)
    found, _facts = ended(tmp_path / "1", slurm, log=False, exit_code=69, nodes=["node01"])
    diagnosis = advice.diagnosis_of(found, scan.Scan())
    assert (diagnosis.family, diagnosis.confidence) == ("state_root", "high")
    assert diagnosis.what.startswith("the nodes do not share ") and "{" not in diagnosis.what + diagnosis.remedy


def test_the_preflight_names_the_node_to_leave_out(tmp_path: Path) -> None:
    folder = tmp_path / "1"
    (folder / "preflight" / "0").mkdir(parents=True)
    (folder / "preflight" / "0" / "table").write_text("node01 proj=ok env=ok\nnode02 proj=missing env=ok\n")
    outcome = {"ended_by": "setup", "unfit_nodes": {"node02": "the project is not there"}}
    found, facts = ended(folder, FakeSlurm(sacct=NO_ACCOUNTING), exit_code=69, outcome=outcome)
    assert found.family == "setup"
    assert [(event.node, event.line) for event in found.followed] == [("node02", 2)]
    assert facts["preflight"] == [
        {"node": "node02", "why": "the project is not there", "line": "node02 proj=missing env=ok"}
    ]


@pytest.mark.parametrize(
    ("message", "what", "remedy"),
    [
        ("the set-up failed: `conda activate e` ended with exit code 127 (line 60 of job.sbatch)", "set-up", "|| true"),
        ("setup.modules: this node has no command module", "module is missing", "/etc/profile"),
        ("module load cuda/99 failed", "could not be loaded", "module avail"),
    ],
)
def test_a_set_up_that_failed_is_told_as_such_and_blames_no_node(
    tmp_path: Path, message: str, what: str, remedy: str
) -> None:
    outcome = {"ended_by": "setup", "message": message}
    found, _facts = ended(tmp_path, sacct(""), slurm_state="FAILED", exit_code=78, outcome=outcome)
    assert found.family == SETUP and found.root is not None
    assert what in found.root.what and remedy in found.root.remedy and "exclude" not in found.root.remedy


def test_monitors_say_that_memory_was_full_and_that_a_gpu_is_lost(tmp_path: Path) -> None:
    """The GPU's lines are written by hand in nvidia-smi's words: no GPU was at hand."""
    monitor = tmp_path / "1" / "monitor" / "0"
    monitor.mkdir(parents=True)
    header = "time,load1,mem_used_mb,cpu_percent,mem_total_mb\n"
    (monitor / "node01.host.csv").write_text(header + "2026-01-01T00:00:00+0000,3.1,63500,99,64000\n")
    outcome = {"ended_by": "program"}
    found, facts = ended(tmp_path / "1", FakeSlurm(sacct=NO_ACCOUNTING), exit_code=1, outcome=outcome)
    assert found.root is not None and found.family == "host_oom_killed"
    assert "99 % of the memory of node01" in found.root.text
    assert facts["samples"][0]["peak_memory_mb"] == 63500
    (monitor / "node02.gpu.csv").write_text(
        "timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu\n"
        "2026/01/01 00:00:00.000, 0, 88.12 W, 100 %, 71234 MiB, 61\n"
        "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover\n"
    )
    found, _facts = ended(tmp_path / "1", FakeSlurm(sacct=NO_ACCOUNTING), exit_code=1, outcome=outcome)
    assert found.root is not None
    assert (found.family, found.root.node, found.root.line) == ("cuda_device", "node02", 3)
    assert found.root.witness and advice.diagnosis_of(found, scan.Scan()).blame == ["node02"]


@pytest.mark.parametrize(
    ("code", "said", "remedy"),
    [
        ("(QOSMaxGRESPerUser)", "all the GPUs", "resources.gpus_per_node"),
        ("DependencyNeverSatisfied", "it can never start: ", "resources.dependency"),
        ("JobHeldUser", "it will not start by itself: ", "scontrol release"),
        ("Resources", "waiting for enough free nodes", "resources.nodes"),
    ],
)
def test_a_job_that_does_not_start_says_why_and_what_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str, remedy: str
) -> None:
    launch = LaunchReport(
        "a", "k", 1, "waiting", "pending", str(tmp_path), "", slurm_state="PENDING", job_id="9", reason_code=code
    )
    run = tmp_path / "runs" / "a" / ("b" * 16) / "1"
    run.mkdir(parents=True)
    monkeypatch.setattr(diagnose, "final_report", lambda slurm, run: launch)
    options = {"run_dir": str(run), "state_root": "~", "x_families": [], "processes": 1, "write": True,
        "stall_factor": 10.0, "stall_seconds": 60.0,
    }  # fmt: skip
    found = diagnose.diagnose(FakeSlurm().slurm(), options)
    diagnosis = found["diagnosis"]
    assert (diagnosis["family"], diagnosis["healthy"]) == ("pending", False)
    assert said in diagnosis["what"] and remedy in diagnosis["remedy"]
    assert diagnosis["facts"]["reason"]["code"] in code
    assert len(found["lines"]) <= 15 and any(line.startswith("remedy") for line in found["lines"])
    json.dumps(diagnosis)


NO_EINOPS = "environment: ModuleNotFoundError: No module named 'einops'"


def refused(root: Path, **lacking: str) -> dict[str, Any]:
    """The diagnosis of a launch whose preflight judged these problems of its nodes."""
    run = Run.below(root).journal({"event": "intent"}, {"event": "submitted", "job_id": "7"}).claimed().numbered(0)
    run.started(nodes=list(lacking))
    folder = run.path / "preflight" / "0"
    folder.mkdir(parents=True)
    for node, problem in lacking.items():
        report(folder, node, ("eth0",), *([problem] if problem else []), heads=list(lacking))
    table, verdict = judged(folder, ",".join(lacking), policy="stop")
    (folder / "table").write_text("\n".join(table) + "\n")
    run.ended(69, f"preflight: {verdict['message']}", by="setup")
    gone = FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=NO_ACCOUNTING)
    return write_diagnosis(gone.slurm(), run.path)


@pytest.mark.parametrize(
    ("lacking", "excluded"),
    [
        ({"n1": NO_EINOPS, "n2": NO_EINOPS}, None),
        ({"n1": NO_EINOPS}, None),
        ({"n1": "", "n2": NO_EINOPS}, "n2"),
        ({"n1": NO_EINOPS, "n2": f"{NO_EINOPS}, either", "n3": ""}, "n1, n2"),
    ],
)
def test_only_nodes_that_lack_what_others_have_are_to_be_excluded(
    tmp_path: Path, lacking: dict[str, str], excluded: str | None
) -> None:
    remedy = refused(tmp_path, **lacking)["diagnosis"]["remedy"]
    assert ("resources.exclude" in remedy) == (excluded is not None), remedy
    assert excluded is None or f"`resources.exclude: [{excluded}]`" in remedy


def test_a_refusal_for_no_node_excludes_none(tmp_path: Path) -> None:
    run = Run.below(tmp_path).journal({"event": "intent"}, {"event": "submitted", "job_id": "7"}).claimed()
    run.started().ended(71, "no free port from 20000 on, on node01", by="setup")
    gone = FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=NO_ACCOUNTING)
    told = write_diagnosis(gone.slurm(), run.path)
    assert "resources.exclude" not in told["diagnosis"]["remedy"]
    assert any("no free port" in line for line in told["lines"])


def test_what_the_job_said_of_its_end_is_always_told(tmp_path: Path) -> None:
    """Also where a line of a log is the cause: it may be a harmless one."""
    run = Run.below(tmp_path).journal({"event": "intent"}, {"event": "submitted", "job_id": "7"}).claimed().numbered(0)
    verdict = "not requeued: no progress: saved (checkpoint.progress) is the same after attempt 1 and attempt 2"
    run.started().ended(1, verdict)
    (run.path / "logs" / "0" / "rank-0000.log").write_text("cat: /etc/motd: No such file or directory\nstep 3/9\n")
    gone = FakeSlurm(squeue=UNKNOWN_ID, scontrol=UNKNOWN_ID, sacct=NO_ACCOUNTING)
    told = write_diagnosis(gone.slurm(), run.path)
    assert told["diagnosis"]["root"] and verdict not in told["diagnosis"]["root"]["text"], "a line of the log won"
    assert verdict.split(" (")[0] in " ".join(" ".join(told["lines"]).split())


def test_a_kill_by_slurm_is_no_evidence_of_memory(tmp_path: Path) -> None:
    """Slurm kills what does not end by itself: signal 9 says nothing of a job that it ended."""
    found, _facts = ended(tmp_path / "1", sacct(KILLED), job_id="8", slurm_state="CANCELLED", exit_code=137)
    assert found.family == "preempted_or_cancelled"
    assert "host_oom_killed" not in {event.family for event in found.followed}
    told = advice.diagnosis_of(found, scan.Scan())
    assert "aunch again" not in told.remedy and not told.retry


def test_connections_that_were_tried_in_vain_are_why_somebody_cancelled() -> None:
    log = FileEvents("/logs/rank-0001.log", lines=9)
    refused = "misc/socket.cc:484 NCCL WARN Connect to 10.0.0.3<43215> failed : Connection timed out"
    cancelled = Event("preempted_or_cancelled", LIMIT, "CANCELLED", 1, file="Slurm", witness=True)
    witness = FileEvents("Slurm", [cancelled], lines=1)
    for line in range(1, cause.IN_VAIN + 1):
        log.events.append(Event("nccl_network", WEAK + 5, refused, line, file=log.file, rank=1))
        chosen = cause.find_cause([log, witness], failed=True)
        assert chosen.family == ("preempted_or_cancelled" if line < cause.IN_VAIN else "nccl_network")
    assert chosen.root is log.events[0] and chosen.confidence == "medium"
