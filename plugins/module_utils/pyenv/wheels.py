# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheel names, and which wheel a Python on a host can install. Pure.

Source: the binary distribution format (PEP 427, PEP 425, PEP 600) for CPython on glibc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = re.compile(
    r"(?P<name>[^-]+)-(?P<version>[^-]+)(-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl"
)
# The glibc versions that every supported uv knows as a platform. An older one gives the same wheels or fewer.
_GLIBC_MINORS = (17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


@dataclass(frozen=True)
class WheelFile:
    """A downloaded wheel; `path`: its path on the host that has it, `size`: bytes."""

    name: str
    version: str
    filename: str
    sha256: str
    size: int
    path: str


@dataclass(frozen=True)
class Target:
    """The platform that wheels must fit: `python` such as (3, 11), `machine` as in uname, `glibc` such as (2, 36)."""

    python: tuple[int, int]
    machine: str
    glibc: tuple[int, int]


def platform_options(target: Target, python_version: str) -> tuple[str, ...]:
    """uv's options for another host: its Python ("3.11" or "3.11.2") and its platform."""
    minor = max((candidate for candidate in _GLIBC_MINORS if candidate <= target.glibc[1]), default=None)
    name = f"{target.machine}-manylinux2014" if minor is None else f"{target.machine}-manylinux_2_{minor}"
    return ("--python-version", python_version, "--python-platform", name)


@dataclass(frozen=True)
class Wheel:
    """The parts of a wheel's file name; `version` is text such as 2.13.0+cpu."""

    filename: str
    name: str
    version: str
    pythons: tuple[str, ...]
    abis: tuple[str, ...]
    platforms: tuple[str, ...]

    @property
    def local(self) -> str:
        """The local label of the version (`cpu` in 2.13.0+cpu), empty without one."""
        return self.version.partition("+")[2]


def parse(filename: str) -> Wheel | None:
    """The wheel with this file name; None for any other file."""
    match = _NAME.fullmatch(filename.replace("%2B", "+"))
    if not match:
        return None
    return Wheel(
        filename,
        normalised(match["name"]),
        match["version"],
        tuple(match["python"].split(".")),
        tuple(match["abi"].split(".")),
        tuple(match["platform"].split(".")),
    )


def normalised(name: str) -> str:
    """A project's name in the normalised form of indexes (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def rank(wheel: Wheel, target: Target) -> tuple[int, int] | None:
    """How well a wheel fits (greater is better); None if it cannot be installed."""
    code = _code_rank(wheel, target.python)
    platforms = [value for value in (_platform_rank(tag, target) for tag in wheel.platforms) if value is not None]
    return (code, max(platforms)) if code is not None and platforms else None


def best(wheels: Iterable[Wheel], target: Target) -> Wheel | None:
    """The best wheel among those of one version; None if none fits."""
    fitting = [(place, wheel.filename, wheel) for wheel in wheels if (place := rank(wheel, target)) is not None]
    return max(fitting)[2] if fitting else None


def torch_wheel(filenames: Iterable[str], torch: str, target: Target) -> Wheel | None:
    """The newest torch wheel that fits the target and the requested build; `auto` accepts any build.

    A wheel without a local label may be any build, so it counts as the requested one. None if no wheel fits.
    """
    candidates = []
    for filename in filenames:
        wheel = parse(filename)
        if wheel and wheel.name == "torch" and rank(wheel, target) and (torch == "auto" or wheel.local in ("", torch)):
            candidates.append((_version_key(wheel.version), wheel.filename, wheel))
    return max(candidates)[2] if candidates else None


def _version_key(version: str) -> tuple[int, ...]:
    """Release numbers for comparison; a pre-release sorts before its release."""
    public = version.partition("+")[0]
    match = re.match(r"\d+(\.\d+)*", public)
    if not match:
        return ()
    numbers = [int(part) for part in match.group().split(".")][:4]
    return (*numbers, *([0] * (4 - len(numbers))), 0 if re.match(r"(a|b|rc|\.dev)", public[match.end() :]) else 1)


def _code_rank(wheel: Wheel, python: tuple[int, int]) -> int | None:
    exact = f"cp{python[0]}{python[1]}"
    if exact in wheel.pythons and exact in wheel.abis:
        return 3
    if "abi3" in wheel.abis:
        for tag in wheel.pythons:
            match = re.fullmatch(r"cp3(\d+)", tag)
            if match and int(match[1]) <= python[1]:
                return 2
    if "none" in wheel.abis:
        if exact in wheel.pythons or f"py{python[0]}{python[1]}" in wheel.pythons:
            return 1
        if any(re.fullmatch(r"(py|cp)3", tag) for tag in wheel.pythons):
            return 1
        older = [re.fullmatch(r"py3(\d+)", tag) for tag in wheel.pythons]
        return 0 if any(match and int(match[1]) <= python[1] for match in older) else None
    return None


def _platform_rank(platform: str, target: Target) -> int | None:
    """The rank of a platform tag: greater for a newer glibc; None if it does not fit."""
    if platform == "any":
        return 0
    if platform == f"linux_{target.machine}":
        return 1
    match = re.fullmatch(r"manylinux_(\d+)_(\d+)_(.+)", platform)
    if match:
        needed, machine = (int(match[1]), int(match[2])), match[3]
    else:
        family, machine = (*platform.split("_", 1), "")[:2]
        if family not in _LEGACY:
            return None
        needed = _LEGACY[family]
    return 2 + needed[1] if machine == target.machine and needed <= target.glibc else None
