# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs in the place of srun and torchrun, which the harness puts first in the PATH of a job."""

from __future__ import annotations

#: srun: one process for each task, a report of their states upon SIGINT, and --wait.
SRUN = """\
import os, signal, subprocess, sys, threading, time
options, words = {}, sys.argv[1:]
while words[0].startswith("--"):
    name, _, value = words.pop(0)[2:].partition("=")
    options[name] = value
with open(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "step"), "w") as stream:
    stream.write(str(os.getpid()))
per_node, tasks, asked = int(options["ntasks-per-node"]), [], []
nodes = os.environ.get("RANKZERO_NODELIST", "").split(",")
# Of a node that is lost srun hears nothing, and it ends a step that never began there.
lost = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "lost")
lost = open(lost).read().split() if os.path.exists(lost) else []
silent = ["sleep", "1000"] if "RANKZERO_HOLDS=1" in words else ["false"]
# A step has its number, and standard input reaches all its tasks.
step = str(os.getpid())
def pump():
    data = b"-"
    while data:
        data = os.read(0, 4096)
        for task in tasks:
            try:
                os.write(task.stdin.fileno(), data) if data else task.stdin.close()
            except OSError:
                pass
def end(*_):
    asked.append(True)
    for task in tasks:
        task.send_signal(signal.SIGTERM)
signal.signal(signal.SIGTERM, end)
left = []
def report(*_):
    if _:
        print("srun: interrupt (one more within 1 sec to abort)", file=sys.stderr, flush=True)
    for rank in range(len(tasks)):
        state = "running" if rank in [number for number, _ in left] else "exited"
        print(f"srun: StepId=1.0 task {rank}: {state}", file=sys.stderr, flush=True)
signal.signal(signal.SIGINT, report)
with open(options["output"], "ab") as log:
    log.write(b"srun\\n")
    for rank in range(int(options["ntasks"])):
        place = {"SLURM_PROCID": rank, "SLURM_LOCALID": rank % per_node, "SLURM_NODEID": rank // per_node,
                 "SLURM_STEP_ID": step}
        environment = {**os.environ, **{name: str(number) for name, number in place.items()}}
        if 1 < len(nodes) == len(set(nodes)):
            environment["SLURMD_NODENAME"] = nodes[rank // per_node]
        environment["SLURM_STEP_TASKS_PER_NODE"] = f"{per_node}(x{options['nodes']})"
        gone = environment.get("SLURMD_NODENAME") in lost
        begun = silent if gone else words
        tasks.append(subprocess.Popen(begun, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log))
    threading.Thread(target=pump, daemon=True).start()
    if asked:  # a task may have been started, and have said so, before it was in the list
        end()
    codes, first_end, patience = [], None, int(options.get("wait", 0))
    left.extend(enumerate(tasks))
    while left:
        time.sleep(0.01)
        for rank, task in [one for one in left if one[1].poll() is not None]:
            left.remove((rank, task))
            codes.append(task.returncode)
            first_end = first_end or time.monotonic()
        if patience and left and first_end and time.monotonic() - first_end > patience:
            print(f"srun: First task exited {patience}s ago", file=sys.stderr, flush=True)
            report()
            patience = 0
            for rank, task in left:
                task.kill()
                print(f"srun: error: node01: task {rank}: Killed", file=sys.stderr, flush=True)
sys.exit(max(code if code >= 0 else 128 - code for code in codes))
"""

#: torch.distributed.run with static rendezvous, as far as node.sh uses it. It reads its options as the real one does:
#: with argparse, which takes the beginning of a name for the name, also behind the program where -- is not before it.
TORCHRUN = """\
import argparse, os, subprocess, sys
parser = argparse.ArgumentParser("run.py")
for name in ("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port", "signals-to-handle", "log-dir"):
    parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", dest=name)
parser.add_argument("--no-python", action="store_true", required=True)
parser.add_argument("program")
parser.add_argument("arguments", nargs=argparse.REMAINDER)
options = vars(parser.parse_args())
words = [options["program"], *options["arguments"]]
local, node = int(options["nproc-per-node"]), int(options["node-rank"])
ranks = []
for number in range(local):
    names = {"RANK": node * local + number, "LOCAL_RANK": number, "GROUP_RANK": node, "LOCAL_WORLD_SIZE": local,
             "WORLD_SIZE": local * int(options["nnodes"]), "MASTER_ADDR": options["master-addr"],
             "MASTER_PORT": options["master-port"]}
    ranks.append(subprocess.Popen(words, env={**os.environ, **{name: str(value) for name, value in names.items()}}))
sys.exit(max(rank.wait() for rank in ranks))
"""

#: A stand-in as a program: its own commands are the machine's, and $rankzero_step is the newest step.
STAND_IN = """\
#!/bin/bash
folder={folder}:
export PATH=${{PATH//"$folder"/}}
unset folder
{{ rankzero_step=$(< {tools}/step); }} 2> /dev/null
stand_in() {{ {body}; }}
stand_in "$@"
"""
