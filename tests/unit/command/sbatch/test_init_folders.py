# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --from`: the folder in which a script starts, lines that only prepare its program, and where a command
ends that has several lines.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rankzero.sbatch.convert import converted
from tests.unit.command.sbatch.recorded import needs_sandbox
from tests.unit.command.sbatch.test_init import HEAD, made_of, spec_of

pytestmark = needs_sandbox


def test_a_port_that_no_program_listens_on_is_set_for_every_rank(tmp_path: Path) -> None:
    ports = "<(ss -Htln | cut -d: -f2 | sort -u) <(seq 20000 30000 | sort)"
    body = f"export MASTER_PORT=$(comm -13 {ports} | shuf -n 1)\nsrun python train.py"
    assert spec_of(tmp_path, body)["command"] == ["train.py"]


def test_an_input_that_a_port_is_compared_with_may_be_another_one_on_the_node(tmp_path: Path) -> None:
    made = made_of(
        tmp_path, "export MASTER_PORT=$(comm -13 taken <(seq 20000 30000) | head -n 1)\nsrun python train.py"
    )
    assert "$(comm)" in {row.what for row in made.rows if row.kept}


def test_arguments_that_a_script_shifts_away_are_those_of_its_program(
    rankzero: Callable[..., int], tmp_path: Path
) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text(f'{HEAD}steps=$1\nshift\nsrun python train.py --steps "$steps" "$@"\n', encoding="utf-8")
    (tmp_path / "train.py").touch()
    assert rankzero("init", str(tmp_path), "--from", str(script), "--arg", "9", "--arg=--lr=1") == 0
    made = yaml.safe_load((tmp_path / "jobs" / "train.yml").read_text(encoding="utf-8"))
    assert made["command"] == ["train.py", "--steps", "9", "--lr=1"]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("srun uv run python train.py", {"command": ["train.py"], "environment": {"mode": "venv", "project": ".."}}),
        ("srun -n1 ./prepare\nsrun python train.py", {"script": "../scripts/slurm/train.sbatch"}),
    ],
)
def test_a_script_starts_where_it_is_submitted(
    body: str, wanted: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under sbatch, and as `rankzero run scripts/slurm/train.sbatch` starts it."""
    folder = tmp_path / "scripts" / "slurm"
    folder.mkdir(parents=True)
    for file in ("train.py", "pyproject.toml"):
        (tmp_path / file).touch()
    (folder / "train.sbatch").write_text(f"{HEAD}{body}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    made = yaml.safe_load(converted("scripts/slurm/train.sbatch", "jobs").text)
    assert {key: made.get(key) for key in ("code", *wanted)} == {"code": {"src": ".."}, **wanted}


@pytest.mark.parametrize("home", ["", "me"])
def test_a_folder_that_contains_a_home_is_no_code(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").touch()
    (tmp_path / "project" / "train.sbatch").write_text(f"{HEAD}srun python train.py\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.chdir(tmp_path)
    made = yaml.safe_load(converted("project/train.sbatch", "project/jobs").text)
    assert (made["command"], made["code"]) == (["train.py"], {"src": ".."})


#: Commands of several lines: how they begin -> what of them is not in the job. Behind each stands one more command.
LONG = {
    "a quoted function": ("srun bash -c '\nprepare() {\n    mkdir -p x\n}\nprepare\n    python train.py'", set()),
    "a quoted document": ("srun python train.py --config '{\n    \"steps\": 3\n}'", set()),
    "a here-document": ("cat > x.json <<EOF\n{\n    python it's\n}\nEOF\nsrun python train.py", {"cat"}),
    "one with tabs": ("cat > x.json <<-'END OF IT'\n\tsay \"\n\tEND OF IT\nsrun python train.py", {"cat"}),
    "quotes in quotes": ('WHO="$(echo "it\'s" | head -n 1)"\nsrun python train.py --who "$WHO"', set()),
    "a comment in a substitution": ("WHO=$(\n# it's\necho x)\nsrun python train.py --who $WHO", set()),
    "escapes in quotes": ("WHO=$'it\\'s'\nsrun python train.py --who \"$WHO\"", set()),
}


@pytest.mark.parametrize("name", LONG)
def test_a_command_of_several_lines_hides_nothing_that_follows(name: str, tmp_path: Path) -> None:
    body, kept = LONG[name]
    made = made_of(tmp_path, f"{body}\ntouch done")
    assert {row.what for row in made.rows if row.kept and row.why} == {*kept, "touch"}


def test_a_quoted_step_of_several_lines_is_its_one_program(tmp_path: Path) -> None:
    step = """export PORT=29501 NODES=$SLURM_NNODES
srun --ntasks-per-node=1 bash -c '
    python -m torch.distributed.run --nnodes='"$NODES"' --nproc-per-node=4 --node-rank=$SLURM_NODEID \\
        --master-addr='"$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"' \\
        --master-port='"$PORT"' \\
    train.py --lr 1
'"""
    made = spec_of(tmp_path, step)
    assert (made["launcher"]["kind"], made["command"]) == ("torchrun", ["train.py", "--lr", "1"])


def test_sizes_that_a_script_tells_its_program_follow_the_job(tmp_path: Path) -> None:
    body = "export NNODES=$SLURM_NNODES GPUS_PER_NODE=4 NPROC_PER_NODE=4 HEAD_NODE=$(hostname)\nsrun python train.py"
    made = made_of(tmp_path, body, "#SBATCH --gpus-per-node=4\n")
    spec = yaml.safe_load(made.text)
    wanted = ['export GPUS_PER_NODE="$RANKZERO_GPUS_PER_NODE"', 'export NNODES="$RANKZERO_NODES"']
    assert (spec["setup"], spec["env"]) == ({"commands": wanted}, {"NPROC_PER_NODE": "4"})
    assert {row.what: row.becomes.partition(":")[0] for row in made.rows}["HEAD_NODE"] == "nothing"


def test_a_size_that_is_not_the_jobs_is_its_own(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "export NNODES=1\nsrun python train.py")
    assert (spec.get("setup"), spec["env"]) == (None, {"NNODES": "1"})
