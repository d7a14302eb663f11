# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files to events: which files are logs, and how each is read. Small ones whole, big ones through a prefilter.

The prefilter is ripgrep or grep with the fixed strings of all families: Python then thinks about candidate lines only.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.events import ECHO_NEEDLES, FileEvents, Reader
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import Signature
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES

# From this size on a file goes through the prefilter, where there is one.
BIG = 1 << 20
# A grep that meets a file without line ends would hold all of it.
GREP_MEMORY = 1 << 30
# What lets Python follow tracebacks, progress and the end of a run, beyond the families' own strings.
STRUCTURE = ("Traceback (most", "Error", "Exception", "Interrupt", "the above exception", "The above exception")


@dataclass
class Scan:
    """What was read. `unreadable`: file -> why; the rest is analysed even so."""

    logs: list[FileEvents] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
    signatures: Sequence[Signature] = SIGNATURES


def needles(signatures: Sequence[Signature] = SIGNATURES) -> list[str]:
    """The fixed strings that the prefilter looks for."""
    own = {needle for signature in signatures for match in signature.matches for needle in match.needles}
    return sorted(own | set(ECHO_NEEDLES) | set(STRUCTURE))


def find_logs(path: str) -> list[str]:
    """The file itself, or every regular file below a folder that may be a log, sorted by path."""
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(folder, name) for name in sorted(names) if _may_be_a_log(name)]
    return found


def _may_be_a_log(name: str) -> bool:
    stem = name[: -len(".gz")] if name.endswith(".gz") else name[: -len(".zst")] if name.endswith(".zst") else name
    if name.startswith("."):
        return False
    return "." not in stem or stem.endswith((".log", ".out", ".err", ".txt", ".stdout", ".stderr")) or ".log." in stem


def scan_file(path: str, signatures: Sequence[Signature] = SIGNATURES) -> FileEvents:
    """Read one log. Raises `OSError` where it cannot be read."""
    reader = Reader(signatures)
    if not os.path.isfile(path):
        raise OSError("is no regular file" if os.path.exists(path) else "does not exist")
    if os.path.getsize(path) >= BIG and not lines.packed(path):
        candidates = _prefiltered(path, needles(signatures))
        if candidates is not None:
            return reader.read(path, candidates)
    try:
        with lines.opened(path) as stream:
            return reader.read(path, lines.parse(lines.raw_lines(stream)))
    except EOFError as error:
        raise OSError(f"is cut short: {error}") from error


def _prefiltered(path: str, strings: Sequence[str]) -> Iterable[lines.Line] | None:
    """The candidate lines of a big file, or None where it must be read whole."""
    tool = shutil.which("rg") or shutil.which("grep")
    if tool is None or not _has_line_ends(path):
        return None
    with tempfile.NamedTemporaryFile("w", prefix="rankzero-needles-", encoding="utf-8") as wanted:
        wanted.write("\n".join(strings) + "\n")
        wanted.flush()
        options = ["-a", "-n", "-F", "-f", wanted.name]
        quiet = ["--no-config", "--no-filename", "--color=never"] if tool.endswith("rg") else ["-h"]
        with tempfile.TemporaryFile(prefix="rankzero-candidates-") as kept:
            done = subprocess.run(
                [tool, *quiet, *options, "--", path],
                stdout=kept,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
                preexec_fn=_limit_memory,
                check=False,
            )
            if done.returncode > 1:
                return None
            kept.seek(0)
            return list(_numbered(lines.raw_lines(kept)))


def _limit_memory() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (GREP_MEMORY, hard))


def _has_line_ends(path: str) -> bool:
    with open(path, "rb") as stream:
        return b"\n" in stream.read(lines.BLOCK)


def _numbered(found: Iterable[bytes]) -> Iterator[lines.Line]:
    for line in found:
        number, _colon, text = line.partition(b":")
        if number.isdigit():
            yield lines.parse_line(int(number), text)


def _attempt(path: str, signatures: Sequence[Signature]) -> tuple[str, FileEvents | None, str]:
    try:
        return path, scan_file(path, signatures), ""
    except OSError as error:
        return path, None, error.strerror or str(error)


def scan(paths: Sequence[str], processes: int = 1, signatures: Sequence[Signature] = SIGNATURES) -> Scan:
    """Read all logs, on several processes where there is much. Files that cannot be read are named."""
    result = Scan(signatures=signatures)
    attempt = functools.partial(_attempt, signatures=signatures)
    for path in paths:
        try:
            result.bytes += os.path.getsize(path)
        except OSError:
            continue
    if processes > 1 and len(paths) > 1 and result.bytes >= BIG:
        # Forked: a fresh interpreter would not know the archive that a shipped module runs from.
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
            found = list(pool.map(attempt, paths, chunksize=max(1, len(paths) // (processes * 8))))
    else:
        found = [attempt(path) for path in paths]
    for path, log, problem in found:
        if log is None:
            result.unreadable[path] = problem
        else:
            result.logs.append(log)
    return result
