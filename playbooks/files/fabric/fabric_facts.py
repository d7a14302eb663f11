# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has for its network, and by what the sweep therefore measures."""

import glob
import json
import os
import shutil
import subprocess
import sys

from preflight.network import interfaces, rules

PERF = "all_reduce_perf"
TORCH = (
    "import json, torch; from torch import distributed as d; gloo = d.is_available() and d.is_gloo_available(); "
    "cuda = torch.cuda.is_available() and d.is_nccl_available(); "
    "print(json.dumps({'version': torch.__version__, 'nccl': bool(cuda), 'gloo': bool(gloo)}))"
)


def line_of(path):
    """The first line of a file of the kernel; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.readline().strip()
    except OSError:
        return ""


def rdma(root="/sys/class/infiniband"):
    """Adapters for RDMA with their first port: link layer (InfiniBand or Ethernet), rate and state."""
    found = []
    for place in sorted(glob.glob(f"{root}/*")):
        port = next(iter(sorted(glob.glob(f"{place}/ports/*"))), "")
        state = line_of(f"{port}/state").partition(":")[2].strip()
        found.append(
            {
                "name": os.path.basename(place),
                "layer": line_of(f"{port}/link_layer"),
                "rate": line_of(f"{port}/rate"),
                "state": state,
                "driver": os.path.basename(os.path.realpath(f"{place}/device/driver")),
            }
        )
    return found


def network():
    """{interface: address, Mbit/s (0: not known), MTU, whether it is fast (rules()), whether it is InfiniBand}."""
    found, own = {}, interfaces()
    fast = rules(own)
    for name, address in own.items():
        rate, mtu = (line_of(f"/sys/class/net/{name}/{what}") for what in ("speed", "mtu"))
        found[name] = {
            "address": address,
            "mbit": int(rate) if rate.isdecimal() else 0,
            "mtu": int(mtu) if mtu.isdecimal() else 0,
            "fast": name in fast,
            "infiniband": line_of(f"/sys/class/net/{name}/type") == "32",
        }
    return found


def gpus():
    """The GPUs that this job has here, and what the drivers say that they are."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("ROCR_VISIBLE_DEVICES", ""))
    models = set()
    for path in glob.glob("/proc/driver/nvidia/gpus/*/information"):
        models.add(line_of(path).partition(":")[2].strip())
    amd = bool(glob.glob("/sys/class/kfd/kfd/topology/nodes/*"))
    return {"count": len([one for one in listed.split(",") if one.strip()]), "models": sorted(models), "amd": amd}


def torch_here(seconds):
    """{version, nccl, gloo} of this Python's torch, or {error}. In a process of its own: it may crash or hang."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", TORCH], capture_output=True, check=False, timeout=seconds, text=True
        )
        return json.loads(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else {"error": why(done.stderr)}
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}


def why(text):
    """The last line that a program said."""
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"


def facts(plan, seconds):
    """Everything that one node has to say."""
    given = os.path.expanduser(plan["all_reduce_perf"])
    perf = given if given and os.access(given, os.X_OK) else "" if given else shutil.which(PERF) or ""
    wanted = plan["method"] in ("auto", "torch")
    return {
        "interfaces": network(),
        "rdma": rdma(),
        "cxi": bool(glob.glob("/sys/class/cxi/*")),
        "gpus": gpus(),
        "all_reduce_perf": perf,
        "srun": bool(shutil.which("srun")),
        "torch": torch_here(seconds) if wanted else {"error": "not asked for"},
    }


def some(names):
    """A few names, for a sentence."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def choose(method, told):
    """(nccl_tests, torch or tcp; its backend; why) for what the nodes told. Raises ValueError with what is missing."""
    no_gpu = [name for name, one in told.items() if not one["gpus"]["count"]]
    no_perf = [name for name, one in told.items() if not one["all_reduce_perf"]]
    no_srun = [name for name, one in told.items() if not one["srun"]]
    no_torch = [name for name, one in told.items() if "error" in one["torch"]]
    no_nccl = [name for name, one in told.items() if not one["torch"].get("nccl")]
    no_gloo = [name for name, one in told.items() if not one["torch"].get("gloo")]
    lacks = {
        "nccl_tests": (no_gpu and f"the job has no GPU on {some(no_gpu)}")
        or (no_perf and f"no {PERF} on {some(no_perf)}")
        or (no_srun and f"no srun on {some(no_srun)}, which starts it")
        or "",
        "torch": (no_torch and f"no torch on {some(no_torch)} ({told[no_torch[0]]['torch']['error']})")
        or (no_nccl and no_gloo and f"torch has neither NCCL nor Gloo on {some(no_gloo)}")
        or "",
        "tcp": "",
    }
    if method != "auto":
        if lacks[method]:
            raise ValueError(f"method: {method} is not possible here: {lacks[method]}")
        reason = "asked for"
    else:
        method = next(name for name in lacks if not lacks[name])
        before = list(lacks)[: list(lacks).index(method)]
        reason = "; ".join(f"{name.replace('_', '-')}: {lacks[name]}" for name in before) or f"{PERF} is on every node"
    backend = {"nccl_tests": "nccl", "torch": "gloo" if no_nccl else "nccl", "tcp": "tcp"}[method]
    return method, backend, reason
