# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verbs without ansible-playbook as they are installed: no checkout behind a link, perhaps no Ansible beside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.releases import collections_of
from rankzero.direct import LAUNCHING
from rankzero.known_inventory import login_of
from tests.repository import CACHE, ROOT

LOGIN = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ANSIBLE_", "RANKZERO_"))]:
        monkeypatch.delenv(name)


def plain(folder: Path) -> Path:
    """A plain inventory."""
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"slurm_login": {"hosts": {"login": LOGIN}}}), encoding="utf-8")
    return inventory


def test_a_plain_inventory_is_read_though_ansible_names_the_default_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = collections_of("HEAD", tmp_path / "installed")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", root)
    monkeypatch.setattr("rankzero.library.collection", lambda: f"{root}/ansible_collections/rankzero/slurm")
    monkeypatch.chdir(tmp_path)
    assert login_of([str(plain(tmp_path))], None, os.environ).connection == "local"


WITHOUT_ANSIBLE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from rankzero.direct import VERBS, why_not
from rankzero.playbook import Call
for verb in VERBS:
    print(verb, why_not(Call(verb, inventory=(sys.argv[2],))))
"""


def test_what_needs_a_package_of_ansible_is_left_to_a_playbook_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the command and Ansible are in environments of their own."""
    words = [sys.executable, "-I", "-S", "-c", WITHOUT_ANSIBLE, str(ROOT / "python"), str(plain(tmp_path))]
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(CACHE / "collections"))
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    whys = dict(line.split(" ", 1) for line in told.splitlines())
    assert {verb for verb, why in whys.items() if "has no yaml" in why} == {*LAUNCHING}, told
    assert not [verb for verb, why in whys.items() if why and verb not in LAUNCHING], told


WHAT_FOLLOWS = """
import sys
sys.path.insert(0, sys.argv[1])
from rankzero.library import importable
importable()
import rankzero.direct_launch
def outside():
    return {name for name, module in sys.modules.items() if "site-packages" in (getattr(module, "__file__", "") or "")}
before = outside()
import rankzero.direct_wait
print("yaml" in before, sorted(outside() - before))
"""


def test_what_follows_a_submission_needs_no_further_package() -> None:
    """Else the command would end with a traceback after it has submitted, where Ansible is in another environment."""
    words = [sys.executable, "-c", WHAT_FOLLOWS, str(ROOT / "python")]
    told = subprocess.run(words, cwd="/", capture_output=True, text=True, check=True).stdout
    assert told == "True []\n"
