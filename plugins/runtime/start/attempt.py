# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the script and each attempt begin with: claim, run directory, number, meeting point. Standard library only."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Sequence

from artifact import verdict
from core import components, processes, slurm, workdir
from core.log import log_line, publish, publish_json
from core.state import Ended, Job, Role
from start import claim, ports, rendezvous

# In a word of a launcher: the file of its hosts.
HOSTFILE = "{RANKZERO_HOSTFILE}"


def begin(job: Job) -> None:
    """All that comes before the site's set-up. Ends the script where nothing is to be run."""
    job.started, job.launched = int(time.time()), 0
    job.export("RANKZERO_ATTEMPT", job.number("SLURM_RESTART_COUNT"))
    # Newer slurmds make the directory of the job's log themselves: that it exists says nothing.
    if not os.path.isfile(job.path("launch.json")):
        log_line(f"the run directory {job.run_dir} is gone: nothing is run")
        raise Ended(66)
    own(job)
    if job.get("RANKZERO_ANY_OF") and not job.attempt:
        claim.cancel_others(job)
    claim.count_attempts(job)
    claim.end_if_another_runs(job)
    # Else srun would leave a step without one of its nodes to wait for it for ever. The job itself continues.
    job.drop("SLURM_NO_KILL")
    if job.array_dir:
        _element_log(job)
    set_aside(job)
    number(job, job.attempt)
    if job.get("RANKZERO_SECRETS") and not os.path.isfile(job.path("secrets.env")):
        names = job.get("RANKZERO_SECRETS")
        verdict.refuse(
            job,
            78,
            f"the secrets ({names}) of this run were removed at its end: launch it again to provide them",
        )
    if not work(job):
        verdict.refuse(job, 66, f"cannot lay out {job.path('work')} from {_source(job) or 'nothing'}")
    if job.get("RANKZERO_ARTIFACT_PATH"):
        job.export("RANKZERO_ARTIFACT", job.path("work", job.get("RANKZERO_ARTIFACT_PATH")))
    # The user's own choice: also when another node becomes the first one.
    job.port_asked = job.get("RANKZERO_MASTER_PORT")
    own_checkpoint(job, first=True)
    job.nodes = components.allocated(job)
    if not job.nodes:
        verdict.refuse(job, 71, f"scontrol cannot expand the node list {job.get('SLURM_JOB_NODELIST')}")
    # All of them until the preflight has chosen.
    choose(job, job.nodes)
    slurm.count_cpus(job)
    meet(job)
    free = ports.free(job.id)
    if not free:
        verdict.refuse(job, 71, f"no free port from {ports.FIRST} on, on {os.uname().nodename}")
    listen(job, free)
    record(job)
    if job.attempt:
        log_line(f"restarted: SLURM_RESTART_COUNT={job.number('SLURM_RESTART_COUNT')}")
    log_line(f"job {job.id} attempt {job.attempt} on {' '.join(job.nodes)}; master {master(job)}")
    if job.get("RANKZERO_TP"):
        log_line(sizes(job))


def sizes(job: Job) -> str:
    """The sizes of the parallelism and the batches that were checked, as one line."""
    named = [(name, job.get(f"RANKZERO_{name}")) for name in ("TP", "PP", "CP", "EP", "DP", "MBS", "GBS")]
    return " ".join(f"{name}={size}" for name, size in named if size)


def own(job: Job) -> None:
    """End the script where its generation is another's, proven, or not the newest."""
    claim.distrust(job)
    if job.submission is None and not claim.by_hand(job):
        log_line(f"cannot make a new generation beside {job.run_dir}")
        raise Ended(73)
    claim.distrust(job)
    claim.end_if_proven(job)
    newer = claim.superseded(job)
    if newer:
        log_line(newer)
        raise Ended(75)
    taken = claim.acquire(job)
    if taken == claim.UNKNOWN:
        log_line(f"{job.path('claim')} can be neither taken nor read: nothing is run")
        raise Ended(73)
    if taken == claim.ANOTHERS:
        from core.log import first_line

        if not claim.inherit(job):
            owner = first_line(job.path("claim"))
            log_line(f"generation {job.generation} belongs to another job ({owner}): nothing is run here")
            raise Ended(0)


def _element_log(job: Job) -> None:
    """The job's log is the array's file, as one #SBATCH line names it for all tasks: the element's folder shows it as
    well. A link, because what Slurm itself writes about the job's end goes to the same file.
    """
    log = f"job.{job.slurm_job}.log"
    source, target = os.path.join(job.array_dir, "logs", log), job.path("logs", log)
    for make in (os.link, os.symlink):
        if os.path.exists(target):
            return
        try:
            make(source, target)
        except OSError:
            continue


def set_aside(job: Job) -> None:
    """Keep what the attempt before this one said of its end. no_python.sh leaves its verdict in plain words."""
    for name, before in (
        ("outcome.json", "outcome.before-attempt-{}.json"),
        ("no-python", "no-python.before-attempt-{}"),
    ):
        if os.path.isfile(job.path(name)):
            os.replace(job.path(name), job.path(before.format(job.attempt)))


def number(job: Job, attempt: int) -> None:
    """What an attempt begins with. The one before it may have left no word, and has its start at least."""
    job.export("RANKZERO_ATTEMPT", attempt)
    if os.path.isfile(job.path("started.json")):
        os.replace(job.path("started.json"), job.path(f"started.before-attempt-{attempt}.json"))
    # Written on the shared file system, so that "newer than the attempt" is judged by that file system's own clock.
    with open(job.path(".attempt"), "w", encoding="ascii") as stream:
        stream.write(f"{attempt}\n")
    job.started = int(time.time())
    logs = job.path("logs", str(attempt))
    job.export("RANKZERO_LOGS", logs)
    try:
        os.makedirs(logs, exist_ok=True)
    except OSError:
        verdict.refuse(job, 73, f"cannot create {logs}")


def _source(job: Job) -> str:
    return job.get("RANKZERO_SCRIPT_IN_PLACE") or job.get("RANKZERO_CODE")


def work(job: Job) -> bool:
    """Lay out the ranks' working directory; whether that could be done."""
    code, artifact, folder = job.get("RANKZERO_CODE"), job.get("RANKZERO_ARTIFACT_PATH"), job.path("work")
    place = job.get("RANKZERO_SCRIPT_IN_PLACE")
    if place and not os.path.isdir(place):
        log_line(
            f"code.in_place: there is no folder {place} on {job.node}; it must lie on storage that the nodes share"
        )
        return False
    try:
        if place and not os.path.lexists(folder):
            os.symlink(place, folder)
        os.makedirs(folder, exist_ok=True)
        # An attempt that was killed has left links that lead nowhere now.
        if os.path.exists(job.path(".staged")):
            workdir.relink(folder, "", code)
            os.unlink(job.path(".staged"))
        if os.path.isdir(code):
            workdir.lay_out(folder, code, artifact, job.works_in_a_copy)
        elif code and not (job.get("RANKZERO_STAGE") or job.get("RANKZERO_PREFLIGHT_POLICY")):
            # Else the preflight names this node, brings the code, or finds nodes that have it.
            log_line(f"the code snapshot {code} is not here")
            return False
        if artifact:
            os.makedirs(os.path.dirname(os.path.join(folder, artifact)), exist_ok=True)
    except OSError as error:
        log_line(f"{error.filename}: {error.strerror}")
        return False
    return True


def own_checkpoint(job: Job, first: bool = False) -> None:
    """Make this job, in this attempt, the one owner of its folder of checkpoints, or end it. With checkpoint.fresh that
    is a folder of this generation alone, named when this script calls it for the `first` time.
    """
    folder = job.get("RANKZERO_CHECKPOINT_DIR")
    if not folder:
        return
    if first and job.get("RANKZERO_CHECKPOINT_FRESH"):
        folder = os.path.join(folder, f"{job.get('RANKZERO_KEY')[:16]}.{job.generation}")
        job.export("RANKZERO_CHECKPOINT_DIR", folder)
    words = [job.python, "-I", os.path.join(job.runtime, "owner.py"), "take", folder]
    code, text = processes.output_of(600, words, job.env, both=True)
    if code != 0:
        verdict.refuse(job, code, f"checkpoint.dir: {text.splitlines()[-1] if text else f'exit code {code}'}")
    log_line(f"checkpoint.dir: {text}")


def choose(job: Job, nodes: Sequence[str]) -> None:
    """The nodes that the ranks run on."""
    job.nodes = list(nodes)
    job.export("RANKZERO_NODELIST", ",".join(nodes))


def list_hosts(job: Job, nodes: Sequence[str], slots: int, role: str = "") -> str:
    """Write the nodes of this attempt, or of a role in it, with the number of their ranks, as mpirun and DeepSpeed read
    them; the file.
    """
    path = job.path(f"hosts.{job.attempt}{f'.{role}' if role else ''}")
    try:
        with open(path, "w", encoding="ascii") as stream:
            stream.writelines(f"{node} slots={slots}\n" for node in nodes)
    except OSError:
        verdict.refuse(job, 73, f"cannot write to {job.run_dir}")
    return path


def listen(job: Job, free: Sequence[int]) -> None:
    """Name the ports of the first node: MASTER_PORT, unless the job has chosen it, and others."""
    if not job.port_asked:
        job.export("RANKZERO_MASTER_PORT", free[0])
    job.export("RANKZERO_PORTS", " ".join(str(port) for port in free[1:]))


def meet(job: Job) -> None:
    """Let the ranks meet on the first node."""
    address = rendezvous.master_address(job, job.nodes)
    if not address:
        verdict.refuse(job, 71, f"the first node {job.nodes[0]} has no address")
    job.export("RANKZERO_MASTER_ADDR", address)


def master(job: Job) -> str:
    return f"{job.get('RANKZERO_MASTER_ADDR')}:{job.get('RANKZERO_MASTER_PORT')}"


def draw_seed(job: Job) -> None:
    """One random seed for all ranks where the job states none, recorded with the time at which the ranks start. An
    attempt after a requeue has the same seed.
    """
    if not job.get("RANKZERO_SEED"):
        launch = f"{job.get('RANKZERO_KEY')} {job.get('RANKZERO_GENERATION')}"
        job.export("RANKZERO_SEED", zlib.crc32(launch.encode()) & 0x7FFFFFFF)
        log_line(
            f"seed {job.get('RANKZERO_SEED')}, drawn for this launch; `seed: {job.get('RANKZERO_SEED')}` repeats it"
        )
    record_launch(job)


def record_launch(job: Job) -> None:
    """The ranks start now: what is to be seen of the job from here on is theirs."""
    job.launched = int(time.time())
    record(job)


def record(job: Job) -> None:
    """Where the ranks of this attempt run, for whoever waits for it."""
    try:
        publish_started(job)
    except OSError:
        verdict.refuse(job, 73, f"cannot write to {job.run_dir}")


def publish_started(job: Job) -> None:
    """Write started.json. Raises OSError."""
    document = {
        "job_id": job.id,
        "attempt": job.attempt,
        "time": job.started,
        "nodes": job.nodes,
        "master_addr": job.get("RANKZERO_MASTER_ADDR"),
        "master_port": job.number("RANKZERO_MASTER_PORT"),
        "world_size": job.number("RANKZERO_WORLD_SIZE"),
        # Both are known once the ranks start.
        "launched": job.launched or None,
        "seed": job.number("RANKZERO_SEED") if job.get("RANKZERO_SEED") else None,
        **({"roles": [_role(role) for role in job.roles]} if job.roles else {}),
    }
    publish_json(job.path("started.json"), document)


def _role(role: Role) -> dict[str, object]:
    """Where the processes of a role run, and when. Their numbers among all begin with `first_rank`."""
    return {
        "name": role.name,
        "first_rank": role.first_rank,
        "nodes": role.nodes,
        "hosts": role.hosts,
        "waits_for": role.env.get("RANKZERO_AFTER_READY", "").split(),
        "began": role.began,
        "ready": role.ready_since,
        "ended": role.ended,
        "restarts": role.restarts,
    }


def count_uncounted(job: Job, attempt: int) -> None:
    """An attempt of which Slurm knows nothing."""
    publish(job.path(".uncounted"), f"{attempt - job.number('SLURM_RESTART_COUNT')}\n")
