# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --from` of scripts with --array: what each task runs is what an element of the sweep runs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections import sweep
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from rankzero.errors import RankzeroError
from rankzero.sbatch.convert import Asked, Converted, converted
from tests.unit.command.sbatch.recorded import needs_sandbox

pytestmark = needs_sandbox

HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --time=10\n"
ID = "$SLURM_ARRAY_TASK_ID"
#: --array, the lines of a script -> the program's words and variables in each task.
SWEEPS: dict[str, tuple[str, str, list[str], list[dict[str, str]]]] = {
    "its number": ("1-3", f"srun python t.py --id {ID}", ["t.py --id 1", "t.py --id 2", "t.py --id 3"], []),
    "its number within a word": (
        "0,10",
        f"srun python t.py --id=x{ID}/0 00",
        ["t.py --id=x0/0 00", "t.py --id=x10/0 00"],
        [],
    ),
    "an element of a list": (
        "0-2%2",
        f"LRS=(1e-3 3e-4 1e-4)\nsrun python t.py --lr ${{LRS[{ID}]}}",
        ["t.py --lr 1e-3", "t.py --lr 3e-4", "t.py --lr 1e-4"],
        [],
    ),
    "two lists and a variable": (
        "0-4:2",
        f"A=(a x b x c)\nexport B=$(({ID} * 2)) OUT=run-{ID}\nsrun python t.py ${{A[{ID}]}} --b=$B",
        ["t.py a --b=0", "t.py b --b=4", "t.py c --b=8"],
        [{"B": "0", "OUT": "run-0"}, {"B": "4", "OUT": "run-2"}, {"B": "8", "OUT": "run-4"}],
    ),
    "text in braces": (
        "1-2",
        f"""srun python t.py '{{"a": {{x}}}}' {{task}} {ID}""",
        ['t.py {"a": {x}} {task} 1', 't.py {"a": {x}} {task} 2'],
        [],
    ),
    "how many there are": (
        "3-5",
        f"srun python t.py $(({ID} - SLURM_ARRAY_TASK_MIN)) $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MAX",
        ["t.py 0 3 5", "t.py 1 3 5", "t.py 2 3 5"],
        [],
    ),
    "names that a sweep cannot have": (
        "0-1",
        f"N=(2 4)\nsrun python t.py --nodes ${{N[{ID}]}} --seed {ID}",
        ["t.py --nodes 2 --seed 0", "t.py --nodes 4 --seed 1"],
        [],
    ),
    "an inner line": (
        "0-1",
        f"""srun bash -c 'export A={ID}; exec python t.py --id {ID}'""",
        ["t.py --id 0", "t.py --id 1"],
        [{"A": "0"}, {"A": "1"}],
    ),
}


def made_of(place: Path, array: str, body: str, asked: Asked | None = None) -> Converted:
    (place / "t.py").touch()
    (place / "script.sbatch").write_text(f"{HEAD}#SBATCH --array={array}\n{body}\n", encoding="utf-8")
    os.chdir(place)
    return converted("script.sbatch", "jobs", asked)


def spec_of(place: Path, made: Converted) -> dict[str, Any]:
    """The job, which `plan` takes."""
    spec: dict[str, Any] = yaml.safe_load(made.text)
    read_job(spec, {}, {}, {}, str(place / "jobs"))
    return spec


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", SWEEPS)
def test_each_element_is_a_task(name: str, place: Path) -> None:
    array, body, words, variables = SWEEPS[name]
    spec = spec_of(place, made_of(place, array, body))
    points = sweep.points(read_job(spec, {}, {}, {}, str(place / "jobs")).spec.sweep)
    elements = [[sweep.filled(word, point) for word in spec["command"]] for point in points]
    assert [" ".join(element) for element in elements] == words
    env = [{key: sweep.filled(value, point) for key, value in spec.get("env", {}).items()} for point in points]
    assert env == (variables or [{}] * len(words))
    assert spec["sweep"].get("parallel") == (2 if "%" in array else None)


WHOLE = {
    "a loop": f"for part in 1 2; do python3 t.py $part {ID}; done",
    "its program reads the number itself": "python3 t.py",
    "a line of a file on the node": f"python3 t.py $(sed -n {ID}p /etc/list)",
    "a variable without which its program is not there": "export PATH=/none\npython3 t.py",
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_script_without_steps_runs_whole_in_each_element(name: str, place: Path) -> None:
    made = made_of(place, "1-7:3%2", f"#SBATCH --cpus-per-task=2\n{WHOLE[name]} $1", Asked(("a b",), {"X": "1"}))
    spec = spec_of(place, made)
    assert spec["shell"] == """SLURM_ARRAY_TASK_ID="$TASK" bash script.sbatch 'a b'"""
    assert spec["launcher"] == {"kind": "none"} and spec["env"] == {"TASK": "{task}", "X": "1"}
    assert spec["sweep"] == {"parameters": {"task": ["1", "4", "7"]}, "parallel": 2}
    assert spec["resources"] == {"nodes": 2, "cpus_per_rank": 2, "time": "10"} and spec["code"] == {"src": ".."}
    assert {*re.findall(r"export (\w+)=", WHOLE[name])} <= {row.what for row in made.rows}
    # Nothing but the header has a key.
    assert all(row.kept or row.line in (2, 3, 4) for row in made.rows)


@pytest.mark.parametrize(
    ("array", "body", "words"),
    [
        ("1-3", "srun python t.py", ("line 3", "--array", "SLURM_ARRAY_TASK_ID")),
        ("1-3", f"for part in 1 2; do srun python t.py {ID}; done", ("line 3", "line 4: for")),
        (
            "0-1",
            f"D=(block cyclic)\nsrun --distribution=${{D[{ID}]}} python t.py {ID}",
            ("launcher", "one for all of a sweep"),
        ),
        ("0-1000", f"srun python t.py {ID}", ("line 3", "--array")),
    ],
)
def test_what_no_sweep_can_say_is_refused(array: str, body: str, words: tuple[str, ...], place: Path) -> None:
    with pytest.raises(RankzeroError) as raised:
        made_of(place, array, body)
    assert all(word in str(raised.value) for word in words)


def test_a_program_that_reads_the_number_itself_is_found(place: Path) -> None:
    """In a sweep, Slurm's own variable has the number of the element. A job file and another script are no program."""
    body = f"srun python t.py {ID}"
    (place / "own.yml").write_text(f"name: x\nshell: echo {ID}\n", encoding="utf-8")
    (place / "other.sbatch").write_text(f"#!/bin/bash\n#SBATCH --array=1\necho {ID}\n", encoding="utf-8")
    assert spec_of(place, made_of(place, "1-2", body))["command"] == ["t.py", "{task}"]
    (place / "lib").mkdir()
    (place / "lib" / "data.py").write_text("shard = os.environ['SLURM_ARRAY_TASK_ID']\n", encoding="utf-8")
    with pytest.raises(RankzeroError, match=r"lib/data.py .*reads SLURM_ARRAY_"):
        made_of(place, "1-2", body)


def test_no_value_of_a_secret_is_a_parameter(place: Path) -> None:
    token = "hf_" + "a1B2" * 9
    body = f"T=(x {token})\npython t.py --token ${{T[{ID}]}}"
    made = made_of(place, "0-1", body)
    assert token not in made.text and "shell" in spec_of(place, made)
