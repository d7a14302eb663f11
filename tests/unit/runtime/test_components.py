# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps in a heterogeneous job: each is told the component of its nodes, with what that has of GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.harness import runtime_parts

STEP = ["srun", "--overlap", "--nodes=3", "--ntasks=6", "--mem=0", "--gres=none", "--kill-on-bad-exit=0"]
PROGRAM = ["/bin/true", "--nodes=9", "a b"]


def job(room: Any, components: list[list[str]], counts: str = "8 0") -> Any:
    made = room.Job({"RANKZERO_COMPONENTS": counts}, "/runtime")
    made.components, made.nodes = components, list(dict.fromkeys(node for names in components for node in names))
    return made


def test_the_step_of_an_ordinary_job_is_as_it_was() -> None:
    with runtime_parts("core.components") as components:
        assert components.placed(components.Job({}, "/runtime"), [*STEP, *PROGRAM]) == [*STEP, *PROGRAM]
        assert components.gpus(components.Job({"RANKZERO_GPUS_PER_NODE": "4"}, "/runtime")) == "4"


def test_a_step_on_nodes_of_two_components_has_a_part_for_each() -> None:
    with runtime_parts("core.components") as components:
        words = components.placed(job(components, [["a", "b"], ["c"]]), [*STEP, "--nodelist=a,b,c", *PROGRAM])
    middle = words.index(":")
    first, second = words[:middle], words[middle + 1 :]
    for part, own in ((first, ["0", "2", "4", "a,b"]), (second, ["1", "1", "2", "c"])):
        names = ("--het-group", "--nodes", "--ntasks", "--nodelist")
        assert {f"{name}={value}" for name, value in zip(names, own)} <= set(part)
        assert part[-3:] == PROGRAM and "--overlap" in part and part.count("--mem=0") == 1
        assert not [word for word in part if word.startswith("--gpus")], "the step says itself that it wants none"
    assert first[0] == "srun" and "srun" not in second


@pytest.mark.parametrize(
    ("nodelist", "component", "expected"),
    [
        ("a", None, ("0", "--gpus-per-node=8")),
        ("c", None, ("1", "--gres=none")),
        ("b", 1, ("1", "--gres=none")),  # a node of both: the role's own component is told
        ("b", None, ("0", "--gpus-per-node=8")),
    ],
)
def test_a_step_gets_what_its_component_has(nodelist: str, component: int | None, expected: tuple[str, str]) -> None:
    given = ["srun", "--nodes=1", "--ntasks=2", f"--nodelist={nodelist}", "serve"]
    with runtime_parts("core.components") as components:
        words = components.placed(job(components, [["a", "b"], ["b", "c"]]), given, component)
    group, gpus = expected
    assert {f"--het-group={group}", gpus, "--mem=0", "--ntasks=2"} <= set(words) and ":" not in words


def test_the_preflight_is_told_the_gpus_of_each_node() -> None:
    with runtime_parts("core.components") as components, runtime_parts("preflight.binding") as binding:
        text = components.gpus(job(components, [["a", "b"], ["b", "c"]]))
        asked = binding.gpus_asked(text)
    assert [binding.promised(asked, node) for node in "abcd"] == [8, 8, 0, 0]
    assert binding.promised(binding.gpus_asked("4"), "a") == 4
