# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --from SCRIPT --compare`: a script by plain sbatch and its job on the lab, and what differs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from rankzero import errors
from tests.cluster.launching import CANCEL_SECONDS, JOB_SECONDS, PLAY_SECONDS, Play, Site
from tests.cluster.test_command import Person
from tests.repository import ROOT, leaving
from tests.stand_ins import PYXIS_SRUN, apptainer, command, squashfs
from tests.unit.command.sbatch.recorded import needs_sandbox

HEAD = (
    "#!/bin/bash\n"
    "#SBATCH --job-name={name} --nodes={nodes} --ntasks-per-node=2 --cpus-per-task={cpus} --time=00:05:00\n"
)
PROGRAM = "raise SystemExit('a program that is only noted has run')\n"
VALUE = "correct-horse-battery"
#: Lines of a script, and what the comparison says of them.
SAME = {
    "of-srun": 'export LR=1e-4 HF_TOKEN=%s RUN=$MINE\nsrun python3 -u train.py --steps 60 "two words"',
    "of-torchrun": (
        "export OMP_NUM_THREADS=1\n"
        "srun --ntasks-per-node=1 --ntasks=2 torchrun --nnodes=2 --nproc-per-node=2 "
        "--rdzv-backend=c10d --rdzv-endpoint=$(scontrol show hostnames | head -n1):29400 train.py --steps 60"
    ),
    "of-accelerate": (
        "export OMP_NUM_THREADS=1\naccelerate launch --multi_gpu --num_machines 1 --num_processes 2 train.py 60"
    ),
    "of-deepspeed": "export OMP_NUM_THREADS=1\ndeepspeed --num_nodes 1 --num_gpus 2 --no_local_rank train.py 60",
    "of-shell": (
        "export HEAD=$(scontrol show hostnames | head -n1)\n"
        "srun --ntasks-per-node=1 --ntasks=2 bash -c 'accelerate launch --num_machines 2 --num_processes 4 "
        "--machine_rank $SLURM_PROCID --main_process_ip $HEAD --main_process_port 29500 train.py --steps 60'"
    ),
    # The script itself as a job, on nodes and a port of its own, with launchers that start the ranks of all nodes.
    "of-its-nodes": (
        "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 1000)) HEAD=$(scontrol show hostnames | head -n1)\n"
        'srun --nodelist="$SLURM_JOB_NODELIST" python3 train.py --to $HEAD:$MASTER_PORT --on $SLURM_JOB_NODELIST\n'
        "mpirun -np 4 --host $HEAD python3 train.py; deepspeed --num_nodes 2 --num_gpus 2 train.py"
    ),
    # The script itself as a job: its call outside of srun is noted, too.
    "of-a-script": (
        "for step in 1 2; do srun --ntasks=2 --ntasks-per-node=1 python3 train.py $step; done\npython3 train.py end"
    ),
}


#: Left to `make test-all`: what they are translated to is recorded in tests/unit/command/sbatch, and what is noted of a
#: start by srun, by a script and (what differs) by torchrun is compared here.
MORE = ("of-torchrun", "of-accelerate", "of-deepspeed", "of-shell", "of-its-nodes", "of-apptainer")
#: On a single node: there they need no number of it.
OF_A_NODE = ("of-accelerate", "of-deepspeed")


@pytest.fixture
def person(site: Site, monkeypatch: pytest.MonkeyPatch) -> Person:
    monkeypatch.setenv("HF_TOKEN", VALUE)
    (site.folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    return Person(site)


def written(person: Person, name: str, body: str, cpus: int = 1) -> str:
    nodes = 1 if name in OF_A_NODE else 2
    name = f"{name}-{person.site.token}"
    (person.site.folder / f"{name}.sbatch").write_text(
        f"{HEAD.format(name=name, cpus=cpus, nodes=nodes)}{body}\n", encoding="utf-8"
    )
    return f"{name}.sbatch"


@needs_sandbox
@pytest.mark.parametrize("name", leaving(SAME, MORE))
def test_a_script_and_its_job_do_not_differ(person: Person, name: str) -> None:
    done = person.types(
        "init", "--from", written(person, name, SAME[name].replace("%s", VALUE)), "--compare", "--set", "MINE=x"
    )
    said = done.stdout + done.stderr
    assert done.returncode == errors.OK, said
    if name in OF_A_NODE:
        written_job = (person.site.folder / "jobs" / f"{name}-{person.site.token}.yml").read_text(encoding="utf-8")
        assert f"kind: {name.removeprefix('of-')}" in written_job, written_job
    before, _line, after = done.stdout.partition("compare: on the cluster of the inventory, one after the other, ")
    assert "written" in before and "no difference" in after, said


@needs_sandbox
def test_an_interrupted_comparison_leaves_no_job_and_no_folder(person: Person) -> None:
    """Ctrl-C while the plain job runs: it waits for a file that never comes."""
    site, state = person.site, person.site.host_path(person.site.state_root)
    body = "srun python3 train.py\n[[ $PWD != */comparisons/* ]] || until [ -e go ]; do sleep 0.1; done"
    script = written(person, "stopped", body)
    argv = [sys.executable, "-m", "rankzero", "init", "--from", script, "--compare"]
    play = Play(argv, site.folder, {**os.environ, "PYTHONPATH": str(ROOT / "python")}, site.folder / "unused")
    try:
        site.lab.wait_until(lambda: below(site, state), JOB_SECONDS, "the plain job runs")
        (plain,) = below(site, state)
        play.signal(signal.SIGINT)
        code = play.process.wait(PLAY_SECONDS)
    finally:
        if play.process.poll() is None:
            play.signal(signal.SIGKILL)
    assert code == errors.INTERRUPTED, play.output
    assert "interrupted" in play.output
    site.lab.wait_until(lambda: not below(site, state), CANCEL_SECONDS, f"the end of job {plain}")
    assert not list((state / "comparisons").iterdir()), play.output


def below(site: Site, state: Path) -> list[str]:
    """The running jobs in the folders of comparisons."""
    listed = site.lab.head(["squeue", "--noheader", "--states=RUNNING", "--format=%A %Z"]).stdout
    inside = f"{site.state_root}/comparisons/"
    return [line.split()[0] for line in listed.splitlines() if inside in line]


@needs_sandbox
def test_what_differs_is_listed_and_nothing_is_left(person: Person) -> None:
    """torchrun gives a rank one thread; a launch gives it its CPUs. No value of a secret is shown."""
    body = (
        f"export HF_TOKEN={VALUE}\nsrun --ntasks-per-node=1 --ntasks=2 torchrun --nnodes=2 --nproc-per-node=2 "
        "--rdzv-backend=c10d --rdzv-endpoint=$(scontrol show hostnames | head -n1):29400 train.py"
    )
    script = written(person, "differs", body, cpus=4)
    name, state = script.removesuffix(".sbatch"), person.site.host_path(person.site.state_root)
    done = person.types("init", "--from", script, "--compare")
    said = done.stdout + done.stderr
    assert done.returncode == errors.FAILED, said
    assert "python, ranks 0, 1, 2, 3: OMP_NUM_THREADS: sbatch '1'; the job '2'" in done.stdout, said
    assert VALUE not in said
    assert not list((state / "comparisons").iterdir())
    # It stands for no result of the job itself.
    assert [path.name for path in (state / "runs").iterdir()] == [f"{name}-compare"]


#: How a script starts its program in an image, and further lines of it.
IN_IMAGES = {
    "of-pyxis": (
        "srun --container-image={image} --container-mount-home --container-mounts=/etc:/data --container-workdir=/usr",
        "",
    ),
    "of-apptainer": ("srun apptainer exec --bind=/etc:/data --pwd=/usr {image}", ""),
    "of-a-script": (
        "srun --container-image={image} --container-workdir=/usr",
        "\napptainer exec --pwd=/usr {image} python3 -m end > by-the-script",
    ),
}


@needs_sandbox
@pytest.mark.parametrize("name", leaving(IN_IMAGES, MORE))
def test_a_script_and_its_job_do_not_differ_in_an_image(site: Site, name: str) -> None:
    """Under stand-ins for pyxis and apptainer. The image has another PATH; its programs find the stand-ins there."""
    tools, image = f"{site.state_root}.tools", f"{site.state_root}.sqsh"
    command(site.host_path(tools), "srun", PYXIS_SRUN)
    apptainer(site.host_path(tools))
    squashfs(site.host_path(image), {"PATH": "/usr/bin:/bin", "INSIDE": "torch"})
    profile_file = site.lab.shared / "home" / profile.USER / ".bash_profile"
    profile_file.write_text(f"PATH={tools}:$PATH\n", encoding="utf-8")
    site.user.give(site.host_path(tools), site.host_path(image), profile_file)
    shell = site.shell("with-containers", f'PATH="{tools}:$PATH" exec "$LAB_SHELL" "$@"')
    setup = {"commands": [f"export PATH={tools}:$PATH"]}
    person = Person(site, ansible_shell_executable=shell, launch_cluster={**site.cluster, "setup": setup})
    (site.folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    start, more = (text.replace("{image}", image) for text in IN_IMAGES[name])
    script = written(person, name, f"{start} bash -c 'python3 train.py $INSIDE $SLURM_PROCID'{more}")
    try:
        done = person.types("init", "--from", script, "--compare")
    finally:
        profile_file.unlink()
    said = done.stdout + done.stderr
    job = (site.folder / "jobs" / script.replace(".sbatch", ".yml")).read_text(encoding="utf-8")
    assert ("container:" in job) == (not more), job
    calls = 5 if more else 4
    assert done.returncode == errors.OK and f"compare: {calls} calls of programs, no difference" in done.stdout, said
