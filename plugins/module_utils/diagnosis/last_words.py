# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a program says last where no family knows it: an exception and its place in the program, or a log's end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import phrases
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import (
    CANCELLED,
    LAUNCHER,
    UNEXPLAINED,
    FileEvents,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import Line
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import ECHO, WEAK
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.streams import Stream

# A log that ends within a traceback, or with a complaint; C++ code that aborts the program.
CUT = ECHO + 5
FATAL = WEAK + 3
# An error that a logger or the program writes within so many lines of the end is the last word of the program.
LAST = 4
# A logger writes more than its level, and than a ruler.
_SAYS_MORE = re.compile(r"(?:ERROR|FATAL)(?:[^\w\[]|\[[^\]]*\])*[^\W\d_]")
# What a shell says of a command of the script.
_OF_A_SHELL = re.compile(r"\S+: (?:line )?\d+: ")
_NUMBERS = re.compile(r"(?<!\S)\S*\d\S*")
# What a program or a script says of its normal end, where it is the last that it says.
_WELL = re.compile(
    r"\b(?:completed|finished|ended|done|stopped|exited) success(?:fully)?\b|"
    r"\b[Ss]uccessfully (?:completed|finished)\b|\b(?:build|run|job|training|experiment) succeeded\b"
)
_OTHERWISE = re.compile(r"\b(?:[Nn]ot?|[Uu]n\w+|if|when|after|before)\b")
_FAILED = re.compile(r"[Ff]ail|FAIL|ERROR|[Ee]rror|[Ee]xception")
_IGNORED = ("Exception ignored ", "Error in atexit")
# torchrun writes it as a warning; an exception follows where it has the time.
_GOT_SIGNAL = re.compile(r".*\b[Rr]eceived (?:Signals\.SIG\w+|\d+) death\b")
# srun sends one as well, after another rank has failed.
_SIGNALLED = "a signal ended the program (Ctrl-C, a closed terminal, or whoever ends the job sends one)"
_CUT_SHORT = "the log ends within a traceback"
_COMPLAINED = "the log ends within a traceback; this complaint stands before it"
_CUT_REMEDY = (
    "The program raised an exception. Its message is missing here: look for it in the other logs of that rank."
)
_COMPLAINED_REMEDY = f"Read that line first: it may say why. {_CUT_REMEDY}"
_LOGGED = "the log ends with an error that the program logged"
_ABORTS = re.compile(r"MPI_ABORT was invoked|application called MPI_Abort\(")
_SAYS_WORDS = re.compile(r"[^\W\d_]{2,} +[^\W\d_]{2,}")
_ABORTED = "the program ended itself by MPI_Abort; these are its last words"
_LOGGED_REMEDY = "Read that line and those before it. The collection does not know this message."
# A frame of a traceback, as Python and as rich write it; the line of code below it.
_FRAME = re.compile(r"""\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?|"""
                    r"\u2502 (?P<boxed>\S+):(?P<at>\d+) in (?P<called>\S+)")  # fmt: skip
_CODE = re.compile(r"\s+(?!File \")(?P<code>[^\s^~].*)|\u2502 +\u2771 +\d+ \u2502 *(?P<boxed>\S.*?) *\u2502?$")
# Code that came with an environment or with Python, or that is in no file.
_NOT_OWN = re.compile(r"-packages|[\\/]lib[\\/]python|[\\/]bin[\\/]|^<|\.(?:pyx|pxi)$")
_SEPARATORS = re.compile(r"[\\/]+")
# The program's folder on a node: a snapshot of the code, a node's view of it, or the working directory of the launch.
_WORK = re.compile(
    r".*(?:/code/[0-9a-f]{16,64}/|/rankzero-\d{1,10}-[^/]{1,100}/code/|/runs/[^/]+/[0-9a-f]{16,64}/\d+/work/)"
)
# What is said of an exception that came through the program's own code.
IN_THE_PROGRAM = "{where} raised {raised}"
# Of an exception and of a line of code, so many characters are shown in a sentence.
_SHOWN = 120


class Place(NamedTuple):
    """A frame of a traceback. `where`: `work/train.py:31`, or else `folder/file:line`; empty where no frame is known.

    `own`: it is the program's own code.
    """

    where: str = ""
    function: str = ""
    code: str = ""
    own: bool = False


def place_of(frames: str) -> Place:
    """The innermost frame outside of installed packages, else the innermost one."""
    called: list[Place] = []
    for line in frames.split("\n"):
        frame = _FRAME.match(line)
        code = None if frame else _CODE.match(line)
        if frame:
            file = frame["file"] or frame["boxed"]
            where = _WORK.sub("work/", file) if _WORK.match(file) else "/".join(_SEPARATORS.split(file)[-2:])
            where = f"{where}:{frame['line'] or frame['at']}"
            function = frame["function"] or frame["called"] or ""
            called.append(Place(where, function, own=not _NOT_OWN.search(file)))
        elif code and called and not called[-1].code:
            called[-1] = called[-1]._replace(code=code["code"] or code["boxed"])
    places = [place for place in called if place.own] or called
    return places[-1] if places else Place()


def unexplained(text: str, frames: str, before: str) -> tuple[str, str, dict[str, str]]:
    """What an exception means that no family knows, what to look at, and what both name.

    `before`: the line before its traceback, which is told where the program complains in it.
    """
    place = place_of(frames)
    told = "" if phrases.progress(before) or phrases.NOISE.search(before) or phrases.HEADER.search(before) else before
    complains = bool(phrases.COMPLAINT.match(told) or phrases.LOGGED_ERROR.match(told)) and told[:1] not in " \t"
    named = {"raised": text, "where": place.where, "function": place.function, "code": place.code}
    if complains:
        named["before"] = before
    known = {name: shorten(value) for name, value in named.items() if value}
    what = IN_THE_PROGRAM if place.own else "the program raised {raised}"
    function = " in {function}" if place.function not in ("", "<module>") else ""
    look = f"Look at {{where}}{function}{': `{code}`' if place.code else ''}. " if place.where else ""
    quoted = "The program wrote before it: `{before}` " if complains else ""
    return what, f"{look}{quoted}The collection does not know this message.", known


def shorten(text: str) -> str:
    """At most _SHOWN characters of a text."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class LastWord(NamedTuple):
    """The line, and the event that it makes: its family and strength, what it means, and the remedy."""

    line: Line
    family: str
    strength: int
    what: str = ""
    remedy: str = ""


def before_a_launcher(heard: Sequence[Line]) -> LastWord | None:
    """What the program complained of before a launcher reports that it failed, after its last step."""
    for line in reversed(heard):
        text = line.text
        if phrases.progress(text):
            return None
        if phrases.NO_ERROR.search(text[:160]) or phrases.NOISE.search(text) or phrases.ECHOES.search(text):
            continue
        if phrases.EXCEPTION.match(text) and not phrases.BARE.match(text):
            # Printed without its traceback.
            return LastWord(line, UNEXPLAINED, CUT)
        if phrases.COMPLAINT.match(text):
            return LastWord(line, LAUNCHER, CUT)
    return _before_an_abort(heard)


def _before_an_abort(heard: Sequence[Line]) -> LastWord | None:
    """What a program printed before it called MPI_Abort: what several ranks printed alike, else its last line."""
    if not heard or not _ABORTS.search(heard[-1].text):
        return None
    words = [line for line in heard if _SAYS_WORDS.search(line.text) and not phrases.ECHOES.search(line.text)]
    counted = Counter(line.text for line in words if not phrases.progress(line.text))
    line = next((line for line in words if counted[line.text] > 1), words[-1] if words else None)
    return (
        None if line is None or line.text not in counted else LastWord(line, UNEXPLAINED, CUT, _ABORTED, _LOGGED_REMEDY)
    )


def succeeded(heard: Sequence[Line]) -> Line | None:
    """The line among the last ones which says that all went well."""
    last = list(heard)[: -LAST - 1 : -1]
    for line in last if any("ucce" in line.text for line in last) else ():
        if _FAILED.search(line.text):
            return None
        if _WELL.search(line.text) and not _OTHERWISE.search(line.text):
            return line
    return None


def complains(heard: Sequence[Line]) -> bool:
    """Whether the last line is a complaint of the program outside of a traceback: steps before it prove nothing."""
    text = heard[-1].text if heard else ""
    below_frames = len(heard) > 1 and heard[-2].text[0] in " \t"
    if below_frames or phrases.progress(text) or phrases.NO_ERROR.search(text[:160]) or phrases.GLOG.match(text):
        return False
    says = phrases.COMPLAINT.match(text) or phrases.EXCEPTION.match(text) or text.startswith("[Errno ")
    return bool(says or _logs_an_error(text)) and not (
        _OF_A_SHELL.match(text) or phrases.NOISE.search(text) or phrases.recovers(text)
    )


def at_the_end(heard: Sequence[Line], streams: Iterable[Stream], file_events: FileEvents) -> LastWord | None:
    """What the last lines of a log, `heard`, show of its end."""
    if not heard:
        return None
    if _GOT_SIGNAL.match(heard[-1].text):
        return LastWord(heard[-1], CANCELLED, WEAK, _SIGNALLED)
    return (
        _cut_short(heard, streams, file_events)
        or _of_glog(heard, file_events)
        or _of_hydra(heard, file_events)
        or _logged(heard, file_events)
    )


def _cut_short(heard: Sequence[Line], streams: Iterable[Stream], file_events: FileEvents) -> LastWord | None:
    """The last line of a log that ends within a traceback; without any event in it, the complaint right before that."""
    line = heard[-1]
    opened = [stream for stream in streams if stream.open_traceback and not stream.headless]
    if not any(not phrases.LAUNCHERS.search(stream.frames) for stream in opened):
        return None
    indented = line.text[:1] in " \t" and not phrases.progress(line.text)
    inside = phrases.FRAME.match(line.text) or indented or phrases.HEADER.search(line.text)
    if not inside:
        return None
    if not _shows_nothing(file_events):
        return LastWord(line, UNEXPLAINED, CUT, _CUT_SHORT, _CUT_REMEDY)
    began = min(stream.began for stream in opened)
    before = [other for other in heard if began - LAST <= other.number < began and other.text[0] not in " \t"]
    complaints = [other for other in before if phrases.COMPLAINT.match(other.text)]
    if complaints and not (phrases.NO_ERROR.search(complaints[-1].text) or phrases.NOISE.search(complaints[-1].text)):
        return LastWord(complaints[-1], UNEXPLAINED, CUT, _COMPLAINED, _COMPLAINED_REMEDY)
    return LastWord(line, UNEXPLAINED, CUT, _CUT_SHORT, _CUT_REMEDY)


def _of_glog(heard: Sequence[Line], file_events: FileEvents) -> LastWord | None:
    """What C++ code logs as it aborts the program, or as an error in the last line of a log without any event."""
    matches = [(line, phrases.GLOG.match(line.text)) for line in heard]
    levels = [(line, match["level"]) for line, match in matches if match]
    fatal = next((line for line, level in levels if level == "F"), None)
    if fatal:
        what = "C++ code ended the program"
        return LastWord(fatal, UNEXPLAINED, FATAL, what, "That line says why; frames below it, if any, show where.")
    last = heard[-1]
    ends = bool(levels) and levels[-1][0] is last and not phrases.NOISE.search(last.text) and not _repeated(last, heard)
    return LastWord(last, LAUNCHER, CUT, _LOGGED, _LOGGED_REMEDY) if ends and _shows_nothing(file_events) else None


def _of_hydra(heard: Sequence[Line], file_events: FileEvents) -> LastWord | None:
    """The line below Hydra's report that its program raised, where no exception is shown."""
    texts = [line.text for line in heard]
    place = next((place for place, text in enumerate(texts) if text.startswith(phrases.HYDRA_FAILED)), len(texts))
    shown = any(event.line > heard[place].number for event in file_events.events) if place + 1 < len(texts) else True
    return None if shown else _error(heard[place + 1])


def _logged(heard: Sequence[Line], file_events: FileEvents) -> LastWord | None:
    """What a program wrote as an error at the end of a log without any event, unless it handled it."""
    if not _shows_nothing(file_events):
        return None
    last = heard[-1]
    if phrases.EXCEPTION.match(last.text) and not phrases.ECHOES.search(last.text):
        # Printed without its traceback.
        return None if _ignored(heard) else LastWord(last, UNEXPLAINED, CUT, _LOGGED, _LOGGED_REMEDY)
    for line in list(heard)[: -LAST - 1 : -1]:
        if phrases.recovers(line.text) or phrases.NOISE.search(line.text):
            return None
        if _logs_an_error(line.text) or phrases.PRINTED_ERROR.match(line.text):
            return None if _repeated(line, heard) else _error(line)
    return next((_error(line) for line in heard if phrases.FAILED_WITH.match(line.text)), None)


def _logs_an_error(text: str) -> bool:
    return bool(phrases.LOGGED_ERROR.match(text) and _SAYS_MORE.search(text))


def _error(line: Line) -> LastWord:
    return LastWord(line, UNEXPLAINED, CUT, _LOGGED, _LOGGED_REMEDY)


def _ignored(heard: Sequence[Line]) -> bool:
    """Whether the exception in the last line is one that Python ignored, as it says before the traceback."""
    before = (line.text for line in list(heard)[-2::-1] if line.text[0] not in " \t")
    return next((text for text in before if not phrases.HEADER.search(text)), "").startswith(_IGNORED)


def _repeated(line: Line, heard: Sequence[Line]) -> bool:
    """Whether the program logged the same error before, words with digits aside, and then something else."""
    shapes = [_NUMBERS.sub("#", other.text) for other in heard if other.number <= line.number]
    went_on = [shape != shapes[-1] for shape in reversed(shapes)]
    return True in went_on and False in went_on[went_on.index(True) :]


def _shows_nothing(file_events: FileEvents) -> bool:
    """Whether the newest run shows neither a step nor an event."""
    return not file_events.progress and not any(event.run == file_events.runs for event in file_events.events)
