# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the site that may be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.site_files import read_present
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fabric_file import is_read


def test_group_vars_count_beside_an_inventory_only(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    (inventory / "hosts.yml").write_text("")
    for given in (inventory, inventory / "hosts.yml"):
        assert is_read(f"{inventory}/group_vars/slurm_login/fabric.yml", [str(given)])
        assert not is_read(f"{tmp_path}/group_vars/slurm_login.yml", [str(given)])
        assert is_read(f"{tmp_path}/fabric.yml", [str(given)])


def test_what_is_there_is_read_and_the_rest_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".nccl.conf").write_bytes(b"NCCL_DEBUG=WARN \xff\n")
    found = read_present(["~/.nccl.conf", str(tmp_path / "none.conf"), str(tmp_path)])
    assert found == {"~/.nccl.conf": "NCCL_DEBUG=WARN \N{REPLACEMENT CHARACTER}\n"}
