# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Named fabrics: which variables a network needs, and why. Data and look-up, pure.

`auto` sets nothing: the runtime chooses the interface on the nodes, and the site's settings in /etc/nccl.conf or in its
own plugins apply. The other fabrics record what is known about a kind of network. A cluster adds its own fabrics or
replaces the built-in ones by name (`launch_cluster.fabrics`). A workaround for a fault states the affected versions and
an expiry date. After that date it is still set, and every launch warns that it must be reviewed.

Values were checked against NCCL's and RCCL's lists of variables, libfabric's fi_cxi(7) and fi_efa(7), and aws-ofi-nccl.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t

AUTO = "auto"


@dataclass(frozen=True)
class Setting:
    """One variable of a fabric, and why it is set.

    A workaround states the affected `version` and the date (`expires`) after which it must be reviewed.
    """

    name: str
    value: str
    reason: str
    version: str = ""
    expires: str = ""

    @property
    def workaround(self) -> str:
        """The affected versions and the expiry date, for a table; empty if this is not a workaround."""
        parts = [self.version and f"for {self.version}", self.expires and f"until {self.expires}"]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class Fabric:
    """A kind of network. `title`: its name for people; `settings`: the variables it needs."""

    name: str
    title: str
    settings: tuple[Setting, ...] = ()


_INFINIBAND = Setting("NCCL_NET", "IB", "fail where InfiniBand is missing, instead of falling back to slow sockets")
_LIBFABRIC = Setting("NCCL_NET", "AWS Libfabric", "use the site's OFI plugin, and fail if it is missing")
_CXI = "the cxi provider of libfabric 1 and 2.0"
_CXI_UNTIL = "2027-12-31"

FABRICS: tuple[Fabric, ...] = (
    Fabric(AUTO, "what the nodes have; the site's own files decide"),
    Fabric("infiniband_h100", "InfiniBand NDR with H100 or H200", (_INFINIBAND,)),
    Fabric("infiniband_a100", "InfiniBand HDR with A100", (_INFINIBAND,)),
    Fabric(
        "roce",
        "RDMA over converged Ethernet",
        (
            Setting("NCCL_NET", "IB", "RoCE uses the verbs transport; fail instead of falling back to sockets"),
            Setting(
                "NCCL_IB_GID_INDEX",
                "3",
                "the RoCE v2 address over IPv4 on most adapters; others use 0 or 1 (show_gids); newer ones find it",
                version="NCCL before 2.21",
                expires="2027-06-30",
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
            # FI_EFA_USE_DEVICE_RDMA=1 is not set: libfabric 1.18 and later detect it, and on adapters without it ranks
            # abort.
            Setting("FI_PROVIDER", "efa", "libfabric takes EFA, not a socket provider"),
        ),
    ),
    Fabric(
        "slingshot",
        "HPE Slingshot through libfabric",
        (
            _LIBFABRIC,
            Setting("FI_PROVIDER", "cxi", "libfabric takes the Slingshot adapter"),
            Setting(
                "FI_CXI_ATS", "0", "address translation on the adapter deadlocks with GPU memory", _CXI, _CXI_UNTIL
            ),
            Setting(
                "FI_CXI_DISABLE_HOST_REGISTER",
                "1",
                "memory registration inside a collective deadlocks",
                _CXI,
                _CXI_UNTIL,
            ),
            Setting(
                "FI_CXI_DEFAULT_CQ_SIZE", "131072", "the default completion queue overflows at scale", _CXI, _CXI_UNTIL
            ),
            Setting("NCCL_CROSS_NIC", "1", "rings may use another adapter on the other node"),
        ),
    ),
    Fabric(
        "rccl",
        "AMD GPUs with RCCL",
        (
            _INFINIBAND,
            Setting(
                "HSA_FORCE_FINE_GRAIN_PCIE",
                "1",
                "peer-to-peer over PCIe needs fine-grained memory",
                version="ROCm before 6",
                expires="2027-06-30",
            ),
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
    """Return a fabric by name, the cluster's own first; None if the name is unknown."""
    if name in own:
        return Fabric(name, "the cluster's own", own[name])
    return next((known for known in FABRICS if known.name == name), None)


def names(own: Mapping[str, tuple[Setting, ...]]) -> list[str]:
    """Return the names of all fabrics, the built-in ones first. `own`: the cluster's, which may redefine a built-in
    one.
    """
    return [known.name for known in FABRICS] + [name for name in own if fabric(name, {}) is None]


def expired(chosen: Fabric, today: date) -> list[str]:
    """Return a sentence for each workaround that has expired."""
    return [
        f"fabric {chosen.name}: {item.name}={item.value} works around {item.version or 'something'} and expired "
        f"on {item.expires}: check whether it is still needed, and set it in launch_cluster.fabrics with a later date, "
        "or remove it"
        for item in chosen.settings
        if item.expires and item.expires < today.isoformat()
    ]


_KEYS = ("value", "reason", "version", "expires")


def _parse_setting(value: object) -> dict[str, str]:
    """Parse one variable: plain text is its value; a map may also give the reason and what the workaround is for."""
    if not isinstance(value, Mapping):
        return {"value": t.to_text(value), "reason": "the cluster sets it"}
    unknown = sorted(set(map(str, value)) - set(_KEYS))
    if unknown or "value" not in value:
        raise t.Invalid(f"must be text, or a map of {', '.join(_KEYS)} (value is required), not {t.shown(dict(value))}")
    fields = {"reason": "the cluster sets it", **{str(key): t.to_text(text) for key, text in value.items()}}
    if fields.get("expires"):
        try:
            date.fromisoformat(fields["expires"])
        except ValueError:
            raise t.Invalid(f"has the expiry {t.shown(fields['expires'])}, not a date such as 2027-06-30") from None
    return fields


_SETTINGS = t.mapped(
    r"[A-Za-z_][A-Za-z0-9_]*",
    "the name of an environment variable",
    t.Type("text, or {value, reason, version, expires}", _parse_setting, {"type": [*t.SCALARS, "object"]}),
)


def _parse_own(value: object) -> dict[str, tuple[Setting, ...]]:
    maps = t.mapped(r"[a-z][a-z0-9_]*", "a name in small letters", _SETTINGS).parse(value)
    return {
        name: tuple(Setting(variable, **fields) for variable, fields in settings.items())
        for name, settings in maps.items()
    }


OWN_FABRICS = t.Type(
    "map of fabrics",
    _parse_own,
    {"type": "object", "additionalProperties": dict(_SETTINGS.schema)},
)
