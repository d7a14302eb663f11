# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch script as a step of another job: its surroundings, its identity, and how it is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.unit.runtime.harness import Job, Site, wait_for

STEP = "7.3"


def begin(job: Job, **leaked: str) -> subprocess.Popen[str]:
    """Start attach.sh as srun does on the first of two nodes."""
    environment = {
        "PATH": os.environ["PATH"],
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "3",
        "SLURM_JOB_NAME": "job.key.1",
        "SLURM_WORKING_CLUSTER": "lab:10.0.0.1:6817:9728:109",
        **{f"BASH_FUNC_{name}%%": f"() {{ {body}; }}" for name, body in job.site.functions.items()},
        **leaked,
    }
    nodes = ",".join(["localhost"] * job.plan.topology.nodes)
    job.site.place_stand_ins()
    return subprocess.Popen(
        ["/bin/bash", str(Path(job.plan.runtime_dir) / "start" / "attach.sh"), str(job.run), "host:1", nodes],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def log(job: Job) -> str:
    return (job.run / "logs" / f"job.{STEP}.log").read_text(encoding="utf-8")


def test_the_script_runs_as_the_step(site: Site) -> None:
    job = site.job({"launcher": {"inside_job": "7"}, "resources": {"nodes": 2}, "artifact": {}})
    process = begin(job)
    said, _none = process.communicate(timeout=60)
    assert process.returncode == 0, said + log(job)
    assert said == f"[rankzero] step {STEP}\n", "all else is in the log: srun is not there to carry it"
    assert (job.run / "claim").read_text() == f"1 lab {STEP}\n"
    assert job.started()["job_id"] == job.outcome()["job_id"] == STEP
    assert job.outcome()["success"] is True
    assert f"[rankzero] job {STEP} attempt 0 on localhost localhost" in log(job)
    # Started again, it finds its proof.
    before = (job.run / "outcome.json").read_bytes()
    assert begin(job).wait(timeout=60) == 0
    assert f"proven already by job {STEP}, attempt 1" in log(job)
    assert (job.run / "outcome.json").read_bytes() == before


def test_a_release_that_does_not_name_the_cluster_is_asked_for_it(site: Site) -> None:
    """Slurm 24.11: neither SLURM_CLUSTER_NAME nor SLURM_WORKING_CLUSTER is set in a step."""
    job = site.job({"launcher": {"inside_job": "7"}, "resources": {"nodes": 2}, "artifact": {}})
    scontrol = site.functions["scontrol"]
    site.functions["scontrol"] = (
        f'[ "$*" = "show config" ] && echo "ClusterName             = lab" || {{ {scontrol}; }}'
    )
    process = begin(job, SLURM_WORKING_CLUSTER="")
    said, _none = process.communicate(timeout=60)
    assert process.returncode == 0, said + log(job)
    assert (job.run / "claim").read_text() == f"1 lab {STEP}\n"


def test_nothing_of_the_step_or_of_the_outer_job_reaches_the_ranks(site: Site) -> None:
    job = site.job({"launcher": {"inside_job": "7"}, "artifact": {}})
    leaked = {
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
        "SLURM_NTASKS": "1",
        "SLURM_RESTART_COUNT": "4",
        "SLURM_STEP_GPUS": "0",
        "SBATCH_QOS": "x",
        "SRUN_CPUS_PER_TASK": "9",
        "PMIX_RANK": "0",
        "CUDA_VISIBLE_DEVICES": "NoDevFiles",
        "ROCR_VISIBLE_DEVICES": "0",
    }
    assert begin(job, SLURM_JOB_PARTITION="batch", **leaked).wait(timeout=60) == 0, log(job)
    seen = job.seen()["env"]
    assert not set(leaked) & set(seen), sorted(set(leaked) & set(seen))
    assert (seen["SLURM_JOB_ID"], seen["SLURM_JOB_NODELIST"], seen["SLURM_JOB_NUM_NODES"]) == ("7", "localhost", "1")
    assert seen["SLURM_JOB_PARTITION"] == "batch"
    assert seen["RANKZERO_ATTEMPT"] == "0", "the outer job's restarts are not the launch's"


def test_two_steps_of_one_job_are_two(site: Site) -> None:
    job = site.job({"launcher": {"inside_job": "7"}})
    (job.run / "claim").write_text("1 lab 7.2\n")
    assert begin(job).wait(timeout=60) == 0
    assert "belongs to another job (1 lab 7.2): nothing is run here" in log(job)
    assert not (job.run / "outcome.json").exists()


def test_cancelled_its_ranks_may_end_by_themselves(site: Site) -> None:
    """The script only takes note: the ranks were told by their own step, and srun would kill them."""
    job = site.job({"shell": "touch $RANKZERO_RUN_DIR/up; until [ -e go ]; do sleep 0.05; done; exit 3"})
    process = begin(job)
    wait_for((job.run / "up").exists, process)
    process.send_signal(signal.SIGURG)
    process.send_signal(signal.SIGURG)
    (job.run / "work" / "go").touch()
    assert process.wait(timeout=60) == 3
    outcome = job.outcome()
    assert (outcome["ended_by"], outcome["message"], outcome["success"]) == ("signal", "cancelled", False)


def test_cancelled_before_the_ranks_none_of_them_starts(site: Site) -> None:
    site.functions["srun"] = 'touch "$RANKZERO_RUN_DIR/looks"; exec sleep 600'
    job = site.job({"preflight": {"enabled": True}})
    process = begin(job)
    wait_for((job.run / "looks").exists, process)
    process.send_signal(signal.SIGURG)
    assert process.wait(timeout=60) == 143
    assert job.outcome()["message"] == "cancelled before its ranks started"


def test_the_secrets_of_a_cancelled_step_are_removed(site: Site) -> None:
    """A job may be requeued after a signal and need them again; a step is not."""
    job = site.job({"shell": "touch $RANKZERO_RUN_DIR/up; sleep 600"}, secrets={"TOKEN": "x"})
    process = begin(job)
    wait_for((job.run / "up").exists, process)
    process.terminate()
    process.wait(timeout=60)
    assert job.outcome()["ended_by"] == "signal"
    assert not (job.run / "secrets.env").exists()
