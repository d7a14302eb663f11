# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each node has, before any rank starts (P4), and which nodes and which interface the ranks get (P6, E4).

    preflight.py node     FOLDER NODE,NODE,... ...   on each node: writes FOLDER/<node>.json
    preflight.py select   FOLDER NODE,NODE,... ...   on the first: FOLDER/exchange, who measures with whom, and how
    preflight.py exchange FOLDER NODE,NODE,... ...   on each fit node: writes FOLDER/<node>.exchange.json
    preflight.py judge    FOLDER NODE,NODE,... ...   on the first: prints a line a node, writes FOLDER/verdict

Standard library only; `exchange` uses torch where the job's Python has it.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys

# Run isolated (-I), so that nothing of the user's is imported; our own parts lie beside this file.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import disk
import preflight_exchange
import preflight_gpus
import preflight_judge
from preflight_files import publish, read
from preflight_network import fastest_first, free_port, interfaces, usable

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def versions(python, imports):
    """(versions of Python and of each import, whether there is torch, None) as the job's own interpreter sees them.

    Where it does not: ({}, False, why).
    """
    program = (
        "import importlib, importlib.util, json, platform, sys\n"
        "found = {'python': platform.python_version()}\n"
        "for name in sys.argv[1:]:\n"
        "    found[name] = str(getattr(importlib.import_module(name), '__version__', 'ok'))\n"
        "print(json.dumps([found, importlib.util.find_spec('torch') is not None]))\n"
    )
    try:
        done = subprocess.run([python, "-c", program, *imports], capture_output=True, check=False)
    except OSError as error:
        leads = os.path.realpath(python)
        where = f" (it leads to {leads}, which every node must have)" if os.path.islink(python) else ""
        return {}, False, f"{python}: {error.strerror}{where}"
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        return {}, False, lines[-1]
    found, torch = json.loads(done.stdout.decode("utf-8", "replace").strip().splitlines()[-1])
    return found, torch, None


def identity(python, imports):
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


def probed(python, imports, path):
    """`versions`, and whether an earlier attempt of this run had asked this node already (P4). No failure is kept."""
    asked = identity(python, imports)
    known = read(path) if path and asked else None
    if known and known["asked"] == asked:
        return known["versions"], known["torch"], None, True
    found, torch, trouble = versions(python, imports)
    if path and asked and trouble is None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        publish(path, {"asked": asked, "versions": found, "torch": torch})
    return found, torch, trouble, False


def gpus_seen():
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("ROCR_VISIBLE_DEVICES"))
    if listed is not None:
        return len([device for device in listed.split(",") if device.strip()])
    return len(glob.glob("/dev/nvidia[0-9]*"))


def size(count):
    """Bytes for people, rounded down."""
    for unit, bits in (("T", 40), ("G", 30), ("M", 20)):
        if count >> bits:
            return f"{count >> bits}{unit}"
    return f"{count >> 10}K"


def room(path, least):
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


def lacking(arguments):
    """What this node is to get a copy of, kind -> what is wrong until then; and the kinds that it sees itself (P5)."""
    parts = {"code": arguments.code}
    if os.path.isabs(arguments.python):
        parts["environment"] = os.path.dirname(os.path.dirname(arguments.python))
    sees = [kind for kind, path in parts.items() if path and os.path.isdir(path)]
    if arguments.stage == "never":
        return {}, sees
    return {
        kind: f"the {kind} {path} is not {'copied to' if kind in sees else 'on'} this node"
        for kind, path in parts.items()
        if path and (arguments.stage == "always" or kind not in sees)
    }, sees


def examine(arguments, own, lacks=(), memory=None):
    """What this node has to say: `columns` of its line, `problems`, those of them that can only be the node's own
    (`ailments`), and `torch`. What it lacks is looked at once it is there. `memory`: where an earlier attempt of this
    run left the import probe's answer.
    """
    columns, problems, ailments = {}, [], []

    def check(column, fine, problem):
        columns[column] = "ok" if fine else "missing"
        if not fine:
            problems.append(problem)

    def ail(problem):
        problems.append(problem)
        ailments.append(problem)

    run_dir = os.path.dirname(os.path.dirname(arguments.folder))
    found, torch, remembered = {}, False, False
    if "code" in lacks:
        columns["proj"] = "missing"
    elif arguments.code:
        check("proj", os.path.isdir(arguments.code), f"the code {arguments.code} is not here")
    if "environment" in lacks:
        columns["env"] = "missing"
    else:
        found, torch, trouble, remembered = probed(arguments.python, arguments.imports.split(), memory)
        check("env", trouble is None, f"environment: {trouble}")
    if arguments.image:
        check("image", os.access(arguments.image, os.R_OK), f"the image {arguments.image} is not here")
    if arguments.mounts:
        absent = [source for source in arguments.mounts.split(":") if not os.path.exists(source)]
        check("mounts", not absent, f"to be mounted, but not here: {', '.join(absent)}")
    if arguments.tool:
        check("apptainer", os.access(arguments.tool, os.X_OK), f"the command {arguments.tool} is not here")
    check("run", os.access(run_dir, os.W_OK), f"{run_dir} is not writable")
    cpus = len(os.sched_getaffinity(0))
    columns["cpus"] = str(cpus)
    # A lab may promise more CPUs than the machine has: what counts is whether the job is bound to fewer than it could.
    if cpus < min(arguments.cpus, os.cpu_count() or 1):
        problems.append(f"{cpus} CPUs for {arguments.cpus} that the job asked for")
    if arguments.gpus:
        gpus = gpus_seen()
        columns["gpus"] = str(gpus)
        if gpus < arguments.gpus:
            problems.append(f"{gpus} GPUs for {arguments.gpus} that the job asked for")
        if arguments.gpu_health != "off":
            columns["health"], troubles = preflight_gpus.health()
            for level, words in troubles:
                if level == preflight_gpus.FAIL and arguments.gpu_health == "fail":
                    ail(words)
                else:
                    columns["health"] += "," + words.replace(" ", "_")
    columns["if"] = ",".join(fastest_first(own)) or "none"
    if os.path.isdir(run_dir):
        columns["free"], trouble = room(run_dir, arguments.free_run)
        if trouble:
            problems.append(f"{trouble} (preflight.free_run)")
    else:
        columns["free"] = "unknown"
    columns["tmp"], trouble = room(os.environ.get("TMPDIR") or "/tmp", arguments.free_tmp)
    if trouble:
        ail(f"{trouble} (preflight.free_tmp)")
    columns.update(found)
    if remembered:
        columns["probe"] = "remembered"
    return {"columns": columns, "problems": problems, "ailments": ailments, "torch": torch}


def node(arguments):
    names = arguments.nodes.split(",")
    name, own = names[int(os.environ["SLURM_NODEID"])], interfaces()
    # With spare nodes, any of the first few may become the first one of the ranks.
    heads = names[: max(1, len(names) - arguments.wanted + 1)]
    if name in heads:
        publish(os.path.join(arguments.folder, name + ".addresses"), own)
    memory = os.path.join(os.path.dirname(arguments.folder), "remembered", name + ".json")
    lacks, sees = lacking(arguments)
    report = {**examine(arguments, own, lacks, memory), "lacks": lacks, "sees": sees}
    report["problems"] += lacks.values()
    report["own"], report["port"] = own, free_port(int(os.environ["SLURM_JOB_ID"]))
    report["usable"] = usable(own, name, heads, arguments.folder)
    publish(os.path.join(arguments.folder, name + ".json"), report)
    disk.sweep(disk.candidates(arguments.local_dir))
    return 0


def amend(folder, name, kind, problem=None, torch=False, **columns):
    """Settle in a node's report what it lacked: it has the columns now, or there is another problem in its place."""
    path = os.path.join(folder, name + ".json")
    report = read(path)
    old = report["lacks"].pop(kind, None)
    report["problems"] = [one for one in report["problems"] if one != old] + ([problem] if problem else [])
    report["columns"].update(columns)
    report["torch"] = torch or bool(report.get("torch"))
    publish(path, report)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["node", "select", "exchange", "judge"])
    parser.add_argument("folder")
    parser.add_argument("nodes")
    parser.add_argument("--wanted", type=int, default=1)
    parser.add_argument("--budget", type=int, default=60)
    parser.add_argument("--policy", choices=["stop", "replace", "requeue"], default="stop")
    parser.add_argument("--slow", choices=["warn", "fail"], default="warn")
    parser.add_argument("--code", default="")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--imports", default="")
    parser.add_argument("--stage", choices=["missing", "never", "always"], default="never")
    parser.add_argument("--local-dir", default="")
    parser.add_argument("--image", default="")
    parser.add_argument("--mounts", default="")
    parser.add_argument("--tool", default="")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--gpu-health", choices=["fail", "warn", "off"], default="fail")
    parser.add_argument("--free-run", type=int, default=0)
    parser.add_argument("--free-tmp", type=int, default=0)
    parser.add_argument("--megabytes", type=int, default=0)
    arguments = parser.parse_args()
    commands = {
        "node": node,
        "select": preflight_judge.select,
        "exchange": preflight_exchange.exchange,
        "judge": preflight_judge.judge,
    }
    return commands[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
