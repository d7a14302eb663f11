# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A project that is only data: it learns no variable of the machine, and nothing of it runs on the controller."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import only_data, recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import pip_settings
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import UvError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import wheelhouse as controller_side

HEAD = '[project]\nname = "x"\nversion = "0"\n'
CANARY = "of-the-runner"
CANARIES = dict.fromkeys(
    (
        "CI_DEPLOY_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "ANSIBLE_VAULT_PASSWORD", "HF_TOKEN", "VAULT_TOKEN",
        "WANDB_API_KEY", "SSH_AUTH_SOCK", "PGPASSWORD", "MYTOK", "KUBECONFIG", "RANKZERO_NOTIFY_TEAM",
    ),
    CANARY,
)  # fmt: skip


def depends(*requirements: str) -> str:
    return HEAD + "dependencies = [" + ", ".join(f'"{each}"' for each in requirements) + "]\n"


@pytest.mark.parametrize(
    "text",
    [
        depends("leak @ http://host/${CI_DEPLOY_TOKEN}/leak-1.0-py3-none-any.whl"),
        depends("leak @ http://host/\\u0024{MYTOK}/leak-1.0-py3-none-any.whl"),
        depends("leak @ http://host/\\U00000024\\u007bMYTOK\\u007D/leak-1.0-py3-none-any.whl"),
        HEAD + 'dependencies = ["""leak @ http://host/$\\\n   {MYTOK}/leak-1.0-py3-none-any.whl"""]\n',
        HEAD + '[dependency-groups]\nx = ["leak @ file://${HOME}/x"]\n',
    ],
)
def test_a_variable_in_a_recipe_is_refused(text: str) -> None:
    with pytest.raises(RankzeroError, match=r"pyproject\.toml contains \$\{[A-Z_]+\}"):
        recipe(text)
    with pytest.raises(RankzeroError, match=r"uv\.lock contains \$\{"):
        recipe(HEAD, text)


@pytest.mark.parametrize(
    "text",
    [
        depends("leak @ https://host/leak-1.0-py3-none-any.whl"),
        depends("leak@git+ssh://git@host/leak"),
        depends("leak[extra] @ file:///etc"),
        depends("leak @ ../other"),
        depends("leak \\u0040 https://host/x.whl"),
        depends("leak @ ext::sh -c id"),
        depends("leak @ git+ext::sh"),
        depends("a") + "[tool.uv.sources]\na = {git = 'https://host/a'}\n",
        depends("a") + "[[tool.uv.index]]\nurl = 'https://host/simple'\n",
        depends("a") + "[ tool . 'uv' . pip ]\nno-binary = [':all:']\n",
        depends("a") + "[tool.uv]\nno-binary-package = ['a']\n",
        depends("a") + "[tool.uv]\nfind-links = ['/tmp']\n",
    ],
)
def test_the_controller_takes_packages_by_name_only(text: str) -> None:
    made = recipe(text)
    with pytest.raises(RankzeroError, match="takes packages only by name"):
        only_data(made)
    only_data(recipe(text, "version = 1\n"))


@pytest.mark.parametrize(
    "text",
    [
        depends("torch>=2", "numpy[all]==1.0; python_version > '3.9'"),
        HEAD + 'authors = [{name = "A", email = "a@example.org"}]\ndescription = "fast @ scale, $5"\n',
        depends("a") + '[project.urls]\ncode = "git@host:me/x.git"\nhome = "https://user@host/x"\n',
        depends("a") + '[tool.poe.tasks]\nx = "echo ${name} $HOME"\n[tool.uv]\npackage = false\n',
        depends("a") + '[tool.hatch.build]\nsources = ["src"]\n',
    ],
)
def test_usual_projects_are_data(text: str) -> None:
    only_data(recipe(text))


def test_children_learn_nothing_of_the_runner() -> None:
    environ = {
        **CANARIES,
        "PATH": "/bin",
        "HOME": "/h",
        "UV_INDEX_URL": "https://i",
        "https_proxy": "http://p",
        "LC_ALL": "C",
    }
    pip = pip_settings.parse_pip_settings([], environ)
    for made in (
        child_environment(environ),
        pip_settings.uv_environment(pip, environ),
        pip_settings.controller_environment(pip, environ, lambda _path: False),
    ):
        assert CANARY not in made.values()
        assert {"PATH", "HOME", "https_proxy", "LC_ALL"} <= set(made)
    assert child_environment(environ, "HF_")["HF_TOKEN"] == CANARY, "what belongs to the program itself"


@pytest.mark.parametrize(
    ("there", "environ", "expected"),
    [
        ([], {}, {"UV_NO_CONFIG": "1"}),
        (["/etc/uv/uv.toml"], {}, {"UV_CONFIG_FILE": "/etc/uv/uv.toml"}),
        (["/etc/uv/uv.toml", "/h/.config/uv/uv.toml"], {}, {"UV_CONFIG_FILE": "/h/.config/uv/uv.toml"}),
        (["/etc/uv/uv.toml"], {"UV_NO_CONFIG": "1"}, {"UV_NO_CONFIG": "1"}),
        (["/etc/uv/uv.toml"], {"UV_CONFIG_FILE": "/own"}, {"UV_CONFIG_FILE": "/own"}),
    ],
)
def test_on_the_controller_uv_reads_settings_of_the_user_and_not_of_the_project(
    there: list[str], environ: dict[str, str], expected: dict[str, str]
) -> None:
    given = {"HOME": "/h", **environ}
    made = pip_settings.controller_environment(pip_settings.PipSettings(), given, there.__contains__)
    assert {name: made.get(name) for name in ("UV_NO_CONFIG", "UV_CONFIG_FILE") if made.get(name)} == expected


@pytest.mark.parametrize(
    "settings",
    [
        "[tool.uv]\nno-binary-package = ['evil']\n",
        "[tool.uv]\nno-binary = true\n",
        "[tool.uv.pip]\nno-binary = [':all:']\nno-build-isolation = true\n",
        "[tool.uv]\nno-build = false\n[tool.uv.sources]\nevil = {path = '%s'}\n",
        "",
    ],
)
def test_no_setting_of_a_project_makes_the_controller_build_it(
    tmp_path: Path, clean: dict[str, str], settings: str
) -> None:
    """What uv itself does, past our own refusal: a source archive whose build leaves a mark."""
    mark, links = tmp_path / "mark", tmp_path / "links"
    backend = f"open({str(mark)!r}, 'w').close()\n"
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    content = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n", "pyproject.toml": build, "backend.py": backend
    }  # fmt: skip
    links.mkdir()
    with tarfile.open(links / "evil-1.0.tar.gz", "w:gz") as packed:
        for name, text in content.items():
            entry = tarfile.TarInfo(f"evil-1.0/{name}")
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text.encode()))
    (tmp_path / "pyproject.toml").write_text(depends("evil") + (settings % links if "%s" in settings else settings))
    given = {name: value for name, value in clean.items() if name != "UV_NO_CONFIG"}
    tool = controller_side.own_uv({**given, "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(links)})
    assert tool is not None
    command = ["pip", "compile", "pyproject.toml", "--only-binary", ":all:", "--no-sources"]
    with pytest.raises(UvError):
        tool.run(command, str(tmp_path), "resolving")
    assert not mark.exists()
