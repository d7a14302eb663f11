# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from a fresh machine to a running command, with stand-ins for what would change this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the scripts and an example. Its environment counts as made; its ansible-playbook is an echo."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    (root / "examples/first_run").mkdir(parents=True)
    program(root / "scripts", "bootstrap", "exit 0")
    program(root / ".venv/bin", "ansible-playbook", 'printf "%s|" "${PWD##*/}" "$@"; echo; exit ${ANSIBLE_ENDS:-0}')
    return root


def call(
    root: Path, script: str, *arguments: str, path: str = SYSTEM_PATH, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of the checkout in a clean environment."""
    return subprocess.run(
        [root / "scripts" / script, *arguments],
        env={"PATH": path, "HOME": str(root), "RANKZERO_LAB": str(root / "lab"), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def lab_up(root: Path, said: str = "Slurmctld(primary) at head is UP") -> None:
    program(root / "lab/bin", "head", f'[[ "$*" == "scontrol ping" ]] && echo "{said}"')


def test_train_boots_the_lab_when_nothing_answers(checkout: Path) -> None:
    done = call(checkout, "train", NODES="3")
    assert done.stdout.splitlines() == [
        f"{Path.cwd().name}|rankzero.slurm.lab|--inventory|localhost,|--extra-vars|state=present|",
        "first_run|--inventory|inventory/lab.yml|train.yml|--extra-vars|nodes=3|",
    ]


def test_train_leaves_a_lab_that_answers_alone(checkout: Path) -> None:
    lab_up(checkout)
    done = call(checkout, "train", "-e", "rerun=true")
    assert done.stdout == "first_run|--inventory|inventory/lab.yml|train.yml|--extra-vars|nodes=4|-e|rerun=true|\n"


def test_train_uses_the_cluster_of_this_machine_when_it_answers(checkout: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "scontrol", 'echo "Slurmctld(primary) at login1 is UP"')
    done = call(checkout, "train", path=f"{tmp_path / 'bin'}:{SYSTEM_PATH}")
    assert done.stdout.startswith("first_run|--inventory|inventory/this_host.yml|")


@pytest.mark.parametrize(
    "scontrol",
    ['echo "Slurmctld(primary) at login1 is DOWN"', "exit 1", 'echo "is UP"; exit 1'],
    ids=["down with exit code 0", "failing", "up with exit code 1"],
)
def test_a_scontrol_that_does_not_answer_is_no_cluster(checkout: Path, tmp_path: Path, scontrol: str) -> None:
    lab_up(checkout)
    program(tmp_path / "bin", "scontrol", scontrol)
    program(tmp_path / "bin", "sbatch", "echo a stray sbatch is no cluster either")
    done = call(checkout, "train", path=f"{tmp_path / 'bin'}:{SYSTEM_PATH}")
    assert done.stdout.startswith("first_run|--inventory|inventory/lab.yml|")


def test_the_exit_code_of_train_is_that_of_the_playbook(checkout: Path) -> None:
    lab_up(checkout)
    assert call(checkout, "train", ANSIBLE_ENDS="2").returncode == 2


@pytest.fixture
def bare(tmp_path: Path) -> tuple[Path, Path]:
    """A checkout without an environment, and a python3 whose venv is a folder with a pip that counts its calls."""
    root = tmp_path / "bare"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    for name in ("requirements.txt", "requirements-dev.txt"):
        shutil.copy(ROOT / name, root / name)
    calls = tmp_path / "calls"
    python = f"""
case "$*" in
    "-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo venv >>{calls} ;;
    "-m pip "*) echo pip >>{calls}; [[ ! -e {tmp_path}/pip-fails ]] ;;
    *) exec {sys.executable} "$@" ;;
esac"""
    program(tmp_path / "bin", "python3", python)
    return root, calls


def test_a_second_bootstrap_does_nothing(bare: tuple[Path, Path], tmp_path: Path) -> None:
    root, calls = bare
    for _time in range(2):
        done = call(root, "bootstrap", "run", RANKZERO_PYTHON=str(tmp_path / "bin/python3"))
        assert done.returncode == 0, done.stderr
    assert calls.read_text().split() == ["venv", "pip"]
    link = root / ".cache/collections/ansible_collections/rankzero/slurm"
    assert link.resolve() == root.resolve()


def test_a_half_made_environment_is_made_anew(bare: tuple[Path, Path], tmp_path: Path) -> None:
    root, calls = bare
    python = str(tmp_path / "bin/python3")
    (tmp_path / "pip-fails").touch()
    failed = call(root, "bootstrap", "run", RANKZERO_PYTHON=python)
    assert failed.returncode == 1 and "pip could not install the requirements" in failed.stderr
    left = root / ".venv/left-behind"
    left.touch()
    (tmp_path / "pip-fails").unlink()
    done = call(root, "bootstrap", "run", RANKZERO_PYTHON=python)
    assert done.returncode == 0 and not left.exists()
    assert calls.read_text().split() == ["venv", "pip", "venv", "pip"]


def test_changed_requirements_make_a_new_environment(bare: tuple[Path, Path], tmp_path: Path) -> None:
    root, calls = bare
    python = str(tmp_path / "bin/python3")
    call(root, "bootstrap", "run", RANKZERO_PYTHON=python)
    with (root / "requirements.txt").open("a", encoding="utf-8") as requirements:
        requirements.write("# one more\n")
    call(root, "bootstrap", "run", RANKZERO_PYTHON=python)
    assert calls.read_text().split() == ["venv", "pip", "venv", "pip"]


def test_every_core_has_its_own_environment(bare: tuple[Path, Path], tmp_path: Path) -> None:
    root, _calls = bare
    done = call(root, "bootstrap", "run", RANKZERO_PYTHON=str(tmp_path / "bin/python3"), RANKZERO_ANSIBLE_CORE="2.18")
    assert done.returncode == 0, done.stderr
    assert (root / ".venv-2.18/bin/python").exists() and not (root / ".venv").exists()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANKZERO_ANSIBLE_CORE": "1.9"}, "choose 2.18"),
        ({"RANKZERO_PYTHON": "{tmp}/old/python3"}, "is older than Python 3.11"),
    ],
)
def test_a_wrong_wish_is_named(
    bare: tuple[Path, Path], tmp_path: Path, environment: dict[str, str], message: str
) -> None:
    program(tmp_path / "old", "python3", "exit 1")
    wishes = {name: value.format(tmp=tmp_path) for name, value in environment.items()}
    done = call(bare[0], "bootstrap", "run", **wishes)
    assert done.returncode == 1 and message in done.stderr


OS_RELEASE = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
IMAGE_TOOLS = (
    "mmdebstrap", "buildah", "conmon", "skopeo", "squashfs-tools", "squashfs-tools-ng", "squashfuse", "uidmap",
    "rsync", "rclone", "zsh", "fish", "tcsh",
    *(("chromium", "chromium-driver", "fonts-dejavu-core") if "ID=debian" in OS_RELEASE else ()),
)  # fmt: skip
#: As dpkg-query shows them, in printf's words.
OTHERS = "".join(rf"ii \t{name}, \n" for name in IMAGE_TOOLS)


@pytest.mark.parametrize(
    ("known", "installed"),
    [
        (r"ii \tgit, \nii \tshellcheck, \n" + OTHERS, None),
        (r"ii \tgit-core, git (= 1:2.39)\nii \tshellcheck, \n" + OTHERS, None),
        (r"ii \tgit, \nrc \tshellcheck, \n" + OTHERS, ["shellcheck"]),
        ("", ["git", "shellcheck", *IMAGE_TOOLS]),
    ],
    ids=["all there", "one provided by another", "one removed", "none there"],
)
def test_only_missing_packages_are_installed(
    bare: tuple[Path, Path], tmp_path: Path, known: str, installed: list[str] | None
) -> None:
    """dpkg-query is asked by name and by what a package provides; apt-get gets the rest, after one update."""
    tools = tmp_path / "bin"
    program(tools, "dpkg-query", f"printf '{known}'")
    program(tools, "apt-get", f'echo "$@" >>{tmp_path}/apt')
    program(tools, "sudo", '[[ $1 == -n ]] && shift; exec "$@"')
    program(tools, "ansible", f'echo "$@" >{tmp_path}/role')
    done = call(bare[0], "bootstrap", "test", path=f"{tools}:{SYSTEM_PATH}", RANKZERO_PYTHON=str(tools / "python3"))
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "apt").read_text(encoding="utf-8").splitlines() if (tmp_path / "apt").exists() else []
    assert [line.split()[-1] for line in asked[:1]] == (["update"] if installed else [])
    assert [line.split("--no-install-recommends ")[1].split() for line in asked[1:]] == (
        [installed] if installed else []
    )
    role = (tmp_path / "role").read_text(encoding="utf-8")
    assert "name=rankzero.slurm.lab_cluster tasks_from=packages" in role
    assert '"lab_cluster_profile": "site"' in role and '"openssh-server"' in role
