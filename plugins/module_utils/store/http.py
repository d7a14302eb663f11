# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open URLs with the proxies, certificates and logins of a host. Standard library only."""

from __future__ import annotations

import base64
import functools
import netrc
import ssl
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

_AGENT = "rankzero.slurm"


class _Guarded(urllib.request.HTTPRedirectHandler):
    """Drops the Authorization header on a redirect to another host."""

    def redirect_request(self, req: urllib.request.Request, *details: Any) -> urllib.request.Request | None:
        made = super().redirect_request(req, *details)
        if made is not None and urlsplit(made.full_url).netloc != urlsplit(req.full_url).netloc:
            made.remove_header("Authorization")
        return made


def open_url(
    url: str,
    environment: Mapping[str, str],
    *,
    headers: Mapping[str, str] | None = None,
    login: tuple[str, str] | None = None,
    trusted: bool = False,
    method: str = "GET",
) -> Any:
    """The open response; the caller closes it. `trusted`: the host's certificate is not checked.

    Raises OSError (this includes URLError, HTTPError and time-outs) and http.client.HTTPException.
    """
    request = urllib.request.Request(
        url.partition("#")[0], headers={"User-Agent": _AGENT, **(headers or {})}, method=method
    )
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(":".join(login).encode()).decode("ascii"))
    proxies = {
        scheme: value
        for scheme in ("http", "https")
        if (value := environment.get(f"{scheme.upper()}_PROXY") or environment.get(f"{scheme}_proxy"))
    }
    handlers: list[urllib.request.BaseHandler] = [_Guarded(), urllib.request.ProxyHandler(proxies or None)]
    handlers.append(urllib.request.HTTPSHandler(context=_context(environment.get("SSL_CERT_FILE") or None, trusted)))
    opener = urllib.request.build_opener(*handlers)
    return opener.open(request, timeout=60.0)


@functools.lru_cache(maxsize=4)
def _context(certificates: str | None, trusted: bool) -> ssl.SSLContext:
    """Cached: loading a system's certificates takes longer than fetching a small file."""
    context = ssl.create_default_context(cafile=certificates)
    if trusted:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def login_of(host: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """User and password for a host from ~/.netrc (or $NETRC); None without an entry."""
    try:
        login = netrc.netrc(environment.get("NETRC")).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return (login[0], login[2] or "") if login else None
