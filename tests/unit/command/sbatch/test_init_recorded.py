# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --from`: shapes of real scripts. Each is a job that says all of it, or a script job that says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rankzero.errors import RankzeroError
from rankzero.sbatch import recorder
from rankzero.sbatch.convert import Asked, Converted, converted
from rankzero.sbatch.recorder import NoSandboxError
from tests.unit.command.sbatch.recorded import needs_sandbox

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n"
#: Rows of a script job that say why it is one.
Reasons = set[tuple[int, str]]


def made_of(folder: Path, body: str, head: str = HEAD, asked: Asked | None = None) -> Converted:
    """What becomes of a script that lies beside its programs."""
    (folder / "sub").mkdir(exist_ok=True)
    for file in ("t.py", "sub/m.py"):
        (folder / file).touch()
    script = folder / "train.sbatch"
    script.write_text(f"{head}{body}\n", encoding="utf-8")
    return converted(str(script), str(folder / "jobs"), asked)


def reasons(made: Converted) -> Reasons:
    return {(row.line, row.what) for row in made.rows if row.kept and row.why}


IN_A_VARIABLE = (
    'A=$(scontrol show hostnames | head -n 1)\nL="torchrun --nnodes 2 --nproc_per_node 8 --rdzv_endpoint $A:1"\n'
    'C="t.py --x 1"; srun bash -c "$L $C"'
)
#: A script without header lines of its own -> keys of the job.
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "# within a word": (
        "srun python t.py --tag run#5 --lr 1",
        {"command": ["t.py", "--tag", "run#5", "--lr", "1"], "resources": {"nodes": "2"}},
    ),
    "# in an image": ("srun --container-image=reg#a/b:1 python t.py", {"command": ["t.py"]}),
    "-c of the program": ("srun python t.py -c cfg.yaml", {"command": ["t.py", "-c", "cfg.yaml"]}),
    "variables before srun": ("A=1 B=2 srun env C=3 python t.py", {"env": {"A": "1", "B": "2", "C": "3"}}),
    "python by path": ("srun /e/bin/python t.py", {"environment": {"mode": "path", "path": "/e"}, "command": ["t.py"]}),
    "torchrun by path": (
        "srun /e/bin/torchrun --nnodes 2 --nproc_per_node=3 t.py",
        {
            "environment": {"mode": "path", "path": "/e"},
            "launcher": {"kind": "torchrun", "ranks_per_node": "3"},
        },
    ),
    "export of srun": ("srun --export=ALL,X=1 python t.py", {"env": {"X": "1"}}),
    "array": ("declare -a x=(1 '2 3')\nsrun python t.py \"${x[@]}\"", {"command": ["t.py", "1", "2 3"]}),
    "output and errors to tee": ("srun python t.py |& tee log", {"command": ["t.py"]}),
    "arithmetic": ("srun python t.py $(((1)) && echo 0 || echo 1)", {"command": ["t.py", "0"]}),
    "shell of a rank": (
        'srun bash -c "python t.py --r \\$SLURM_PROCID"',
        {"shell": "python t.py --r $SLURM_PROCID"},
    ),
    "launcher in a variable": (
        IN_A_VARIABLE,
        {"command": ["t.py", "--x", "1"], "launcher": {"kind": "torchrun", "ranks_per_node": "8"}},
    ),
    "folder": ("cd sub && srun python m.py", {"command": ["m.py"], "code": {"src": "../sub"}}),
    "conda by name": (
        "source /opt/conda/etc/profile.d/conda.sh\nconda activate torch\nsrun python t.py",
        {"environment": {"mode": "path", "conda": "torch"}, "command": ["t.py"]},
    ),
    "conda by path": ("conda activate /e\nsrun python t.py", {"environment": {"mode": "path", "path": "/e"}}),
    "background and wait": ("srun python t.py &\nwait", {"command": ["t.py"]}),
    "strict mode": (
        "set -euo pipefail\nmodule load a b || exit 1\nulimit -l unlimited\nsrun python -u t.py 'x y' > log 2>&1",
        {"setup": {"modules": ["a", "b"], "commands": ["ulimit -l unlimited"]}, "command": ["t.py", "x y"]},
    ),
    "default of a variable": (
        "export OUT=${SCRATCH:-/tmp}/x\nsrun python t.py $OUT",
        {"command": ["t.py", "/tmp/x"], "env": {"OUT": "/tmp/x"}},
    ),
    "secrets by name": (
        "export WANDB_KEY=k1234567 X_TOKEN_2=k1234567\nsrun --export=ALL,API_KEY=k1234567 python t.py",
        {"secrets": {name: {"from_env": name} for name in ("API_KEY", "WANDB_KEY", "X_TOKEN_2")}},
    ),
}
#: The same with a header of its own.
HEADED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "tasks that are CPUs": (
        "#SBATCH -n 8\n",
        "python t.py",
        {"resources": {"nodes": "1", "cpus_per_rank": "8"}, "launcher": {"kind": "srun"}},
    ),
    "exclusive takes no word": (
        "#SBATCH --exclusive --partition=P\n",
        "srun python t.py",
        {"resources": {"exclusive": "true", "partition": "P", "nodes": "1"}},
    ),
    "GPUs before nodes": (
        "#SBATCH --gpus=16\n#SBATCH --nodes=2 --ntasks-per-node=8\n",
        "srun python t.py",
        {"resources": {"nodes": "2", "gpus_per_node": "8"}},
    ),
    "one process with all GPUs": (
        "#SBATCH --nodes=2 --gpus-per-node=8\n",
        "srun python t.py",
        {"launcher": {"kind": "srun", "gpus": "node"}, "resources": {"nodes": "2", "gpus_per_node": "8"}},
    ),
    "export of the header": ("#SBATCH --export=ALL,X=1\n", "srun python t.py", {"env": {"X": "1"}}),
    "two mail types": (
        "#SBATCH --mail-type=END\n#SBATCH --mail-type=FAIL\n",
        "srun python t.py",
        {"resources": {"sbatch": {"mail-type": "END,FAIL"}, "nodes": "1"}},
    ),
    "options of srun alone": (
        "",
        "srun -p P -A A -t 10 -J N -N2 -n4 python t.py",
        {
            "resources": {"partition": "P", "account": "A", "time": "10", "nodes": "2"},
            "launcher": {"kind": "srun", "ranks_per_node": "2"},
            "name": "N",
        },
    ),
}


@needs_sandbox
@pytest.mark.parametrize("name", JOBS)
def test_script_that_is_a_job(name: str, tmp_path: Path) -> None:
    body, wanted = JOBS[name]
    made = made_of(tmp_path, body)
    spec = yaml.load(made.text, yaml.BaseLoader)
    assert reasons(made) == set()
    assert {key: spec.get(key) for key in wanted} == wanted
    assert "k1234567" not in made.text


@needs_sandbox
@pytest.mark.parametrize("name", HEADED)
def test_header_that_is_a_job(name: str, tmp_path: Path) -> None:
    header, body, wanted = HEADED[name]
    made = made_of(tmp_path, body, f"#!/bin/bash\n{header}")
    spec = yaml.load(made.text, yaml.BaseLoader)
    assert reasons(made) == set()
    assert {key: spec.get(key) for key in wanted} == wanted


#: A script that stays one -> a line and what in it is the reason.
KEPT: dict[str, tuple[str, Reasons]] = {
    "several steps": (
        "srun -N1 -n1 python a.py\nsrun python t.py\nsrun -N1 -n1 python c.py",
        {(number, "a step of srun") for number in (3, 4, 5)},
    ),
    "python once on two nodes": ("python t.py", {(3, "the program")}),
    "here-document": ("python - <<EOF\nprint(1)\nEOF", {(3, "python")}),
    "here-document in a variable": ("read -r -d '' c <<EOF\nsrun x\nEOF\nsrun python t.py", {(3, "read")}),
    "pattern of files": ("srun python t.py --f /d/*.tar", {(3, "a pattern of files")}),
    "home": ("srun python t.py ~/x", {(3, "the program")}),
    "variable that nobody gives": ("srun python t.py $SCRATCH/x", {(3, "the program")}),
    "trap": ("trap 'cp a b' EXIT\nsrun python t.py", {(3, "trap")}),
    "numactl": ("srun numactl -N0 python t.py", {(3, "numactl")}),
    "mask of CPUs": ("srun --cpu-bind=mask_cpu:0x1 python t.py", {(3, "srun --cpu-bind")}),
    "condition": ("if [ -d x ]; then export A=1; fi\nsrun python t.py", {(3, "if")}),
    "loop": ("for i in 1 2; do srun python t.py $i; done", {(3, "for")}),
    "function": ("f() { srun python t.py; }\nf", {(4, "f")}),
    "login": ("wandb login k1234567\nsrun python t.py", {(3, "wandb")}),
    "secret as an argument": ("srun python t.py --token k1234567", {(3, "--token")}),
    "secret in a variable": ("MY_TOKEN=k1234567\nsrun python t.py --x $MY_TOKEN", {(4, "MY_TOKEN")}),
    "uv run with packages": ("srun uv run --with x python t.py", {(3, "uv run --with")}),
    "folder that is not here": ("cd /p/exp && srun python m.py", {(3, "cd")}),
    "file of this machine": ("srun python t.py $(cat /etc/hostname)", {(3, "$(cat)")}),
    "what this machine is": ("srun python t.py --arch $(uname -m)", {(3, "$(uname)")}),
    "value of the node": ("N=`nproc`\nsrun python t.py --n $N", {(4, "the program")}),
    "file that is written": ("echo a > conf.json\nsrun python t.py", {(3, "echo")}),
    "failure that counts for nothing": ("srun python t.py || true", {(3, "||")}),
    "not waited for": ("srun python t.py &", {(3, "&")}),
    "torchrun by itself on each node": (
        "srun torchrun --nproc_per_node=4 t.py",
        {(3, "torchrun: nodes")},
    ),
    "conda of a variable": ("conda activate $ENVS/torch\nsrun python t.py", {(3, "conda activate")}),
    "environment of a variable": ("source $ENVS/bin/activate\nsrun python t.py", {(3, "source")}),
    "environment of the node": ("conda activate $(hostname)\nsrun python t.py", {(3, "conda activate")}),
    "waits for a file": ("srun python t.py &\nwhile [ ! -f r ]; do sleep 9; done", {(4, "while")}),
}


@needs_sandbox
@pytest.mark.parametrize("name", KEPT)
def test_script_that_stays_one(name: str, tmp_path: Path) -> None:
    body, wanted = KEPT[name]
    made = made_of(tmp_path, body)
    assert yaml.safe_load(made.text) == {"name": "train", "script": "../train.sbatch", "code": {"src": ".."}}
    assert wanted <= reasons(made), reasons(made)
    assert "k1234567" not in made.text + "".join(made.notes)
    assert "resources.nodes" in [row.becomes for row in made.rows if row.what == "--nodes"]


@needs_sandbox
@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("#SBATCH --nodes=2-4\n", (2, "--nodes")),
        ("#SBATCH --ntasks=16\n", (3, "--ntasks")),
        ("#SBATCH -N2 -n3\n", (3, "--ntasks")),
        ("#SBATCH --gpus-per-task=1 --ntasks=4 -N2\n", (0, "the job")),
    ],
)
def test_header_that_only_a_script_can_have(header: str, reason: tuple[int, str], tmp_path: Path) -> None:
    made = made_of(tmp_path, "srun python t.py", f"#!/bin/bash\n{header}")
    assert yaml.safe_load(made.text)["script"] == "../train.sbatch"
    assert reason in reasons(made)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        (f"{HEAD}#SBATCH --array=1-3\nsrun python t.py\n", "line 3", "--array"),
        ("#!/bin/bash\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\nsrun python t.py\n", "line 3", "hetjob"),
        (HEAD.replace("\n", "\r\n") + "srun python t.py\r\n", "line 1", "dos2unix"),
        ("srun python t.py\n", "line 1", "first line"),
    ],
)
def test_refusal_names_line_and_reason(text: str, line: str, word: str, tmp_path: Path) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(RankzeroError) as raised:
        converted(str(script), str(tmp_path / "jobs"))
    assert line in str(raised.value) and word in str(raised.value)


@needs_sandbox
def test_arguments_and_variables_that_are_given(tmp_path: Path) -> None:
    body = "export OUT=$SCRATCH/out\nsrun python t.py --config $1 --home $HOME"
    assert (0, "$1") in reasons(made_of(tmp_path, body))
    asked = Asked(("8b.yaml",), {"SCRATCH": "/scratch/me", "HOME": "/home/me"})
    spec = yaml.safe_load(made_of(tmp_path, body, asked=asked).text)
    assert spec["command"] == ["t.py", "--config", "8b.yaml", "--home", "/home/me"]
    assert spec["env"] == {"OUT": "/scratch/me/out", "SCRATCH": "/scratch/me"}
    script = yaml.safe_load(made_of(tmp_path, f"{body}\ntouch x", asked=asked).text)
    assert script["script_args"] == ["8b.yaml"] and script["env"] == {"SCRATCH": "/scratch/me"}


@needs_sandbox
@pytest.mark.parametrize("more", ["", "touch x"])
def test_a_given_variable_that_is_a_secret_is_read_from_the_environment(tmp_path: Path, more: str) -> None:
    asked = Asked((), {"MY_TOKEN": "k1234567", "OTHER": "hf_abcdefghijkl"})
    text = made_of(tmp_path, f"srun python t.py\n{more}", asked=asked).text
    assert yaml.safe_load(text)["secrets"] == {name: {"from_env": name} for name in asked.variables or ()}
    assert "k1234567" not in text and "hf_abc" not in text


def test_argument_that_is_a_secret_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RankzeroError) as raised:
        made_of(tmp_path, "srun python t.py", asked=Asked(("--token", "k1234567")))
    assert "--token" in str(raised.value) and "k1234567" not in str(raised.value)


@needs_sandbox
def test_command_line_gives_arguments_and_variables(
    rankzero: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_of(tmp_path, 'srun python t.py "$1" $X')
    words = ("init", str(tmp_path), "--from", str(tmp_path / "train.sbatch"), "--arg", "a b", "--set", "X=1")
    assert rankzero(*words) == 0
    spec = yaml.safe_load((tmp_path / "jobs" / "train.yml").read_text(encoding="utf-8"))
    assert spec["command"] == ["t.py", "a b", "1"]
    assert rankzero("init", str(tmp_path), "--arg", "x") == 2
    assert rankzero(*words[:-1], "1X") == 2
    assert "--from" in capsys.readouterr().err


def test_without_a_sandbox_it_is_a_script_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_words: object) -> None:
        raise NoSandboxError("no namespaces")

    monkeypatch.setattr(recorder, "_answer", lambda _request: {"refused": "no namespaces"})
    made = made_of(tmp_path, "srun python t.py")
    assert yaml.safe_load(made.text)["script"] == "../train.sbatch"
    assert "no namespaces" in "".join(made.notes)


@pytest.mark.parametrize("first", ["#!/usr/bin/env python3", "#!/bin/zsh", "#!/bin/csh -f", "#!/usr/bin/perl"])
def test_script_of_another_language_is_a_script_job(first: str, tmp_path: Path) -> None:
    made = made_of(tmp_path, "print(1)", f"{first}\n#SBATCH -N 2\n")
    assert yaml.safe_load(made.text)["script"] == "../train.sbatch"
    assert (1, "the script") in reasons(made)
