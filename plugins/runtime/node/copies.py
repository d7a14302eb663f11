# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies code and environment to the nodes that lack them, for the time of the job. Started by node/copy_steps.py.

    copies.py plan    FOLDER NODES              on the first node: lines `hold NODES` and `view FOLDER`, then a line
                                               `KIND SOURCE` for each thing that must travel
    copies.py hold    FOLDER NODES              on these nodes: makes the job's folders, and removes them at the end
    copies.py send    FOLDER NODES --kind KIND  on the source: packs it, and sends it to the nodes of the receiving step
    copies.py targets FOLDER NODES --kind KIND  on the first node: the nodes that have room, comma-separated
    copies.py receive FOLDER NODES --kind KIND  on these: verifies the checksum, unpacks, tries it out

FOLDER is that of the preflight's reports, on shared storage; beside them lies what these processes tell each other, in
`stage/`. What goes wrong on a node becomes a problem in its report. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shlex
import shutil
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from core import children, processes  # noqa: E402
from core.clearing import remove_tree  # noqa: E402
from core.files import publish, read  # noqa: E402
from node import disk, job_end, pack  # noqa: E402
from node.reports import amend, reports_of, versions  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POLL_SECONDS = 0.2
# What is copied: its column in the preflight's table, and the program in it that is tried out.
COLUMNS = {"code": "proj", "environment": "env"}
PROGRAMS = {"environment": os.path.join("bin", "python")}


class Stage:
    """What one process of the staging knows: its node, its job, and the words on shared storage."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.folder, self.names = arguments.folder, arguments.nodes.split(",")
        self.words = os.path.join(arguments.folder, "stage")
        self.job = os.environ["SLURM_JOB_ID"]
        self.view = disk.view()
        self.places = disk.candidates(arguments.local_dir, arguments.slurm_tmp)
        self.limit = arguments.memory
        self.deadline = time.monotonic() + arguments.seconds
        self.seconds = arguments.seconds

    @property
    def name(self) -> str:
        return str(self.names[int(os.environ["SLURM_NODEID"])])

    def announce(self, word: str, **document: Any) -> None:
        publish(os.path.join(self.words, word), document)

    def hear(self, word: str) -> Any:
        return read(os.path.join(self.words, word))

    def wait(self, word: str, speaker: int = 0) -> Any:
        """What another process says; None once the time is over, or `speaker`, a process it depends on, is gone."""
        while True:
            late = time.monotonic() > self.deadline or (speaker and not processes.identity(speaker))
            heard = self.hear(word)
            if heard is not None or late:
                return heard
            time.sleep(POLL_SECONDS)

    def fail(self, kind: str, problem: str, name: str | None = None) -> None:
        amend(self.folder, name or self.name, kind, f"staging the {kind}: {problem}")


def plan(stage: Stage, arguments: argparse.Namespace) -> None:
    """Who sends what to whom. A node with another problem takes no part: the job ends, or continues without it."""
    known = reports_of(stage.folder, stage.names)
    reports = {
        name: report for name, report in known.items() if report and len(report["problems"]) == len(report["lacks"])
    }
    paths = {"code": arguments.code, "environment": os.path.dirname(os.path.dirname(arguments.python))}
    transfers, archives = {}, arguments.archives
    for kind, path in paths.items():
        lack = [name for name, report in reports.items() if kind in report["lacks"]]
        if not lack:
            continue
        archive = os.path.join(archives, f"{kind}-{os.path.basename(path)}.tar") if archives else ""
        if archive and not pack.kept(archive):
            archive = ""
        sources = [name for name, report in reports.items() if archive or kind in report["sees"]]
        if not sources:
            for name in lack:
                stage.fail(
                    kind,
                    f"no node of the job sees {path}"
                    + (
                        f", and {archives} no longer has it: launch again"
                        if archives
                        else "; where the nodes do not share the store, say so (launch_cluster.store_shared: false)"
                    ),
                    name,
                )
            continue
        transfers[kind] = {"path": path, "nodes": lack, "source": sources[0], "archive": archive}
    # What an attempt that was cut short has said counts no more.
    with contextlib.suppress(OSError):
        remove_tree(stage.words)
    if transfers:
        os.makedirs(stage.words)
        stage.announce("plan", **transfers)
        print("hold", ",".join(reports))
        print("view", stage.view)
    for kind, transfer in transfers.items():
        print(kind, transfer["source"])


def hold(stage: Stage) -> None:
    """Make this node's folders, look for room where a copy is to come, and clean up when the job is over."""
    end = job_end.End()
    homes, transfers = [], stage.hear("plan")
    name, waiting, problem = stage.name, [], None
    try:
        try:
            disk.sweep(stage.places)
            homes.append(disk.Home(disk.COMMON))
            for kind, transfer in transfers.items():
                disk.link(transfer["path"], os.path.join(stage.view, kind))
                if name in transfer["nodes"]:
                    waiting.append(kind)
        except (OSError, disk.Trouble) as error:
            problem = str(error)
        stage.announce(f"{name}.held", problem=problem)
        while True:
            for kind in list(waiting):
                offer = stage.hear(f"{kind}.offer")
                if offer is not None:
                    waiting.remove(kind)
                    if not offer["problem"]:
                        stage.announce(f"{kind}.{name}.room", problem=room(stage, kind, offer, homes))
            if end.reached(POLL_SECONDS):
                return
    finally:
        for home in reversed(homes):
            home.leave()


def room(stage: Stage, kind: str, offer: dict[str, Any], homes: list[disk.Home]) -> str | None:
    """Make the place on this node where a copy will lie; the problem, or None."""
    try:
        place = disk.choose(stage.places, offer["bytes"] + offer["unpacked"], offer["files"], stage.limit)
        home = disk.Home(place)
        homes.append(home)
        folder = os.path.join(home.path, f"{kind}.copy")
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        disk.link(folder, os.path.join(stage.view, f"{kind}.in"))
    except (OSError, disk.Trouble) as error:
        return str(error)
    return None


def send(stage: Stage, kind: str) -> None:
    transfer = stage.hear("plan")[kind]
    home = None
    try:
        try:
            if transfer["archive"]:
                archive, offer = transfer["archive"], pack.kept(transfer["archive"]) or {}
                if pack.file_sha256(archive) != offer.get("sha256"):
                    raise disk.Trouble(f"{archive} is not what was packed: remove it, and launch again")
            else:
                size = pack.measure(pack.members(transfer["path"]))
                home = disk.Home(disk.choose(stage.places, size["unpacked"], 1, stage.limit))
                archive = os.path.join(home.path, f"{kind}.{os.getpid()}.tar")
                offer = pack.pack(transfer["path"], archive)
            stage.announce(f"{kind}.offer", problem=None, **offer)
        except (OSError, disk.Trouble) as error:
            stage.announce(f"{kind}.offer", problem=f"it cannot be packed on {transfer['source']}: {error}")
            return
        step = stage.wait(f"{kind}.step")
        if step is None or not step["step"]:
            return
        command = [
            "sbcast",
            "--force",
            f"--jobid={step['step']}",
            archive,
            os.path.join(stage.view, f"{kind}.in", "tar"),
        ]
        print(shlex.join(command), flush=True)
        try:
            done = children.run(command, os.environ, max(1.0, stage.deadline - time.monotonic()))
            problem = f"sbcast on {transfer['source']}: {done.complaint}" if done.returncode else None
        except OSError as error:
            problem = f"sbcast on {transfer['source']}: {error.strerror}"
        stage.announce(f"{kind}.sent", problem=problem)
    finally:
        if home:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(archive)
            home.leave()


def targets(stage: Stage, kind: str, holder: int, sender: int) -> None:
    """Wait until every node has its folders and every one that lacks this has looked for room."""
    transfer, ready = stage.hear("plan")[kind], []
    offer = stage.wait(f"{kind}.offer", sender) or {"problem": f"no answer from {transfer['source']}, which has it"}
    for name in stage.names:
        answer = stage.wait(f"{name}.held", holder)
        if name in transfer["nodes"] and answer and not answer["problem"]:
            answer = offer if offer["problem"] else stage.wait(f"{kind}.{name}.room", holder)
        problem = answer["problem"] if answer else "no word from this node; see stage.log beside the reports"
        if problem:
            stage.fail(kind, problem, name)
        elif name in transfer["nodes"]:
            ready.append(name)
    if not ready:
        stage.announce(f"{kind}.step", step=None)
    print(",".join(ready))


def receive(stage: Stage, kind: str, imports: str) -> None:
    name = stage.name
    if os.environ["SLURM_NODEID"] == "0":
        stage.announce(f"{kind}.step", step=f"{stage.job}.{os.environ['SLURM_STEP_ID']}")
    sent = stage.wait(f"{kind}.sent")
    problem = sent["problem"] if sent else f"it was not sent within {stage.seconds} s"
    if not problem:
        problem = unpacked(stage, kind, stage.hear(f"{kind}.offer"))
    stage.announce(f"{kind}.{name}.done", problem=problem)
    if problem:
        return stage.fail(kind, problem)
    columns = {COLUMNS[kind]: "staged"}
    if kind in PROGRAMS:
        node_versions, torch, problem = versions(os.path.join(stage.view, kind, PROGRAMS[kind]), imports.split())
        columns.update({COLUMNS[kind]: "missing"} if problem else node_versions)
        problem = problem and f"{kind}: {problem}"
        return amend(stage.folder, name, kind, problem, columns, torch)
    return amend(stage.folder, name, kind, problem, columns)


def unpacked(stage: Stage, kind: str, offer: dict[str, Any]) -> str | None:
    """Verify and unpack what has come, and lead the view there; the problem, or None."""
    folder = os.path.join(stage.view, f"{kind}.in")
    archive, tree = os.path.join(folder, "tar"), os.path.join(folder, "tree")
    try:
        # Slurm nodes that share one machine share the copy, too.
        with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.isdir(tree):
                sha256 = pack.file_sha256(archive)
                if sha256 != offer["sha256"]:
                    return f"damaged in transfer: {offer['sha256'][:16]} was sent, and {sha256[:16]} arrived (sha256)"
                pack.unpack(archive, tree + ".new")
                readdress(tree + ".new", offer["path"], os.path.join(stage.view, kind))
                os.rename(tree + ".new", tree)
                os.unlink(archive)
            disk.link(os.path.realpath(tree), os.path.join(stage.view, kind))
    except (OSError, pack.Damaged) as error:
        return f"it cannot be unpacked: {error}"
    return None


def readdress(tree: str, before: str, after: str) -> None:
    """Let the programs of an environment that was made at another path find its Python: their first lines name it."""
    scripts = os.path.join(tree, "bin")
    start = b"#!" + os.fsencode(before) + b"/"
    for name in os.listdir(scripts) if os.path.isdir(scripts) else ():
        path = os.path.join(scripts, name)
        if not os.path.isfile(path) or os.path.islink(path):
            continue
        with open(path, "rb") as stream:
            if stream.read(len(start)) != start:
                continue
            # A program of one file may be as large as an environment.
            with open(path + ".new", "wb") as moved:
                moved.write(b"#!" + os.fsencode(after) + b"/")
                shutil.copyfileobj(stream, moved)
        shutil.copymode(path, path + ".new")
        os.replace(path + ".new", path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["plan", "hold", "send", "targets", "receive"])
    parser.add_argument("folder")
    parser.add_argument("nodes")
    parser.add_argument("--kind", choices=list(COLUMNS))
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--code", default="")
    parser.add_argument("--python", default="")
    parser.add_argument("--imports", default="")
    parser.add_argument("--archives", default="")
    parser.add_argument("--local-dir", default="")
    parser.add_argument("--slurm-tmp", default="")
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--holder", type=int, default=0)
    parser.add_argument("--sender", type=int, default=0)
    arguments = parser.parse_args()
    stage = Stage(arguments)
    if arguments.command == "plan":
        plan(stage, arguments)
    elif arguments.command == "hold":
        hold(stage)
    elif arguments.command == "receive":
        receive(stage, arguments.kind, arguments.imports)
    elif arguments.command == "targets":
        targets(stage, arguments.kind, arguments.holder, arguments.sender)
    else:
        send(stage, arguments.kind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
