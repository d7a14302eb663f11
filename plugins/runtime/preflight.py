# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each node has, before any rank starts (P4), and the network interface that all of them share (E4).

    preflight.py node  FOLDER NODE,NODE,... --cpus N --gpus N ...   on each node: writes FOLDER/<node>.json
    preflight.py judge FOLDER NODE,NODE,... --budget SECONDS        on the first: prints a line a node and the verdict

`judge` exits 0 when every node is fine and prints `interface NAME` last where there is a common one; else it exits 1
and its last line names each bad node and what is wrong there. Standard library only.
"""

import argparse
import contextlib
import fcntl
import glob
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time

# The runtime's folder is shared and never changed: nothing is compiled into it.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import disk  # noqa: E402

SIOCGIFFLAGS, SIOCGIFADDR = 0x8913, 0x8915
UP_AND_RUNNING = 0x1 | 0x40
ARPHRD_INFINIBAND = 32
# Names of the fast networks of common sites: InfiniBand, Slingshot, RDMA over Ethernet.
FAST_NAMES = ("ib", "hsn", "hsi", "rdma")
CONNECT_SECONDS = 2.0
HEAD_SECONDS = 15.0
POLL_SECONDS = 0.1


def publish(path, document):
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(document, stream)
    os.replace(temporary, path)


def read(path):
    """A published document, or None. Listing the folder first: a network file system may remember it as missing."""
    try:
        os.listdir(os.path.dirname(path))
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def ask_kernel(request, interface):
    """The answer to an interface ioctl (netdevice(7)), or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            return fcntl.ioctl(probe, request, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None


def interfaces():
    """{name: IPv4 address} of what is up, has a cable and an address; the loop-back is none."""
    found = {}
    for _index, name in socket.if_nameindex():
        flags, address = ask_kernel(SIOCGIFFLAGS, name), ask_kernel(SIOCGIFADDR, name)
        if flags is None or address is None or name == "lo":
            continue
        if struct.unpack("H", flags[16:18])[0] & UP_AND_RUNNING == UP_AND_RUNNING:
            found[name] = socket.inet_ntoa(address[20:24])
    return found


def fast(name):
    try:
        with open(f"/sys/class/net/{name}/type") as stream:
            if int(stream.read()) == ARPHRD_INFINIBAND:
                return True
    except (OSError, ValueError):
        pass
    return name.startswith(FAST_NAMES)


def carries(name, source, target):
    """Whether this interface reaches an address. Nobody listens there: a refusal comes from the other end, too."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        # Kernels before 5.7 keep this for root; the source address then has to do.
        with contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
        try:
            probe.bind((source, 0))
            probe.connect((target, 9))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return True


def usable(own, head_file, is_head):
    """The interfaces of this node over which it reaches the first node, the fast ones first."""
    names = sorted(own, key=lambda name: (not fast(name), name))
    if is_head:
        return names
    deadline = time.monotonic() + HEAD_SECONDS
    head = read(head_file)
    while head is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        head = read(head_file)
    return [name for name in names if head and name in head and carries(name, own[name], head[name])]


def versions(python, imports):
    """Versions of Python and of each import as the job's own interpreter sees them, or why it does not."""
    program = (
        "import importlib, json, platform, sys\n"
        "found = {'python': platform.python_version()}\n"
        "for name in sys.argv[1:]:\n"
        "    found[name] = str(getattr(importlib.import_module(name), '__version__', 'ok'))\n"
        "print(json.dumps(found))\n"
    )
    try:
        done = subprocess.run([python, "-c", program, *imports], capture_output=True, check=False)
    except OSError as error:
        leads = os.path.realpath(python)
        where = f" (it leads to {leads}, which every node must have)" if os.path.islink(python) else ""
        return {}, f"{python}: {error.strerror}{where}"
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        return {}, lines[-1]
    return json.loads(done.stdout.decode("utf-8", "replace").strip().splitlines()[-1]), None


def gpus_seen():
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("ROCR_VISIBLE_DEVICES"))
    if listed is not None:
        return len([device for device in listed.split(",") if device.strip()])
    return len(glob.glob("/dev/nvidia[0-9]*"))


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


def examine(arguments, own, lacks=()):
    """(columns of the line, problems) of this node. What it lacks is looked at once it is there."""
    columns, problems = {}, []

    def check(column, fine, problem):
        columns[column] = "ok" if fine else "missing"
        if not fine:
            problems.append(problem)

    run_dir = os.path.dirname(os.path.dirname(arguments.folder))
    found = {}
    if "code" in lacks:
        columns["proj"] = "missing"
    elif arguments.code:
        check("proj", os.path.isdir(arguments.code), f"the code {arguments.code} is not here")
    if "environment" in lacks:
        columns["env"] = "missing"
    else:
        found, trouble = versions(arguments.python, arguments.imports.split())
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
    columns["if"] = ",".join(sorted(own, key=lambda name: (not fast(name), name))) or "none"
    columns["free"] = f"{shutil.disk_usage(run_dir).free >> 30}G" if os.path.isdir(run_dir) else "unknown"
    columns.update(found)
    return columns, problems


def node(arguments):
    number = int(os.environ["SLURM_NODEID"])
    own, head_file = interfaces(), os.path.join(arguments.folder, "head.addresses")
    if number == 0:
        publish(head_file, own)
    lacks, sees = lacking(arguments)
    columns, problems = examine(arguments, own, lacks)
    report = {"columns": columns, "problems": [*problems, *lacks.values()], "lacks": lacks, "sees": sees}
    report["usable"] = usable(own, head_file, number == 0)
    publish(os.path.join(arguments.folder, arguments.nodes.split(",")[number] + ".json"), report)
    disk.sweep(disk.candidates(arguments.local_dir))
    return 0


def amend(folder, name, kind, problem=None, **columns):
    """Settle in a node's report what it lacked: it has the columns now, or there is another problem in its place."""
    path = os.path.join(folder, name + ".json")
    report = read(path)
    old = report["lacks"].pop(kind, None)
    report["problems"] = [one for one in report["problems"] if one != old] + ([problem] if problem else [])
    report["columns"].update(columns)
    publish(path, report)


def judge(arguments):
    names = arguments.nodes.split(",")
    reports = {name: read(os.path.join(arguments.folder, name + ".json")) for name in names}
    bad, common = [], None
    for name in names:
        report = reports[name]
        if report is None:
            print(f"{name} no report within {arguments.budget} s")
            bad.append(f"{name}: no report within {arguments.budget} s")
            continue
        print(" ".join([name] + ["{}={}".format(*column) for column in report["columns"].items()]))
        bad += [f"{name}: {problem}" for problem in report["problems"]]
        # The first node's order stands: fast interfaces first.
        common = report["usable"] if common is None else [one for one in common if one in report["usable"]]
    if bad:
        print("; ".join(bad))
        return 1
    if common:
        print(f"interface {common[0]}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["node", "judge"])
    parser.add_argument("folder")
    parser.add_argument("nodes")
    parser.add_argument("--budget", type=int, default=60)
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
    arguments = parser.parse_args()
    return node(arguments) if arguments.command == "node" else judge(arguments)


if __name__ == "__main__":
    sys.exit(main())
