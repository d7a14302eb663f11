# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each node has, before any rank starts; the conductor judges it (judge.py).

    program.py node     FOLDER NODE,NODE,... ...   on each node: prints its report
    program.py exchange FOLDER NODE,NODE,... ...   on each fit node: writes FOLDER/<node>.exchange.json

Standard library only; `exchange` uses torch where the job's Python has it.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import sys

# The runtime's folder is shared and never changed: nothing is compiled into it. Run isolated (-I), so that nothing of
# the user's is imported; our own parts lie in the
# folders beside this one's. The exchange runs with the job's own Python, whose imports must not find what lies here.
sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
RUNTIME = os.path.dirname(HERE)
sys.path[:] = [RUNTIME, *(folder for folder in sys.path if folder != HERE)]

from core import compiled  # noqa: E402

compiled.use(RUNTIME)

from core import children  # noqa: E402
from core.files import HEADS, load, opened, publish  # noqa: E402
from core.log_names import text_lines  # noqa: E402
from node import disk  # noqa: E402
from node.reports import KIND, reports_of, required, versions  # noqa: E402
from preflight.binding import gpus_asked, promised, unbound  # noqa: E402
from preflight.network import fastest_first, interfaces, rules, usable  # noqa: E402
from preflight.report import Report  # noqa: E402
from start import ports  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

#: What container/inside.sh says of an image without the job's Python.
NO_PYTHON = "no-python"
# How long (seconds) a Python gets to start with the job's PYTHONHOME.
HOME_SECONDS = 20.0
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def identity(python: str, imports: list[str]) -> list[int | list[str] | str] | None:
    """What must be the same for an answer to hold again: this boot of the node, the interpreter, the question."""
    program = shutil.which(python)
    if program is None:
        return None
    try:
        with open(BOOT_ID, encoding="ascii") as stream:
            boot = stream.read().strip()
        status = os.stat(program)
    except OSError:
        return None
    return [boot, program, status.st_mtime_ns, status.st_size, list(imports)]


def probed(
    python: str, imports: list[str], known: dict[str, Any] | None = None
) -> tuple[dict[str, str], bool, str | None, dict[str, Any] | None]:
    """`versions`, and what the next attempt may take over. `known`: that of the attempt before. No failure is kept."""
    asked = identity(python, imports)
    if known and asked and known.get("asked") == asked:
        return known["versions"], known["torch"], None, known
    columns, torch, trouble = versions(python, imports)
    answer = {"asked": asked, "versions": columns, "torch": torch} if asked and trouble is None else None
    return columns, torch, trouble, answer


def answer_before(folder: str, name: str) -> dict[str, Any] | None:
    """What the attempt before this one learned from this node's Python; None where it did not ask it. `folder`: that of
    this attempt.
    """
    above, attempt = os.path.split(folder)
    if not attempt.isdigit() or attempt == "0":
        return None
    report = reports_of(os.path.join(above, str(int(attempt) - 1)), [name])[name]
    known = report.get("probed") if isinstance(report, dict) else None
    return known if isinstance(known, dict) and {"asked", "versions", "torch"} <= set(known) else None


def images_of(runtime: str) -> list[str]:
    """What an image of this runtime can be, as it is declared."""
    with open(os.path.join(RUNTIME, "container", "containers.txt"), encoding="utf-8") as stream:
        facts = [line.split() for line in (*os.environ.get("RANKZERO_CONTAINER_FACTS", "").splitlines(), *stream)]
    return next((words[2:] for words in facts if words[:2] == [runtime, "images"]), [])


def image_trouble(path: str, runtime: str) -> str | None:
    """What is wrong with an image as this node sees it, or None."""
    kinds = images_of(runtime)
    if not os.path.exists(path):
        return "is not here"
    if not os.access(path, os.R_OK):
        return "may not be read here"
    folder = os.path.isdir(path) and bool({"root", "bundle"} & set(kinds))
    if kinds and "sif" not in kinds and not folder:
        try:
            with open(opened(path), "rb") as stream:
                return None if stream.read(4) == b"hsqs" else f"is not a squashfs file, which {runtime} needs"
        except OSError as error:
            return f"cannot be read here: {error.strerror}"
    return None


def contained(enter: list[str], imports: list[str]) -> tuple[dict[str, str], list[str]]:
    """({column: text}, problems) of a real start of the job's container on this node, and of what is in it."""
    runtime = os.environ["RANKZERO_RUNTIME"]
    words = [*enter, "/bin/bash", f"{runtime}/container/enter.sh", f"{runtime}/container/inside.sh", *imports]
    # As the ranks have it: what the node's own programs need is not what the image's do.
    clean = {name: value for name, value in os.environ.items() if name not in os.environ["RANKZERO_CLEARED"].split()}
    # Alone, however many tasks of this step the node has: no other comes to share it.
    clean.update(SLURM_LOCALID="0", SLURM_STEP_TASKS_PER_NODE="")
    try:
        done = children.run(words, clean, children.WORK_SECONDS)
    except OSError as error:
        return {}, [f"{words[0]}: {error.strerror}"]
    lines = done.stdout.strip().splitlines()
    if lines[-1:] == [NO_PYTHON]:
        names = " ".join(name.lstrip("?").partition(":")[0] for name in imports)
        python = os.environ["RANKZERO_PYTHON"]
        return {}, [f"the container: has no {python} to import {names}"] if imports else []
    try:
        answer = json.loads(lines[-1])
        problems = answer["problems"]
        if answer.get("absent"):
            problems.append(required(answer["absent"], answer["prefix"]))
        return answer["columns"], [f"the container: {problem}" for problem in problems]
    except (IndexError, ValueError, KeyError, TypeError):
        output = [*lines, *done.stderr.splitlines()]
        # The last line is the outermost command's, which adds little to the one that failed.
        why = "; ".join(line.replace("[rankzero] ", "") for line in output[-2:]) or f"exit code {done.returncode}"
        return {}, [f"the container does not start: {why}"]


def gpus_seen() -> int:
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("ROCR_VISIBLE_DEVICES"))
    if listed is not None:
        return len([device for device in listed.split(",") if device.strip()])
    return len(glob.glob("/dev/nvidia[0-9]*"))


def size(count: int) -> str:
    """Bytes for people, rounded down."""
    for unit, bits in (("T", 40), ("G", 30), ("M", 20)):
        if count >> bits:
            return f"{count >> bits}{unit}"
    return f"{count >> 10}K"


def room(path: str, least: int) -> tuple[str, str | None]:
    """(free space for people, what is wrong with it or None) of a path's file system; `least` in bytes."""
    try:
        status = os.statvfs(path)
    except OSError as error:
        return "unknown", f"{path}: {error.strerror}"
    free = status.f_bavail * status.f_frsize
    if free < least:
        return size(free), f"{path} has less than {size(least)} free"
    # A file system without a fixed number of inodes says 0 of 0.
    if least and status.f_files and not status.f_favail:
        return size(free), f"{path} has no inode left"
    return size(free), None


def lacking(arguments: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """What this node is to get a copy of, kind -> what is wrong until then; and the kinds that it sees itself."""
    parts = {"code": arguments.code}
    if not arguments.sealed and os.path.isabs(arguments.python):
        parts["environment"] = os.path.dirname(os.path.dirname(arguments.python))
    sees = [kind for kind, path in parts.items() if path and os.path.isdir(path)]
    if arguments.stage == "never":
        return {}, sees
    return {
        kind: f"the {kind} {path} is not {'copied to' if kind in sees else 'on'} this node"
        for kind, path in parts.items()
        if path and (arguments.stage == "always" or kind not in sees)
    }, sees


def home_trouble(python: str) -> str | None:
    """Why the ranks' Python does not start with the job's PYTHONHOME, or None. What is started with -I ignores it."""
    home = os.environ.get("PYTHONHOME")
    try:
        done = children.run([python, "-S", "-c", ""], os.environ, HOME_SECONDS) if home else None
    except OSError:
        return None
    if done is None or done.returncode == 0:
        return None
    return f"{python} does not start with PYTHONHOME={home}: remove it from env, or from the set-up that sets it"


def unsealed(folder: str, name: str) -> str | None:
    """Why this node does not have the sealed environment (sealed.py), or None."""
    word = load(os.path.join(folder, name + ".json")) or {"problem": "no answer from this node"}
    return None if word.get("how") else word.get("problem") or "the file is not on this node"


def examine(
    arguments: argparse.Namespace,
    own: dict[str, str],
    lacks: Collection[str] = (),
    memory: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The document that this node reports. What it lacks is looked at once it is there. `memory`: the import probe's
    answer in the attempt before.
    """
    report = Report()
    examine_software(report, arguments, lacks, memory)
    examine_machine(report, arguments, own)
    return report.document()


def examine_software(
    report: Report, arguments: argparse.Namespace, lacks: Collection[str], memory: dict[str, Any] | None
) -> None:
    """Code, environment, image and mounts, and the container where there is one."""
    if "code" in lacks:
        report.columns["proj"] = "missing"
    elif arguments.code:
        report.check("proj", os.path.isdir(arguments.code), f"the code {arguments.code} is not here")
    if "environment" in lacks:
        report.columns["env"] = "missing"
    elif arguments.sealed and (trouble := unsealed(arguments.sealed, this_node(arguments))):
        report.check("env", False, f"environment: {trouble}")
    elif os.environ.get("RANKZERO_MADE_INSIDE"):
        # For the image: this node's system may not even start its Python.
        place = os.path.dirname(os.path.dirname(arguments.python))
        report.check("env", os.path.isdir(place), f"the environment {place} is not here")
    else:
        # Where the node can look into the container it does, and only there: an environment may not fit the node.
        imports = [] if arguments.enter else arguments.imports.split()
        report.versions, report.torch, trouble, report.probed = probed(arguments.python, imports, memory)
        trouble = home_trouble(arguments.python) or trouble
        report.remembered = memory is not None and report.probed is memory
        report.check("env", trouble is None, f"environment: {trouble}")
        if arguments.sealed and trouble is None:
            report.columns["env"] = "made" if os.environ.get("RANKZERO_PACKAGES") else "sealed"
    if arguments.image:
        trouble = image_trouble(arguments.image, arguments.runtime)
        report.check("image", trouble is None, f"the image {arguments.image} {trouble}")
    if arguments.mounts:
        absent = [source for source in arguments.mounts.split(":") if not os.path.exists(source)]
        report.check("mounts", not absent, f"mount sources missing on this node: {', '.join(absent)}")
    if arguments.enter and not report.problems:
        inside, troubles = contained(arguments.enter, arguments.imports.split())
        report.check(arguments.runtime, not troubles, "; ".join(troubles))
        report.versions.update(inside)


def examine_machine(report: Report, arguments: argparse.Namespace, own: dict[str, str]) -> None:
    """The run directory, CPUs, GPUs, interfaces, and room on the disks."""
    run_dir, columns = os.path.dirname(os.path.dirname(arguments.folder)), report.columns
    report.check("run", os.access(run_dir, os.W_OK), f"{run_dir} is not writable")
    # What each rank gets of them is said, and judged, by binding.py.
    columns["cpus"] = str(len(os.sched_getaffinity(0)))
    if promised(arguments.gpus, os.environ.get("SLURMD_NODENAME", "")):
        columns["gpus"] = str(gpus_seen())
        if arguments.gpu_health != "off":
            from preflight import gpus

            columns["health"], troubles = gpus.health(arguments.gpu_type)
            for level, words in troubles:
                if level == gpus.FAIL and arguments.gpu_health == "fail":
                    report.ail(words)
                else:
                    columns["health"] += "," + words.replace(" ", "_")
    columns["if"] = ",".join(fastest_first(own)) or "none"
    if os.path.isdir(run_dir):
        columns["free"], trouble = room(run_dir, arguments.free_run)
        if trouble:
            report.problems.append(f"{trouble} (preflight.free_run)")
    else:
        columns["free"] = "unknown"
    columns["tmp"], trouble = room(os.environ.get("TMPDIR") or "/tmp", arguments.free_tmp)
    if trouble:
        report.ail(f"{trouble} (preflight.free_tmp)")


def this_node(arguments: argparse.Namespace) -> str:
    return str(arguments.nodes.split(",")[int(os.environ["SLURM_NODEID"])])


def limits_of(arguments: argparse.Namespace, torch: bool) -> list[dict[str, Any]]:
    """What the limits of this node mean for a job of this size, should it become the first one."""
    # Loaded by the few nodes that may.
    from preflight import limits

    load = limits.Load(
        arguments.wanted,
        arguments.ranks_per_node,
        arguments.agents,
        torch or arguments.agents > 0,
        privileged=os.geteuid() == 0,
    )
    return limits.findings("/", load)


def node(arguments: argparse.Namespace) -> int:
    unbound()
    names, name, own = arguments.nodes.split(","), this_node(arguments), interfaces()
    # With spare nodes, any of the first few may become the first one of the ranks.
    heads = names[: max(1, len(names) - arguments.wanted + 1)]
    if name in heads:
        publish(os.path.join(arguments.folder, HEADS, name + ".addresses"), own)
    memory = answer_before(arguments.folder, name)
    lacks, sees = lacking(arguments)
    report = {**examine(arguments, own, lacks, memory), "lacks": lacks, "sees": sees}
    report["problems"] += lacks.values()
    # Were this the first node.
    report["own"], report["ports"] = own, ports.free(os.environ.get("RANKZERO_ATTACHED") or os.environ["SLURM_JOB_ID"])
    report["rules"] = rules(own)
    report["usable"] = usable(own, name, heads, arguments.folder)
    report["place"] = os.environ.get("SLURM_TOPOLOGY_ADDR", "")
    if name in heads:
        report["limits"] = limits_of(arguments, report["torch"])
    sys.stdout.write(text_lines(KIND, name, json.dumps(report)))
    sys.stdout.flush()
    disk.sweep(disk.candidates(arguments.local_dir))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["node", "exchange"])
    parser.add_argument("folder")
    parser.add_argument("nodes")
    parser.add_argument("--wanted", type=int, default=1)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--code", default="")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--sealed", default="")
    parser.add_argument("--imports", default="")
    parser.add_argument("--stage", choices=["missing", "never", "always"], default="never")
    parser.add_argument("--local-dir", default="")
    parser.add_argument("--image", default="")
    parser.add_argument("--mounts", default="")
    parser.add_argument("--runtime", default="")
    parser.add_argument("--gpus", type=gpus_asked, default=0)
    parser.add_argument("--ranks-per-node", type=int, default=1)
    parser.add_argument("--agents", type=int, default=0)
    parser.add_argument("--gpu-health", choices=["fail", "warn", "off"], default="fail")
    parser.add_argument("--gpu-type", default="")
    parser.add_argument("--free-run", type=int, default=0)
    parser.add_argument("--free-tmp", type=int, default=0)
    parser.add_argument("--megabytes", type=int, default=0)
    # The words that enter the container come last and as they are: options and dashes of their own are among them.
    given = sys.argv[1:]
    end = given.index("--enter") if "--enter" in given else len(given)
    arguments = parser.parse_args(given[:end])
    arguments.enter = given[end + 1 :]
    # Each command loads its own part: every file is compiled anew, on every node.
    if arguments.command == "node":
        return node(arguments)
    from preflight import exchange

    return exchange.exchange(arguments)


if __name__ == "__main__":
    sys.exit(main())
