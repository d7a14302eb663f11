# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documents of --json (docs/command.md). An incompatible change increments the number in their schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rankzero import errors
from rankzero.playbook import Played

#: The number after the verb: rankzero/run/1.
VERSION = 1
#: The document of a command line without a verb that exists. It has no rows.
ERROR = "error"
#: The keys that identify every launch.
IDENTITY = ("name", "key", "generation", "job_id", "run_dir")
STATUS = (
    *("standing", "slurm_state", "active", "completed", "success", "exit_code", "reason", "message", "nodes"),
    *("attempt", "attempts", "started_at", "finished_at", "wall_time"),
)
PLAN = ("submission", "planned", "plan", "explain", "missing", "script", "world_size")
MEASURED = ("nodes", "ranks", "wall_time", "scalars", "seconds", "speed_up", "efficiency", "code_changes")
SHELL = ("allocate", "shell", "commands", "folder", "allocation", "nodes", "notes", "ssh_host", "ssh_config")
ELEMENT = ("number", "parameters", "submission", "why")
STAGE = ("kind", "file", "submission", "standing")
STEP = ("action", "kind", "file", "reason", "counts", "changes", "node_hours", "done", "error")
PULL = ("dest", "bytes", "files", "artifact")
#: What a row of usage may be for.
GROUPS = ("user", "account", "month", "name")
DIAGNOSIS = (
    *("healthy", "family", "what", "confidence", "root", "ranks", "nodes", "evidence", "chain", "remedy", "retry"),
    *("blame", "checklist", "stall", "sentence"),
)


def document(verb: str, played: Played, exit_code: int) -> dict[str, Any]:
    """The JSON document of a verb, from the results of a playbook."""
    return written(verb, rows_of(verb, played), exit_code, played.error() if exit_code else None, played.error_code())


def rows_of(verb: str, played: Played) -> list[dict[str, Any]]:
    """The rows of a document, from the results of a playbook."""
    return [row for host in played.hosts() for row in PER_HOST[verb](played, host)]


def written(
    verb: str,
    rows: list[dict[str, Any]],
    exit_code: int = errors.OK,
    error: str | None = None,
    code: str | None = None,
) -> dict[str, Any]:
    """The JSON document with these rows. `code`: what kind of error it is, if more than the exit code is known. `next`
    is filled by afterwards.py.
    """
    return {
        "schema": f"rankzero/{verb}/{VERSION}",
        "exit_code": exit_code,
        "error": error,
        "code": (code or errors.CODES.get(exit_code)) if exit_code else None,
        "next": [],
        **({} if verb == ERROR else {ROWS.get(verb, "launches"): rows}),
    }


def _picked(source: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: source.get(name) for name in names}


def _named(host: str, source: Mapping[str, Any]) -> dict[str, Any]:
    named = {"cluster": host, **_in_path(str(source.get("run_dir") or ""))}
    named.update({name: value for name, value in _picked(source, IDENTITY).items() if value is not None})
    # Module job returns the complete key, other modules its first 16 digits.
    return {**named, "key": str(named["key"])[:16] if named["key"] else None}


def _in_path(run_dir: str) -> dict[str, Any]:
    """What the path of a run directory says: .../runs/NAME/KEY/GENERATION."""
    *_above, name, key, generation = ("", "", "", *run_dir.split("/"))
    known = run_dir and generation.isdecimal()
    told = {"name": name, "key": key, "generation": int(generation)} if known else {}
    return {**dict.fromkeys(IDENTITY), **told}


def _last(played: Played, module: str, host: str) -> dict[str, Any]:
    return next(iter(reversed(played.results(module, host))), {})


def status(source: Mapping[str, Any]) -> dict[str, Any]:
    """The status of a launch, from the result of job_info or job_wait. `result`: the values of a valid artifact."""
    artifact = source.get("artifact") or {}
    return {**_picked(source, STATUS), "result": artifact.get("scalars") if artifact.get("valid") else None}


def _run(played: Played, host: str) -> list[dict[str, Any]]:
    launch, wait = _last(played, "job", host), _last(played, "job_wait", host)
    return _ended(played, host, launch, wait) if launch else []


def _ended(played: Played, host: str, launch: Mapping[str, Any], wait: Mapping[str, Any]) -> list[dict[str, Any]]:
    # The logs of a small run come with the wait.
    logs = _last(played, "job_logs", host).get("dest") or (wait.get("logs") or {}).get("dest")
    known = {**_named(host, launch), **({"job_id": wait["job_id"]} if wait.get("job_id") else {})}
    why = _last(played, "job_diagnosis", host).get("diagnosis")
    return [
        {
            **known,
            "submission": launch.get("submission"),
            "standing": launch.get("standing"),
            "status": status(wait) if wait else None,
            "logs": logs,
            "diagnosis": _picked(why, DIAGNOSIS) if why else None,
            "ledger": _last(played, "job_report", host).get("ledger") or (why or {}).get("ledger"),
        }
    ]


def _ls(played: Played, host: str) -> list[dict[str, Any]]:
    launches = _last(played, "job_info", host).get("launches", [])
    return [{**_named(host, launch), "status": status(launch)} for launch in launches]


def _why(played: Played, host: str) -> list[dict[str, Any]]:
    result = _last(played, "job_diagnosis", host)
    if not result:
        return []
    diagnosis = result.get("diagnosis") or {}
    launch = diagnosis.get("launch") or {}
    named = {**_named(host, launch)}
    told = {"diagnosis": _picked(diagnosis, DIAGNOSIS), "ledger": diagnosis.get("ledger")}
    return [{**named, **told, "lines": result.get("lines", [])}]


def _plan(played: Played, host: str) -> list[dict[str, Any]]:
    planned = _last(played, "job", host) or _last(played, "job_script", host)
    return [{**_named(host, planned), **_picked(planned, PLAN)}] if planned else []


def _pull(played: Played, host: str) -> list[dict[str, Any]]:
    pulled = _last(played, "job_pull", host)
    return [{**_named(host, pulled), **_picked(pulled, PULL)}] if pulled else []


def _usage(played: Played, host: str) -> list[dict[str, Any]]:
    rows = _last(played, "usage_info", host).get("rows", [])
    return [{"cluster": host, **{group: None for group in GROUPS if group not in row}, **row} for row in rows]


def _sweep(played: Played, host: str) -> list[dict[str, Any]]:
    made, ended = _last(played, "job_sweep", host), _last(played, "job_sweep_info", host)
    results = {row.get("key"): row for row in ended.get("elements") or []}
    rows = []
    for row in made.get("elements") or []:
        result = results.get(row["key"]) or {}
        known = {**row, **{name: result[name] for name in ("job_id", "run_dir", "generation") if result.get(name)}}
        named = {"cluster": host, "name": made["name"], **_picked(known, IDENTITY[1:]), "key": row["key"][:16]}
        after = {name: result.get(name) for name in ("metric", "scalars", "message", "wall_time")}
        standing = result.get("standing") or row.get("standing")
        rows.append({**named, **_picked(row, ELEMENT), "standing": standing, **after})
    return rows


def _pipeline(played: Played, host: str) -> list[dict[str, Any]]:
    waits = {wait.get("run_dir"): wait for wait in played.results("job_wait", host)}
    rows = []
    for stage in _last(played, "job_pipeline", host).get("stages") or []:
        wait = waits.get(stage.get("run_dir"))
        named = _named(host, {**stage, "run_dir": stage.get("run_dir") or stage.get("sweep_dir")})
        rows.append({**named, **_picked(stage, STAGE), "status": status(wait) if wait else None})
    return rows


def _attach(played: Played, host: str) -> list[dict[str, Any]]:
    wait = _last(played, "job_wait", host)
    rows = _ended(played, host, wait, wait) if wait else []
    return [{name: value for name, value in row.items() if name not in ("submission", "standing")} for row in rows]


def _cancel(played: Played, host: str) -> list[dict[str, Any]]:
    result = _last(played, "job_cancel", host)
    alone = [_last(played, module, host) for module in ("job", "job_sweep")]
    stages = _last(played, "job_pipeline", host).get("stages") or [row for row in alone if row]
    rows = [(row, True) for row in result.get("cancelled") or []] + [
        (row, False) for row in result.get("unchanged") or []
    ]
    rows += [(row, bool(row.get("changed"))) for row in stages]
    return [{**_named(host, row), "standing": row.get("standing"), "cancelled": done} for row, done in rows]


@dataclass(frozen=True)
class Rows:
    """The rows of a document that are as a module returns them: `inside` one of its values, or its whole result.

    `names`: their keys, after those of a launch where a row is about one.
    """

    module: str
    inside: str | None
    names: tuple[str, ...]
    of_launches: bool = True

    def __call__(self, played: Played, host: str) -> list[dict[str, Any]]:
        """The rows of a host."""
        # A task that has failed may have rows: a plan of which one line is not possible.
        result = played.told(self.module, host) if self.inside else _last(played, self.module, host)
        found = (result.get(self.inside) or []) if self.inside else [result] if result else []
        named = _named if self.of_launches else (lambda host, _row: {"cluster": host})
        return [{**named(host, row), **_picked(row, self.names)} for row in found]


#: The key of a verb's list, where its elements are no launches.
ROWS = {
    "usage": "rows",
    "sweep": "elements",
    "report": "pages",
    "sync": "folders",
    "notify": "messages",
    "shell": "shells",
    "reconcile": "steps",
    "lab": "labs",
    "init": "files",
    "completion": "scripts",
    "mcp": "tools",
    "skill": "skills",
    "spec": "keys",
}
#: The verbs that run no playbook, which make their rows themselves.
LOCAL = ("init", "completion", "mcp", "skill", "spec")
PER_HOST: dict[str, Callable[[Played, str], list[dict[str, Any]]]] = {
    "run": _run,
    "ls": _ls,
    "attach": _attach,
    "why": _why,
    "plan": _plan,
    "pull": _pull,
    "usage": _usage,
    "sweep": _sweep,
    "pipeline": _pipeline,
    "cancel": _cancel,
    "logs": Rows("job_logs", None, ("dest", "bytes", "files", "merged", "over")),
    "compare": Rows("job_compare", "launches", MEASURED),
    "report": Rows("report_page", None, ("kind", "page", "summary", "hours", "bytes"), of_launches=False),
    "sync": Rows("tracker_sync", "folders", ("folder", "state", "message")),
    "notify": Rows("job_notify", "messages", ("event", "receiver", "state", "reason", "text")),
    "shell": Rows("job_shell", None, SHELL, of_launches=False),
    "reconcile": Rows("reconcile", "steps", STEP),
    "lab": Rows("lab_cluster", None, ("was", "now", "directory", "inventory", "shared", "nodes"), of_launches=False),
}
