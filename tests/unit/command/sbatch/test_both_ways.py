# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --from SCRIPT --compare`: what it says before it runs anything, and what it does not compare."""

from __future__ import annotations

import json
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from rankzero import both_ways
from rankzero.errors import RankzeroError
from rankzero.init import write_project
from rankzero.parsing import parse
from rankzero.sbatch.calls import added, calls, differences, of_ranks
from tests.stand_ins import PYXIS_SRUN, apptainer, command, squashfs
from tests.unit.command.sbatch.recorded import needs_sandbox

SRUN = "srun python train.py"


def asked(folder: Path, body: str, *more: str, head: str = "") -> tuple[Namespace, str]:
    """The options of the verb, and the job file that it has written."""
    (folder / "train.py").touch()
    (folder / "sub").mkdir()
    (folder / "sub" / "train.py").touch()
    script = folder / "train.sbatch"
    script.write_text(f"#!/bin/bash\n#SBATCH --nodes=2 {head}\n{body}\n", encoding="utf-8")
    given = parse(["init", str(folder), "--from", str(script), "--compare", *more])
    return given, write_project(given)[0]


@needs_sandbox
@pytest.mark.parametrize("body", [SRUN, f"{SRUN}\ntouch x", "srun --container-image=a.sqsh python train.py"])
def test_it_says_what_will_run_and_on_how_many_nodes(tmp_path: Path, body: str) -> None:
    given, job = asked(tmp_path, body, "--arg", "two words", "-c", "alpha")
    said = "\n".join(both_ways.plan(given, job))
    assert "on alpha" in said and "2 nodes each" in said and "train-compare" in said
    assert f"rankzero run {job}" in said and "sbatch train.sbatch 'two words'" in said


@needs_sandbox
@pytest.mark.parametrize(
    ("body", "head", "more", "why"),
    [
        (SRUN, "--container-image=/a.sqsh", (), "container"),
        ("srun podman run a python train.py", "", (), "container"),
        (f"{SRUN} $SLURM_ARRAY_TASK_ID", "--ntasks-per-node=1 --array=1-2", (), "sweep"),
        (f"cd sub && {SRUN}", "", (), "submitted from another folder"),
        (SRUN, "--export=NONE", (), "--export=NONE"),
        (f"{SRUN} $A_TOKEN", "", ("--set", "A_TOKEN=correct-horse"), "A_TOKEN is a secret"),
    ],
)
def test_what_is_not_compared_says_why(tmp_path: Path, body: str, head: str, more: tuple[str, ...], why: str) -> None:
    given, job = asked(tmp_path, body, *more, head=head)
    with pytest.raises(RankzeroError) as refused:
        both_ways.plan(given, job)
    assert why in str(refused.value) and "correct-horse" not in str(refused.value)


@needs_sandbox
def test_a_script_is_submitted_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    script = tmp_path / "scripts" / "train.sbatch"
    script.parent.mkdir()
    script.write_text(f"#!/bin/bash\n{SRUN}\n", encoding="utf-8")
    given = parse(["init", "--from", "scripts/train.sbatch", "--compare"])
    assert "sbatch scripts/train.sbatch " in "\n".join(both_ways.plan(given, write_project(given)[0]))


@needs_sandbox
@pytest.mark.parametrize(
    "start",
    [
        "srun -n1 --container-image={image} --container-mounts=/etc:/data --container-workdir=/usr",
        "srun -n1 --container-image={image} --container-workdir=/usr --",
        "srun -n1 apptainer exec --bind=/etc:/data --pwd=/usr {image}",
        "apptainer exec --pwd=/usr {image}",
    ],
)
def test_a_program_of_an_image_is_noted_there(tmp_path: Path, start: str) -> None:
    """A shell of the image runs, and finds the stand-ins, whose folder and notes are mounted."""
    given, _job = asked(tmp_path, SRUN)
    tools, image, calls_ = tmp_path / "tools", tmp_path / "i.sqsh", tmp_path / "calls"
    both_ways._stand_ins(str(tools), given)
    command(tmp_path / "real", "srun", PYXIS_SRUN)
    apptainer(tmp_path / "real")
    slurm = command(tmp_path / "slurm", "srun", '#!/bin/bash\nwhile [[ $1 = -* ]]; do shift; done\nexec "$@"\n')
    squashfs(image, {"PATH": "/usr/bin:/bin", "INSIDE": "torch"})
    environment = {
        "PATH": f"{tools}/bin:{tmp_path}/real:/usr/bin:/bin",
        "RANKZERO_CALLS": str(calls_),
        "PYXIS_STAND_IN_SRUN": str(slurm),
    }
    words = [*start.format(image=image).split(), "bash", "-c", "python3 train.py $INSIDE"]
    subprocess.run(words, env=environment, check=True, timeout=60)
    (noted_,) = [json.loads(path.read_text(encoding="utf-8")) for path in calls_.glob("*.json")]
    assert (noted_["program"], noted_["arguments"], noted_["folder"]) == ("python", ["train.py", "torch"], "/usr")
    asked_for = (tmp_path / "i.sqsh.words").read_text(encoding="utf-8")
    assert all(f"{place}:{place}" in asked_for for place in (tools, calls_))
    assert ("/etc:/data" in asked_for) == ("/etc:/data" in start)


def test_it_is_for_a_script(tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match="--from SCRIPT"):
        write_project(parse(["init", str(tmp_path), "--compare"]))


def noted(**environment: str) -> str:
    return json.dumps({"program": "python", "arguments": ["t.py"], "folder": "/w", "environment": environment})


def test_a_rank_is_the_same_in_the_words_of_slurm_and_of_a_launcher() -> None:
    slurm = [noted(SLURM_PROCID="3", SLURM_LOCALID="1", SLURM_NTASKS="4", SLURM_NODEID="1", SLURM_MEM="1", A="1")]
    other = [noted(RANK="3", LOCAL_RANK="1", WORLD_SIZE="4", SLURM_NODEID="1", SLURM_PROCID="1", B="2", A="1")]
    plain, launched = of_ranks(calls(slurm, {})), of_ranks(calls(other, {}))
    further, launched = added(plain, launched)
    assert further == ["B"] and not differences(plain, launched)
    moved = of_ranks(calls([noted(RANK="3", LOCAL_RANK="0", WORLD_SIZE="4", SLURM_NODEID="1", A="1")], {}))
    assert differences(plain, moved) == ["python, rank 3: LOCAL_RANK: sbatch '1'; the job '0'"]
