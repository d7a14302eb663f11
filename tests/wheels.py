# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python package as a user installs it: the wheel, and the command in an environment of its own."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

from tests.repository import BIN, ROOT, run


def built(folder: Path) -> Path:
    """The wheel of the working tree."""
    run(ROOT / "scripts" / "build", folder, "wheel")
    (wheel,) = folder.glob("*.whl")
    return wheel


def installed(wheel: Path, folder: Path, *, alone: bool = False) -> Path:
    """The installed command, with the packages that it needs, which are those of these tests: nothing is downloaded.
    `alone`: without them, as where Ansible is in an environment of its own.
    """
    run("uv", "venv", "--quiet", "--clear", "--python", BIN / "python", folder)
    run("uv", "pip", "install", "--quiet", "--no-deps", "--offline", "--python", folder / "bin" / "python", wheel)
    if not alone:
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return folder / "bin" / "rankzero"


def pip_settings() -> dict[str, str]:
    """pip's settings from every source: tools hide the environment and the home from pip."""
    listing = run("python", "-m", "pip", "config", "list").stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        name, _equals, value = line.partition("=")
        section, _dot, key = name.rpartition(".")
        found.setdefault(section, {})[key] = ast.literal_eval(value)
    return {**found["global"], **found["install"], **found[":env:"]}
