# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of job files: what is one, what is wrong with it, and where it comes from."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.folder import (
    in_order,
    job_files,
    provenance_of,
    read_folder,
    refuse_uncommitted,
    set_name,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.provenance import Origin


def write(folder: Path, file: str, text: str) -> None:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(text, encoding="utf-8")


def ordered(folder: str, cwd: Path) -> list[tuple[str, tuple[int, ...]]]:
    specs = in_order(read_folder(folder, None, str(cwd)), folder, str(cwd))
    return [(spec.file, stage.after) for spec, stage in specs]


def test_every_job_file_and_nothing_else(tmp_path: Path) -> None:
    for file in ("b.yml", "a/c.yaml", "d.json", "README.md", ".hidden.yml", ".git/x.yml", "a/.keep/y.yml"):
        write(tmp_path, file, f"name: n-{abs(hash(file))}\ncommand: [x]\n")
    assert job_files(str(tmp_path)) == ["a/c.yaml", "b.yml", "d.json"]
    assert [spec.file for spec in read_folder(str(tmp_path), None, "/")] == ["a/c.yaml", "b.yml", "d.json"]


def test_job_files_are_data(tmp_path: Path) -> None:
    write(tmp_path, "a.yml", "name: a\ncommand: [echo, \"{{ lookup('pipe', 'touch ran') }}\"]\n")
    (spec,) = read_folder(".", None, str(tmp_path))
    assert spec.job.spec.command == ("echo", "{{ lookup('pipe', 'touch ran') }}")


def test_two_specs_of_one_name_and_every_other_mistake_at_once(tmp_path: Path) -> None:
    write(tmp_path, "a.yml", "name: gpt\ncommand: [x]\n")
    write(tmp_path, "more/b.yml", "name: gpt\ncommand: [y]\n")
    write(tmp_path, "c.yml", "name: c\ncommand: [x]\nresorces: {nodes: 2}\n")
    write(tmp_path, "d.yml", "- no map\n")
    with pytest.raises(RankzeroError) as caught:
        read_folder(str(tmp_path), None, "/")
    said = caught.value.message
    assert said.startswith(f"jobs: 3 problems in {tmp_path}; nothing was done:")
    assert "a.yml and more/b.yml have one name, gpt" in said
    assert "c.yml: " in said and "resources" in said
    assert "d.yml must hold a map" in said


def test_each_spec_comes_after_what_it_follows_and_that_is_in_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "a.yml", "name: evaluate\ncommand: [x]\nafter: [sub/b.yml, c.yml]\n")
    write(tmp_path, "sub/b.yml", "name: train\ncommand: [x]\nafter: [../c.yml]\n")
    write(tmp_path, "c.yml", "name: tokenise\ncommand: [x]\n")
    # The folder's own path may be written in any way.
    assert ordered(f"../{tmp_path.name}/.", tmp_path) == [("c.yml", ()), ("sub/b.yml", (0,)), ("a.yml", (1, 0))]
    write(tmp_path, "c.yml", "name: tokenise\ncommand: [x]\nafter: [a.yml]\n")
    with pytest.raises(RankzeroError, match="follow each other in a circle"):
        ordered(".", tmp_path)
    write(tmp_path, "c.yml", "name: tokenise\ncommand: [x]\nafter: [../d.yml]\n")
    with pytest.raises(RankzeroError, match=r"c\.yml: after: \.\./d\.yml is not a job file of this folder"):
        read_folder(".", None, str(tmp_path))


def test_a_pipeline_file_of_the_folder_says_what_follows_what(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path, f"{name}.yml", f"name: {name}\ncommand: [x]\n")
    write(tmp_path, "more/all.yml", "jobs: [../c.yml, ../a.yml]\n")
    write(tmp_path, "some.yml", "jobs:\n- b.yml\n- {job: a.yml, after: [b.yml]}\n")
    assert ordered(".", tmp_path) == [("c.yml", ()), ("b.yml", ()), ("a.yml", (0, 1))]
    write(tmp_path, "some.yml", "jobs: [b.yml, ../elsewhere.yml]\n")
    with pytest.raises(RankzeroError, match=r"elsewhere\.yml is not a job file of this folder"):
        ordered(".", tmp_path)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.yml").unlink()
    with pytest.raises(RankzeroError, match="contains no job file"):
        read_folder(".", None, str(tmp_path))


def test_a_folder_that_is_not_there_or_is_empty_does_not_mean_that_all_is_removed(tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match=r"jobs: .* is not a folder"):
        read_folder("jbos", None, str(tmp_path))
    with pytest.raises(RankzeroError, match="contains no job file"):
        read_folder(".", None, str(tmp_path))


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *settings, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_set_is_the_same_in_every_checkout_and_holds_no_password(tmp_path: Path) -> None:
    names = []
    for checkout in ("one", "two"):
        work = tmp_path / checkout
        write(work, "jobs/a.yml", "name: a\ncommand: [x]\n")
        git(work, "init", "--quiet")
        git(work, "remote", "add", "origin", "https://me:s3cret@git.example.org/ml/jobs.git")
        git(work, "add", ".")
        git(work, "commit", "--quiet", "--message", "a")
        origin = provenance_of("jobs", str(work))
        assert origin.repository == "https://git.example.org/ml/jobs.git"
        assert (origin.commit, origin.dirty, origin.folder) == (git(work, "rev-parse", "HEAD"), False, "jobs")
        names.append(set_name("jobs", str(work), origin))
    assert names == ["https://git.example.org/ml/jobs.git:jobs"] * 2
    write(work, "jobs/b.yml", "name: b\ncommand: [x]\n")
    assert provenance_of("jobs", str(work)).dirty is True
    git(work, "remote", "set-url", "origin", "git@git.example.org:ml/jobs.git")
    assert provenance_of("jobs", str(work)).repository == "git@git.example.org:ml/jobs.git"


def test_without_a_remote_the_set_is_this_host_s_folder(tmp_path: Path) -> None:
    origin = provenance_of(".", str(tmp_path))
    assert (origin.repository, origin.commit, origin.dirty, origin.folder) == (None, None, False, None)
    assert set_name(".", str(tmp_path), origin) == f"{platform.node()}:{tmp_path.resolve()}"


@pytest.mark.parametrize("setting", [None, "allow", "refuse"])
def test_what_is_not_committed_is_refused_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    write(tmp_path, "a.yml", "name: a\ncommand: [x]\n" + (f"code: {{dirty: {setting}}}\n" if setting else ""))
    (spec,) = read_folder(".", None, str(tmp_path))
    code = Snapshot("/code", "0123", (), "abc", changed=("train.py",))
    clean, dirty = Origin(commit="abcdef0123456"), Origin(commit="abcdef0123456", dirty=True)

    def refused(origin: Origin, snapshot: Snapshot, ci: str = "true") -> str:
        monkeypatch.setenv("CI", ci)
        try:
            refuse_uncommitted("jobs", origin, [(spec, snapshot)])
        except RankzeroError as error:
            return error.message
        return ""

    assert not refused(dirty, code, ci="") and not refused(clean, Snapshot("/code", "0123", (), "abc"))
    if setting:
        assert not refused(dirty, code), "code.dirty says what is wanted; `refuse` is judged with the code"
    else:
        assert "train.py differ from commit abcdef0123. " in refused(clean, code)
        assert "jobs, train.py differ" in refused(dirty, code) and "code.dirty" in refused(dirty, code)
