# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ring all-reduce moves, over TCP and without its sums: measures the links where no library can do so."""

import contextlib
import statistics
import struct
import time

from fabric_schedule import bus

from preflight.exchange import Neighbours, transfer

TAIL_SECONDS = 10
# A size is repeated for about so long, and so often at most.
REPEAT_SECONDS = 0.25
MOST = 20


class Ring:
    """Connections to the left and the right of some nodes in a ring; of two nodes both are the same one."""

    def __init__(self, names, place, addresses, interface, folder, seconds):
        plan = {"nodes": names, "addresses": addresses, "interface": interface}
        self.count, self.place = len(names), place
        self.ends = time.monotonic() + seconds
        self.neighbours = Neighbours(plan, place, folder, self.ends)
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(self.neighbours.listener)

    def __enter__(self):
        left, right = (self.place - 1) % self.count, (self.place + 1) % self.count
        try:
            # In this order everywhere, so that nobody waits in a circle.
            met = {other: self.stack.enter_context(self.neighbours.meet(other)) for other in sorted({left, right})}
        except OSError:
            self.stack.close()
            raise
        self.into, self.out = met[left], met[right]
        return self

    def __exit__(self, *_error):
        self.stack.close()

    def left(self):
        return max(0.1, self.ends - time.monotonic())

    def largest(self, number):
        """The largest of all nodes' numbers: it goes round until everybody has it."""
        for _step in range(self.count - 1):
            self.out.settimeout(self.left())
            self.into.settimeout(self.left())
            self.out.sendall(struct.pack("!d", number))
            number = max(number, struct.unpack("!d", received(self.into, 8))[0])
        return number


def received(connection, count):
    """Exactly so many bytes."""
    found = b""
    while len(found) < count:
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionResetError("a neighbour hung up")
        found += more
    return found


def measure(names, place, addresses, interface, folder, sizes, seconds):
    """Rows of {size, seconds, bus, cut}, of what came in here. What the time limit cuts is the last one."""
    rows = []
    with Ring(names, place, addresses, interface, folder, seconds + TAIL_SECONDS) as ring:
        ends = time.monotonic() + seconds
        for size in sizes:
            moved = max(1, 2 * (len(names) - 1) * size // len(names))
            times, repeats = [], 1
            while len(times) < repeats:
                came, took, _speeds = transfer(ring.out, ring.into, moved, max(0.1, ends - time.monotonic()))
                if came < moved:
                    rows.append({"size": size, "seconds": took, "bus": came / took, "cut": True})
                    return rows
                times.append(took)
                if len(times) == 1:
                    # The first one is for warming up, unless it took long.
                    repeats = 1 + min(MOST, int(REPEAT_SECONDS / max(ring.largest(took), 1e-6)))
            middle = statistics.median(times[1:] or times)
            rows.append({"size": size, "seconds": middle, "bus": bus(size, middle, len(names)), "cut": False})
    return rows
