# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of GPUs, with a stand-in for nvidia-smi and a file for the kernel's log: no GPU was at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.stand_ins import nvidia_smi_health
from tests.unit.runtime.harness import Site, runtime_parts

FIRST = "GPU-0a1b2c3d-0000-1111-2222-333344445555"


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The part, on a node with nvidia-smi, both GPUs ours, and a kernel's log without anything in it."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "kmsg").write_text("6,339,5140900,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module\n")
    with runtime_parts("preflight.gpus") as part:
        monkeypatch.setattr(part, "KERNEL_LOG", str(tmp_path / "kmsg"))
        yield part


def test_sound_gpus_are_ok_although_their_idle_links_are_slow(gpus: ModuleType, tmp_path: Path) -> None:
    nvidia_smi_health(tmp_path / "bin")
    assert gpus.health() == ("ok", [])


@pytest.mark.parametrize(
    ("changed", "level", "words"),
    [
        ({"1:ecc.errors.uncorrected.volatile.total": "2"}, "fail", "GPU 1: 2 uncorrected memory errors since boot"),
        ({"1:retired_pages.pending": "Yes"}, "fail", "GPU 1: a memory page waits to be retired: reset the GPU"),
        ({"0:remapped_rows.failure": "1"}, "fail", "GPU 0: memory rows could not be remapped: replace it"),
        ({"0:remapped_rows.pending": "Yes"}, "warn", "GPU 0: memory rows wait to be remapped: reset the GPU"),
        ({"1:clocks_throttle_reasons.hw_slowdown": "Active"}, "fail", "GPU 1: slowed down by its hardware"),
        ({"1:clocks_throttle_reasons.hw_thermal_slowdown": "Active"}, "fail", "GPU 1: slowed down: too hot"),
        ({"1:clocks_throttle_reasons.hw_power_brake_slowdown": "Active"}, "fail", "GPU 1: slowed down: power brake"),
        ({"1:memory.used": "30211"}, "fail", "GPU 1: 30211 MiB in use before the job starts"),
        ({"0:pcie.link.width.current": "8"}, "fail", "GPU 0: PCIe link x8 of x16"),
        ({"0:utilization.gpu": "97"}, "warn", "GPU 0: PCIe generation 1 of 5 under load"),
    ],
)
def test_each_trouble_is_named(
    gpus: ModuleType, tmp_path: Path, changed: dict[str, str], level: str, words: str
) -> None:
    nvidia_smi_health(tmp_path / "bin", changed)
    assert gpus.health() == ("bad" if level == "fail" else "warn", [(level, words)])


@pytest.mark.parametrize(
    ("asked", "name", "other"),
    [
        ("h100", "NVIDIA H100 80GB HBM3", False),
        ("nvidia_a100-sxm4-80gb", "NVIDIA A100-SXM4-80GB", False),
        ("v100", "Tesla V100S-PCIE-32GB", False),
        ("large", "NVIDIA H100 80GB HBM3", False),
        ("h100", "[N/A]", False),
        ("", "NVIDIA H100 80GB HBM3", False),
        ("1g.10gb", "NVIDIA H100 80GB HBM3", False),
        ("h100", "NVIDIA H800", True),
        ("a10", "NVIDIA A100-SXM4-40GB", True),
        ("h200", "NVIDIA GH200 480GB", True),
        ("l40s", "NVIDIA L40", True),
    ],
)
def test_a_gpu_of_another_model_than_asked_for_is_named(
    gpus: ModuleType, tmp_path: Path, asked: str, name: str, other: bool
) -> None:
    nvidia_smi_health(tmp_path / "bin", {"1:name": name, "0:name": "[N/A]"})
    words = f"GPU 1: {name}, and resources.gpu_type asks for {asked}"
    assert gpus.health(asked) == (("bad", [("fail", words)]) if other else ("ok", []))


def test_processes_that_were_left_over_are_named_and_helpers_are_not(gpus: ModuleType, tmp_path: Path) -> None:
    apps = [f"{FIRST}, 4711, /opt/env/bin/python3.11", f"{FIRST}, 12, nvidia-cuda-mps-server", "GPU-other, 5, x"]
    nvidia_smi_health(tmp_path / "bin", apps=apps)
    assert gpus.health() == ("warn", [("warn", "GPU 0: in use by python3.11 (4711)")])


@pytest.mark.parametrize("visible", ["0", FIRST, "GPU-0a1b"])
def test_gpus_of_others_are_not_judged(
    gpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvidia_smi_health(tmp_path / "bin", {"1:memory.used": "30211"})
    assert gpus.health() == ("ok", [])


def test_a_driver_that_calls_a_field_otherwise_or_lacks_it_is_understood(gpus: ModuleType, tmp_path: Path) -> None:
    old = "clocks_throttle_reasons.hw_slowdown"
    nvidia_smi_health(
        tmp_path / "bin",
        {"1:clocks_event_reasons.hw_slowdown": "Active", "0:memory.used": "9000"},
        unknown=[old, "retired_pages.pending", "remapped_rows.failure", "remapped_rows.pending"],
    )
    assert [words for _level, words in gpus.health()[1]] == [
        "GPU 0: 9000 MiB in use before the job starts",
        "GPU 1: slowed down by its hardware",
    ]


def test_a_driver_that_is_broken_or_hangs_is_a_failure(
    gpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error"
    nvidia_smi_health(tmp_path / "bin", fails=said)
    assert gpus.health() == ("silent", [("fail", f"nvidia-smi: {said}")])
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 600\n")
    monkeypatch.setattr(gpus, "ASK_SECONDS", 0.2)
    assert gpus.health() == ("silent", [("fail", "nvidia-smi did not answer within 0.2 s")])


def test_without_nvidia_smi_nothing_is_claimed(
    gpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert gpus.health() == ("unknown(no_nvidia-smi)", [])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rocm-smi").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "rocm-smi").chmod(0o755)
    assert gpus.health() == ("unknown(AMD)", [])


def test_recent_xids_of_the_hardware_count_and_those_of_programs_do_not(gpus: ModuleType, tmp_path: Path) -> None:
    day = 86400 * 1_000_000
    lines = [
        f"4,1,{day},-;NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', name=<unknown>, DBE (double bit error)",
        f"4,2,{3 * day},-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        f"4,3,{3 * day},-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        f"4,4,{3 * day},-;NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python, MMU Fault",
        " SUBSYSTEM=pci",
        "half a line",
    ]
    (tmp_path / "kmsg").write_text("\n".join(lines))
    assert gpus.xids(now=3 * 86400 + 60) == ["Xid 79 (fell off the bus) on PCI:0000:3b:00, 2 times"]
    assert len(gpus.xids(now=86400 + 60)) == 2
    nvidia_smi_health(tmp_path / "bin")
    (tmp_path / "kmsg").unlink()
    assert gpus.health() == ("ok(no_kernel_log)", [])


@pytest.mark.parametrize(("health", "code"), [("fail", 69), ("warn", 0)])
def test_a_job_by_policy_ends_or_goes_on(tmp_path: Path, health: str, code: int) -> None:
    site = Site(tmp_path)
    nvidia_smi_health(tmp_path / "bin", {"1:memory.used": "30211"})
    job = site.job(
        {
            "resources": {"gpus_per_node": 2},
            "setup": {"commands": [f'export PATH="{tmp_path}/bin:$PATH"']},
            "preflight": {"gpu_health": health},
        }
    )
    assert job.finish(CUDA_VISIBLE_DEVICES="0,1") == code, job.log()
    table = (job.run / "preflight" / "0" / "table").read_text(encoding="utf-8")
    assert "gpus=2 health=bad" in table
    if health == "warn":
        # As Slurm sets it for --gpus-per-node; here there is no Slurm.
        assert {job.seen(rank)["env"]["SLURM_GPUS_PER_NODE"] for rank in range(2)} == {"2"}
    if health == "fail":
        assert "preflight: localhost: GPU 1: 30211 MiB in use before the job starts" in job.outcome()["message"]
    else:
        assert ",GPU_1:_30211_MiB_in_use" in table
