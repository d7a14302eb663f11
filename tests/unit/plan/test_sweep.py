# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section `sweep`: its values, its rules, the elements that it makes, and that any value reaches the program."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import sweep as array
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import batch_script
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections import sweep
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.plans import plan

GRID = {"lr": ["1e-3", "3e-4"], "width": ["1", "2"]}
JOB: dict[str, Any] = {"name": "lr", "command": ["train.py", "--lr", "{lr}", "--width={width}"]}
plan_of = functools.partial(
    plan, code_key="c" * 64, environment_key=None, runtime_key="r" * 32, state_root="/state", store_root="/store"
)


def elements(data: dict[str, Any]) -> list[array.Element]:
    merged = merge([Layer("job", data)])
    spec = validated(merged)
    return array.elements(spec, array.specs(spec, merged), plan_of)[0]


def made(**section: Any) -> list[array.Element]:
    return elements({**JOB, "sweep": section})


def points(**section: Any) -> list[dict[str, str]]:
    return sweep.points(validated(merge([Layer("job", {**JOB, "sweep": section})])).sweep or sweep.Sweep())


def ordinary(data: dict[str, Any]) -> Plan:
    merged = merge([Layer("job", data)])
    return plan_of(validated(merged), merged)


def mistakes(section: Any, **job: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        elements({**JOB, **job, "sweep": section})
    return caught.value.problems


def test_the_methods() -> None:
    assert points(parameters=GRID) == [
        {"lr": "1e-3", "width": "1"},
        {"lr": "1e-3", "width": "2"},
        {"lr": "3e-4", "width": "1"},
        {"lr": "3e-4", "width": "2"},
    ]
    assert points(method="zip", parameters=GRID) == [{"lr": "1e-3", "width": "1"}, {"lr": "3e-4", "width": "2"}]
    given = [{"lr": "7", "width": ""}, {"lr": "8", "width": "x y"}]
    assert points(method="list", points=given) == given
    assert len(points(method="random", samples="5", parameters=GRID)) == 5


def test_random_values_are_the_same_again_and_more_samples_or_parameters_move_none() -> None:
    parameters = {
        "lr": {"min": "1e-5", "max": "1e-1", "scale": "log"},
        "width": {"min": 16, "max": 64, "whole": True},
    }
    found = points(method="random", samples=200, parameters=parameters)
    assert found[:50] == points(method="random", samples=50, parameters=parameters)
    assert [one["lr"] for one in found] != [
        one["lr"] for one in points(method="random", samples=200, seed=1, parameters=parameters)
    ]
    rates, widths = [float(one["lr"]) for one in found], [int(one["width"]) for one in found]
    assert all(1e-5 <= rate <= 1e-1 for rate in rates) and len(set(rates)) == 200
    # Half of a logarithmic range lies below its geometric middle.
    assert 60 < sum(rate < 1e-3 for rate in rates) < 140
    assert set(widths) <= set(range(16, 65)) and len(set(widths)) > 30
    more = {**parameters, "dropout": {"min": 0, "max": 0.5}, "kind": ["a", "b"]}
    data = {
        **JOB,
        "env": {"D": "{dropout}", "K": "{kind}"},
        "sweep": {"method": "random", "samples": 9, "parameters": more},
    }
    again = sweep.points(validated(merge([Layer("job", data)])).sweep or sweep.Sweep())
    assert [one["lr"] for one in again] == [one["lr"] for one in found[:9]]
    assert {one["kind"] for one in again} <= {"a", "b"} and all(0 <= float(one["dropout"]) <= 0.5 for one in again)
    whole = points(
        method="random",
        samples=99,
        parameters={**parameters, "width": {"min": 1, "max": 3, "scale": "log", "whole": True}},
    )
    assert {one["width"] for one in whole} == {"1", "2", "3"}


def test_an_element_is_the_launch_that_its_values_make_by_hand() -> None:
    job = {**JOB, "env": {"RUN": "lr {lr}"}, "checkpoint": {"dir": "/c/{lr}-{width}-{seed}"}, "artifact": {}}
    for element in elements({**job, "sweep": {"parameters": {**GRID, "seed": ["1", "2"]}, "parallel": 3}}):
        point = element.point
        by_hand = {
            **job,
            "command": ["train.py", "--lr", point["lr"], f"--width={point['width']}"],
            "env": {"RUN": f"lr {point['lr']}"},
            "checkpoint": {"dir": f"/c/{point['lr']}-{point['width']}-{point['seed']}"},
            "seed": int(point["seed"]),
        }
        # Two of them write to one folder only where a seed is no part of its name.
        assert element.plan.key == ordinary(by_hand).key
        assert element.plan.spec.sweep is None


def test_an_element_with_roles_is_the_launch_that_its_values_make_by_hand() -> None:
    def job(lr: str, width: str) -> dict[str, Any]:
        roles = {
            "server": {"command": ["serve.py", "{port}", width], "ready": {"port": True}},
            "trainer": {"command": ["train.py", "{server.urls}"], "env": {"LR": lr}, "after_ready": ["server"]},
        }
        return {"name": "lr", "roles": roles, "artifact": {}}

    for element in elements({**job("{lr}", "{width}"), "sweep": {"parameters": GRID}}):
        assert element.plan.key == ordinary(job(element.point["lr"], element.point["width"])).key


def test_elements_with_fresh_checkpoints_may_name_one_folder() -> None:
    """Each has its own inside it."""
    job = {**JOB, "checkpoint": {"dir": "/c", "fresh": True}, "sweep": {"parameters": GRID}}
    made = elements(job)
    assert [dict(element.plan.exports)["RANKZERO_CHECKPOINT_DIR"] for element in made] == ["/c"] * len(made)
    assert len({element.plan.key for element in made}) == len(made) > 1


def test_a_grid_that_grows_keeps_the_keys_of_its_elements() -> None:
    before = {element.plan.key for element in made(parameters=GRID)}
    after = [element.plan.key for element in made(parameters={"lr": ["5", *GRID["lr"]], "width": ["1", "2", "3"]})]
    assert len(after) == len(set(after)) == 9 and before < set(after)
    assert array.sweep_key(made(parameters=GRID)) == array.sweep_key(made(parameters={**GRID, "lr": ["3e-4", "1e-3"]}))


def test_a_fields_parameter_reaches_the_rendered_launch() -> None:
    found = elements(
        {
            "name": "s",
            "command": ["t.py"],
            "sweep": {"parameters": {"seed": ["1", "2"], "mbs": ["4"], "gbs": ["8", "16"]}},
        }
    )
    assert [(one.plan.spec.seed, one.plan.spec.parallelism.global_batch) for one in found] == [
        (1, 8),
        (1, 16),
        (2, 8),
        (2, 16),
    ]
    shared = array.array_plan(found[0].plan.spec, found, "/state")
    assert "RANKZERO_MBS" in dict(shared.exports) and "RANKZERO_GBS" not in dict(shared.exports)
    assert "RANKZERO_SEED" not in [variable.name for variable in shared.variables]
    assert "export RANKZERO_GBS=16" in array.lines(found)[1] and "export RANKZERO_SEED=1" in array.lines(found)[1]
    assert ("array", array.tasks_token(shared.key)) in shared.header


MISTAKES: list[tuple[Any, dict[str, Any], str]] = [
    ({}, {}, "sweep.parameters: is required"),
    ({"method": "list"}, {}, "sweep.points: is required with sweep.method list"),
    (
        {"method": "list", "points": [{"lr": "1", "width": "1"}, {"lr": "2"}]},
        {},
        "sweep.points: item 2 has lr, the first one lr, width",
    ),
    (
        {"method": "list", "points": [{"lr": "1", "width": "2"}], "parameters": GRID},
        {},
        "no effect with sweep.method list",
    ),
    ({"parameters": GRID, "points": [{"lr": "1"}]}, {}, "sweep.points: has no effect with sweep.method grid"),
    ({"method": "random", "parameters": GRID}, {}, "sweep.samples: is required with sweep.method random"),
    ({"parameters": GRID, "samples": 3}, {}, "sweep.samples: has no effect with sweep.method grid"),
    ({"method": "zip", "parameters": {**GRID, "lr": ["1"]}}, {}, "zip needs lists of one length, not lr 1, width 2"),
    (
        {"parameters": {**GRID, "lr": {"min": 1, "max": 2}}},
        {},
        "sweep.parameters.lr: a range needs sweep.method random",
    ),
    ({"parameters": {**GRID, "lr": []}}, {}, "lr must not be empty"),
    ({"parameters": {**GRID, "lr": [0.1]}}, {}, "quote it"),
    ({"parameters": {**GRID, "lr": {"min": 2, "max": 1}}}, {}, "min 2 is above max 1"),
    ({"parameters": {**GRID, "lr": {"min": 0, "max": 1, "scale": "log"}}}, {}, "min 0 must be above 0"),
    ({"parameters": {**GRID, "lr": {"min": "x", "max": 1}}}, {}, "min must be a number, not 'x'"),
    ({"parameters": {**GRID, "lr": {"min": 0.5, "max": 1, "whole": True}}}, {}, "must be whole numbers"),
    ({"parameters": {**GRID, "lr": {"min": 1, "max": 2, "step": 1}}}, {}, "step: unknown key"),
    ({"parameters": {**GRID, "a-b": ["1"]}}, {}, "must be a name of letters"),
    (
        {"parameters": {name: [str(i) for i in range(200)] for name in GRID}},
        {},
        "40000 combinations are above the limit of 10000",
    ),
    ({"parameters": {**GRID, "heads": ["1"]}}, {}, "sweep.parameters.heads: reaches no program; write {heads}"),
    (
        {"parameters": {"lr": ["1"], "widht": ["1"]}},
        {},
        "command: {width} is not a parameter of the sweep; did you mean widht?",
    ),
    ({"parameters": {**GRID, "nodes": ["1", "2"]}}, {}, "sweep.parameters.nodes: is the name of resources.nodes"),
    (
        {"parameters": {"lr": ["1"]}},
        {"command": [], "shell": "train {lr}"},
        "shell: {lr} is not replaced in a line for a shell; add LR:",
    ),
    ({"parameters": GRID, "metric": "loss"}, {}, "sweep.metric: is read from the artifact"),
    (
        {"parameters": GRID, "metric": "loss"},
        {"artifact": {"format": "any"}},
        "sweep.metric: is read from the artifact",
    ),
    ({"parameters": GRID}, {"launcher": {"inside_job": "12"}}, "cannot run inside a job"),
    (
        {"parameters": GRID},
        {"checkpoint": {"dir": "/scratch/c"}},
        "checkpoint.dir: /scratch/c would be shared by all elements",
    ),
    (
        {"parameters": GRID},
        {"checkpoint": {"dir": "/scratch/{lr}"}},
        "checkpoint.dir: elements 0 and 1 would share /scratch/1e-3",
    ),
    ({"parameters": {**GRID, "seed": ["x"]}}, {}, "element 0 (lr=1e-3, width=1, seed=x): seed: must be a whole number"),
    ({"parameters": {**GRID, "lr": ["1", "1"]}}, {}, "sweep: elements 0 and 2 are one launch (lr=1, width=1)"),
    ({"metric": "x", "methd": "grid", "parameters": GRID}, {}, "sweep.methd: unknown key; did you mean method?"),
]


@pytest.mark.parametrize(("section", "job", "said"), MISTAKES, ids=[said[:50] for _s, _j, said in MISTAKES])
def test_a_mistake_says_what_to_do(section: Any, job: dict[str, Any], said: str) -> None:
    assert any(said in text for text in mistakes(section, **job)), mistakes(section, **job)


def test_many_broken_elements_do_not_fill_the_screen() -> None:
    found = mistakes({"parameters": {**GRID, "seed": [f"x{number}" for number in range(20)]}})
    assert len(found) == 11 and found[-1] == "and 70 more"


def test_what_chance_draws_twice_is_one_element() -> None:
    data = {**JOB, "sweep": {"method": "random", "samples": 20, "parameters": GRID}}
    merged = merge([Layer("job", data)])
    spec = validated(merged)
    found, notes = array.elements(spec, array.specs(spec, merged), plan_of)
    assert len(found) == 4 and [one.number for one in found] == [0, 1, 2, 3]
    assert notes == ["16 samples were drawn that are there already; 4 are left"]


def test_braces_that_are_no_placeholders_stay_and_a_value_is_not_looked_at_again() -> None:
    point = {"a": "{b}", "b": "{{a}}"}
    assert sweep.filled('{"x": {a}} {b} {{a}} {a b} {} $' + "{a}", point) == '{"x": {b}} {{a}} {a} {a b} {} ${b}'
    assert list(sweep.placeholders("{a} {{b}} {c}")) == ["a", "c"]


NASTY = [
    *(
        "",
        " ",
        "a b",
        "it's",
        '"',
        "\n",
        "a\nb\n",
        "\t",
        "\r\n",
        "\\",
        "\\n",
        "$HOME",
        "`id`",
        "$(id)",
        "!x",
        "*",
        "~",
        "#",
    ),
    *("; rm -rf x", "'$'", "é 日本 🚀", "\x01\x7f", "%s%n", "-n", "--", "{lr}", "{{lr}}", "}", "a;b", "&", "|", "<>"),
    *("\x1b[0m", "\u2028"),
]


def test_any_value_reaches_the_program_and_its_environment(tmp_path: Path) -> None:
    """Through the array's file and bash, as on the cluster, whatever it holds."""
    chance = random.Random(5)
    letters = "".join(NASTY) + "abc"
    values = [
        *NASTY,
        *("".join(chance.choice(letters) for _letter in range(chance.randrange(1, 30))) for _n in range(60)),
    ]
    values = list(dict.fromkeys(values))
    data = {
        "name": "nasty",
        "command": ["train.py", "{lr}", "x{lr}y", "end"],
        "env": {"VALUE": "{lr}", "OTHER": "<{lr}>"},
        "sweep": {"parameters": {"lr": values}},
    }
    found = elements(data)
    assert len(found) == len(values)
    lines = array.lines(found)
    assert not any("\n" in line or "\r" in line for line in lines)
    (tmp_path / "elements").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    script = f"""RANKZERO_RUNTIME={RUNTIME}; . {RUNTIME}/start/job.sh
    RANKZERO_PYTHON=python3
    for ((SLURM_ARRAY_TASK_ID = 0; SLURM_ARRAY_TASK_ID < {len(values)}; SLURM_ARRAY_TASK_ID++)); do
        rankzero_element {tmp_path}; rankzero_element_variables; rankzero_element_program
        printf '%s\\0' "${{rankzero_program[@]}}" "$VALUE" "$OTHER"
    done"""
    done = subprocess.run(["bash", "-u", "-c", script], capture_output=True, check=True)
    assert done.stderr == b""
    expected = [
        word for value in values for word in ("python3", "train.py", value, f"x{value}y", "end", value, f"<{value}>")
    ]
    assert done.stdout.decode().split("\0")[:-1] == expected
    # The same of a program that is a role, which the script gives a shell of its own.
    program = {name: data.pop(name) for name in ("command", "env")}
    found = elements({**data, "roles": {"trainer": program}})
    (tmp_path / "elements").write_text("".join(f"{line}\n" for line in array.lines(found)), encoding="utf-8")
    role = "role() (rankzero_program=(); rankzero_element_role_trainer; show)\n"
    show = """show() { printf '%s\\0' "${rankzero_program[@]}"; printenv -0 VALUE OTHER; }\n"""
    script = script.replace("rankzero_element_program", "role").partition("\n        printf")[0]
    done = subprocess.run(["bash", "-u", "-c", f"{show}{role}{script}\n    done"], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == expected and done.stderr == b""


@pytest.mark.parametrize(
    ("task", "code", "said"), [("", 66, "submit this script as a job array"), ("7", 66, "has no line for task 7")]
)
def test_a_task_without_an_element_runs_nothing(tmp_path: Path, task: str, code: int, said: str) -> None:
    (tmp_path / "elements").write_text("export A=1\n")
    script = f"SLURM_ARRAY_TASK_ID={task}; . {RUNTIME}/start/job.sh; rankzero_element {tmp_path}; echo ran"
    env = {**os.environ, "RANKZERO_RUNTIME": RUNTIME}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code and said in done.stdout and "ran\n" not in done.stdout


def test_the_container_of_all_elements_mounts_what_any_of_them_needs() -> None:
    data = {**JOB, "checkpoint": {"dir": "/scratch/lr/{lr}/{width}"}, "sweep": {"parameters": GRID}}
    merged = merge([Layer("job", data)])
    spec = validated(merged)
    found = [one for _point, _merged, one in array.specs(spec, merged)]
    assert array.container_places("/state", "lr", found) == ("/state/runs/lr", "/scratch/lr")
    assert json.dumps([element.point for element in elements(data)])


@pytest.mark.parametrize(
    ("array_of_script", "tasks", "parallel"),
    [("0-7%4", "01234567", 4), ("0-6:3", "036", None), ("1,3-4,1", "134", None), ("5", "5", None)],
)
def test_the_refusal_of_an_array_says_the_sweep_that_is_the_same(
    array_of_script: str, tasks: str, parallel: int | None
) -> None:
    header = batch_script.read_header(f"#!/bin/bash\n#SBATCH --array={array_of_script}\ntrue\n")
    ((_line, sentence),) = header.problems
    same, _end = json.JSONDecoder().raw_decode(sentence[sentence.index("{") :])
    assert [element.point["task"] for element in elements({"name": "shards", **same})] == list(tasks)
    assert same["sweep"].get("parallel") == parallel
    once = ordinary({"name": "shards", **same, "sweep": None, "env": {"TASK": "3"}})
    assert once.topology.tasks == 1


@pytest.mark.parametrize("array_of_script", ["0-999", "x", "1-", "3-1", "$N", ""])
def test_an_array_that_is_not_small_is_refused_without_a_list(array_of_script: str) -> None:
    ((_line, sentence),) = batch_script.read_header(f"#!/bin/bash\n#SBATCH --array='{array_of_script}'\n").problems
    assert "sweep" in sentence and "{" not in sentence
