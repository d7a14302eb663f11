# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sealed environment on the nodes of a job: its file checked, mounted once a node, gone at the end.

    sealed.py hold    FOLDER NODES --file FILE ...   on these nodes: mounts the file, and holds it until the job is over
    sealed.py await   FOLDER NODES ...               on the first: waits for all, says on which nodes it is missing
    sealed.py receive FOLDER NODES                   on those: the step that sbcast sends to
    sealed.py send    FOLDER NODES --file FILE       on a node that has the file: sends it there
    sealed.py problems FOLDER NODES                  on the first: a line for each node that has no environment
    sealed.py view FOLDER NODES                      on each: where it is mounted

FOLDER, on shared storage, is where these processes tell each other what they did, a file a node. A node trusts no file
before it has read it and found the digest that it was published with. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shlex
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from core import children, processes  # noqa: E402
from core.files import publish, read, read_all  # noqa: E402
from node import disk, job_end  # noqa: E402
from node.sealed_file import Source, check_length, find, room_for_copy, verified  # noqa: E402
from node.sealed_mount import mounted, sealed  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

POLL_SECONDS = 0.1
_SILENT = "no word from this node within {} s, or its step has ended; see hold.log in {}"


class Node:
    """One process on one node: who it is, and what was said so far."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.folder, self.names = arguments.folder, arguments.nodes.split(",")
        self.name = self.names[int(os.environ.get("SLURM_NODEID", "0"))]
        self.places = disk.candidates(arguments.local_dir, arguments.slurm_tmp)
        self.limit = arguments.memory
        self.deadline = time.monotonic() + arguments.seconds - arguments.spent
        self.seconds = arguments.seconds
        self.view = arguments.view
        #: What is mounted is an environment, and no dataset.
        self.runs = self.view.startswith("sealed")

    def announce(self, word: str, **document: Any) -> None:
        publish(os.path.join(self.folder, word), document)

    def hear(self, word: str) -> Any:
        return read(os.path.join(self.folder, word))

    def wait(self, word: str) -> Any:
        """What another process says; None once the time is over."""
        while True:
            heard = self.hear(word)
            if heard is not None or time.monotonic() > self.deadline:
                return heard
            time.sleep(POLL_SECONDS)


# --- the processes


def hold(node: Node, arguments: argparse.Namespace) -> None:
    end = job_end.End()
    homes: list[disk.Home] = []
    daemons: list[subprocess.Popen[bytes]] = []
    waiting = False
    try:
        try:
            disk.sweep(node.places)
            homes.append(disk.Home(disk.COMMON))
            source = find(arguments.file, arguments.archive)
            if source is None and not node.runs:
                raise disk.Trouble(f"{arguments.file} is not on this node, or was not packed")
            waiting = source is None
            if source:
                provide(node, source, arguments, homes, daemons)
            else:
                node.announce(f"{node.name}.json", lacks=True)
        except (OSError, disk.Trouble) as error:
            node.announce(f"{node.name}.json", problem=str(error))
        while not end.reached(POLL_SECONDS):
            if waiting:
                waiting = received(node, arguments, homes, daemons)
    finally:
        for home in reversed(homes):
            home.leave()
        for daemon in daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(5)


def provide(
    node: Node,
    source: Source,
    arguments: argparse.Namespace,
    homes: list[disk.Home],
    daemons: list[subprocess.Popen[bytes]],
) -> None:
    """Check the file, copy it where that pays, mount it, and start the Python of an environment once."""
    began = time.monotonic()
    if arguments.sha256:
        source.facts = {**source.facts, "sha256": arguments.sha256}
    # Slurm nodes that share one machine share the environment, too.
    with open(os.path.join(homes[0].path, f"{node.view}.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        how, readings, place = "shared", 0, None
        if not os.path.exists(os.path.join(sealed(node.view), *(("bin", "python") if node.runs else ()))):
            place, target = room_for_copy(node, source, arguments.copy), None
            if place:
                homes.append(disk.Home(place))
                target = os.path.join(homes[-1].path, f"{node.view}.sqsh")
            if node.runs or target:
                readings = verified(source, target)
            else:
                check_length(source)
            checked = time.monotonic()
            how = mounted(node, target or source.path, source.facts, homes, daemons)
            done = f"copied to {place}" if place else "used where it is"
            seconds = f"{checked - began:.2f} s to read it, {time.monotonic() - checked:.2f} s more to have it ({how})"
            print(f"{node.name}: {source.path} {done}; {readings} readings; {seconds}", flush=True)
    problem = start(os.path.join(sealed(node.view), "bin", "python")) if node.runs else None
    if problem:
        raise disk.Trouble(problem)
    node.announce(f"{node.name}.json", how=how + (",copied" if place else ""), readings=readings, facts=source.facts)


def start(python: str) -> str | None:
    """Why a Python does not run on this node, or None."""
    try:
        done = children.run([python, "-I", "-S", "-c", ""], os.environ, children.START_SECONDS)
        problem = f"its Python does not run here: {done.complaint}" if done.returncode else None
    except OSError as error:
        leads = os.path.realpath(python)
        problem = f"its Python does not run here: {leads}: {error.strerror}"
        if not leads.startswith(os.path.realpath(disk.view())):
            problem += " (environment.interpreter: every node has to have it, or seal one in)"
    return problem


def received(
    node: Node, arguments: argparse.Namespace, homes: list[disk.Home], daemons: list[subprocess.Popen[bytes]]
) -> bool:
    """What a node does that saw no file: makes room once it knows the size, takes the file once it has come. Returns
    whether it goes on waiting."""
    try:
        offer = node.hear("offer")
        place = os.path.join(disk.view(), f"{node.view}.in")
        if offer and not os.path.lexists(place):
            home = disk.Home(disk.choose(node.places, offer["facts"]["bytes"], 1, node.limit))
            homes.append(home)
            disk.link(home.path, place)
            node.announce(f"{node.name}.room", problem=None)
        sent = node.hear("sent")
        if not sent or not offer:
            return True
        if sent["problem"]:
            raise disk.Trouble(sent["problem"])
        given = argparse.Namespace(**{**vars(arguments), "copy": "never"})
        provide(node, Source(os.path.join(place, "sent.sqsh"), offer["facts"]), given, homes, daemons)
    except (OSError, disk.Trouble) as error:
        node.announce(f"{node.name}.json", problem=str(error))
        node.announce(f"{node.name}.room", problem=str(error))
    return False


def heard_of_all(
    node: Node, arguments: argparse.Namespace, done: Callable[[Any], bool] = lambda word: True
) -> tuple[dict[str, Any], list[str]]:
    """The words of all nodes, waited for as long as the holder lives and there is time; or until it is time to look
    whether the silent ones are lost, whose names are then printed.
    """
    answers: dict[str, Any] = {}
    names, look = node.names, time.monotonic() + arguments.look if arguments.look else node.deadline
    while True:
        wanted = {f"{name}.json": name for name in names if not (name in answers and done(answers[name]))}
        answers.update((wanted[file], word) for file, word in read_all(node.folder, wanted).items() if word is not None)
        missing = [name for name in names if not (name in answers and done(answers[name]))]
        late = time.monotonic() > node.deadline or not processes.identity(arguments.holder)
        if not missing or late:
            return answers, missing
        if time.monotonic() > look:
            print("silent", ",".join(missing))
            sys.exit()
        time.sleep(POLL_SECONDS)


def await_all(node: Node, arguments: argparse.Namespace) -> None:
    """Lines for the batch script: `send SOURCE NODES` where the file has to travel."""
    if arguments.again:
        _found, missing = heard_of_all(node, arguments, lambda word: not word.get("lacks"))
    else:
        answers, missing = heard_of_all(node, arguments)
        lack = [name for name in node.names if answers.get(name, {}).get("lacks")]
        have = [name for name in node.names if answers.get(name, {}).get("how")]
        if lack and have:
            node.announce("offer", facts=answers[have[0]]["facts"])
            ready = []
            for name in lack:
                answer = node.wait(f"{name}.room") or {"problem": "no word from this node"}
                if answer["problem"]:
                    node.announce(f"{name}.json", problem=answer["problem"])
                else:
                    ready.append(name)
            if ready:
                print("send", have[0], ",".join(ready))
        for name in lack if not have else ():
            node.announce(f"{name}.json", problem=f"no node of the job sees {arguments.file}")
    for name in missing:
        if node.hear(f"{name}.json") is None or arguments.again:
            node.announce(f"{name}.json", problem=_SILENT.format(node.seconds, node.folder))


def receive(node: Node) -> None:
    """Is there as long as sbcast needs a step to send to."""
    if os.environ.get("SLURM_NODEID", "0") == "0":
        node.announce("step", step=f"{os.environ['SLURM_JOB_ID']}.{os.environ['SLURM_STEP_ID']}")
    node.wait("sent")


def send(node: Node, file: str) -> None:
    step = node.wait("step")
    if step is None:
        node.announce("sent", problem=f"the step that was to receive it did not start within {node.seconds} s")
        return
    target = os.path.join(disk.view(), f"{node.view}.in", "sent.sqsh")
    command = ["sbcast", "--force", f"--jobid={step['step']}", file, target]
    print(shlex.join(command), flush=True)
    try:
        done = children.run(command, os.environ, max(1.0, node.deadline - time.monotonic()))
        problem = f"sbcast on {node.name}: {done.complaint}" if done.returncode else None
    except OSError as error:
        problem = f"sbcast on {node.name}: {error.strerror}"
    node.announce("sent", problem=problem)


def problems(node: Node) -> None:
    for name in node.names:
        word = node.hear(f"{name}.json") or {"problem": "no word from this node"}
        if not word.get("how"):
            print(f"{name}: {word.get('problem') or 'the file is not on this node'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["hold", "await", "receive", "send", "problems", "view"])
    parser.add_argument("folder")
    parser.add_argument("nodes")
    parser.add_argument("--file", default="")
    parser.add_argument("--archive", default="")
    # As it was recorded when the launch was made; what lies beside the file counts only where there is none.
    parser.add_argument("--sha256", default="")
    parser.add_argument("--copy", choices=["auto", "always", "never"], default="auto")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--spent", type=int, default=0)
    parser.add_argument("--look", type=int, default=0)
    parser.add_argument("--local-dir", default="")
    parser.add_argument("--slurm-tmp", default="")
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--holder", type=int, default=0)
    parser.add_argument("--view", default="sealed")
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    node = Node(arguments)
    if arguments.command == "hold":
        hold(node, arguments)
    elif arguments.command == "await":
        await_all(node, arguments)
    elif arguments.command == "receive":
        receive(node)
    elif arguments.command == "send":
        send(node, arguments.file)
    elif arguments.command == "view":
        print(sealed(arguments.view))
    else:
        problems(node)
    return 0


if __name__ == "__main__":
    sys.exit(main())
