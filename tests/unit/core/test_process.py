# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process notices that nobody reads its output any more."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import nobody_reads


def test_who_reads_a_pipe_a_socket_or_a_file(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    ours, theirs = socket.socketpair()
    assert not nobody_reads(writing) and not nobody_reads(ours.fileno())
    os.close(reading)
    theirs.close()
    assert nobody_reads(writing) and nobody_reads(ours.fileno())
    os.close(writing)
    ours.close()
    with open(tmp_path / "file", "wb") as stream:
        assert not nobody_reads(stream.fileno())
    with open(os.devnull, "wb") as stream:
        assert not nobody_reads(stream.fileno())


def test_a_process_without_an_output_goes_on() -> None:
    program = (
        "import sys; from ansible_collections.rankzero.slurm.plugins.module_utils.core import process; "
        "sys.exit(process.nobody_reads())"
    )
    closed = ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, program]
    assert (
        subprocess.run(closed, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False).returncode == 0
    )
