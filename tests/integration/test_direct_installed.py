# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verbs without ansible-playbook where the collection is installed: it is no checkout behind a link then."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.releases import collections_of
from rankzero.known_inventory import login_of

LOGIN = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}


def test_a_plain_inventory_is_read_though_ansible_names_the_default_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = collections_of("HEAD", tmp_path / "installed")
    for name in [name for name in os.environ if name.startswith(("ANSIBLE_", "RANKZERO_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", root)
    monkeypatch.setattr("rankzero.library.collection", lambda: f"{root}/ansible_collections/rankzero/slurm")
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"slurm_login": {"hosts": {"login": LOGIN}}}), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert login_of([str(inventory)], None, os.environ).connection == "local"
