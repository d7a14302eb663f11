# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bench for the modules that look at launches: run directories as the contract describes them, filled by real jobs
that behave as a test wants, and single tasks run by ansible-playbook.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from tests import recording, warm_playbooks, writers
from tests.cluster.lab_user import LabUser
from tests.repository import BIN

SECONDS = 120
KEY = "0123456789abcdef"

#: What every job of the bench does around the test's own lines: it keeps the run directory as the real runtime does.
SCRIPT = """#!/bin/bash
RUN={run}; ATTEMPT=${{SLURM_RESTART_COUNT:-0}}; LOG=$RUN/logs/$ATTEMPT/rank-0000.log; NOW=$(date +%s)
[ -e "$RUN/claim" ] || echo "{generation} ${{SLURM_CLUSTER_NAME:-cluster}} $SLURM_JOB_ID" > "$RUN/claim"
mkdir -p "$RUN/logs/$ATTEMPT"; rm -f "$RUN/outcome.json"
publish() {{ cat > "$1.tmp" && mv "$1.tmp" "$1"; }}
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/.*/"&"/' | paste -sd,)
echo "{{\\"job_id\\": \\"$SLURM_JOB_ID\\", \\"attempt\\": $ATTEMPT, \\"time\\": $NOW, \\"nodes\\": [$nodes],
 \\"world_size\\": 4}}" | publish "$RUN/started.json"
outcome() {{ echo "{{\\"job_id\\": \\"$SLURM_JOB_ID\\", \\"attempt\\": $ATTEMPT, \\"time\\": $(date +%s),
 \\"started\\": $NOW, \\"exit_code\\": $2, \\"ended_by\\": \\"program\\", \\"success\\": $1, \\"message\\": \\"$3\\",
 \\"artifact\\": $4}}" | publish "$RUN/outcome.json"; }}
success() {{ outcome true 0 "the artifact is proven" '{{"path": "work/result.json", "valid": true, "sha256": "0",
 "bytes": 1, "scalars": {{"loss": 1.5}}, "errors": []}}'; }}
{body}
"""


@dataclass(frozen=True)
class Run:
    """One launch of the bench: where it lies on the cluster (`path`) and on this machine (`here`)."""

    name: str
    key: str
    generation: int
    path: str
    here: Path
    job_id: str


class Task:
    """A task that goes on: its output so far, and its end."""

    def __init__(self, argv: list[str], env: dict[str, str], result: Path, cwd: Path) -> None:
        self.result = result
        self.process = warm_playbooks.start(argv, cwd, env)
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.append(line)

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def says(self, text: str) -> None:
        """Wait until the output holds a text."""
        deadline = time.monotonic() + SECONDS
        while text not in self.output:
            if time.monotonic() > deadline or (self.process.poll() is not None and not self._reader.is_alive()):
                pytest.fail(f"{text!r} was not shown:\n{self.output}")
            time.sleep(0.05)

    def interrupt(self) -> int:
        """As Ctrl-C in a terminal does it: to the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(SECONDS)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def finish(self, fails: bool = False) -> dict[str, Any]:
        """The result of the task, which must (not) have failed."""
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.end()
            pytest.fail(f"the task did not end:\n{self.output}")
        self._reader.join(10)
        assert self.result.exists(), self.output
        (line,) = recording.lines(self.result)
        assert line["outcome"] == ("failed" if fails else "ok"), self.output
        result: dict[str, Any] = line["result"]
        return result


class Bench:
    def __init__(self, lab: Any, folder: Path) -> None:
        self.lab = lab
        self.user = LabUser(lab)
        self.folder = folder
        self.token = secrets.token_hex(4)
        self.place = self.user.place(f"bench-{self.token}")
        self.state_root = f"{self.place}/state"
        self.tasks: list[Task] = []
        self.runs: list[Run] = []

    # Launches.

    def here(self, inside: str) -> Path:
        return Path(self.lab.shared) / inside[len(self.lab.shared_inside) + 1 :]

    def submit(
        self, body: str, *more: str, journal: tuple[str, ...] = ("intent", "submitted"), generation: int = 1
    ) -> Run:
        """Submit a job whose script runs `body`; its run directory and journal lie there as module job leaves them."""
        name = f"bench-{len(self.runs)}-{self.token}"
        path = f"{self.state_root}/runs/{name}/{KEY}/{generation}"
        here = self.here(path)
        (here / "logs").mkdir(parents=True)
        script = SCRIPT.format(run=path, generation=generation, body=body)
        (here / "job.sbatch").write_text(script, encoding="utf-8")
        begun = time.time()
        options = [f"--job-name={name}.{KEY}.{generation}", f"--chdir={path}", "--time=10", "--open-mode=append"]
        options += [f"--output={path}/logs/job.%j.log", *more]
        self.user.give(self.here(self.place))
        sbatch = [*self.user.become(), "sbatch", "--parsable", *options, f"{path}/job.sbatch"]
        job_id = self.lab.head(sbatch).stdout.strip().split(";")[0]
        events: list[dict[str, Any]] = [{"event": "intent", "time": begun}, {"event": "submitted", "job_id": job_id}]
        writers.Run(here).journal(*(event for event in events if event["event"] in journal))
        self.user.give(here)
        run = Run(name, KEY, generation, path, here, job_id)
        self.runs.append(run)
        return run

    def wait_for(self, run: Run, name: str) -> Path:
        path = run.here / name
        self.lab.wait_until(path.exists, SECONDS, f"{path} appears")
        return path

    def started(self, run: Run) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.wait_for(run, "started.json").read_text(encoding="utf-8"))
        return found

    def state(self, run: Run) -> str:
        shown = self.lab.head(["squeue", "--noheader", "--states=all", "--jobs", run.job_id, "--format=%T"]).stdout
        return str(shown.strip())

    def ended(self, run: Run) -> str:
        final = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
        self.lab.wait_until(lambda: self.state(run) in final, SECONDS, f"job {run.job_id} ends")
        return self.state(run)

    def accounted(self, run: Run, state: str) -> None:
        """Wait until accounting knows the end: it lags."""
        command = ["sacct", "--noheader", "--parsable2", "--allocations", "--jobs", run.job_id, "--format=State"]
        self.lab.wait_until(lambda: self.lab.head(command).stdout.strip() == state, SECONDS, f"sacct says {state}")

    # Hosts that differ from the lab's head, as shells for Ansible.

    def _shell(self, name: str, text: str) -> str:
        path = self.here(self.place) / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def _faked(self, name: str, **commands: str) -> str:
        """A shell before whose PATH stand scripts of our own."""
        inside = f"{self.state_root}-fakes/{name}"
        place = self.here(inside)
        place.mkdir(parents=True, exist_ok=True)
        for command, text in commands.items():
            (place / command).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            (place / command).chmod(0o755)
        path = f'PATH="{inside}:$PATH" exec /bin/sh "$@"'
        return self._shell(name, f"""exec {self.lab.shell} -c '{path}' sh "$@\"""")

    def shell_with_silent_slurm(self) -> str:
        """slurmctld answers nobody."""
        word = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
        down = "echo 'Slurmctld(primary) at head is DOWN'; exit 1"
        return self._faked("silent", squeue=word, sacct=word, sinfo=word, scontrol=down)

    def shell_with_moody_queue(self, flag: str) -> str:
        """squeue has no answer while a file lies at `flag`."""
        word = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
        return self._faked("moody", squeue=f'[ -e {flag} ] && {{ {word}; }}\nexec /usr/bin/squeue "$@"')

    def shell_with_forgetful_queue(self) -> str:
        """The queue has forgotten every job; accounting has not."""
        word = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
        return self._faked("forgetful", squeue=word, scontrol=word)

    def shell_without_slurm(self) -> str:
        """A host without any Slurm command: this machine has them, so they are hidden in a namespace of their own."""
        hidden = "for f in /usr/bin/s[aicqdbrt]*; do case ${f##*/} in scontrol|squeue|sinfo|sacct|sbatch|scancel|srun) "
        hidden += 'mount --bind /dev/null "$f";; esac; done; exec /bin/sh "$@"'
        own = f'[ "$(id -u)" != {profile.UID} ] || exec /bin/sh "$@"; [ "$(id -u)" = 0 ] || own=-r'
        return self._shell("bare", f"{own}; exec unshare $own -m /bin/sh -c '{hidden}' sh \"$@\"")

    # Tasks.

    def start(
        self,
        module: str,
        *,
        check: bool = False,
        through: str | None = None,
        host: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        there: dict[str, str] | None = None,
        **options: Any,
    ) -> Task:
        """Run one task in a playbook of its own.

        `host`: further variables of the host. `env`, `there`: of the playbook's environment, and of the module's.
        `through`: the shell that is the way to it, the lab's head by default.
        """
        number = len(self.tasks)
        result = self.folder / f"result-{number}.json"
        variables = {
            "ansible_connection": "local",
            "ansible_shell_executable": through or str(self.lab.shell),
            "ansible_python_interpreter": "/usr/bin/python3",
            **self.user.variables(),
            **(host or {}),
        }
        tasks = [{f"rankzero.slurm.{module}": options, "ignore_errors": True, "environment": there or {}}]
        play = {"hosts": "login", "gather_facts": False, "tasks": tasks}
        inventory, playbook = self.folder / f"inventory-{number}.json", self.folder / f"play-{number}.yml"
        inventory.write_text(json.dumps({"all": {"hosts": {"login": variables}}}), encoding="utf-8")
        playbook.write_text(json.dumps([play]), encoding="utf-8")
        argv = [str(BIN / "ansible-playbook"), "-i", str(inventory), str(playbook), *(["--check"] if check else [])]
        task = Task(argv, {**os.environ, **recording.settings(result), **(env or {})}, result, self.folder)
        self.tasks.append(task)
        return task

    def task(self, module: str, *, fails: bool = False, **options: Any) -> dict[str, Any]:
        """Run one task to its end; its result."""
        return self.start(module, **options).finish(fails)

    def close(self) -> None:
        """End what a failed test left behind."""
        for task in self.tasks:
            task.end()
        if self.runs:
            self.lab.head(["scancel", "--quiet", *(run.job_id for run in self.runs)], check=False)


@pytest.fixture
def bench(lab: Any, tmp_path: Path) -> Iterator[Bench]:
    """The bench of one test."""
    made = Bench(lab, tmp_path)
    yield made
    made.close()
