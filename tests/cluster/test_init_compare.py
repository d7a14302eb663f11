# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero init --from SCRIPT --compare`: a script by plain sbatch and its job on the lab, and what differs."""

from __future__ import annotations

import pytest

from rankzero import errors
from tests.cluster.launching import Site
from tests.cluster.test_command import Person
from tests.unit.command.recorded import needs_sandbox

HEAD = "#!/bin/bash\n#SBATCH --job-name={name} --nodes=2 --ntasks-per-node=2 --cpus-per-task={cpus} --time=00:05:00\n"
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
    # The script itself as a job: its call outside of srun is noted, too.
    "of-a-script": (
        "for step in 1 2; do srun --ntasks=2 --ntasks-per-node=1 python3 train.py $step; done\npython3 train.py end"
    ),
}


@pytest.fixture
def person(site: Site, monkeypatch: pytest.MonkeyPatch) -> Person:
    monkeypatch.setenv("HF_TOKEN", VALUE)
    (site.folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    return Person(site)


def written(person: Person, name: str, body: str, cpus: int = 1) -> str:
    name = f"{name}-{person.site.token}"
    (person.site.folder / f"{name}.sbatch").write_text(f"{HEAD.format(name=name, cpus=cpus)}{body}\n", encoding="utf-8")
    return f"{name}.sbatch"


@needs_sandbox
@pytest.mark.parametrize("name", SAME)
def test_a_script_and_its_job_do_not_differ(person: Person, name: str) -> None:
    done = person.types(
        "init", "--from", written(person, name, SAME[name].replace("%s", VALUE)), "--compare", "--set", "MINE=x"
    )
    said = done.stdout + done.stderr
    assert done.returncode == errors.OK, said
    before, _line, after = done.stdout.partition(
        "compare: on the cluster of the inventory, one after the other, 2 nodes"
    )
    assert "written" in before and "no difference" in after, said


@needs_sandbox
def test_what_differs_is_listed_and_nothing_is_left(person: Person) -> None:
    """torchrun gives a rank one thread; a launch gives it its CPUs. No value of a secret is shown."""
    body = (
        f"export HF_TOKEN={VALUE}\nsrun --ntasks-per-node=1 --ntasks=2 torchrun --nnodes=2 --nproc-per-node=2 train.py"
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
