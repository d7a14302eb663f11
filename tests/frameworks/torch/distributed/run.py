# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for torch.distributed.run as far as the job runtime uses it: static, c10d and standalone.

c10d hands out the places of nodes by who comes; here it is Slurm's number of the node.
"""

import argparse
import os
import signal
import subprocess
import sys

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    of_all = ("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port")
    for name in (*of_all, "rdzv-backend", "rdzv-endpoint", "rdzv-id"):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}")
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("--no-python", action="store_true")
    # As the real one: the words behind the program are its own, and `--` may stand before it.
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if given.rdzv_backend == "c10d":
        given.master_addr, _, given.master_port = given.rdzv_endpoint.partition(":")
    elif given.standalone:
        given.master_addr, given.master_port = "localhost", "29400"
    node = int(given.node_rank or (0 if given.standalone else os.environ["SLURM_NODEID"]))
    local = int(given.nproc_per_node)
    ranks = []
    for number in range(local):
        places = {
            "RANK": node * local + number,
            "LOCAL_RANK": number,
            "GROUP_RANK": node,
            "LOCAL_WORLD_SIZE": local,
            "WORLD_SIZE": local * int(given.nnodes or 1),
            "MASTER_ADDR": given.master_addr,
            "MASTER_PORT": given.master_port,
        }
        environment = {**os.environ, **{name: str(value) for name, value in places.items()}}
        words = [*([] if given.no_python else [sys.executable]), given.program, *given.arguments]
        ranks.append(subprocess.Popen(words, env=environment))
    # As torch's agent does: what it is told goes to its ranks.
    signal.signal(signal.SIGTERM, lambda *_: [rank.terminate() for rank in ranks])
    sys.exit(max(abs(rank.wait()) for rank in ranks))
