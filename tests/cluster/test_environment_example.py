# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example project as a user runs it, with real torch: this is the one test that downloads packages."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.examples import ALL_LINES
from tests.cluster.lab_user import LabUser
from tests.repository import BIN, ROOT

ANSIBLE_PLAYBOOK = str(BIN / "ansible-playbook")
#: A bound of waiting, for the slowest machine. Nothing is measured with it.
PROGRAM_SECONDS = 300


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy: a run leaves fetched logs beside the playbook."""
    copy = tmp_path / "first_run"
    shutil.copytree(ROOT / "examples" / "first_run", copy, ignore=shutil.ignore_patterns("runs", "__pycache__"))
    return copy


def start(lab: LabCluster, example: Path, *arguments: str, root: bool = False) -> subprocess.Popen[str]:
    user = LabUser(lab, root)
    roots = {name: f"{user.place('example')}/{name}" for name in ("state_root", "store_root")}
    where = ["-i", "inventory/lab.yml", *user.inventory(example)]
    command = [ANSIBLE_PLAYBOOK, *where, "train.yml", "-e", json.dumps({"launch_cluster": roots}), *arguments]
    environment = {**os.environ, **ALL_LINES, "RANKZERO_LAB": str(lab.dir)}
    return subprocess.Popen(
        command, cwd=example, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def train(lab: LabCluster, example: Path, *arguments: str, root: bool = False) -> subprocess.CompletedProcess[str]:
    playing = start(lab, example, *arguments, root=root)
    try:
        said, _ = playing.communicate(timeout=900)
    finally:
        playing.kill()
    return subprocess.CompletedProcess(playing.args, playing.returncode, said, "")


def test_the_example_trains_and_proves_it(lab: LabCluster, example: Path) -> None:
    """By its own playbook, under torchrun. Under srun the same job trains in tests/cluster/test_launch_user.py."""
    done = train(lab, example, "-e", "nodes=2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"step \d+/60 loss \d\.\d+ tokens/s \d+", done.stdout)
    # Its log has a time with each step, so the card knows what the time went to.
    (kept,) = example.glob("runs/first-run/*/1/ledger.json")
    hours = json.loads(kept.read_text(encoding="utf-8"))["ledger"]["sentence"]
    assert "% steps" in hours and "% start-up" in hours and "running" not in hours and hours in done.stdout

    (path,) = (lab.shared / "example" / "state_root" / "runs" / "first-run").glob("*/1/work/result.json")
    result = json.loads(path.read_text(encoding="utf-8"))
    shutil.rmtree(path.parents[4])
    assert result["first_loss"] > 5 > 3 > result["loss"]
    assert (result["world_size"], result["rank_sum"]) == (4, 0 + 1 + 2 + 3)
    assert result["parameters_identical"] and len(result["parameter_hashes"]) == 4
    assert sorted(set(result["hosts"])) == lab.nodes[:2]


@pytest.mark.more
def test_the_parts_of_the_program(lab: LabCluster, example: Path, tmp_path: Path) -> None:
    """In the environment that the example builds; what pytest needs comes from the tests' own. Launches show that the
    parts do what they must; this shows which one does not.
    """
    store = lab.shared / "example" / "store_root" / "environments"
    if not list(store.glob("*/environment.sqsh")):
        done = train(lab, example, "-e", "nodes=1")
        assert done.returncode == 0, done.stdout + done.stderr
    (file,) = store.glob("*/environment.sqsh")
    unpacked = tmp_path / "environment"
    subprocess.run(["unsquashfs", "-q", "-n", "-d", unpacked, file], check=True, stdout=subprocess.DEVNULL)
    python = unpacked / "bin" / "python"
    said = tmp_path / "said"
    command = [python, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=240"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(pytest.__file__).parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        # Threads of torch that wait for each other by spinning take a busy machine's processors from each other.
        "OMP_NUM_THREADS": "1",
    }
    # Into a file, which is there to be read when it does not end.
    with said.open("w") as output:
        inner = subprocess.Popen(
            [*command, ROOT / "tests" / "cluster" / "first_run_program.py"],
            cwd=example, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        rc = inner.wait(PROGRAM_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the tests of the program hang:\n{said.read_text()}", pytrace=False)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(inner.pid, signal.SIGKILL)  # with the ranks that it has started
    shutil.rmtree(unpacked)
    text = said.read_text(encoding="utf-8")
    assert rc == 0, text
    assert re.search(r"\b7 passed\b", text) and "skipped" not in text, text


@pytest.mark.more
def test_it_trains_in_an_image_that_it_builds(lab: LabCluster, example: Path) -> None:
    """A Debian base without any registry: one file, which crun's container mounts on each node, without a route out. By
    root: a suite needs subordinate user ids, which this machine gives nobody.
    """
    if lab.way != "realistic":
        pytest.skip("in a lab of the simple way nobody is root: the image is built in tests/integration/test_image.py")
    for command in ("mmdebstrap", "tar2sqfs", "squashfuse", "crun"):
        if lab.node(lab.nodes[0], ["sh", "-c", f"command -v {command}"], check=False).returncode:
            pytest.skip(f"the lab's root of Slurm {lab.lab.slurm} has no {command}")
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    job = example / "jobs" / "first_run.yml"
    built = f"container: {{runtime: oci, build: {{suite: {suite}, packages: [python3]}}}}\n"
    job.write_text(job.read_text(encoding="utf-8") + built, encoding="utf-8")
    images = lab.shared / "example-root" / "store_root" / "images"
    shutil.rmtree(images, ignore_errors=True)  # of a lab that is kept
    planned = train(lab, example, "--check", "-e", "nodes=2", root=True)
    assert planned.returncode == 0 and re.search(r"to be built first: .*image", planned.stdout), planned.stdout
    assert not images.exists()
    done = train(lab, example, "-e", "nodes=2", root=True)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = lab.shared / "example-root" / "state_root" / "runs" / "first-run"
    (run,) = runs.glob("*/1")
    result = json.loads((run / "work" / "result.json").read_text(encoding="utf-8"))
    assert result["world_size"] == 4 and result["parameters_identical"]
    (ref,) = [ref for ref in json.loads((run / "launch.json").read_text())["refs"] if ref["kind"] == "image"]
    record = json.loads((images / ref["key"] / "image.json").read_text())
    assert record["inputs"]["suite"] == suite and record["way"]["engine"] is None
    assert f"--image={ref['path']}/image.sqsh" in (run / "job.sbatch").read_text()
    table = (run / "preflight" / "0" / "table").read_text().splitlines()
    assert len([line for line in table if "image=ok" in line and "oci=ok" in line]) == 2, table
    # The same again has its result, and asks for nothing to be built.
    again = train(lab, example, "-e", "nodes=2", root=True)
    shutil.rmtree(runs)
    assert again.returncode == 0 and "nothing to do" in again.stdout, again.stdout
    for node in lab.nodes[:2]:
        left = lab.node(node, ["sh", "-c", "ps -eo args; cat /proc/mounts"]).stdout
        assert "image.sqsh" not in left and "fuse.squashfuse" not in left


@pytest.mark.parametrize("launcher", ["torchrun", pytest.param("srun", marks=pytest.mark.more)])
def test_told_before_its_time_limit_it_goes_on_at_the_very_step(lab: LabCluster, example: Path, launcher: str) -> None:
    job = example / "jobs" / "first_run.yml"
    asked = "checkpoint: {signal_before_end: 60, requeue: true, progress: checkpoint.pt}\n"
    # One rank a node: the ranks of two nodes have to agree on the step, and each takes its seconds to import torch.
    changes = {"--steps, 60": "--steps, 400", "ranks_per_node: 2": "ranks_per_node: 1"}
    text = job.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    job.write_text(text + asked, encoding="utf-8")
    playing = start(lab, example, "-e", "nodes=2", "-e", f"launcher={launcher}")
    try:
        runs = lab.shared / "example" / "state_root" / "runs" / "first-run"
        lab.wait_until(lambda: "step 20/" in _rank_0(runs, 0), 600, "the job trains")
        (run,) = runs.glob("*/1")
        job_id = json.loads((run / "started.json").read_text(encoding="utf-8"))["job_id"]
        # What Slurm does before the time limit.
        lab.head(["scancel", "--batch", "--signal=USR2", job_id])
        said, _ = playing.communicate(timeout=300)
    finally:
        playing.kill()
    assert playing.returncode == 0, said
    (saved,) = re.findall(r" saved checkpoint at step (\d+)$", _rank_0(runs, 0), re.MULTILINE)
    (resumed,) = re.findall(r" resumed at step (\d+)$", _rank_0(runs, 1), re.MULTILINE)
    assert 20 <= int(saved) == int(resumed) < 400
    result = json.loads((run / "work" / "result.json").read_text(encoding="utf-8"))
    shutil.rmtree(runs)
    assert (result["steps"], result["world_size"]) == (400, 2) and result["parameters_identical"]


def _rank_0(runs: Path, attempt: int) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in runs.glob(f"*/1/logs/{attempt}/rank-0000.log"))


def test_the_plan_shows_on_an_empty_store(lab: LabCluster, example: Path) -> None:
    done = train(lab, example, "--check", "--diff", "-e", "nodes=3", "-e", "time=00:07:00")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 nodes x 2 ranks = 6 ranks by torchrun" in done.stdout
    assert "+resources.nodes: 3" in done.stdout
    assert not list((lab.shared / "example" / "state_root").glob("runs/first-run/*"))
