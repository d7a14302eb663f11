# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packed modules that the tests keep between playbooks: used as they are, and never after an edit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.repository import BIN

LIBRARY = "plugins/module_utils/run/launches.py"
PLAY = [
    {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [{"rankzero.slurm.job_info": {"run_dir": "/nowhere"}}],
    }
]


def test_an_edited_library_is_packed_anew(tmp_path: Path, exported_collection: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "play.yml").write_text(json.dumps(PLAY))

    def play() -> str:
        done = subprocess.run(
            [
                *(str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.yml"),
                *("-e", f"ansible_python_interpreter={sys.executable}"),
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": str(exported_collection.parents[2]),
                "RANKZERO_TEST_PAYLOADS": str(kept),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    assert "is not a run directory" in play()
    (payload,) = kept.glob("*/*.job_info-*")
    payload.write_bytes(b"broken")
    assert "is not a run directory" not in play(), "the second run has packed again"
    library = exported_collection / LIBRARY
    text = library.read_text()
    try:
        library.write_text(f"{text}\nraise RuntimeError('an edit of the library')\n")
        assert "an edit of the library" in play()
    finally:
        library.write_text(text)
