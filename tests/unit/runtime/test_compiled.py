# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs of a job import is compiled once for a Python, and nothing but that is believed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.runtime.harness import RUNTIME_KEY, Job, Site, runtime_parts
from tests.unit.runtime.test_collector import SAMPLED

#: Prints how rank.step was loaded, and what a function of it knows of its source.
LOADED = """\
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from core import compiled
compiled.use(sys.argv[1])
import linecache
from rank import step
code = step.wait_for_end.__code__
print(type(step.__loader__).__name__, step.__file__, bool(linecache.getline(code.co_filename, code.co_firstlineno)))
"""


@pytest.fixture
def ended(site: Site) -> Job:
    """A job that is over, which was the first of its cluster."""
    job = site.job({"shell": "true"})
    assert job.finish() == 0, job.log()
    return job


def kept(site: Site) -> Path:
    (path,) = (site.state / "cache" / "runtime").iterdir()
    return path


def loaded(site: Site) -> list[str]:
    runtime = str(site.state / "runtime" / RUNTIME_KEY)
    words = [sys.executable, "-I", "-S", "-c", LOADED, runtime]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def test_the_programs_of_the_next_job_import_what_is_compiled(site: Site, ended: Job, tmp_path: Path) -> None:
    """Conductor, preflight, sampler, collector. Another runtime is compiled here, whose modules leave their names."""
    runtime, names = site.state / "runtime" / RUNTIME_KEY, tmp_path / "names"
    assert loaded(site) == ["Loader", str(runtime / "rank" / "step.py"), "True"]
    marked = tmp_path / "other" / "runtime" / RUNTIME_KEY
    shutil.copytree(runtime, marked)
    for source in marked.glob("*/*.py"):
        with source.open("a") as stream:
            stream.write(f"\nwith open({str(names)!r}, 'a') as _names:\n    _names.write(__name__ + chr(10))\n")
    with runtime_parts("core.compiled") as compiled:
        compiled.keep(str(marked))
        kept(site).write_bytes(Path(compiled.compiled_path(str(marked))).read_bytes())
    before = kept(site).stat().st_mtime_ns
    spec = {"name": "next", "logs": {"per": "node"}, "monitor": {"host": 1}, "resources": {"nodes": 2}}
    job = site.job({"shell": f"echo here; {SAMPLED}", **spec})
    assert job.finish(nodes="n0,n1") == 0, job.log()
    assert (job.run / "logs" / "0" / "n1.ranks-1.log").read_text().count("1: here\n") == 1
    ran = names.read_text().split()
    assert {"job.conductor", "rank.step", "preflight.report", "rank.stacks", "node.job_end"} <= set(ran)
    assert ran.count("rank.stacks") == ran.count("preflight.report") == 2, "one on each node"
    assert kept(site).stat().st_mtime_ns == before, "it is written once"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20_000])


def flip_all(path: Path) -> None:
    data = bytearray(path.read_bytes())
    # Beyond the index, in the code of every source.
    for place in range(len(data) // 2, len(data), 64):
        data[place] ^= 1
    for place in range(20_000, len(data) // 2, 64):
        data[place] ^= 1
    path.write_bytes(data)


def index(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)


def linked(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        flip_all,
        index,
        linked,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff" * 100),
        lambda path: path.chmod(0o664),
        lambda path: path.parent.chmod(0o777),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_a_file_that_is_not_whole_or_not_this_users_alone_is_none(
    site: Site, ended: Job, damage: Callable[[Path], object]
) -> None:
    damage(kept(site))
    assert loaded(site)[0] == "SourceFileLoader"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_the_file_of_another_user_is_none(site: Site, ended: Job) -> None:
    os.chown(kept(site), 260001, 260001)
    assert loaded(site)[0] == "SourceFileLoader"
