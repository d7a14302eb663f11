# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several programs in one job. The first role decides about the launch: its step is the ranks' step. The others start
as soon as those that they wait for are ready, are watched beside it, and end with it. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable

from artifact import verdict
from core import components, processes, slurm
from core.log import log_line
from core.state import ARTIFACT, NAMED_BY_SLURM, PROGRAM, Job, Role, Step
from start import attempt
from start.ports import ANOTHER

# Of a process, whether it starts again alone or with its role.
RESTARTS = 3
ALONE, TOGETHER = "restart", "restart_all"
# Between the end of a role and what follows from it: where the job ends, or the deciding role with it, nothing does.
JUDGE_SECONDS = 1.0
# The others have so long to end once the deciding role has ended.
END_SECONDS = 5.0
POLL_SECONDS = 0.1
LONGEST = 64 << 10
# What is ready by an answer from its port: another user may have taken that before the role does.
ANSWERS = ("http", "port")
# What makes a role ready and is still there once it has ended, which may be sooner than it was looked at.
STAYS = ("file", "line")
LAST_LOOK_SECONDS = 10
_PLACE = re.compile(r"\{([a-z][a-z0-9_]*)\.(urls|hosts|nodes)\}")
_AGAIN = re.compile(
    rb"^\[rankzero\] (?P<what>role (?P<role>\w+): process (?P<rank>\d+) .+ starts again \((?P<often>\d+) of \d+\))\n",
    re.MULTILINE,
)
_TASK = re.compile(rb"^srun: error: (\S+): tasks? (\d+)[\d,-]*: (.+)$", re.MULTILINE)


def register(job: Job, words: list[str]) -> None:
    """Take up a role from the script: the words of its srun, with the environment that it has there."""
    of_the_image = job.get("RANKZERO_CLEARED").split()
    role = Role(
        job.get("RANKZERO_ROLE"),
        words,
        {name: value for name, value in job.env.items() if name not in of_the_image},
        node_count=job.number("RANKZERO_NODES"),
        per_node=job.number("RANKZERO_RANKS_PER_NODE"),
        ranks=job.number("RANKZERO_WORLD_SIZE"),
        first_rank=job.number("RANKZERO_FIRST_RANK"),
        beside=job.get("RANKZERO_SHARE"),
        component=job.number("RANKZERO_COMPONENT"),
    )
    job.roles.append(role)


def told(role: Role) -> dict[str, list[str]]:
    """What the others are told of a role."""
    return {"urls": [f"http://{host}" for host in role.hosts], "hosts": role.hosts, "nodes": role.nodes}


def record_progress(job: Job) -> None:
    """Say what has become of the roles, for whoever waits. A launch does not fail because that cannot be written."""
    with contextlib.suppress(OSError):
        attempt.publish_started(job)


def environment(job: Job, role: Role) -> dict[str, str]:
    """The environment of a role's step."""
    env = {**job.env, **role.env, "RANKZERO_RESTARTED": str(role.most), "RANKZERO_RESTARTS": str(RESTARTS)}
    for name in role.dropped:
        env.pop(name, None)
    return env


def words(job: Job, role: Role) -> list[str]:
    """The words of a role's srun, on its nodes, with what they are told of other roles."""
    by_name = {role.name: told(role) for role in job.roles}

    def value(match: re.Match[str]) -> str:
        return ",".join(by_name[match[1]][match[2]]) if match[1] in by_name else match[0]

    count = next((int(word[len("--nodes=") :]) for word in role.words if word.startswith("--nodes=")), role.node_count)
    places = f"--nodelist={','.join(role.nodes[:count])}"
    own = [role.words[0], places, *(_PLACE.sub(value, word) for word in role.words[1:])]
    return components.placed(job, own, role.component)


def log(job: Job, role: Role) -> str:
    """Where srun says how the processes of a role that does not decide have ended."""
    return os.path.join(job.get("RANKZERO_LOGS"), f"role-{role.name}.log")


def watch(job: Job, role: Role) -> None:
    """Begin to look whether a role is ready."""
    if not _ready_by(role)[0] or role.ready:
        return
    role.answered, role.watcher = False, processes.start(_look(job, role, _waits(job, role)), job.env)
    role.ready_by = role.ready_by or processes.after(int(role.env["RANKZERO_READY_WITHIN"]))


def _look(job: Job, role: Role, status_file: str) -> list[str]:
    """The words of ready.py for a role."""
    way, value = _ready_by(role)
    targets = role.hosts
    if way == "file":
        targets = [job.path("work", value)]
    elif way == "line":
        logs = (os.path.join(job.get("RANKZERO_LOGS"), _log_of(job, role, rank)) for rank in range(role.ranks))
        targets = [f"{role.lines_from.get(rank, 0)}:{log}" for rank, log in enumerate(logs)]
    program = os.path.join(job.runtime, "rank", "ready.py")
    return [job.python, "-I", "-S", program, status_file, way, value, *targets]


def _ask_whose(job: Job, role: Role) -> None:
    """Let each node of a role say whether those that have answered are the role's processes."""
    ports = [host.rpartition(":")[2] for host in role.hosts]
    places = [f"{role.nodes[rank // role.per_node]}:{port}" for rank, port in enumerate(ports)]
    program = [job.python, "-I", "-S", os.path.join(job.runtime, "start", "ports.py"), *places]
    role.answered = True
    step = components.placed(job, [*slurm.on_each(role.nodes, _waits(job, role)), *program], role.component)
    role.watcher = processes.start(step, job.env)


def _ready_by(role: Role) -> tuple[str, str]:
    way, _blank, value = role.env.get("RANKZERO_READY", "").partition(" ")
    return way, value


def _waits(job: Job, role: Role) -> str:
    return job.path(f".ready-{role.name}")


def _start(job: Job, role: Role) -> None:
    output = None
    # Without its log, where the share is gone for a while: srun then speaks into the job's.
    with contextlib.suppress(OSError):
        output = os.open(log(job, role), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        role.log_from = os.fstat(output).st_size
    role.step, role.ended_at = Step(ended_by=PROGRAM), None
    role.step.process = processes.start(words(job, role), environment(job, role), stderr=output)
    if output is not None:
        os.close(output)
    log_line(f"role {role.name} starts on {' '.join(role.nodes)}")
    role.ready_by = None
    begun(job, role)
    watch(job, role)


def begun(job: Job, role: Role) -> None:
    """A role's step has been started."""
    role.began, role.ended = role.began or time.time(), None
    record_progress(job)


def may_start(job: Job, role: Role) -> bool:
    """Whether all that a role waits for are ready."""
    waited = role.env.get("RANKZERO_AFTER_READY", "").split()
    return all(other.ready for other in job.roles if other.name in waited)


def begin(job: Job, heed: Callable[[Job], None]) -> bool:
    """Start the roles until the deciding one may start; whether it may. `heed`: acts on signals."""
    for role in job.roles:
        role.ready, role.over, role.restarts, role.most, role.watcher = False, False, 0, 0, 0
        role.steps_read, role.lines_from = 0, {}
        role.step, role.ended_at, role.ready_by = Step(), None, None
        role.began = role.ready_since = role.ended = None
    job.failed_role, job.failed_why = None, ""
    while True:
        check_roles(job)
        heed(job)
        if job.step.ended_by != PROGRAM or job.failed_role:
            return False
        if may_start(job, job.roles[0]):
            return True
        processes.pause(POLL_SECONDS)


def check_roles(job: Job) -> None:
    """Start what may start, see who is ready and who has ended, and do what follows from it."""
    if job.step.ended_by != PROGRAM or job.failed_role:
        return
    for role in job.roles:
        _check_restarts(job, role)
        _check_readiness(job, role)
        if role is job.roles[0] or role.over or job.failed_role:
            continue
        if role.ended_at is not None:
            if processes.due(role.ended_at):
                _judge(job, role)
        elif not role.step.process:
            if may_start(job, role):
                _start(job, role)
        elif not processes.runs(role.step.process):
            role.step.exit_code = processes.code_of(role.step.process)
            role.step.process = 0
            role.ended, role.ended_at = time.time(), processes.after(JUDGE_SECONDS)


def _check_restarts(job: Job, role: Role) -> None:
    """See which processes of a role have started again by themselves: they have to become ready anew."""
    ranks = _read_restarts(job, role)
    if not ranks:
        return
    if role.step.process:
        _begin_anew(job, role, ranks)
        watch(job, role)
    record_progress(job)


def _read_restarts(job: Job, role: Role) -> list[int]:
    """Log and count the processes of a role that have started again by themselves (rank.sh) since the last call; their
    ranks within the role.
    """
    if role.env.get("RANKZERO_ON_EXIT") != ALONE or not role.began:
        return []
    ranks: list[int] = []
    path = os.path.join(job.get("RANKZERO_LOGS"), "step.log")
    with contextlib.suppress(OSError):
        if os.stat(path).st_size <= role.steps_read:
            return []
        with open(path, "rb") as stream:
            stream.seek(role.steps_read)
            new = stream.read(LONGEST)
        role.steps_read += new.rfind(b"\n") + 1 or (len(new) if len(new) == LONGEST else 0)
        for match in _AGAIN.finditer(new):
            if match["role"] == os.fsencode(role.name):
                log_line(os.fsdecode(match["what"]))
                role.most = max(role.most, int(match["often"]))
                ranks.append(int(match["rank"]))
    role.restarts += len(ranks)
    return ranks


def _begin_anew(job: Job, role: Role, ranks: Iterable[int]) -> None:
    """Processes of a role have started again: a role that was ready has as long to be ready as the first time."""
    _stop_watching(role)
    role.ready_by = None if role.ready else role.ready_by
    role.ready, role.ready_since = False, None
    for rank in ranks:
        with contextlib.suppress(OSError):
            role.lines_from[rank] = os.stat(os.path.join(job.get("RANKZERO_LOGS"), _log_of(job, role, rank))).st_size


def _check_readiness(job: Job, role: Role) -> None:
    if not role.watcher:
        return
    late, what = processes.due(role.ready_by), f"was not ready within {role.env['RANKZERO_READY_WITHIN']} s"
    if not processes.runs(role.watcher):
        code, role.watcher = processes.code_of(role.watcher), 0
        if code == 0 and not role.answered and _ready_by(role)[0] in ANSWERS:
            _ask_whose(job, role)
            return
        if code == 0:
            _ready(job, role)
            return
        if role.answered and code == ANOTHER:
            what = "cannot be ready"
        elif role.answered and not late:
            watch(job, role)
            return
    elif not late:
        return
    waits = ""
    with contextlib.suppress(OSError), open(_waits(job, role), encoding="utf-8", errors="replace") as stream:
        waits = " ".join(stream.read(300).split())
    _fail(job, role, 70, f"{what} ({waits or 'nothing is known'})")


def _ready(job: Job, role: Role) -> None:
    role.ready, role.ready_since = True, time.time()
    log_line(f"role {role.name} is ready")
    record_progress(job)


def _look_once_more(job: Job, role: Role) -> None:
    """A role has ended before it was seen to be ready, which it may have been."""
    if role.watcher and _ready_by(role)[0] in STAYS:
        _stop_watching(role)
        if processes.output_of(LAST_LOOK_SECONDS, _look(job, role, ""), job.env)[0] == 0:
            _ready(job, role)


def _judge(job: Job, role: Role) -> None:
    """A role has ended before the deciding one."""
    _look_once_more(job, role)
    policy = role.env.get("RANKZERO_ON_EXIT")
    code, where = _first(job, role)
    what = f"ended with exit code {code}{where}"
    waited = not role.ready and role.env.get("RANKZERO_READY")
    restarts = policy in (ALONE, TOGETHER)
    if restarts and role.most < RESTARTS:
        role.most += 1
        role.restarts += 1
        log_line(f"role {role.name} {what}: it starts again ({role.most} of {RESTARTS})")
        # Who starts later waits for it anew.
        _begin_anew(job, role, range(role.ranks))
        _start(job, role)
    elif waited and not restarts:
        _fail(job, role, code or 70, f"{what} before it was ready")
    elif policy == "ignore" or (policy == "done" and code == 0):
        log_line(f"role {role.name} {what}: the others go on (on_exit: {policy})")
        role.over = True
        record_progress(job)
    else:
        often = f" after {RESTARTS} restarts" if restarts else ""
        _fail(job, role, code or 70, f"{what}{often} (on_exit: {policy})")


def _first(job: Job, role: Role) -> tuple[int, str]:
    """(exit code, words about the process) of the process that ended badly first. srun has the largest code, which is
    that of the others where it ends them.
    """
    with contextlib.suppress(OSError), open(log(job, role), "rb") as stream:
        stream.seek(role.log_from)
        match = _TASK.search(stream.read(LONGEST))
        if match:
            node, task, how = (os.fsdecode(part) for part in match.groups())
            own = re.search(r"exit code (\d+)", how)
            is_rank = role.env.get("RANKZERO_LAUNCHER", NAMED_BY_SLURM) == NAMED_BY_SLURM
            # A task that is no rank starts those of its node.
            rank = int(task) if is_rank else int(task) * role.per_node
            words = f" (process {task} on {node}: {how}; {_log_of(job, role, rank)})"
            return int(own[1]) if own else role.step.exit_code, words
    return role.step.exit_code, ""


def _log_of(job: Job, role: Role, rank: int) -> str:
    """The name of the log of a process of a role, as rank.sh has it."""
    number, node = role.first_rank + rank, role.nodes[min(rank // role.per_node, len(role.nodes) - 1)]
    name = f"rank-{number:04d}.log"
    if job.get("RANKZERO_LOG_STYLE") == "slurm":
        name = f"{job.get('RANKZERO_NAME')}.{job.get('SLURM_JOB_ID')}.{node}.{number}.out"
    return f"{number // 1000:03d}/{name}" if number >= 1000 or role.ranks > 1000 else name


def _fail(job: Job, role: Role, code: int, what: str) -> None:
    """A role ends the launch."""
    job.failed_role, job.failed_why, job.failed_with = role, f"role {role.name} {what}", code
    log_line(job.failed_why)
    processes.send_signal(job.step.process)
    job.step.kill_at = processes.after(END_SECONDS)


def _stop_watching(role: Role) -> None:
    processes.kill(role.watcher)
    if role.watcher:
        processes.wait(role.watcher, 2)
    role.watcher = 0


def end(job: Job) -> None:
    """The deciding role has ended: the others end, too."""
    decided = time.time()
    for role in job.roles:
        _stop_watching(role)
    running = [role.step.process for role in job.roles[1:] if role.step.process]
    for process in running:
        processes.send_signal(process)
    until = processes.after(END_SECONDS)
    while any(processes.runs(process) for process in running) and not processes.due(until):
        processes.pause(POLL_SECONDS)
    for process in running:
        # Once srun is gone and the script ends, Slurm itself clears the nodes.
        if processes.runs(process):
            processes.kill(process)
            processes.wait(process, 2)
    for role in job.roles:
        # A process may have started again between the last look and the end of the deciding role.
        _read_restarts(job, role)
        role.ended = role.ended or (decided if role.began else None)
    record_progress(job)
    if not job.failed_role or job.step.ended_by != PROGRAM:
        return
    job.step.exit_code, job.step.message = job.failed_with, job.failed_why
    if verdict.proven(job):
        job.step.ended_by = ARTIFACT
