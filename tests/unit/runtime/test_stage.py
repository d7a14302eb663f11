# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Staging: who sends what to whom, and whole jobs with stand-ins for Slurm. Its tools: test_copies.py."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import zlib
from argparse import Namespace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.runtime.harness import Job, Site, runtime_parts, tree, wait_for

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
    lines, plan = planned(parts["copies"], tmp_path, "n1,n2,n3,n4,n5", capsys)
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
    assert planned(parts["copies"], tmp_path, "n1", capsys) == ([], {})


def test_no_program_is_started_to_say_that_nothing_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = SimpleNamespace(folder=str(tmp_path), names="n1,n2")
    job = SimpleNamespace(preflight=asked, number=lambda _name: 60, get=lambda _name: "", python="", runtime="", env={})
    with runtime_parts("node.copy_steps") as steps:
        started: list[object] = []
        monkeypatch.setattr(steps.processes, "output_of", lambda *words: (0, started.append(words) or ""))
        report(tmp_path, "n1", "", "code environment")
        steps.copy_missing(job)
        assert not started
        report(tmp_path, "n2", "code", "environment")
        steps.copy_missing(job)
        assert len(started) == 1


def test_what_no_node_sees_comes_from_the_archive_or_is_named(
    parts: dict[str, ModuleType], disk: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts["pack"].keep(str(tree(tmp_path / "tree")), str(tmp_path / "archives" / "code-k.tar"))
    report(tmp_path, "n1", "code environment")
    lines, plan = planned(parts["copies"], tmp_path, "n1", capsys, str(tmp_path / "archives"))
    assert lines[2:] == ["code n1"]
    assert plan["code"]["archive"] == str(tmp_path / "archives" / "code-k.tar")
    (problem,) = [one for one in json.loads((tmp_path / "n1.json").read_text())["problems"] if "environment" in one]
    assert problem == (
        "staging the environment: no node of the job sees /store/environments/e, and "
        f"{tmp_path}/archives no longer has it: launch again"
    )
    report(tmp_path, "n1", "code")
    assert planned(parts["copies"], tmp_path, "n1", capsys) == ([], {})
    assert "launch_cluster.store_shared: false" in (tmp_path / "n1.json").read_text()


def test_programs_of_a_moved_environment_find_its_python(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name, text in (("own", "#!/store/e/bin/python\nx = 1\n"), ("other", "#!/store/e2/bin/python\n")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to("/store/e/bin/python")
    parts["copies"].readdress(str(tmp_path), "/store/e", "/tmp/v/environment")
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
    assert "localhost: staging the code: damaged in transfer: " in job.outcome()["message"]
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
    job.forget()
    # A damaged archive is not taken for a damaged transfer.
    (archives / f"code-{site.code.name}.tar").write_bytes(
        b"x" * (archives / f"code-{site.code.name}.tar").stat().st_size
    )
    assert job.finish(attempt=1) == 69
    assert "is not what was packed" in job.outcome()["message"]
