# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records the screens of docs/screen.md anew: `python -m tests.cluster.record_screens` (as root, ten minutes).

Boots two labs, runs the examples at a terminal of 100 columns, and writes what remains on the screen into the page. The
page's test (tests/unit/screen/test_recordings.py) fails once the rows have another form.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from tests.blocks import blocks
from tests.cluster.conftest import LabCluster, booted, lab_of
from tests.repository import BIN, ROOT
from tests.terminals import ANSI, Terminal, kept

PAGE = "docs/screen.md"
WIDTH = 100
STATE = {"state_root": "/shared/rankzero/state", "store_root": "/shared/rankzero/store"}
# A row that runs, as the terminal gets it.
RUNNING = re.compile(r" >  (?:job|preflight|step).*")


class Recorder:
    """Runs commands in a copy of an example, at a terminal."""

    def __init__(self, example: str, folder: Path, inventory: Mapping[str, LabCluster]) -> None:
        self.folder = folder / example
        shutil.copytree(ROOT / "examples" / example, self.folder)
        hosts = {
            name: {
                "ansible_connection": "local",
                "ansible_shell_executable": str(lab.shell),
                "ansible_python_interpreter": "/usr/bin/python3",
                "launch_cluster": STATE,
            }
            for name, lab in inventory.items()
        }
        self.hosts = folder / f"{example}.json"
        self.hosts.write_text(json.dumps({"slurm_login": {"hosts": hosts}}), encoding="utf-8")
        if (shared := self.folder / "inventory" / "group_vars").is_dir():
            variables = {"job": str(self.folder / "jobs" / "first_run.yml")}
            shutil.rmtree(shared)
            self.hosts.write_text(json.dumps({"slurm_login": {"hosts": hosts, "vars": variables}}), encoding="utf-8")

    def edit(self, file: str, before: str, after: str) -> None:
        """Change a file of the example."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert before in text, f"{path}: {before}"
        path.write_text(text.replace(before, after), encoding="utf-8")

    def run(self, *words: str, wrong: bool = False, until: str = "", then: Callable[[], object] | None = None) -> str:
        """All that the command wrote. `until`: when this is shown, `then` is called."""
        argv = [str(BIN / "ansible-playbook"), *words]
        environment = {"ANSIBLE_INVENTORY": str(self.hosts), "PATH": f"{BIN}:/usr/bin:/bin"}
        with closing(Terminal(argv, self.folder, WIDTH, **environment)) as terminal:
            if then is not None:
                terminal.read(until=until)
                then()
            text = terminal.read()
            assert (terminal.process.returncode != 0) == wrong, text
        return text


def block(text: str, *words: str) -> str:
    """A recording: the command, and what remains on the screen."""
    # With several hosts there are several rows that run, all of which are wiped.
    lines = [line for line in kept(text) if not re.match(r"(?:\w+ +)? >  ", line)]
    return "\n".join([f"$ ansible-playbook {' '.join(words)}", *lines]) + "\n"


def rows_on_the_way(text: str) -> str:
    """The row that changed, at four moments: in the queue, on the nodes, before the first step, and near the end."""
    rows = [match[0].rstrip() for match in RUNNING.finditer(ANSI.sub("", text).replace("\r", "\n"))]
    queued = max((row for row in rows if "queued" in row), key=len)
    preflight = next(row for row in rows if "preflight" in row)
    waiting = [row for row in rows if "waiting for the first step" in row][-1]
    return "\n".join([queued, preflight, waiting, [row for row in rows if "#" in row][-1]]) + "\n"


def first_run(lab: LabCluster, folder: Path) -> list[str]:
    """The recordings of examples/first_run: a launch, the same again, a failure, and a wait in the queue."""
    recorder = Recorder("first_run", folder, {"lab": lab})
    words = ("train.yml", "-e", "nodes=4")
    recorder.run("train.yml", "-e", "nodes=1")  # code and environment are cached from here on
    recorded = [block(recorder.run(*words), *words), block(recorder.run(*words), *words)]
    job, words = "jobs/first_run.yml", ("train.yml", "-e", "nodes=2")
    recorder.edit(job, "--steps, 60]", "--steps, 60, --heads, 5]")
    recorded.append(block(recorder.run(*words, wrong=True), *words))
    recorder.edit(job, "--steps, 60, --heads, 5]", "--steps, 240]")
    options = ("--parsable", "--nodes=8", "--exclusive", "--output=/dev/null", "--wrap", "sleep 600")
    busy = lab.head(["sbatch", *options]).stdout.strip()
    lab.wait_until(
        lambda: busy in lab.head(["squeue", "-h", "-t", "running", "-o", "%i"]).stdout, 60, "the nodes are busy"
    )

    def leave() -> None:
        time.sleep(5)
        lab.head(["scancel", busy])

    text = recorder.run(*words, until="queued", then=leave)
    return [*recorded, rows_on_the_way(text), block(text, *words)]


def sweep(north: LabCluster, south: LabCluster, folder: Path) -> list[str]:
    """The recordings of examples/sweep: a pipeline with a sweep, and a job on two clusters."""
    features = ("rankzero.slurm.train", "-e", "job=jobs/features.yml")
    recorder = Recorder("sweep", folder / "one", {"lab": south})
    recorder.run(*features)
    words = ("rankzero.slurm.pipeline", "-e", "job=jobs/choose.yml")
    recorded = [block(recorder.run(*words), *words)]
    for state in (north, south):
        shutil.rmtree(state.shared / "rankzero" / "state" / "runs" / "features", ignore_errors=True)
    recorder = Recorder("sweep", folder / "two", {"north": north, "south": south})
    recorder.run(*features, "-e", "cluster=north")
    words = (*features, "-e", "cluster=slurm_login")
    return [*recorded, block(recorder.run(*words), *words)]


def rewritten(page: str, recorded: list[str]) -> str:
    """The page with these recordings in the place of its own, in order."""
    old = [one for one in blocks() if one.page == PAGE and re.match(r"\$ ansible-playbook| >  job", one.text)]
    assert len(old) == len(recorded), "docs/screen.md has another number of recordings"
    lines = page.splitlines(keepends=True)
    for one, new in reversed(list(zip(old, recorded))):
        count = len(one.text.splitlines())
        lines[one.line - 1 : one.line - 1 + count] = [f"    {line}\n" for line in new.splitlines()]
    return "".join(lines)


def main() -> None:
    """Record all screens, and write the page."""
    page = ROOT / PAGE
    with tempfile.TemporaryDirectory() as name, booted(lab_of("screens")) as lab:
        folder = Path(name)
        (folder / "one").mkdir()
        (folder / "two").mkdir()
        recorded = first_run(lab, folder)
        with booted(lab_of("screens-south", nodes=4)) as south:
            recorded += sweep(lab, south, folder)
    page.write_text(rewritten(page.read_text(encoding="utf-8"), recorded), encoding="utf-8")


if __name__ == "__main__":
    main()
