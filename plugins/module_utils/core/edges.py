# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boundaries of the library: types for untyped data (Ansible's options and results, JSON), files of others that are
read whole, who reads a result, which thread takes signals, and what another program is told of this process's
environment.

Only functions at such a boundary use these types. Data that passes between rooms has known fields.
"""

from __future__ import annotations

import errno
import io
import json
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import IO, Any, TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

T = TypeVar("T")
Thread = TypeVar("Thread", bound=threading.Thread)

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


# The most bytes of a document and of other text that is read whole; of what lists a million files; and of one value.
MOST_BYTES, MOST_LIST_BYTES, MOST_VALUE_BYTES = 8 << 20, 256 << 20, 128 << 10


def whole(stream: IO[bytes], path: str, most: int = MOST_BYTES) -> bytes:
    """The rest of an open file that others may have written. Raises OSError, also for more than `most` bytes.

    `path`: for that error.
    """
    content = stream.read(most + 1)
    if len(content) > most:
        size = max(len(content), os.fstat(stream.fileno()).st_size)
        raise OSError(errno.EFBIG, f"has {size} bytes, and at most {most} are read", path)
    return content


def content_of(path: str, most: int = MOST_BYTES) -> bytes:
    """All of a regular file, as `whole`; opening it waits for no pipe or device. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", path)
        return whole(stream, path, most)


def text_of(path: str, most: int = MOST_BYTES, errors: str = "strict") -> str:
    """The text of a file, as `content_of`; each end of a line becomes \\n. Raises OSError and UnicodeDecodeError."""
    return io.StringIO(content_of(path, most).decode("utf-8", errors), newline=None).getvalue()


def last_text(path: str, most: int = MOST_BYTES) -> str:
    """The last lines of a file that may be of any size, together at most `most` bytes. Raises OSError."""
    with open(path, "rb") as stream:
        before = max(0, os.fstat(stream.fileno()).st_size - most)
        stream.seek(before)
        content = stream.read(most)
    # The first of these lines was cut.
    return (content.partition(b"\n")[2] if before else content).decode("utf-8", "replace")


def last_bytes(stream: IO[bytes] | None, most: int = 1 << 16) -> bytes:
    """Read what another program writes to its end, and return the last `most` bytes."""
    last = b""
    for part in iter(lambda: stream.read(most) if stream else b"", b""):
        last = (last + part)[-most:]
    return last


def json_of(path: str, most: int = MOST_BYTES) -> JsonObject:
    """The object in a JSON file. Raises OSError, as `content_of`; ValueError for anything else."""
    document = parsed_json(path, most)
    if not isinstance(document, dict):
        raise ValueError(f"{path} holds no object")
    return document


def parsed_json(path: str, most: int = MOST_BYTES) -> object:
    """The content of a JSON file. Raises OSError, as `content_of`; ValueError for anything but JSON."""
    try:
        return json.loads(content_of(path, most))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error


def read_json(path: str) -> object:
    """Return the content of a JSON file; None if it is missing, unreadable, not valid JSON, or above MOST_BYTES."""
    try:
        return parsed_json(path)
    except (OSError, ValueError):
        return None


def has_fields(document: object, **kinds: type | tuple[type, ...]) -> bool:
    """Return whether a JSON value is an object that has all these fields, each of the given type."""
    return isinstance(document, dict) and all(isinstance(document.get(name), kind) for name, kind in kinds.items())


def record_of(kind: type[T], document: Parameters, **parts: Callable[..., object]) -> T:
    """Read a dataclass from an answer that this collection wrote: its fields by their names. Other fields are left out.

    `parts`: how a field is read that is itself a dataclass, or several of them (`records_of`); null stays None.
    """
    values = {part.name: document[part.name] for part in fields(kind) if part.name in document}  # type: ignore[arg-type]
    values.update({name: read(values[name]) for name, read in parts.items() if values.get(name) is not None})
    return kind(**values)


def records_of(kind: type[T], documents: Iterable[Parameters]) -> list[T]:
    """Read several dataclasses, each as `record_of`."""
    return [record_of(kind, document) for document in documents]


def made_of(kind: Callable[..., T], request: JsonObject) -> T:
    """Build a dataclass from the request that the action plugin sent.

    Raises RankzeroError if the fields do not match, for example because the request comes from another release.
    """
    try:
        return kind(**request)
    except (TypeError, ValueError) as error:
        raise RankzeroError(f"x_request: is not what the action plugin of this module sends ({error})") from error


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


def start_thread(thread: Thread) -> Thread:
    """Start a thread that blocks all signals, and return it.

    Python runs a signal's handler in the main thread. If the kernel gives the signal to another thread while the main
    thread waits in a system call, that call goes on, and Ctrl-C has no effect until it ends. Two signals at once are
    enough. Programs that such a thread starts inherit its mask: give them to the main thread or to a pool.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread
