# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Named fabrics: which variables a network wants, and why (E4). Data and look-up, pure.

`auto` sets nothing: the runtime picks the interface on the nodes, and what a site has in /etc/nccl.conf or in its own
plugins stands. The others say what is known of a kind of network; a cluster adds its own or replaces ours by name
(`launch_cluster.fabrics`). What is a workaround of a certain version has no place here: a cluster sets it itself, with
its own reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.launch import types as t

AUTO = "auto"


@dataclass(frozen=True)
class Setting:
    """One variable of a fabric, and why it is set."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class Fabric:
    name: str
    title: str
    settings: tuple[Setting, ...] = ()


_INFINIBAND = Setting("NCCL_NET", "IB", "fail where InfiniBand is missing, instead of falling back to slow sockets")
_STREAMS = Setting(
    "TORCH_NCCL_AVOID_RECORD_STREAMS", "1", "memory of tensors in flight is freed sooner under expert and FSDP traffic"
)
_LIBFABRIC = Setting("NCCL_NET", "AWS Libfabric", "use the site's OFI plugin, and fail where it is missing")

FABRICS: tuple[Fabric, ...] = (
    Fabric(AUTO, "what the nodes have; the site's own files decide"),
    Fabric("infiniband_h100", "InfiniBand NDR with H100 or H200", (_INFINIBAND, _STREAMS)),
    Fabric("infiniband_a100", "InfiniBand HDR with A100", (_INFINIBAND,)),
    Fabric(
        "roce",
        "RDMA over converged Ethernet",
        (
            Setting("NCCL_NET", "IB", "RoCE uses the verbs transport; fail instead of falling back to sockets"),
            Setting(
                "NCCL_IB_GID_INDEX",
                "3",
                "the RoCE v2 address over IPv4 on most adapters; others use 0 or 1 (show_gids)",
            ),
        ),
    ),
    Fabric(
        "nvlink_blackwell",
        "Blackwell with NVLink across nodes",
        (
            _INFINIBAND,
            Setting("NCCL_CUMEM_ENABLE", "1", "memory shared over NVLink between nodes is allocated through cuMem"),
        ),
    ),
    Fabric(
        "efa",
        "AWS Elastic Fabric Adapter",
        (
            Setting("FI_PROVIDER", "efa", "libfabric takes EFA, not a socket provider"),
            Setting("FI_EFA_USE_DEVICE_RDMA", "1", "GPU memory goes to the adapter directly"),
        ),
    ),
    Fabric(
        "slingshot",
        "HPE Slingshot through libfabric",
        (
            _LIBFABRIC,
            Setting("FI_PROVIDER", "cxi", "libfabric takes the Slingshot adapter"),
            Setting("FI_CXI_ATS", "0", "address translation on the adapter deadlocks with GPU memory"),
            Setting("FI_CXI_DISABLE_HOST_REGISTER", "1", "memory registration inside a collective deadlocks"),
            Setting("FI_CXI_DEFAULT_CQ_SIZE", "131072", "the default completion queue overflows at scale"),
            Setting("NCCL_CROSS_NIC", "1", "rings may use another adapter on the other node"),
        ),
    ),
    Fabric(
        "rccl",
        "AMD GPUs with RCCL",
        (
            _INFINIBAND,
            Setting("HSA_FORCE_FINE_GRAIN_PCIE", "1", "peer-to-peer over PCIe needs fine-grained memory on older ROCm"),
        ),
    ),
    Fabric(
        "ethernet",
        "plain Ethernet: NCCL over sockets, or Gloo",
        (Setting("NCCL_IB_DISABLE", "1", "no InfiniBand here: do not look for it on each node"),),
    ),
    Fabric("lab", "the lab cluster of this collection: Gloo over two interfaces a node"),
)


def fabric(name: str, own: Mapping[str, tuple[Setting, ...]]) -> Fabric | None:
    """A fabric by name; a cluster's own of that name comes first. None where nobody knows it."""
    if name in own:
        return Fabric(name, "the cluster's own", own[name])
    return next((known for known in FABRICS if known.name == name), None)


def names(own: Mapping[str, tuple[Setting, ...]]) -> list[str]:
    return [known.name for known in FABRICS] + [name for name in own if fabric(name, {}) is None]


def _parse_setting(value: object) -> tuple[str, str]:
    """(value, reason) of one variable: plain text, or a map that also gives the reason."""
    if not isinstance(value, Mapping):
        return t.to_text(value), "the cluster sets it"
    unknown = sorted(set(map(str, value)) - {"value", "reason"})
    if unknown or "value" not in value:
        raise t.Invalid(f"must be text, or {{value: TEXT, reason: TEXT}}, not {t.shown(dict(value))}")
    return t.to_text(value["value"]), t.to_text(value.get("reason", "the cluster sets it"))


_SETTINGS = t.mapped(
    r"[A-Za-z_][A-Za-z0-9_]*",
    "the name of an environment variable",
    t.Type("text, or {value, reason}", _parse_setting, {"type": ["string", "integer", "object"]}),
)


def _parse_own(value: object) -> dict[str, tuple[Setting, ...]]:
    maps = t.mapped(r"[a-z][a-z0-9_]*", "a name in small letters", _SETTINGS).parse(value)
    return {
        name: tuple(Setting(variable, text, reason) for variable, (text, reason) in settings.items())
        for name, settings in maps.items()
    }


OWN_FABRICS = t.Type(
    "map of fabrics",
    _parse_own,
    {"type": "object", "additionalProperties": dict(_SETTINGS.schema)},
)
