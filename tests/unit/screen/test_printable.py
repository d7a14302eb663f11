# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that a file or the cluster says reaches a terminal as it is: each function that shows something, attacked."""

from __future__ import annotations

import ast
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.core import ansible, printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import explain
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import SweepOutcome
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.reasons import explain as explain_reason
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import (
    card,
    merged_logs,
    sweep_table,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import (
    display as screen,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending, FetchedLogs
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.progress import Progress
from tests.repository import ROOT
from tests.unit.screen.test_card import END, LAUNCH
from tests.unit.screen.test_sweep_table import result, row

#: Each attack, and what it would do to the person who reads.
HOSTILE = {
    "clears the screen": "\x1b[2J\x1b[Hall is well",
    "overwrites the line": "failed\rsucceeded",
    "rubs out": "failed\b\b\b\b\b\bproven",
    "sets the window's title": "\x1b]0;rm -rf\x07",
    "sets the clipboard": "\x1b]52;c;cm0gLXJmIH4=\x1b\\",
    "hides behind a link": "\x1b]8;;http://evil\x1b\\log\x1b]8;;\x1b\\",
    "asks the terminal to type": '\x1b[6n\x1bP$q"p\x1b\\',
    "has controls of one byte": "\x9b2J\x9d0;title\x9c\x90x\x9c",
    "reads from right to left": "exe.\u202egnp.\u2066x\u2069\u200f",
    "has letters that nobody sees": "pro\u200bven\u2060\ufeff\U000e0041",
    "is half a pair": "half \ud83d of a pair \udc80",
    "begins a line of ours": "x\nlab: job 7: COMPLETED\nlab: first-run succeeded",
    "ends a line in another way": "x\u2028lab: succeeded\u2029y\x85z\x0b\x0c",
    "rings": "\x07" * 50 + "\x7f\x00",
    "is long": "x" * 3_000_000,
}
#: A line of ours that a foreign text must not be able to begin.
FORGED = ("lab: job 7: COMPLETED", "lab: first-run succeeded", "lab: succeeded")


def shown_progress(text: str) -> list[str]:
    lines: list[str] = []
    progress = Progress(lambda line, color: lines.append(line), "host", lambda: 0.0, bar=lines.append)
    progress.events([Event("stuck", text), Event("metrics", text, 0.5), Event("proven", text)])
    progress.subject = text
    progress.show_line(text)
    progress.flush()
    return lines


def shown_card(text: str) -> list[str]:
    artifact = {"path": f"/s/{text}", "valid": True, "scalars": {text: text, "b": [text], "c": {text: text}}}
    outcome: Outcome = {"unfit_nodes": {text: text}, "artifact": artifact}
    whole = replace(END, slurm_state=text, nodes=[text], message=text, outcome=outcome)
    launch = replace(LAUNCH, name=text, run_dir=f"/s/{text}", explain=[text])
    return card.card(Ending(launch, whole)) + card.card(Ending(launch, problem=text))


def shown_table(text: str) -> list[str]:
    rows = [row(0, metric=1.0, job_id=text), row(1, "failed", message=text), row(2, "waiting", slurm_state=text)]
    rows = [{**one, "parameters": {"lr": text}} for one in rows]
    sweep = SweepOutcome.of(result(rows, name=text))
    return [*sweep_table.screen(sweep), printable.printable(sweep_table.tally(sweep))]


def shown_words(text: str, folder: Path) -> list[str]:
    logs = folder / "logs" / "1"
    logs.mkdir(parents=True)
    content = text[:20_000].encode("utf-8", "surrogatepass")
    (logs / "rank-0000.log").write_bytes(b"RuntimeError: " + content + b"\nstep 1/2 loss 3 " + content + b"\n")
    tail = merged_logs.Tail(str(folder / "logs"))
    return [
        *card.last_words(str(folder / "logs")),
        *tail.begin(),
        *card.card(Ending(LAUNCH, END, logs=FetchedLogs(str(folder)))),
    ]


def shown_explanation(text: str) -> list[str]:
    row = {"name": "A", "value": text, "reason": "r", "source": "s", "set_by": "job", "workaround": ""}
    return explain.table([row])


def shown_errors(text: str) -> list[str]:
    errors: list[RankzeroError] = [RankzeroError(text), SpecError([text])]
    try:
        validated(merge([Layer("job.yml", {"name": text, text: text, "env": {text: text}, "artifact": {text: 1}})]))
    except SpecError as error:
        errors.append(error)
    # What an error says may have several lines, so it is looked at as the screen shows it.
    return [line for error in errors for line in at_the_screen(error.message)]


def at_the_screen(text: str) -> list[str]:
    lines: list[str] = []

    class Recorder:
        def display(self, line: str, color: str | None = None, newline: bool = True) -> None:
            lines.append(line.removeprefix("\r"))

        def warning(self, line: str) -> None:
            lines.append(line.replace("\n", "\n    "))

    shown = screen.Screen(Recorder())
    shown.display(text)
    shown.warning(text)
    shown.progress(text)
    return [part for line in lines for part in line.split("\n")]


def shown_reason(text: str) -> list[str]:
    return at_the_screen(f"host: {explain_reason(text).sentence}")


SHOWERS: dict[str, Callable[[str, Path], list[str]]] = {
    "printable": lambda text, _folder: [printable.printable(text), printable.printable({text: [text]}, 80)],
    "progress": lambda text, _folder: shown_progress(text),
    "card": lambda text, _folder: shown_card(text),
    "sweep": lambda text, _folder: shown_table(text),
    "logs": shown_words,
    "explanation": lambda text, _folder: shown_explanation(text),
    "errors": lambda text, _folder: shown_errors(text),
    "screen": lambda text, _folder: at_the_screen(f"host: {text}"),
    "reason": lambda text, _folder: shown_reason(text),
}


def harmless(line: str) -> None:
    line.encode("utf-8")
    odd = [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\t"]
    assert not odd, (line[:200], odd[:5])
    assert len(line) < printable.LONGEST_OF_LINES + 100
    assert not line.startswith(FORGED), line


@pytest.mark.parametrize("shower", SHOWERS)
@pytest.mark.parametrize("attack", HOSTILE)
def test_an_attack_on_a_terminal_is_shown_and_not_obeyed(attack: str, shower: str, tmp_path: Path) -> None:
    lines = SHOWERS[shower](HOSTILE[attack], tmp_path)
    assert lines
    for line in lines:
        harmless(line)


@settings(max_examples=60)
@given(st.text(max_size=300))
def test_any_text_becomes_harmless_and_what_is_harmless_stays(text: str) -> None:
    harmless(printable.printable(text))
    shown = printable.printable_lines(text)
    for line in shown.split("\n"):
        assert not [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\t"]
    assert printable.printable_lines(shown) == shown
    if text.isprintable():
        assert shown == text and printable.printable(text) == text.rstrip()


def test_people_read_what_they_wrote() -> None:
    assert printable.printable("  loss 2.3 · 日本語 é 🚀  ") == "  loss 2.3 · 日本語 é 🚀"
    assert printable.printable("\x1b[32mstep 1\x1b[0m\tloss 2") == "step 1 loss 2"
    assert printable.printable_lines("a\n\tb\x1b[2J\r\n") == "a\n\tb\\x1b[2J\\r\n"
    assert printable.printable_lines("x" * 100_005) == "x" * 100_000 + "… (5 characters more)"


def test_of_a_result_the_texts_for_people_are_made_printable_and_data_stay() -> None:
    bad = "\x1b[2J"
    given = {"msg": bad, "diff": [{"before": bad, "after": f"{bad}\n"}], "path": bad, "scalars": {"message": bad}}
    found = printable.printable_result({**given, "rows": [{"message": bad, "key": bad, "count": 1}], "lines": [bad, 2]})
    seen = "\\x1b[2J"
    assert found == {
        "msg": seen,
        "diff": [{"before": seen, "after": f"{seen}\n"}],
        "path": bad,
        "scalars": {"message": bad},
        "rows": [{"message": seen, "key": bad, "count": 1}],
        "lines": [seen, 2],
    }


def test_every_module_ends_and_warns_through_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(AnsibleModule, "__init__", lambda self, **options: None)
    monkeypatch.setattr(AnsibleModule, "warn", lambda self, warning: told.append(warning))

    def logic(module: AnsibleModule) -> dict[str, Any]:
        module.warn("node \x1b[2J is down")
        if told[1:]:
            raise RankzeroError("\x9b2J", problems=["\x07"], path="\x07")
        return {"msg": "\u202e", "job_id": "\u202e"}

    class Left(Exception):
        pass

    def leave(self: AnsibleModule, **result: Any) -> None:
        told.append(result)
        raise Left

    monkeypatch.setattr(AnsibleModule, "exit_json", leave)
    monkeypatch.setattr(AnsibleModule, "fail_json", leave)
    for _time in range(2):
        with pytest.raises(Left):
            ansible.run_module({}, logic)
    warning = "node \\x1b[2J is down"
    assert told[:3] == [warning, {"msg": "\\u202e", "job_id": "\u202e"}, warning]
    assert told[3] == {"msg": "\\x9b2J", "problems": ["\\x07"], "path": "\x07"}


def test_every_action_ends_through_the_screen() -> None:
    class Shows(screen.Action):
        def __init__(self) -> None:
            pass

        def run(self, tmp: None = None, task_vars: None = None) -> dict[str, Any]:
            return {"msg": "\x1b[2J", "key": "\x1b"}

    assert Shows().run() == {"msg": "\\x1b[2J", "key": "\x1b"}


PLUGINS = sorted([*(ROOT / "plugins/action").glob("*.py"), *(ROOT / "plugins/plugin_utils").glob("*.py")])


@pytest.mark.parametrize("path", [path for path in PLUGINS if path.name != "screen.py"], ids=lambda path: path.name)
def test_nobody_goes_to_the_screen_another_way(path: Path) -> None:
    """Forgetting to clean a text is impossible where the only way out cleans it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not imported & {"ansible.utils.display.Display", "ansible.plugins.action.ActionBase"}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert "print" not in called


MODULES = sorted((ROOT / "plugins/modules").glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_module_ends_past_the_edge(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.name != "job_pipeline.py":  # its own half only says that it has been called without the other one
        assert not [word for word in ("exit_json(", "fail_json(", "AnsibleModule(") if word in text]
