# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Root file systems of other releases: how they are asked for, kept, checked and removed. Nothing is downloaded."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.image import debian
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import control, release, roots
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.release import RELEASES

NEWER = RELEASES["24.11"]
MIRROR = "http://archive.invalid/debian/"


def test_a_key_is_that_of_the_recipe() -> None:
    assert len({one.place for one in RELEASES.values()}) == len(RELEASES)
    assert replace(NEWER, packages=(*NEWER.packages, "strace")).key != NEWER.key
    assert replace(NEWER, suite="forky").key != NEWER.key
    assert re.fullmatch(rf"{re.escape(release.STORE)}/24\.11-[0-9a-f]{{12}}/root", NEWER.root)


def test_what_is_asked_of_mmdebstrap() -> None:
    argv = release.build_argv(NEWER, "/new/root", MIRROR, ['Acquire::Retries "3";'])
    assert argv[-3:] == ["trixie", "/new/root", f"deb {MIRROR} trixie main"]
    assert '--aptopt=Acquire::Retries "3";' in argv
    (included,) = (word for word in argv if word.startswith("--include="))
    assert {"slurmctld", "slurmd", "munge", "mariadb-server", "python3"} <= set(included[10:].split(","))


def test_the_hooks_make_the_daemons_users(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for line in release.hooks():
        subprocess.run(["sh", "-c", line, "sh", str(tmp_path)], check=True)
    assert (tmp_path / "etc" / "passwd").read_text().startswith("munge:x:700:700::/nonexistent:/usr/sbin/nologin\n")
    assert (tmp_path / "etc" / "group").read_text() == "munge:x:700:\nmysql:x:701:\n"


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (f"http://other.invalid/x/ nodistro main\n{MIRROR} bookworm main\n{MIRROR} bookworm-updates main\n", MIRROR),
        ("http://s.invalid/debian-security/ bookworm-security main\n", ""),
        ("http://u.invalid/ubuntu/ noble main\n", ""),
        (f"{MIRROR} stable contrib\n", ""),
        ("", ""),
    ],
)
def test_the_machines_own_archive(targets: str, expected: str) -> None:
    assert debian.pick_mirror(targets) == expected


def test_how_the_machine_fetches_is_taken_over() -> None:
    dump = (
        'Acquire "";\nAcquire::http "";\nAcquire::http::Proxy "http://proxy.invalid:3128";\nAcquire::Retries "3";\n'
        'Acquire::Languages:: "de";\nAcquire::IndexTargets::deb::Packages::Optional "0";\n'
    )
    assert debian.transport_options(dump) == [
        'Acquire::Languages "none";',
        'Acquire::http::Proxy "http://proxy.invalid:3128";',
        'Acquire::Retries "3";',
    ]


# ---- the store --------------------------------------------------------------------------------------------------

Answer = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


class Machine:
    """Plays apt, dpkg and mmdebstrap: what `mmdebstrap` says, and which version of slurmctld is then in the root."""

    def __init__(self) -> None:
        self.builds = 0
        self.stderr = ""
        self.version = "24.11.5-4"
        self.verified = ""

    def run(self, argv: Sequence[str], stdin: str = "", timeout: float = 0) -> subprocess.CompletedProcess[str]:
        out, rc = "", 0
        if argv[0] == "mmdebstrap":
            self.builds += 1
            root = Path(argv[-2])
            (root / "etc").mkdir(parents=True)
            (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\nmunge:x:700:700::/:/bin/false\n")
            (root / "etc" / "group").write_text("root:x:0:\nmunge:x:700:\n")
            (root / "bin").symlink_to("usr/bin")
            rc = 1 if self.stderr else 0
        elif argv[0] == "apt-get":
            out = f"{MIRROR} bookworm main\n"
        elif argv[0] == "dpkg-query":
            out = f"munge 0.5\nslurmctld {self.version}\n"
        elif argv[0] == "dpkg":
            out = self.verified
        return subprocess.CompletedProcess(list(argv), rc, out, self.stderr)

    def must(self, argv: Sequence[str], stdin: str = "", timeout: float = 0) -> str:
        return self.run(argv).stdout


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(release, "STORE", str(tmp_path / "store"))
    monkeypatch.setattr(control, "run", made.run)
    monkeypatch.setattr(control, "must", made.must)
    return made


def in_store() -> list[str]:
    return sorted(name for name in os.listdir(release.STORE) if name != "lock")


def test_a_root_is_built_once_and_kept(machine: Machine) -> None:
    for _ in range(2):
        with roots.held(NEWER) as manifest:
            assert (manifest["slurm"], manifest["suite"]) == ("24.11.5-4", "trixie")
            assert Path(NEWER.root, "etc", "passwd").exists()
    assert machine.builds == 1
    assert in_store() == [os.path.basename(NEWER.place)]
    assert roots.cached(NEWER) and not roots.cached(RELEASES["26.05"])


@pytest.mark.parametrize("damage", ["removed", "longer", "added", "manifest", "mode"])
def test_a_damaged_root_is_built_anew(machine: Machine, damage: str) -> None:
    with roots.held(NEWER):
        pass
    passwd = Path(NEWER.root, "etc", "passwd")
    if damage == "removed":
        passwd.unlink()
    elif damage == "longer":
        passwd.write_text("much longer than before" * 9)
    elif damage == "added":
        Path(NEWER.root, "etc", "more").touch()
    elif damage == "mode":
        passwd.chmod(0o600)
    else:
        Path(NEWER.place, "manifest.json").write_text("{")
    with roots.held(NEWER) as manifest:
        assert manifest == json.loads(Path(NEWER.place, "manifest.json").read_text())
        assert "munge:x:700" in passwd.read_text() and not Path(NEWER.root, "etc", "more").exists()
    assert machine.builds == 2


@pytest.mark.parametrize(
    ("stderr", "cause", "said"),
    [
        ("E: The repository 'x trixie Release' does not have a Release file.", "no-suite", "does not have it"),
        ("E: Failed to fetch x  Could not connect to y", "unreachable", "cannot be reached"),
        ("E: Unable to locate package slurmd", "no-package", "lacks a package"),
        ("E: mmdebstrap failed to run", "other", "mmdebstrap failed"),
    ],
)
def test_a_root_that_cannot_be_had(machine: Machine, stderr: str, cause: str, said: str) -> None:
    machine.stderr = f"I: running apt-get update...\n{stderr}\n"
    with pytest.raises(roots.RootUnavailable, match=said) as caught, roots.held(NEWER):
        pass
    assert caught.value.cause == cause and stderr in caught.value.message
    assert "slurm: 24.11 needs Debian's trixie" in caught.value.message
    assert in_store() == [], "nothing half made is left"


def test_a_suite_that_moved_on_is_refused(machine: Machine) -> None:
    machine.version = "25.05.1-1"
    with pytest.raises(roots.RootUnavailable, match=r"24\.11 was requested, but Debian's trixie now has 25\.05\.1-1"):
        roots.held(NEWER).__enter__()
    assert not roots.cached(NEWER)


def test_a_root_that_differs_from_its_packages_is_refused(machine: Machine) -> None:
    machine.verified = "missing     /usr/share/doc/x/copyright\n??5?????? c /etc/x.conf\n"
    with roots.held(NEWER):
        pass
    machine.verified += "??5??????   /usr/sbin/slurmd\n"
    machine.version = "26.05.5-1"
    with pytest.raises(roots.RootUnavailable, match="/usr/sbin/slurmd"), roots.held(RELEASES["26.05"]):
        pass


def test_two_who_want_it_build_it_once(machine: Machine) -> None:
    def want() -> None:
        with roots.held(NEWER):
            pass

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert machine.builds == 1 and in_store() == [os.path.basename(NEWER.place)]


def test_pruning(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert roots.prune() == [], "there is no store yet"
    with roots.held(NEWER):
        pass
    Path(release.STORE, ".new-26.05-1").mkdir()
    monkeypatch.setattr(roots, "_mounted", lambda: {NEWER.root})
    assert roots.prune(check_mode=True) == [".new-26.05-1"]
    assert roots.prune() == [".new-26.05-1"] and roots.cached(NEWER), "what is in use stays"
    monkeypatch.setattr(roots, "_mounted", set)
    assert roots.prune() == [os.path.basename(NEWER.place)]
    assert in_store() == []


def test_the_people_of_the_host_and_the_daemons_of_the_root(machine: Machine) -> None:
    lab = Lab("newer", "/srv/newer", slurm="24.11")
    with roots.held(NEWER):
        assert roots.owner(lab, "munge") == (700, 700)
        with pytest.raises(roots.RankzeroError, match="no user 'mysql'"):
            roots.owner(lab, "mysql")
        files = roots.account_files(lab)
    users = [line.split(":") for line in files["passwd"].splitlines()]
    assert [user[0] for user in users[:2]] == ["root", "munge"]
    assert all(len(user) == 7 and int(user[2]) >= 1000 for user in users[2:])
    assert all(len(line.split(":")) == 4 for line in files["group"].splitlines())
