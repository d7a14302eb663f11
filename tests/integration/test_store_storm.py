# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""4,096 clients connect to a real TCPStore of torch at once, and the preflight's check of the first node's limits says
before whether they all can.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.repository import CACHE, run

# The environment with torch takes a gigabyte.
pytestmark = pytest.mark.more

NODES, RANKS = 512, 8
CLIENTS = NODES * RANKS
OWN_NETWORK = os.geteuid() == 0 and shutil.which("ip") is not None
#: The store in one process with the limits of a first node, the clients in others. Each client waits until all have
#: started, connects, counts itself in the store, and stays connected until all have ended.
PROGRAM = r"""
import json, os, resource, socket, sys, threading
from datetime import timedelta
import torch.distributed as dist

runtime, files, backlog, nodes, ranks, seconds = sys.argv[1], *map(int, sys.argv[2:])
clients, processes = nodes * ranks, 8
sys.path.insert(0, runtime)
from preflight import limits

if backlog:
    # In a network of its own.
    with open("/proc/sys/net/core/somaxconn", "w") as stream:
        stream.write(str(backlog))
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
answers, answer = os.pipe()
go, gone = os.pipe()

def serve():
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    found = limits.findings("/", limits.Load(nodes, ranks, torch=True))
    store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    os.write(answer, (json.dumps({"findings": found}) + "\n").encode())
    os.close(gone)
    os.read(go, 1)

def connect(barrier, connected):
    barrier.wait()
    try:
        store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=seconds))
        store.add("clients", 1)
        connected.append(store)
    except Exception:
        pass

def storm():
    threading.stack_size(256 << 10)
    count, connected = clients // processes, []
    barrier = threading.Barrier(count)
    threads = [threading.Thread(target=connect, args=(barrier, connected)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(answer, (json.dumps({"connected": len(connected)}) + "\n").encode())
    os.close(gone)
    os.read(go, 1)

def started(work):
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    return child

children = [started(serve)]
lines = os.fdopen(answers)
told = json.loads(lines.readline())
children += [started(storm) for _ in range(processes)]
told["connected"] = sum(json.loads(lines.readline())["connected"] for _ in range(processes))
os.close(gone)
for child in children:
    os.waitpid(child, 0)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def python() -> str:
    """A Python with torch for CPUs; RANKZERO_TEST_TORCH names an environment that exists."""
    place = Path(os.environ.get("RANKZERO_TEST_TORCH") or CACHE / "torch")
    program = place / "bin" / "python"
    if not program.exists():
        run("uv", "venv", "--python", "3.11", place)
        run("uv", "pip", "install", "--python", program, "--torch-backend", "cpu", "torch", "numpy")
    return str(program)


def stormed(python: str, *, files: int, backlog: int = 0, seconds: int = 120) -> dict[str, Any]:
    """What the check said of the node, and how many clients connected. `backlog`: somaxconn; 0 leaves it as it is."""
    # In a network of its own, torch looks up the name of each client's address in vain at once.
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"] if OWN_NETWORK else []
    words = [python, "-c", PROGRAM, RUNTIME, str(files), str(backlog), str(NODES), str(RANKS), str(seconds)]
    done = subprocess.run([*alone, *words], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def named(result: dict[str, Any]) -> dict[str, str]:
    """{limit: level} of the findings that concern the connections."""
    return {each["name"]: each["level"] for each in result["findings"] if not each["name"].startswith("kernel")}


def test_enough_files_take_every_client(python: str) -> None:
    result = stormed(python, files=CLIENTS + 256)
    assert not any(name.startswith("nofile") for name in named(result)), result["findings"]
    assert result["connected"] == CLIENTS


def test_too_few_files_are_an_error_before_and_turn_clients_away(python: str) -> None:
    result = stormed(python, files=CLIENTS // 2, seconds=10)
    assert named(result)["nofile (hard limit)"] == "error"
    (words,) = [each["words"] for each in result["findings"] if each["name"].startswith("nofile")]
    assert f"is {CLIENTS // 2}, {CLIENTS + 256} needed" in words and "LimitNOFILE=8192" in words
    assert 0 < result["connected"] < CLIENTS // 2


@pytest.mark.skipif(not OWN_NETWORK, reason="needs a network of its own: root, and ip")
def test_a_short_queue_is_a_warning_and_every_client_connects_in_the_end(python: str) -> None:
    result = stormed(python, files=CLIENTS + 256, backlog=64)
    assert named(result)["net.core.somaxconn"] == "warning"
    assert result["connected"] == CLIENTS
