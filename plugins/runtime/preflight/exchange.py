# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bandwidth between neighbouring nodes, before the ranks start: opt-in, and bounded by the budget.

The nodes stand in a ring, and each measures with its right and its left neighbour, never with both at once. With torch
a pair runs all-reduces (NCCL where the node has GPUs, else Gloo); without it both send to each other over TCP, which
measures the link and not the library.
"""

from __future__ import annotations

import contextlib
import datetime
import hmac
import os
import select
import socket
import statistics
import sys
import time

from core.files import POLL_SECONDS, await_document, load, publish
from preflight.binding import unbound
from preflight.judge import rounds
from preflight.network import bind_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any, NoReturn

CHUNK = 1 << 18
MEGABYTE = 1_000_000
# What counts is the middle one of so many parts: a busy node is held up in some of them, and what waits in buffers
# makes others faster than the link is.
PARTS = 8
# Of the budget, for starting and ending.
MARGIN_SECONDS = 3
PORTS_IN_A_FOLDER = 64
# What a neighbour says to prove itself, and how many may be about to say it: beyond that the oldest is hung up on.
WORD_BYTES, CALLERS = 16, 128


def transfer(out: socket.socket, into: socket.socket, count: int, seconds: float) -> tuple[int, float, list[float]]:
    """(bytes that came in, seconds it took, bytes a second of each of its parts) while as many went out; both ways may
    be one connection. Ends at the time limit, so that the slowest of links has a number, too.
    """
    block, taken = memoryview(bytearray(CHUNK)), memoryview(bytearray(CHUNK))
    sent = received = counted = 0
    speeds = []
    out.setblocking(False)
    into.setblocking(False)
    start = last = time.monotonic()
    while (sent < count or received < count) and time.monotonic() - start < seconds:
        sends, takes = [out] if sent < count else [], [into] if received < count else []
        readable, writable, _broken = select.select(takes, sends, [], POLL_SECONDS)
        try:
            if writable:
                sent += out.send(block[: min(CHUNK, count - sent)])
            if readable:
                got = into.recv_into(taken, min(CHUNK, count - received))
                if not got:
                    break
                received += got
                if received - counted >= count / PARTS or received >= count:
                    now = time.monotonic()
                    speeds.append((received - counted) / max(now - last, 1e-6))
                    counted, last = received, now
        except BlockingIOError:
            continue
        except OSError:
            break
    return received, max(time.monotonic() - start, 1e-6), speeds


def send_and_receive(connection: socket.socket, count: int, seconds: float) -> float:
    """Bytes a second that came in, in the middle one of the parts; at the time limit that of the whole."""
    received, took, speeds = transfer(connection, connection, count, seconds)
    return statistics.median(speeds) if received >= count else received / took


def port_file(folder: str, plan: dict[str, Any], place: int) -> str:
    """Where the node at this place of the ring says its port: in a folder with few others, which its neighbours list
    until it is there.
    """
    group = os.path.join(folder, "ports", str(place // PORTS_IN_A_FOLDER))
    os.makedirs(group, exist_ok=True)
    return os.path.join(group, plan["nodes"][place] + ".port")


class Neighbours:
    """Connections to the other nodes of the ring: the node that stands further on calls, and says who it is.

    Anybody who reaches the port can connect. A neighbour proves itself by a word that is in the file with the port,
    which only this user can read. Who does not say it is hung up on, and holds nobody up.
    """

    def __init__(self, plan: dict[str, Any], place: int, folder: str, deadline: float) -> None:
        self.plan, self.place, self.folder, self.deadline = plan, place, folder, deadline
        self.early: dict[int, socket.socket] = {}
        self.callers: dict[socket.socket, bytes] = {}
        self.own = plan["addresses"][plan["nodes"][place]]
        self.word = os.urandom(WORD_BYTES)
        self.listener = socket.create_server((self.own, 0), backlog=CALLERS)
        self.listener.setblocking(False)
        port = self.listener.getsockname()[1]
        publish(port_file(folder, plan, place), [port, self.word.hex()], mode=0o600)

    def left(self) -> float:
        return max(0.1, self.deadline - time.monotonic())

    def answer(self) -> None:
        """Wait for callers and their words; keep those who are neighbours. Raises OSError at the deadline."""
        ready = select.select([self.listener, *self.callers], [], [], self.left())[0]
        if not ready:
            raise TimeoutError("it has not called in time")
        for caller in ready:
            if caller is not self.listener:
                self.hear(caller)
                continue
            with contextlib.suppress(OSError):
                connection, _address = self.listener.accept()
                connection.setblocking(False)
                self.callers[connection] = b""
        while len(self.callers) > CALLERS:
            oldest = next(iter(self.callers))
            del self.callers[oldest]
            oldest.close()

    def hear(self, caller: socket.socket) -> None:
        """Read what a caller says of itself."""
        try:
            data = caller.recv(4 + WORD_BYTES - len(self.callers[caller]))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        words = self.callers[caller] = self.callers[caller] + data
        if data and len(words) < 4 + WORD_BYTES:
            return
        del self.callers[caller]
        if hmac.compare_digest(words[4:], self.word):
            caller.settimeout(self.left())
            self.early[int.from_bytes(words[:4], "big")] = caller
        else:
            caller.close()

    def meet(self, other: int) -> socket.socket:
        """The connection to another place. Raises OSError where it does not come about in time."""
        if self.place < other:
            while other not in self.early:
                self.answer()
            connection = self.early.pop(other)
            connection.sendall(b"!")
            return connection
        while True:
            try:
                return self.call(other)
            except ConnectionResetError:
                # Among many strangers it may have hung up on this one, too.
                if time.monotonic() + POLL_SECONDS > self.deadline:
                    raise
                time.sleep(POLL_SECONDS)

    def call(self, other: int) -> socket.socket:
        """Connect to another place. Raises ConnectionResetError where it hangs up, OSError where it is not there."""
        name = self.plan["nodes"][other]
        port, word = await_document(port_file(self.folder, self.plan, other), self.deadline) or (0, "")
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.settimeout(self.left())
        bind_to(connection, self.plan["interface"], self.own)
        connection.connect((self.plan["addresses"][name], port))
        connection.sendall(self.place.to_bytes(4, "big") + bytes.fromhex(word))
        connection.settimeout(self.left())
        # It may still be busy with its other neighbour.
        if not connection.recv(1):
            connection.close()
            raise ConnectionResetError(f"{name} hung up")
        return connection

    def measure(self, other: int, count: int, seconds: float) -> float:
        with self.meet(other) as connection:
            return send_and_receive(connection, count, seconds)


class Torch:
    """The same by all-reduces of the job's own torch, in a group of two."""

    def __init__(self, plan: dict[str, Any], place: int, folder: str, deadline: float) -> None:
        import torch  # type: ignore[import-not-found]
        from torch import distributed

        self.torch, self.distributed = torch, distributed
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = plan["interface"]
        nodes = plan["nodes"]
        path = port_file(folder, plan, 0)
        if place == 0:
            with socket.create_server((plan["addresses"][nodes[0]], 0)) as free:
                port = free.getsockname()[1]
            publish(path, port)
        self.device = "cuda:0" if torch.cuda.is_available() and distributed.is_nccl_available() else "cpu"
        distributed.init_process_group(
            "nccl" if self.device != "cpu" else "gloo",
            init_method=f"tcp://{plan['addresses'][nodes[0]]}:{await_document(path, deadline)}",
            rank=place,
            world_size=len(nodes),
            timeout=datetime.timedelta(seconds=max(1.0, deadline - time.monotonic())),
        )
        limit = datetime.timedelta(seconds=plan["seconds"])
        pairs = [pair for now in rounds(len(nodes)) for pair in now]
        self.groups = {frozenset(pair): distributed.new_group(sorted(pair), timeout=limit) for pair in pairs}
        self.place = place

    def measure(self, other: int, count: int, seconds: float) -> float:
        """The time limit is the group's own."""
        group = self.groups[frozenset((self.place, other))]
        numbers = self.torch.zeros(count // 4 // PARTS, device=self.device)
        # The first one also connects, and waits for the neighbour.
        self.distributed.all_reduce(numbers[:1], group=group)
        self.settle()
        times = []
        for _part in range(PARTS):
            start = time.monotonic()
            self.distributed.all_reduce(numbers, group=group)
            self.settle()
            times.append(time.monotonic() - start)
        return count / PARTS / max(statistics.median(times), 1e-6)

    def settle(self) -> None:
        if self.device != "cpu":
            self.torch.cuda.synchronize()


def exchange(arguments: argparse.Namespace) -> NoReturn:
    """Measure with each neighbour; what is known is published after each, MB/s by the neighbour's name."""
    unbound()
    plan = load(os.path.join(arguments.folder, "exchange.json"))
    nodes, deadline = plan["nodes"], time.monotonic() + arguments.budget - MARGIN_SECONDS
    place = int(os.environ["SLURM_NODEID"])
    path, speeds = os.path.join(arguments.folder, nodes[place] + ".exchange.json"), {}
    ring = (Torch if plan["torch"] else Neighbours)(plan, place, arguments.folder, deadline)
    for pair in (pair for now in rounds(len(nodes)) for pair in now if place in pair):
        other = pair[0] if pair[1] == place else pair[1]
        try:
            speed = ring.measure(other, arguments.megabytes * MEGABYTE, plan["seconds"])
        except (OSError, RuntimeError) as error:
            print(f"with {nodes[other]}: {error}", flush=True)
            speed = 0.0
        speeds[nodes[other]] = speed / MEGABYTE
        publish(path, {"pairs": speeds})
    # What torch keeps running must not keep the step.
    sys.stdout.flush()
    os._exit(0)
