# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment that the site has already: what one look through a shell says of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.site_environment import Adopted, adopted, look


def looked(path: Path, wanted: str | None = None) -> Adopted:
    done = subprocess.run(["/bin/sh", "-c", look(str(path))], capture_output=True, text=True, check=False)
    return adopted(str(path), f"a banner\n{done.stdout}{done.stderr}", wanted)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A venv in its outward form, at a path that needs quoting."""
    made = tmp_path / "it's $HOME"
    (made / "bin").mkdir(parents=True)
    (made / "bin" / "python").symlink_to(sys.executable)
    (made / "pyvenv.cfg").write_text("home = /usr\n", encoding="utf-8")
    (made / "lib" / "python3.11" / "site-packages" / "torch-2.7.0.dist-info").mkdir(parents=True)
    return made


def problem(path: Path, wanted: str | None = None) -> str:
    with pytest.raises(SpecError) as caught:
        looked(path, wanted)
    (text,) = caught.value.problems
    return text


def test_a_venv_and_what_changes_its_key(place: Path) -> None:
    before = looked(place)
    assert (before.kind, before.version) == ("venv", ".".join(map(str, sys.version_info[:3])))
    assert before.line().startswith(f"environment {place} (venv, Python {before.version}, ")
    packages = place / "lib" / "python3.11" / "site-packages"
    (packages / "torch").mkdir()
    (packages / "torch" / "x.pyc").touch()
    assert looked(place) == before, "what a run leaves behind is no change"
    (packages / "torch-2.7.0.dist-info").rename(packages / "torch-2.7.1.dist-info")
    assert looked(place).key != before.key


def test_a_conda_environment_goes_by_its_history(place: Path) -> None:
    (place / "conda-meta").mkdir()
    (place / "conda-meta" / "history").write_text("==> one <==\n", encoding="utf-8")
    before = looked(place)
    assert before.kind == "conda"
    (place / "conda-meta" / "history").write_text("==> one <==\n==> two <==\n", encoding="utf-8")
    assert looked(place).key != before.key


def test_what_cannot_be_used(place: Path) -> None:
    assert problem(place / "none") == (
        f"environment.path: {place}/none is not on the cluster; name the folder of a venv or conda environment on "
        "shared storage"
    )
    assert "asks for 2.7" in problem(place, "2.7")
    assert looked(place, f"{sys.version_info[0]}.{sys.version_info[1]}")
    (place / "bin" / "python").unlink()
    assert "has no bin/python" in problem(place)
    (place / "bin" / "python").write_text("#!/nowhere/python\n", encoding="utf-8")
    (place / "bin" / "python").chmod(0o755)
    assert "bin/python does not start on the cluster" in problem(place)
    with pytest.raises(SpecError, match="cannot be read on the cluster: Permission denied"):
        adopted("/x", "Permission denied", None)
