# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boundaries of the library: types for untyped data (Ansible's options and results, JSON), who reads a result, and
what another program is told of this process's environment.

Only functions at such a boundary use these types. Data that passes between rooms has known fields.
"""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

T = TypeVar("T")

# What a program needs of its caller's variables to run, to reach a network as the site wants it, and to build.
_FOR_ALL = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "TMP",
        "TEMP",
        "TZ",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",
        "NETRC",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "SSL_CLIENT_CERT",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "FTP_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "ftp_proxy",
        "no_proxy",
        "CC",
        "CXX",
        "CPP",
        "LD",
        "AR",
        "FC",
        "CFLAGS",
        "CXXFLAGS",
        "CPPFLAGS",
        "FFLAGS",
        "LDFLAGS",
        "CPATH",
        "LIBRARY_PATH",
        "PKG_CONFIG_PATH",
        "CUDA_HOME",
        "CUDA_PATH",
        "ROCM_PATH",
        "ROCM_HOME",
        "MAX_JOBS",
        "TORCH_CUDA_ARCH_LIST",
        "SOURCE_DATE_EPOCH",
    ]
)
_PREFIXES_FOR_ALL = ("LC_", "XDG_")

# The options of a module or an action, as Ansible has checked them against its argument spec.
Parameters = Mapping[str, Any]
# The result of a module or an action, or a part of it.
ModuleResult = dict[str, Any]
# An object read from JSON or YAML before its fields are checked, or an object to be written.
JsonObject = dict[str, Any]
# Ansible's variables for a task, by name.
TaskVariables = dict[str, Any]


def read_json(path: str) -> object:
    """Return the content of a JSON file; None if the file is missing, unreadable or not valid JSON."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def has_fields(document: object, **kinds: type | tuple[type, ...]) -> bool:
    """Return whether a JSON value is an object that has all these fields, each of the given type."""
    return isinstance(document, dict) and all(isinstance(document.get(name), kind) for name, kind in kinds.items())


def made_of(kind: Callable[..., T], request: JsonObject) -> T:
    """Build a dataclass from the request that the action plugin sent.

    Raises RankzeroError if the fields do not match, for example because the request comes from another release.
    """
    try:
        return kind(**request)
    except (TypeError, ValueError) as error:
        raise RankzeroError(f"x_request: is not what the action plugin of this module sends ({error}).") from error


def child_environment(environ: Mapping[str, str], *prefixes: str) -> dict[str, str]:
    """The environment of a program that runs code of others, or puts variables into addresses that others wrote.

    What is not listed may be a secret of a CI system or of the user. `prefixes`: of the program's own settings ("UV_").
    """
    kept = _PREFIXES_FOR_ALL + prefixes
    return {name: value for name, value in environ.items() if name in _FOR_ALL or name.startswith(kept)}


def nobody_reads(descriptor: int | None = None) -> bool:
    """Whether the other end of an output is closed: a pipe, or the socket of an SSH server. By default, that of stdout.

    Nothing tells a process that the connection is gone over which it was started: what waits long asks this, and ends.
    A file or a terminal is always read.
    """
    try:
        look = select.poll()
        # These two are reported whatever is asked for.
        look.register(sys.stdout.fileno() if descriptor is None else descriptor, 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _number, events in look.poll(0))
    except (OSError, ValueError, AttributeError):
        # No output, or a system without poll(2).
        return False
