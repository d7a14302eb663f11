# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the step, the loss and the rate are read from a log line, in the formats of common trainers. Pure.

values.py adds the other numbers of the line and its times. Nothing else declares such formats: the wait, the status,
the search for stalls and the report use these two files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import (
    DECIMALS,
    LINE_CHARACTERS,
    NUMBER,
    OUTSIDE,
    WHOLE,
    real_number,
)

# After this many times the usual time of a step, and at least this many seconds, the next step is late: an estimate of
# the end is not worth showing.
LATE, LATE_SECONDS = 4.0, 10.0
# A run stalls after this many times the usual step time, and at least this many seconds, without a step. The wait, a
# diagnosis and the ledger use the same limits.
STALL_FACTOR, STALL_SECONDS = 10.0, 60.0
# A job is slow from this many times its usual step on.
SLOWER = 2.0


@dataclass(frozen=True)
class Metrics:
    """Progress numbers from one log line; None for each number that the line does not give."""

    step: int | None = None
    total: int | None = None
    loss: float | None = None
    tokens_per_second: float | None = None

    def after(self, before: Metrics | None) -> Metrics:
        """These numbers with the step of an earlier line if this line, such as that of an evaluation, has none.

        A shorter count within a longer one that has not ended, such as an evaluation's bar without a label, has none.
        """
        if before is None or before.step is None:
            return self
        within = before.total is not None and before.step < before.total
        shorter = self.total is not None and within and self.total < (before.total or 0) and self.loss is None
        return replace(self, step=before.step, total=before.total) if self.step is None or shorter else self


_STEP = re.compile(
    rf"(?<![a-z])(?:step|iter(?:ation)?)s?['\"]?\s{{0,24}}(?:[:=\[]\s{{0,24}})?{WHOLE}(?:\s{{0,24}}/\s{{0,24}}{WHOLE})?",
    re.I,
)
_BAR = re.compile(rf"\b{WHOLE}/{WHOLE} \[\d{{1,6}}:\d\d")
# Bars that count no training steps: their labels, and the units of what datasets and downloads count.
_OTHER_BAR = re.compile(
    r"^(?:\W|\[?(?:rank|default)\d+\]?|\d+:)*(?:map|filter|token|load|download|fetch|resolv|generat|captur|pre-?process|"
    r"process|read|scan|cach|upload|convert|running|extract|sanity|eval|valid|test|predict|infer|group|pack|sav|creat|"
    r"flatten|cast|comput|writ|build|dedup|adding|apply|truncat|unpack|copy|quantiz|check)",
    re.I,
)
_OTHER_UNIT = re.compile(r"[\d?] ?(?:examples|ex|ba|[kMGT]?i?B|files?|rows?|shards?|docs?)/s", re.I)
# What stands before a step that is none of the training.
_OTHER_STEP = re.compile(r"\b(?:eval|val|test|predict)[a-z]{0,12}[ _/:-]{1,3}$", re.I)
_LOSS = re.compile(
    rf"(?<![a-z])(?<![a-z][_/-])(?:[a-z]{{1,24}}[_/-]){{0,8}}loss['\"]?\s{{0,24}}(?:[:=]\s{{0,24}})?{NUMBER}", re.I
)
_RATE = (
    re.compile(rf"{OUTSIDE}{NUMBER}\s{{0,8}}(?:(k)\s{{0,8}})?tok(?:en)?s?/s(?:ec)?\b", re.I),
    re.compile(
        rf"tok(?:en)?s?(?:/s|/sec|[_ ]?per[_ ]?sec(?:ond)?)['\"]?\s{{0,24}}(?:[:=]\s{{0,24}})?{NUMBER}(k?)", re.I
    ),
)
# The unit at the end of the first, and how many characters before it belong to the number.
_UNIT = re.compile(r"tok(?:en)?s?/s(?:ec)?\b", re.I)
_BEFORE_UNIT = 3 * DECIMALS + 16
# A name before a number which is no speed: `lr 1e-4 tokens/s 19000`.
_NAME = re.compile(r"(?<![a-z])(?!(?:speed|throughput|rate|at)\b)[a-z_]{2,32}['\"]?\s{0,3}[:=]?\s{0,3}$", re.I)

# A line that tells that a checkpoint or the model is saved, or that this begins. Each contains one of the words.
_SAVED_WORDS = ("sav", "checkpoint")
_SAVED = re.compile(
    r"(?:successfully )?saved (?:the )?(?:model|checkpoint|weights|state)|(?:model|checkpoint|weights) saved"
    r"|sav(?:ing|ed) (?:the )?(?:model |weights )?(?:checkpoint )?(?:to|at|in|into) \S"
    r"|saving checkpoint at iteration|checkpoint .{0,200} (?:written|saved)",
    re.IGNORECASE,
)


def is_last(step: int, total: int | None) -> bool:
    """Whether no other step is to come, as far as a line tells. Of a step beyond its total nothing is known."""
    return bool(total) and step == total


def parse_metrics(line: str) -> Metrics | None:
    """Step, loss and rate from one line in the format of a common trainer; None if it has neither step nor loss.

    Known: `step 10`, `step=10/100`, `iteration 10/100`, `loss: 2.31`, `lm loss: 2.3E+00`, `reduced_train_loss=2.3`,
    `{'loss': 2.3}`, `812 tokens/s`, `tokens_per_sec=8.1e2`, a tqdm bar.
    """
    line = line[:LINE_CHARACTERS]
    # Fixed strings are searched first: a tenth of the time for most lines.
    low = line.lower()
    if "loss" not in low and "step" not in low and "iter" not in low and "/" not in low:
        return None
    # Beyond ASCII, the same place may have another number in `low`.
    same = line.isascii()
    step = _trained(line, low, same)
    loss = _loss(line, low, same)
    if step is None and loss is None:
        return None
    # In `loss 2.66 tokens/s 19170`, the number before the unit is the loss.
    taken = (*(step.regs[1:] if step else ()), *(loss.regs[1:] if loss else ())) if "tok" in low else None
    first, total = step.groups() if step else (None, None)
    return Metrics(
        int(first) if first else None,
        int(total) if total else None,
        real_number(loss.group(1)) if loss else None,
        None if taken is None else _rate(line, low.find("tok") if same else 0, taken),
    )


def progress_in(
    lines: Iterable[str], before: Metrics | None
) -> tuple[str | None, list[tuple[int, str]], Metrics | None]:
    """(the newest line with progress, the steps that are new with their lines, the newest numbers) of lines that follow
    those which gave the numbers `before`.
    """
    newest: str | None = None
    steps: list[tuple[int, str]] = []
    with_step = False
    for line in lines:
        metrics = parse_metrics(line)
        if metrics is None:
            continue
        after = metrics.after(before)
        # A line with a step says more than one without, such as the result at the end.
        if metrics.step is not None or not with_step:
            newest, with_step = line, metrics.step is not None
        if after.step is not None and (before is None or after.step != before.step):
            steps.append((after.step, line))
        before = after
    return newest, steps, before


def _trained(line: str, low: str, same: bool) -> re.Match[str] | None:
    """The step of the training that a line names, or that its bar counts. `low`: the line in lower case. `same`: with
    the same places.
    """
    places = [at for at in (low.find("step"), low.find("iter")) if at >= 0]
    step = _STEP.search(line, min(places) if same else 0) if places else None
    if step is not None:
        return None if _OTHER_STEP.search(line[: step.start()]) else step
    counted = _BAR.search(line)
    label = line[: counted.start()].rpartition("\r")[2] if counted else ""
    other = counted is not None and (_OTHER_BAR.match(label) or _OTHER_UNIT.search(line, counted.end()))
    return None if other else counted


def _loss(line: str, low: str, same: bool) -> re.Match[str] | None:
    """The loss that a line gives, as in `_trained`."""
    at = low.find("loss")
    # No match begins before the word with the first one.
    word = low.rfind(" ", 0, at) + 1 if same else 0
    return _LOSS.search(line, word) if at >= 0 else None


def _rate(line: str, begin: int, taken: Collection[tuple[int, int]]) -> float | None:
    """The tokens a second that a line gives: the number before the unit, else that after it. `begin`: no unit is before
    it. `taken`: the places of numbers that are others.
    """
    for unit in _UNIT.finditer(line, begin):
        # Its number, and a k, are among the two words before it. To try each number of a line takes ten times as long.
        first = max(0, unit.start() - _BEFORE_UNIT)
        words = line[first : unit.start()].rsplit(None, 2)
        first += len(words[0]) if len(words) > 2 else 0
        for match in _RATE[0].finditer(line, first, unit.end()):
            if match.end() == unit.end() and match.regs[1] not in taken and not _of_another(match, unit, line):
                return _scaled(match)
    for match in _RATE[1].finditer(line, begin):
        if match.regs[1] not in taken:
            return _scaled(match)
    return None


def _of_another(match: re.Match[str], unit: re.Match[str], line: str) -> bool:
    """Whether the number before a unit is the value of a name before it: the unit's own number follows."""
    own = _RATE[1].match(line, unit.start())
    return bool(own and _NAME.search(line, max(0, match.start() - 48), match.start()))


def _scaled(match: re.Match[str]) -> float | None:
    value = real_number(match.group(1))
    return value if value is None or not match.group(2) else 1000 * value


def gaps(steps: Iterable[tuple[int, float | None]]) -> list[float]:
    """The times of steps in seconds, from (step, time of its line). None: the line has no time.

    Of the steps in one moment of a clock that shows whole seconds, the first counts: the next moment shows their time.
    """
    took: list[float] = []
    first: tuple[int, float] | None = None
    for step, at in steps:
        if at is None:
            continue
        if first is None or step < first[0] or at < first[1]:
            first = step, at
        elif at > first[1] and step > first[0]:
            took.append((at - first[1]) / (step - first[0]))
            first = step, at
    return took


_BEGUN = re.compile(r"\bsaving\b", re.IGNORECASE)


def is_saved(text: str, *, done: bool = False) -> bool:
    """Whether a line of the text tells that a checkpoint or the model is saved. `done`: not of one that only begins."""
    low = text.lower()
    if not any(word in low for word in _SAVED_WORDS):
        return False
    lines = (line for line in low.splitlines() if any(word in line for word in _SAVED_WORDS))
    return any(_SAVED.search(line[:LINE_CHARACTERS]) and not (done and _BEGUN.search(line)) for line in lines)
