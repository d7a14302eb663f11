# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package sources: pip's settings on a host, translated for uv. Pure except for `read_pip_settings`.

uv does not read pip's settings, but a site that has configured pip has named its package sources there. uv's own
settings take precedence.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit

from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import text_of

# Settings of uv for package sources; any of them replaces all of pip's package sources.
_UV_PLACES = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
# System certificate files. uv has its own certificates and no site's; pip uses the system's too.
_SYSTEM_CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
# Variables that would point uv at another project, interpreter or environment.
_MISLEADING = (
    *("CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "UV_BREAK_SYSTEM_PACKAGES", "UV_PROJECT"),
    *("UV_PROJECT_ENVIRONMENT", "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TORCH_BACKEND", "UV_WORKING_DIRECTORY"),
    *("VIRTUAL_ENV",),
)


@dataclass(frozen=True)
class PipSettings:
    """The part of pip's settings about package sources and how to reach them. `timeout`: seconds, as text."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    no_index: bool = False
    cert: str | None = None
    proxy: str | None = None
    timeout: str | None = None

    def directories(self) -> list[str]:
        """The local directories in `find_links`, in order."""
        paths = [_local_path(place) for place in self.find_links]
        return [path for path in paths if path is not None]


def parse_pip_settings(files: list[str], environ: Mapping[str, str]) -> PipSettings:
    """pip's settings from the texts of its configuration files, the weakest first, and its PIP_* variables.

    An invalid configuration file counts as empty: pip itself reports it when it is used.
    """
    values: dict[str, str] = {}
    for section in ("global", "download", "install"):
        for text in files:
            parser = configparser.RawConfigParser()
            try:
                parser.read_string(text)
            except configparser.Error:
                continue
            if parser.has_section(section):
                values.update({name.lower().replace("_", "-"): value for name, value in parser.items(section)})
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            values[name[4:].lower().replace("_", "-")] = value
    return PipSettings(
        index_url=values.get("index-url"),
        extra_index_urls=tuple(values.get("extra-index-url", "").split()),
        find_links=tuple(values.get("find-links", "").split()),
        trusted_hosts=tuple(values.get("trusted-host", "").split()),
        no_index=values.get("no-index", "").lower() in ("1", "true", "yes", "on", "y", "t"),
        cert=values.get("cert"),
        proxy=values.get("proxy"),
        timeout=values.get("timeout") or values.get("default-timeout"),
    )


def read_pip_settings(environ: Mapping[str, str], exists: Callable[[str], bool] = os.path.exists) -> PipSettings:
    """The settings in effect on this host: pip's, but uv's own package sources if it has any.

    Local paths that do not exist are left out, as pip itself skips them. If pip has no certificates configured, those
    of other tools or of the system are used.
    """
    texts = []
    for path in pip_files(environ):
        try:
            texts.append(text_of(path))
        except (OSError, UnicodeDecodeError):
            continue
    settings = parse_pip_settings(texts, environ)
    certificates = (
        settings.cert,
        environ.get("REQUESTS_CA_BUNDLE"),
        environ.get("CURL_CA_BUNDLE"),
        *_SYSTEM_CERTIFICATES,
    )
    settings = replace(settings, cert=next((path for path in certificates if path and exists(path)), None))
    if any(environ.get(name) for name in _UV_PLACES):
        links = tuple(filter(None, environ.get("UV_FIND_LINKS", "").split(",")))
        return replace(settings, index_url=None, extra_index_urls=(), find_links=links, no_index=False)

    def there(place: str) -> bool:
        path = _local_path(place)
        return path is None or exists(path)

    return replace(
        settings,
        extra_index_urls=tuple(filter(there, settings.extra_index_urls)),
        find_links=tuple(filter(there, settings.find_links)),
    )


def pip_files(environ: Mapping[str, str]) -> list[str]:
    """The paths of pip's settings on Linux, the weakest first (pip's documentation, "Configuration")."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = environ.get("HOME") or os.path.expanduser("~")
    system = [folder for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder]
    paths = [f"{folder}/pip/pip.conf" for folder in reversed(system)]
    paths += ["/etc/pip.conf", f"{home}/.pip/pip.conf"]
    paths.append(f"{environ.get('XDG_CONFIG_HOME') or home + '/.config'}/pip/pip.conf")
    if named:
        paths.append(named)
    return paths


def uv_environment(pip: PipSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The complete environment of a uv process: what it may know of the caller's, and what `read_pip_settings` says."""
    allowed = child_environment(environ, "UV_", "PIP_")
    result = {name: value for name, value in allowed.items() if name not in _MISLEADING}
    if pip.index_url:
        result["UV_INDEX_URL"] = pip.index_url
    if pip.extra_index_urls:
        result["UV_EXTRA_INDEX_URL"] = " ".join(pip.extra_index_urls)
        # pip takes the best version from all its indexes; uv by default stops at the first index that has the name.
        result.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    if pip.find_links:
        result["UV_FIND_LINKS"] = ",".join(pip.find_links)
    if pip.trusted_hosts:
        result.setdefault("UV_INSECURE_HOST", " ".join(pip.trusted_hosts))
    if pip.timeout and pip.timeout.isdigit():
        result.setdefault("UV_HTTP_TIMEOUT", pip.timeout)
    if pip.proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            if not environ.get(name) and not environ.get(name.lower()):
                result[name] = pip.proxy
    if pip.cert:
        result.setdefault("SSL_CERT_FILE", pip.cert)
    result.update(NO_COLOR="1", UV_NO_PROGRESS="1", UV_PYTHON_DOWNLOADS="never")
    return result


def controller_environment(
    pip: PipSettings, environ: Mapping[str, str], exists: Callable[[str], bool] = os.path.isfile
) -> dict[str, str]:
    """The same where a project is only data, as on the controller: uv builds nothing, and takes its settings from files
    of the user or the system, never from the project. There, `no-binary-package` alone made it build and run code.
    """
    result = {**uv_environment(pip, environ), "UV_NO_BUILD": "1", "UV_NO_SOURCES": "1"}
    home = environ.get("HOME") or os.path.expanduser("~")
    folders = [environ.get("XDG_CONFIG_HOME") or f"{home}/.config"]
    folders += [folder for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if folder] + ["/etc"]
    files = [path for path in (f"{folder}/uv/uv.toml" for folder in folders) if exists(path)]
    if environ.get("UV_CONFIG_FILE") or (files and not environ.get("UV_NO_CONFIG")):
        result.setdefault("UV_CONFIG_FILE", files[0] if files else "")
    else:
        result["UV_NO_CONFIG"] = "1"
    return result


def building(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of `controller_environment` for a user who lets the controller build packages."""
    return {name: value for name, value in settings.items() if name != "UV_NO_BUILD"}


def uv_options(pip: PipSettings) -> list[str]:
    """Options for uv's package commands, for settings that have no variable."""
    return ["--no-index"] if pip.no_index else []


def identity(pip: PipSettings, environ: Mapping[str, str]) -> str:
    """16 hex digits that identify the package sources, independent of their credentials."""
    effective = uv_environment(pip, environ)
    places = {name: redact(effective[name]) for name in (*_UV_PLACES, "UV_INDEX_STRATEGY") if effective.get(name)}
    places.update(dict.fromkeys(uv_options(pip), ""))
    return hashlib.sha256(json.dumps(places, sort_keys=True).encode()).hexdigest()[:16]


def redact(text: str) -> str:
    """The text with the credentials of its URLs masked."""
    return re.sub(r"(\w+://)[^/\s@]+@", r"\1***@", text)


def _local_path(place: str) -> str | None:
    """The path on this host that a place (a path or a URL) refers to; None for a remote place."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return unquote(parts.path)
    if parts.scheme:
        return None
    return os.path.expanduser(place)
