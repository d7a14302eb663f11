# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section `roles` of the job spec: what a role says besides its program, and which keys of a program may stand in it.
Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option

NAME = r"[a-z][a-z0-9_]{0,31}"
# Variables of the job have names that theirs would have: RANKZERO_GROUP_NODES.
_RESERVED = ("group", "many")
#: The role that decides about the launch where artifact.role names none.
DECIDING = "trainer"
#: What a role may ask of its own nodes. Where roles differ in it, the job is a heterogeneous one of Slurm.
OF_ITS_NODES = ("partition", "account", "qos", "constraint", "gpu_type", "memory")
#: The keys that may stand in a role. All else is of the launch.
OF_A_ROLE = (
    *("command", "shell", "env", "launcher", "secrets", "data", "fabric", "offline", "setup.modules", "setup.commands"),
    *("resources.nodes", "resources.cpus_per_rank", "resources.gpus_per_node"),
    *(f"resources.{key}" for key in OF_ITS_NODES),
    *(f"container.{key}" for key in ("runtime", "image", "mounts", "workdir", "mount_home", "remap_root", "writable")),
    "container.env",
    *(f"environment.{key}" for key in ("mode", "path", "conda", "project", "file", "requirements", "extras", "python")),
    *(f"environment.{key}" for key in ("torch", "compression", "interpreter", "local_copy")),
)
#: Of these a role has its own as a whole, or that of the job.
WHOLE = ("container", "environment")
#: Lists of which a role has those of the job, and after them its own.
ADDED = ("modules", "commands")
#: The sections that a role has from the top of the job, where it says nothing else.
INHERITED = (
    *("name", "env", "secrets", "data", "launcher", "resources", "setup", "code", "environment", "container"),
    *("fabric", "offline", "seed", "debug"),
)
#: What happens once a role ends before the deciding one.
FAIL, DONE, RESTART, RESTART_ALL, IGNORE = ON_EXIT = ("fail", "done", "restart", "restart_all", "ignore")
#: What readiness is seen by.
WAYS = ("http", "port", "file", "line")
WITHIN = "00:10:00"


@dataclass(frozen=True)
class Ready:
    """When a role is ready: `way` is one of WAYS, `value` what it needs, `seconds` how long that may take."""

    way: str
    value: str
    seconds: int


def _regex(value: object) -> str:
    text = t.to_text(value)
    try:
        re.compile(text)
    except re.error as error:
        raise t.Invalid(f"is no regular expression: {error}") from None
    return text


def _file(value: object) -> str:
    path: str = posixpath.normpath(t.text(r"[^\0\n]+", "a path").parse(value))
    if posixpath.isabs(path) or path in (".", "..") or path.startswith("../"):
        raise t.Invalid(f"must be a path below the ranks' working directory, not {t.shown(value)}")
    return path


def _port(value: object) -> str:
    if not t.BOOLEAN.parse(value):
        raise t.Invalid("must be true; leave ready out where nothing is to be waited for")
    return ""


_TEXT = {"type": "string"}
_KEYS: Mapping[str, t.Type] = {
    "http": t.text(r"/[^\s\0]*", "the path of a page, such as /health"),
    "port": t.Type("true", _port, {"enum": [True]}),
    "file": t.Type("path", _file, _TEXT),
    "line": t.Type("regular expression", _regex, _TEXT),
    "within": t.TIME,
}


def _contradictions(fields: Mapping[str, Any]) -> list[str]:
    given = [way for way in WAYS if way in fields]
    return (
        [] if len(given) == 1 else [f"must have exactly one of {', '.join(WAYS)}, not {' and '.join(given) or 'none'}"]
    )


_RECORD = t.record("readiness", _KEYS, (), _contradictions)


def _ready(value: object) -> Ready:
    fields = _RECORD.parse(value)
    way = next(name for name in WAYS if name in fields)
    return Ready(way, fields[way], int(60 * t.time_minutes(fields.get("within", WITHIN))))


def _share(value: object) -> bool | str:
    try:
        return bool(t.BOOLEAN.parse(value))
    except t.Invalid:
        if isinstance(value, str) and re.fullmatch(NAME, value):
            return value
        raise t.Invalid(f"must be true, false or the name of a role, not {t.shown(value)}") from None


@dataclass(frozen=True)
class RoleKeys:
    """What a role says besides its program."""

    ready: Ready | None = option(
        t.Type("readiness", _ready, _RECORD.schema),
        "When its processes are ready, all of them: `http` (a page of each answers with 200 to 299), `port` (the port "
        "of each is open), `file` (a file in the working directory exists) or `line` (a line of each log matches). "
        f"`within`: a time such as 00:15:00, after which the launch has failed (default {WITHIN}).",
        example={"http": "/health", "within": "00:15:00"},
    )
    after_ready: tuple[str, ...] = option(
        t.listed(t.text(NAME, "the name of a role")),
        "Roles that must be ready before this one starts.",
        (),
        example=["rollout"],
    )
    on_exit: str = option(
        t.choice(*ON_EXIT),
        "What happens if it ends before the deciding role: `fail` ends the launch, `done` does so unless its exit code "
        "is 0, `restart` starts a process that ends again, `restart_all` all processes of the role (three times, then "
        "the launch has failed), `ignore` lets the others go on.",
        FAIL,
        example=RESTART,
    )
    share: bool | str = option(
        t.Type("true, false or the name of a role", _share, {"type": ["boolean", "string"]}),
        "It runs on nodes of the role that decides (true), or of the role of this name, at the same time. Each has the "
        "CPUs and GPUs that it asks for, and the memory is for both.",
        False,
        example=True,
    )


def _schema() -> Mapping[str, Any]:
    return {"type": "object", "propertyNames": {"pattern": f"^(?:{NAME})$"}, "additionalProperties": {"type": "object"}}


def _parse(value: object) -> dict[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping):
        raise t.Invalid(f"must be a map of roles, not {t.shown(value)}; write {{trainer: {{command: [...]}}}}")
    for name, own in value.items():
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            raise t.Invalid(
                f"key {t.shown(name)} must be the name of a role: small letters, digits and '_', at most 32, beginning "
                "with a letter"
            )
        if name in _RESERVED:
            raise t.Invalid(f"key {name} is a name that the job has itself; choose another one")
        if not isinstance(own, Mapping):
            raise t.Invalid(f"{name} must be a map of keys such as command, nodes and ready, not {t.shown(own)}")
    return dict(value)


ROLES = t.Type("map of roles", _parse, _schema())


def deciding(roles: Sequence[str], chosen: str | None) -> str:
    """Return the name of the role whose end and artifact decide about the launch. Raises Invalid."""
    if chosen is not None:
        if chosen not in roles:
            raise t.Invalid(f"{t.shown(chosen)} is no role{t.suggestion(chosen, roles)}; roles: {', '.join(roles)}")
        return chosen
    if len(roles) == 1:
        return roles[0]
    if DECIDING not in roles:
        raise t.Invalid(f"is required: no role is named {DECIDING}; name the one that decides, of {', '.join(roles)}")
    return DECIDING
