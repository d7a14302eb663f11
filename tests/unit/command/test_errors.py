# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the command go to stderr: what is written to a file or a pipe may never be looked at."""

from __future__ import annotations

import pytest

from rankzero import errors
from rankzero.command import main
from tests.unit.command.conftest import Ansible

REFUSED = {"msg": "no launch with name=gtp is recorded"}


@pytest.mark.parametrize("verb", ["ls", "why", "cancel", "logs", "attach"])
def test_the_error_of_a_playbook_is_on_stderr(ansible: Ansible, capfd: pytest.CaptureFixture[str], verb: str) -> None:
    ansible.answer(2, ("job_info", "failed", REFUSED))
    assert main([verb, "gtp"]) == errors.REFUSED
    shown = capfd.readouterr()
    assert shown.err.count(REFUSED["msg"]) == 1 and shown.err.startswith("rankzero: ")
    ansible.answer(0)
    assert main([verb, "gtp"]) == errors.OK
    assert capfd.readouterr().err == ""


def test_without_a_verb_the_help_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([]) == errors.USAGE
    shown = capfd.readouterr()
    assert shown.out == "" and "usage" in shown.err.lower()
