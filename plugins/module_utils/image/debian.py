# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the Debian archive that this machine's apt uses, and how apt reaches it, for mmdebstrap. Pure."""

from __future__ import annotations

# Commands whose output `pick_mirror` and `transport_options` read.
TARGETS = ("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
DUMP = ("apt-config", "dump", "--format", '%F "%v";%n', "Acquire")

# Release names of Debian's main archives. The "-updates" and "-security" archives do not contain complete suites.
_DEBIAN = frozenset(
    {"oldoldstable", "oldstable", "stable", "testing", "unstable", "sid", "bullseye", "bookworm", "trixie", "forky"}
)


def pick_mirror(targets: str) -> str:
    """Return the URI of the machine's Debian archive from lines `URI RELEASE COMPONENT` of its index targets; "" if
    none.
    """
    for line in targets.splitlines():
        uri, release, component = (line.split() + ["", "", ""])[:3]
        if release in _DEBIAN and component == "main":
            return uri
    return ""


_TRANSPORT = (
    "Acquire::http",
    "Acquire::https",
    "Acquire::Retries",
    "Acquire::Check-Date",
    "Acquire::Check-Valid-Until",
    "Acquire::ForceIPv",
)


def transport_options(dump: str) -> list[str]:
    """Return the transport settings in the output of `apt-config dump` (proxies, retries, time checks) as apt.conf
    lines.
    """
    lines = ['Acquire::Languages "none";']
    for line in dump.splitlines():
        if line.startswith(_TRANSPORT) and not line.endswith(' "";'):
            lines.append(line)
    return lines


def why_failed(output: str) -> tuple[str, str]:
    """Classify mmdebstrap's error output as (cause, sentence). Causes: no-suite, unreachable, no-package, other."""
    if "does not have a Release file" in output:
        return "no-suite", "the Debian archive that this machine's apt uses does not have it"
    if "Unable to locate package" in output or "has no installation candidate" in output:
        return "no-package", "the Debian archive that this machine's apt uses lacks a package of it"
    if "Failed to fetch" in output or "Could not resolve" in output or "Could not connect" in output:
        return "unreachable", "the Debian archive that this machine's apt uses cannot be reached"
    return "other", "mmdebstrap failed"
