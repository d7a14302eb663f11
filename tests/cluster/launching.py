# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the launch share: a user's folder, real runs of ansible-playbook on the lab, what came of them.

The user is the lab's ordinary one, uid 260001: what only root can do is found by a test that says why it needs root.
Every test has job names of its own (Slurm remembers jobs of a lab that is kept between runs) and a state_root of its
own. The store is one for all: code and runtime are shipped once.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import recording, warm_playbooks
from tests.cluster.lab_user import LabUser
from tests.repository import BIN

PLAYBOOK = "rankzero.slurm.train"
JOB = "rankzero.slurm.job"
#: Runs until the file `go` lies in its working directory.
UNTIL_GO = "until [ -e go ]; do sleep 0.1; done"
RESULT = """echo '{"loss": 1.5}' > result.json"""
#: Bounds of waiting, in seconds. Nothing is measured with them.
PLAY_SECONDS = 240
JOB_SECONDS = 120
CANCEL_SECONDS = 45
#: States of a job that is over. One that completes still has its nodes.
FINAL = (
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "DEADLINE",
    "BOOT_FAIL",
)

#: What Slurm says of a job that has written its outcome and that it has not closed yet. A busy machine takes longer
#: for that than a wait looks.
CLOSING = ("RUNNING", "COMPLETING")


@dataclass(frozen=True)
class Played:
    """A finished run of ansible-playbook: exit code, all that it printed, and the result of every task."""

    rc: int
    output: str
    record: list[dict[str, Any]]

    def results(self, action: str, host: str | None = None) -> list[dict[str, Any]]:
        """The results of an action, oldest first, skipped ones left out."""
        return [
            {**line["result"], "failed": line["outcome"] == "failed"}
            for line in self.record
            if line["action"] == action and line["outcome"] != "skipped" and host in (None, line["host"])
        ]

    def launch(self, host: str | None = None) -> dict[str, Any]:
        """What module job returned last."""
        found = self.results(JOB, host)
        assert found, f"the module job did not run:\n{self.output}"
        return found[-1]

    def refused(self, host: str | None = None) -> str:
        """The message of a launch that failed."""
        result = self.launch(host)
        assert result["failed"], f"the launch of {host} did not fail: {result}"
        return str(result["msg"])

    def tasks(self, host: str | None = None) -> list[str]:
        """The tasks that ran, by action."""
        return [line["action"] for line in self.record if line["outcome"] != "skipped" and host in (None, line["host"])]


class Play:
    """A run of ansible-playbook that goes on. Always ended by `finish` or by the site's clean-up."""

    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], record: Path) -> None:
        self.argv = list(argv)
        self.record = record
        self._text: list[str] = []
        self.process = warm_playbooks.start(self.argv, cwd, env)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._text.append(line)

    @property
    def output(self) -> str:
        return "".join(self._text)

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def finish(self, timeout: float = PLAY_SECONDS) -> Played:
        try:
            rc = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            pytest.fail(f"{' '.join(self.argv)} did not end:\n{self.output}", pytrace=False)
        self._reader.join(10)
        return Played(rc, self.output, recording.lines(self.record))


class Site:
    """A user with a folder of his own (`folder`: job files, code) who launches on the lab."""

    def __init__(self, lab: Any, folder: Path, name: str, root: bool = False) -> None:
        self.lab = lab
        self.user = LabUser(lab, root)
        self.folder = folder
        self.token = secrets.token_hex(3)
        self.slug = re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("test_")).strip("-")[:40]
        place = self.user.place("launch")
        self.state_root = f"{place}/{self.slug}-{self.token}"
        self.cluster: dict[str, Any] = {"state_root": self.state_root, "store_root": f"{place}/store"}
        self.plays: list[Play] = []
        self._of_head: list[str] = []
        (folder / "code").mkdir()
        (folder / "code" / "README").write_text("The code of the tests: programs are given on the command line.\n")

    # The user's files.

    def job(self, program: str | Sequence[str], name: str = "", **spec: Any) -> dict[str, Any]:
        """A job: a line for the shell (or a list of arguments), and any part of the spec besides."""
        command = ["sh", "-c", program] if isinstance(program, str) else list(program)
        return {
            "name": f"{self.slug}{'-' + name if name else ''}-{self.token}",
            "command": command,
            "code": {"src": str(self.folder / "code")},
            "resources": {"time": "00:10:00"},
            **spec,
        }

    def write(self, job: Mapping[str, Any], path: str = "job.yml") -> str:
        """A job file; its path relative to the user's folder."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # JSON is YAML.
        target.write_text(json.dumps(job, indent=1, ensure_ascii=False), encoding="utf-8")
        return path

    def own(self, inside: str) -> Path:
        """A folder of the user's on the lab, made where it is missing, as this machine sees it."""
        place = self.host_path(inside)
        if not place.exists():
            place.mkdir(parents=True)
            self.user.give(place)
        return place

    def on_the_head(self) -> str:
        """A folder of the user's that the head sees and no node does."""
        self._of_head.append(tempfile.mkdtemp(prefix="rankzero-head-", dir="/tmp"))
        self.user.give(Path(self._of_head[-1]))
        return self._of_head[-1]

    # Runs of ansible-playbook.

    def start(
        self,
        job: Mapping[str, Any] | str | None,
        *arguments: str,
        wait: bool = False,
        env: Mapping[str, str] | None = None,
        inventory: Path | None = None,
        playbook: str = PLAYBOOK,
        **variables: Any,
    ) -> Play:
        """Launch a job (a spec, or the path of a job file; None where the inventory says it). With `wait=False` the
        playbook ends after the submission. `variables` are extra variables, typed (None: not given); `arguments` go to
        ansible-playbook.
        """
        number = len(self.plays)
        extra = {
            "launch_cluster": self.cluster,
            "launch_wait": wait,
            "launch_logs_dest": str(self.folder / "runs"),
            **variables,
        }
        extra = {name: value for name, value in extra.items() if value is not None}
        given = self.folder / f".extra-{number}.json"
        given.write_text(json.dumps(extra), encoding="utf-8")
        where = ["-i", str(inventory or self.lab.inventory), *self.user.inventory(self.folder)]
        argv = [str(BIN / "ansible-playbook"), *where, playbook, "-e", f"@{given}"]
        if job is not None:
            argv += ["-e", f"job={job if isinstance(job, str) else self.write(job, f'job-{number}.yml')}"]
        record = self.folder / f".record-{number}"
        settings = {**os.environ, **recording.settings(record), **(env or {})}
        play = Play([*argv, *arguments], self.folder, settings, record)
        self.plays.append(play)
        return play

    def play(
        self, job: Mapping[str, Any] | str | None, *arguments: str, timeout: float = PLAY_SECONDS, **options: Any
    ) -> Played:
        """`start`, and wait for its end."""
        return self.start(job, *arguments, **options).finish(timeout)

    def launch(self, job: Mapping[str, Any] | str | None, *arguments: str, **options: Any) -> dict[str, Any]:
        """Launch without waiting; the playbook has to succeed. What module job returned."""
        played = self.play(job, *arguments, **options)
        assert played.rc == 0, played.output
        return played.launch()

    def play_many(self, jobs: Mapping[str, Mapping[str, Any]], *arguments: str, **options: Any) -> Played:
        """Several launches by one playbook: a host of the inventory each, which all are the lab's head. `jobs` maps a
        host to its variables (launch_job and any other).
        """
        common = {
            "ansible_connection": "local",
            "ansible_shell_executable": str(self.lab.shell),
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        inventory = self.folder / f"inventory-{len(self.plays)}.json"
        content = {"slurm_login": {"hosts": {host: {**common, **own} for host, own in jobs.items()}}}
        inventory.write_text(json.dumps(content), encoding="utf-8")
        return self.play(None, *arguments, inventory=inventory, **{"cluster": "slurm_login", **options})

    def program(self, name: str, text: str, folder: Path | None = None) -> str:
        """A shell script of the user's, or in another folder."""
        path = (folder or self.folder) / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def shell(self, name: str, text: str) -> str:
        """A shell for Ansible that stands before the lab's: `text` ends in a call of $LAB_SHELL with "$@"."""
        place = self.host_path(f"{self.state_root}.shells")
        place.mkdir(exist_ok=True)
        return self.program(f"{name}.sh", f"LAB_SHELL={self.lab.shell}\n{text}", place)

    def fake(self, command: str, text: str) -> str:
        """A shell for Ansible under which `command` is the shell script `text`, before the real one in PATH."""
        place = self.host_path(f"{self.state_root}.fakes/{command}")
        place.mkdir(parents=True)
        self.program(command, text, place)
        inside = f"{self.state_root}.fakes/{command}"
        path = f'PATH="{inside}:$PATH" exec /bin/sh "$@"'
        return self.shell(f"fake-{command}", f"""exec "$LAB_SHELL" -c '{path}' sh "$@\"""")

    def direct(self) -> dict[str, Any]:
        """Variables of a connection that is the user's own: the playbook opens no terminal with become."""
        line = f'exec {self.lab.dir / "bin" / "head"} {shlex.join(self.user.become())} /bin/sh "$@"'
        shell = self.shell("user", line)
        return {"ansible_become": False, "ansible_pipelining": True, "ansible_shell_executable": shell}

    def ordinary_user(self) -> str:
        """A shell for Ansible in which one is the user nobody on the lab's head, with a home of his own on /shared."""
        inside = f"{self.lab.shared_inside}/home-{self.token}"
        self.host_path(inside).mkdir()
        os.chown(self.host_path(inside), 65534, 65534)
        become = "setpriv --reuid=65534 --regid=65534 --clear-groups"
        head = self.lab.dir / "bin" / "head"
        return self.program("nobody.sh", f'exec {head} {become} env HOME={inside} USER=nobody /bin/sh "$@"')

    def as_ordinary_user(self) -> dict[str, Any]:
        """Options of a launch by nobody, who has a store of his own and reads this user's first."""
        return {
            "ansible_shell_executable": self.ordinary_user(),
            "ansible_become": False,
            "launch_cluster": {"stores": [{"path": self.cluster["store_root"], "owners": [self.user.name]}]},
            # He cannot read what Ansible's local connection writes for him: modules go by standard input.
            "env": {"ANSIBLE_PIPELINING": "1"},
        }

    def head(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command on the head as him; options of LabCluster.head."""
        done: subprocess.CompletedProcess[str] = self.lab.head([*self.user.become(), *argv], **options)
        return done

    # What came of it.

    def host_path(self, inside: str) -> Path:
        """A path below /shared as this machine sees it."""
        assert inside.startswith(self.lab.shared_inside + "/"), inside
        return Path(self.lab.shared) / inside[len(self.lab.shared_inside) + 1 :]

    def run_dir(self, launch: Mapping[str, Any]) -> Path:
        return self.host_path(launch["run_dir"])

    def runs(self) -> list[Path]:
        """Every run directory of this site."""
        return sorted(self.host_path(self.state_root).glob("runs/*/*/*"))

    def jobs(self, *names: str) -> dict[str, str]:
        """Job id -> state of every job that Slurm has seen of this site, or of the jobs named."""
        listed = self.lab.head(["squeue", "--noheader", "--states=all", "--Format=JobID:20,State:20,Name:200"]).stdout
        found = {}
        for line in listed.splitlines():
            job_id, state, name = line.split(maxsplit=2)
            if any(part in name for part in names or (self.token,)):
                found[job_id] = state
        return found

    def go(self, launch: Mapping[str, Any]) -> None:
        """Let a program that runs UNTIL_GO go on, once it is there."""
        (self.wait_for(self.run_dir(launch) / "work") / "go").touch()

    def wait_for(self, path: Path) -> Path:
        self.lab.wait_until(path.exists, JOB_SECONDS, f"{path} appears")
        return path

    def outcome(self, launch: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for the verdict of a launch."""
        return read_json(self.wait_for(self.run_dir(launch) / "outcome.json"))

    def ended(self, job_id: str) -> str:
        """Wait until a job has left its nodes; its state."""
        self.lab.wait_until(lambda: self.jobs("").get(job_id) in FINAL, JOB_SECONDS, f"job {job_id} ends")
        return self.jobs("")[job_id]

    def close(self) -> None:
        """End what a failed test left behind, playbooks and jobs, and wait for it: the next test wants the nodes."""
        for play in self.plays:
            if play.process.poll() is None:
                play.signal(signal.SIGKILL)
                play.process.wait()
        # A job that does not end by itself is killed, its batch script first.
        for how in ([], ["--signal=KILL", "--full"]):
            deadline = time.monotonic() + CANCEL_SECONDS
            left = self.left()
            if left:
                self.lab.head(["scancel", *how, *left], check=False)
            while self.left() and time.monotonic() < deadline:
                time.sleep(0.2)
        for folder in self._of_head:
            shutil.rmtree(folder)

    def left(self) -> list[str]:
        """The jobs that hold nodes still, or may yet."""
        return [job_id for job_id, state in self.jobs().items() if state not in FINAL]


def node_folders(lab: Any, *nodes: str) -> list[str]:
    """The folders of any job, of any user, on the nodes' own disks, as "node:path"."""
    look = ["sh", "-c", "ls -d /tmp/rankzero-[0-9]*-* /var/tmp/rankzero-[0-9]*-* 2>/dev/null"]
    return [f"{node}:{path}" for node in nodes for path in lab.node(node, look, check=False).stdout.split()]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def log_of(run_dir: Path, job_id: str) -> str:
    """The batch script's own log; empty where there is none yet."""
    path = run_dir / "logs" / f"job.{job_id}.log"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def rank_logs(run_dir: Path, attempt: int = 0) -> dict[str, str]:
    """File name -> text of the ranks' logs of an attempt."""
    return {path.name: path.read_text() for path in sorted((run_dir / "logs" / str(attempt)).glob("rank-*.log"))}


def nothing_left(site: Site, launch: Mapping[str, Any]) -> None:
    """No process of the job on any node of the lab: ranks, samplers, watchers all name its run directory."""
    look = (
        'for p in $(grep -lzxF "RANKZERO_RUN_DIR=$1" /proc/[0-9]*/environ 2>/dev/null); do '
        "tr '\\0' ' ' < ${p%environ}cmdline && echo; done; true"
    )
    for node in site.lab.nodes:
        site.lab.wait_until(
            lambda node=node: site.lab.node(node, ["sh", "-c", look, "sh", launch["run_dir"]]).stdout == "",
            30,
            f"nothing of job {launch['job_id']} runs on {node}",
        )
