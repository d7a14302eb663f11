# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines to events: what each log says that may matter, typed, with where it stands. Says nothing of causes.

A reader of one file holds one open traceback a stream (rank and node) and at most KEPT events a family and stream.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import GAP, Line
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.needles import Index
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    ANYWHERE,
    CAUSE,
    ECHO,
    RAISED,
    WEAK,
    Match,
    Signature,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.times import time_of

KEPT = 12
# An exception that carries another one counts where that is not to be seen.
CARRIER = RAISED - 1
FRAMES_KEPT = 4000
# So many lines back an event's time is looked for where its own line has none.
RECENT = 40
# So many steps in a row without a number, and the loss is lost.
NAN_LINES = 3
TEXT_KEPT = 2000

UNEXPLAINED = "exception"
LAUNCHER = "launcher"
# What only the job itself can say: it refused to start its ranks, or they ended well and proved nothing.
SETUP = "setup"
ARTIFACT = "artifact"
# What the scheduler says of a job that does not start.
PENDING = "pending"

TRACEBACK = "Traceback (most recent call last)"
_DURING = "During handling of the above exception"
_DIRECT = "The above exception was the direct cause"
# The last line of a traceback: an exception's name, with or without words.
_NAME = (
    r"(?:[A-Za-z_]\w*\.)*(?:[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Failure|Expired|Warning))"
)
_EXCEPTION = re.compile(rf"{_NAME}(?::(?: |$)|$)|Exception: ")
_ANY_CLASS = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:: |$)|(?:[a-z_]\w*\.)+\w+: ")
_EXCEPTION_INSIDE = re.compile(r"(?<![\w.])((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): )")
_WARNING = re.compile(r"\w*Warning\b")
# What others' failure makes a launcher, a store or a rank say: never the cause.
_ECHOES = re.compile(
    r"ChildFailedError|RendezvousConnectionError|DistNetworkError: (?:Connection was likely|failed to recv)"
    r"|got 0 bytes"
    r"|TCPStore|(?:recv|send)(?:Value|Bytes|Vector)|HeartbeatMonitor|sigkill_handler|Force Terminated|exitcode: -15"
    r"|SignalException|Root Cause \(first observed failure\)|ProcessExitedException|ProcessRaisedException"
    r"|srun: (?:error: .*(?:Exited with exit code|Terminated|Killed)|Job step aborted|Force)|Terminating StepId"
    r"|exits with return code|Sending process \d+ closing signal|BrokenPipeError|ConnectionResetError"
    r"|CalledProcessError: Command .*(?:python|torchrun|srun|deepspeed|mpirun)|died with <Signals|SystemExit"
    r"|the rank (?:of the )?first process to fail|Primary job +terminated normally|mpirun (?:detected|noticed)"
    r"|EOFError$|raise_error|UnboundLocalError: .*(?:sock|conn)|Process group watchdog thread terminated"
    r"|(?:[Tt]raining|[Jj]ob|[Rr]un|[Ss]cript|[Pp]rogram|[Pp]rocess|"
    r"[Tt]ask)\b.{0,40} (?:failed|crashed|exited)"
    r" with (?:a )?(?:non-?zero )?(?:exit |return )?(?:code|status)[: =]+(?!0\b)\d"
)
# Exceptions that only carry another one, which stands in its own traceback beside them.
_CARRIERS = re.compile(
    r"Caught \w+ in (?:DataLoader worker|pin memory thread|replica)|PapermillExecutionError|"
    r"JaxStackTraceBeforeTransformation"
    r"|RemoteTraceback|_RemoteError|See (?:the )?(?:root cause|stack trace|traceback) above|"
    r"(?:Engine core|Worker) \w+ failed"
    r"|One or more background workers are no longer alive|InstantiationException|Error in call to target"
)
ECHO_NEEDLES = (
    "ChildFailedError",
    "exitcode: ",
    "srun: error: ",
    "exits with return code",
    "Exited with exit code",
    "SignalException",
    "Terminating StepId",
    "Root Cause (first",
    "mpirun noticed",
    "mpirun detected",
    "Job step aborted",
    "Force Terminated",
    " failed with ",
    " exited with ",
    " crashed with ",
)
# Lines that sound bad and are not; and what follows `ignored` is no failure either.
_NOISE = re.compile(
    r"Exception ignored (?:in|while)|Error in atexit|^\w*Warning: |UserWarning|FutureWarning|DeprecationWarning"
    r"|\bWARNING\b.*\(OOM\)"
    # Bash tells of a helper in the background that the script itself ended.
    r"|: line \d+: +\d+ (?:Killed|Terminated) +(?:sleep|tail|watch|top|nvidia-smi|dcgmi|vmstat|iostat|sar)\b"
    r"|libaio|NUMEXPR|inotify|_find_nvidia|OSError: .*lspci|destroy_process_group\(\) was not called"
    r"|[Ff]ailed to find ncclNetPlugin|ncclNet\w* (?:symbol|plugin)|NCCL INFO|ignored, because|"
    r"PythonFinalizationError"
    r"|can be ignored|safely ignore|[Rr]etrying|will (?:fall ?back|retry)|falling back"
    r"|NCCL WARN (?:Error: corrupted comm|RAS)"
)
# A line that its writer calls a warning, or less: a symptom on it proves nothing.
_NO_ERROR = re.compile(r"^\[?[WI]\d{3,4} |\b(?:WARNING|INFO|DEBUG|warning)\b(?!.*\bERROR\b)|^\w{0,12}[Ww]arning: ")
_IGNORED = re.compile(
    r"Exception ignored (?:in|while)|Error in atexit|Exception in (?:thread (?:NetStatThr|asyncio)|callback )"
    r"|exception was never retrieved|--- Logging error ---"
)
# What follows a complaint at once where the program knows what to do about it.
_RECOVERS = re.compile(
    # "Please try again" is advice to a person.
    r"\b(?:re-?trying\b|will re-?try\b|(?:will try|trying) again|attempt \d+ (?:of|/) ?\d+|going on (?:without|with)"
    r"|continu(?:e|ing) without|is optional|(?:skipp|ignor)(?:ing|ed) (?:it|this)|fall(?:ing|s)? ?back (?:to|on)"
    r"|(?:not (?:found|available|installed)|unavailable|missing)\b.{0,40}\busing"
    r"|using (?:the )?(?:default|cpu) instead)",
    re.IGNORECASE,
)
RECOVERY_LINES = 3
_IGNORED_WORDS = ("ignored", "atexit", "Exception in", "never retrieved", "Logging error")
# srun names the node and the rank that it speaks of.
_TASK = re.compile(r"srun: error: (?P<node>[\w.-]+): tasks? (?P<rank>\d+)")
_PROGRESS = re.compile(
    r"\b(?:iter(?:ation)?|step|global_step|epoch|Training step|batch)\b[^\w\n]{0,4}\d+.*"
    r"(?:loss|ms|time|it/s|tps|lr|tflop)"
    r"|'loss': |\d+%\|.*(?:it/s|s/it)|[Ll]oss\b[^\w\n]{1,4}-?\d",
)
# The last step of all that were asked for: an end as good as words.
_LAST_STEP = re.compile(r"\b(?:iter(?:ation)?|(?:global_)?step)\b\W{0,4}(\d+) ?/ ?(\d+)\b")
# A bar of steps, not of loading or downloading.
_BAR = re.compile(r"(?:(?:[Ee]poch|[Tt]rain|[Ss]tep|[Ii]ter)[^|%]{0,40})?\s*\d+%\|")
# Fixed strings of which each such line has one: the expression is slow.
_PROGRESS_WORDS = ("loss", "it/s", "s/it", "iter", "step", "epoch", "batch", "Loss")
# What may stand on the same line as a step: a message that was glued to a progress bar.
_BESIDE_PROGRESS = ("rror", "CANCEL", "illed", "xcept", "ailed", "emory", "nan", "NaN", "space left", "topp")
_NAN_LOSS = re.compile(
    r"(?<![\w-])(?:(?:train|training|lm|total|avg|mean|step)[ _/])?loss['\"]?\s*[:=|]?\s*['\"]?[Nn]a[Nn]\b"
)
_LOSS = re.compile(r"\bloss['\"]?\s*[:=|]?\s*['\"]?-?\d")
_DONE = re.compile(
    r"Training (?:is )?(?:completed|complete|finished|done)\b|[Ff]inished training|[Tt]raining (?:has )?ended"
    r"|exiting program (?:at|after)|\bTrain(?:ing)? runtime\b|'train_runtime'|after training is done|"
    r"exits successfully"
)
# A new run begins here: what was before belongs to an earlier one.
_BEGIN = re.compile(
    r"^(?:\[rankzero\] job \S+ attempt \d+ on |=+ ?(?:RESTART|JOB START|START OF JOB)|Starting job \d+)"
)


def _one_of(words: tuple[str, ...], text: str) -> bool:
    for word in words:  # noqa: SIM110 - three times as fast as any() on millions of lines
        if word in text:
            return True
    return False


# Slurm takes the job back into the queue: what the program says after it is the next attempt's.
_REQUEUED = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ DUE TO (?:JOB REQUEUE|PREEMPTION|NODE FAILURE)")


@dataclass(frozen=True)
class Event:
    """One line that may matter. `time`: seconds, comparable within a file; `progress`: steps logged before it.

    `after`: how the event's exception follows the one before it on its stream: empty, `during` or `direct`.
    """

    family: str
    strength: int
    text: str
    line: int
    file: str = ""
    rank: int | None = None
    node: str | None = None
    time: float | None = None
    progress: int = 0
    bars: int = 0
    after: str = ""
    run: int = 0
    captured: tuple[tuple[str, str], ...] = ()

    @property
    def stream(self) -> tuple[str, int | None, str | None]:
        return self.file, self.rank, self.node


@dataclass
class FileEvents:
    """What one log says. `progress`, `done`: steps logged, and the line of the last word of a normal end; `bars`: steps
    that a progress bar showed, which no buffer delays; `last_step`: the line that says `step N/N`, if nothing was
    logged after it that counts less; `requeued`: Slurm took the job back, and no step was logged since."""

    file: str
    events: list[Event] = field(default_factory=list)
    lines: int = 0
    progress: int = 0
    bars: int = 0
    done: int = 0
    last_step: int = 0
    requeued: bool = False
    runs: int = 0
    ranks: set[int] = field(default_factory=set)
    last: str = ""


@dataclass
class _Stream:
    open_traceback: bool = False
    ignored: bool = False
    frames: str = ""
    after: str = ""
    indented: bool = False
    wrapped: bool = False
    # The places of this stream's last events, and how many lines ago the last of them was.
    recent: list[int] = field(default_factory=list)
    since: int = 0
    # What was said before the traceback that is open; whether its writer lives with it.
    said: str = ""
    lived_with: bool = False


@dataclass
class _Nan:
    """The newest row of steps whose loss is no number. One that is skipped (loss scaling) is none."""

    lines: int = 0
    first: Event | None = None

    def see(self, line: Line, run: int) -> None:
        if ("nan" in line.text or "NaN" in line.text) and _NAN_LOSS.search(line.text):
            if not self.lines:
                text = line.text[:TEXT_KEPT]
                self.first = Event(
                    "nan_loss", WEAK + 2, text, line.number, rank=line.rank, node=line.node, time=time_of(text), run=run
                )
            self.lines += 1
        elif self.lines and _LOSS.search(line.text):
            self.lines = 0


class Reader:
    """Reads the lines of one file, in order, into events. `signatures` decide what is an event."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._anywhere: list[tuple[Signature, Match]] = []
        self._raised: list[tuple[Signature, Match]] = []
        for signature in signatures:
            for match in signature.matches:
                (self._anywhere if match.where == ANYWHERE else self._raised).append((signature, match))
        # Each fixed string of each wording, and after them the echoes'.
        self._owners = [number for number, (_, match) in enumerate(self._anywhere) for _needle in match.needles]
        self._index = Index([*(needle for _, match in self._anywhere for needle in match.needles), *ECHO_NEEDLES])

    def read(self, file: str, lines: Iterable[Line]) -> FileEvents:
        found = FileEvents(file)
        streams: dict[tuple[int | None, str | None], _Stream] = {}
        heard: deque[str] = deque(maxlen=RECENT)
        nan = _Nan()
        kept: Counter[tuple[str, int | None, str | None]] = Counter()
        for line in lines:
            if line is GAP:
                # What was open before a part that nobody read is not open after it.
                streams.clear()
                continue
            found.lines = line.number
            if line.rank is not None:
                found.ranks.add(line.rank)
            if not line.text:
                continue
            heard.append(line.stamp or line.text)
            found.last = line.text[:TEXT_KEPT]
            if _BEGIN.match(line.text):
                found.runs += 1
            stream = streams.get(line.stream)
            if stream is None:
                stream = streams[line.stream] = _Stream()
            event = self._event(line, stream, found)
            stream.said = line.text
            if event is None:
                nan.see(line, found.runs)
                self._recovered(line, stream, found)
                continue
            if event.time is None:
                event = replace(event, time=next(filter(None, map(time_of, reversed(heard))), None))
            key = (event.family, event.rank, event.node)
            kept[key] += 1
            if kept[key] <= KEPT:
                stream.recent, stream.since = [*stream.recent, len(found.events)], 0
                found.events.append(event)
            elif event.strength > ECHO:
                # The newest one stays known: it says whether the failure was the end.
                found.events[-1] = event if found.events[-1].family == event.family else found.events[-1]
        if nan.lines >= NAN_LINES and nan.first is not None:
            # A loss that is no number, and stays so until the end.
            where = replace(nan.first, file=file, progress=found.progress)
            found.events = sorted([*found.events, where], key=lambda event: event.line)
        return found

    def _recovered(self, line: Line, stream: _Stream, found: FileEvents) -> None:
        """Of a complaint that its writer says at once how to live with only a symptom is left."""
        # Lines of the next traceback do not count: several ranks may complain in a row.
        if not stream.recent or stream.open_traceback:
            return
        recovers = _RECOVERS.search(line.text)
        for place in stream.recent if recovers else ():
            event = found.events[place]
            if WEAK < event.strength <= CAUSE:
                found.events[place] = replace(event, strength=WEAK)
        stream.since += 1
        if recovers or stream.since >= RECOVERY_LINES:
            stream.recent = []

    def _event(self, line: Line, stream: _Stream, found: FileEvents) -> Event | None:
        text = line.text
        if "CANCELLED AT" in text and _REQUEUED.search(text):
            found.requeued = True
        if TRACEBACK in text:
            stream.open_traceback, stream.frames, stream.indented = True, "", False
            stream.lived_with = bool(_RECOVERS.search(stream.said))
            return None
        if text[0] in " \t|\u2502\u256d\u2570":
            if stream.open_traceback:
                stream.indented = True
                if len(stream.frames) < FRAMES_KEPT:
                    stream.frames += text + "\n"
                if not stream.wrapped:
                    return None
        elif text.startswith((_DURING, _DIRECT)):
            stream.after = "during" if text.startswith(_DURING) else "direct"
            return None
        if any(word in text for word in _IGNORED_WORDS) and _IGNORED.search(text):
            stream.ignored = True
            return None
        if "NCCL INFO" in text:
            return None
        if ("rain" in text or "exit" in text) and _DONE.search(text):
            found.done = line.number
        if _one_of(_PROGRESS_WORDS, text) and _PROGRESS.search(text):
            found.progress += 1
            found.bars += bool(_BAR.match(text))
            step = _LAST_STEP.search(text)
            if step:
                found.last_step = line.number if step[1] == step[2] else 0
            if found.requeued:
                found.runs, found.requeued = found.runs + 1, False
            if not _one_of(_BESIDE_PROGRESS, text):
                return None
        return self._exception(line, stream, found) or self._wording(line, found)

    def _exception(self, line: Line, stream: _Stream, found: FileEvents) -> Event | None:
        # Exceptions that compilers of Python code re-raise stand indented below "in user code:".
        text = line.text.strip("^ ~") if stream.wrapped or line.text.startswith(("^", "~")) else line.text
        plain = _EXCEPTION.match(text)
        if not plain and not (stream.open_traceback and stream.indented and _ANY_CLASS.match(text)):
            inside = _EXCEPTION_INSIDE.search(text) if stream.open_traceback else None
            if not inside or text[0] in " \t":
                return None
            text = text[inside.start() :]
        within, frames, after = stream.open_traceback, stream.frames, stream.after
        ignored = stream.ignored
        if text.endswith(": in user code:"):
            stream.wrapped = True
            return None
        stream.wrapped = False
        stream.open_traceback, stream.frames, stream.after, stream.ignored = False, "", "", False
        if ignored or _WARNING.match(text) or (_NOISE.search(text) and not within):
            return None
        if _ECHOES.search(text) and not any(
            match.frames and match.strength >= CAUSE and match.regex.search(text) and match.frames.search(frames)
            for _, match in self._raised
        ):
            # `died with <Signals.SIGKILL: 9>` is a launcher's word that nevertheless says what ended a rank.
            return self._wording(line, found) or self._made(line, found, LAUNCHER, ECHO, {}, after)
        best: tuple[int, str, dict[str, str | None]] | None = None
        for signature, match in self._raised + self._anywhere:
            hit = match.regex.search(text)
            if hit and (match.frames is None or match.frames.search(frames)) and (not best or match.strength > best[0]):
                best = match.strength, signature.family, hit.groupdict()
        if best is None:
            if not within:
                return None
            best = RAISED, UNEXPLAINED, {}
        strength = min(best[0], CARRIER) if _CARRIERS.search(text) else best[0]
        if within and stream.lived_with and best[0] <= CAUSE:
            strength = WEAK
        return self._made(line, found, best[1], strength, best[2], after)

    def _wording(self, line: Line, found: FileEvents) -> Event | None:
        text = line.text
        best: tuple[int, str, dict[str, str | None]] | None = None
        held = self._index.held(text)
        if not held:
            return None
        least = CAUSE if _NO_ERROR.search(text[:160]) else ECHO
        for number in dict.fromkeys(self._owners[at] for at in held if at < len(self._owners)):
            signature, match = self._anywhere[number]
            if match.strength >= least and (not best or match.strength > best[0]):
                hit = match.regex.search(text)
                if hit:
                    best = match.strength, signature.family, hit.groupdict()
        if best is not None and (best[0] > RAISED or not _ECHOES.search(text)) and not _NOISE.search(text):
            # torchrun's record of an exception comes before the exception's own traceback.
            strength = min(best[0], CARRIER) if '{"message": ' in text else best[0]
            return self._made(line, found, best[1], strength, best[2], "")
        if held[-1] >= len(self._owners) and _ECHOES.search(text):
            # `exitcode: -9` is a launcher's summary that nevertheless says what killed a rank.
            if best is not None and best[0] > ECHO and "exitcode: -15" not in text and not _NOISE.search(text):
                return self._made(line, found, best[1], best[0], best[2], "")
            return self._made(line, found, LAUNCHER, ECHO, {}, "")
        return None

    def _made(
        self, line: Line, found: FileEvents, family: str, strength: int, groups: dict[str, str | None], after: str
    ) -> Event:
        task = _TASK.search(line.text)
        if task and family == LAUNCHER and "Exited with exit code" in line.text:
            # Which rank ended first is worth more than that a launcher ended the rest.
            strength = ECHO + 3
        rank, node = (int(task["rank"]), task["node"]) if task else (line.rank, line.node)
        return Event(
            family=family,
            strength=strength,
            text=line.text[:TEXT_KEPT],
            line=line.number,
            file=found.file,
            rank=rank,
            node=node,
            time=time_of(line.stamp or line.text),
            progress=found.progress,
            bars=found.bars,
            after=after,
            run=found.runs,
            captured=tuple((name, value) for name, value in groups.items() if value),
        )
