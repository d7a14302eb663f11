# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datasets through other programs: rsync and the hub's library fill a folder, rclone streams each file."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import shutil
import subprocess
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import last_bytes
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Item, Parts
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.base import (
    Changed,
    Source,
    Streams,
    read_blocks,
    together,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.fetch import Hub
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.layout import repository
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import plain
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

_TICK = 0.5
_PLACES = f"{os.environ.get('PATH', os.defpath)}:/usr/local/bin:/usr/bin:/bin"


def program(name: str, source: str) -> str:
    """The path of a program on this host. Raises RankzeroError that names the package."""
    path = shutil.which(name, path=_PLACES)
    if path is None:
        raise RankzeroError(
            f"source: {source} needs the command {name}, which is not on this host. Install the package {name} (it has "
            "that name in Debian, Ubuntu, Fedora, RHEL and SUSE), or choose another source."
        )
    return path


class Folders(Source):
    """A source that transfers files into a separate folder, where a killed run leaves them under their names."""

    @abstractmethod
    def fetch(self, items: Sequence[Item], folder: str) -> int | None:
        """Transfer these files; returns the bytes moved, if the program reports them. Raises RankzeroError, OSError."""

    @abstractmethod
    def landing(self, parts: Parts) -> str:
        """The folder that files are transferred into."""

    def begun(self, item: Item, parts: Parts) -> int:
        """Bytes of the item that an earlier run left in the landing folder."""
        try:
            return os.path.getsize(os.path.join(self.landing(parts), item.path))
        except OSError:
            return 0

    def bring(self, items: Sequence[Item], parts: Parts, meter: Meter) -> list[Item]:
        """Transfer all items into the landing folder, then move each into `parts`. Raises RankzeroError and OSError."""
        if not items:
            return []
        folder = self.landing(parts)
        os.makedirs(folder, exist_ok=True)
        before = meter.moved
        with ThreadPoolExecutor(max_workers=1) as pool:
            running = pool.submit(self.fetch, items, folder)
            self._watch(running, folder, meter)
        moved = running.result()
        if moved is not None:
            meter.moved = before + moved
        for item in items:
            path = os.path.join(folder, item.path)
            if os.path.islink(path) or not os.path.isfile(path):
                raise RankzeroError(f"src: {item.path} of {self.label} is not a file; exclude it")
            os.replace(path, parts.growing(item))
        with contextlib.suppress(OSError):
            remove_tree(folder)
        return list(items)

    @staticmethod
    def _watch(running: Future[Any], folder: str, meter: Meter) -> None:
        """Count the growth of the folder."""
        last = _total(folder)
        while not wait([running], timeout=_TICK).done:
            now = _total(folder)
            meter.count(max(0, now - last))
            last = max(now, last)
        meter.count(max(0, _total(folder) - last))


def _total(folder: str) -> int:
    total = 0
    for place, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except OSError:  # the file was renamed meanwhile
                continue
    return total


class HubFiles(Folders):
    """A dataset of the Hugging Face hub, through the hub's own library. A commit never changes."""

    def __init__(self, src: str, revision: str | None, python: str | None, token_file: str | None) -> None:
        self.where = repository("", src, "dataset", revision or "main")
        self.hub = Hub(python or "python3", token_file, "fetch it elsewhere and use source: controller or rsync")
        self.label = src
        self.commit = ""

    def listing(self, wanted: Callable[[str], bool]) -> list[Item]:
        """The files of the revision, which is resolved to its commit here."""
        self.commit, names = self.hub.list_files(self.where)
        return [Item(plain(name), None, None, self.commit) for name in names if wanted(name)]

    def landing(self, parts: Parts) -> str:
        """One folder per commit, so that files of two commits never mix."""
        return f"{parts.folder}.hub-{self.commit}"

    def fetch(self, items: Sequence[Item], folder: str) -> int | None:
        """Transfer through the hub library, which does not report the bytes moved."""
        # The library expects patterns: escape their special characters.
        names = [re.sub(r"([*?[])", r"[\1]", item.path) for item in items]
        self.hub.download(self.where, self.commit, folder, names, ())
        return None


class Rsync(Folders):
    """A file or folder of another host. Parts that are already here are not sent again (--inplace, rsync(1))."""

    def __init__(self, src: str) -> None:
        # ssh would interpret a user or host that begins with - as an option.
        if not re.fullmatch(r"rsync://[^/]+/.+|(?:[^-@/:][^@/:]*@)?[^-@/:][^@/:]*::?.+", src, re.DOTALL):
            raise RankzeroError(
                f"src: {src!r} is not an rsync source; give host:/path, user@host:/path or rsync://host/module/path"
            )
        self.src, self.label = src.rstrip("/"), src
        self.single = False
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        self.words = [program("rsync", "rsync"), "--timeout=300"]
        if not re.match("rsync://|[^/:]+::", src) and "RSYNC_RSH" not in self.environment:
            # Nobody can type a password.
            self.words += ["-e", "ssh -o BatchMode=yes"]

    def landing(self, parts: Parts) -> str:
        """One folder, in which rsync resumes its transfers."""
        return f"{parts.folder}.rsync"

    def listing(self, wanted: Callable[[str], bool]) -> list[Item]:
        """The files below `src`. Raises RankzeroError for a link that leads out of it."""
        listed = ["--list-only", "--recursive", "--links", "--8-bit-output", "--no-human-readable", "--no-motd"]
        done = self._run([*listed, f"{self.src}/"])
        if done.returncode and re.search(r"Not a directory|change_dir", done.stderr):
            self.single = True
            done = self._run([*listed, self.src])
        if done.returncode:
            raise self._failed(done)
        items = []
        for line in done.stdout.splitlines():
            match = re.fullmatch(r"([-dl])\S+ +([0-9]+) (\S+ \S+) (.*)", line)
            if not match or match[1] == "d":
                continue
            name, _arrow, target = match[4].partition(" -> ") if match[1] == "l" else (match[4], "", "")
            if not wanted(name):
                continue
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
            if match[1] == "l" and (target.startswith("/") or inside.split("/")[0] == ".."):
                raise RankzeroError(
                    f"src: {self.label}/{name} is a link to a path outside of the folder, {target}; put what is meant "
                    "in its place, or leave it out (exclude)"
                )
            # For the target of a link, neither size nor time is listed.
            known = (int(match[2]), None, f"{match[3]} {match[2]}") if match[1] == "-" else (None, None, "")
            items.append(Item(plain(name), *known))
        return items

    def fetch(self, items: Sequence[Item], folder: str) -> int | None:
        """Run up to `parallel` rsync processes, each with a share of the items."""
        shares = [items[start :: self.parallel] for start in range(min(self.parallel, len(items)))]
        return sum(together(lambda share: self._share(share, folder), shares, self.parallel))

    def _share(self, items: Iterable[Item], folder: str) -> int:
        words = ["--inplace", "--partial", "--no-whole-file", "--copy-links", "--times", "--stats"]
        words += ["--no-human-readable", "--no-motd"]
        if self.single:
            done = self._run([*words, self.src, f"{folder}/"])
        else:
            names = "\0".join(item.path for item in items)
            done = self._run([*words, "--files-from=-", "--from0", f"{self.src}/", f"{folder}/"], names)
        if done.returncode:
            raise self._failed(done)
        received = re.search(r"Total bytes received: ([0-9]+)", done.stdout)
        return int(received[1]) if received else 0

    def _run(self, words: Sequence[str], text: str = "") -> children.Ended:
        return children.run([*self.words, *words], self.environment or os.environ, stdin=os.fsencode(text))

    def _failed(self, done: children.Ended) -> RankzeroError:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        message = next((line for line in lines if not line.startswith("rsync error")), f"exit code {done.returncode}")
        advice = "The part that was transferred is kept; run again to resume"
        if re.search(r"Permission denied \(|Host key verification|Could not resolve|Connection refused", done.stderr):
            advice = "Log in there once by ssh from this host, as the same user and without a password; then run again"
        elif "No such file or directory" in done.stderr or "Unknown module" in done.stderr:
            advice = "Mend src"
        elif "rsync: command not found" in done.stderr or "rsync: not found" in done.stderr:
            advice = "Install rsync on that host, too"
        return RankzeroError(f"src: {self.label} cannot be read by rsync ({done.returncode}): {message}. {advice}.")


class Objects(Streams):
    """A bucket, or any other `remote:path` of rclone, with this host user's settings for it."""

    def __init__(self, src: str) -> None:
        # The text after a comma holds settings of the remote, and some settings run commands.
        if not re.match(r"(?:[^-/:,][^/:,]*|:[a-z0-9]+):", src):
            raise RankzeroError(
                f"src: {src!r} is not an rclone path; give remote:path without settings, with the remote as "
                "`rclone listremotes` names it"
            )
        self.src, self.label = src.rstrip("/"), src
        self.rclone = program("rclone", "object")
        self.single = False

    def listing(self, wanted: Callable[[str], bool]) -> list[Item]:
        """The objects below `src`, or `src` itself if it is an object."""
        entries = self._json(self.src, "--recursive", "--files-only")
        # The listing of a file contains the file itself.
        self.single = len(entries) == 1 and self.src.rsplit(":", 1)[-1].rsplit("/", 1)[-1] == entries[0]["Path"]
        if self.single:
            self.single = not self._json(self.src, "--stat").get("IsDir", False)
        return [_object(entry) for entry in entries if wanted(entry["Path"])]

    @contextmanager
    def open(self, item: Item, offset: int) -> Iterator[tuple[int, Iterable[bytes]]]:
        """A stream of `rclone cat`. Raises Changed if the object is no longer the one that was listed."""
        path = self.src if self.single else f"{self.src}{'' if self.src.endswith(':') else '/'}{item.path}"
        if offset:
            now = _object(self._json(path, "--stat"))
            if (now.size, now.stamp) != (item.size, item.stamp):
                raise Changed(Item(item.path, now.size, item.sha256, now.stamp))
        words = [self.rclone, "cat", "--offset", str(offset), "--retries", "1", path]
        # pylint: disable-next=ansible-bad-function
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            try:
                yield offset, read_blocks(process.stdout)
                output = last_bytes(process.stderr)
                if process.wait():
                    raise OSError(_last(output.decode("utf-8", "replace"), process.returncode))
            finally:
                process.kill()

    def _json(self, path: str, *options: str) -> Any:
        words = [self.rclone, "lsjson", *options, path]
        done = children.run(words, os.environ)
        if done.returncode == 0:
            return json.loads(done.stdout)
        message = _last(done.stderr, done.returncode)
        advice = "Run again; what has come is kept"
        if "didn't find section in config file" in done.stderr:
            advice = "Set it up for this host's user with `rclone config`, or correct src"
        elif re.search(r"(directory|object|bucket) not found", done.stderr, re.IGNORECASE):
            advice = "Mend src"
        elif re.search(r"AccessDenied|403|401|Unauthorized", done.stderr):
            advice = "Its settings (`rclone config`) lack the permission to list and read it"
        raise RankzeroError(f"src: {self.label} cannot be read by rclone: {message}. {advice}.")


def _object(entry: dict[str, Any]) -> Item:
    size = int(entry["Size"])
    return Item(plain(entry["Path"]), size if size >= 0 else None, None, f"{entry.get('ModTime', '')} {size}")


def _last(text: str, code: int) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = lines[-1] if lines else f"exit code {code}"
    return re.sub(r"^[0-9/]+ [0-9:]+ +(?:(?:ERROR|NOTICE|CRITICAL|INFO) *: *)?", "", message)
