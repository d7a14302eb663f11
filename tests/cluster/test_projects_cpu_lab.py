# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU lab from its own checkout (tests/checkouts.py): its program unchanged, with the packages that its req.sh
pins, its tokenizer and its texts, trained by a job; and its own evaluator over the logs of the launch.

Not as its authors have it: torch, whose pinned build is not on the package index; and the texts to train on are those
of its test set, because the larger file is left out of some clones.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import checkouts
from tests.cluster.conftest import LabCluster
from tests.cluster.examples import Example, read_json

# Each rank imports torch and transformers, and the environment is large.
pytestmark = pytest.mark.more

PROGRAM = "labs/tiny/train_tiny.py"
#: The newest program ends in an exception of its own, after it has trained.
WORKS = "4e8f504"
TEXTS = ".hf_cache/ds/ag_news/default/0.0.0/eb185aade064a813bc0b7f42de02595523103ca4"
TOKENIZER = ".hf_cache/tok/models--google--bert_uncased_L-2_H-128_A-2"
JOB = {
    "resources": {"nodes": 2, "cpus_per_rank": 1, "memory": "4G", "time": "00:20:00"},
    "launcher": {"kind": "torchrun", "rendezvous": "c10d", "ranks_per_node": 2},
    "command": [PROGRAM, "--subset", "320", "--epochs", "1"],
    "environment": {"project": "..", "requirements": "requirements.txt", "mode": "venv", "torch": "cpu"},
    "preflight": {"imports": ["torch", "transformers", "datasets", "numpy"], "budget": 240},
    "logs": {"style": "slurm"},
    "artifact": {"path": "tiny_out/config.json", "together": "required", "require": {"vocab_size": {"eq": 30522}}},
}
STEPS = 320 // (4 * 16)


@pytest.fixture(scope="module")
def example(lab: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    made = Example(lab, "cpu_ddp_lab", tmp_path_factory.mktemp("lab"), offline=True)
    caches = made.own(f"{made.state_root}.caches")
    kept = checkouts.unpacked(
        checkouts.CPU_LAB,
        made.folder / "kept",
        "HEAD",
        TOKENIZER,
        f"{TEXTS}/ag_news-test.arrow",
        f"{TEXTS}/dataset_info.json",
    )
    shutil.copytree(kept / ".hf_cache", caches / "huggingface")
    staged(caches / "huggingface")
    shutil.rmtree(kept)
    made.user.give(caches)
    made.cluster["caches"] = f"{made.state_root}.caches"
    yield made
    made.remove()
    shutil.rmtree(caches)


def staged(cache: Path) -> None:
    """What git does not keep of a cache of the hub: the names of the files of a snapshot; and the texts to train on."""
    texts, tokenizer = (cache / place.removeprefix(".hf_cache/") for place in (TEXTS, TOKENIZER))
    snapshot = tokenizer / "snapshots" / (tokenizer / "refs" / "main").read_text(encoding="utf-8")
    snapshot.mkdir(parents=True)
    for blob in (tokenizer / "blobs").iterdir():
        shutil.copy(blob, snapshot / ("config.json" if blob.read_bytes().startswith(b"{") else "vocab.txt"))
    shutil.copy(texts / "ag_news-test.arrow", texts / "ag_news-train.arrow")
    known = read_json(texts / "dataset_info.json")
    known["splits"]["train"]["num_examples"] = known["splits"]["test"]["num_examples"]
    (texts / "dataset_info.json").write_text(json.dumps(known), encoding="utf-8")


def trained(example: Example, name: str, release: str) -> tuple[int, str, Path]:
    """Launch the program of a release: the exit code, what the user sees, and the logs of the ranks."""
    folder = checkouts.unpacked(checkouts.CPU_LAB, example.folder / name, release, "labs/tiny")
    pinned = re.search(r"<<'REQ'\n(.*?)^REQ$", checkouts.text(checkouts.CPU_LAB, "labs/tiny/req.sh"), re.M | re.S)
    assert pinned and "accelerate==" in pinned[1]
    requirements = re.sub(r"(?m)^torch==.*$", "torch", pinned[1])
    (folder / "requirements.txt").write_text(requirements, encoding="utf-8")
    (folder / "jobs").mkdir()
    (folder / "jobs" / "job.yml").write_text(
        yaml.safe_dump({"name": name, "code": {"src": ".."}, **JOB}), encoding="utf-8"
    )
    done = example.play("-e", f"job={name}/jobs/job.yml")
    (run,) = example.runs(name)
    return done.returncode, done.stdout, run


def evaluated(run: Path) -> str:
    """What the lab's own evaluator says of the logs of a launch."""
    evaluator = run.parent / "eval_logs.py"
    evaluator.write_text(checkouts.text(checkouts.CPU_LAB, "labs/tiny/eval_logs.py"), encoding="utf-8")
    job_id = str(read_json(run / "started.json")["job_id"])
    words = [sys.executable, str(evaluator), "--job", job_id, "--logs-dir", str(run / "logs" / "0")]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def test_its_program_trains_and_its_evaluator_passes_the_logs(example: Example) -> None:
    code, said, run = trained(example, "train-tiny", WORKS)
    assert code == 0, said
    assert {"config.json", "model.safetensors", "vocab.txt"} <= {
        path.name for path in (run / "work" / "tiny_out").iterdir()
    }
    report = evaluated(run)
    assert report.splitlines()[-1].endswith("PASS"), report
    assert "nnodes=2  nproc_per_node=2" in report and "All ranks accounted for" in report
    assert "2/2 nodes had both proj & pkgs visible" in report and report.count(" 4.41.2 ") == 2
    logs = "".join(path.read_text(encoding="utf-8") for path in (run / "logs" / "0").glob("*.out"))
    # Ranks that train apart do four times as many steps.
    assert sorted(re.findall(r"\[rank (\d) \| step (\d+)\] train_runtime", logs)) == [
        (str(rank), str(STEPS)) for rank in range(4)
    ]


def test_the_exception_of_its_newest_program_is_the_cause(example: Example) -> None:
    """It closes its own log when the training ends, and evaluates after that."""
    code, said, run = trained(example, "train-tiny-newest", "HEAD")
    assert code != 0
    assert "I/O operation on closed file" in said and "train_tiny.py" in said, said
    report = evaluated(run)
    assert (
        report.splitlines()[-1].endswith("CHECK LOGS (see sections above)") and "All ranks accounted for" in report
    ), report
    assert "samples/sec: P50=" in report
