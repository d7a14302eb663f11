# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures provoked for real on a lab, and what job_diagnosis makes of each: by the role, and by the module alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.rank_looks import query_ranks
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import JOB, RESULT, Played, Site, node_folders, read_json
from tests.cluster.watching import SECONDS, Bench, bench
from tests.repository import ROOT

__all__ = ["bench"]

DIAGNOSIS = "rankzero.slurm.job_diagnosis"
BIND = "import socket; a, b = socket.socket(), socket.socket(); a.bind((str(), 0)); b.bind(a.getsockname())"
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
FULL = "f = open(chr(47) + 'dev/full', 'w'); f.write('x' * 99999); f.flush()"
# What fails on rank 1 while rank 0 waits for it -> the family, and a word of its root line.
CASES = {
    "package": ('python3 -c "import not_there_at_all"', "import_error", "not_there_at_all"),
    "port": (f'python3 -c "{BIND}"', "address_in_use", "already in use"),
    "crash": (f'python3 -c "{KILL}"', "crash", "Segmentation fault"),
    "disk": (f'python3 -c "{FULL}"', "disk_full", "No space left on device"),
    "file": ("python3 not_there.py", "file_missing", "not_there.py"),
    "silent": ("exit 3", "launcher", "exit code 3"),
}


@pytest.fixture(scope="module")
def played(lab: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Played]]:
    site = Site(lab, tmp_path_factory.mktemp("diagnosis"), "diagnosis")
    two = {"ranks_per_node": 2}
    jobs = {
        host: {"launch_job": site.job(f'[ "$RANK" = 0 ] && exec sleep 600\n{program}', name=host, launcher=two)}
        for host, (program, _family, _word) in CASES.items()
    }
    program = 'echo "of $RANK"; [ "$RANK" = 8 ] || exec sleep 600\npython3 -c "import not_there_at_all"'
    spread = {"launcher": {"ranks_per_node": 6}, "resources": {"nodes": 3, "time": "00:10:00"}}
    jobs["shared"] = {"launch_job": site.job(program, name="shared", **spread)}
    unproven = {"artifact": {"require": {"loss": {"lt": 1}}}}
    jobs["unproven"] = {"launch_job": site.job(RESULT, name="unproven", **unproven)}
    yield site, site.play_many(jobs, "--forks=8", wait=True)
    site.close()


def test_the_rank_is_named_although_its_node_has_one_log(played: tuple[Site, Played]) -> None:
    """As of more than 16 ranks each node has. Such a launch leaves little more than a file a node."""
    site, play = played
    (why,) = play.results(DIAGNOSIS, "shared")
    found, launch = why["diagnosis"], play.launch("shared")
    nodes = read_json(site.run_dir(launch) / "started.json")["nodes"]
    assert (found["family"], found["ranks"], found["nodes"]) == ("import_error", [8], [nodes[1]]), found
    run = site.run_dir(launch)
    folder = run / "logs" / "0"
    names = {path.name for path in folder.iterdir() if "rank" in path.name}
    shared = [f"{node}.ranks-{ranks}.log" for node, ranks in zip(nodes, ("1-5", "6-11", "12-17"), strict=True)]
    assert names == {"rank-0000.log", *shared}
    files = [path for part in ("logs", "monitor", "preflight") for path in (run / part).rglob("*") if path.is_file()]
    assert len(files) <= len(nodes) + 20, files
    assert (folder / ".live").resolve().read_text().endswith("of 0\n"), "the first rank is followed"
    assert "\n7: of 7\n" in (folder / shared[1]).read_text()
    assert not [path for path in node_folders(site.lab, *nodes) if f"-{launch['job_id']}-" in path]


@pytest.mark.parametrize("host", CASES)
def test_the_cause_is_found(host: str, played: tuple[Site, Played]) -> None:
    site, play = played
    _program, family, word = CASES[host]
    (why,) = play.results(DIAGNOSIS, host)
    found = why["diagnosis"]
    assert (found["family"], word in found["root"]["text"]) == (family, True), found
    assert found["ranks"] == [1] and len(found["nodes"]) == 1, found
    # The whole story lies beside the run, and the screen has the short one.
    recorded = read_json(site.run_dir(play.launch(host)) / "diagnosis.json")
    assert recorded.pop("lines"), "what people read, for the report"
    assert recorded == found
    assert len(why["lines"]) <= 15
    assert all(f"{host}:   {line}" in play.output for line in why["lines"]), play.output


def test_an_artifact_that_proves_nothing_is_a_cause(played: tuple[Site, Played]) -> None:
    (why,) = played[1].results(DIAGNOSIS, "unproven")
    assert why["diagnosis"]["family"] == "artifact"
    assert "loss: 1.5 is not lt 1" in " ".join(" ".join(why["lines"]).split())


STEPS = "for n in 1 2 3 4 5 6; do echo step $n/99 loss 0.5; sleep 0.2; done"


def test_a_running_job_answers_the_check_list_and_says_who_is_behind(lab: LabCluster, tmp_path: Path) -> None:
    """Rank 1 stops after its third step, rank 0 goes on; the playbook of a job that runs, and of one that waits."""
    site = Site(lab, tmp_path, "alive")
    family = {
        "family": "license", "what": "no licence is free", "remedy": "Let Slurm count them: `resources.sbatch`.",
        "says": [{"regex": "License checkout failed", "needles": ["License checkout failed"]}],
        "examples": ["License checkout failed: solver"],
    }  # fmt: skip
    (tmp_path / "own.yml").write_text(json.dumps(family))
    try:
        stops = (
            f'[ "$RANK" = 0 ] || exec sh -c "for n in 1 2 3; do echo step \\$n/99 loss 0.5; done; sleep 600"\n{STEPS}'
        )
        job = site.launch(site.job(f"{stops}; echo License checkout failed; sleep 600", launcher={"ranks_per_node": 2}))
        waits = site.launch(site.job("true", name="waits", resources={"time": "00:01:00", "sbatch": {"hold": True}}))
        log, behind = (site.wait_for(site.run_dir(job) / "logs" / "0" / f"rank-000{rank}.log") for rank in (0, 1))
        lab.wait_until(lambda: "step 3/" in behind.read_text(), 60, "the last step of rank 1")
        lab.wait_until(lambda: "License" in log.read_text(), 60, "the last step")
        quick = {"stall_factor": 1.5, "stall_seconds": 0.2}
        diagnose = "rankzero.slurm.diagnose"
        lab.wait_until(lambda: time.time() - log.stat().st_mtime > 3, 60, "the job stands still")
        played = site.play(None, playbook=diagnose, run_dir=job["run_dir"], families=str(tmp_path / "own.yml"), **quick)
        (found,) = played.results(DIAGNOSIS)
        stall, asked = found["diagnosis"]["stall"], {one["question"]: one for one in found["diagnosis"]["checklist"]}
        assert (stall["step"], stall["behind"]) == (6, [1]), found
        assert asked["all ranks started"]["answer"] == "2 of 2 started with WORLD_SIZE 2"
        assert asked["all ranks started"]["ok"] and asked["world size"]["ok"] and asked["steps"]["ok"]
        assert found["diagnosis"]["family"] == "license"
        assert len(found["lines"]) <= 15
        assert not (site.run_dir(job) / "diagnosis.json").exists()
        cluster = {**site.cluster, "diagnosis_families": ["nowhere.yml"]}
        refused = site.play(None, playbook=diagnose, run_dir=job["run_dir"], launch_cluster=cluster)
        assert "there is no file" in refused.results(DIAGNOSIS)[-1]["msg"]
        (why,) = site.play(None, playbook=diagnose, run_dir=waits["run_dir"]).results(DIAGNOSIS)
        assert (why["diagnosis"]["family"], why["diagnosis"]["facts"]["reason"]["code"]) == ("pending", "JobHeldUser")
        assert "scontrol release" in why["diagnosis"]["remedy"]
    finally:
        site.close()


def test_the_nodes_hear_through_their_collectors_what_they_are_asked(lab: LabCluster, tmp_path: Path) -> None:
    """srun passes what the first node says to all of them; none of them looks at the run directory for it."""
    site = Site(lab, tmp_path, "asked")
    try:
        spread = {"resources": {"nodes": 2, "time": "00:10:00"}, "logs": {"per": "node"}, "monitor": {"host": 1}}
        sampled = 'until [ "$(cat "$RANKZERO_SPOOL"/*/samples/*.csv | wc -l)" -ge 3 ]; do sleep 0.2; done'
        job = site.launch(site.job(f'{sampled}; touch "$RANKZERO_RUN_DIR/sampled-$RANK"; exec sleep 600', **spread))
        run = site.run_dir(job)
        lab.wait_until(lambda: len(list(run.glob("sampled-*"))) == 2, 120, "both nodes are sampled")
        own = os.geteuid()
        os.seteuid(site.user.uid)
        try:
            answers = query_ranks(RunDirectory(str(run)), 0, patience=40)
        finally:
            os.seteuid(own)
        assert {answer["node"] for answer in answers} == set(read_json(run / "started.json")["nodes"])
        assert {row["rank"] for answer in answers for row in answer["processes"]} == {0, 1}
    finally:
        site.close()


def test_whatever_names_a_launch_finds_it(bench: Bench) -> None:
    """One finished launch, by each of the options; check mode and `write: false` leave nothing."""
    broken = bench.submit(
        "printf 'Traceback (most recent call last):\\n  File x\\n' > $LOG\n"
        "echo 'PermissionError: [Errno 13] Permission denied: /x' >> $LOG\n"
        "outcome false 1 'exit code 1' null; exit 1"
    )
    # The diagnosis contains what accounting says, so it changes until accounting knows the end.
    bench.accounted(broken, bench.ended(broken))
    kept = broken.here / "diagnosis.json"
    here = {"state_root": bench.state_root}
    by_name = {"name": broken.name, "key": broken.key, "generation": 1, **here}
    assert bench.task("job_diagnosis", check=True, run_dir=broken.path)["changed"] is True
    assert bench.task("job_diagnosis", job_id=broken.job_id, write=False, **here)["changed"] is False
    assert not kept.exists()
    found = bench.task("job_diagnosis", **by_name)
    assert (found["diagnosis"]["family"], found["changed"]) == ("permission_denied", True)
    assert found["diagnosis"]["ranks"] == [0]
    assert kept.exists()
    assert all((end["asked"] or 0) < 1 << 50 for end in found["diagnosis"]["facts"]["accounting"])
    # Accounting may get the record of the job's start, with its name and memory, after that of its end.
    settled = lambda: not bench.task("job_diagnosis", processes=2, **by_name)["changed"]  # noqa: E731
    bench.lab.wait_until(settled, SECONDS, "a diagnosis that nothing changes")


def test_a_job_that_slurm_holds_and_a_node_that_it_has_drained_come_with_the_commands(
    lab: LabCluster, tmp_path: Path
) -> None:
    """Slurm cannot start the job's script: card, status and diagnose name two commands, and these are what helps."""
    if lab.way != "realistic":
        pytest.skip("slurmd's program is hidden by a mount on one node, which only nodes of the realistic way have")
    site, node = Site(lab, tmp_path, "held"), lab.nodes[-1]
    daemon = lab.node(node, ["sh", "-c", "command -v slurmstepd"]).stdout.strip()
    lab.node(node, ["mount", "--bind", "/dev/null", daemon])
    try:
        job = site.job(RESULT, resources={"time": "00:05:00", "sbatch": {"nodelist": node}}, artifact={})
        launch = site.launch(job)
        queue = ["squeue", "--noheader", "--format=%T %r", f"--jobs={launch['job_id']}"]
        lab.wait_until(lambda: "held" in lab.head(queue).stdout, 60, "Slurm holds the job")
        # Whether Slurm drains the node besides depends on its release and on what has failed: here it is in its words.
        drain = ["State=DRAIN", "Reason=batch job complete failure"]
        lab.head(["scontrol", "update", f"NodeName={node}", *drain])
        commands = [f"scontrol update NodeName={node} State=RESUME", f"scontrol release {launch['job_id']}"]
        shown = {
            "card": site.play(job, wait=True, launch_wait_timeout=3).output,
            "status": site.play(None, playbook="rankzero.slurm.status", run_dir=launch["run_dir"]).output,
            "diagnose": site.play(None, playbook="rankzero.slurm.diagnose", run_dir=launch["run_dir"]).output,
        }
        for what, text in shown.items():
            for command in commands:
                assert command in " ".join(text.split()), f"{what} does not say {command}:\n{text}"
        lab.node(node, ["umount", daemon])
        for command in commands:
            lab.head(command.split())
        assert site.outcome(launch)["success"]
    finally:
        lab.node(node, ["sh", "-c", f"! grep -q ' {daemon} ' /proc/self/mountinfo || umount {daemon}"])
        lab.head(["scontrol", "update", f"NodeName={node}", "State=RESUME"], check=False)
        site.close()


def test_the_example_of_monitoring_launches_again_without_the_node_at_fault(
    played: tuple[Site, Played], site: Site
) -> None:
    """What the rulebook runs. A GPU of the first node is broken, as the node's sampler would say: no GPU is at hand.
    What is the fault of a program is not tried again.
    """
    samples = '"$RANKZERO_RUN_DIR/monitor/0/$SLURMD_NODENAME.gpu.csv"'
    lost = "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover"
    broken = f'mkdir -p "$RANKZERO_RUN_DIR/monitor/0"; echo "{lost}" > {samples}; exit 1'
    job = site.job(f'[ "${{RANKZERO_RUN_DIR##*/}}" = 1 ] || {{ {RESULT}; exit 0; }}\n{broken}')
    failed = site.launch(site.write(job, f"jobs/{job['name']}.yml"))
    assert site.ended(failed["job_id"]) == "FAILED"
    (node,) = read_json(site.run_dir(failed) / "started.json")["nodes"]
    example = {"playbook": str(ROOT / "examples" / "monitoring" / "relaunch.yml")}
    place = {"jobs_folder": str(site.folder / "jobs")}
    tried = site.play(None, **example, **place, failed_job_id=failed["job_id"])
    assert tried.rc == 0, tried.output
    again = tried.launch()
    assert (again["generation"], again["key"]) == (2, failed["key"])
    assert site.outcome(again)["success"] and read_json(site.run_dir(again) / "started.json")["nodes"] != [node]
    (excluded,) = site.host_path(site.state_root).glob(f"clusters/*/nodes/{node}.json")
    assert "ECC" in read_json(excluded)["reason"] or "GPU" in read_json(excluded)["reason"]
    theirs, play = played
    fault = play.launch("file")
    left = theirs.play(None, **example, **place, failed_job_id=fault["job_id"])
    assert left.rc == 0 and not left.results(JOB), left.output
