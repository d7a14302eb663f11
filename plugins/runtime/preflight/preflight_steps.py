# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at every node before the ranks start, and decides which nodes they get. program.py does the looking. Standard
library only.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from artifact import verdict
from core import components, slurm, traps
from core.log import log_line, publish_json
from core.state import SIGNAL, Job
from end import requeue
from node import node_steps
from node.reports import TOGETHER
from preflight import binding, handout, judge, unstarted
from preflight.question import Judgement, Question
from rank import step
from start import attempt

# What each task runs. Where its node does not see the runtime, nothing else would say which node that is.
_BOUND = '[ -e "$0" ] || echo "[node] $SLURMD_NODENAME"; . "$0"'
# What one task of each node runs then: a node without python3 may still have the environment's, but not one in a folder
# that it should have made itself: somebody else may have.
_LOOK = """
. "$RANKZERO_RUNTIME/start/python.sh"
names=(python3)
[ -n "${RANKZERO_BIN:-}" ] || names+=("$RANKZERO_PYTHON")
python=$(rankzero_python "${names[@]}") && exec "$python" -ISB "$RANKZERO_RUNTIME/preflight/program.py" "$@"
# Nobody need wait for what this node would have said of its interfaces.
echo "{}" > "$2/heads/$SLURMD_NODENAME.addresses"
old=$(command -v python3) && [ -x "$old" ] && old=" of at least 3.9" || old=
echo "no python3$old here"
exit 78"""
_FIRST_TASK = '[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0; '
_PYTHON = 'python=$(command -v "$RANKZERO_PYTHON" || command -v python3) || exit 78; exec "$python" -B "$@"'


def preflight(job: Job, budget: int, srun: Sequence[str], enter: Sequence[str]) -> None:
    """Every node reports before any rank starts, within the budget; of a node that is not fit, or says nothing, the
    name is shown. By policy the job then ends, continues without it, or goes back into the queue without it. All ranks
    use the interface that every node reaches the first one by. `srun` with its options places and binds the tasks as
    the ranks will be.
    """
    asked = job.preflight
    asked.budget, asked.srun, asked.enter = budget, slurm.with_cpus(job, srun), list(enter)
    asked.folder, asked.names = job.path("preflight", str(job.attempt)), job.get("RANKZERO_NODELIST")
    asked.tasks = job.number("RANKZERO_RANKS_PER_NODE") if job.tasks_are_ranks else 1
    node_steps.make_report_folder(job)
    reasons = _ask(job, job.nodes)
    answering = [node for node in job.nodes if node not in reasons]
    if reasons and answering:
        log_line(f"srun could not start a task on {' '.join(reasons)}: asking the other nodes without")
        unstarted.forget_reports(asked.folder)
        asked.srun = slurm.beside(asked.srun)
        reasons = {**reasons, **_ask(job, answering)}
    asked.unstarted = reasons
    if job.get("RANKZERO_STAGE"):
        from node import copy_steps

        copy_steps.copy_missing(job)
    if job.get("RANKZERO_ALL_REDUCE"):
        _exchange(job)
    _conclude(job, _judge(job))
    folder = job.get("RANKZERO_CODE")
    # This node does not see the code, but runs no rank either.
    if folder and not os.path.isdir(folder):
        program = os.path.join(job.runtime, "core", "workdir.py")
        copied = "copied" if job.works_in_a_copy else ""
        words = [program, job.run_dir, folder, job.get("RANKZERO_ARTIFACT_PATH"), copied]
        if _further(job, job.nodes[:1], words) != 0:
            verdict.refuse(job, 66, f"cannot lay out {job.path('work')} from {folder} on {job.nodes[0]}")


def _ask(job: Job, nodes: Sequence[str]) -> dict[str, str]:
    """Let these nodes report; {node: srun's reason} of those on which srun could not start a task."""
    asked, begun = job.preflight, time.monotonic()
    errors = os.path.join(asked.folder, "srun.errors")
    words = [*asked.srun, *_output(job), *(_places(job, nodes) if nodes != job.nodes else []), *_words(job, nodes)]
    code = step.run_bounded(job, asked.budget, words, errors=errors)
    seconds = time.monotonic() - begun
    asked.ended = f"after {seconds:.0f} s with exit code {code}" if seconds < asked.budget else ""
    text = unstarted.errors_of(errors)
    os.write(2, os.fsencode(text))
    return unstarted.nodes_in(text, nodes) if code else {}


def _places(job: Job, nodes: Sequence[str]) -> list[str]:
    """The options of srun for a step on some of the nodes, placed as the first one was."""
    return [
        f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}", f"--ntasks={len(nodes) * job.preflight.tasks}"
    ]  # fmt: skip


def _output(job: Job, name: str = TOGETHER) -> list[str]:
    """The options of srun for what a step says: in one file for all nodes, each line with the number of its task. The
    nodes' reports are among it.
    """
    return [f"--output={job.preflight.folder}/{name}", "--label", "--open-mode=append"]


def _words(job: Job, nodes: Sequence[str]) -> list[str]:
    """What one task of each of these nodes runs, with what it is to look for."""
    asked, get = job.preflight, job.get
    words = ["/bin/bash", "-c", _BOUND, f"{job.runtime}/preflight/binding.sh"]
    words += ["/bin/bash", "-c", _LOOK, "preflight", "node"]
    words += [asked.folder, ",".join(nodes), "--wanted", get("RANKZERO_NODES"), "--code", get("RANKZERO_CODE")]
    words += ["--python", get("RANKZERO_PYTHON"), "--imports", get("RANKZERO_PREFLIGHT_IMPORTS")]
    words += ["--gpus", components.gpus(job), "--gpu-health", get("RANKZERO_GPU_HEALTH") or "off"]
    words += ["--gpu-type", get("RANKZERO_GPU_TYPE")]
    words += ["--image", get("RANKZERO_IMAGE"), "--mounts", get("RANKZERO_MOUNTS")]
    words += ["--runtime", get("RANKZERO_CONTAINER"), "--free-run", get("RANKZERO_FREE_RUN")]
    words += ["--free-tmp", get("RANKZERO_FREE_TMP"), "--sealed", asked.sealing]
    words += ["--ranks-per-node", get("RANKZERO_RANKS_PER_NODE") or "1"]
    words += ["--agents", "0" if job.tasks_are_ranks else get("RANKZERO_NODES")]
    words += ["--stage", get("RANKZERO_STAGE") or "never", "--local-dir", get("RANKZERO_LOCAL_DIR")]
    return words + (["--enter", *asked.enter] if asked.enter else [])


def _question(job: Job) -> Question:
    asked = job.preflight
    return Question(
        folder=asked.folder,
        names=asked.names.split(","),
        wanted=job.number("RANKZERO_NODES"),
        budget=asked.budget,
        ended=asked.ended,
        unstarted=asked.unstarted,
        policy=job.get("RANKZERO_PREFLIGHT_POLICY"),
        slow=job.get("RANKZERO_PREFLIGHT_SLOW"),
        gpus=binding.gpus_asked(components.gpus(job)),
        tasks_per_node=asked.tasks,
        cpus_per_task=job.number("RANKZERO_CPUS_PER_NODE") // asked.tasks,
        group_nodes=job.number("RANKZERO_GROUP_NODES", 1),
    )


def _further(job: Job, nodes: Sequence[str], words: Sequence[str]) -> int:
    """The exit code of a further step on some of the nodes, placed as the first one was: a Python program in the first
    task of each.
    """
    asked = job.preflight
    run = ["/bin/bash", "-c", _FIRST_TASK + _PYTHON, "preflight", *words]
    return step.run_bounded(job, asked.budget, [*asked.srun, *_places(job, nodes), *_output(job, "_steps.log"), *run])


def _exchange(job: Job) -> None:
    """The bandwidth between the fit nodes, with the job's own Python."""
    asked, megabytes = job.preflight, job.number("RANKZERO_ALL_REDUCE")
    nodes = judge.select(_question(job), megabytes)
    if not nodes:
        log_line("preflight.all_reduce: fewer than two fit nodes share an interface: not measured")
        return
    words = [f"{job.runtime}/preflight/program.py", "exchange", asked.folder, ",".join(nodes)]
    _further(job, nodes, [*words, "--budget", str(asked.budget), "--megabytes", str(megabytes)])


def _judge(job: Job) -> Judgement:
    """The judgement, which the job's log and the file `table` show."""
    try:
        judged = judge.judge(_question(job))
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        # A report that another program has written over.
        judged = Judgement(message=f"the reports in {job.preflight.folder} cannot be judged: {error!r}")
    text = "\n".join(judged.lines)
    with open(os.path.join(job.preflight.folder, "table"), "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(f"{text}\n" if text else "")
    handout.write(job, text)
    for line in text.splitlines():
        os.write(1, os.fsencode(f"[preflight] {line}\n"))
    return judged


def _conclude(job: Job, judged: Judgement) -> None:
    """Do what the verdict says."""
    job.preflight.blocks = judged.blocks
    if judged.interface:
        job.export("RANKZERO_INTERFACE", judged.interface)
    # Slurm has ended the steps of a job that it preempts: that is no fault of the nodes.
    if (judged.action != "run" or judged.blamed) and slurm.preempted(job):
        from end import finish

        traps.no_more()
        job.step.ended_by, job.step.exit_code = SIGNAL, 143
        finish.end(job)
    for node, reason in judged.blamed.items():
        remember(job, node, reason)
    if judged.action == "run":
        if judged.chosen != job.nodes:
            _use_chosen(job, judged)
    elif judged.action == "requeue":
        requeue.requeue_without(job, list(judged.blamed), f"preflight: {judged.message}")
    else:
        verdict.refuse(job, 69, f"preflight: {judged.message}")


def _use_chosen(job: Job, judged: Judgement) -> None:
    """The ranks run on some of the nodes only."""
    first = job.nodes[0]
    attempt.choose(job, judged.chosen)
    if job.nodes[0] != first:
        attempt.meet(job)
        if judged.ports:
            attempt.listen(job, judged.ports)
    attempt.record(job)
    without = f", without {judged.message}" if judged.message else ""
    log_line(f"the ranks run on {' '.join(job.nodes)}{without}; master {attempt.master(job)}")


def remember(job: Job, node: str, reason: str) -> None:
    """For the next launches of this cluster: a node was not fit. One file a node, so that many may write. Inside
    another job it may be that job's doing.
    """
    seconds = job.number("RANKZERO_EXCLUDE_FOR")
    if not seconds or job.attached:
        return
    root = os.path.abspath(os.path.join(job.run_dir, "..", "..", "..", ".."))
    place, now = os.path.join(root, "clusters", job.cluster, "nodes"), int(time.time())
    # Shown in one line, wherever it is shown.
    reason = re.sub(r'["\\\x00-\x1f]', "", reason)
    document = {"node": node, "reason": reason, "job_id": job.id, "time": now, "expires": now + seconds}
    try:
        os.makedirs(place, exist_ok=True)
        publish_json(os.path.join(place, f"{node}.json"), document)
    except OSError:
        log_line(f"cannot write to {place} that {node} is not fit")
