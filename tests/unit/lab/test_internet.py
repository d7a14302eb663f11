# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proxy's reading of requests."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import internet


@pytest.mark.parametrize(
    ("head", "target"),
    [
        (b"CONNECT index.example:443 HTTP/1.1\r\nHost: x", ("index.example", 443, b"")),
        (b"CONNECT [::1]:8443 HTTP/1.1", ("::1", 8443, b"")),
        (
            b"GET http://example:8080/a?b=c HTTP/1.1\r\nHost: example\r\nProxy-Connection: keep-alive",
            ("example", 8080, b"GET /a?b=c HTTP/1.1\r\nConnection: close\r\nHost: example"),
        ),
        (b"GET http://example HTTP/1.0", ("example", 80, b"GET / HTTP/1.0\r\nConnection: close\r\n")),
    ],
)
def test_requests(head: bytes, target: tuple[str, int, bytes]) -> None:
    assert internet.target_of(head) == target


@pytest.mark.parametrize("head", [b"GET /page HTTP/1.1", b"", b"nonsense", b"GET ftp://x/ HTTP/1.1"])
def test_what_is_not_for_a_proxy(head: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        internet.target_of(head)
