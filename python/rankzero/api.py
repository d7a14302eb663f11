# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python API: the same playbooks as the command, with typed results."""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankzero import errors
from rankzero.direct import heard
from rankzero.documents import document
from rankzero.documents import status as fields_of
from rankzero.playbook import Call, Played, play
from rankzero.tracebacks import traceback_of
from rankzero.verbs import inventory_of, selection

Listener = Callable[[str], None]
#: The playbook then refuses an inventory, or a group, of several clusters before it does anything.
ONE_CLUSTER = {"rankzero_one_cluster": True}
#: Gets the output of the playbooks where no listener is given. A library prints nothing by itself.
LOG = logging.getLogger("rankzero")
#: The artifact of a function, and its value in it.
FILE, VALUE = "returned.json", "returned"


@dataclass(frozen=True)
class Attempt:
    """One start of the ranks. Times are epoch seconds."""

    attempt: int
    job_id: str | None
    slurm_state: str | None
    started_at: float | None
    finished_at: float | None
    nodes: list[str]
    exit_code: int | None
    reason: str


@dataclass(frozen=True)
class Status:
    """The status of a launch.

    `standing`: what has become of it; `slurm_state`: what Slurm calls its job; `result`: the values of the valid
    artifact.
    """

    standing: str
    slurm_state: str | None
    active: bool
    completed: bool
    success: bool
    message: str
    reason: str
    nodes: list[str]
    attempts: list[Attempt]
    exit_code: int | None
    wall_time: float | None
    result: dict[str, Any] | None


@dataclass(frozen=True)
class Diagnosis:
    """The cause of a failure. `lines`: the same as text for a screen."""

    healthy: bool
    family: str | None
    what: str | None
    remedy: str | None
    ranks: list[int]
    nodes: list[str]
    confidence: str | None
    lines: list[str] = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Plan:
    """What would be submitted. `submission`: planned, adopted or unchanged; None if no cluster was queried."""

    cluster: str
    name: str
    key: str
    lines: list[str]
    submission: str | None
    missing: list[dict[str, Any]]
    script: str | None = field(repr=False, default=None)

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Options:
    """Where and how playbooks run. `listener`: receives each line of their output; None logs it."""

    cluster: str | None = None
    inventory: str | None = None
    listener: Listener | None = None

    def play(self, playbook: str, variables: Mapping[str, Any], flags: Sequence[str] = ()) -> Played:
        """Run a playbook on the cluster. Raises the exception for its exit code."""
        played = self.played(playbook, variables, flags)
        self.raise_for(played)
        return played

    def played(self, playbook: str, variables: Mapping[str, Any], flags: Sequence[str] = ()) -> Played:
        """Run a playbook on the cluster. Its failure raises no exception."""
        where = {"cluster": self.cluster} if self.cluster else {}
        inventory = inventory_of([self.inventory] if self.inventory else [])
        call = Call(playbook, {**variables, **where}, flags=tuple(flags), inventory=inventory)
        listener = self.listener or LOG.info
        return heard(call, listener) or play(call, listener=listener)

    @staticmethod
    def raise_for(played: Played) -> None:
        """Raise the exception for its exit code if the playbook has failed."""
        code = played.exit_code()
        if code:
            raise errors.BY_CODE.get(code, errors.RankzeroError)(str(played.error()), code)


@dataclass(frozen=True)
class Series:
    """A number that a program has logged, in limited size. `times` are epoch seconds, None where they are not known."""

    steps: list[int]
    values: list[float | None]
    times: list[float | None]
    attempts: list[int]


class Launch:
    """A launch on a cluster: its job was submitted or adopted, or has ended.

    `parameters`: its values of a sweep. `options`: where it is, and how its playbooks run.
    """

    def __init__(self, known: Mapping[str, Any], options: Options) -> None:
        self.cluster: str = known["cluster"]
        self.name: str = known["name"]
        self.key: str = known["key"]
        self.generation: int = known["generation"]
        self.job_id: str | None = known["job_id"]
        self.run_dir: str = known["run_dir"]
        self.parameters: dict[str, str] = dict(known.get("parameters") or {})
        self.known = known
        self.options = Options(self.cluster, options.inventory, options.listener)
        self.seen: Status | None = _status(known["status"]) if known.get("status") else None
        self._whole = True

    def __repr__(self) -> str:
        return f"<Launch {self.name}/{self.key}/{self.generation} job {self.job_id} on {self.cluster}>"

    @property
    def _chosen(self) -> dict[str, str]:
        return {"run_dir": self.run_dir}

    @property
    def ended(self) -> bool:
        """Whether it had ended when it was last seen; nothing is asked."""
        return self.seen is not None and self.seen.completed

    def see(self, row: Mapping[str, Any]) -> None:
        """Take over what a wait for many launches has answered."""
        self.seen, self._whole = _status(fields_of(row)), not row.get("left_out")
        self.job_id = row.get("job_id") or self.job_id

    def status(self) -> Status:
        """Query the cluster."""
        (launch,) = document("ls", self.options.play("status", {**self._chosen, "all": True, "limit": 0}), 0)[
            "launches"
        ]
        self.seen, self._whole = _status(launch["status"]), True
        return self.seen

    def wait(self, timeout: int = 0) -> Launch:
        """Wait for the end, and fetch the logs. Raises LaunchFailed, or Unfinished after `timeout` seconds."""
        self.options.play("attach", {**self._chosen, **({"wait_timeout": timeout} if timeout else {})})
        self.status()
        return self

    @property
    def result(self) -> dict[str, Any]:
        """The values of the proven artifact. Raises Unfinished while there is none, LaunchFailed if it has failed."""
        status = self.seen if self.seen and self.seen.completed and self._whole else self.status()
        if status.result is None or not status.success:
            kind = errors.LaunchFailed if status.completed else errors.Unfinished
            raise kind(f"{self.name} has no result: {status.message}")
        return status.result

    def returned(self, timeout: int = 0) -> Any:
        """Wait for the end of a function, and return its value. Raises LaunchFailed, which has the whole traceback
        of the function as `traceback`, or Unfinished after `timeout` seconds.
        """
        try:
            if not self.ended:
                self.wait(timeout)
            result = self.result
        except errors.LaunchFailed as failed:
            why = self.diagnosis()
            raised = ""
            # What failed is known, also where its logs cannot be fetched.
            with contextlib.suppress(errors.RankzeroError), tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
                raised = traceback_of(self.logs(folder), why.ranks)
            text = "\n".join(filter(None, (str(failed), str(why), raised)))
            raise errors.LaunchFailed(text, traceback=raised) from None
        if VALUE in result:
            return result[VALUE]
        # Only numbers and short texts come with the status.
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            (path,) = self.pull(FILE, dest=folder)
            return json.loads(path.read_text(encoding="utf-8"))[VALUE]

    @property
    def attempts(self) -> list[Attempt]:
        """Every attempt so far, oldest first."""
        return (self.seen or self.status()).attempts

    def logs(self, dest: str | Path = "runs") -> list[Path]:
        """Fetch the logs of every rank. Returns the files on this machine."""
        played = self.options.play("logs", {**self._chosen, "dest": str(dest)})
        (fetched,) = played.results("job_logs")[-1:]
        return sorted(path for path in Path(fetched["dest"]).rglob("*") if path.is_file())

    def pull(self, *paths: str, dest: str | Path = "runs") -> list[Path]:
        """Fetch the artifact, or these files and folders of the working directory. Returns the files on this machine,
        which have the digests of those on the cluster.
        """
        chosen = {"paths": list(paths)} if paths else {}
        played = self.options.play("pull", {**self._chosen, **chosen, "dest": str(dest)})
        (pulled,) = played.results("job_pull")[-1:]
        return [Path(pulled["dest"]) / file["path"] for file in pulled["files"]]

    def metrics(self) -> dict[str, Series]:
        """The numbers that its programs have logged, by name, so far."""
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            chosen = {"launches": [self.run_dir], "dest": f"{folder}/page.html", "annotations": "none"}
            played = self.options.play("report", chosen)
        (found,) = played.results("report_page")[-1:]
        columns = Series.__dataclass_fields__
        series: dict[str, Any] = found["launches"][0]["metrics"]
        return {name: Series(**{column: row[column] for column in columns}) for name, row in series.items()}

    def diagnosis(self) -> Diagnosis:
        """Why it failed, or why it is waiting."""
        (launch,) = document("why", self.options.play("diagnose", self._chosen), 0)["launches"]
        why = launch["diagnosis"]
        return Diagnosis(
            healthy=bool(why["healthy"]),
            family=why["family"],
            what=why["what"],
            remedy=why["remedy"],
            ranks=why["ranks"] or [],
            nodes=why["nodes"] or [],
            confidence=why["confidence"],
            lines=launch["lines"],
        )

    def cancel(self) -> Status:
        """Cancel its job. A job that has ended is not changed."""
        self.options.play("cancel", self._chosen)
        return self.status()


def _status(known: Mapping[str, Any]) -> Status:
    attempts = [
        Attempt(**{name: attempt.get(name) for name in Attempt.__dataclass_fields__})
        for attempt in known["attempts"] or []
    ]
    fields: dict[str, Any] = {name: known.get(name) for name in Status.__dataclass_fields__}
    return Status(**{**fields, "attempts": attempts, "nodes": known["nodes"] or []})


def job_variables(
    job: str | Path | Mapping[str, Any],
    nodes: int | None,
    overrides: Mapping[str, Any] | None,
    arguments: Sequence[str],
) -> dict[str, Any]:
    """The variables of a playbook that launches a job."""
    changes = dict(overrides or {})
    return {
        "job": dict(job) if isinstance(job, Mapping) else str(job),
        **({"nodes": nodes} if nodes else {}),
        **({"program_args": list(arguments)} if arguments else {}),
        **({"launch_overrides": changes} if changes else {}),
    }


def _only(shown: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one launch of a document. An inventory of several clusters was refused before."""
    launches: list[Mapping[str, Any]] = shown["launches"]
    if len(launches) != 1:
        raise errors.RankzeroError(f"{len(launches)} clusters have answered; choose one with cluster=HOST")
    return launches[0]


def run(
    job: str | Path | Mapping[str, Any],
    *arguments: str,
    nodes: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    rerun: bool = False,
    cluster: str | None = None,
    inventory: str | None = None,
    listener: Listener | None = None,
) -> Launch:
    """Submit a job exactly once, or adopt its launch. Returns when the job is queued.

    `job`: a job file, or the job spec as a map. `arguments`: added to its command. `overrides`: keys of the job spec,
    such as {"resources.time": "02:00:00"}. `listener`: receives each line of output, such as `print`; by default the
    lines go to the logger `rankzero`.
    """
    options = Options(cluster, inventory, listener)
    variables = job_variables(job, nodes, overrides, arguments)
    again = {"rerun": True} if rerun else {}
    played = options.play("train", {**variables, "launch_wait": False, **again, **ONE_CLUSTER})
    return Launch(_only(document("run", played, 0)), options)


def plan(
    job: str | Path | Mapping[str, Any],
    *arguments: str,
    nodes: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    cluster: str | None = None,
    inventory: str | None = None,
    listener: Listener | None = None,
) -> Plan:
    """What `run` would submit. On a machine without Slurm's commands, the script is rendered without a cluster."""
    variables = {**job_variables(job, nodes, overrides, arguments), **ONE_CLUSTER}
    played = Options(cluster, inventory, listener).play("plan", variables)
    planned = _only(document("plan", played, 0))
    return Plan(
        cluster=planned["cluster"],
        name=planned["name"],
        key=planned["key"],
        lines=planned["plan"],
        submission=planned["submission"],
        missing=planned["missing"] or [],
        script=planned["script"],
    )


def launches(
    name: str | None = None,
    *,
    active: bool = False,
    cluster: str | None = None,
    inventory: str | None = None,
    listener: Listener | None = None,
) -> list[Launch]:
    """The recorded launches, each with its newest generation."""
    options = Options(cluster, inventory, listener)
    variables = {**(selection(name) if name else {}), **({"active": True} if active else {}), "limit": 0}
    return [Launch(launch, options) for launch in document("ls", options.play("status", variables), 0)["launches"]]


def attach(
    launch: str, *, cluster: str | None = None, inventory: str | None = None, listener: Listener | None = None
) -> Launch:
    """The launch with this job id, name, NAME/KEY, NAME/KEY/GENERATION, run directory or job file.

    Of several launches of a name it is the newest, as for the command. Raises Refused if there is none.
    """
    options = Options(cluster, inventory, listener)
    variables = {**selection(launch), "single": True, **ONE_CLUSTER}
    return Launch(_only(document("ls", options.play("status", variables), 0)), options)
