# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks could not connect to each other."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    RAISED,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="rendezvous_failure",
    what="the ranks did not meet",
    remedy=(
        "The head node's name and port must be reachable from every node: `launcher.rendezvous`, "
        "`launcher.port`, `fabric`; did every rank start (fewer log files than ranks)?"
    ),
    look=(
        "See whether all ranks started (are there as many logs as ranks?) and whether the name and the port "
        "in that line can be reached from the other nodes."
    ),
    matches=(
        says(
            r"^(?!.*(?:https?:|HTTPS?Connection|HTTPError))(?:.*(?:"
            r"RendezvousTimeoutError|timed out after \d+ seconds? waiting for clients|"
            r"[Tt]imed out (?:after .* )?(?:waiting (?:for|on) .{0,60}\b(?:clients?|ranks?|stores?|barrier|"
            r"rendezvous|peers?|"
            r"workers?|nodes?|master|members?|keys?|process(?:es)?|connections?)\b|"
            "trying to connect|initiali[sz]ing process group)|"
            "client socket has timed out after|(?:Name or service not known|"
            "Temporary failure in name resolution|getaddrinfo failed).*(?:master|rendezvous|store|"
            "socket)?|StoreTimeout|Deadline Exceeded.*(?:coordination|connect)|DEADLINE_EXCEEDED(?!.*[Ss]hutdown)|"
            r"UNAVAILABLE\W.*(?:connect|handshak|resol|refused)|(?:coordination|"
            r"distributed) service(?!.*heartbeat).*UNAVAILABLE|"
            r"(?:[Cc]ouldn't reconnect|[Ff]ailed to connect) to GCS\b|"
            r"[Ff]ailed to (?:register|connect to|start|initiali[sz]e).{0,20} (?:coordination|distributed) service))",
            "RendezvousTimeoutError",
            "waiting for clients",
            "imed out",
            "client socket has timed out",
            "Name or service not known",
            "name resolution",
            "getaddrinfo",
            "DEADLINE_EXCEEDED",
            "UNAVAILABLE",
            " to GCS",
            "coordination service",
            "distributed service",
            strength=WEAK + 3,
        ),
        raises(
            r"UNAVAILABLE\W.*(?:connect|handshak|resol|refused)|RendezvousTimeoutError|"
            r"[Tt]imed out after \d+ seconds? waiting for clients|DEADLINE_EXCEEDED(?!.*[Ss]hutdown)|"
            "client socket has timed out|The client socket has failed to connect to any network address|"
            "Timed out initiali[sz]ing process group|[Tt]he server socket has failed to listen",
            strength=RAISED,
        ),
        # The first key of the default group: not all ranks reached this point.
        raises(r"^(?!.*ncclUniqueId).*wait timeout after \d+ms, keys: /default_pg/0//\w+//\d", strength=RAISED),
        says(r"nslookup: can't resolve '(?!\()", "nslookup: can't resolve", strength=WEAK + 1),
        # Open MPI starts its daemons by ssh, and they call back.
        says(
            r"^ssh: (?:connect to host \S+ port \d+: (?:Connection (?:refused|timed out)|No route to host)|"
            # Without a domain it is a node, and no server of git.
            r"Could not resolve hostname [^\s.:]+:)",
            "ssh: connect to host",
            "ssh: Could not resolve",
            strength=WEAK + 6,
            what="the launcher could not reach a node by ssh",
            remedy="Start the ranks with srun, which needs no ssh. Else see whether the name resolves and sshd runs.",
        ),
        says(
            "^A process or daemon was unable to complete a TCP connection|ORTE was unable to reliably start",
            "unable to complete a TCP connection",
            "ORTE was unable to",
            strength=WEAK + 3,
            what="the daemons of mpirun could not start on the nodes, or not connect to each other",
            remedy="Start the ranks with srun. Else let mpirun use a network that the nodes share without a firewall.",
        ),
        says(
            "OMPI was not built with SLURM's PMI support|PMI2_Init failed to intiali[sz]e",
            "with SLURM's PMI support",
            "PMI2_Init failed",
            strength=WEAK + 4,
            what="srun cannot start this Open MPI: it was built without Slurm's PMI",
            remedy=(
                "`srun --mpi=list` names what Slurm offers: take an Open MPI that was built with PMIx and "
                "`srun --mpi=pmix`, or start the program with mpirun within the allocation."
            ),
        ),
        says(
            "^At least one pair of MPI processes are unable to reach each other|"
            "btl_tcp.*received unexpected process identifier",
            "pair of MPI processes",
            "unexpected process identifier",
            strength=WEAK + 3,
            what="the MPI processes do not reach each other",
            remedy=(
                "The nodes have several networks, of which MPI takes one that they do not share: name the right one "
                "(`env.OMPI_MCA_btl_tcp_if_include`), and see whether a firewall is between them."
            ),
        ),
        # MPICH and Intel MPI.
        says(
            r"Fatal error in (?:P?MPI_Init|internal_Init)",
            "Fatal error in ",
            strength=WEAK + 4,
            what="MPI could not start",
            remedy=(
                "The lines around that one name the call that failed: the network adapter (is it usable on that node, "
                "and for jobs?), a peer that was not reached, or a launcher that does not fit (`srun --mpi=list`)."
            ),
        ),
        # Two processes with the number of one rank.
        says("NCCL WARN Bootstrap Root ?: .*already checked in", "already checked in", strength=WEAK + 3),
        raises("Socket Timeout", frames=r"in _?rendezvous\b|init_process_group|rendezvous/", strength=RAISED),
        raises(
            r"ConnectionRefusedError: \[Errno 111\]",
            frames=r"\A(?![\s\S]*(?:http/|urllib|requests/|aiohttp|multiprocessing/|redis|visdom|websocket))",
            strength=RAISED,
        ),
        raises(
            r"(?:TimeoutError|OSError): \[Errno 1(?:10|13)\]",
            frames="torch/distributed|rendezvous|init_process_group",
            strength=RAISED + 1,
        ),
    ),
    examples=(
        "but OMPI was not built with SLURM's PMI support",
        "At least one pair of MPI processes are unable to reach each other for",
        "ssh: connect to host node2 port 22: Connection refused",
        "A process or daemon was unable to complete a TCP connection",
        "gcs_client.cc:229: Couldn't reconnect to GCS server. The last attempted address was 10.0.0.4:4",
        "Fatal error in PMPI_Init: Other MPI error, error stack:",
        "nslookup: can't resolve 'job-master-0': Name does not resolve",
        "n1:8:9 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in",
        "torch.distributed.DistStoreError: wait timeout after 10000ms, keys: /default_pg/0//cpu//0/0",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
        (
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying "
            "to connect to (n1, 29500)."
        ),
    ),
    retry=True,
)
