# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ranks are bound to: CPUs and GPUs of each task, out of what binding.sh said in the preflight step.

The preflight's table gets a line more for each layout (nodes that are alike share one), in the order of a node's tasks:
`bound node01,node02 0:cpus=0-11,gpus=0-7 1:cpus=12-23,gpus=0-7`. Too few for a task is a problem of its node, with the
numbers. A node that said nothing is not judged here. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re

from node.reports import TOGETHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from preflight.question import Question

    # (task, CPUs, machine's CPUs, GPUs), and the tasks of each node.
    Task = tuple[int, set[int], set[int], list[str]]
    Layouts = dict[str, list[Task]]

LONGEST = 64 << 10
LINE = re.compile(r"^(?:[P\d ]+: )?\[binding\] task=(\d+) node=(\S+) cpus=(\S+) online=(\S+) gpus=(\S+)$", re.MULTILINE)


def members(text: str) -> set[int]:
    """The numbers of a list as the kernel writes it (0-3,8); empty where it is none."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _dash, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def compact(numbers: Iterable[int]) -> str:
    """{0, 1, 2, 5} as 0-2,5; what are no numbers (GPU-2f3c...) as they are."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def devices(text: str) -> list[str]:
    """The GPUs that a task sees, as a list of names."""
    return [] if text == "none" else [name for name in text.split(",") if name]


def gpu_names(names: list[str]) -> str:
    return (
        compact({int(name) for name in names}) if all(name.isdecimal() for name in names) else ",".join(names)
    ) or "none"


def counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def unbound() -> None:
    """Let this process use all that the job has on the node: to look around it need not keep to a rank's own cores."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


def output(folder: str) -> str:
    """What the tasks of the preflight step said of themselves, a line each."""
    lines = []
    path = os.path.join(folder, TOGETHER)
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        # Others print there as well, a login's profile for one.
        lines += [line.rstrip("\n") for line in iter(lambda: stream.readline(LONGEST), "") if LINE.match(line)]
    return "\n".join(lines)


def layouts(text: str) -> Layouts:
    """{node: [(task, CPUs, machine's CPUs, GPUs)]} by task; a task that spoke twice is believed the last time."""
    latest = {
        int(task): (node, members(bound), members(machine), devices(seen))
        for task, node, bound, machine, seen in LINE.findall(text)
    }
    nodes: Layouts = {}
    for task, (node, cpus, online, gpus) in sorted(latest.items()):
        nodes.setdefault(node, []).append((task, cpus, online, gpus))
    return nodes


def gpus_asked(text: str) -> int | dict[str, int]:
    """The value of --gpus: how many the job asked for on each node, or NODE=NUMBER for each. Raises ValueError."""
    if "=" not in text:
        return int(text)
    return {node: int(number) for node, _equals, number in (pair.partition("=") for pair in text.split(","))}


def promised(asked: int | dict[str, int], node: str) -> int:
    """The GPUs that the job asked for on a node."""
    return asked.get(node, 0) if isinstance(asked, dict) else asked


def problems(tasks: Sequence[Task], wanted: Question, node: str = "") -> list[str]:
    """What is too little on a node, a sentence each. Where a lab promises more CPUs than there are, all are enough.

    `wanted`: tasks_per_node, cpus_per_task and gpus.
    """
    problems, of_gpus = [], promised(wanted.gpus, node)
    for task, cpus, online, gpus in tasks:
        if cpus and len(cpus) < min(wanted.cpus_per_task, len(online)):
            problems.append(
                f"task {task} is bound to {counted(len(cpus), 'CPU')} ({compact(cpus)}) for "
                f"{wanted.cpus_per_task} that the job asked for (resources.cpus_per_rank, launcher.srun.cpu-bind)"
            )
        if len(gpus) < of_gpus:
            problems.append(
                f"task {task} sees {counted(len(gpus), 'GPU')} ({gpu_names(gpus)}) for {of_gpus} that the job "
                "asked for (resources.gpus_per_node, launcher.srun.gpu-bind)"
            )
    together = set().union(*(cpus for _task, cpus, _online, _gpus in tasks))
    enough = min(wanted.cpus_per_task * wanted.tasks_per_node, len(tasks[0][2]))
    if not problems and together and len(together) < enough and len(tasks) == wanted.tasks_per_node:
        few = f"{counted(len(together), 'CPU')} ({compact(together)})"
        problems.append(
            f"its {counted(len(tasks), 'task')} share {few} for {enough} that the job asked for "
            "(launcher.srun.cpu-bind)"
        )
    return problems


def shortages(nodes: Layouts, wanted: Question) -> dict[str, list[str]]:
    """{node: its problems} of the nodes of `layouts` that have any."""
    problems_of = {node: problems(tasks, wanted, node) for node, tasks in nodes.items()}
    return {node: few for node, few in problems_of.items() if few}


def bound(nodes: Layouts, gpus: int | dict[str, int]) -> list[str]:
    """The lines of the table. `gpus`: how many a rank was promised; without any, none are shown."""
    alike: dict[str, list[str]] = {}
    for node, tasks in nodes.items():
        words = [
            f"{number}:cpus={compact(cpus) or 'unknown'}" + (f",gpus={gpu_names(seen)}" if promised(gpus, node) else "")
            for number, (_task, cpus, _online, seen) in enumerate(tasks)
        ]
        alike.setdefault(" ".join(words), []).append(node)
    return [f"bound {','.join(names)} {words}" for words, names in alike.items()]
