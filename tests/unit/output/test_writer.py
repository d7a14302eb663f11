# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A project with links that came with a change of somebody else: nothing outside of its results is written."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.action import course_checkoff
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import Part
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import SweepOutcome
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import fabric_file
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output import fetched, writer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page import output
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import hours, merged_logs, sweep_table
from tests.unit.screen.test_hours import waited
from tests.unit.screen.test_sweep_table import result, row

KEY = "0123456789abcdef"
LAUNCH = f"runs/gpt/{KEY}/1"
RUN_DIR = f"/state/runs/gpt/{KEY}/1"
EVIL = b"[core]\n\tfsmonitor = false\n"
SWEEP = result([row(0)])
CHECKOFF = course_checkoff._Sheet("ml", {}, {}, [], "id\n")


def git(project: Path, *words: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *name, *words], cwd=project, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q")
    (project / "train.py").write_text("pass\n")
    git(project, "add", ".")
    monkeypatch.chdir(project)
    writer._tracked.cache_clear()
    return project


def archive(**files: bytes) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def fetch(subject: str = "logs") -> None:
    """What train, attach, logs and pull do with an archive of the cluster."""
    launch = fetched.launch_place("runs", RUN_DIR)
    place = fetched.place_of(launch, "a" * 16, subject)
    fetched.holdings(place)
    fetched.mark(place, "a" * 16)
    fetched.unpack(archive(config=EVIL), [Part("config", 0, len(EVIL), len(EVIL), True)], place)
    fetched.unpack(archive(config=b"more"), [Part("config", len(EVIL), 4, len(EVIL) + 4, False)], place)
    fetched.unpack(archive(cut=b"end"), [Part("cut", 7, 3, 10, True)], place)


def page() -> None:
    output.write_files(
        dict.fromkeys(("runs/report.html", "runs/report.md", "runs/gl-code-quality-report.json"), "x"), pretend=False
    )


def checkoff() -> None:
    course_checkoff._write(CHECKOFF, os.path.abspath("runs"), "best")


WRITERS: dict[str, Callable[[], Any]] = {
    "logs": fetch,
    "pull": lambda: fetch("work"),
    "merge": lambda: merged_logs.merge(os.path.abspath(f"{LAUNCH}/logs")),
    "hours": lambda: hours.hours(waited(), os.path.abspath(f"{LAUNCH}/logs")),
    "sweep": lambda: sweep_table.write(SweepOutcome.of(SWEEP), "runs"),
    "page": page,
    "checkoff": checkoff,
    "fabric": lambda: fabric_file.write_file(os.path.abspath("runs/nodes.yml"), "x", overwrite=True, pretend=False),
}
#: Where a change may bring a link, and whether it leads to a folder.
LINKS = {
    "runs": True,
    "runs/gpt": True,
    f"runs/gpt/{KEY}": True,
    LAUNCH: True,
    f"{LAUNCH}/logs": True,
    f"{LAUNCH}/work": True,
    f"{LAUNCH}/logs/config": False,
    f"{LAUNCH}/logs/config.part": False,
    f"{LAUNCH}/logs/.fetched.json": False,
    f"{LAUNCH}/logs/.fetched.json.tmp": False,
    f"{LAUNCH}/.origin": False,
    f"{LAUNCH}/merged.log": False,
    f"{LAUNCH}/merged.log.tmp": False,
    f"{LAUNCH}/ledger.json": False,
    f"{LAUNCH}/ledger.csv": False,
    f"runs/{SWEEP['name']}": True,
    f"runs/{SWEEP['name']}/sweep-{SWEEP['key'][:16]}": True,
    f"runs/{SWEEP['name']}/sweep-{SWEEP['key'][:16]}/results.csv": False,
    "runs/report.html": False,
    "runs/report.md": False,
    "runs/gl-code-quality-report.json": False,
    "runs/ml.csv": False,
    "runs/ml.json": False,
    "runs/nodes.yml": False,
}


def everything(folder: Path) -> dict[str, Any]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "without git"])
@pytest.mark.parametrize("link", LINKS)
def test_nothing_is_written_through_a_link_that_came_with_the_code(project: Path, link: str, tracked: bool) -> None:
    outside = project.parent / "outside"
    (outside / "logs").mkdir(parents=True)
    (outside / "victim").write_text("mine\n")
    (project / link).parent.mkdir(parents=True, exist_ok=True)
    (project / link).symlink_to(outside if LINKS[link] else outside / "victim")
    if tracked:
        git(project, "add", "-f", link)
    else:
        (project / ".git").rename(project / ".no-git")
    before = everything(outside)
    for write in WRITERS.values():
        try:
            write()
        except RankzeroError as error:
            assert error.message.startswith("dest: ")
        assert everything(outside) == before
    assert (project / link).is_symlink()


def test_a_new_file_is_not_one_that_was_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody guesses the names of new files. Who did would still have nothing written through them."""
    monkeypatch.setattr(writer.secrets, "token_hex", lambda _count: "guessed")
    outside = project.parent / "victim"
    outside.write_text("mine\n")
    (project / "runs").mkdir()
    for name in ("report.html", "report.md", "ml.csv", "ml.json", "nodes.yml"):
        (project / "runs" / f".{name}.guessed.tmp").symlink_to(outside)
    for write in WRITERS.values():
        with contextlib.suppress(RankzeroError, OSError):
            write()
        assert outside.read_text() == "mine\n"
    assert not (project / "runs" / "report.html").exists()


def test_without_links_everything_is_written_and_nothing_is_left_over(project: Path) -> None:
    (project / LAUNCH / "logs").mkdir(parents=True)
    for write in WRITERS.values():
        write()
    assert (project / LAUNCH / "logs" / "config").read_bytes() == EVIL + b"more"
    assert (project / LAUNCH / "work" / "cut").read_bytes() == b"end"
    for name in ("merged.log", "ledger.json", "ledger.csv", ".origin"):
        assert (project / LAUNCH / name).is_file(), name
    for name in ("report.html", "report.md", "ml.csv", "ml.json", "nodes.yml"):
        assert (project / "runs" / name).is_file(), name
    assert not [path for path in project.rglob("*.tmp") if ".git" not in path.parts]
    fetch()


def test_results_that_git_tracks_are_refused(project: Path) -> None:
    (project / LAUNCH).mkdir(parents=True)
    (project / LAUNCH / "ledger.json").write_text("{}")
    git(project, "add", ".")
    for write in ("logs", "pull", "sweep"):
        with pytest.raises(RankzeroError, match=r"dest: runs .*git tracks it or something in it"):
            WRITERS[write]()


def test_a_folder_of_results_may_be_the_users_own_link(project: Path) -> None:
    scratch = project.parent / "scratch"
    scratch.mkdir()
    (project / "runs").symlink_to(scratch)
    fetch()
    page()
    assert (scratch / "gpt" / KEY / "1" / "logs" / "config").is_file() and (scratch / "report.html").is_file()
    # Below it nothing is followed.
    (scratch / "gpt" / KEY / "1" / "work").symlink_to(project)
    with pytest.raises(RankzeroError, match="is a link"):
        fetch("work")


def test_a_link_is_seen_by_every_name_of_the_working_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder of the project, and by a path that leads to it through a link."""
    (project / "runs").symlink_to(project / ".git")
    git(project, "add", "-f", "runs")
    (project / "sub").mkdir()
    alias = project.parent / "alias"
    alias.symlink_to(project)
    for here, dest in (
        (project, str(alias / "runs")),
        (project / "sub", "../runs"),
        (project / "sub", str(alias / "runs")),
    ):
        monkeypatch.chdir(here)
        with pytest.raises(RankzeroError, match="dest: "), Place.of(dest, "gpt").opened():
            pass
    assert not (project / ".git" / "gpt").exists()


def test_links_above_the_working_directory_and_in_a_path_of_the_users_are_fine(project: Path) -> None:
    home = project.parent / "home"
    home.symlink_to(project)
    real = project.parent / "data"
    real.mkdir()
    (project.parent / "shared").symlink_to(real)
    os.chdir(home)
    fetch()
    with Place.of(str(project.parent / "shared" / "runs"), "gpt").opened() as folder:
        folder.write("a", "b")
    assert (real / "runs" / "gpt" / "a").read_text() == "b" and (project / LAUNCH / "logs" / "config").is_file()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_a_name_leads_nowhere_else(project: Path, name: str) -> None:
    with Place.of("runs").opened() as folder:
        for write in (lambda: folder.write(name, "x"), lambda: folder.remove(name), lambda: folder.read(name)):
            with pytest.raises(RankzeroError, match="is not the name of a file"):
                write()
    with pytest.raises(RankzeroError), Place.of("runs", name).opened():
        pass
