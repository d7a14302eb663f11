# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""code_snapshot, run by ansible-playbook on this machine: what travels when one file of many changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import recording
from tests.repository import BIN


def ship(folder: Path) -> dict[str, Any]:
    task = {"rankzero.slurm.code_snapshot": {"src": str(folder / "code"), "store_root": str(folder / "store")}}
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]
    (folder / "play.yml").write_text(json.dumps(play))
    record = folder / "record"
    record.unlink(missing_ok=True)
    done = subprocess.run(
        [
            *(str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.yml"),
            *("-e", f"ansible_python_interpreter={sys.executable}"),
        ],
        cwd=folder,
        env={**os.environ, **recording.settings(record)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = recording.results(record, "rankzero.slurm.code_snapshot")
    return result


def test_one_changed_file_of_many_travels_alone(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    for number in range(20):
        (code / f"weights-{number}.bin").write_bytes(os.urandom(100_000))
    (code / "train.py").write_text("print(1)\n")
    first = ship(tmp_path)
    assert first["sent"] > 2_000_000
    (code / "train.py").write_text("print(2)\n")
    second = ship(tmp_path)
    assert second["changed"] and second["sent"] < 1000
    older, newer = Path(first["ref"]["path"]), Path(second["ref"]["path"])
    assert (newer / "train.py").read_text() == "print(2)\n"
    assert (older / "train.py").read_text() == "print(1)\n"
    assert (newer / "weights-7.bin").samefile(older / "weights-7.bin")
    third = ship(tmp_path)
    assert not third["changed"] and "sent" not in third
