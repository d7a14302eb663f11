# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a merged job file may take from the controller: files of allowed folders, and named secrets and images."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.allowances import image_name
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.folder import read_folder, with_defaults
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import Roots, repository_root
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.failure_families import load_families

PROJECT = '[project]\nname = "x"\nversion = "1"\n'


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a program, and beside it a folder that nobody may take, whose name begins like its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    top = tmp_path / "repo"
    for folder in (top / "jobs", top / "code", tmp_path / "repo-secret", tmp_path / "home"):
        folder.mkdir(parents=True)
    (top / "code/train.py").write_text("")
    (top / "code/pyproject.toml").write_text(PROJECT)
    (top / "Containerfile").write_text("FROM nvcr.io/nvidia/pytorch:24.07\nCOPY code /code\n")
    for name in ("train.py", "secret", "Containerfile", "environment.yml"):
        (tmp_path / "repo-secret" / name).write_text("dependencies: []\nFROM secret\n")
    (tmp_path / "repo-secret/pyproject.toml").write_text(PROJECT)
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    return top


def reconciled(top: Path, job: str, cluster: dict[str, Any] | None = None) -> Prepared:
    """One job file as `reconcile` reads and prepares it."""
    (top / "jobs/a.yml").write_text(f"name: a\ncommand: [train.py]\n{job}")
    (spec,) = read_folder("jobs", with_defaults(cluster or {}, "jobs", str(top)), str(top))
    return prepare(spec.job, Site("/s", "/t", spec.job.settings), relaunch="never", facts={})


def test_a_job_takes_files_of_its_repository(checkout: Path) -> None:
    made = reconciled(checkout, "code: {src: ../code}\nenvironment: {mode: venv, project: ../code}\n")
    assert made.leaving.files == {str(checkout / "code"): ["2 files (35 bytes) of code", "pyproject.toml"]}
    assert f"takes from {checkout / 'code'}: 2 files (35 bytes) of code, pyproject.toml" in made.details
    assert (made.leaving.secrets, made.leaving.images) == ([], [])


def link(path: str, target: str) -> Callable[[Path], None]:
    return lambda top: (top / path).unlink(missing_ok=True) or (top / path).symlink_to(target)


def nothing(top: Path) -> None:
    pass


BUILD = "code: {src: ../code}\ncontainer: {runtime: pyxis, build: {containerfile: %s}}\n"
CONDA = "code: {src: ../code}\nenvironment: {mode: conda, project: %s, file: environment.yml}\n"
VENV = "code: {src: ../code}\nenvironment: {mode: venv, project: ../code}\n"
ATTACKS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "code beside the repository": (nothing, "code: {src: ../../repo-secret}\n", "code.src"),
    "code by an absolute path": (nothing, "code: {src: /etc}\n", "code.src"),
    "code in the home": (nothing, "code: {src: ~/.ssh}\n", "code.src"),
    "code by a committed link": (link("data", "../repo-secret"), "code: {src: ../data}\n", "code.src"),
    "code below a committed link": (link("up", ".."), "code: {src: ../up/repo-secret}\n", "code.src"),
    "git's own files as code": (nothing, "code: {src: ../.git}\n", "code.src"),
    "project elsewhere": (
        nothing,
        "code: {src: ../code}\nenvironment: {mode: venv, project: ../../repo-secret}\n",
        "environment.project",
    ),
    "pyproject.toml by a link": (link("code/pyproject.toml", "../../repo-secret/secret"), VENV, "environment.project"),
    "uv.lock by a link": (link("code/uv.lock", "../../repo-secret/secret"), VENV, "environment.project"),
    "requirements by a link": (
        link("code/requirements.txt", "../../repo-secret/secret"),
        VENV.replace("venv", "venv, requirements: requirements.txt"),
        "environment.requirements",
    ),
    "environment.yml elsewhere": (nothing, CONDA % "../../repo-secret", "environment.file"),
    "environment.yml by a link": (link("code/environment.yml", "../../repo-secret/environment.yml"), CONDA % "../code",
                                  "environment.file"),
    "Containerfile elsewhere": (nothing, BUILD % "../../repo-secret/Containerfile", "container.build.containerfile"),
    "Containerfile by a link": (link("Containerfile", "../repo-secret/secret"), BUILD % "../Containerfile",
                                "container.build.containerfile"),
    "Containerfile of a linked folder": (link("image", "../repo-secret"), BUILD % "../image",
                                         "container.build.containerfile"),
    "context elsewhere": (
        nothing,
        BUILD.replace("%s}", "../Containerfile, context: ../..}"),
        "container.build.context",
    ),
    "ignored names by a link": (link(".containerignore", "../repo-secret/secret"), BUILD % "../Containerfile",
                                "container.build.context"),
    "job file by a link": (link("jobs/b.yml", "../../repo-secret/secret"), VENV, "b.yml"),
    "job file of git's own": (link("jobs/b.yml", "../.git/config"), VENV, "b.yml"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_else_leaves_the_controller(name: str, checkout: Path) -> None:
    plant, job, option = ATTACKS[name]
    plant(checkout)
    with pytest.raises(RankzeroError) as caught:
        reconciled(checkout, job)
    assert f"{option}: " in caught.value.message
    words = "belongs to git" if "git's own" in name else "controller may send files"
    assert words in caught.value.message
    assert "FROM secret" not in caught.value.message


def test_more_folders_are_allowed_by_name(checkout: Path, tmp_path: Path) -> None:
    made = reconciled(checkout, "code: {src: ../../repo-secret}\n", {"code_roots": [".", "../repo-secret"]})
    assert list(made.leaving.files) == [str(tmp_path / "repo-secret")]


@pytest.mark.parametrize(
    ("job", "cluster", "words"),
    [
        (
            "secrets: {X: {from_env: CI_DEPLOY_TOKEN}}\n",
            {},
            "secrets.X: launch_cluster.secrets_from does not allow from_env CI_DEPLOY_TOKEN",
        ),
        ("secrets: {X: {from_var: vault_token}}\n", {}, "secrets_from: {from_var: [vault_token]}"),
        (
            "secrets: {X: {from_file: ~/.ssh/id_ed25519}}\n",
            {},
            "secrets.X: launch_cluster.secrets_from does not allow from_file ~/.ssh/id_ed25519",
        ),
        (
            "secrets: {X: {from_file: /project/tokens/../../etc/shadow}}\n",
            {"secrets_from": {"from_file": ["/project/tokens/*"]}},
            "does not allow from_file /project/tokens/../../etc/shadow",
        ),
        (
            "secrets: {X: {from_var: HF_TOKEN}}\n",
            {"secrets_from": {"from_env": ["HF_TOKEN"]}},
            "Allowed: from_env: HF_TOKEN.",
        ),
        (
            "container: {runtime: pyxis, build: {reference: a/b, secrets: {pip: ~/.netrc}}}\n",
            {},
            "does not allow from_file ~/.netrc",
        ),
    ],
)
def test_a_secret_that_is_not_allowed_is_refused(
    job: str, cluster: dict[str, Any], words: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_DEPLOY_TOKEN", "value-of-the-token")
    with pytest.raises(RankzeroError) as caught:
        reconciled(checkout, f"code: {{src: ../code}}\n{job}", cluster)
    assert words in caught.value.message
    assert "value-of-the-token" not in caught.value.message


def test_an_allowed_secret_is_named_in_the_plan(checkout: Path) -> None:
    job = "code: {src: ../code}\nsecrets: {WANDB: {from_env: WANDB_API_KEY}}\n"
    made = reconciled(checkout, job, {"secrets_from": {"from_env": ["WANDB_*"]}})
    assert "takes secrets: WANDB (from_env WANDB_API_KEY)" in made.details


NVIDIA = ["nvcr.io/nvidia/*", "/project/images/*"]


@pytest.mark.parametrize(
    "image",
    [
        "docker.io/evil/x:1", "nvcr.io#evil/x:1", "nvcr.io/nvidia-evil/x", "user@nvcr.io#nvidiaa/x", "ubuntu",
        "/project/images/../../tmp/x.sqsh", "/tmp/nvcr.io/nvidia/x.sqsh",
    ],
)  # fmt: skip
def test_an_image_that_is_not_allowed_is_refused(image: str, checkout: Path) -> None:
    job = f"code: {{src: ../code}}\ncontainer: {{runtime: pyxis, image: '{image}'}}\n"
    with pytest.raises(RankzeroError, match=r"container\.image: .* does not allow the image .*nvcr\.io/nvidia/\*"):
        reconciled(checkout, job, {"images_from": NVIDIA})


@pytest.mark.parametrize(
    "image", ["nvcr.io#nvidia/pytorch:24.07-py3", "docker://nvcr.io#nvidia/x", "/project/images/x.sqsh"]
)
def test_an_allowed_image_is_named_in_the_plan(image: str, checkout: Path) -> None:
    job = f"code: {{src: ../code}}\ncontainer: {{runtime: pyxis, image: '{image}'}}\n"
    assert f"takes images: {image}" in reconciled(checkout, job, {"images_from": NVIDIA}).details


@pytest.mark.parametrize("line", ["FROM docker.io/evil/x", "COPY --from=evil.example/x /a /a"])
def test_a_containerfile_names_no_other_image(line: str, checkout: Path) -> None:
    job = BUILD % "../Containerfile"
    made = reconciled(checkout, job, {"images_from": NVIDIA})
    assert made.leaving.images == ["nvcr.io/nvidia/pytorch:24.07"]
    assert made.leaving.files[str(checkout)] == ["Containerfile", "2 files (35 bytes) of the build's context"]
    with (checkout / "Containerfile").open("a") as stream:
        stream.write(f"{line}\n")
    with pytest.raises(RankzeroError, match=r"FROM: .* does not allow the image '.*evil.*'"):
        reconciled(checkout, job, {"images_from": NVIDIA})


def test_one_spelling_of_an_image() -> None:
    for image in ("docker://nvcr.io/nvidia/x:1", "nvcr.io#nvidia/x:1", "docker://me@nvcr.io#nvidia/x:1"):
        assert image_name(image) == "nvcr.io/nvidia/x:1"
    assert image_name("localhost:5000/x:1") == "localhost:5000/x:1"
    assert image_name("oci:/images/x") == "images/x"


def test_a_person_s_launch_is_free_unless_the_cluster_says_otherwise(checkout: Path, tmp_path: Path) -> None:
    job = "name: a\ncommand: [train.py]\ncode: {src: ../../repo-secret}\nsecrets: {X: {from_env: X}}\n"
    (checkout / "jobs/a.yml").write_text(job)
    (spec,) = read_folder("jobs", {}, str(checkout))
    assert spec.job.code_src == str(tmp_path / "repo-secret")
    with pytest.raises(RankzeroError, match=r"secrets\.X"):
        read_folder("jobs", {"secrets_from": {}}, str(checkout))


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"code_roots": "here"}, "launch_cluster.code_roots: must be a list"),
        ({"secrets_from": ["X"]}, "launch_cluster.secrets_from: must be a map"),
        ({"secrets_from": {"from_evn": ["X"]}}, "must be one of from_env, from_file, from_var"),
        ({"images_from": "nvcr.io"}, "launch_cluster.images_from: must be a list"),
    ],
)
def test_a_mistake_in_an_allow_list_allows_nothing(cluster: dict[str, Any], words: str, checkout: Path) -> None:
    with pytest.raises(RankzeroError, match=words) as caught:
        reconciled(checkout, "code: {src: ../code}\n", cluster)
    assert isinstance(caught.value, (SpecError, RankzeroError))


def test_where_nobody_says_which_files_it_is_the_repository_and_never_a_home(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repository_root("jobs", str(checkout)) == str(checkout)
    plain = tmp_path / "plain"
    (plain / "jobs").mkdir(parents=True)
    assert repository_root("jobs", str(plain)) == str(plain)
    assert repository_root(str(plain / "jobs"), str(checkout)) == str(plain / "jobs")
    monkeypatch.setenv("HOME", str(checkout))
    assert repository_root("jobs", str(checkout)) == str(checkout / "jobs")
    assert repository_root(str(plain / "jobs"), "/") == str(plain / "jobs")


def test_families_of_a_folder_are_no_links_elsewhere(checkout: Path) -> None:
    (checkout / "families").mkdir()
    (checkout / "families/x.yml").symlink_to("../../repo-secret/secret")
    with pytest.raises(RankzeroError, match=r"x\.yml .*is outside of the folders") as caught:
        load_families(["families"], str(checkout), Roots.of(["."], str(checkout)))
    assert "dependencies" not in caught.value.message


def test_git_s_own_files_stay_also_where_the_whole_disk_may_leave(checkout: Path) -> None:
    roots = Roots.of(["/"], "/")
    assert roots.problem("src", str(checkout / "code")) is None
    assert "belongs to git" in str(roots.problem("src", str(checkout / ".git/config")))
    assert os.path.isdir(checkout / ".git")
