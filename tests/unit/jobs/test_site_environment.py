# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment that the site has already: what one look through a shell says of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.site_environment import (
    Adopted,
    adopted,
    conda_list,
    conda_place,
    inspect_command,
)


def looked(path: Path, wanted: str | None = None, tools: str = "") -> Adopted:
    environment = {**os.environ, "PATH": f"{tools}{os.environ['PATH']}"}
    command = ["/bin/sh", "-c", inspect_command(str(path))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
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


@pytest.mark.parametrize("program", ["cat", "ls"])
def test_what_cannot_be_read_is_no_other_environment(place: Path, tmp_path: Path, program: str) -> None:
    """A file server that answers with an error would have given another key, and so another launch."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / program).write_text("#!/bin/sh\necho 'Stale file handle' >&2\nexit 2\n", encoding="utf-8")
    (tools / program).chmod(0o755)
    before = looked(place)
    with pytest.raises(SpecError, match=r"cannot be read on the cluster: (?s:.*)Stale file handle"):
        looked(place, tools=f"{tools}:")
    assert looked(place) == before


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


@pytest.fixture
def conda(tmp_path: Path) -> dict[str, str]:
    """A login node with two programs that answer as conda does, each with environments of its own."""
    home = tmp_path / "home"
    programs = {home / "miniforge3" / "bin" / "conda": ["", "/envs/torch", "/envs/jax"],
                tmp_path / "opt" / "micromamba": ["/envs/tf"]}  # fmt: skip
    for program, environments in programs.items():
        program.parent.mkdir(parents=True)
        root = program.parent.parent
        answer = json.dumps({"envs": [f"{root}{environment}" for environment in environments]}, indent=2)
        script = f"#!/bin/sh\n[ \"$*\" = 'env list --json' ] || exit 9\ncat <<'END'\n{answer}\nEND\n"
        program.write_text(script, encoding="utf-8")
        program.chmod(0o755)
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{home}/miniforge3\n/proj/envs/shared\n/proj/plain\n")
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "MAMBA_EXE": str(tmp_path / "opt" / "micromamba")}


def listed(environ: dict[str, str]) -> str:
    command = ["/bin/sh", "-c", conda_list()]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_a_conda_environment_by_its_name(conda: dict[str, str], tmp_path: Path) -> None:
    output = listed(conda)
    home = conda["HOME"]
    assert conda_place("torch", output, None) == f"{home}/miniforge3/envs/torch"
    assert conda_place("base", output, None) == f"{home}/miniforge3"
    assert conda_place("tf", output, f"{tmp_path}/envs/tf") == f"{tmp_path}/envs/tf"
    assert conda_place("shared", output, None) == "/proj/envs/shared"


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("troch", None, r"troch is not a conda .*; did you mean torch\?; there: base, jax, shared, tf, torch$"),
        ("tf", "/other/tf", r"tf is /\S+/envs/tf, and environment\.path is /other/tf; leave"),
        ("plain", None, r"plain is not a conda environment"),
    ],
)  # fmt: skip
def test_a_name_that_does_not_fit(name: str, given: str | None, said: str, conda: dict[str, str]) -> None:
    with pytest.raises(SpecError) as caught:
        conda_place(name, listed(conda), given)
    (text,) = caught.value.problems
    assert re.search(f"^environment.conda: {said}", text), text


def test_a_name_that_two_have(conda: dict[str, str]) -> None:
    with (Path(conda["HOME"]) / ".conda" / "environments.txt").open("a") as stream:
        stream.write("/proj/envs/torch\n")
    with pytest.raises(SpecError, match=r"several: \S+/torch, \S+/torch; give one of them as environment\.path"):
        conda_place("torch", listed(conda), None)


def test_a_login_node_without_conda(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"there is no conda, mamba or micromamba.*environment\.path"):
        conda_place("torch", listed({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}), None)


def test_the_job_has_the_path(tmp_path: Path) -> None:
    """Also its record, from which it can be launched again."""
    job = {"name": "x", "command": ["x"], "environment": {"mode": "path", "conda": "torch"}}
    read = read_job(job, None, None, None, str(tmp_path)).at_environments({"torch": "/envs/torch"})
    assert read.spec.environment.path == "/envs/torch"
    again = read_job(read.merged.data, None, None, None, str(tmp_path))
    assert again.spec == read.spec
