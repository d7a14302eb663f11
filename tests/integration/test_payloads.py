# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packed modules that the tests keep between playbooks: used as they are, and never after an edit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.repository import BIN

#: Bound of waiting, in seconds. Nothing is measured with it.
SECONDS = 20
LIBRARY = "plugins/module_utils/run/launches.py"
PLAY = [
    {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [{"rankzero.slurm.job_cancel": {"run_dir": "/nowhere"}}],
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
    (payload,) = kept.glob("*/*.job_cancel-*")
    payload.write_bytes(b"broken")
    assert "is not a run directory" not in play(), "the second run has packed again"
    library = exported_collection / LIBRARY
    text = library.read_text()
    try:
        library.write_text(f"{text}\nraise RuntimeError('an edit of the library')\n")
        assert "an edit of the library" in play()
    finally:
        library.write_text(text)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_module_leaves_nothing_in_tmp(tmp_path: Path, number: signal.Signals) -> None:
    """The signal comes while the module waits for a program."""
    folders = {name: tmp_path / name for name in ("bin", "tmp", "local")}
    for folder in folders.values():
        folder.mkdir()
    asked = tmp_path / "asked"
    for name in ("scontrol", "sinfo"):
        program = folders["bin"] / name
        program.write_text(f"#!/bin/sh\n: > {asked}\nexec sleep {SECONDS}\n")
        program.chmod(0o755)
    job = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"rankzero.slurm.cluster_info": {}}]}]
    (tmp_path / "play.yml").write_text(json.dumps(job))
    words = ["-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}", "play.yml"]
    environment = {
        **os.environ,
        "PATH": f"{folders['bin']}:{os.environ['PATH']}",
        "TMPDIR": str(folders["tmp"]),
        "ANSIBLE_LOCAL_TEMP": str(folders["local"]),
        "ANSIBLE_REMOTE_TEMP": str(folders["local"]),
    }
    with subprocess.Popen(
        [str(BIN / "ansible-playbook"), *words], cwd=tmp_path, env=environment, start_new_session=True
    ) as play:
        until = time.monotonic() + SECONDS
        while not asked.exists() and play.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        assert asked.exists(), "the module did not ask Slurm"
        assert list(folders["tmp"].glob("ansible_*_payload_*")), "this is where Ansible unpacks a module"
        os.killpg(play.pid, number)
        play.wait(SECONDS)
    until = time.monotonic() + SECONDS
    while list(folders["tmp"].iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
    assert list(folders["tmp"].iterdir()) == []
