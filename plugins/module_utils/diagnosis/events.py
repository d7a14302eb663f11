# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn log lines into typed events with their positions. Does not decide on causes.

A reader of one file keeps one open traceback per stream (rank and node) and at most KEPT events per family and stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import last_words, phrases
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import (
    LAUNCHER,
    UNEXPLAINED,
    Event,
    FileEvents,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import GAP, STEP_BAR, Line, time_of
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.needles import Index
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.runs import Runs
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    ANYWHERE,
    CAUSE,
    DECISIVE,
    ECHO,
    HINT,
    MEANT,
    RAISED,
    WEAK,
    Match,
    Signature,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.streams import (
    CARRIER,
    TEXT_KEPT,
    Kept,
    Nan,
    Stream,
    carried,
    explained,
    outlived,
)

# Where an event's own line has no time, this many lines before it are searched for one.
RECENT = 40
# So many lines are searched for fixed strings together first.
TOGETHER = 128
# A traceback that a logger writes at one of these levels did not end the program.
_MINOR = ("WARNING", "INFO", "DEBUG", "W", "I")


def _count(line: Line, events: FileEvents) -> None:
    """Take account of what a line shows of its writers and of their progress bars."""
    events.lines = line.number
    if line.rank is not None:
        events.ranks.add(line.rank)
    if not events.several and (line.process or phrases.one_of(phrases.SEVERAL_WORDS, line.text)):
        events.several = bool(line.process or phrases.SEVERAL.search(line.text))
    if line.steps:
        events.bars, events.step_line = events.bars + line.steps, line.number


def _lived_with(stream: Stream, within: bool) -> bool:
    """Whether the line before an exception says that the program goes on. One of the program itself ends it."""
    return (stream.lived_with and not (within and stream.is_program)) or (within and stream.warned and stream.is_caught)


def _mark(line: Line, events: FileEvents) -> None:
    """Note what shows that a program runs, and how it ends: Hydra's report outweighs that of a part of its work."""
    text = line.text
    if "Warning: " in text and phrases.PYTHON_WARNS.match(text):
        events.ran = line.number
        events.labelled = line.number if line.rank is not None else events.labelled
    if phrases.one_of(phrases.DONE_WORDS, text) and phrases.DONE.search(text):
        events.done = line.number
    if text.startswith(phrases.HYDRA_FAILED):
        events.done = events.last_step = 0


class _Meaning(NamedTuple):
    """What a line means: family and strength of a wording, what its pattern captured, its remedy, sense and retry."""

    family: str
    strength: int
    groups: Mapping[str, str | None] = {}
    remedy: str = ""
    what: str = ""
    retry: bool | None = None


_LAUNCHER = _Meaning(LAUNCHER, ECHO)


class Reader:
    """Reads the lines of one file, in order, into events. `signatures` define the events."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._anywhere: list[tuple[Signature, Match]] = []
        self._raised: list[tuple[Signature, Match]] = []
        for signature in signatures:
            for match in signature.matches:
                (self._anywhere if match.where == ANYWHERE else self._raised).append((signature, match))
        # The fixed strings of all wordings, followed by those of the echoes.
        self._owners = [number for number, (_family, match) in enumerate(self._anywhere) for _needle in match.needles]
        self._index = Index(
            [*(needle for _family, match in self._anywhere for needle in match.needles), *phrases.ECHO_NEEDLES]
        )
        self._batch = self._index.batch(())
        # Where the newest step is in its line.
        self._step_at = 0

    def read(self, file: str, lines: Iterable[Line]) -> FileEvents:
        """The events of one file. `lines` may contain GAP where a part of the file was not read."""
        events = FileEvents(file)
        streams: dict[tuple[int | None, str | None, str], Stream] = {}
        heard: deque[Line] = deque(maxlen=RECENT)
        nan = Nan()
        runs = Runs(events)
        kept = Kept(events)
        for line in self._in_batches(lines):
            if line is GAP:
                # A traceback that was open before an unread part is not open after it.
                streams.clear()
                continue
            _count(line, events)
            if not line.text:
                continue
            heard.append(line)
            events.last = line.text[:TEXT_KEPT]
            if runs.begins(line):
                kept.counts.clear()
            stream = streams.get(line.stream)
            if stream is None:
                stream = streams[line.stream] = Stream()
            events.printed += 0 if stream.open_traceback else max(len(line.text), line.length)
            steps = events.progress
            event = self._event(line, stream, events)
            if events.progress > steps and runs.stepped(line, self._step_at):
                kept.counts.clear()
            stream.last_text = line.text
            if events.done == line.number:
                runs.finished()
            if event is None:
                nan.see(line, events.runs)
                self._recovered(line, stream, events, kept)
                continue
            if event.time is None:
                stamps = (time_of(other.stamp or other.text) for other in reversed(heard))
                event = replace(event, time=next(filter(None, stamps), None))
            if event.family == LAUNCHER and not any(known.run == events.runs for known in events.events):
                complaint = last_words.before_a_launcher(heard)
                if complaint:
                    meant = _Meaning(*complaint[1:3], {}, complaint.remedy, complaint.what)
                    events.events.append(self._made(complaint.line, events, meant))
            explained(event, stream, events)
            runs.note(event, stream)
            if kept.add(replace(event, run=events.runs)):
                stream.recent, stream.since = [*stream.recent, len(events.events) - 1], 0
        kept.settle()
        succeeded = last_words.succeeded(heard)
        if succeeded is not None:
            # The line of a logger is the program's own.
            events.echoed = not (events.finished or " INFO " in succeeded.text)
            events.done = succeeded.number
        events.complains = last_words.complains(heard)
        end = last_words.at_the_end(heard, streams.values(), events)
        if end:
            events.events.append(self._made(end.line, events, _Meaning(*end[1:3], {}, end.remedy, end.what)))
        nan.settle(events)
        return events

    def _in_batches(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines, after it is known of some of them which fixed strings may be in them."""
        rest = iter(lines)
        while batch := list(islice(rest, TOGETHER)):
            self._batch = self._index.batch([line.text for line in batch])
            yield from batch

    def _recovered(self, line: Line, stream: Stream, file_events: FileEvents, kept: Kept) -> None:
        """Weaken a complaint to a hint if its writer reports at once that it recovers."""
        # Lines of the next traceback do not count: several ranks may report an error in a row.
        if not stream.recent or stream.open_traceback:
            return
        recovers = phrases.recovers(line.text)
        for place in stream.recent if recovers else ():
            event = file_events.events[place]
            if HINT < event.strength < DECISIVE:
                file_events.events[place] = replace(event, strength=HINT)
                kept.forget(event)
                # It is not about the next one.
                stream.last_text = ""
        stream.since += 1
        if recovers or stream.since >= phrases.RECOVERY_LINES:
            stream.recent = []

    def _event(self, line: Line, stream: Stream, file_events: FileEvents) -> Event | None:
        text = line.text
        if "CANCELLED AT" in text and phrases.REQUEUED.search(text):
            file_events.requeued = True
        # A traceback within a quoted text is no header: its lines do not follow.
        if phrases.RECENT_CALL in text and phrases.HEADER.search(text) and phrases.ESCAPED not in text:
            carried(text, stream, file_events)
            stream.headers = stream.headers + 1 if stream.open_traceback and not stream.headless else 1
            stream.opened(line.number, quoted=not text.startswith(phrases.OWN_HEADER))
            stream.logged = stream.quoted and bool(phrases.LOGGED_ERROR.match(text))
            stream.thread = stream.threads > 0 or (stream.thread and bool(stream.after))
            stream.threads = max(0, stream.threads - 1)
            stream.introduced()
            return None
        if text[0] in " \t|\u2502\u256d\u2570":
            frame = phrases.FRAME.match(text)
            if frame and not stream.open_traceback:
                carried(text, stream, file_events)
            if frame or (stream.open_traceback and text[0] == "\u2502"):
                stream.frame(text, line.number)
            if stream.open_traceback:
                stream.indented = True
                stream.column = stream.column or (len(frame[1]) if frame else 0)
                stream.more(text)
                inner = len(text) - len(text.lstrip()) < stream.column and phrases.EXCEPTION.match(text.lstrip())
                if not stream.wrapped and not inner:
                    return None
        elif text.startswith((phrases.DURING, phrases.DIRECT)):
            stream.after = "during" if text.startswith(phrases.DURING) else "direct"
            return None
        elif stream.headless and not (phrases.EXCEPTION.match(text) or phrases.FULL_CLASS.match(text)):
            stream.open_traceback = stream.headless = False
        if phrases.IN_A_THREAD in text:
            stream.threads += text.count(phrases.IN_A_THREAD)
        if phrases.one_of(phrases.IGNORED_WORDS, text) and phrases.IGNORED.search(text):
            stream.ignored = True
            return None
        if "NCCL INFO" in text:
            if "Init COMPLETE" in text:
                outlived(text, file_events)
            return None
        _mark(line, file_events)
        if progress := phrases.progress(text) if phrases.one_of(phrases.PROGRESS_WORDS, text) else None:
            self._step_at = progress.start()
            file_events.progress += 1
            file_events.step_line = line.number
            file_events.bars += bool(STEP_BAR.match(text))
            if step := phrases.LAST_STEP.search(text, progress.start()):
                file_events.last_step = line.number if step[1] == step[2] else 0
            if file_events.requeued:
                file_events.runs, file_events.requeued = file_events.runs + 1, False
            if not phrases.one_of(phrases.BESIDE_PROGRESS, text):
                return None
        return self._exception(line, stream, file_events) or self._wording(line, file_events)

    def _exception(self, line: Line, stream: Stream, file_events: FileEvents) -> Event | None:
        text = self._last_line(line, stream, file_events)
        if not text:
            return None
        within, frames, after, ignored = stream.open_traceback, stream.frames, stream.after, stream.ignored
        if text.endswith(": in user code:"):
            # Compilers of Python code re-raise exceptions indented below it.
            stream.wrapped = True
            return None
        if not within:
            stream.lived_with = phrases.recovers(stream.last_text)
        stream.closed(text)
        ignored = ignored and "is killed by signal" not in text
        if ignored or phrases.WARNING.match(text) or (phrases.NOISE.search(text) and not within):
            return None
        gone = within and phrases.GONE.match(text) and phrases.TO_A_PEER.search(frames)
        if (gone or phrases.ECHOES.search(text)) and not any(
            match.frames and match.strength >= CAUSE and match.regex.search(text) and match.frames.search(frames)
            for _family, match in self._raised
        ):
            if within and (stream.thread or (stream.is_caught and phrases.CLOSED.match(text))):
                return None
            # `died with <Signals.SIGKILL: 9>` comes from a launcher but still tells what ended a rank.
            return self._wording(line, file_events) or self._made(line, file_events, _LAUNCHER, after)
        meaning = self._raised_as(text, frames, stream.before if within else None)
        if meaning is None:
            return None
        strength = min(meaning.strength, CARRIER) if phrases.CARRIERS.search(text) else meaning.strength
        beside = frames if stream.thread else stream.script if stream.is_caught else ""
        of_tracker = meaning.family == UNEXPLAINED and phrases.TRACKER.search(beside)
        at_exit = within and (of_tracker or phrases.AT_EXIT.search(frames))
        if meaning.strength < DECISIVE and (line.level in _MINOR or at_exit):
            strength = HINT
        elif meaning.strength < DECISIVE and _lived_with(stream, within):
            strength = WEAK + (meaning.family != UNEXPLAINED)
        if within and stream.thread:
            strength = min(strength, CARRIER - 1)
        stream.raised = len(file_events.events)
        made = self._made(replace(line, text=text), file_events, meaning._replace(strength=strength), after)
        return replace(made, top=within and stream.is_program, caught=within and stream.is_caught)

    def _last_line(self, line: Line, stream: Stream, file_events: FileEvents) -> str:
        """The exception with its message, where the line may be the last of a traceback; else empty."""
        text = line.text.strip("^ ~") if stream.open_traceback or line.text.startswith(("^", "~")) else line.text
        if text.startswith(": ") and phrases.BARE.match(stream.last_text) and not stream.open_traceback:
            # Another rank wrote between the name and the message.
            return stream.last_text.rstrip(": ") + text
        if stream.open_traceback:
            joined = stream.name if text.startswith(":") else ""
            text, stream.name = phrases.stitched(joined + text), ""
            if joined and 0 <= stream.raised < len(file_events.events):
                # The name alone was taken for the exception.
                file_events.events[stream.raised] = replace(file_events.events[stream.raised], strength=ECHO)
        any_class = stream.open_traceback and stream.indented and not stream.headless
        full_class = stream.headless and stream.indented and phrases.FULL_CLASS.match(text)
        if phrases.EXCEPTION.match(text) or full_class or (any_class and phrases.ANY_CLASS.match(text)):
            return text
        inside = phrases.EXCEPTION_INSIDE.search(text) if stream.open_traceback else None
        return text[inside.start() :] if inside and text[0] not in " \t" else ""

    def _raised_as(self, text: str, frames: str, before: str | None) -> _Meaning | None:
        """What an exception means: by its wording and its frames, else by its words where it ended a traceback.

        `before`: the line before the traceback; None if there is no traceback.
        """
        best: _Meaning | None = None
        for signature, match in self._raised + self._anywhere:
            hit = match.regex.search(text)
            passed = hit and (match.frames is None or match.frames.search(frames))
            if hit and passed and (not best or match.strength > best.strength):
                known = hit.groupdict()
                if "{place}" in (match.what or signature.what):
                    known["place"] = last_words.place_of(frames).where
                best = _Meaning(signature.family, match.strength, known, match.remedy, match.what, match.retry)
        if best is not None or before is None:
            return best
        meant = phrases.meant(text, frames)
        if meant:
            place = {"place": last_words.place_of(frames).where} if meant == "shape_or_divisibility" else {}
            return _Meaning(meant, MEANT, place)
        what, look, known = last_words.unexplained(text, frames, before)
        return _Meaning(UNEXPLAINED, RAISED, known, look, what)

    def _wording(self, line: Line, file_events: FileEvents) -> Event | None:
        text = line.text
        best: _Meaning | None = None
        held = self._batch.held(text)
        if not held or text.startswith(("+ ", "++ ")):
            # A command that the shell shows before it runs is none of its messages.
            return None
        least = CAUSE if phrases.NO_ERROR.search(text[:160]) else ECHO
        for number in dict.fromkeys(self._owners[at] for at in held if at < len(self._owners)):
            signature, match = self._anywhere[number]
            stronger = match.strength >= least and (not best or match.strength > best.strength)
            if stronger and (hit := match.regex.search(text)):
                known = hit.groupdict()
                best = _Meaning(signature.family, match.strength, known, match.remedy, match.what, match.retry)
        if (
            best is not None
            and (best.strength > RAISED or not phrases.ECHOES.search(text))
            and not phrases.NOISE.search(text)
        ):
            # torchrun's record of an exception precedes the exception's traceback.
            strength = min(best.strength, CARRIER) if '{"message": ' in text else best.strength
            return self._made(line, file_events, best._replace(strength=strength))
        if held[-1] >= len(self._owners) and phrases.ECHOES.search(text):
            # `exitcode: -9` is a launcher's summary but still tells what killed a rank.
            named = best is not None and best.strength > ECHO and "exitcode: -15" not in text
            meaning = best if best is not None and named and not phrases.NOISE.search(text) else _LAUNCHER
            return self._made(line, file_events, meaning)
        return None

    def _made(self, line: Line, file_events: FileEvents, meaning: _Meaning, after: str = "") -> Event:
        family, strength, groups, remedy, what, retry = meaning
        task = phrases.TASK.search(line.text)
        if task and family == LAUNCHER and "Exited with exit code" in line.text:
            # The rank that failed first is worth more than the launcher's end of the others.
            strength = ECHO + 3
        warned = phrases.WARNED.match(line.text) or ("Warning: " in line.text and phrases.PYTHON_WARNS.match(line.text))
        if WEAK < strength <= CAUSE and warned:
            strength = WEAK
        if strength < DECISIVE and phrases.FALLBACK.search(line.text):
            strength = min(strength, HINT)
        rank, node = (int(task["rank"]), task["node"]) if task else (line.rank, line.node)
        return Event(
            family=family,
            strength=strength,
            text=line.text[:TEXT_KEPT],
            line=line.number,
            file=file_events.file,
            rank=rank,
            node=node,
            time=time_of(line.stamp or line.text),
            progress=file_events.progress,
            bars=file_events.bars,
            printed=file_events.printed,
            after=after,
            run=file_events.runs,
            process=line.process,
            captured=tuple((name, value) for name, value in groups.items() if value),
            remedy=remedy,
            what=what,
            retry=retry,
        )
