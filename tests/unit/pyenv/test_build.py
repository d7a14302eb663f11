# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole build with a real uv, on small packages in a directory: no network at all."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import build as building
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import Brought, Needs, Request, build
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.ensure import ensure_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import present
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.tool import find_uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import UvError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.verify import verify
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.fresh import sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.tree import file_sha256

PYPROJECT = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["alpha"]\n'


@pytest.fixture
def store(tmp_path: Path, wheelhouse: str, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A host whose pip settings name a directory of wheels and no index."""
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nno-index = true\nfind-links = {wheelhouse}\n", encoding="utf-8")
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {**clean, "PIP_CONFIG_FILE": str(config)}.items():
        monkeypatch.setenv(name, value)
    return str(tmp_path / "store")


def ensure(store: str, check_mode: bool = False, uv_lock: str | None = None, **changes: Any) -> dict[str, Any]:
    options = {
        "store_root": store, "extras": [], "python": None, "torch": "auto", "download": "auto", "uv": None,
        "state": "present", **changes,
    }  # fmt: skip
    return ensure_environment(options, {"pyproject": PYPROJECT, "uv_lock": uv_lock}, check_mode=check_mode)


def built(store: str, **changes: Any) -> dict[str, Any]:
    result = build(Request(recipe(changes.pop("pyproject", PYPROJECT)), store, **changes))
    assert isinstance(result, dict)
    return result


def leftovers(store: str) -> list[str]:
    return [name for _folder, folders, files in os.walk(store) for name in folders + files if name.endswith(".tmp")]


def value(path: str) -> str:
    command = [f"{path}/bin/python", "-c", "import alpha; print(alpha.VALUE)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


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

    def no_process(*_arguments: object, **_options: object) -> None:
        raise AssertionError("an environment that is there needs no process")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", no_process)
        patch.setattr(subprocess, "Popen", no_process)
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


def brought(store: str, wheelhouse: str, **changes: Any) -> Brought:
    wheels = []
    for name, version in (("alpha", "1.0"), ("beta", "2.0")):
        filename = f"{name}-{version}-py3-none-any.whl"
        path = os.path.join(wheelhouse, filename)
        wheel = {"name": name, "version": version, "filename": filename, "path": path}
        wheels.append({**wheel, "sha256": file_sha256(path), "size": os.path.getsize(path)})
    return Brought(**{"lock_key": "ab", "lock": "# lock\n", "wheels": wheels, **changes})


def test_without_any_source_it_says_what_it_needs(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)  # now uv would ask the public index, and UV_OFFLINE is set
    needs = build(Request(recipe(PYPROJECT), store, controller_sources="s"))
    assert isinstance(needs, Needs)
    assert "cannot be reached" in needs.reason
    assert needs.python["markers"]["sys_platform"] == "linux"
    assert needs.lock is None
    assert needs.lock_key
    assert needs.uv is False
    assert not os.path.exists(f"{store}/environments/{recipe(PYPROJECT).key}")
    with pytest.raises(UvError, match="cannot be reached"):
        build(Request(recipe(PYPROJECT), store, download="head"))
    assert leftovers(store) == []


def test_download_by_the_controller_asks_nothing_of_the_host(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_from_sources", lambda *_arguments: pytest.fail("the host was asked"))
    assert isinstance(build(Request(recipe(PYPROJECT), store, download="controller")), Needs)


def test_brought_wheels(store: str, wheelhouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    result = built(store, brought=brought(store, wheelhouse))
    path = f"{store}/environments/{recipe(PYPROJECT).key}"
    assert (result["downloaded_by"], result["lock"]["key"]) == ("controller", "ab")
    assert value(path) == "2"
    # What the controller resolved is what it gets back when the environment is built again.
    needs = building._needs(Request(recipe(PYPROJECT), store, controller_sources="s"), _python(), os.environ, "")
    assert needs.lock is None
    os.rename(f"{store}/locks/pylock.ab.toml", f"{store}/locks/pylock.{needs.lock_key}.toml")
    needs = building._needs(Request(recipe(PYPROJECT), store, controller_sources="s"), _python(), os.environ, "")
    assert needs.lock == "# lock\n"


def _python() -> Any:
    from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import choose

    return choose(PYPROJECT, None)


def test_both_ways_install_the_same(store: str, wheelhouse: str) -> None:
    first = built(store)
    ensure(store, state="absent")
    assert built(store, brought=brought(store, wheelhouse))["digest"] == first["digest"]


def test_wheels_that_the_host_does_not_see(store: str, wheelhouse: str, tmp_path: Path) -> None:
    given = brought(store, wheelhouse)
    sent = tmp_path / "sent"
    sent.mkdir()
    os.rename(given.wheels[0]["path"], tmp_path / "away.whl")
    with open(str(given.wheels[1]["path"]), "ab") as stream:
        stream.write(b"!")  # the same name, another content: not seen either
    result = build(Request(recipe(PYPROJECT), store, brought=given))
    assert isinstance(result, Needs)
    assert list(result.files) == ["alpha-1.0-py3-none-any.whl", "beta-2.0-py3-none-any.whl"]
    os.rename(tmp_path / "away.whl", sent / "alpha-1.0-py3-none-any.whl")
    result = build(Request(recipe(PYPROJECT), store, brought=Brought(**{**vars(given), "folder": str(sent)})))
    assert isinstance(result, Needs)
    assert list(result.files) == ["beta-2.0-py3-none-any.whl"]


def test_uv_from_its_wheel(store: str, wheelhouse: str, wheel_maker: Callable[..., Path], uv: str) -> None:
    version = subprocess.run([uv, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    stand_in = f'#!/bin/sh\nexec {uv} "$@"\n'
    path = wheel_maker(Path(wheelhouse), "uv", version, {f"uv-{version}.data/scripts/uv": stand_in})
    tool: dict[str, Any] = {"name": "uv", "version": version, "filename": path.name, "path": str(path)}
    tool.update(sha256=file_sha256(str(path)), size=path.stat().st_size)
    os.environ["PATH"] = "/usr/bin:/bin"
    given = brought(store, wheelhouse)
    without = build(Request(recipe(PYPROJECT), store, brought=given))
    if isinstance(without, dict):
        pytest.skip("this machine has uv in /usr/bin")
    assert without.uv is True
    built(store, brought=Brought(**{**vars(given), "tool": tool}))
    assert os.access(f"{store}/tools/uv-{version}/uv", os.X_OK)
    assert leftovers(store) == []


def test_uv_is_fetched_with_pip_once(
    store: str, wheelhouse: str, wheel_maker: Callable[..., Path], uv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if subprocess.run(["/usr/bin/python3", "-c", "import ensurepip"], check=False, capture_output=True).returncode:
        pytest.skip("/usr/bin/python3 has no ensurepip (package python3-venv)")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if find_uv(store, None, None, os.environ):
        pytest.skip("this machine has uv in /usr/bin")
    version = subprocess.run([uv, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    stand_in = f'#!/bin/sh\nexec {uv} "$@"\n'
    wheel_maker(Path(wheelhouse), "uv", version, {f"uv-{version}.data/scripts/uv": stand_in})
    assert built(store)["uv"] == version
    assert os.listdir(f"{store}/tools") == [f"uv-{version}"]
    os.remove(f"{wheelhouse}/uv-{version}-py3-none-any.whl")
    ensure(store, state="absent")
    assert built(store)["uv"] == version


def test_uv_that_cannot_be_fetched_is_needed_from_the_controller(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if find_uv(store, None, None, os.environ):
        pytest.skip("this machine has uv in /usr/bin")
    python = replace(_python(), path="/bin/false")
    monkeypatch.setattr(building, "choose", lambda *_arguments: python)
    needs = build(Request(recipe(PYPROJECT), store))
    assert isinstance(needs, Needs)
    assert needs.uv and "could not be fetched with pip" in needs.reason
    assert leftovers(store) == []


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
    killed = multiprocessing.Process(target=_build_in_background, args=(store,))
    killed.start()
    deadline = time.monotonic() + 60
    while not (leftovers(store) or os.path.exists(target)) and time.monotonic() < deadline:
        time.sleep(0.002)
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    if os.path.exists(target):
        pytest.skip("the builder was finished before it could be killed")
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
