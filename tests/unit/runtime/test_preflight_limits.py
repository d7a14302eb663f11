# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of the first node against the world size: trees that look like /proc, and real storms of connections."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.unit.runtime.harness import runtime_parts
from tests.unit.runtime.test_preflight_judge import judged, report

#: A node as a site that trains on thousands of GPUs sets it up.
LARGE = {
    "proc/sys/net/core/somaxconn": "65535",
    "proc/sys/net/ipv4/tcp_max_syn_backlog": "65536",
    "proc/sys/net/ipv4/tcp_syncookies": "0",
    "proc/sys/net/ipv4/ip_local_port_range": "24000\t65535",
    "proc/sys/net/ipv4/neigh/default/gc_thresh3": "16384",
    "proc/sys/kernel/pid_max": "4194304",
    "proc/sys/kernel/threads-max": "4000000",
    "proc/loadavg": "0.10 0.20 0.30 1/900 4242",
    "proc/self/cgroup": "0::/system.slice/job_7/step_0",
    "sys/fs/cgroup/system.slice/job_7/step_0/pids.max": "max",
    "sys/fs/cgroup/system.slice/pids.max": "100000",
    "sys/fs/cgroup/system.slice/pids.current": "300",
    "proc/self/limits": "Limit  Soft Limit  Hard Limit  Units\n"
    "Max processes             1030000              1030000              processes\n"
    "Max open files            131072               524288               files\n",
}
SMALL_FILES = "Max open files            1024                 {hard}                 files\n"


@pytest.fixture(scope="module")
def limits() -> Iterator[ModuleType]:
    with runtime_parts("preflight.limits") as part:
        yield part


def tree(root: Path, **changed: str) -> str:
    """A root with these files; names have `__` for `/`."""
    files = {**LARGE, **{name.replace("__", "/"): text for name, text in changed.items()}}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return str(root)


def test_a_large_job_on_a_node_that_is_set_up_for_it_has_no_finding(limits: ModuleType, tmp_path: Path) -> None:
    assert limits.findings(tree(tmp_path), limits.Load(2000, 8, agents=2000, torch=True)) == []
    # A node that tells nothing is not judged.
    assert limits.findings(str(tmp_path / "empty"), limits.Load(2000, 8, torch=True)) == []


@pytest.mark.parametrize(
    ("changed", "level", "name", "value", "need", "line"),
    [
        ({"proc__sys__net__core__somaxconn": "4096"}, "warning", "net.core.somaxconn", 4096, 16000, "= 16384)"),
        (
            {"proc__sys__net__ipv4__tcp_max_syn_backlog": "2048"},
            "warning",
            "net.ipv4.tcp_max_syn_backlog",
            2048,
            21334,
            "in /etc/sysctl.d: net.ipv4.tcp_max_syn_backlog = 32768)",
        ),
        (
            {"proc__self__limits": SMALL_FILES.format(hard=4096)},
            "error",
            "nofile (hard limit)",
            4096,
            16256,
            "(in slurmd's unit: LimitNOFILE=16384)",
        ),
        (
            {"proc__self__limits": SMALL_FILES.format(hard=524288)},
            "warning",
            "nofile (soft limit)",
            1024,
            16256,
            "(in the job: setup: {commands: [ulimit -Sn 16256]}; in slurm.conf: PropagateResourceLimitsExcept=NOFILE)",
        ),
        (
            {"proc__sys__net__ipv4__ip_local_port_range": "32768\t45000"},
            "warning",
            "net.ipv4.ip_local_port_range",
            12233,
            16512,
            "= 24000 65535)",
        ),
        (
            {"proc__sys__net__ipv4__neigh__default__gc_thresh3": "1024"},
            "warning",
            "net.ipv4.neigh.default.gc_thresh3",
            1024,
            2064,
            "= 4096)",
        ),
        (
            {"sys__fs__cgroup__system.slice__job_7__step_0__pids.max": "200"},
            "warning",
            "pids left in sys/fs/cgroup/system.slice/job_7/step_0",
            200,
            512,
            "(in slurmd's unit: TasksMax=infinity)",
        ),
        (
            {"sys__fs__cgroup__system.slice__pids.max": "310"},
            "error",
            "pids left in sys/fs/cgroup/system.slice",
            10,
            512,
            "TasksMax=infinity)",
        ),
        ({"proc__sys__kernel__pid_max": "1024"}, "warning", "kernel.pid_max less what runs", 124, 512, "= 2048)"),
    ],
)
def test_a_limit_that_is_too_low_is_named_with_value_need_and_the_administrators_line(
    limits: ModuleType, tmp_path: Path, changed: dict[str, str], level: str, name: str, value: int, need: int, line: str
) -> None:
    (found,) = limits.findings(tree(tmp_path, **changed), limits.Load(2000, 8, torch=True))
    assert (found["level"], found["name"], found["value"], found["need"]) == (level, name, value, need)
    assert found["words"].startswith(f"{name} is {value}, {need} needed: ") and found["words"].endswith(line)
    # What is enough for a small job is no finding there.
    if "pid" not in name:
        assert limits.findings(str(tmp_path), limits.Load(8, 8, torch=True)) == []


def test_a_failure_is_certain_only_where_torch_is_known_to_meet_and_no_program_may_raise_the_limit(
    limits: ModuleType, tmp_path: Path
) -> None:
    root = tree(tmp_path, proc__self__limits=SMALL_FILES.format(hard=1024))
    assert [each["level"] for each in limits.findings(root, limits.Load(200, 8, torch=True))] == ["error"]
    assert [each["level"] for each in limits.findings(root, limits.Load(200, 8))] == ["warning"]
    # Enough for the connections alone, or root.
    assert [each["level"] for each in limits.findings(root, limits.Load(125, 8, torch=True))] == ["warning"]
    assert [each["name"] for each in limits.findings(root, limits.Load(200, 8, torch=True, privileged=True))] == [
        "nofile (soft limit)"
    ]


def test_cgroups_of_both_versions_are_read(limits: ModuleType, tmp_path: Path) -> None:
    group = {
        "sys__fs__cgroup__pids__slurm__job_9__pids.max": "100",
        "proc__self__cgroup": "8:cpu:/x\n7:pids:/slurm/job_9",
    }
    (found,) = limits.findings(tree(tmp_path, **group), limits.Load(2, 8))
    assert (found["level"], found["name"]) == ("warning", "pids left in sys/fs/cgroup/pids/slurm/job_9")


def test_with_syn_cookies_the_kernel_goes_by_somaxconn_alone(limits: ModuleType, tmp_path: Path) -> None:
    low = {"proc__sys__net__ipv4__tcp_max_syn_backlog": "128", "proc__sys__net__ipv4__tcp_syncookies": "1"}
    assert limits.findings(tree(tmp_path, **low), limits.Load(2000, 8)) == []


WARNING = [{"level": "warning", "words": "net.core.somaxconn is 128, 256 needed: x (y)"}]
ERROR = [{"level": "error", "words": "nofile (hard limit) is 128, 512 needed: x (y)"}]


def test_a_warning_is_a_line_of_the_table_and_an_error_makes_the_next_node_the_first(tmp_path: Path) -> None:
    heads = ["n1", "n2"]
    report(tmp_path, "n1", heads=heads, limits=WARNING)
    report(tmp_path, "n2", heads=heads, limits=ERROR)
    report(tmp_path, "n3", heads=heads)
    names = "n1,n2,n3"
    table, verdict = judged(tmp_path, names, 2, policy="replace")
    # What n2 could not do as the first node it need not do as the second.
    assert "limit n1: net.core.somaxconn is 128, 256 needed: x (y)" in table
    assert (verdict["action"], verdict["chosen"]) == ("run", "n1 n2")
    report(tmp_path, "n1", heads=heads, limits=ERROR)
    report(tmp_path, "n2", heads=heads, limits=WARNING)
    table, verdict = judged(tmp_path, names, 2, policy="replace")
    assert (verdict["action"], verdict["chosen"], verdict["blamed"]) == ("run", "n2 n3", "")
    assert "unfit n1: as the first node: nofile (hard limit) is 128, 512 needed: x (y)" in table
    report(tmp_path, "n2", heads=heads, limits=ERROR)
    for policy in ("stop", "requeue", "replace"):
        _table, verdict = judged(tmp_path, names, 2, policy=policy)
        # The site's doing: no node is left out of the next launches for it.
        assert (verdict["action"], verdict["blamed"]) == ("stop", "")
        assert "n1: as the first node: nofile (hard limit) is 128" in verdict["message"]
    assert "n2" in json.loads((tmp_path / "unfit.json").read_text())


def storm(address: tuple[str, int], count: int) -> list[socket.socket]:
    """So many connections at once to somebody who takes none; those that the kernel has set up."""
    clients = [socket.socket() for _number in range(count)]
    for client in clients:
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            client.connect(address)
    poll = select.poll()
    for client in clients:
        poll.register(client, select.POLLOUT)
    there = {number for number, _event in poll.poll(1)}
    return [client for client in clients if client.fileno() in there]


@pytest.mark.parametrize(("count", "all_at_once"), [(128, True), (200, False)])
def test_a_queue_of_the_wanted_length_takes_the_whole_storm(
    limits: ModuleType, tmp_path: Path, count: int, all_at_once: bool
) -> None:
    """A plain listening socket stands for the store's; its backlog for somaxconn, which cuts it off."""
    root = tree(tmp_path, proc__sys__net__core__somaxconn="128")
    assert (limits.of_queues(root, limits.Load(count, 1)) == []) == all_at_once
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server, contextlib.ExitStack() as opened:
        clients = storm(server.getsockname(), count)
        for client in clients:
            opened.callback(client.close)
        assert (len(clients) == count) == all_at_once


STORE = """\
import errno, json, os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), int(sys.argv[2])))
sys.path.insert(0, sys.argv[1])
from preflight import limits
server, held = socket.create_server(("127.0.0.1", 0), backlog=512), []
print(server.getsockname()[1], flush=True)
sys.stdin.readline()
try:
    for _ in range(300):
        held.append(server.accept()[0])
except OSError as error:
    held = [errno.errorcode[error.errno]]
found = [each["level"] for each in limits.of_files("/", limits.Load(300, 1, torch=True))]
os.write(1, json.dumps([held[0] if isinstance(held[0], str) else len(held), found]).encode())
"""


@pytest.mark.parametrize(("hard", "answer"), [(200, ["EMFILE", ["error"]]), (1000, [300, []])])
def test_a_store_with_too_few_files_is_told_before_the_storm_that_it_cannot_hold(
    hard: int, answer: list[object]
) -> None:
    command = [sys.executable, "-IB", "-c", STORE, RUNTIME, str(hard)]
    store = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
    assert store.stdin and store.stdout
    port = int(store.stdout.readline())
    clients = [socket.create_connection(("127.0.0.1", port)) for _number in range(300)]
    output, _errors = store.communicate("go\n")
    for client in clients:
        client.close()
    assert json.loads(output) == answer
