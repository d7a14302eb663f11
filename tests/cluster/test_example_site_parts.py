# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site declares in its inventory, with the real programs that this machine can have: examples/site_parts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import charliecloud, images
from tests.cluster.conftest import LabCluster
from tests.cluster.examples import EXAMPLES, Example, read_json
from tests.unpacked import Unavailable

DECLARED = ("launchers", "containers", "trackers", "artifact_formats")


def declared() -> dict[str, Any]:
    """What the example's inventory adds to the collection."""
    text = (EXAMPLES / "site_parts" / "inventory" / "cluster.yml").read_text(encoding="utf-8")
    (host,) = yaml.safe_load(text)["slurm_login"]["hosts"].values()
    return {name: host["launch_cluster"][name] for name in DECLARED}


@pytest.fixture
def example(lab: LabCluster, tmp_path: Path) -> Iterator[Example]:
    made = Example(lab, "site_parts", tmp_path, **declared())
    yield made
    made.remove()


@pytest.fixture
def tools(lab: LabCluster, example: Example) -> Iterator[Path]:
    folder = lab.shared / "site_parts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    example.user.give(folder)
    yield folder
    shutil.rmtree(folder)


def test_a_launcher_of_the_site_starts_the_ranks(example: Example) -> None:
    example.edit("count.py", {'"host": os': '"nice": os.nice(0), "host": os'})
    done = example.play("-e", "job=jobs/gentle.yml")
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("site-gentle")
    ranks = [read_json(run / "work" / f"rank-{rank}.json") for rank in range(4)]
    assert [(rank["LOCAL_RANK"], rank["NODE_RANK"], rank["WORLD_SIZE"]) for rank in ranks] == [
        ("0", "0", "4"), ("1", "0", "4"), ("0", "1", "4"), ("1", "1", "4"),
    ]  # fmt: skip
    assert {rank["nice"] for rank in ranks} == {5}
    record = read_json(run / "launch.json")["launcher"]
    assert (record["kind"], record["command"]) == ("gentle", declared()["launchers"]["gentle"]["command"])


def test_a_real_charliecloud_holds_the_ranks(example: Example, tools: Path, lab: LabCluster) -> None:
    inside = f"{lab.shared_inside}/site_parts"
    try:
        line = charliecloud.install(tools, inside)
    except Unavailable as reason:
        pytest.skip(f"no Charliecloud here: {reason}")
    root = images.root_folder(tools / "image")
    # Charliecloud mounts the node's own over them.
    for name in ("group", "hosts", "resolv.conf"):
        (root / "etc" / name).touch()
    # Where it finds no folder to mount on, it makes one.
    example.user.give(root)
    example.cluster["setup"] = {"commands": [line]}
    asked = {"container.image": f"{inside}/image"}
    done = example.play("-e", "job=jobs/charliecloud.yml", launch_overrides=asked)
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("site-charliecloud")
    ranks = [read_json(run / "work" / f"rank-{rank}.json") for rank in range(4)]
    assert [rank["NODE_RANK"] for rank in ranks] == ["0", "0", "1", "1"]
    assert all(rank["in_the_image"] for rank in ranks)
    record = json.loads((run / "launch.json").read_text(encoding="utf-8"))
    assert record["container"]["commands"] == ["ch-run"] and "launcher" not in record


def test_an_image_that_charliecloud_cannot_start_is_named_before_the_ranks(
    example: Example, tools: Path, lab: LabCluster
) -> None:
    inside = f"{lab.shared_inside}/site_parts"
    try:
        line = charliecloud.install(tools, inside)
    except Unavailable as reason:
        pytest.skip(f"no Charliecloud here: {reason}")
    (tools / "image").mkdir()
    example.cluster["setup"] = {"commands": [line]}
    done = example.play("-e", "job=jobs/charliecloud.yml", launch_overrides={"container.image": f"{inside}/image"})
    assert done.returncode != 0
    assert "container.image" in done.stdout and "has neither bin nor usr" in done.stdout
    assert example.runs("site-charliecloud") == []


def test_a_tracker_has_one_run_of_a_launch_that_is_requeued(example: Example, tools: Path, lab: LabCluster) -> None:
    record = example.cluster["trackers"]["ledger"]
    record["variables"]["LEDGER_FILE"] = f"{lab.shared_inside}/site_parts/{{project}}.jsonl"
    log = '    ledger.log({"step": step, "loss": 1 / (1 + step)})\n'
    requeued = [
        '    if step == 1 and os.environ["RANKZERO_ATTEMPT"] == "0":\n',
        '        os.system("scontrol requeue $SLURM_JOB_ID && sleep 600")\n',
    ]
    example.edit("tracked.py", {log: log + "".join(requeued)})
    done = example.play("-e", "job=jobs/tracked.yml")
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("site-tracked")
    rows = [json.loads(line) for line in (tools / "counting.jsonl").read_text(encoding="utf-8").splitlines()]
    manifest, outcome = read_json(run / "launch.json"), read_json(run / "outcome.json")
    name = f"site-tracked-{manifest['key'][:16]}"
    assert [(row["run"], row["group"], row["step"]) for row in rows] == [(f"{name}-1", name, step) for step in range(4)]
    place = f"{lab.shared_inside}/site_parts/counting.jsonl"
    assert outcome["attempt"] == 1
    assert outcome["trackers"] == [{"tracker": "ledger", "run": f"{name}-1", "place": place}]
    assert manifest["trackers"][0]["variables"][0]["name"] == "LEDGER_FILE"


def test_a_program_of_the_site_judges_the_artifact(example: Example) -> None:
    done = example.play("-e", "job=jobs/spectrum.yml")
    assert done.returncode == 0, done.stdout
    (run,) = example.runs("site-spectrum")
    report = read_json(run / "outcome.json")["artifact"]
    assert (report["valid"], report["scalars"]) == (True, {"numbers": 3, "largest": 1.0})
    assert (
        read_json(run / "launch.json")["artifact_format"]["command"] == declared()["artifact_formats"]["npy"]["command"]
    )
    example.edit("spectrum.py", {"numbers.tobytes()": "numbers.tobytes()[:-1]"})
    done = example.play("-e", "job=jobs/spectrum.yml")
    assert done.returncode != 0 and "23 bytes of numbers, and its header asks for 24" in done.stdout
