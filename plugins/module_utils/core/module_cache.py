# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module of this collection from a copy of its code that an earlier call has left on the host.

Ansible packs, sends, unpacks and compiles a module for every call. The text of this file is sent instead, on stdin with
the call (plugin_utils/sources/carrier.py). It loads the compiled code from one file, and stands in for Ansible's part:
the controller has checked the options already.

Through Ansible's own way a warm launch takes 1.84 times the CPU time (quartiles 1.72 to 1.97), and an unchanged launch
2.32 times. With the code as a folder of files on `sys.path` in place of Finder they take 1.05 times (0.95 to 1.08) and
1.07 times (1.03 to 1.19), on a local disk: 12 rounds that ran each in turn. Below 1.05 Finder is not worth its lines.

The copy is in a folder of the user's cache that is named by the digest of the code. A folder or file that another user
could have written is not used.
"""

from __future__ import annotations

import contextlib
import gc
import json
import marshal
import os
import stat
import sys
import types

# What importlib gives out, without loading more of importlib.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER

# The rest is imported where it is used: these few are loaded in any case.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    #: {name of a Python module: (whether it is a package, its source)}
    Sources = Mapping[str, tuple[bool, str]]

#: The first line of the output once the module runs. Without it nothing has been done, and Ansible may send the module.
STARTED = "rankzero module runs"
#: Exit codes of a call that has done nothing: the host has no copy of the code, or can keep none.
MISSING, UNUSABLE = 76, 77
#: Copies of other releases that have not been used for this long (seconds) are removed when one is added.
UNUSED = 7 * 86400
SOURCES = "sources"
_PLUGINS = "ansible_collections.rankzero.slurm.plugins"


class Unusable(Exception):
    """The folder cannot be used on this host."""


def digest(sources: Sources) -> str:
    """The name of a copy of the code."""
    import hashlib

    content = hashlib.sha256()
    for name in sorted(sources):
        package, text = sources[name]
        encoded = text.encode()
        content.update(f"{name} {package:d} {len(encoded)}\n".encode() + encoded)
    return content.hexdigest()


def packed(sources: Sources) -> bytes:
    """The content of the file `sources`."""
    import zlib

    return zlib.compress(json.dumps(dict(sources)).encode(), 9)


def unpacked(content: bytes) -> dict[str, tuple[bool, str]]:
    """The code in the file `sources`. Raises ValueError."""
    import zlib

    try:
        return {name: (row[0], row[1]) for name, row in json.loads(zlib.decompress(content)).items()}
    except zlib.error as error:
        raise ValueError(f"{SOURCES}: {error}") from error


def folder_of(key: str, environment: Mapping[str, str]) -> str:
    """The folder of a copy. Raises Unusable."""
    cache = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(cache):
        raise Unusable(f"{cache} is not an absolute path")
    return os.path.join(cache, "rankzero", "modules", key)


class Copy:
    """A folder with the code, open. Raises FileNotFoundError if it is missing, and Unusable if it is not the user's."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            own(os.fstat(self._handle), path)
        except Unusable:
            self.close()
            raise

    def read(self, name: str) -> bytes:
        """The content of a file. Raises OSError and Unusable."""
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._handle)
        with open(handle, "rb") as stream:
            status = os.fstat(handle)
            own(status, f"{self.path}/{name}")
            if not stat.S_ISREG(status.st_mode):
                raise Unusable(f"{self.path}/{name} is not a file")
            return stream.read()

    def write(self, name: str, content: bytes) -> None:
        """Replace a file in one step. Raises OSError."""
        new = f".{name}.{os.getpid()}"
        handle = os.open(
            new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._handle
        )
        with open(handle, "wb") as stream:
            stream.write(content)
        os.rename(new, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def close(self) -> None:
        """Close the folder. Calls run in processes of their own, which end."""
        os.close(self._handle)

    def sources(self) -> dict[str, tuple[bool, str]]:
        """The code. Raises OSError, ValueError and Unusable."""
        return unpacked(self.read(SOURCES))


def own(status: os.stat_result, path: str) -> None:
    """Raise Unusable if another user could have written this."""
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise Unusable(f"{path} is another user's, or others may write it")


def install(key: str, content: bytes, path: str) -> None:
    """Create the copy, in place of a damaged one. `content`: the file `sources`. Raises Unusable."""
    import tempfile
    import time

    if digest(unpacked(content)) != key:
        raise Unusable("the code that arrived is not the code that was sent")
    parent = os.path.dirname(path)
    try:
        os.makedirs(parent, mode=0o700, exist_ok=True)
        own(os.stat(parent), parent)
        new = tempfile.mkdtemp(prefix=".new-", dir=parent)
        try:
            Copy(new).write(SOURCES, content)
            remove(path)
            os.rename(new, path)
        finally:
            remove(new)
        for other in os.scandir(parent):
            if other.path != path and other.stat(follow_symlinks=False).st_mtime < time.time() - UNUSED:
                remove(other.path)
    except OSError as error:
        raise Unusable(str(error)) from error


def remove(path: str) -> None:
    """Remove a copy: a folder of files. What cannot be removed stays."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            os.unlink(entry.path)
        os.rmdir(path)


class Finder:
    """Imports from the compiled code of an earlier run of the same module; what is missing there is compiled."""

    def __init__(self, copy: Copy, module: str) -> None:
        self._copy = copy
        self._name = f"{module}.{sys.implementation.cache_tag}-{MAGIC_NUMBER.hex()}.code"
        self._codes: dict[str, tuple[bool, types.CodeType | None]] = {}
        self._sources: dict[str, tuple[bool, str]] | None = None
        self._changed = False
        # Without it, or with a damaged one, all is compiled.
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            self._codes = marshal.loads(copy.read(self._name))

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module of this collection, or None."""
        if fullname not in self._codes:
            if not f"{_PLUGINS}.".startswith(f"{fullname}.") and not fullname.startswith(f"{_PLUGINS}."):
                return None
            self._compile(fullname)
        if fullname not in self._codes:
            return None
        package, _code = self._codes[fullname]
        loader: Any = self
        spec = ModuleSpec(fullname, loader, origin=_place(fullname), is_package=package)
        spec.has_location = True
        return spec

    def get_code(self, fullname: str) -> types.CodeType | None:
        """The compiled code of a module; a package without a file has none."""
        return self._codes[fullname][1]

    def get_source(self, fullname: str) -> str:
        """The source of a module, for tracebacks and `inspect`."""
        return self._all()[fullname][1]

    def is_package(self, fullname: str) -> bool:
        """Whether the module is a package."""
        return self._codes[fullname][0]

    def create_module(self, spec: Any) -> None:
        """Let Python create the module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the code of a module in it."""
        code = self.get_code(module.__name__)
        if code is not None:
            exec(code, module.__dict__)  # noqa: S102  # this is what an importer does

    def save(self) -> None:
        """Keep what was compiled for the next run. A home without space only costs time."""
        if self._changed:
            with contextlib.suppress(OSError):
                self._copy.write(self._name, marshal.dumps(self._codes))

    def _all(self) -> dict[str, tuple[bool, str]]:
        if self._sources is None:
            self._sources = self._copy.sources()
        return self._sources

    def _compile(self, name: str) -> None:
        sources = self._all()
        if name in sources:
            package, text = sources[name]
            code = compile(text, _place(name), "exec", dont_inherit=True)
        elif any(other.startswith(f"{name}.") for other in sources):
            package, code = True, None
        else:
            return
        self._codes[name] = (package, code)
        self._changed = True


def _place(name: str) -> str:
    """What tracebacks show as the file of a module."""
    return f"/nonexistent/{name.replace('.', '/')}.py"


class PlainModule:
    """Stands in for Ansible's AnsibleModule. Its options were checked on the controller."""

    #: The call that the controller sent.
    call: dict[str, Any]

    def __init__(self, **_options: Any) -> None:
        call = self.call
        self.params: dict[str, Any] = {**call["options"]}
        self.check_mode = bool(call["check_mode"])
        self._warnings: list[str] = []
        for name in call["paths"]:
            value = self.params[name]
            self.params[name] = [_expanded(path) for path in value] if isinstance(value, list) else _expanded(value)

    def warn(self, warning: str, **_options: Any) -> None:
        """Show a warning with the result."""
        self._warnings.append(warning)

    def exit_json(self, **result: Any) -> NoReturn:
        """End with a result."""
        self._end({"changed": False, **result}, 0)

    def fail_json(self, msg: str, **result: Any) -> NoReturn:
        """End with an error."""
        self._end({"changed": False, **result, "failed": True, "msg": msg}, 1)

    def _end(self, result: dict[str, Any], status: int) -> NoReturn:
        if self._warnings:
            result["warnings"] = self._warnings
        sys.stdout.write(json.dumps(result, default=_plain) + "\n")
        raise SystemExit(status)


def _expanded(path: Any) -> Any:
    """A value of type `path` as Ansible expands it on the host."""
    return os.path.expanduser(os.path.expandvars(path)) if isinstance(path, str) else path


def _plain(value: Any) -> Any:
    """A value that JSON does not know, as Ansible sends it."""
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return dict(value) if hasattr(value, "keys") else str(value)


def run(call: dict[str, Any]) -> int:
    """Run a module and print its result. Returns the exit code.

    `call`: `key`, `module` (its short name), `options`, `paths` (the names of options of type path), `check_mode`, and
    `archive` (base64) if the host has no copy of the code.
    """
    try:
        path = folder_of(call["key"], os.environ)
        if call.get("archive"):
            import base64

            install(call["key"], base64.b64decode(call["archive"]), path)
        try:
            copy = Copy(path)
            finder = Finder(copy, call["module"])
            name = f"{_PLUGINS}.modules.{call['module']}"
            if finder.find_spec(name) is None:
                raise ValueError(f"{path} has no module {call['module']}")
        except (OSError, ValueError) as error:
            sys.stdout.write(f"{error}\n")
            return MISSING
    except Unusable as error:
        sys.stdout.write(f"{error}\n")
        return UNUSABLE
    sys.meta_path.insert(0, finder)
    PlainModule.call = call
    for package in ("ansible", "ansible.module_utils"):
        sys.modules[package] = types.ModuleType(package)
    basic = types.ModuleType("ansible.module_utils.basic")
    basic.AnsibleModule = PlainModule  # type: ignore[attr-defined]
    sys.modules[basic.__name__] = basic
    sys.stdout.write(STARTED + "\n")
    sys.stdout.flush()
    try:
        # Little of what a module imports and makes is ever garbage, even of thousands of launches.
        gc.set_threshold(50_000)
        __import__(name)
        sys.modules[name].main()
        return 0
    except SystemExit as error:
        return int(error.code or 0)
    finally:
        sys.stdout.flush()
        finder.save()
