# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every molecule scenario, with its idempotence step."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.repository import CACHE, ROOT, files, load_yaml, run

SCENARIOS = {Path(path).parent.name: load_yaml(path) or {} for path in files("extensions/molecule/", "/molecule.yml")}
#: Those that share a lab cluster run in one call, which boots and removes it. `launch` comes first: it counts the jobs.
SHARING = sorted((name for name, settings in SCENARIOS.items() if settings.get("shared_state")), reverse=True)
#: What one call of molecule is given. `default` is no scenario of its own: it makes the cluster of the others.
CALLS = [SHARING, *([name] for name in sorted(SCENARIOS.keys() - {*SHARING, "default"}))]

#: Left to `make test-all`: test_dataset.py, test_lab_role.py, test_tokenizer.py in tests/cluster run these roles, too,
#: and see that a second run changes nothing.
MORE = {"dataset", "lab_cluster", "tokenizer"}


def test_the_roles_have_scenarios() -> None:
    wanted = {"course", "dataset", "environment", "image", "lab_cluster", "launch", "nccl", "tokenizer"}
    assert wanted <= {name for call in CALLS for name in call}
    assert set(SHARING) == {"course", "launch"}


@pytest.mark.parametrize(
    "scenarios", [pytest.param(call, marks=pytest.mark.more) if MORE.intersection(call) else call for call in CALLS],
    ids="+".join,
)  # fmt: skip
def test_scenarios(scenarios: list[str], tmp_path: Path) -> None:
    """The exit code alone decides about every step; the text only proves that the idempotence step was there.

    (Molecule's summary calls a sequence successful although idempotence failed, hence the second look.)
    """
    completed = run(
        "molecule",
        "test",
        *(f"--scenario-name={name}" for name in scenarios),
        cwd=ROOT,  # where molecule finds extensions/molecule/config.yml
        env={
            "ANSIBLE_COLLECTIONS_PATH": str(CACHE / "collections"),
            "MOLECULE_EPHEMERAL_DIRECTORY": str(tmp_path),
            # The system's Python: what a lab node can execute whoever the user is.
            "ANSIBLE_HOME": os.environ.get("ANSIBLE_HOME", str(tmp_path / "ansible")),
        },
    )
    said = re.sub(r"\x1b\[[0-9;]*m", "", completed.stdout)
    assert "extensions/molecule/config.yml" in said, f"the settings of all scenarios were not read:\n{said}"
    for name in scenarios:
        assert re.search(rf"{name}\W+idempotence", said, re.IGNORECASE), f"no idempotence step of {name} ran:\n{said}"
    assert not re.search(r"idempotence.*(?:fail|not idempotent)", said, re.IGNORECASE), said
