# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sbatch scripts of the projects behind the examples, from their own checkouts (tests/checkouts.py): launched as
they are, and compared call by call with plain sbatch.

Only what their users fill in is filled in: placeholders, an image, and options of the cluster on the command line of
sbatch. Stand-ins: the programs that need GPUs or packages, and for Megatron Bridge srun, whose image is not here.
"""

from __future__ import annotations

import functools
import itertools
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from tests import checkouts
from tests.cluster.both_ways import BothWays, Script
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site
from tests.cluster.test_script_jobs import CORPUS
from tests.repository import ROOT

pytestmark = pytest.mark.more

STAND_INS = "stand-ins"
PATH = f"./{STAND_INS}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
SMALL = ("--partition=batch", "--account=research", "--time=10", "--mem=1G", "--cpus-per-task=1")
#: What the scripts' own lines choose anew in each job.
RANDOM = "MASTER_(ADDR|PORT)|GPT_(GLOBAL_SEED|NVIDIA_SMI_DMON_PID)"
NODES = re.compile(r"^#SBATCH --nodes=(\d+)", re.M)
HEADER = re.compile(r"^#SBATCH ", re.M)
BRIDGE_SCRIPT = re.compile(r"(/slurm_\w+|/launch_with_sbatch)\.sh$")
#: What scripts of Megatron Bridge ask their user's shell for.
BRIDGE_SETTINGS = {
    "CONTAINER_IMAGE": "/images/bridge.sqsh",
    "WANDB_MODE": "disabled",
    "DCLM_DATA_DIR": "/data/dclm",
    "BLEND_PATHS": "/data/dclm/part",
    "HF_TOKEN": "not-a-token",
}
#: The launcher that side_shell_pr.sh of the CPU lab writes, and the program that it starts.
TINY_LAUNCHER, TINY_PROGRAM = "launch_tiny.sh", "labs/tiny/train_tiny.py"
#: The program of a rank: notes its call where it works.
PROGRAM = """import json, os, sys, uuid
os.makedirs("calls", exist_ok=True)
call = {"program": os.path.basename(__file__), "arguments": sys.argv[1:], "folder": os.getcwd()}
with open(f"calls/{uuid.uuid4()}.json", "w") as stream:
    json.dump({**call, "environment": dict(os.environ)}, stream)
"""
NVIDIA_SMI = '#!/bin/sh\n[ "$1" != dmon ] || exec sleep 60\necho NVIDIA H800\n'


def stand_ins(folder: Path, *programs: str, **scripts: str) -> Path:
    """Put stand-ins into a checkout: programs that note their calls, and `scripts` by their text."""
    place = folder / STAND_INS / "bin"
    place.mkdir(parents=True)
    for logs in ("logs", "slurm_logs"):
        # Slurm does not make the folder of --output, and ends the job.
        (folder / logs).mkdir(exist_ok=True)
        (folder / logs / ".keep").touch()
    shutil.copy(CORPUS / "bin" / "call", place)
    for program in programs:
        (place / program).symlink_to("call")
    for name, said in scripts.items():
        (place / name.replace("_", "-")).write_text(said, encoding="utf-8")
        (place / name.replace("_", "-")).chmod(0o755)
    return folder


def script(
    folder: Path,
    path: str,
    *options: str,
    arguments: tuple[str, ...] = (),
    in_place: bool = False,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Script:
    """A script of the folder by its path, or, with "", one that the options say (--wrap)."""
    line = ("sbatch", *SMALL, *options, *filter(None, [path]), *arguments)
    # The CPU lab's script ends where it is not set.
    known = {"PATH": PATH, "PYTHONPATH": "/nothing", **environment}
    return Script(folder, line, path, in_place, known, random=RANDOM, noted=STAND_INS)


def filled_in(folder: Path, values: Mapping[str, str], *patterns: str) -> None:
    """Fill in what the authors leave to their users: `values` is regular expression -> text."""
    for path in (path for pattern in patterns for path in folder.glob(pattern)):
        said = path.read_text(encoding="utf-8")
        for pattern, value in values.items():
            said = re.sub(pattern, value, said)
        path.write_text(said, encoding="utf-8")


def kempnerforge(folder: Path) -> dict[str, Script]:
    checkouts.unpacked(checkouts.KEMPNERFORGE, folder, "HEAD", "scripts", "configs")
    # No node of the lab has a feature: the line for one is removed, the others are overridden on the command line.
    filled_in(folder, {"(?m)^#SBATCH --constraint=.*\n": ""}, "scripts/slurm/*.sh")
    stand_ins(folder, "uv")
    two = ("--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=2")
    more = ("--train.max_steps=1000", "--optimizer.lr=1e-4")
    return {
        "singlenode": script(
            folder, "scripts/slurm/singlenode.sh", "--gpus-per-node=2", arguments=("configs/train/7b.toml", *more)
        ),
        "multinode": script(folder, "scripts/slurm/multinode.sh", *two, arguments=("configs/train/debug.toml", *more)),
        "7b_requeue": script(folder, "scripts/slurm/7b_requeue.sh", *two, arguments=more),
        "13b_validation": script(folder, "scripts/slurm/13b_validation.sh", *two),
    }


def megatron_lm(folder: Path) -> dict[str, Script]:
    """The script of the skill's page, saved in the worktree as the page says."""
    page = checkouts.text(checkouts.MEGATRON, "skills/mcore-run-on-slurm/SKILL.md")
    blocks = re.findall(r"```(?:bash|sh|slurm)?\n(.*?)```", page, re.DOTALL)
    (body,) = [block for block in blocks if "torch.distributed.run" in block and "<MEGATRON_ARGS>" in block]
    folder.mkdir()
    (folder / "run_megatron.slurm").write_text(body, encoding="utf-8")
    values = {
        "<SLURM_ACCOUNT>": "research",
        "<SLURM_PARTITION>": "batch",
        "<NODES>": "2",
        "<HH:MM:SS>": "00:10:00",
        "<MEGATRON_WORKTREE>": '"$SLURM_SUBMIT_DIR"',
        "<GPUS_PER_NODE>": "2",
        "<MEGATRON_ARGS>": "--num-layers 2 --mock-data",
    }
    filled_in(folder, values, "run_megatron.slurm")
    stand_ins(folder, "uv")
    return {
        "run_megatron": script(folder, "run_megatron.slurm", "--nodes=2", "--gpus-per-node=2", "--ntasks-per-node=1")
    }


def cpu_lab(folder: Path) -> dict[str, Script]:
    kept = (
        "labs",
        "scripts",
        "run_labs45_tiny_final.sbatch",
        "Cluster/Project 2 - Course Project/submit_opt27b_pp.sbatch",
    )
    checkouts.unpacked(checkouts.CPU_LAB, folder, "HEAD", *kept, "Cluster/Project 2 - Course Project/run_node.sh")
    # Its environment is at a path of the author's home.
    filled_in(folder, {r"(?m)^source ~/llamaenv_local/bin/activate$": "true"}, "run_labs45_tiny_final.sbatch")
    stand_ins(folder, "torchrun", "python", "python3.11", "zip")
    sizes = ("--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=4")
    return {
        "launch_tiny": replace(script(folder, tiny_launcher(folder), *sizes), noted=""),
        "slurm_job": script(folder, "scripts/slurm_job.sh", "--nodes=2", "--ntasks-per-node=2"),
        "run_labs45_tiny_final": script(folder, "run_labs45_tiny_final.sbatch"),
        # It names no program in its first line, and its page runs it by bash.
        "req": script(folder, "", "--wrap=bash labs/tiny/req.sh"),
    }


def tiny_launcher(folder: Path) -> str:
    """The launcher of its tiny model, which its file writes to the user's home, with the folders of this user; its path
    below `folder`. The launcher starts login shells, with a PATH of their own: the packages are stand-ins, and the
    program notes its calls.
    """
    path = "labs/tiny/side_shell_pr.sh"
    written = re.search(r"<<'BASH'\n(.*?)^BASH$", checkouts.text(checkouts.CPU_LAB, path), re.M | re.S)
    assert written
    (folder / TINY_LAUNCHER).write_text(written[1], encoding="utf-8")
    values = {
        r'"\$HOME/mrmito/project"': '"$SLURM_SUBMIT_DIR"',
        r'"\$HOME/offline_repo_py311"': f'"$SLURM_SUBMIT_DIR/{STAND_INS}"',
        # Jobs at once may share nodes.
        "MASTER_PORT=29500": "MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))",
        r"/tmp/(_sanity|_run_wrapper)\.py": r"/tmp/\1_$SLURM_JOB_ID.py",
    }
    filled_in(folder, values, TINY_LAUNCHER)
    packages = folder / STAND_INS / "pkgs"
    shutil.copytree(ROOT / "tests" / "frameworks" / "torch", packages / "torch")
    for path in ("torch/__init__.py", "transformers.py", "numpy.py", "datasets.py"):
        with (packages / path).open("a", encoding="utf-8") as stream:
            stream.write("__version__ = '1.0'\n")
    (folder / TINY_PROGRAM).write_text(PROGRAM, encoding="utf-8")
    return TINY_LAUNCHER


def enroot_scripts(folder: Path) -> list[str]:
    """Its scripts and what they find beside themselves, and the words of its own command line."""
    place = "examples/cross-node-dl-slurm-script"
    checkouts.unpacked(checkouts.ENROOT_SITE, folder, "HEAD", place)
    for path in (folder / place).iterdir():
        path.chmod(0o755)
        path.rename(folder / path.name)
    for path in (".venv/bin/activate", "data/redpajama-1t-llama/part", "out/slurm/.keep"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    stand_ins(folder, "python", "python3", "module", nvidia_smi=NVIDIA_SMI)
    said = (folder / "submit-line.sh").read_text(encoding="utf-8")
    line = shlex.split(said[said.rindex("\nsbatch ") :].replace("\\\n", " "), comments=True)
    assert line[0] == "sbatch" and line[-1].endswith("prelaunch.sh")
    return line


def enroot_site(folder: Path) -> dict[str, Script]:
    """Its own command line without the options of the image, which the lab's Slurm does not know
    (test_projects_enroot.py has these).
    """
    line = enroot_scripts(folder)
    size = ("--nodes=2", "--gpus-per-node=2", "--ntasks-per-node=2")
    return {"prelaunch": script(folder, line[-1].removeprefix("./"), *size, in_place=True)}


def megatron_bridge(folder: Path, release: str) -> dict[str, Script]:
    """Every sbatch script of a release, and the full template of its page with both bodies."""
    listed = [path for path in checkouts.files(checkouts.BRIDGE, release) if BRIDGE_SCRIPT.search(path)]
    paths = [path for path in listed if HEADER.search(checkouts.text(checkouts.BRIDGE, path, release))]
    checkouts.unpacked(checkouts.BRIDGE, folder, release, *paths, "scripts/training")
    templates = with_both_bodies(folder, release)
    values = {
        r'(?m)^CONTAINER_IMAGE=("")?$': 'CONTAINER_IMAGE="/images/bridge.sqsh"',
        r'(?m)^CONTAINER_MOUNTS=("")?$': 'CONTAINER_MOUNTS="/data:/data /workspace:/workspace"',
    }
    filled_in(folder, values, *paths)
    stand_ins(folder, "srun")
    scripts = {}
    for path in [*paths, *templates]:
        nodes = NODES.search((folder / path).read_text(encoding="utf-8"))
        # srun is a stand-in: only the header has to fit the eight nodes of the lab.
        size = () if nodes and int(nodes[1]) <= 8 else ("--nodes=1",)
        name = re.sub(r"[^A-Za-z0-9]+", "-", path)
        scripts[name] = script(folder, path, *size, environment=BRIDGE_SETTINGS)
    return scripts


def with_both_bodies(folder: Path, release: str) -> list[str]:
    """The files of the page's template: one for each body."""
    pages = [path for path in checkouts.files(checkouts.BRIDGE, release, "skills") if "multi-node-slurm" in path]
    said = "\n".join(checkouts.text(checkouts.BRIDGE, path, release) for path in pages if path.endswith(".md"))
    blocks = re.findall(r"```bash\n(.*?)```", said, re.DOTALL)
    templates = [block for block in blocks if "<TRAINING_COMMAND_HERE>" in block]
    first = ("rm -rf nemo_experiments", "PYTHONPATH=")
    bodies = sorted({block for block in blocks if block.startswith(first) and "torch.distributed.run" in block})
    values = {"<SHARED_FS>": "$HOME/shared", "<YOUR_ACCOUNT>": "research", "<NNODES>": "2", r"\.\.\.\w+\.\.\.": "a=b"}
    made = []
    for template, (number, body) in itertools.product(templates[:1], enumerate(bodies)):
        text = template.replace("<TRAINING_COMMAND_HERE>", body.rstrip())
        # Slurm reads no variables in its options.
        text = re.sub(r"(?m)^#SBATCH --output=.*$", "#SBATCH --output=logs/template_%j.log", text)
        for placeholder, value in values.items():
            text = re.sub(placeholder, value, text)
        made.append(f"template-{number}.sh")
        (folder / made[-1]).write_text(re.sub(r"<([\w-]+)>", r"\1", text), encoding="utf-8")
    return made


PROJECTS = {
    "KempnerForge": (kempnerforge, 4),
    "Megatron-LM": (megatron_lm, 1),
    "CPU lab": (cpu_lab, 4),
    "Enroot site": (enroot_site, 1),
    **{
        f"Megatron Bridge {release}": (functools.partial(megatron_bridge, release=release), 15)
        for release in checkouts.BRIDGE_RELEASES
    },
}


@pytest.fixture(scope="module", params=sorted(PROJECTS))
def project(
    request: pytest.FixtureRequest, lab: LabCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BothWays, int]]:
    if lab.way != "realistic":
        pytest.skip("users of their own need root on this machine")
    made, least = PROJECTS[request.param]
    scripts = made(tmp_path_factory.mktemp("checkout") / "project")
    site = Site(lab, tmp_path_factory.mktemp("projects"), "projects")
    yield BothWays(site, scripts), least
    site.close()


def test_its_own_scripts_do_what_they_do_under_sbatch(project: tuple[BothWays, int]) -> None:
    """A script that wants more than is here and ends before it calls anything has to end with the same code."""
    both, least = project
    made, wrong = {}, {}
    for name in both.scripts:
        try:
            made[name] = both.compare(name)
        except AssertionError as problem:
            wrong[name] = str(problem)
    idle = sorted(name for name, count in made.items() if not count)
    print(f"{len(made)} of {len(both.scripts)} scripts do the same; of these, without a call: {idle}")
    assert not wrong, "\n".join(f"{name}: {problem}" for name, problem in wrong.items())
    assert len(made) - len(idle) >= least
