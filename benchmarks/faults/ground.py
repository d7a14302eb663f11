# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The setting of the fault matrix: one running lab, launches as the module makes them, and their results.

A running program leaves a file, named after its job and attempt, in a ledger outside all run directories. The ledger is
read on this machine, directly in the folder that the lab shares.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import faults, profile
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from benchmarks.faults import sending
from benchmarks.faults.parts import Part
from benchmarks.faults.programs import untimed

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
#: Time limits in seconds. They are not used for measurements.
PATIENCE = 300
#: The pause before the same launch is run again, as by a user.
AGAIN_SECONDS = 0.5
ROUNDS = 5
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"}


class Broken(Exception):
    """The fault could not be injected, or the cluster did not settle: the run proves nothing."""


@dataclass(frozen=True)
class Reply:
    """The result of one launch. `killed`: it ended itself with SIGKILL."""

    killed: bool
    result: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return str(self.result.get("submission", ""))

    @property
    def settled(self) -> bool:
        return self.state in ("submitted", "adopted", "unchanged")


@dataclass(frozen=True)
class Verdict:
    """The result of one case. `jobs`: every job whose ranks ran. `states`: the results of its launches, in order."""

    proven: bool
    jobs: tuple[str, ...]
    states: tuple[str, ...]
    seconds: float
    last: str = ""

    @property
    def lost(self) -> bool:
        return not self.proven or not self.jobs

    @property
    def doubled(self) -> bool:
        return len(self.jobs) > 1


class Ground:
    """One lab with state, store and ledger below /shared/faults-TOKEN."""

    def __init__(self, lab: Lab, scratch: Path) -> None:
        self.lab = lab
        self.token = secrets.token_hex(3)
        self.inside = f"{lab.shared_inside}/faults-{self.token}"
        self.outside = Path(lab.shared) / f"faults-{self.token}"
        self.code = scratch / f"code-{self.token}"
        self.code.mkdir(parents=True)
        (self.code / "README").write_text("The programs of the fault matrix are given on the command line.\n")
        # An environment without packages: whether it comes to the nodes is the question.
        (self.code / "pyproject.toml").write_text('[project]\nname="p"\nversion="1"\nrequires-python=">=3.9"\n')
        #: What a job says of its environment, where it has one.
        self.sealed: dict[str, str] = {}
        self.become = tuple(profile.become_user(lab)) if lab.realistic else ()
        self.resources = {"time": "00:05:00", "memory": "100M", **({"account": profile.ACCOUNT} if lab.site else {})}
        self.lock = threading.Lock()
        self._lay_out()

    @property
    def switches(self) -> faults.Faults:
        return faults.Faults.of(self.lab.directory)

    def _lay_out(self) -> None:
        """Install the driver with the code that it needs, and create the folders of the launches."""
        package = self.outside / "lib" / "ansible_collections" / "rankzero" / "slurm" / "plugins"
        ignored = shutil.ignore_patterns("__pycache__", "lab", "diagnosis")
        shutil.copytree(ROOT / "plugins" / "module_utils", package / "module_utils", ignore=ignored)
        for name in ("driver.py", "many.py"):
            shutil.copy(Path(__file__).with_name(name), self.outside / name)
        for name in ("state", "store", "ran", "fakes", "requests"):
            (self.outside / name).mkdir()
        self.give(self.outside)

    def give(self, folder: Path) -> None:
        """Change the owner to the lab's user, who does not trust files of other users."""
        for path in (folder, *folder.rglob("*")):
            self.give_only(path)

    def give_only(self, path: Path) -> None:
        """The same for a file or folder without what is in it."""
        if self.become:
            shutil.chown(path, profile.UID, profile.UID)

    def on(self, host: str, *argv: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run a command on the head or a node, as the lab's user."""
        enter = [self.lab.path("bin", "head")] if host == "head" else [self.lab.path("bin", "node"), host]
        return subprocess.run(
            [*enter, *self.become, *argv],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd="/",
        )

    def slurm(self, *argv: str) -> str:
        """Run a Slurm command that must succeed."""
        done = self.on("head", *argv)
        if done.returncode != 0:
            raise Broken(f"{' '.join(argv)}: {done.stderr.strip()}")
        return done.stdout

    def root_on(self, host: str, script: str) -> None:
        """Run a shell line as root on a host, if the lab's nodes have their own namespaces."""
        enter = [self.lab.path("bin", "head")] if host == "head" else [self.lab.path("bin", "node"), host]
        subprocess.run([*enter, "sh", "-c", script], check=True, stdin=subprocess.DEVNULL, cwd="/")

    def fake(self, command: str, text: str) -> str:
        """Create a folder for the PATH with a shell script that replaces a command; the real one is `$real`."""
        folder = self.outside / "fakes" / secrets.token_hex(4)
        folder.mkdir()
        path = folder / command
        path.write_text(f"#!/bin/sh\nreal=/usr/bin/{command}\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        folder.chmod(0o755)
        return f"{self.inside}/fakes/{folder.name}"

    def wait_until(self, condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            if time.monotonic() > deadline:
                raise Broken(f"did not happen within {patience:.0f} s: {what}")
            time.sleep(0.2)

    def case(
        self, name: str, *, hold: bool = False, program: Callable[[str], Sequence[str]] | None = None, **spec: Any
    ) -> Case:
        """A new launch. With `hold`, its program runs until `Case.go`.

        `program`: replaces the usual command; it is made from the path of the ledger as a node sees it.
        """
        return Case(self, name, (program or untimed(hold)), spec)

    def many(self, host: str, entries: Sequence[Mapping[str, Any]], together: int = 1000) -> list[dict[str, Any]]:
        """Run many launches on a host; see many.py."""
        path = self.outside / "requests" / f"many-{secrets.token_hex(4)}.json"
        path.write_text(json.dumps(list(entries)), encoding="utf-8")
        inside = f"{self.inside}/requests/{path.name}"
        done = self.on(
            host, *self.settings(), PYTHON, f"{self.inside}/many.py", inside, "--together", str(together), timeout=900
        )
        if done.returncode != 0:
            raise Broken(f"many.py ended with {done.returncode}: {done.stderr.strip()[-800:]}")
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    def settings(self, path: str = "") -> list[str]:
        """The command that sets the environment of a launch on a host of the lab. This machine's PATH is not used,
        because the lab's user may not have access to it.
        """
        return [
            "/usr/bin/env",
            f"PYTHONPATH={self.inside}/lib",
            "PYTHONDONTWRITEBYTECODE=1",
            f"PATH={path + ':' if path else ''}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        ]


class Case:
    """One launch: its request, its ledger, and the replies of its launchers."""

    def __init__(
        self, ground: Ground, name: str, program: Callable[[str], Sequence[str]], spec: Mapping[str, Any]
    ) -> None:
        self.ground = ground
        self.name = f"{name}-{secrets.token_hex(3)}"
        self.begun = time.monotonic()
        self.seconds = 0.0
        self.replies: list[Reply] = []
        self.ledger = ground.outside / "ran" / self.name
        self.ledger.mkdir(mode=0o777)
        self.ledger.chmod(0o777)
        job = {
            "name": self.name,
            "command": list(program(f"{ground.inside}/ran/{self.name}")),
            "code": {"src": str(ground.code)},
            "resources": {**ground.resources, **spec.get("resources", {})},
            "preflight": {"enabled": False},
            "artifact": {"path": "result.json", "require": {"ok": {"eq": 1}}},
            **{name: value for name, value in spec.items() if name != "resources"},
        }
        self.job = self._job(job)
        self.request, self.sent = sending.send(ground, self.job, self._prepared, sending.VERSION)
        launch = self.sent.get("array", self.sent)
        self.runs = ground.outside / Path(launch["runs_dir"]).relative_to(ground.inside)

    def _job(self, job: dict[str, Any]) -> dict[str, Any]:
        """What is launched, from what is said of every launch."""
        return job

    def _prepared(self, job: Job, **options: Any) -> tuple[Prepared, dict[str, Any]]:
        return sending.job_of(job, **options)

    def request_of_another_version(self) -> str:
        """The path of a request for the same launch by another version of the collection."""
        return sending.send(self.ground, self.job, self._prepared, sending.ANOTHER)[0]

    # What one or more users do.

    def launch(self, host: str = "head", *, kill: str = "", at: int = 0, path: str = "") -> Reply:
        """Launch once. `path`: a folder of replaced commands, first in the PATH."""
        words = ["--kill", kill, "--at", str(at)] if kill else []
        done = self.ground.on(
            host, *self.ground.settings(path), PYTHON, f"{self.ground.inside}/driver.py", self.request, *words
        )
        if done.returncode in (-9, 137):
            reply = Reply(True)
        elif done.returncode == 0:
            answer = json.loads(done.stdout)
            reply = Reply(False, answer["result"], answer["counts"])
        else:
            raise Broken(f"the driver ended with {done.returncode}: {done.stderr.strip()[-800:]}")
        self.replies.append(reply)
        return reply

    def launch_together(self, hosts: Sequence[str]) -> list[Reply]:
        """Launch on several hosts at the same moment."""
        replies: list[Reply] = []
        threads = [threading.Thread(target=lambda host=host: replies.append(self.launch(host))) for host in hosts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(replies) != len(hosts):
            raise Broken("a launch among several crashed")
        return replies

    def recover(self) -> Reply:
        """Launch repeatedly, until the launch has settled."""
        deadline = time.monotonic() + PATIENCE
        while True:
            reply = self.launch()
            if reply.settled:
                return reply
            if time.monotonic() > deadline:
                raise Broken(f"it never settles: {reply.result}")
            time.sleep(AGAIN_SECONDS)

    def go(self) -> None:
        (self.ledger / "go").touch()

    # What can be observed.

    def run_dir(self, generation: int | None = None) -> Path:
        """A generation's run directory; the newest by default."""
        if generation is not None:
            return self.runs / str(generation)
        newest = Part(self.ledger, self.runs).newest()
        if newest is None:
            raise Broken("there is no run directory")
        return newest

    def jobs(self) -> dict[str, str]:
        """Job id -> state of all its jobs that Slurm shows."""
        rows = self.ground.slurm("squeue", "--noheader", "--states=all", "--Format=JobID:20,State:20,Name:200")
        columns = [line.split() for line in rows.splitlines()]
        return {row[0]: row[1] for row in columns if len(row) == 3 and row[2].startswith(f"{self.name}.")}

    def ran(self) -> set[str]:
        """JOB.ATTEMPT of everything that ran."""
        return {path.name.removeprefix("job.") for path in self.ledger.glob("job.*")}

    def parts(self) -> list[Part]:
        """The launches of this case."""
        return [Part(self.ledger, self.runs)]

    def proven(self) -> bool:
        return all(part.outcome().get("success") is True for part in self.parts())

    def outcome(self) -> dict[str, Any]:
        return self.parts()[0].outcome()

    def evidence(self) -> str:
        """What Slurm shows of the launch's jobs and nodes, what ran, the verdicts, and the end of each job's log."""
        shown = self.ground.slurm("squeue", "--noheader", "--states=all", "--format=%i %T %r %S %N %j")
        parts = [line for line in shown.splitlines() if self.name in line]
        parts += [f"nodes: {self.ground.slurm('sinfo', '--noheader', '--Node', '--format=%N %T %E').strip()}"]
        parts += [f"ran: {', '.join(sorted(self.ran())) or 'nothing'}"]
        for path in [path for part in self.parts() for path in self._told(part.runs)]:
            with contextlib.suppress(OSError):
                parts.append(f"{path.relative_to(self.runs.parent)}: {path.read_text(errors='replace')[-1500:]}")
        return "\n".join(parts)

    def _told(self, runs: Path) -> list[Path]:
        return sorted(runs.glob("*/outcome*.json")) + sorted(runs.glob("*/logs/job.*.log"))

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        try:
            self.ground.wait_until(condition, what)
        except Broken as error:
            raise Broken(f"{error}\n{self.evidence()}") from None

    def started(self, attempt: int = 0) -> str:
        """Wait until the program of an attempt runs. Returns its job."""
        self.wait_until(
            lambda: any(name.endswith(f".{attempt}") for name in self.ran()), f"{self.name} runs attempt {attempt}"
        )
        return next(name.split(".")[0] for name in self.ran() if name.endswith(f".{attempt}"))

    def settle(self) -> Verdict:
        """Launch until the launch has settled, wait until Slurm has no job of it, and repeat until it is proven.

        A failed launch is submitted again, which may be right once or twice; after ROUNDS it counts as an error.
        """
        for _round in range(ROUNDS):
            if self.recover().state == "unchanged":
                break
            self.go()
            self.wait_until(lambda: set(self.jobs().values()) <= OVER, f"{self.name} is over")
        jobs = sorted({name.split(".")[0] for name in self.ran()})
        last = self.replies[-1]
        proven = self.outcome().get("success") is True and last.state == "unchanged"
        states = tuple("killed" if reply.killed else reply.state or "refused" for reply in self.replies)
        message = str(last.result.get("message") or last.result.get("msg") or "")
        return Verdict(proven, tuple(jobs), states, time.monotonic() - self.begun, message)
