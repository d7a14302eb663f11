# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records what a release of Slurm says of jobs in every state: `python -m tests.unit.slurm.record_states 26.05`.

Boots a lab of that release (as root; two minutes), brings jobs into their states, and lets the collection's own code
ask, so that the recordings are answers to exactly the questions that it puts. Written to data/<release>/.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster as lab_cluster
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import faults, layout
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import cluster, jobs
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from tests.unit.slurm.recorded import DATA

FOLDERS = {"host": "22.05"}
CONF = (
    # Whoever uses more memory than asked for is ended, without control groups.
    "JobAcctGatherParams=OverMemoryKill",
    "PreemptType=preempt/partition_prio",
    "PreemptMode=CANCEL",
    "PartitionName=urgent Nodes=node01 PriorityTier=10 PreemptMode=OFF MaxTime=UNLIMITED State=UP",
    "PartitionName=small Nodes=node[01-02] MaxNodes=1 MaxTime=00:30:00 State=UP",
)
UNKNOWN = "999999"


def new_lab(release: str) -> layout.Lab:
    return layout.Lab(
        "record",
        layout.default_directory("record", 0, "/root"),
        nodes=8,
        cpus=4,
        memory=4000,
        gpus=2,
        slurm_conf=CONF,
        slurm=release,
    )


class Recorder:
    """Runs Slurm's commands on the lab's head; keeps the last answer of each."""

    def __init__(self, lab: layout.Lab) -> None:
        self.lab = lab
        self.answers: dict[str, CommandResult] = {}
        self.slurm = Slurm(self.run, environment={"PATH": "/usr/bin:/bin"}, which=lambda name, path: f"/usr/bin/{name}")

    def run(
        self,
        argv: Sequence[str],
        timeout: float,
        environment: Mapping[str, str],
        stdin: str | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        settings = [f"{name}={value}" for name, value in environment.items()]
        command = [self.lab.path("bin", "head"), "/usr/bin/env", "-C", cwd or "/shared", *settings, *argv]
        done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, timeout=timeout, check=False)
        answer = CommandResult(tuple(argv), done.returncode, self.clean(done.stdout), self.clean(done.stderr))
        name = argv[0].rsplit("/", 1)[-1]
        self.answers[" ".join([name, *(word for word in argv[1:3] if name == "scontrol")])] = answer
        return answer

    def clean(self, text: str) -> str:
        """Without where the lab lies on this machine."""
        return text.replace(self.lab.directory, "/lab").replace(self.lab.cluster_name, "lab")

    def submit(self, name: str, *options: str, program: str = "sleep 600") -> str:
        script = f"#!/bin/sh\n{program}\n"
        line = ["sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null", "--mem=100", *options]
        return self.slurm.call(line[0], *line[1:], stdin=script).stdout.strip()

    def state(self, job_id: str) -> str:
        line = ["--noheader", "--states=all", f"--jobs={job_id}", "--Format=State:0"]
        return self.slurm.call("squeue", *line).stdout.strip().split("\n")[0]

    def until(self, job_id: str, *states: str) -> None:
        self.wait(lambda: self.state(job_id) in states, f"job {job_id} is {states}, it is {self.state(job_id)}")

    @staticmethod
    def wait(condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 150
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"did not happen: {what}")
            time.sleep(0.2)


def tell_the_story(it: Recorder) -> None:
    """One job for each state; the tests know them by their names."""
    timeout = it.submit("timeout", "--time=1", "--nodelist=node08")
    running = it.submit("running", "--nodelist=node02", "--nodes=1", "--gres=gpu:1", "--time=01:00:00")
    it.submit('we|ird na=me %j "q" Name=x', "--nodelist=node02")
    it.submit("new\nline\x1fsep\ttab", "--nodelist=node02")
    it.submit("held", "--hold")
    it.submit("later", "--begin=now+3600")
    it.submit("dependent", f"--dependency=afterok:{running}")
    it.submit("toomany", "--nodes=2", "--partition=small")
    it.submit("toolong", "--time=01:00:00", "--partition=small")
    fail3 = it.submit("fail3", program="exit 3")
    it.until(fail3, "FAILED")
    it.submit("never", f"--dependency=afterok:{fail3}")
    it.until(it.submit("completed", program="true"), "COMPLETED")
    it.until(it.submit("signalled", program="kill -SEGV $$"), "FAILED")
    waiting = it.submit("cancelled-waiting", "--hold")
    it.slurm.call("scancel", waiting)
    cancelled = it.submit("cancelled", "--nodelist=node03")
    it.until(cancelled, "RUNNING")
    it.slurm.call("scancel", cancelled)
    it.until(cancelled, "CANCELLED")
    lost = it.submit("node-fail", "--nodelist=node04", "--no-requeue")
    back = it.submit("node-fail-requeued", "--nodelist=node04", "--requeue")
    it.until(lost, "RUNNING")
    it.until(back, "RUNNING")
    it.slurm.call("scontrol", "update", "nodename=node04", "state=down", "reason=planted")
    it.until(lost, "NODE_FAIL")
    victim = it.submit("preempted", "--nodelist=node01", "--exclusive")
    it.until(victim, "RUNNING")
    urgent = it.submit("urgent", "--nodelist=node01", "--partition=urgent", "--exclusive")
    it.until(victim, "PREEMPTED")
    it.until(urgent, "RUNNING")
    again = it.submit("requeued", "--nodelist=node03")
    it.until(again, "RUNNING")
    it.slurm.call("scontrol", "requeue", again)
    it.wait(lambda: it.state(again) == "RUNNING", "the requeued job runs again")
    held = it.submit("requeue-held", "--nodelist=node03")
    it.until(held, "RUNNING")
    it.slurm.call("scontrol", "requeuehold", held)
    it.wait(lambda: it.state(held) not in ("RUNNING", "COMPLETING"), "the held one waits")
    it.submit("array", "--array=1-5%2", "--nodelist=node05")
    it.slurm.call("sbatch", "--parsable", "--job-name=het", "--nodelist=node06", ":", "--nodelist=node07", stdin=HET)
    suspended = it.submit("suspended", "--nodelist=node06")
    it.until(suspended, "RUNNING")
    it.slurm.call("scontrol", "suspend", suspended)
    it.submit("wide", "--nodes=7", "--exclusive")
    greedy = it.submit("greedy", "--nodelist=node07", program=GREEDY)
    it.wait(lambda: it.state(greedy) not in ("PENDING", "RUNNING", "COMPLETING"), "the greedy one ends")
    it.until(timeout, "TIMEOUT")
    time.sleep(12)  # accounting is written behind the events; a requeued job begins anew


HET = "#!/bin/sh\nsleep 600\n"
# Three times the memory it asked for, for longer than the accounting looks away.
GREEDY = "python3 -c 'import time; x = b\"x\" * (300 << 20); time.sleep(60)'"


def main(release: str) -> None:
    lab = new_lab(release)
    lab_cluster.apply(lab, "absent")
    lab_cluster.apply(lab, "present")
    folder = DATA / FOLDERS.get(release, release)
    folder.mkdir(exist_ok=True)
    try:
        it = Recorder(lab)
        tell_the_story(it)
        jobs.query_squeue(it.slurm, [])
        jobs.query_sacct(it.slurm, [], 0)
        it.slurm.call("scontrol", "show", "job")
        texts = {"squeue": "squeue", "sacct": "sacct", "scontrol_job": "scontrol show job"}
        # describe() asks sinfo twice; the limits are the first of the two questions.
        cluster.limits(it.slurm)
        for name, key in {**texts, "sinfo": "sinfo"}.items():
            write(folder / f"states_{name}.txt", it.answers[key].stdout)
        cluster.describe(it.slurm)
        described = {"config": "scontrol show config", "partition": "scontrol --oneliner show", "ping": "scontrol ping"}
        for name, key in described.items():
            write(folder / f"states_{name}.txt", it.answers[key].stdout)
        write(folder / "refusals.json", json.dumps(refusals(it), indent=1) + "\n")
    finally:
        lab_cluster.apply(lab, "absent")


def refusals(it: Recorder) -> dict[str, object]:
    """What Slurm says when it says no, and what its commands say when Slurm is silent."""
    shown = {
        "squeue of an unknown job": it.slurm.attempt("squeue", f"--jobs={UNKNOWN}"),
        "squeue of two unknown jobs": it.slurm.attempt("squeue", "--noheader", f"--jobs={UNKNOWN},{UNKNOWN}1"),
        "scontrol of an unknown job": it.slurm.attempt("scontrol", "show", "job", UNKNOWN),
        "sacct of an unknown job": it.slurm.attempt("sacct", "--noheader", f"--jobs={UNKNOWN}"),
        "scancel of an unknown job": it.slurm.attempt("scancel", UNKNOWN),
        "sbatch to no partition": it.slurm.attempt("sbatch", "--partition=nosuch", stdin=HET),
        "sbatch of an unknown option": it.slurm.attempt("sbatch", "--no-such-option", stdin=HET),
        "sbatch of too many nodes": it.slurm.attempt("sbatch", "--parsable", "--nodes=99", stdin=HET),
        "sbatch of too many CPUs": it.slurm.attempt("sbatch", "--parsable", "--cpus-per-task=99", stdin=HET),
        "sbatch of a typed GPU": it.slurm.attempt("sbatch", "--parsable", "--gres=gpu:nosuch:1", stdin=HET),
        "srun into an unknown job": it.slurm.attempt("srun", f"--jobid={UNKNOWN}", "true"),
    }
    planted = faults.Faults.of(it.lab.directory)
    planted.crash("slurmdbd")
    shown["sacct without a database"] = it.slurm.attempt("sacct", "--noheader", f"--jobs={UNKNOWN}")
    planted.crash("slurmctld")
    for name, line in SILENT.items():
        shown[f"{name} without a controller"] = it.slurm.attempt(*line, stdin=HET)
    return {name: {"rc": a.rc, "stdout": a.stdout, "stderr": a.stderr} for name, a in shown.items()}


SILENT = {
    "squeue": ("squeue", f"--jobs={UNKNOWN}"),
    "scontrol": ("scontrol", "show", "job", UNKNOWN),
    "scontrol ping": ("scontrol", "ping"),
    "sinfo": ("sinfo",),
    "sbatch": ("sbatch", "--parsable"),
    "scancel": ("scancel", UNKNOWN),
}


def write(path: object, text: str) -> None:
    with open(str(path), "w", encoding="utf-8", newline="") as stream:
        stream.write(text)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except RankzeroError as error:
        raise SystemExit(error.message) from error
