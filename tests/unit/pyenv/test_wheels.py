# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import Target, best, parse, rank, torch_wheel

HOST = Target((3, 11), "x86_64", (2, 36))


def fits(filename: str, target: Target = HOST) -> bool:
    wheel = parse(filename)
    assert wheel is not None
    return rank(wheel, target) is not None


@pytest.mark.parametrize(
    "filename",
    [
        "a-1-py3-none-any.whl",
        "a-1-py2.py3-none-any.whl",
        "a-1-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "a-1-cp39-abi3-manylinux_2_36_x86_64.whl",
        "a-1-cp311-none-linux_x86_64.whl",
        "a-1-py3-none-manylinux1_x86_64.whl",
        "a-1-py310-none-any.whl",
        "torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    ],
)
def test_fitting(filename: str) -> None:
    assert fits(filename)


@pytest.mark.parametrize(
    "filename",
    [
        "a-1-py2-none-any.whl",
        "a-1-cp312-cp312-manylinux_2_17_x86_64.whl",
        "a-1-cp310-cp310-manylinux_2_17_x86_64.whl",
        "a-1-cp312-abi3-manylinux_2_17_x86_64.whl",
        "a-1-cp311-cp311t-manylinux_2_17_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_37_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_17_aarch64.whl",
        "a-1-cp311-cp311-musllinux_1_2_x86_64.whl",
        "a-1-cp311-cp311-macosx_11_0_arm64.whl",
        "a-1-cp311-cp311-win_amd64.whl",
        "a-1-py312-none-any.whl",
    ],
)
def test_not_fitting(filename: str) -> None:
    assert not fits(filename)


@pytest.mark.parametrize("filename", ["a-1.tar.gz", "a.whl", "a-1-py3-none.whl", "readme.txt"])
def test_no_wheel(filename: str) -> None:
    assert parse(filename) is None


def test_old_glibc() -> None:
    assert not fits("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", Target((3, 11), "x86_64", (2, 17)))


def test_best_is_the_most_specific() -> None:
    names = [
        "a-1-py3-none-any.whl",
        "a-1-cp39-abi3-manylinux_2_17_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_17_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_28_x86_64.whl",
        "a-1-cp311-cp311-manylinux_2_38_x86_64.whl",
    ]
    wheels = [wheel for wheel in map(parse, names) if wheel]
    found = best(wheels, HOST)
    assert found is not None
    assert found.filename == names[3]
    assert best(wheels, Target((3, 8), "riscv64", (2, 36))) == wheels[0]
    assert best([], HOST) is None


TORCHES = [
    "torch-2.9.1+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    "torch-2.14.0rc1+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    "torch-2.14.0+cu128-cp311-cp311-manylinux_2_28_x86_64.whl",
    "torch-2.15.0+cpu-cp312-cp312-manylinux_2_28_x86_64.whl",
    "torchvision-3.0.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    "numpy-9.0-py3-none-any.whl",
    "notes.txt",
]


@pytest.mark.parametrize(
    ("torch", "version"),
    [("cpu", "2.14.0rc1+cpu"), ("auto", "2.14.0+cu128"), ("cu128", "2.14.0+cu128"), ("cu126", None)],
)
def test_torch_wheel(torch: str, version: str | None) -> None:
    wheel = torch_wheel(TORCHES, torch, HOST)
    assert (wheel and wheel.version) == version


def test_a_wheel_without_label_is_any_build_and_a_release_beats_its_candidate() -> None:
    plain = "torch-2.14.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    for torch in ("cpu", "cu126"):
        wheel = torch_wheel([*TORCHES[:3], plain], torch, HOST)
        assert wheel is not None
        assert wheel.filename == plain
