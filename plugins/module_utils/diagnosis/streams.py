# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reader remembers while it reads a file: the open traceback of each stream, and which events are kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import phrases
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import Event, FileEvents
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import Line, time_of
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import ECHO, RAISED, WEAK

KEPT = 12
# A file of very many runs keeps so many events, and then only the newest of each family and stream.
MOST = 4000
# The strength of an exception that carries another one: it counts only where that one is not in the log.
CARRIER = RAISED - 1
# The reason of such an exception may stand up to so many lines below it.
BELOW = 8
# After this many steps in a row whose loss is no number, the loss counts as NaN.
NAN_LINES = 3
TEXT_KEPT = 2000
# Of the frames of a long traceback, at least so many characters are kept from each end.
FRAMES_KEPT = 2000


def carried(text: str, stream: Stream, file_events: FileEvents) -> None:
    """Weaken an exception whose message goes on with the traceback of another one: it only carries that one."""
    goes_on = (
        stream.since <= 2
        and not stream.after
        and not text.startswith(("Traceback", "C++ Traceback", "\u256d", "\u2570"))
    )
    if 0 <= stream.raised < len(file_events.events) and goes_on:
        event = file_events.events[stream.raised]
        file_events.events[stream.raised] = replace(event, strength=min(event.strength, CARRIER))
        stream.open_traceback, stream.headers = True, 1
    stream.raised = -1


def explained(event: Event, stream: Stream, file_events: FileEvents) -> None:
    """Weaken an exception that only carries the reason which its library prints below it."""
    if not (0 <= stream.raised < len(file_events.events) and WEAK < event.strength < CARRIER):
        return
    carrier = file_events.events[stream.raised]
    if carrier.strength == CARRIER and 0 < event.line - carrier.line <= BELOW:
        file_events.events[stream.raised] = replace(carrier, strength=WEAK)


def outlived(text: str, file_events: FileEvents) -> None:
    """Weaken what NCCL warned of in a process whose communicator was completed after it."""
    process = text.partition(" ")[0].rpartition(":")[0]
    for place, event in enumerate(file_events.events):
        if event.strength > ECHO and "NCCL WARN" in event.text and process and event.text.startswith(process + ":"):
            file_events.events[place] = replace(event, strength=ECHO)


@dataclass
class Stream:
    """The lines of one rank and node: the traceback that is open, and what the last lines were."""

    open_traceback: bool = False
    ignored: bool = False
    frames: str = ""
    after: str = ""
    indented: bool = False
    wrapped: bool = False
    # Open tracebacks: more than one where ranks without a prefix share the stream. The column of the frames.
    headers: int = 0
    column: int = 0
    # The index of the exception that ended the last traceback, while its message may go on.
    raised: int = -1
    # A class name whose message is on the next line, as another rank wrote in between.
    name: str = ""
    # The indices of this stream's last events, and the number of lines since the last of them.
    recent: list[int] = field(default_factory=list)
    since: int = 0
    # The newest line, and that before the open traceback; whether the latter says that the program recovers, or warns.
    last_text: str = ""
    before: str = ""
    lived_with: bool = False
    warned: bool = False
    # The open traceback has no header, or stands in a message: of a launcher, or of a logger. The line where it began,
    # the file of its outermost frame, whether that is the program itself, and whether Python runs it as a module.
    headless: bool = False
    quoted: bool = False
    logged: bool = False
    began: int = 0
    script: str = ""
    top: bool = False
    module: bool = False
    # The traceback is that of a thread: the program goes on without it. Threads whose traceback is still to come.
    thread: bool = False
    threads: int = 0
    # The frames of the traceback that ended last.
    ended: str = ""

    def opened(self, line: int, *, headless: bool = False, quoted: bool = False) -> None:
        """A traceback begins at this line."""
        self.open_traceback, self.frames, self.indented, self.column = True, "", False, 0
        self.headless, self.quoted, self.logged = headless, quoted, False
        self.began, self.script, self.top, self.module = line, "", False, False
        self.before = self.before if self.after else ""

    def introduced(self) -> None:
        """Note what the line before a traceback says of it, or of the chain that it belongs to."""
        chained = bool(self.after)
        self.before = self.before if chained else self.last_text
        self.lived_with = phrases.recovers(self.last_text) or (self.lived_with and chained)
        self.warned = "WARNING" in self.last_text[:160] or (self.warned and chained)

    def more(self, text: str) -> None:
        """A line of the frames of the open traceback."""
        self.frames += text + "\n"
        if len(self.frames) > 4 * FRAMES_KEPT:
            self.frames = f"{self.frames[:FRAMES_KEPT]}\n{self.frames[-FRAMES_KEPT:]}"

    def closed(self, text: str) -> None:
        """An exception ends the innermost open traceback."""
        self.wrapped = self.headless = False
        self.headers = max(0, self.headers - 1)
        self.open_traceback, self.after, self.ignored, self.column = self.headers > 0, "", False, 0
        self.ended = self.frames
        self.frames = self.frames if self.headers else ""
        self.name = text.rstrip(": ") if self.headers and phrases.BARE.match(text) else ""

    @property
    def is_program(self) -> bool:
        """Whether the outermost frame is that of the program: not of a thread, a launcher or a child's start."""
        child = self.script.startswith("<string") and "spawn" in self.ended
        return self.top and not (self.thread or self.quoted or child)

    @property
    def is_caught(self) -> bool:
        """Whether the traceback begins in a function: it was caught there and logged."""
        quoted = self.quoted and not self.logged
        return bool(self.script) and not (self.top or self.thread or quoted or self.script.startswith("<string"))

    def frame(self, text: str, line: int) -> None:
        """A frame of a traceback. Outside of one it begins one whose header is missing or has other words."""
        if not self.open_traceback and phrases.CALL.match(text):
            self.headers = 1
            self.opened(line, headless=True)
        outermost = phrases.OUTERMOST.match(text)
        if outermost and "runpy" in outermost[0]:
            self.module = True
        elif outermost and not self.script:
            # A library that is imported catches what it raises itself; one that is run as a program does not.
            own = self.module or "-packages" not in outermost[0]
            self.script = outermost["file"] or outermost["boxed"]
            self.top = own and (outermost["function"] or outermost["called"]) in (None, "<module>")


class Kept:
    """Keeps the first events of each family and stream in each run, and the newest one, which may be the end."""

    def __init__(self, file_events: FileEvents) -> None:
        self.counts: Counter[tuple[str, int | None, str | None]] = Counter()
        self._events = file_events.events
        self._newest: dict[tuple[str, int | None, str | None], Event] = {}

    def add(self, event: Event) -> bool:
        """Whether the event is one of the first."""
        key = (event.family, event.rank, event.node)
        self.counts[key] += 1
        if self.counts[key] <= KEPT and len(self._events) < MOST:
            self._events.append(event)
            return True
        if event.strength > ECHO:
            self._newest[key] = event
        return False

    def forget(self, event: Event) -> None:
        """The event is not counted: the program went on after it."""
        self.counts[event.family, event.rank, event.node] -= 1

    def settle(self) -> None:
        """Insert the newest ones where they belong."""
        self._events += self._newest.values()
        self._events.sort(key=lambda event: event.line)


@dataclass
class Nan:
    """The current series of steps whose loss is no number. Steps that loss scaling skips do not count."""

    lines: int = 0
    first: Event | None = None

    def see(self, line: Line, run: int) -> None:
        """Take account of a line."""
        if ("nan" in line.text or "NaN" in line.text) and phrases.is_nan_loss(line.text):
            if not self.lines:
                text = line.text[:TEXT_KEPT]
                self.first = Event(
                    "nan_loss", WEAK + 2, text, line.number, rank=line.rank, node=line.node, time=time_of(text), run=run
                )
            self.lines += 1
        elif self.lines and phrases.LOSS.search(line.text):
            self.lines = 0

    def settle(self, file_events: FileEvents) -> None:
        """Insert the first of these steps where the loss stayed no number until the end."""
        if self.lines >= NAN_LINES and self.first is not None:
            first = replace(self.first, file=file_events.file, progress=file_events.progress)
            file_events.events = sorted([*file_events.events, first], key=lambda event: event.line)
