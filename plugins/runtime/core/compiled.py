# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs of the runtime import, compiled: one file for each Python in the state root's cache, which the
first job that has ended leaves for those after it. Without it each program of each job compiles its sources anew, and
asks shared storage for each of them: of CPU time the conductor then needs 2.0 times as much to start, the preflight
1.5, collector and sampler 1.3 times. A file that is not whole, or not this user's alone, is no file. Standard library
only.

The file begins with two numbers, the size of the index and its checksum. The index has place, size and checksum of the
code of each source; what a program imports is read.
"""

from __future__ import annotations

import marshal
import os
import stat
import struct
import sys
import zlib
from importlib.machinery import ModuleSpec, SourceFileLoader

_HEAD = struct.Struct(">LL")


def compiled_path(runtime: str) -> str:
    """Where the file is for this Python and this runtime, whose name is the digest of its sources."""
    state, digest = os.path.dirname(os.path.dirname(runtime)), os.path.basename(runtime)
    return os.path.join(state, "cache", "runtime", f"{digest}.{sys.implementation.cache_tag}-{sys.hexversion:x}")


class Loader(SourceFileLoader):
    """Loads a module whose code is there already. Its file is still its source, which a traceback shows."""

    def __init__(self, name: str, path: str, code: bytes) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        return marshal.loads(self.code)


class Finder:
    """Finds the modules of the runtime in an open file."""

    def __init__(self, runtime: str, file: int, start: int, index: dict[str, tuple[int, int, int]]) -> None:
        """`index`: relative path of a source -> place after `start`, size and checksum of its code."""
        self.runtime, self.file, self.start, self.index = runtime, file, start, index

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """As an import asks it; None for what is not in the file, or not as it was written."""
        relative = name.replace(".", "/")
        source = next((each for each in (f"{relative}.py", f"{relative}/__init__.py") if each in self.index), "")
        start, size, check = self.index.get(source, (0, 0, 0))
        code = os.pread(self.file, size, self.start + start) if source else b""
        if not code or zlib.crc32(code) != check:
            return None
        path = os.path.join(self.runtime, source)
        spec = ModuleSpec(name, Loader(name, path, code), origin=path, is_package=source.endswith("__init__.py"))
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(os.path.dirname(path))
        return spec


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody else can have written a file, or put one into a folder."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def use(runtime: str) -> None:
    """Let this program import from the file, if it is there."""
    path = compiled_path(runtime)
    try:
        folder = os.stat(os.path.dirname(path), follow_symlinks=False)
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        status = os.fstat(file)
        if stat.S_ISREG(status.st_mode) and _is_ours(folder) and _is_ours(status):
            size, check = _HEAD.unpack(os.pread(file, _HEAD.size, 0))
            index = os.pread(file, size, _HEAD.size) if size < status.st_size else b""
            if zlib.crc32(index) == check:
                sys.meta_path.insert(0, Finder(runtime, file, _HEAD.size + size, marshal.loads(index)))
                return
    except (OSError, ValueError, struct.error):
        pass
    os.close(file)


def keep(runtime: str) -> None:
    """Leave the file for the jobs after this one, unless it is there. Raises OSError."""
    path = compiled_path(runtime)
    # A runtime that is no state root's, such as a checkout, is nobody's to keep.
    if os.path.basename(os.path.dirname(runtime)) != "runtime" or os.path.exists(path):
        return
    # The programs that only use the file need not load this.
    from core import files

    codes = {}
    for room in ("", *(name for name in os.listdir(runtime) if os.path.isdir(os.path.join(runtime, name)))):
        for name in os.listdir(os.path.join(runtime, room)):
            if name.endswith(".py"):
                source = os.path.join(runtime, room, name)
                with open(source, "rb") as stream:
                    compiled = compile(files.whole(stream, source), source, "exec")
                codes[os.path.join(room, name)] = marshal.dumps(compiled)
    index: dict[str, tuple[int, int, int]] = {}
    start = 0
    for name, code in codes.items():
        index[name] = (start, len(code), zlib.crc32(code))
        start += len(code)
    data = marshal.dumps(index)
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    temporary = f"{path}.{os.uname().nodename}-{os.getpid()}"
    with open(temporary, "xb") as stream:
        os.fchmod(stream.fileno(), 0o644)
        stream.write(_HEAD.pack(len(data), zlib.crc32(data)) + data + b"".join(codes.values()))
    os.replace(temporary, path)
