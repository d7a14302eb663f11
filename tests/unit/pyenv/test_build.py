# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole build with a real uv, on small packages in a directory: no network at all."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import build as builder
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import Request, build
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import present
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.uv import UvError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.verify import verify
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import sweep
from tests.unit.pyenv.building import PYPROJECT, built, ensure, leftovers, no_process, until_it_publishes, value


def test_life_of_an_environment(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = ensure(store, check_mode=True)
    assert planned["changed"]
    assert not os.path.exists(store)

    first = ensure(store)
    path = first["ref"]["path"]
    assert first["changed"]
    assert first["ref"] == {**planned["ref"], "present": True, "digest": first["environment"]["digest"]}
    assert path == f"{store}/environments/{first['ref']['key']}"
    assert first["environment"]["packages"] == {"alpha": "1.0", "beta": "2.0"}
    assert first["environment"]["downloaded_by"] == "head"
    assert value(path) == "2"
    assert leftovers(store) == []
    with open(f"{path}/env.json", encoding="utf-8") as stream:
        assert json.load(stream) == first["environment"]

    with no_process(monkeypatch):
        again = ensure(store)
        assert (again["changed"], again["ref"]) == (False, first["ref"])
        assert ensure(store, check_mode=True)["ref"] == first["ref"]

    assert ensure(store, check_mode=True, state="absent")["changed"]
    assert os.path.isdir(path)
    gone = ensure(store, state="absent")
    assert (gone["changed"], gone["ref"]["present"]) == (True, False)
    assert os.listdir(f"{store}/environments") == []
    assert not ensure(store, state="absent")["changed"]


def test_ranks_cannot_change_it_and_need_not_compile(store: str) -> None:
    ensure(store)
    folder = os.path.join(store, "environments", recipe(PYPROJECT).key, "lib")
    writable = [
        os.path.join(place, name)
        for place, folders, files in os.walk(folder)
        for name in folders + files
        if os.lstat(os.path.join(place, name)).st_mode & 0o222 and not os.path.islink(os.path.join(place, name))
    ]
    assert writable == []
    compiled = [name for _place, _folders, files in os.walk(folder) for name in files if name.endswith(".pyc")]
    assert any(name.startswith("beta.") for name in compiled)
    bits = os.stat(os.path.dirname(folder)).st_mode
    assert bits & stat.S_IROTH
    assert bits & stat.S_IXOTH


def test_it_runs_after_moving(store: str, tmp_path: Path) -> None:
    path = ensure(store)["ref"]["path"]
    os.rename(path, tmp_path / "moved")
    assert value(str(tmp_path / "moved")) == "2"


def test_the_lock_is_kept_and_used(store: str, wheelhouse: str, wheel_maker: Callable[..., Path]) -> None:
    first = built(store)
    (lock,) = os.listdir(f"{store}/locks")
    assert lock == f"pylock.{first['lock']['key']}.toml"
    # A newer version appears: an environment that is built again from the same recipe stays what it was.
    wheel_maker(Path(wheelhouse), "beta", "3.0", {"beta.py": "VALUE = 10\n"})
    ensure(store, state="absent")
    second = built(store)
    assert second["packages"] == first["packages"]
    assert second["digest"] == first["digest"]
    os.remove(f"{store}/locks/{lock}")
    ensure(store, state="absent")
    third = built(store)
    assert third["packages"]["beta"] == "3.0"
    assert third["digest"] != first["digest"]


def test_a_uv_lock_decides(store: str, wheelhouse: str, wheel_maker: Callable[..., Path], tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    environment = {**os.environ, "UV_NO_INDEX": "1", "UV_FIND_LINKS": wheelhouse}
    subprocess.run(["uv", "lock", "-q", "--python", "/usr/bin/python3"], cwd=project, env=environment, check=True)
    wheel_maker(Path(wheelhouse), "beta", "3.0", {"beta.py": "VALUE = 10\n"})
    result = ensure(store, uv_lock=(project / "uv.lock").read_text(encoding="utf-8"))
    assert result["environment"]["packages"]["beta"] == "2.0"
    assert result["ref"]["key"] != recipe(PYPROJECT).key
    assert os.listdir(f"{store}/locks") == []


def test_torch_from_the_directory(store: str, wheelhouse: str, wheel_maker: Callable[..., Path]) -> None:
    for version in ("2.13.0+cpu", "2.14.0"):
        wheel_maker(Path(wheelhouse), "torch", version, {"torch/__init__.py": ""})
    text = PYPROJECT.replace('["alpha"]', '["torch>=2"]')
    assert built(store, pyproject=text)["packages"]["torch"] == "2.14.0"
    # The project wants another one than the newest that lies there: the directory still serves it.
    text = PYPROJECT.replace('["alpha"]', '["torch<2.14"]')
    assert built(store, pyproject=text)["packages"]["torch"] == "2.13.0+cpu"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PYPROJECT.replace('"alpha"', '"alpha>=9"'), "no set of packages satisfies"),
        (PYPROJECT.replace('"alpha"', '"nothing"'), "nothing"),
        ("[project\n", "pyproject.toml"),
        (PYPROJECT.replace(">=3.9", ">=3.99"), 'requires-python = ">=3.99"'),
    ],
)
def test_bad_projects(store: str, text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV_OFFLINE")  # it would hide that no index knows the package; this host's pip has none
    with pytest.raises(RankzeroError) as caught:
        build(Request(recipe(text), store))
    assert said in caught.value.message
    assert leftovers(store) == []


def test_unknown_extra(store: str) -> None:
    with pytest.raises(RankzeroError, match="nope"):
        build(Request(recipe(PYPROJECT, extras=["nope"]), store))


def test_a_package_that_does_not_import(store: str, wheelhouse: str, wheel_maker: Callable[..., Path]) -> None:
    wheel_maker(Path(wheelhouse), "alpha", "1.1", {"alpha/__init__.py": "import no_such_library\n"})
    with pytest.raises(RankzeroError, match="import alpha: ModuleNotFoundError: No module named 'no_such_library'"):
        build(Request(recipe(PYPROJECT), store))
    assert os.listdir(f"{store}/environments") == []


def test_a_missing_gpu_driver_is_a_warning(store: str, wheelhouse: str, wheel_maker: Callable[..., Path]) -> None:
    text = "raise ImportError('libcuda.so.1: cannot open shared object file')\n"
    wheel_maker(Path(wheelhouse), "alpha", "1.1", {"alpha/__init__.py": text})
    assert "libcuda.so.1" in built(store)["import_warnings"]["alpha"]


def test_the_interpreter_dies_at_an_import(store: str, wheelhouse: str, wheel_maker: Callable[..., Path]) -> None:
    text = "import os\nos.kill(os.getpid(), 9)\n"
    wheel_maker(Path(wheelhouse), "alpha", "1.1", {"alpha/__init__.py": text})
    with pytest.raises(RankzeroError, match=r"import alpha: the interpreter ended with code -9"):
        build(Request(recipe(PYPROJECT), store))


def test_a_tampered_wheel_is_refused(
    store: str, wheelhouse: str, wheel_maker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    built(store)
    ensure(store, state="absent")
    wheel_maker(Path(wheelhouse), "beta", "2.0", {"beta.py": "VALUE = 666\n"})
    monkeypatch.setenv("UV_CACHE_DIR", f"{store}/cache")  # the old one still has the right content
    with pytest.raises(UvError, match="installing the packages failed"):
        build(Request(recipe(PYPROJECT), store))
    assert os.listdir(f"{store}/environments") == []


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_verify_names_what_is_wrong(store: str, damage: str) -> None:
    path = ensure(store)["ref"]["path"]
    minor = present(path)["python"]["version"].rpartition(".")[0]  # type: ignore[index]
    assert [package.name for package in verify(path, minor)] == ["alpha", "beta"]
    module = Path(path, "lib", f"python{minor}", "site-packages", "beta.py")
    module.parent.chmod(0o755)
    module.chmod(0o644)
    if damage == "changed":
        module.write_text("VALUE = 2\n", encoding="utf-8")
    else:
        module.unlink()
    with pytest.raises(RankzeroError, match=rf"1 installed files .* beta\.py \({damage}\)"):
        verify(path, minor)


def test_an_environment_whose_python_has_gone_is_built_anew(store: str) -> None:
    path = ensure(store)["ref"]["path"]
    os.chmod(f"{path}/bin", 0o755)
    os.remove(f"{path}/bin/python")
    os.symlink("/nonexistent/python3", f"{path}/bin/python")
    assert present(path) is None
    assert ensure(store, check_mode=True)["changed"]
    assert ensure(store)["changed"]
    assert value(path) == "2"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"python": {}}'])
def test_half_a_record_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "env.json").write_text(content, encoding="utf-8")
    assert present(str(tmp_path)) is None
    assert present(str(tmp_path / "missing")) is None


def _build_in_background(store: str) -> None:
    build(Request(recipe(PYPROJECT), store))


def test_two_builders_at_once(store: str) -> None:
    both = [multiprocessing.Process(target=_build_in_background, args=(store,)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert os.listdir(f"{store}/environments") == [recipe(PYPROJECT).key]
    assert value(f"{store}/environments/{recipe(PYPROJECT).key}") == "2"


def test_a_killed_builder_leaves_nothing_that_looks_finished(store: str) -> None:
    target = f"{store}/environments/{recipe(PYPROJECT).key}"
    made_by = functools.partial(_build_in_background, store)
    killed = until_it_publishes(builder.__name__, Path(store).with_name("publishes"), made_by)
    killed.start()
    deadline = time.monotonic() + 60
    while not leftovers(store) and time.monotonic() < deadline:
        time.sleep(0.002)
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    assert leftovers(store)
    assert present(target) is None
    assert ensure(store)["changed"]
    assert value(target) == "2"
    # A uv that the killed builder had started may still have been writing when the next one swept.
    while leftovers(store) and time.monotonic() < deadline:
        sweep(os.path.dirname(target))
        time.sleep(0.05)
    assert leftovers(store) == []


def test_a_store_that_cannot_be_written(store: str) -> None:
    Path(store).write_text("a file", encoding="utf-8")
    with pytest.raises(RankzeroError, match=r"store_root: cannot write below .*launch_cluster\.store_root"):
        build(Request(recipe(PYPROJECT), store))
