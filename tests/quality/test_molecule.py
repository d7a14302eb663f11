# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every molecule scenario, with its idempotence step. Each boots a lab cluster of its own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.repository import CACHE, ROOT, files, run

SCENARIOS = sorted(Path(path).parent.name for path in files("extensions/molecule/", "/molecule.yml"))


def test_the_roles_have_scenarios() -> None:
    wanted = {"course", "dataset", "environment", "image", "lab_cluster", "launch", "nccl", "tokenizer"}
    assert wanted <= set(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str, tmp_path: Path) -> None:
    """The exit code alone decides about every step; the text only proves that the idempotence step was there.

    (Molecule's summary calls a sequence successful although idempotence failed, hence the second look.)
    """
    completed = run(
        "molecule",
        "test",
        "--scenario-name",
        scenario,
        cwd=ROOT / "extensions",
        env={
            "ANSIBLE_COLLECTIONS_PATH": str(CACHE / "collections"),
            "MOLECULE_EPHEMERAL_DIRECTORY": str(tmp_path),
            # The system's Python: what a lab node can execute whoever the user is.
            "ANSIBLE_HOME": os.environ.get("ANSIBLE_HOME", str(tmp_path / "ansible")),
        },
    )
    said = re.sub(r"\x1b\[[0-9;]*m", "", completed.stdout)
    assert re.search(rf"{scenario}\W+idempotence", said, re.IGNORECASE), f"no idempotence step ran:\n{said}"
    assert not re.search(r"idempotence.*(?:fail|not idempotent)", said, re.IGNORECASE), said
