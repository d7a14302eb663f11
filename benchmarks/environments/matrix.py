# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What interrupted builders leave, and which damage is detected: every row is tried, and reports what was observed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.ensure import ensure_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import present
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME

PYPROJECT = """[project]
name = "benchmark"
version = "1"
requires-python = ">=3.9"
dependencies = ["numpy"]
"""
KILLS = 12
BUILDER = """\
import sys
from benchmarks.environments.matrix import built
built(sys.argv[1])
"""


def built(store: str) -> dict[str, Any]:
    """The environment, built or already present."""
    options = {
        "store_root": store, "extras": [], "python": None, "torch": "auto", "download": "auto", "uv": None,
        "state": "present", "mode": "sealed",
    }  # fmt: skip
    return ensure_environment(options, {"pyproject": PYPROJECT})


def matrix(folder: Path) -> list[list[str]]:
    """Rows: what was tried, how often, what was observed."""
    folder.mkdir(parents=True)
    began = time.monotonic()
    first = built(str(folder / "first"))
    build = time.monotonic() - began
    again = []
    for _turn in range(5):
        began = time.monotonic()
        assert not built(str(folder / "first"))["changed"]
        again.append(time.monotonic() - began)
    other = built(str(folder / "elsewhere" / "deep"))
    rows = [
        [
            "two builds on two paths",
            "2",
            "one digest" if first["ref"]["digest"] == other["ref"]["digest"] else "DIFFER",
        ],
        ["the same inputs again", "5", f"unchanged, {1000 * sorted(again)[2]:.1f} ms (the build: {build:.1f} s)"],
    ]
    rows.append(_killed(folder / "killed", build, first["ref"]["digest"]))
    rows.append(_together(folder / "together", first["ref"]["digest"]))
    rows += _damaged(Path(first["ref"]["path"]), str(folder / "first"))
    return rows


def _start(store: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(store)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _killed(store: Path, seconds: float, digest: str) -> list[str]:
    """SIGKILL all processes of a build at a random moment. The next build must succeed and leave nothing incomplete."""
    random.seed(1)
    half = 0
    for _turn in range(KILLS):
        process = _start(store)
        time.sleep(random.uniform(0.1, 1.1) * seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for path in (store / "environments").glob("[0-9a-f]*") if (store / "environments").is_dir() else ():
            manifest = present(str(path))
            half += manifest is None or manifest["digest"] != digest
    whole = built(str(store))["ref"]["digest"] == digest
    left = [name for name in os.listdir(store / "environments") if name.endswith(".tmp")]
    text = f"{half} half environments; the next build is {'whole' if whole else 'WRONG'}, leftovers: {len(left)}"
    return ["SIGKILL at a random moment of a build", str(KILLS), text]


def _together(store: Path, digest: str) -> list[str]:
    builders = [_start(store) for _number in range(3)]
    codes = [process.wait() for process in builders]
    whole = built(str(store))["ref"]["digest"] == digest
    return ["three builders at once", "1", f"exit codes {codes}, {'one whole environment' if whole else 'WRONG'}"]


def _damaged(folder: Path, store: str) -> list[list[str]]:
    """Damage the published files in several ways, and report what detects it."""
    file, sidecar = folder / "environment.sqsh", folder / "env.json"
    content, record = file.read_bytes(), sidecar.read_bytes()
    rows = []

    def tried(what: str, harm: Callable[[], object], times: int = 1) -> None:
        seen = 0
        for _turn in range(times):
            for path, good in ((file, content), (sidecar, record)):
                path.unlink(missing_ok=True)  # it is read-only
                path.write_bytes(good)
            harm()
            seen += _refused(file) or present(str(folder)) is None
        rows.append([what, str(times), f"detected {seen} times"])

    def flip() -> None:
        changed = bytearray(content)
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        file.write_bytes(changed)

    tried("one bit of the file flipped (read by a node)", flip, 20)
    tried("the file cut off", lambda: file.write_bytes(content[: len(content) // 2]))
    tried("the file grown", lambda: file.write_bytes(content + b"\0"))
    tried("the file gone", file.unlink)
    tried("the sidecar cut off", lambda: sidecar.write_bytes(record[:100]))
    tried("the sidecar of another file", lambda: sidecar.write_bytes(record.replace(_digest(record), b"0" * 64)))
    file.unlink(missing_ok=True)
    rows.append(
        ["... and the next build", "1", "mends it" if built(store)["changed"] and present(str(folder)) else "FAILS"]
    )
    return rows


def _digest(record: bytes) -> bytes:
    return str(json.loads(record)["sealed"]["sha256"]).encode()


def _refused(file: Path) -> bool:
    """Whether the job runtime on a node refuses the file."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from node import sealed_file as s\n"
        "s.verified(s.find(sys.argv[2], ''))"
    )
    done = subprocess.run([sys.executable, "-B", "-c", program, RUNTIME, str(file)], capture_output=True, check=False)
    return done.returncode != 0
