# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever `rankzero init --from` writes, `plan` accepts, and nothing of the script is lost in silence."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sbatch import reader
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.slurm_options import SBATCH
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from rankzero.errors import RankzeroError
from rankzero.sbatch.convert import Asked, Converted, converted
from tests.plans import plan
from tests.repository import ROOT
from tests.unit.command.sbatch.recorded import needs_sandbox

pytestmark = needs_sandbox
CORPUS = ROOT / "tests" / "cluster" / "batch_scripts"
CLUSTER = {"state_root": "/state", "store_root": "/store"}
VALUE = "q7Rk2vZx9LmT"
#: Every option of sbatch that is known, with an example of its field where it has one.
EXAMPLES = {
    info.meta["sbatch"].name: info.meta["example"] for info in fields_of(LaunchSpec) if info.meta["sbatch"] is not None
}
OPTIONS = sorted(
    name for name in SBATCH if name not in reader.SBATCH.switches and "container" not in name and name != "array"
)
NAMES = ("A", "NCCL_DEBUG", "OMP_NUM_THREADS", "PATH", "PYTHONPATH", "MASTER_PORT", "RUN_NAME", "DATA_ROOT")
#: What a script may do next to its program.
LINES = (
    "module load cuda/12", "set -e", "echo start", "cd $SLURM_SUBMIT_DIR", "source /v/bin/activate", "mkdir -p logs",
    "conda activate torch", "conda activate $ENVS/torch", "source $VENV/bin/activate", "module load $MODULE",
    "ulimit -n $FILES", "source ~/conda/etc/profile.d/conda.sh",
    "trap 'rm -f x' EXIT", "if [ -d x ]; then touch y; fi", "X=$(hostname)", "ulimit -n 4096", "sleep 1", "touch done",
)  # fmt: skip
PROGRAMS = (
    "srun python t.py", "srun --label ./t.py --x 'a b'", "python t.py", "torchrun --nproc_per_node 2 t.py",
    "srun bash -c 'python t.py $SLURM_PROCID'", "srun -n2 python t.py | tee log", "exec srun python t.py $RUN_NAME",
    "for i in 1 2; do srun python t.py; done", "srun hostname; srun python t.py", "srun a & srun b & wait",
    "srun python t.py --task $SLURM_ARRAY_TASK_ID", "python t.py run-$SLURM_ARRAY_TASK_ID --n $SLURM_ARRAY_TASK_COUNT",
)  # fmt: skip
SECRETS = (
    f"export HF_TOKEN={VALUE}",
    f"# wandb login {VALUE}",
    f"wandb login {VALUE}",
    f"#SBATCH --export=ALL,API_KEY={VALUE}",
    f"MY_KEY_2={VALUE}; echo $MY_KEY_2",
    f"srun python t.py --wandb_key {VALUE}",
    f"srun t.py --token={VALUE}",
    f"PASSWORD='{VALUE}' srun python t.py",
    f"# --hf-token {VALUE}",
    f"srun --export=ALL,DB_PASSWORD={VALUE} t.py",
    f"X_TOKEN={VALUE}\nsrun python t.py $X_TOKEN",
    f"curl -H 'Authorization: {VALUE}' http://x",
    f"export dbPassword={VALUE}",
    f'srun python t.py --config \'{{"api_key": "{VALUE}"}}\'',
)
#: Scripts that come to a value which is in none of their lines as it is.
COMES_TO = (
    f"export HF_TOKEN=$(echo {VALUE[::-1]} | rev)\nsrun python t.py --x $HF_TOKEN",
    f"HF_TOKEN=$(echo {VALUE[::-1]} | rev)\nsrun python t.py --x $HF_TOKEN",
    f"export HF_TOKEN=$(echo {VALUE[::-1]} | rev)\nexport OTHER=$HF_TOKEN\nsrun python t.py",
)


def value_of(name: str) -> str:
    example = EXAMPLES.get(name, "1")
    return ",".join(example) if isinstance(example, list) else str(example)


def scripted(place: str, text: str) -> tuple[Path, Path]:
    """(folder, script) with a program and a place for jobs beside the script."""
    folder = Path(place)
    (folder / "jobs").mkdir()
    (folder / "t.py").touch()
    script = folder / "train.sbatch"
    script.write_text(f"#!/bin/bash\n#SBATCH -N 1\n{text}\n", encoding="utf-8")
    return folder, script


def planned(made: Converted, folder: Path) -> None:
    """Plan the job file that was written; what `plan` refuses is an error, and so is what only the sandbox has."""
    assert "/rankzero/" not in made.text
    job = folder / "jobs" / f"{made.name}.yml"
    job.write_text(made.text, encoding="utf-8")
    read = read_job(str(job), CLUSTER, {}, {}, str(folder))
    if read.spec.environment.conda:  # the login node knows its path
        read = read.at_environments({read.spec.environment.conda: "/conda/torch"})
    key = "e" * 32 if read.spec.environment.mode in ("venv", "path") else None
    roots = {"state_root": CLUSTER["state_root"], "store_root": CLUSTER["store_root"]}
    plan(
        read.spec, read.merged, code_key="c0de" * 16, runtime_key="4" * 32, environment_key=key, settings=read.settings,
        **roots,
    )  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(
    names=st.lists(st.sampled_from(OPTIONS), max_size=4, unique=True),
    exports=st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
    lines=st.lists(st.sampled_from(LINES), max_size=3),
    program=st.sampled_from(PROGRAMS),
    array=st.sampled_from(("", "0-2", "1,3%1")),
)
def test_what_is_written_is_planned_and_says_everything(
    names: list[str], exports: list[str], lines: list[str], program: str, array: str
) -> None:
    header = "".join(f"#SBATCH --{name}={value_of(name)}\n" for name in names)
    if array:
        header, names = f"{header}#SBATCH --array={array}\n", [*names, "array"]
    body = "\n".join([*(f"export {name}=7" for name in exports), *lines, program])
    with tempfile.TemporaryDirectory() as place:
        folder, script = scripted(place, f"{header}{body}")
        try:
            made = converted(str(script), str(folder / "jobs"))
        except RankzeroError as refusal:
            assert "line " in str(refusal), refusal
            return
        planned(made, folder)
    said = {row.what for row in made.rows}
    assert {f"--{name}" for name in names} | {"--nodes"} <= said
    assert {*exports} <= said


@settings(max_examples=13, deadline=None)
@given(line=st.sampled_from(SECRETS), program=st.sampled_from(PROGRAMS[:3]))
def test_no_value_of_a_secret_is_written_or_printed(line: str, program: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, script = scripted(place, f"{line}\n{program}")
        try:
            made = converted(str(script), str(folder / "jobs"), Asked((), {"OTHER_TOKEN": VALUE, "RUN_NAME": "x"}))
        except RankzeroError as refusal:
            assert VALUE not in str(refusal)
            return
        planned(made, folder)
    assert VALUE not in made.text + "\n".join(made.notes) + repr(made.rows)


@pytest.mark.parametrize("body", COMES_TO)
def test_no_value_that_a_secret_comes_to_is_written_or_printed(body: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, script = scripted(place, body)
        made = converted(str(script), str(folder / "jobs"))
        planned(made, folder)
    assert VALUE not in made.text + "\n".join(made.notes) + repr(made.rows)


@pytest.mark.parametrize("name", sorted(path.stem for path in CORPUS.glob("*.sbatch")))
def test_shape_that_sbatch_takes_is_a_job_that_plan_takes(name: str, tmp_path: Path) -> None:
    """The scripts of tests/cluster/test_script_jobs.py. One of them is no script: it is submitted with --wrap.

    Each lies alone with its programs: the sandbox copies the folder of a script twice.
    """
    shutil.copytree(CORPUS, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sbatch"))
    script = tmp_path / f"{name}.sbatch"
    shutil.copy(CORPUS / script.name, script)
    if not script.read_text(encoding="utf-8").startswith("#!"):
        with pytest.raises(RankzeroError, match="line 1"):
            converted(str(script), str(tmp_path / "jobs"))
        return
    (tmp_path / "jobs").mkdir()
    made = converted(str(script), str(tmp_path / "jobs"), Asked(("a", "two words", "#5")))
    planned(made, tmp_path)
    spec = yaml.safe_load(made.text)
    assert ("script" in spec) == any(row.kept and row.why for row in made.rows)
