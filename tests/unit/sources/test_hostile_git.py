# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a work tree, a repository in it, or the environment may name as a program: none of it is started.

Each payload is a script that leaves a file in pytest's own folder.
"""

from __future__ import annotations

import os

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import provenance
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import take_snapshot
from tests.unit.sources.trap import FILES, Trap, git

HOOKS = ("post-index-change", "fsmonitor-watchman", "pre-auto-gc", "post-checkout", "reference-transaction")
ATTRIBUTES = """\
a.txt filter=clean
b.txt filter=process
dir/c.txt filter=required
d.txt diff=textconv
e.txt diff=command
f.txt filter=smudge
"""


def everything(trap: Trap) -> dict[str, str]:
    """Every setting of a repository that names a program."""
    named = {
        "filter.clean.clean": "clean filter",
        "filter.process.process": "filter process",
        "filter.required.clean": "required filter",
        "filter.smudge.smudge": "smudge filter",
        "core.fsmonitor": "fsmonitor",
        "diff.textconv.textconv": "textconv",
        "diff.command.command": "diff driver",
        "diff.external": "external diff",
        "core.pager": "pager",
        "gpg.program": "gpg",
        "core.askPass": "askpass",
        "core.editor": "editor",
        "core.sshCommand": "ssh command",
        "core.alternateRefsCommand": "alternate refs",
    }
    settings = {setting: trap.payload(name) for setting, name in named.items()}
    aliases = ("status", "ls-files", "ls-tree", "rev-parse", "diff", "x")
    settings |= {f"alias.{name}": f"!{trap.payload(f'alias {name}')}" for name in aliases}
    settings |= {f"pager.{name}": trap.payload(f"pager {name}") for name in ("status", "diff", "ls-files")}
    settings |= {"credential.helper": f"!{trap.payload('credentials')}", "filter.required.required": "true"}
    return settings | {"log.showSignature": "true", "commit.gpgSign": "true"}


def test_a_repository_s_configuration_starts_nothing(trap: Trap) -> None:
    folder = trap.repository(trap.top, ATTRIBUTES)
    trap.configure(folder, everything(trap))
    trap.look(folder)
    assert trap.sprung() == []


def test_a_nested_repository_s_configuration_starts_nothing(trap: Trap) -> None:
    outer = trap.repository(trap.top)
    trap.configure(trap.repository(outer / "nested", ATTRIBUTES), everything(trap))
    trap.look(outer)
    trap.look(outer / "nested")
    assert trap.sprung() == []


def test_a_submodule_s_configuration_starts_nothing(trap: Trap) -> None:
    outer = trap.repository(trap.top)
    git(outer, "submodule", "--quiet", "add", str(trap.repository(trap.place / "other", ATTRIBUTES)), "third")
    git(outer, "commit", "-q", "-m", "second")
    trap.change(outer / "third")
    inner = outer / ".git/modules/third"
    with (inner / "config").open("a") as stream:
        own = trap.repository(trap.place / "settings")
        trap.configure(own, everything(trap))
        stream.write((own / ".git/config").read_text().partition("logallrefupdates = true")[2])
    update = f"!{trap.payload('submodule update')}"
    trap.configure(outer, {"submodule.third.update": update, "submodule.recurse": "true", "diff.submodule": "diff"})
    trap.look(outer)
    assert trap.sprung() == []


@pytest.mark.parametrize("place", ["jobs", "jobs/dir"])
def test_a_committed_bare_repository_is_a_folder_of_files(place: str, trap: Trap) -> None:
    """The layout of a bare repository may be committed: nothing in it is called .git."""
    inner = trap.repository(trap.place / "inner", ATTRIBUTES)
    trap.configure(inner, {**everything(trap), "core.worktree": ".", "core.bare": "false"})
    outer = trap.repository(trap.top)
    jobs = outer / "jobs"
    jobs.mkdir()
    for item in (*(inner / ".git").iterdir(), *inner.iterdir()):
        if item.name != ".git":
            item.rename(jobs / item.name)
    git(outer, "add", "-f", "jobs/HEAD", "jobs/config", "jobs/index", "jobs/objects", "jobs/refs", "jobs/a.txt")
    git(outer, "commit", "-q", "-m", "a folder of files")
    trap.look(outer / place)
    trap.look(outer)
    assert trap.sprung() == []
    # It belongs to the repository that holds it.
    assert provenance.repository(str(outer / place)).folder == place


def test_hooks_are_not_run(trap: Trap) -> None:
    folder = trap.repository(trap.top)
    for place in (folder / ".git/hooks", trap.place / "hooks"):
        place.mkdir(exist_ok=True)
        for hook in HOOKS:
            (place / hook).unlink(missing_ok=True)
            (place / hook).symlink_to(trap.payload(hook))
    trap.look(folder)
    trap.configure(folder, {"core.hooksPath": str(trap.place / "hooks")})
    trap.look(folder)
    assert trap.sprung() == []


@pytest.mark.parametrize("setting", ["core.attributesFile", "include.path", "info/attributes"])
def test_files_that_add_to_a_configuration_name_no_filter(setting: str, trap: Trap) -> None:
    attributes = "* filter=x\n"
    folder = trap.repository(trap.top, attributes if setting == "include.path" else "")
    program = {"filter.x.clean": trap.payload("filter")}
    if setting == "include.path":
        trap.configure(trap.repository(trap.place / "more"), program)
        trap.configure(folder, {setting: str(trap.place / "more/.git/config")})
    elif setting == "core.attributesFile":
        (trap.place / "attributes").write_text(attributes)
        trap.configure(folder, {setting: str(trap.place / "attributes"), **program})
    else:
        (folder / ".git/info").mkdir(exist_ok=True)
        (folder / ".git/info/attributes").write_text(attributes)
        trap.configure(folder, program)
    trap.look(folder)
    assert trap.sprung() == []


def test_another_work_tree_named_by_the_configuration_is_not_looked_at(trap: Trap) -> None:
    folder = trap.repository(trap.top)
    (trap.place / "elsewhere").mkdir()
    (trap.place / "elsewhere" / "secret.txt").write_text("secret\n")
    trap.configure(folder, {"core.worktree": str(trap.place / "elsewhere")})
    snapshot = take_snapshot(str(folder))
    assert {entry.path for entry in snapshot.files} == set(FILES)
    assert "secret" not in provenance.diff(snapshot)


def test_a_partial_clone_fetches_nothing(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = trap.repository(trap.top)
    other = trap.repository(trap.place / "other")
    (trap.place / "bin").mkdir()
    (trap.place / "bin/git-remote-x").symlink_to(trap.payload("transport helper"))
    monkeypatch.setenv("PATH", f"{trap.place / 'bin'}{os.pathsep}{os.environ['PATH']}")
    remotes = {
        "ssh": {"url": "ssh://host/x"},
        "path": {"url": str(other), "uploadpack": trap.payload("upload pack")},
        "ext": {"url": f"ext::{trap.payload('ext transport')}"},
        "proxy": {"url": "git://host/x"},
        "helper": {"url": "x", "vcs": "x"},
    }
    settings = {"protocol.ext.allow": "always", "core.gitProxy": trap.payload("proxy")}
    settings |= {"core.sshCommand": trap.payload("ssh command"), "extensions.partialClone": "path"}
    for name, remote in remotes.items():
        settings |= {f"remote.{name}.{key}": value for key, value in {**remote, "promisor": "true"}.items()}
    trap.configure(folder, {**settings, "core.repositoryFormatVersion": "1"})
    for blob in git(folder, "rev-parse", "HEAD:a.txt", "HEAD:dir").split():
        (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    trap.look(folder)
    assert trap.sprung() == []


@pytest.mark.parametrize("names", ["GIT_", "HOME", "XDG_CONFIG_HOME"])
def test_the_environment_names_no_program_and_no_file_to_write(
    names: str, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trap.repository(trap.top, ATTRIBUTES)
    own = trap.place / "settings"
    (own / "config/git").mkdir(parents=True)
    text = "".join(
        f'[filter "{name}"]\n\tclean = {trap.payload(name)}\n' for name in ("clean", "process", "required", "smudge")
    )
    for place in (".gitconfig", "config/git/config"):
        (own / place).write_text(text)
    (own / "libexec").mkdir()
    for program in ("git", "git-status", "git-diff", "git-ls-files", "git-submodule"):
        (own / "libexec" / program).symlink_to(trap.payload(program))
    git_s = {
        "GIT_EXTERNAL_DIFF": trap.payload("external diff"),
        "GIT_PAGER": trap.payload("pager"),
        "GIT_SSH_COMMAND": trap.payload("ssh"),
        "GIT_CONFIG_PARAMETERS": f"'filter.smudge.clean={trap.payload('parameters')}'",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "filter.required.clean",
        "GIT_CONFIG_VALUE_0": trap.payload("counted"),
        "GIT_CONFIG_GLOBAL": str(own / ".gitconfig"),
        "GIT_EXEC_PATH": str(own / "libexec"),
        "GIT_TRACE2_EVENT": str(trap.sprung_by / "trace2"),
        "GIT_TRACE": str(trap.sprung_by / "trace"),
    }
    homes = {"HOME": str(own), "XDG_CONFIG_HOME": str(own / "config")}
    for name, value in (git_s if names == "GIT_" else {names: homes[names]}).items():
        monkeypatch.setenv(name, value)
    trap.look(folder)
    assert trap.sprung() == []


@pytest.mark.parametrize("entry", ["", ".", "bin"])
def test_a_program_named_git_in_the_work_tree_is_not_git(
    entry: str, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = trap.repository(trap.top)
    (folder / "bin").mkdir()
    for place in (folder / "git", folder / "bin/git"):
        place.symlink_to(trap.payload("git"))
    monkeypatch.setenv("PATH", f"{entry}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(folder)
    trap.look(folder)
    assert trap.sprung() == []


def test_the_user_s_own_ignored_names_count(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = trap.repository(trap.top)
    (folder / "mine.txt").write_text("")
    home = trap.place / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("mine.txt\n")
    assert "mine.txt" not in {entry.path for entry in take_snapshot(str(folder)).files}
    (home / "other").write_text("")
    (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/other\n")
    assert "mine.txt" in {entry.path for entry in take_snapshot(str(folder)).files}
