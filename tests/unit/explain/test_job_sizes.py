# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sizes of a job that ran out of GPU memory, as its spec and its program's arguments state them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.explain import diagnose, job_sizes
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from tests.unit.slurm.recorded import NO_ACCOUNTING, FakeSlurm
from tests.writers import Run

SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "megatron-lm": (
        {
            "command": ["pretrain.py", "--num-layers", 24, "--seq-length", "4096", "--micro-batch-size", "4"],
            "parallelism": {"tensor": "2", "pipeline": "2", "micro_batch": "2", "global_batch": "128"},
        },
        "TP 2, PP 2, micro batch 2, global batch 128, sequence length 4096",
    ),
    "megatron bridge": (
        {
            "command": [
                "run_recipe.py",
                "model.tensor_model_parallel_size=4",
                "model.seq_length=8192",
                "train.global_batch_size=64",
            ]
        },
        "TP 4, global batch 64, sequence length 8192",
    ),
    "kempnerforge, where the last one counts": (
        {"command": ["train.py", "c.toml", "--train.batch_size=8", "--train.seq_len=2048", "--train.batch_size=4"]},
        "micro batch 4, sequence length 2048",
    ),
    "a line for the shell": (
        {"shell": "python3 pretrain.py --micro_batch_size 10 --batch_size 2048 --global_rank $RANK"},
        "micro batch 10",
    ),
    "nothing known": ({"shell": "python 'x --seq-length"}, ""),
    "no numbers": ({"command": ["x", "--seq-length", "--micro-batch-size=auto", "--tp"]}, ""),
}


@pytest.mark.parametrize("name", SPECS)
def test_the_sizes_are_those_of_the_job(name: str) -> None:
    spec, text = SPECS[name]
    assert job_sizes.sentence(job_sizes.sizes(spec), None) == text


def test_a_full_gpu_is_reported_with_the_sizes_and_the_peak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.below(tmp_path).launch(SPECS["megatron-lm"][0]).path
    for folder in ("logs/0", "monitor/0"):
        (run / folder).mkdir(parents=True)
    (run / "logs" / "0" / "rank-0003.log").write_text(
        "[rankzero] RANK=3 LOCAL_RANK=3 WORLD_SIZE=8 NODE_RANK=0 host=gpu01 attempt=0 master=gpu01:15000\n"
        'Traceback (most recent call last):\n  File "pretrain.py", line 3, in step\n    go()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.\n"
    )
    for node, used in (("gpu01", 80_384), ("gpu02", 81_000)):
        (run / "monitor" / "0" / f"{node}.gpu.csv").write_text(
            f"2026/01/01 00:00:00.000, 3, 88.1 W, 99 %, {used} MiB, 61\n"
        )
    launch = LaunchReport(
        "a", "k", 1, "failed", "it failed", str(run), str(run / "logs"), job_id="9", completed=True, exit_code=1
    )
    monkeypatch.setattr(diagnose, "final_report", lambda slurm, run: launch)
    options = {"run_dir": str(run), "state_root": "~", "x_families": [], "processes": 1, "write": True,
        "stall_factor": 10.0, "stall_seconds": 60.0,
    }  # fmt: skip
    found = diagnose.diagnose(FakeSlurm(sacct=NO_ACCOUNTING).slurm(), options)
    assert found["diagnosis"]["family"] == "cuda_oom"
    memory = found["diagnosis"]["facts"]["memory"]
    assert (memory["sizes"]["sequence length"], memory["peak_mb"], memory["node"], memory["gpu"]) == (
        4096,
        80_384,
        "gpu01",
        "3",
    )
    (line,) = (line for line in found["lines"] if line.startswith("job "))
    assert "TP 2, PP 2" in line and "78.5 GiB" in line and "gpu01" in line
    assert json.loads((run / "diagnosis.json").read_text())["facts"]["memory"] == memory


def diagnosed(
    run: Path, monkeypatch: pytest.MonkeyPatch, text: str, nodes: Sequence[str], log: str = "rank-0000.log"
) -> dict[str, Any]:
    """The diagnosis of a launch that failed on these nodes, whose rank 0 on the first one has written the text.

    `log`: the log that has the text.
    """
    (run / "logs" / "0").mkdir(parents=True)
    (run / "logs" / "0" / "rank-0000.log").write_text(
        f"[rankzero] RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 NODE_RANK=0 host={nodes[0]} attempt=0 master={nodes[0]}:15000\n"
    )
    with (run / "logs" / "0" / log).open("a") as stream:
        stream.write(f"{text}\n")
    launch = LaunchReport(
        "a", "a" * 16, 1, "failed", "it failed", str(run), str(run / "logs"), job_id="9", completed=True, exit_code=1,
        nodes=list(nodes),
    )  # fmt: skip
    monkeypatch.setattr(diagnose, "final_report", lambda slurm, run: launch)
    options = {"run_dir": str(run), "state_root": "~", "x_families": [], "processes": 1, "write": False,
        "stall_factor": 10.0, "stall_seconds": 60.0,
    }  # fmt: skip
    diagnosis: dict[str, Any] = diagnose.diagnose(FakeSlurm(sacct=NO_ACCOUNTING).slurm(), options)["diagnosis"]
    return diagnosis


def test_a_node_of_others_that_a_log_names_is_not_the_diagnosis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may print any prefix: the node of the line is then that of its log."""
    text = "gpu77: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."
    diagnosis = diagnosed(tmp_path / "runs" / "a" / ("a" * 16) / "1", monkeypatch, text, ["gpu01"])
    assert (diagnosis["family"], diagnosis["nodes"]) == ("cuda_oom", ["gpu01"])


@pytest.mark.parametrize("node", ["gpu77", "gpu02", "gpu01"])
def test_a_line_of_the_kernel_that_a_program_prints_is_not_a_fact_about_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    """Who prints an Xid could have nodes of others, or of its own job, excluded."""
    text = f"{node}: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    diagnosis = diagnosed(tmp_path / "runs" / "a" / ("a" * 16) / "1", monkeypatch, text, ["gpu01", "gpu02"])
    assert (diagnosis["family"], diagnosis["blame"]) == ("cuda_device", []) and "gpu77" not in diagnosis["nodes"]
    assert "dmesg" in diagnosis["remedy"] and "a program printed" in diagnosis["what"]


@pytest.mark.parametrize(
    ("node", "log"),
    [*((name, "rank-0000.log") for name in ("gpu77", "gpu02", "gpu01", "-")), ("gpu02", "step.log")],
)
@pytest.mark.parametrize(
    "said",
    [
        "GPU is lost.  Reboot the system to recover this GPU",
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.",
        "GPU has fallen off the bus.",
        "double bit ECC error on GPU 0",
        "Uncorrectable NVLink error detected",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "RuntimeError: CUDA error: unknown error",
        "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE (double bit error) ECC",
        "srun: error: Node failure on gpu02",
        "slurmstepd-gpu02: error: container_p_join: open failed for /var/spool/x: No such file or directory",
        "slurmstepd: error: *** JOB 9 ON gpu02 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG",
    ],
)
def test_no_line_of_a_log_blames_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, node: str, log: str
) -> None:
    """examples/monitoring/relaunch.yml excludes what a diagnosis blames."""
    text = said if node == "-" else f"{node}: {said}"
    diagnosis = diagnosed(tmp_path / "runs" / "a" / ("a" * 16) / "1", monkeypatch, text, ["gpu01", "gpu02"], log)
    assert diagnosis["family"] in ("cuda_device", "node_failure", "private_tmp")
    assert diagnosis["blame"] == [] and "gpu77" not in diagnosis["nodes"]
