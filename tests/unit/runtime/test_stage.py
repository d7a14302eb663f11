# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Staging (P5): the archive, a node's own disk, who sends what to whom, and a whole job with stand-ins for Slurm."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.launching import RUNTIME
from tests.unit.runtime.harness import Job, Site, wait_for


def part(name: str) -> ModuleType:
    """A module of the runtime, as its own programs import it."""
    path = os.path.join(RUNTIME, f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def parts() -> Iterator[dict[str, ModuleType]]:
    before = dict(sys.modules)
    yield {name: part(name) for name in ("disk", "pack", "preflight", "stage")}
    for name in ("disk", "pack", "preflight", "stage"):
        sys.modules.pop(name)
    assert set(before) <= set(sys.modules)


@pytest.fixture
def disk(parts: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("RANKZERO_RUN_DIR", "/state/runs/job/key/1")
    return parts["disk"]


# --- the archive


def tree(root: Path, number: int = 0) -> Path:
    """A folder of all that may lie in one; `number` changes what must not matter."""
    names = ["b/deep/file", "a", "é", "-rf"]
    for name in reversed(names) if number else names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}\n" * 50, encoding="utf-8")
        os.utime(path, (number, number))
        path.chmod(0o444 if number else 0o640)
    (root / "run").write_bytes(b"#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "empty").mkdir()
    (root / "out").symlink_to("/usr/bin/env")
    (root / "dangling").symlink_to("nowhere")
    (root / "b" / "back").symlink_to(root / "a")
    return root


def test_the_same_content_makes_the_same_archive_wherever_it_lies(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    made = []
    for number in (0, 1):
        root = tree(tmp_path / f"place{number}" / "tree", number)
        made.append(parts["pack"].pack(str(root), str(tmp_path / f"{number}.tar")))
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()
    assert made[0]["sha256"] == made[1]["sha256"] == parts["pack"].file_sha256(str(tmp_path / "0.tar"))
    assert made[0]["bytes"] == (tmp_path / "0.tar").stat().st_size


def test_what_is_unpacked_is_what_was_packed(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    root, copy = tree(tmp_path / "tree"), tmp_path / "copy"
    parts["pack"].pack(str(root), str(tmp_path / "tar"))
    parts["pack"].unpack(str(tmp_path / "tar"), str(copy))
    found = {path.relative_to(copy).as_posix() for path in copy.rglob("*")}
    assert found == {path.relative_to(root).as_posix() for path in root.rglob("*")}
    assert (copy / "b/deep/file").read_text(encoding="utf-8") == (root / "b/deep/file").read_text(encoding="utf-8")
    assert os.access(copy / "run", os.X_OK) and not os.access(copy / "a", os.X_OK)
    links = {name: os.readlink(copy / name) for name in ("out", "dangling", "b/back")}
    # A link to a place in the folder itself would lead back to where the folder was.
    assert links == {"out": "/usr/bin/env", "dangling": "nowhere", "b/back": "../a"}


def test_only_an_archive_that_is_kept_and_shrinks_is_compressed(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    root, noise = tree(tmp_path / "tree"), tmp_path / "noise"
    noise.mkdir()
    (noise / "noise").write_bytes(os.urandom(100_000))
    sent = parts["pack"].pack(str(root), str(tmp_path / "sent"))
    for name, folder, shrinks in (("text", root, True), ("noise", noise, False)):
        archive = tmp_path / f"kept-{name}"
        made = parts["pack"].pack(str(folder), str(archive), kept=True)
        assert (archive.read_bytes()[:2] == b"\x1f\x8b") is shrinks
        parts["pack"].unpack(str(archive), str(tmp_path / f"copy-{name}"))
        assert (made["bytes"] < sent["bytes"]) is shrinks


def test_a_kept_archive_is_made_once_and_anew_where_it_is_not_whole(
    parts: dict[str, ModuleType], tmp_path: Path
) -> None:
    root, archive = tree(tmp_path / "tree"), tmp_path / "archives" / "code-1.tar"
    old = tmp_path / "archives" / "code-1.tar.host-1.tmp"
    old.parent.mkdir()
    old.write_text("of a packer that was killed")
    os.utime(old, (0, 0))
    first = parts["pack"].keep(str(root), str(archive))
    assert sorted(path.name for path in archive.parent.iterdir()) == ["code-1.tar", "code-1.tar.json"]
    (root / "later").write_text("a snapshot never changes: nobody looks again")
    assert parts["pack"].keep(str(root), str(archive)) == first == parts["pack"].kept(str(archive))
    (root / "later").unlink()
    archive.write_bytes(archive.read_bytes()[:-1])
    assert parts["pack"].kept(str(archive)) is None
    assert parts["pack"].keep(str(root), str(archive)) == first
    assert parts["pack"].file_sha256(str(archive)) == first["sha256"]


@pytest.mark.parametrize("how", ["cut", "garbled", "dishonest"])
def test_a_damaged_archive_is_an_error(parts: dict[str, ModuleType], tmp_path: Path, how: str) -> None:
    import io
    import tarfile

    archive = tmp_path / "tar"
    if how == "dishonest":
        with tarfile.open(archive, "w") as made:
            made.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    else:
        root = tmp_path / "tree"
        root.mkdir()
        (root / "file").write_bytes(os.urandom(50_000))
        parts["pack"].pack(str(root), str(archive))
        content = archive.read_bytes()
        archive.write_bytes(content[:20_000] if how == "cut" else b"x" * 600 + content[600:])
    with pytest.raises((parts["pack"].Damaged, OSError)):
        parts["pack"].unpack(str(archive), str(tmp_path / "copy"))
    assert not (tmp_path / "outside").exists()


# --- the node's own disk


def test_a_disk_comes_before_memory_and_memory_only_with_room_for_the_job(
    disk: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"/mem": (5_000, 99, "tmpfs: memory"), "/disk": (1_000, 99, "ext4"), "/net": (0, 99, "nfs4")}
    monkeypatch.setattr(disk, "room", lambda path, _limit: places[path])
    assert disk.choose([*places], 1_000, 9, 0) == "/disk"
    assert disk.choose([*places], 1_001, 9, 0) == "/mem"
    with pytest.raises(disk.Trouble) as error:
        disk.choose([*places], 6_000_000_000, 9, 0)
    text = str(error.value)
    assert "6.0 GB in 9 files are needed" in text
    assert "/mem (tmpfs: memory) has 0.0 MB; /disk (ext4) has 0.0 MB; /net (nfs4) has 0.0 MB" in text
    assert "launch_cluster.local_dir" in text
    places["/disk"] = (1_000, 3, "ext4")
    with pytest.raises(disk.Trouble, match=r"/disk .ext4. has 0\.0 MB and 3 files"):
        disk.choose(["/disk"], 1, 9, 0)


def test_memory_is_at_most_half_of_the_jobs(disk: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk.memory_room(2) == 1 << 20
    assert 0 < disk.memory_room(0) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    monkeypatch.setattr(disk, "file_system", lambda _path: "tmpfs")
    assert disk.room("/tmp", 2)[0] <= 1 << 20
    for kind in ("nfs4", "lustre", "fuse.sshfs"):
        monkeypatch.setattr(disk, "file_system", lambda _path, kind=kind: kind)
        assert disk.room("/tmp", 0)[0] == 0
    assert disk.room("/nowhere/at/all", 0) == (0, -1, "no folder that may be written")


def test_the_type_of_a_file_system_is_that_of_the_innermost_mount(disk: ModuleType) -> None:
    assert disk.file_system("/proc/self") == "proc"
    assert disk.file_system("/dev/shm/nowhere") in ("tmpfs", "devtmpfs")


def test_candidates_are_the_sites_own_or_the_usual_ones(disk: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    monkeypatch.setenv("TMPDIR", "/scratch/7/")
    assert disk.candidates("/local", "/slurm") == ["/local"]
    assert disk.candidates("", "/slurm") == ["/scratch/7", "/slurm", "/tmp", "/var/tmp"]


def test_the_last_one_takes_the_folder_with_it(disk: ModuleType, tmp_path: Path) -> None:
    first, second = (
        disk.Home(
            str(tmp_path),
        ),
        disk.Home(str(tmp_path)),
    )
    folder = Path(first.path)
    assert folder.name.startswith(f"rankzero-{os.getuid()}-7-") and folder.stat().st_mode & 0o777 == 0o700
    locked = folder / "copy" / "read-only"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    locked.chmod(0o500)
    first.leave()
    assert (locked / "file").exists()
    second.leave()
    assert not folder.exists()


def test_leftovers_of_dead_jobs_are_swept_and_nothing_else(
    disk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = disk.Home(str(tmp_path))
    dead = tmp_path / f"rankzero-{os.getuid()}-6-00000000"
    (dead / "environment.copy" / "tree").mkdir(parents=True)
    (dead / "lock").touch()
    somebody = tmp_path / f"rankzero-{os.getuid() + 1}-6-00000000"
    somebody.mkdir()
    (tmp_path / f"rankzero-{os.getuid()}-link").symlink_to(somebody)
    assert disk.sweep([str(tmp_path), "/nowhere/at/all"]) == [str(dead)]
    assert not dead.exists() and somebody.exists() and Path(alive.path).exists()
    alive.leave()
    # A requeued job finds what its own killed attempt left: nothing of that is used.
    left = Path(disk.Home(str(tmp_path)).path)
    monkeypatch.setattr(disk.fcntl, "flock", lambda *_: None)
    (left / "environment.copy").mkdir()
    assert [path.name for path in Path(disk.Home(str(tmp_path)).path).iterdir()] == ["lock"]


def test_somebody_elses_folder_is_not_used(disk: ModuleType, tmp_path: Path) -> None:
    (tmp_path / disk.name()).symlink_to("/")
    with pytest.raises(disk.Trouble, match="somebody else's"):
        disk.Home(str(tmp_path))


# --- who sends what to whom


def report(folder: Path, name: str, lacks: str = "", sees: str = "", *problems: str) -> None:
    missing = {kind: f"no {kind}" for kind in lacks.split()}
    document = {"columns": {}, "problems": [*missing.values(), *problems], "lacks": missing, "sees": sees.split()}
    (folder / f"{name}.json").write_text(json.dumps({**document, "usable": []}))


def planned(
    stage: ModuleType, folder: Path, names: str, capsys: pytest.CaptureFixture[str], archives: str = ""
) -> tuple[list[str], dict[str, Any]]:
    given = {"folder": str(folder), "nodes": names, "local_dir": "", "slurm_tmp": "", "memory": 0, "seconds": 1}
    paths = {"code": "/store/code/k", "python": "/store/environments/e/bin/python", "archives": archives}
    stage.plan(stage.Stage(Namespace(**given)), Namespace(**paths))
    file = folder / "stage" / "plan"
    return capsys.readouterr().out.splitlines(), json.loads(file.read_text()) if file.exists() else {}


def test_each_thing_goes_from_a_node_that_sees_it_to_those_that_lack_it(
    parts: dict[str, ModuleType], disk: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(tmp_path, "n1", "code", "environment")
    report(tmp_path, "n2", "code environment")
    report(tmp_path, "n3", "", "code environment")
    report(tmp_path, "n4", "code", "environment", "2 GPUs for 4")
    lines, plan = planned(parts["stage"], tmp_path, "n1,n2,n3,n4,n5", capsys)
    # A node that is unfit anyway, and one that has not reported, take no part.
    assert lines == ["hold n1,n2,n3", f"view {disk.view()}", "code n3", "environment n1"]
    assert plan["code"] == {"path": "/store/code/k", "nodes": ["n1", "n2"], "source": "n3", "archive": ""}
    assert plan["environment"]["nodes"] == ["n2"]


def test_where_nothing_is_missing_nothing_is_planned(
    parts: dict[str, ModuleType], disk: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(tmp_path, "n1", "", "code environment")
    (tmp_path / "stage").mkdir()
    (tmp_path / "stage" / "plan").write_text("{}")  # of an attempt that was cut short
    assert planned(parts["stage"], tmp_path, "n1", capsys) == ([], {})


def test_what_no_node_sees_comes_from_the_archive_or_is_named(
    parts: dict[str, ModuleType], disk: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts["pack"].keep(str(tree(tmp_path / "tree")), str(tmp_path / "archives" / "code-k.tar"))
    report(tmp_path, "n1", "code environment")
    lines, plan = planned(parts["stage"], tmp_path, "n1", capsys, str(tmp_path / "archives"))
    assert lines[2:] == ["code n1"]
    assert plan["code"]["archive"] == str(tmp_path / "archives" / "code-k.tar")
    (problem,) = [one for one in json.loads((tmp_path / "n1.json").read_text())["problems"] if "environment" in one]
    assert problem == (
        "staging the environment: no node of the job sees /store/environments/e, and "
        f"{tmp_path}/archives has it no longer: launch again"
    )
    report(tmp_path, "n1", "code")
    assert planned(parts["stage"], tmp_path, "n1", capsys) == ([], {})
    assert "launch_cluster.store_shared: false" in (tmp_path / "n1.json").read_text()


def test_programs_of_a_moved_environment_find_its_python(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name, text in (("own", "#!/store/e/bin/python\nx = 1\n"), ("other", "#!/store/e2/bin/python\n")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to("/store/e/bin/python")
    parts["stage"].readdress(str(tmp_path), "/store/e", "/tmp/v/environment")
    assert (tmp_path / "bin" / "own").read_text() == "#!/tmp/v/environment/bin/python\nx = 1\n"
    assert os.access(tmp_path / "bin" / "own", os.X_OK)
    assert (tmp_path / "bin" / "other").read_text() == "#!/store/e2/bin/python\n"


# --- a whole job


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    made.environment()
    # Programs and not functions: others than bash start them.
    made.program("srun", f'exec {shlex.join([sys.executable, "-I", str(made.tools / "srun.py")])} "$@"')
    # sbcast --force --jobid=JOB.STEP FILE DEST, as a receiver sees it.
    made.program("sbcast", 'cp -f "$3" "$4"')
    return made


def staged(site: Site, program: str | None = None, stage: str = "always", **spec: Any) -> Job:
    """A job with an environment, whose ranks run a line for the shell."""
    lines = [f"export PATH={site.tools}:$PATH"]
    given = {"preflight": {"stage": stage}, "setup": {"commands": lines}, **({"shell": program} if program else {})}
    return site.job({**given, **spec}, environment=True)


def leftovers() -> set[str]:
    return {name for place in ("/tmp", "/var/tmp") for name in os.listdir(place) if name.startswith("rankzero-")}


def of(job: Job) -> list[str]:
    """What lies around of this job's run."""
    import zlib

    return [name for name in leftovers() if name.endswith(f"-{zlib.crc32(os.fsencode(str(job.run))):08x}")]


def test_every_rank_runs_from_the_copies_and_they_are_gone_at_the_end(site: Site) -> None:
    (site.code / "package").mkdir()
    (site.code / "package" / "data").write_text("of the code\n")
    line = 'cat package/data; readlink -f package; which python; echo "$RANKZERO_PYTHON"; echo "$VIRTUAL_ENV"; pwd; '
    line += "echo '{}' > result.json"
    for kind in ("srun", "torchrun"):
        job = staged(site, line, name=kind, launcher={"kind": kind}, artifact={})
        assert job.finish() == 0, job.log()
        table = (job.run / "preflight" / "0" / "table").read_text()
        assert "proj=staged env=staged" in table and "python=3." in table
        said = (job.run / "logs/0/rank-0000.log").read_text().splitlines()
        data, code, python, own, environment, where = said[-6:]
        assert data == "of the code"
        assert code.endswith("/code.copy/tree/package")
        assert python == own == f"{environment}/bin/python"
        assert environment.startswith("/tmp/rankzero-") and environment.endswith("/environment")
        assert where == str(job.run / "work")
        assert of(job) == []
        # For whoever looks later, the working directory leads to the snapshot.
        assert os.readlink(job.run / "work" / "package") == str(site.code / "package")
        assert (job.run / "work" / "result.json").exists() and not (job.run / ".staged").exists()


def test_nodes_that_share_one_machine_share_the_copy(site: Site) -> None:
    job = staged(site, "cat probe.py > /dev/null && pwd", resources={"nodes": 2})
    assert job.finish(nodes="n1,n2") == 0, job.log()
    assert (job.run / "preflight" / "0" / "table").read_text().count("proj=staged env=staged") == 2
    assert all(str(job.run / "work") in path.read_text() for path in (job.run / "logs/0").glob("rank-*"))
    assert of(job) == []


def test_a_failing_program_and_a_refused_job_leave_nothing(site: Site) -> None:
    failing = staged(site, "exit 3")
    assert failing.finish() == 3
    refused = staged(site, name="refused", preflight={"stage": "always", "imports": ["no_such_module_here"]})
    assert refused.finish() == 69
    assert "environment: ModuleNotFoundError" in refused.outcome()["message"]
    assert of(failing) == of(refused) == []


def test_a_signal_ends_the_ranks_and_then_the_copies(site: Site) -> None:
    line = "trap 'cat probe.py > /dev/null && echo still here; exit 5' TERM; touch begun; while :; do sleep 0.1; done"
    job = staged(site, line)
    process = job.start()
    wait_for((job.run / "work" / "begun").exists, process)
    assert of(job)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 5
    assert "still here" in (job.run / "logs/0/rank-0000.log").read_text()
    assert of(job) == []


def test_a_damaged_transfer_is_named_and_nothing_runs(site: Site) -> None:
    site.program("sbcast", 'cp -f "$3" "$4"; printf x | dd of="$4" bs=1 seek=700 conv=notrunc 2> /dev/null')
    job = staged(site)
    assert job.finish() == 69
    assert "localhost: staging the code: damaged on the way: " in job.outcome()["message"]
    assert not list((job.run / "logs" / "0").glob("rank-*"))
    assert of(job) == []


def test_a_transfer_that_fails_is_named_with_what_sbcast_said(site: Site) -> None:
    site.program("sbcast", 'echo "sbcast: error: Invalid job credential" >&2; exit 1')
    job = staged(site)
    assert job.finish() == 69
    wanted = "localhost: staging the code: sbcast on localhost: sbcast: error: Invalid job credential"
    assert wanted in job.outcome()["message"]
    assert of(job) == []


def told(job: Job, **variables: str) -> None:
    """What the cluster's settings would have put into the script."""
    script = job.run / "job.sbatch"
    lines = "".join(f"export {name}={value}\n" for name, value in variables.items())
    script.write_text(script.read_text().replace("export RANKZERO_STAGE=", lines + "export RANKZERO_STAGE=", 1))


def test_a_node_without_room_is_named_with_the_numbers(site: Site) -> None:
    job = staged(site)
    told(job, RANKZERO_LOCAL_DIR="/nowhere/at/all")
    assert job.finish() == 69
    assert "localhost: staging the code: it cannot be packed on localhost: no room: " in job.outcome()["message"]
    assert "/nowhere/at/all (no folder that may be written) has 0.0 MB" in job.outcome()["message"]
    assert of(job) == []


def test_links_of_an_attempt_that_was_killed_are_mended(site: Site) -> None:
    job = staged(site, "cat probe.py > /dev/null; cat own", "missing")
    work = job.run / "work"
    work.mkdir()
    (work / "probe.py").symlink_to(f"/tmp/rankzero-{os.getuid()}-1-00000000/code/probe.py")
    (work / "own").symlink_to("/etc/hostname")
    (job.run / ".staged").touch()
    assert job.finish() == 0, job.log()
    assert os.readlink(work / "probe.py") == str(site.code / "probe.py")
    assert os.readlink(work / "own") == "/etc/hostname"


def test_a_store_that_no_node_sees_comes_from_the_archives(
    site: Site, tmp_path: Path, parts: dict[str, ModuleType]
) -> None:
    job = staged(site, "cat probe.py > /dev/null", "missing")
    archives = tmp_path / "archives"
    for kind, ref in (("code", site.code), ("environment", site.store / "environments" / ("e" * 32))):
        parts["pack"].keep(str(ref), str(archives / f"{kind}-{ref.name}.tar"))
        shutil.rmtree(ref)
    told(job, RANKZERO_ARCHIVES=str(archives))
    assert job.finish() == 0, job.log()
    assert "proj=staged env=staged" in (job.run / "preflight" / "0" / "table").read_text()
    assert of(job) == []
    # A damaged archive is not taken for a damaged transfer.
    (archives / f"code-{site.code.name}.tar").write_bytes(
        b"x" * (archives / f"code-{site.code.name}.tar").stat().st_size
    )
    assert job.finish(attempt=1) == 69
    assert "is not what was packed" in job.outcome()["message"]
