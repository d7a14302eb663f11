# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that writes beside its own files (`code.writable`)."""

from __future__ import annotations

from pathlib import Path

from tests.unit.runtime.harness import Site, runtime_parts

#: Finds its own folder as programs do that compile something into it.
BUILDS = """
import os
folder = os.path.dirname(os.path.realpath(__file__))
with open(os.path.join(folder, "built"), "a") as stream:
    stream.write("built\\n")
with open(os.path.join(folder, "config.txt"), "a") as stream:
    stream.write("changed\\n")
"""


def test_what_a_program_writes_beside_itself_is_private_to_the_launch(site: Site) -> None:
    package = site.code / "package"
    package.mkdir()
    (package / "tool.py").write_text(BUILDS, encoding="utf-8")
    (package / "config.txt").write_text("as committed\n", encoding="utf-8")
    made = site.job({"command": ["package/tool.py"], "code": {"writable": True}})
    assert made.finish() == 0, made.log()
    copy = made.run / "work" / "package"
    assert (copy / "built").read_text(encoding="utf-8") == "built\n"
    assert (copy / "config.txt").read_text(encoding="utf-8") == "as committed\nchanged\n"
    assert {path.name for path in package.iterdir()} == {"tool.py", "config.txt"}
    assert (package / "config.txt").read_text(encoding="utf-8") == "as committed\n"


def test_an_attempt_goes_on_with_the_copy_as_it_is(tmp_path: Path) -> None:
    code, work = tmp_path / "code", tmp_path / "work"
    code.mkdir()
    (code / "state.txt").write_text("0\n", encoding="utf-8")
    with runtime_parts("core.workdir") as workdir:
        workdir.lay_out(str(work), str(code), "", copied=True)
        (work / "state.txt").write_text("1\n", encoding="utf-8")
        workdir.lay_out(str(work), str(code), "", copied=True)
    assert (work / "state.txt").read_text(encoding="utf-8") == "1\n"
