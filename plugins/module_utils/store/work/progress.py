# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of long work on the host, such as staging a dataset: counted by several threads, read by another."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

BRINGING = "bringing"


@dataclass(frozen=True)
class Reading:
    """What a meter shows: `bytes` of `size` are present; `done` of them were counted in `seconds`.

    `written`: the bytes that were written in the phase, for phases that count none. `unit`: what is counted as files.
    """

    phase: str
    size: int
    bytes: int
    done: int
    files: int
    files_done: int
    seconds: float
    unit: str = "files"
    written: int = 0
    notes: Sequence[str] = ()


class Meter:
    """Bytes and files of a phase, bytes from the source in all phases, and notes for the user.

    `written`: the bytes that this process and the programs it runs have written so far, for phases that count none.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, written: Callable[[], int] = lambda: 0) -> None:
        self._clock = clock
        self._written = written
        self._unit = "files"
        self._measure: Callable[[], int] | None = None
        self._lock = threading.Lock()
        self._began = clock()
        self._before = written()
        self._phase = "looking"
        self._size = self._there = self._done = 0
        self._files = self._files_done = 0
        #: Bytes transferred from the source.
        self.moved = 0
        self.notes: list[str] = []

    def begin(
        self,
        phase: str,
        *,
        size: int = 0,
        there: int = 0,
        files: int = 0,
        files_done: int = 0,
        unit: str = "files",
        measure: Callable[[], int] | None = None,
    ) -> None:
        """Begin a phase with this many bytes and files, some of which are already present.

        `unit`: what is counted instead of files. `measure` counts those that are done, where another program does them.
        """
        with self._lock:
            self._unit, self._measure, self._before = unit, measure, self._written()
            self._phase, self._size, self._there, self._done = phase, size, there, 0
            self._files, self._files_done = files, files_done
            self._began = self._clock()

    def count(self, size: int, files: int = 0) -> None:
        """Count more bytes and files."""
        with self._lock:
            self._done += size
            self._files_done += files
            self.moved += size if self._phase == BRINGING else 0

    def lose(self, size: int) -> None:
        """Subtract bytes that were present but cannot be used."""
        with self._lock:
            self._there -= size

    def note(self, sentence: str) -> None:
        """Add a note for the user; each note is kept once."""
        with self._lock:
            if sentence not in self.notes:
                self.notes.append(sentence)

    def reading(self) -> Reading:
        """The data for a display."""
        with self._lock:
            return Reading(
                phase=self._phase,
                size=self._size,
                bytes=self._there + self._done,
                done=self._done,
                files=self._files,
                files_done=self._counted(),
                seconds=self._clock() - self._began,
                unit=self._unit,
                written=max(0, self._written() - self._before),
                notes=list(self.notes),
            )

    def _counted(self) -> int:
        # What is counted may be moved meanwhile.
        with contextlib.suppress(OSError):
            return self._measure() if self._measure else self._files_done
        return self._files_done
