# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The head's access to the outside: an HTTP proxy on the head's loopback, as on the login nodes of closed sites.

The process runs in the host's namespaces; only its listening socket is in the head's network namespace. So the host's
network needs no forwarding and no address translation, and the nodes, which cannot reach the head's loopback, have no
access to the outside. It supports CONNECT (for https) and plain http requests (RFC 9110, sections 9.3.6, 7.1).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import urllib.parse

from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import wrappers
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import kernel

_HEAD_LIMIT = 65536
_IDLE = 600.0


def listen_in(pid: int, port: int) -> socket.socket:
    """Open a listening socket on 127.0.0.1 in the network namespace of `pid`. This thread keeps its own namespace."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        kernel.setns(there, kernel.CLONE_NEWNET)
        return socket.create_server(("127.0.0.1", port))
    finally:
        kernel.setns(own, kernel.CLONE_NEWNET)
        os.close(own)
        os.close(there)


def target_of(head: bytes) -> tuple[str, int, bytes]:
    """Host, port and the bytes to send there first, from a request's head. ValueError if it is not a proxy request."""
    line, *rest = head.split(b"\r\n")
    method, target, version = line.decode("latin-1").split(" ")
    if method == "CONNECT":
        parts = urllib.parse.urlsplit(f"//{target}")
        return parts.hostname or "", parts.port or 443, b""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"not a proxy request: {target}")
    path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    fields = [field for field in rest if field and not field.lower().startswith((b"proxy-", b"connection:"))]
    first = f"{method} {path} {version}\r\nConnection: close\r\n".encode("latin-1")
    return parts.hostname, parts.port or 80, first + b"\r\n".join(fields)


def _relay(near: socket.socket, far: socket.socket) -> None:
    """Copy in both directions until both sides have closed, or no data has arrived for ten minutes."""
    with selectors.DefaultSelector() as selector:
        selector.register(near, selectors.EVENT_READ)
        selector.register(far, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(_IDLE)
            if not ready:
                return
            for key in [entry[0] for entry in ready]:
                source, sink = (near, far) if key.fileobj is near else (far, near)
                data = source.recv(65536)
                if data:
                    sink.sendall(data)
                else:
                    selector.unregister(source)
                    with contextlib.suppress(OSError):
                        sink.shutdown(socket.SHUT_WR)


def serve(client: socket.socket) -> None:
    """Serve one connection from the head."""
    with client, contextlib.suppress(OSError):
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _HEAD_LIMIT:
            data = client.recv(65536)
            if not data:
                return
            head += data
        head, end, body = head.partition(b"\r\n\r\n")
        try:
            host, port, first = target_of(head)
            upstream = socket.create_connection((host, port), timeout=60)
        except (ValueError, OSError) as error:
            client.sendall(f"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n{error}\n".encode())
            return
        with upstream:
            upstream.settimeout(None)
            if first:
                upstream.sendall(first + end + body)
            else:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                upstream.sendall(body)
            _relay(client, upstream)


def main(arguments: list[str]) -> int:
    """Run until killed. `arguments`: the file in which the head's pid is recorded."""
    pid = int(text_of(arguments[0]).split()[0])
    listener = listen_in(pid, wrappers.PROXY_PORT)
    while True:
        client = listener.accept()[0]
        threading.Thread(target=serve, args=(client,), daemon=True).start()
