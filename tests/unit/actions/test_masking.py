# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of secrets are told to an ansible-core that masks them in all output."""

from __future__ import annotations

import importlib.util

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import launch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import secret_lines

VALUE = "planted-value of \"'$(id)` é"
SECRETS = {"A": {"from_env": "HF"}, "B": {"from_var": "short"}, "C": {"from_file": "/c"}}


def lines() -> bytes:
    spec = validated(merge([Layer("job", {"name": "x", "command": ["x"], "secrets": SECRETS})]))
    return secret_lines(spec, {"HF": VALUE}, {"short": "yes"}.get)


def test_values_are_told_and_words_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(launch, "register_secrets", told.extend)
    assert launch.masked(lines()) == lines()
    assert told == [VALUE]


def test_an_ansible_core_that_masks_nothing_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "register_secrets", None)
    assert launch.masked(lines()) == lines()


@pytest.mark.skipif(
    importlib.util.find_spec("ansible.module_utils.secrets") is None, reason="ansible-core before 2.22 masks nothing"
)
def test_the_ansible_core_that_masks_knows_the_value() -> None:
    from ansible.module_utils.secrets import mask_secrets

    launch.masked(lines())
    assert mask_secrets(f"yes: {VALUE}!", mask_placeholder="***") == "yes: ***!"
