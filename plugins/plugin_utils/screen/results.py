# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task's result as one row: the steps of this collection by name, and failures of any task. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE, ENVIRONMENT, KINDS
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import SUCCEEDED
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import (
    FAILED,
    NOTE,
    OK,
    RUNNING,
    WARNING,
    Row,
)

COLLECTION = "rankzero.slurm."
#: Actions of this collection -> the name of their step.
STEPS = {
    **{kind.producer: kind.label for kind in KINDS if kind.producer},
    "hub_cache": "hub",
    "job_logs": "logs",
    "job_diagnosis": "diagnosis",
}
# The text of a step that reports nothing itself.
DOING = {
    **{kind.label: kind.doing for kind in KINDS if kind.producer},
    "hub": "fetching",
    "logs": "fetching",
    "diagnosis": "reading the logs",
}
#: Actions that show everything important themselves, or whose playbook shows their result.
OWN = frozenset(
    {
        *("job", "job_wait", "job_report", "job_sweep", "job_sweep_info", "job_pipeline", "reconcile", "job_shell"),
        *("job_cancel", "job_info", "extra_variables", "store_prune", "fabric_report"),
    }
)
#: Actions whose plan says what would be built.
PLANS = frozenset({"job", "job_sweep", "job_pipeline", "reconcile", "job_shell"})
#: Actions that use the terminal themselves while they run, so nothing may be drawn.
AT_TERMINAL = frozenset({"rankzero.slurm.job_shell", "pause", "ansible.builtin.pause"})
# Another collection's task that changed nothing gets a line if it took this long (seconds).
LONG = 5.0
# Packages that characterise an environment, most telling first.
TELLING = ("torch", "jax", "tensorflow", "transformers", "numpy")
LAST_LINES = 8


def own_action(action: str) -> str:
    """The short name of an action of this collection; empty for any other."""
    return action.removeprefix(COLLECTION) if action.startswith(COLLECTION) else ""


def is_step(action: str) -> bool:
    """Whether an action of this collection is a step of a launch, such as the build of its environment."""
    return own_action(action) in STEPS


def running(host: str, action: str, task: str) -> Row:
    """The row of a task that has started."""
    name = STEPS.get(own_action(action), "")
    return Row(host, RUNNING, name, DOING[name]) if name else Row(host, RUNNING, text=task)


def done(host: str, action: str, task: str, result: Parameters, seconds: float | None) -> list[Row]:
    """The rows of a task that succeeded; often none."""
    short = own_action(action)
    name = STEPS.get(short, "")
    if short in OWN:
        return []
    if name:
        text = _of_step(name, result)
        return [Row(host, OK, name, text, seconds=seconds)] if text else []
    if action in ("debug", "ansible.builtin.debug"):
        return [Row(host, NOTE, text=line) for line in _message(result).splitlines()]
    if result.get("changed") or (seconds is not None and seconds >= LONG):
        return [Row(host, OK, text=task, right="" if seconds is None else f"{seconds:.1f} s")]
    return []


def warned(host: str, result: Parameters) -> list[Row]:
    """The rows of the warnings that came with a result."""
    given = result.get("warnings")
    return [Row(host, WARNING, text=str(warning)) for warning in given] if isinstance(given, Sequence) else []


def differences(host: str, result: Parameters) -> list[Row]:
    """The rows of what a task changes, as Ansible shows it with --diff: where no playbook runs the task."""
    rows = []
    for diff in result.get("diff") or [] if result.get("changed") else []:
        before, after = (diff[when].splitlines() for when in ("before", "after"))
        old, new = (f"{when}: {diff[f'{when}_header']}" for when in ("before", "after"))
        lines = difflib.unified_diff(before, after, old, new, lineterm="")
        rows += [Row(host, NOTE, text=line) for line in lines]
        # Ansible ends each difference so.
        rows += [Row(host, NOTE)] if rows else []
    return rows


def foretold(host: str, action: str, result: Parameters) -> list[Row]:
    """The row of a step that in check mode found something to build."""
    made = record_of(_Made, result)
    return [Row(host, OK, STEPS[own_action(action)], f"{made.key} would be built")] if made.changed else []


def failed(host: str, action: str, task: str, result: Parameters) -> list[Row]:
    """The rows of a task that failed: its name, and its message once."""
    if own_action(action) == "job_report" and result.get("standing") not in (None, SUCCEEDED):
        # The card has already shown it.
        return []
    first, *rest = _message(result).splitlines() or ["failed without a message"]
    name = STEPS.get(own_action(action), "")
    rows = [Row(host, FAILED, name, first if name or own_action(action) else f"{task}: {first}")]
    return rows + [Row(host, NOTE, text=f"    {line}") for line in rest]


def _message(result: Parameters) -> str:
    """The message of a result, from the most informative key, followed by the end of a program's output."""
    text = result.get("msg")
    lines = text if isinstance(text, list) else [text] if text not in (None, "") else []
    message = "\n".join(str(line) for line in lines)
    if not message or "module_stderr" in result:
        message = "\n".join(
            part for part in (message, _last(result.get("module_stderr") or result.get("stderr"))) if part
        )
    elif result.get("rc") and (stderr := result.get("stderr")):
        message = f"{message}\n{_last(stderr)}"
    if message:
        return message
    shown = [
        f"{key}: {value}"
        for key, value in result.items()
        if not key.startswith("_") and key not in ("changed", "failed")
    ]
    return "\n".join(shown)


def _last(text: object) -> str:
    return "\n".join(str(text or "").strip().splitlines()[-LAST_LINES:])


@dataclass(frozen=True)
class _Made:
    """What the actions of steps return of what they made; each has some of it. `moved`, `sent`, `bytes`: in bytes."""

    changed: bool = False
    ref: Mapping[str, Any] | None = None
    moved: int | None = None
    sent: int | None = None
    bytes: int | None = None
    files: Sequence[object] | None = None
    environment: Mapping[str, Any] | None = None
    packages: Mapping[str, Any] | None = None

    @property
    def key(self) -> str:
        """The beginning of the key of what was made; empty without one."""
        return str((self.ref or {}).get("key") or "")[:12]


def _of_step(name: str, result: Parameters) -> str:
    """The outcome of a step in a few words; empty if it is not worth a line."""
    return _OUTCOMES.get(name, _moved)(record_of(_Made, result))


def _moved(made: _Made) -> str:
    return f"{made.key}  {amount(made.moved)} moved" if isinstance(made.moved, int) and made.moved else made.key


def _sent(made: _Made) -> str:
    return f"{made.key}  {amount(made.sent)} sent" if made.sent else made.key


def _logs(made: _Made) -> str:
    taken = made.bytes or 0
    return f"{amount(taken)} in {_listed(len(made.files or ()), 'file')}" if taken > 1_000_000 else ""


def _environment(made: _Made) -> str:
    packages = (made.environment or made.packages or {}).get("packages")
    if not isinstance(packages, Mapping) or not packages:
        return made.key
    telling = [f"{name} {packages[name]}" for name in TELLING if name in packages][:2]
    return ", ".join([*telling, _listed(len(packages), "package")])


def _listed(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}" if count else ""


# The name of a step -> its outcome.
_OUTCOMES: Mapping[str, Callable[[_Made], str]] = {
    CODE.label: _sent,
    ENVIRONMENT.label: _environment,
    "logs": _logs,
    "diagnosis": lambda _made: "",
}
