# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment that the site has already: what one look through a shell says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
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


@pytest.mark.parametrize(
    ("path", "code", "place"),
    [
        (".venv", {"src": ".."}, "{top}/.venv"),
        ("./envs/../.venv", {}, "{top}/jobs/.venv"),
        ("../shared", {"src": "/code/gpt"}, "/code/shared"),
        ("/envs/torch", {"src": ".."}, "/envs/torch"),
    ],
)
def test_a_venv_of_the_work_tree(tmp_path: Path, path: str, code: dict[str, str], place: str) -> None:
    """Wherever its path is written, it starts at the code."""
    (tmp_path / "jobs").mkdir()
    job = {"name": "x", "command": ["x"], "code": code, "environment": {"mode": "path", "path": "/other"}}
    (tmp_path / "jobs" / "x.yml").write_text(json.dumps(job), encoding="utf-8")
    read = read_job("jobs/x.yml", None, None, {"environment": {"path": path}}, str(tmp_path))
    assert read.spec.environment.path == place.format(top=tmp_path)
    assert read.merged.data["environment"] == {"mode": "path", "path": read.spec.environment.path}


def test_a_venv_of_a_folder_in_place_and_what_is_no_path(tmp_path: Path) -> None:
    job = {"name": "x", "script": "#!/bin/sh\n", "code": {"in_place": "/home/me/gpt"}}
    read = read_job({**job, "environment": {"mode": "path", "path": ".venv"}}, None, None, None, str(tmp_path))
    assert read.spec.environment.path == "/home/me/gpt/.venv"
    for path in ("~/envs/torch", "a:b", ["x"]):
        with pytest.raises(SpecError) as caught:
            read_job({**job, "environment": {"mode": "path", "path": path}}, None, None, None, str(tmp_path))
        (problem,) = caught.value.problems
        assert "environment.path: must be" in problem
