# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of packages with a real uv: made, verified, carried, damaged, killed. The network is an index on loopback."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages import ensure as ensure_module
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.ensure import (
    Needs,
    ensure_packages,
    make_elsewhere,
    wanted_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.package_set import SetInputs, target_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages.request import PackagesRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import sweep
from tests.unit.pyenv.building import until_it_publishes
from tests.unit.pyenv.conftest import Index
from tests.unit.pyenv.supplies import PYPROJECT, ensure, locked, options, writable


@pytest.fixture
def store(supplied: str) -> str:
    return supplied


def leftovers(store: str) -> list[str]:
    return [name for name in os.listdir(f"{store}/packages") if name.startswith(".")]


def install(path: str, folder: Path, *arguments: str, cwd: str | None = None) -> str:
    """Install as a node does, with the set's own uv and nothing else; what alpha then says."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home"), "UV_NO_CONFIG": "1", "UV_OFFLINE": "1"}
    environment["UV_PROJECT_ENVIRONMENT"] = f"{folder}/venv"
    make = [f"{path}/uv", "venv", "-q", "--python", "/usr/bin/python3", f"{folder}/venv"]
    subprocess.run(make, env=environment, check=True)
    subprocess.run([f"{path}/uv", *arguments], env=environment, cwd=cwd, check=True, capture_output=True)
    said = [f"{folder}/venv/bin/python", "-c", "import alpha; print(alpha.VALUE)"]
    return subprocess.run(said, capture_output=True, text=True, check=True).stdout.strip()


def test_life_of_a_wheelhouse(store: str, index: Index, tmp_path: Path) -> None:
    planned = ensure(store, check_mode=True)
    assert planned["changed"] and not planned["ref"]["present"]
    assert not os.path.exists(store)

    first = ensure(store)
    path = first["ref"]["path"]
    assert first["changed"] and first["damaged"] == []
    assert first["ref"] == {**planned["ref"], "present": True, "digest": first["packages"]["digest"]}
    assert first["packages"]["packages"] == {"alpha": "1.0", "beta": "2.0"}
    wheels = [f"wheels/{name}-py3-none-any.whl" for name in ("alpha-1.0", "beta-2.0")]
    assert sorted(first["packages"]["files"]) == ["pylock.toml", "requirements.txt", "uv", *wheels]
    assert "alpha 1.0\n" in first["diff"]["after"]
    assert leftovers(store) == []

    index.close()  # from here on there is no network
    again = ensure(store)
    assert (again["changed"], again["ref"]) == (False, first["ref"])
    found = ["--no-index", "--find-links", f"{path}/wheels", "--require-hashes", "-r", f"{path}/requirements.txt"]
    assert install(path, tmp_path, "pip", "install", "--python", f"{tmp_path}/venv/bin/python", *found) == "2"

    assert ensure(store, check_mode=True, state="absent")["changed"]
    assert os.path.isdir(path)
    assert ensure(store, state="absent")["changed"]
    assert not os.path.exists(path)
    assert not ensure(store, state="absent", key=first["ref"]["key"])["changed"]


def test_a_cache_serves_the_lock_offline(store: str, index: Index, tmp_path: Path) -> None:
    lock = locked(tmp_path)
    made = ensure(store, lock=lock, mode="cache")
    path = made["ref"]["path"]
    assert sorted(made["packages"]["files"]) == [
        "cache.tar", "pylock.toml", "pyproject.toml", "requirements.txt", "uv", "uv.lock",
    ]  # fmt: skip
    index.close()
    with tarfile.open(f"{path}/cache.tar") as archive:
        names = archive.getnames()
    (tmp_path / "cache").mkdir()
    subprocess.run(["tar", "-xf", f"{path}/cache.tar", "-C", str(tmp_path / "cache")], check=True)
    assert not [name for name in names if name.startswith("interpreter") or name.endswith((".lock", ".tmp"))]
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copyfile(f"{path}/{name}", project / name)
    sync = ["sync", "--frozen", "--offline", "--cache-dir", f"{tmp_path}/cache", "--python", "/usr/bin/python3"]
    assert install(path, tmp_path, *sync, cwd=str(project)) == "2"
    # Another lock, another set; the same one from elsewhere, the same.
    assert ensure(store, mode="cache", check_mode=True)["ref"]["key"] != made["ref"]["key"]
    assert ensure(store, lock=lock, mode="cache")["changed"] is False


def test_a_cache_without_a_lock_and_a_wheel_beside_it(
    store: str, tmp_path: Path, wheel_maker: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_maker(tmp_path / "more", "gamma", "1.0", {"gamma.py": ""})
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "more"))
    made = ensure(store, text=PYPROJECT.replace('"alpha"', '"alpha", "gamma"'), mode="cache")
    assert made["packages"]["wheels"] == ["gamma"]
    assert set(made["packages"]["packages"]) == {"alpha", "beta", "gamma"}
    assert {"cache.tar", "wheels/gamma-1.0-py3-none-any.whl"} < set(made["packages"]["files"])
    with pytest.raises(RankzeroError, match=r"every package .* directory .*Use wheelhouse"):
        ensure(store, text=PYPROJECT.replace('"alpha"', '"gamma"'), mode="cache")


def test_for_another_platform(store: str, tmp_path: Path, index: Index, wheel_maker: Callable[..., Path]) -> None:
    text = PYPROJECT.replace('["alpha"]', '["native"]')
    for tag in ("cp312-cp312-manylinux_2_28_aarch64", "cp311-cp311-manylinux_2_34_x86_64"):
        wheel = wheel_maker(tmp_path / "native", "native", "1.0", {"native.py": ""})
        index.add(wheel.rename(tmp_path / f"native-1.0-{tag}.whl"))
    uv = wheel_maker(tmp_path / "tool", "uv", version(), {f"uv-{version()}.data/scripts/uv": "for that machine"})
    index.add(uv)
    made = ensure(store, text=text, python="3.12", platform="aarch64-manylinux_2_28")["packages"]
    assert "wheels/native-1.0-cp312-cp312-manylinux_2_28_aarch64.whl" in made["files"]
    assert made["platform"] == {"machine": "aarch64", "glibc": "2.28"}
    assert made["python"] == {"minor": "3.12", "path": None}
    with pytest.raises(RankzeroError, match="native") as caught:
        ensure(store, text=text, python="3.11", platform="x86_64-manylinux_2_28")
    # A lock of a project that this machine's own Python could not even run.
    lock = locked(tmp_path).replace('requires-python = ">=3.9"', 'requires-python = ">=3.12"')
    newer = ensure(
        store, text=PYPROJECT.replace(">=3.9", ">=3.12"), lock=lock, python="3.12", platform="x86_64-manylinux_2_28"
    )
    assert newer["packages"]["python"] == {"minor": "3.12", "path": None}
    assert leftovers(store) == [], caught.value.message


def version() -> str:
    return subprocess.run(["uv", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def test_all_that_is_missing_is_said_at_once(store: str, index: Index, tmp_path: Path) -> None:
    lock = locked(tmp_path)
    for name in ("alpha", "beta"):
        for wheel in (index.folder / name).glob("*.whl"):
            wheel.unlink()
    with pytest.raises(RankzeroError) as caught:
        ensure(store, lock=lock)
    assert caught.value.partial["missing"] == ["alpha-1.0-py3-none-any.whl", "beta-2.0-py3-none-any.whl"]
    assert "404" in caught.value.message
    assert leftovers(store) == []


def test_a_tampered_wheel_is_refused(
    store: str, index: Index, tmp_path: Path, wheel_maker: Callable[..., Path]
) -> None:
    lock = locked(tmp_path)
    wheel = wheel_maker(tmp_path / "evil", "beta", "2.0", {"beta.py": "VALUE = 666\n"})
    shutil.copyfile(wheel, index.folder / "beta" / wheel.name)
    with pytest.raises(RankzeroError, match=r"beta-2\.0.* has the sha256 ") as caught:
        ensure(store, lock=lock)
    assert caught.value.partial["missing"] == ["beta-2.0-py3-none-any.whl"]
    with pytest.raises(RankzeroError, match="fetching the packages failed"):
        ensure(store, lock=lock, mode="cache")
    assert leftovers(store) == []


@pytest.mark.parametrize("kind", ["wheelhouse", "cache"])
def test_damage_is_named_and_mended(store: str, kind: str) -> None:
    made = ensure(store, mode=kind)
    path = Path(made["ref"]["path"])
    if kind == "cache":
        file = writable(path / "cache.tar")
        content = file.read_bytes()
        at = content.index(b"VALUE = 1\n")
        file.write_bytes(content[:at] + b"VALUE = 9\n" + content[at + 10 :])
    else:
        writable(path / "wheels" / "beta-2.0-py3-none-any.whl").write_bytes(b"short")
    writable(path / "uv").unlink()
    (path / "mine.txt").write_text("left here")
    planned = ensure(store, mode=kind, check_mode=True)
    assert planned["changed"] and len(planned["damaged"]) == 3
    if kind == "cache":
        assert (
            planned["damaged"][0].startswith("cache.tar: archive-v0/") and "/beta.py (changed)" in planned["damaged"][0]
        )
    else:
        assert planned["damaged"][1] == "wheels/beta-2.0-py3-none-any.whl (changed)"
    assert {"uv (missing)", "mine.txt (is not part of it)"} < set(planned["damaged"])
    mended = ensure(store, mode=kind)
    assert mended["changed"] and mended["damaged"] == planned["damaged"] and "damaged: uv" in mended["diff"]["before"]
    assert ensure(store, mode=kind)["changed"] is False


def test_carried_in(store: str, index: Index, tmp_path: Path) -> None:
    """A folder, or a tar file of it; whatever differs from the packed file is refused by name."""
    made = ensure(store)
    index.close()
    carried = tmp_path / "usb" / made["ref"]["key"]
    shutil.copytree(made["ref"]["path"], carried)
    there = str(tmp_path / "cluster")
    taken = ensure(there, source=str(carried))
    assert taken["changed"] and taken["ref"]["digest"] == made["ref"]["digest"]
    assert ensure(there, source=str(carried))["changed"] is False
    ensure(there, state="absent")
    with tarfile.open(tmp_path / "set.tar", "w") as archive:
        archive.add(carried, arcname=carried.name)
    assert ensure(there, source=str(tmp_path / "set.tar"))["changed"]
    ensure(there, state="absent")

    with pytest.raises(RankzeroError, match=r"source: .*extras \(there \[\], asked \['more'\]\)"):
        ensure(there, source=str(carried), extras=["more"])
    with writable(carried / "wheels" / "beta-2.0-py3-none-any.whl").open("ab") as stream:
        stream.write(b"!")
    with pytest.raises(RankzeroError, match=r"source: wheels/beta-2\.0-py3-none-any\.whl .* differs from the packed"):
        ensure(there, source=str(carried))
    (carried / "wheels" / "beta-2.0-py3-none-any.whl").unlink()
    with pytest.raises(RankzeroError, match=r"wheels/beta-2\.0-py3-none-any\.whl is missing"):
        ensure(there, source=str(carried))
    writable(tmp_path / "set.tar").write_bytes((tmp_path / "set.tar").read_bytes()[:-1_000_000])
    with pytest.raises(RankzeroError, match=r"set\.tar is damaged"):
        ensure(there, source=str(tmp_path / "set.tar"))
    with pytest.raises(RankzeroError, match="neither a set of packages"):
        ensure(there, source=str(tmp_path / "nothing"))
    assert leftovers(there) == []


def test_wheels_carried_for_a_lock(store: str, index: Index, tmp_path: Path, wheelhouse: str) -> None:
    lock = locked(tmp_path)
    index.close()
    with pytest.raises(RankzeroError, match=r"the project has no uv\.lock"):
        ensure(store, source=wheelhouse)
    with pytest.raises(RankzeroError, match=r"contains wheels; .* Use mode wheelhouse"):
        ensure(store, source=wheelhouse, lock=lock, mode="cache")
    assert ensure(store, source=wheelhouse, lock=lock)["packages"]["packages"] == {"alpha": "1.0", "beta": "2.0"}
    ensure(store, lock=lock, state="absent")
    with Path(wheelhouse, "beta-2.0-py3-none-any.whl").open("ab") as stream:
        stream.write(b"!")
    with pytest.raises(RankzeroError, match=r"beta-2\.0-py3-none-any\.whl has changed since it was locked"):
        ensure(store, source=wheelhouse, lock=lock)
    for name in os.listdir(wheelhouse):
        if name.startswith("beta"):
            os.remove(os.path.join(wheelhouse, name))
    with pytest.raises(RankzeroError, match=r"lacks 1 of 2 wheels .*: beta-2\.0-py3-none-any\.whl") as caught:
        ensure(store, source=wheelhouse, lock=lock)
    assert caught.value.partial["missing"] == ["beta-2.0-py3-none-any.whl"]


def test_the_controller_makes_it_for_the_host(
    store: str, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as cut_off:
        cut_off.setenv("UV_OFFLINE", "1")
        asked = ensure(store)
        assert (asked["changed"], asked["ref"]["present"]) == (False, False)
        assert "cannot be reached" in asked["needs"]["reason"]
        with pytest.raises(RankzeroError, match="cannot be reached"):
            ensure(store, download="head")
    request: dict[str, Any] = {"pyproject": PYPROJECT}
    wanted = wanted_of(options(store), PackagesRequest(PYPROJECT))
    aim = Needs.of(json.loads(json.dumps(asked["needs"]))).aim
    assert aim is not None
    made = make_elsewhere(str(tmp_path / "controller"), wanted, aim, None)
    offer = PackagesRequest(offer=made).arguments()["offer"]
    index.close()
    assert make_elsewhere(str(tmp_path / "controller"), wanted, aim, None) == made
    unseen = {**request, "offer": {**offer, "folder": "/nonexistent"}}
    assert ensure_packages(options(store), unseen)["needs"] == {
        "reason": "the controller's set is not visible on this host"
    }
    taken = ensure_packages(options(store), {**request, "offer": offer})
    assert taken["changed"] and taken["packages"]["python"]["path"] == os.path.realpath("/usr/bin/python3")
    ensure(store, state="absent")
    with tarfile.open(tmp_path / "sent.tar", "w") as archive:
        archive.add(offer["folder"], arcname="set")
    assert ensure_packages(options(store), {**request, "sent": str(tmp_path / "sent.tar")})["ref"] == taken["ref"]


def test_a_lock_whose_files_this_host_does_not_reach(
    store: str, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has to be resolved, so it shows only when the wheels are fetched."""
    lock = locked(tmp_path)
    index.close()
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    assert "cannot be downloaded" in ensure(store, lock=lock)["needs"]["reason"]
    with pytest.raises(RankzeroError, match=r"beta-2\.0.* cannot be downloaded"):
        ensure(store, lock=lock, download="head")
    assert leftovers(store) == []


def _in_background(store: str, kind: str) -> None:
    ensure(store, mode=kind)


@pytest.mark.parametrize("kind", ["wheelhouse", "cache"])
def test_two_builders_at_once(store: str, kind: str) -> None:
    both = [multiprocessing.Process(target=_in_background, args=(store, kind)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert ensure(store, mode=kind)["changed"] is False
    assert leftovers(store) == []


@pytest.mark.parametrize(
    "sign",
    [
        "store/packages/.*.lock",
        "store/packages/.*.tmp",
        "rankzero-build-*/.*.tmp/work/pylock.toml",
        "rankzero-build-*/.*.tmp/work/cache",
        "store/packages/.*.tmp/packages/cache.tar",
        "store/packages/.*.tmp/packages/uv",
    ],
)
def test_a_killed_builder_leaves_nothing_that_counts(store: str, sign: str) -> None:
    """Killed at a sign of its progress, at the latest before it publishes; the next one makes a whole set."""
    made_by = functools.partial(_in_background, store, "cache")
    killed = until_it_publishes(ensure_module.__name__, Path(store).with_name("publishes"), made_by)
    killed.start()
    deadline = time.monotonic() + 60
    signs = (sign, "publishes")
    while not any(list(Path(store).parent.glob(one)) for one in signs) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    made = ensure(store, mode="cache")
    assert made["ref"]["present"] and made["damaged"] == []
    assert ensure(store, mode="cache")["changed"] is False
    # A uv that the killed one had started may still have been writing when the next one swept.
    sites = list(Path(store).parent.glob("rankzero-build-*"))
    while (leftovers(store) or any(map(os.listdir, sites))) and time.monotonic() < deadline:
        for place in (f"{store}/packages", *map(str, sites)):
            sweep(place)
        time.sleep(0.05)
    assert leftovers(store) == [] and not any(map(os.listdir, sites))


def test_no_space(store: str, tmp_path: Path) -> None:
    os.mkdir(store)
    program = (
        "import json, sys\nfrom ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.packages import ensure\n"
        "from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError\n"
        "try:\n    ensure.ensure_packages(*json.load(sys.stdin))\n"
        "except RankzeroError as error:\n    print(error.message)\n"
        "import os\nprint('left:', [name for name in os.listdir(sys.argv[1] + '/packages')])\n"
    )
    line = f'mount -t tmpfs -o size=4M none "{store}" && exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", line, "sh", sys.executable, "-c", program, store]
    if subprocess.run([*command[:4], line, "sh", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody make a file system of his own (unshare -rm)")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    given = json.dumps([options(store), {"pyproject": PYPROJECT}])
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment, check=False)
    assert "No space left on device" in done.stdout and "launch_cluster.store_root" in done.stdout, done
    assert "left: []" in done.stdout


def test_a_store_that_cannot_be_written(store: str) -> None:
    Path(store).write_text("a file", encoding="utf-8")
    with pytest.raises(RankzeroError, match=r"store_root: cannot write below"):
        ensure(store)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"platform": "linux"}, "Write machine and glibc like x86_64-manylinux_2_28"),
        ({"platform": "x86_64-manylinux_2_28"}, "needs python as well"),
        ({"platform": "x86_64-manylinux_2_28", "python": "3.8"}, "does not fit requires-python"),
        ({"key": "../x", "state": "absent"}, "expected 32 hexadecimal digits"),
    ],
)
def test_bad_input(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RankzeroError, match=said):
        ensure(str(tmp_path / "store"), **changes)


def test_the_key_is_that_of_the_inputs() -> None:
    made = recipe(PYPROJECT)
    other = recipe(PYPROJECT, python="3.11")
    known, *others = (SetInputs(*given).key for given in ((made, "wheelhouse"), (made, "cache"), (other, "wheelhouse")))
    assert known == "934f96a284d23c4cc106b297cfb886b2" and len({known, *others}) == 3
    assert target_of("aarch64-manylinux_2_17", "3.9").glibc == (2, 17)
