# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gloo chose an interface, or an address of the host name, that the other nodes cannot reach."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    RAISED,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="gloo_interface",
    what="Gloo uses an interface that the other nodes cannot reach",
    remedy=(
        "Let every node take the interface with the route to the head node (`fabric: auto`, also for Gloo), or name "
        "one: `env.GLOO_SOCKET_IFNAME` (one name, no `^`), the same as for NCCL. Asynchronous checkpoints use Gloo "
        "even where training uses NCCL. 127.0.x.x means that /etc/hosts maps the host's own name to loopback."
    ),
    look="See which interface and address each node took, and whether the others can reach it.",
    matches=(
        says(
            r"gloo.*connect \[?127\.\d+\.\d+\.\d+|gloo.*connect \[?::1\]|[Uu]nable to find address for: |"
            r"connect\(\) timeout, remote=\[|gloo.*(?:Connection refused|No route to host|Network is unreachable|"
            r"ifa != nullptr|makeDeviceForInterface)|gloo.*[Cc]onnect(?:FullMesh|\(\))? .*(?:timed? ?out|[Rr]efused)|"
            "Gloo connectFullMesh failed",
            "gloo/transport",
            "Gloo connect",
            "connect() timeout",
            "ind address for: ",
        ),
        # A connection that ended without a reason.
        raises(r"gloo/transport/tcp/\w+\.cc:\d+\] no error", strength=RAISED + 1),
    ),
    examples=(
        "RuntimeError: [/x/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:144] connect [127.0.0.1]:4242: C"
            "onnection refused"
        ),
        "[/x/third_party/gloo/gloo/transport/tcp/pair.cc:525] connect() timeout, remote=[10.0.0.2]:4242",
        (
            "RuntimeError: [enforce fail at /x/gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to fi"
            "nd address for: ib7"
        ),
    ),
)
