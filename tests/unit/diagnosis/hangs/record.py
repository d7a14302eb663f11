# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what a node says of ranks that hang in torch.distributed: PYTHON record.py CASE..., with torch 2.13.

Each case is played by four processes with Gloo (train.py), as ranks of one node. The runtime's own look at them
(rank/stacks.py) is written to CASE.json here. Standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parents[3] / "plugins" / "runtime"
WORLD = 4
#: Seconds until the ranks have begun at the latest, and from then on until they hang.
PATIENCE, SETTLING = 400.0, 5.0
LOOKS = 20
#: What asks for looks of so many seconds, of ranks that do not hang.
REQUESTS = {"slow": "1 20"}


def without_machine(text: str) -> str:
    """A recording without the folders of this machine."""
    return text.replace(str(RUNTIME), "/runtime").replace(os.path.dirname(os.__file__), "/usr/lib/python3.11")


def record(case: str, scratch: Path) -> None:
    """Play a case, and look at its ranks."""
    run = scratch / "run"
    (run / "stacks" / "0").mkdir(parents=True)
    (run / "stacks" / "0" / "request").write_text(REQUESTS.get(case, "1"), encoding="ascii")
    program = shutil.copy(HERE / "train.py", scratch)
    common = {
        **os.environ, "RANKZERO_RUN_DIR": str(run), "RANKZERO_ATTEMPT": "0", "WORLD_SIZE": str(WORLD),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29571", "TORCH_FR_BUFFER_SIZE": "512", "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(RUNTIME / "hook"),
    }  # fmt: skip
    started = [
        subprocess.Popen([sys.executable, program, case], env={**common, "RANK": str(rank)}) for rank in range(WORLD)
    ]
    try:
        deadline = time.monotonic() + PATIENCE
        while len(list(scratch.glob("begun-*"))) < WORLD:
            if time.monotonic() > deadline:
                raise SystemExit(f"{case}: not all ranks have begun")
            time.sleep(0.2)
        time.sleep(SETTLING)
        look = (
            "import os, sys; sys.path.insert(0, sys.argv[1]); from rank import stacks; "
            "request = stacks.Request(os.environ); request.last = ''; request.serve()"
        )
        environ = {**common, "SLURMD_NODENAME": "node01", "PYTHONPATH": ""}
        answer = run / "stacks" / "0" / "node01.json"
        # A recorder's first answer is late on a busy machine.
        for _look in range(LOOKS):
            for process in started:
                process.poll()
            subprocess.run([sys.executable, "-I", "-c", look, str(RUNTIME)], env=environ, check=True)
            document = json.loads(answer.read_text(encoding="utf-8"))
            if case in REQUESTS or all(row["trace"].get("entries") for row in document["processes"] if row["stack"]):
                break
    finally:
        for process in started:
            process.kill()
            process.wait()
    text = without_machine(json.dumps(document, indent=None if case in REQUESTS else 1))
    (HERE / f"{case}.json").write_text(text + "\n", encoding="utf-8")


def record_log(case: str, scratch: Path) -> None:
    """Play a case with its second rank alone; CASE.log is what it prints."""
    program = shutil.copy(HERE / "train.py", scratch)
    environ = {
        **os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29572",
    }  # fmt: skip
    with (HERE / f"{case}.log").open("w", encoding="utf-8") as log:
        subprocess.run([sys.executable, program, case], env=environ, stdout=log, stderr=log, check=False)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="rankzero-", dir="/tmp") as folder:
            (record_log if name == "connect" else record)(name, Path(folder))
