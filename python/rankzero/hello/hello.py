# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first launch on a cluster: each rank says where it is, and rank 0 writes what it has heard from all."""

import json
import os
import socket
import time

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
host = socket.gethostname()
print(f"hello from rank {rank} of {ranks} on {host}", flush=True)
with open(f"hello-{rank}.part", "w", encoding="utf-8") as stream:
    stream.write(host)
os.rename(f"hello-{rank}.part", f"hello-{rank}")
if rank == 0:
    # A network file system may show the file of another node late. The job's time limit ends a wait for ever.
    while len(names := [name for name in os.listdir() if name in {f"hello-{n}" for n in range(ranks)}]) < ranks:
        time.sleep(0.2)
    hosts = set()
    for name in names:
        with open(name, encoding="utf-8") as stream:
            hosts.add(stream.read())
    with open("hello.json", "w", encoding="utf-8") as stream:
        json.dump({"nodes": len(hosts), "ranks": ranks}, stream)
