# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Batch scripts as users have them: launched as they are, and compared with what plain sbatch makes of the same file.

Each file of batch_scripts/ is one shape. It says what it does by the programs in batch_scripts/bin, which write down
how they were called: name, arguments, folder and environment. To add a shape, add a file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.both_ways import BothWays, Script
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site
from tests.repository import leaving, values_of

CORPUS = Path(__file__).with_name("batch_scripts")
SCRIPTS = sorted(path.stem for path in CORPUS.glob("*.sbatch"))
#: Left to `make test-all`: what the shell alone does with a script that reaches it as it is (script-reads-itself), and
#: second ways to say what another script of the corpus says.
MORE = {
    "a-pipe-hides-a-failure", "abbreviated-on-the-command-line", "another-shell-takes-over", "arrays-of-bash",
    "background-and-wait", "case-and-while", "case-that-falls-through", "closed-output", "command-in-a-variable",
    "comments-between", "continued-lines", "coprocess", "csh-with-conditions", "empty-word-ends-a-line",
    "env-with-arguments", "evaluated", "exit-code-of-the-last-command", "export-of-nothing-to-steps",
    "file-sent-to-nodes", "function-in-steps", "functions-and-conditions", "gpus-of-a-task", "here-document",
    "here-document-in-a-variable", "here-document-with-tabs", "here-documents-in-one-another", "here-string",
    "hosts-in-a-file", "interpreter-by-path", "loop-over-nodes", "no-generic-resources", "one-cpu-by-name",
    "output-by-default", "output-through-tee", "perl", "quotes-around-an-option", "several-programs",
    "shell-in-a-step", "shell-with-options", "short-options-together", "sourced-file", "spread-over-sockets",
    "stand-in-for-r", "subshells", "substitution-of-processes", "syntax-error-at-the-end",
    "tabs-and-no-last-newline", "trap-at-an-error", "trap-at-exit", "trap-at-its-own-signal", "unicode",
    "wait-for-any", "words-of-the-shell", "wrapped-with-quotes", "zsh",
}  # fmt: skip
# A script that is submitted with options says with which.
COMMAND_LINE = re.compile(r"^# (sbatch .*)$", re.M)
# A script with this line works in a folder of the cluster, not in a copy.
IN_PLACE = "# in place\n"
# A script with this line needs a program that not every machine has.
NEEDS = re.compile(r"^# needs (\S+)$", re.M)
#: Of this one the logs are looked at, too.
LOGS = "steps-with-logs"
ARGUMENTS = ["configs/8b.yaml", "two words", "#5"]


def script(name: str) -> Script:
    text = (CORPUS / f"{name}.sbatch").read_text(encoding="utf-8")
    match = COMMAND_LINE.search(text)
    words = shlex.split(match[1]) if match else ["sbatch"]
    if any(word.startswith("--wrap") for word in words):
        return Script(CORPUS, tuple(words))
    path = f"{name}.sbatch"
    return Script(CORPUS, (*words, path, *ARGUMENTS), path, IN_PLACE in text)


@pytest.fixture(scope="module")
def both(
    lab: LabCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[BothWays]:
    """All scripts that this session compares."""
    if lab.way != "realistic":
        pytest.skip("users of their own need root on this machine")
    site = Site(lab, tmp_path_factory.mktemp("scripts"), "scripts")
    names = dict.fromkeys([*values_of("test_a_script_does_what_it_does_under_sbatch", request), LOGS])
    yield BothWays(site, {name: script(name) for name in names if not missing(site, name)})
    site.close()


def missing(site: Site, name: str) -> str:
    """The program that a script needs and that the nodes do not have; empty if it needs none."""
    match = NEEDS.search((CORPUS / f"{name}.sbatch").read_text(encoding="utf-8"))
    return match[1] if match and not site.lab.head(["sh", "-c", f"command -v {match[1]} || true"]).stdout else ""


def test_what_is_left_out_is_there() -> None:
    assert {*SCRIPTS} > MORE


@pytest.mark.parametrize("name", leaving(SCRIPTS, MORE))
def test_a_script_does_what_it_does_under_sbatch(both: BothWays, name: str) -> None:
    if name not in both.scripts:
        pytest.skip(f"the nodes have no {missing(both.site, name)}")
    assert both.compare(name), "a script that calls nothing says nothing"


def test_what_a_script_and_its_steps_print_is_among_the_logs(both: BothWays) -> None:
    launch = both.launched[LOGS]
    logs = both.site.run_dir(launch) / "logs" / "0"
    names = ["rank-0000.log", "rank-0000.err", *(f"step-0/{path.name}" for path in (logs / "step-0").glob("*"))]
    printed = sorted((logs / name).read_text(encoding="utf-8") for name in names)
    assert printed == ["complaint\n", "err\n", "err\n", "out 0\n", "out 1\n", "script\n"]
    assert {"step-0/rank-0000.out", "step-0/rank-0001.out"} <= {*names}
