# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No pipe that ships, or that a page teaches, hides that its first program has failed."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from tests.blocks import PAGES, blocks
from tests.plans import plan
from tests.repository import bullet_list, files, read

FAILED = 3
#: What a play gives to a shell. A bare `shell` is the line of a job.
TASKS = ("ansible.builtin.shell", "ansible.builtin.raw")
#: A line of a job in the text of a page.
INLINE = re.compile(r"`(shell: [^`]+)`")
#: Files of the examples that a shell reads.
FOR_A_SHELL = (".sh", "crontab", "scrontab", ".service")


def values(data: Any, *names: str) -> Iterator[str]:
    """The texts under such a key, anywhere in a document."""
    if isinstance(data, dict):
        for name, value in data.items():
            if name in names:
                yield from [value] if isinstance(value, str) else values(value, "cmd")
            yield from values(value, *names)
    elif isinstance(data, list):
        for entry in data:
            yield from values(entry, *names)


def documents(text: str) -> list[Any]:
    """The documents of a text in YAML; none if another program's tags are in it."""
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        return []


def programs(line: str) -> list[str]:
    """The programs of the first pipe of a line, in order; none without a pipe."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    found: list[str] = []
    begins = True
    for word in words:
        if word in ("|", "|&"):
            begins = True
        elif set(word) <= set("&;|()"):
            if len(found) > 1:
                break
            found, begins = [], True
        elif begins and not re.match(r"\w+=", word):
            found.append(word)
            begins = False
    return found if len(found) > 1 else []


def job_lines() -> dict[str, str]:
    """Every line with a pipe that a job of an example or a page has for its ranks, with its place."""
    texts = [(path, read(path)) for path in files("examples/", ".yml")]
    texts += [(block.place, block.text) for block in blocks() if block.language == "yaml"]
    texts += [(page, found) for page in PAGES for found in INLINE.findall(read(page))]
    lines = [(place, line) for place, text in texts for data in documents(text) for line in values(data, "shell")]
    return {f"{place} {line}": line for place, line in lines if programs(line)}


def test_a_rank_ends_with_the_code_of_the_first_program(tmp_path: Path) -> None:
    """By the bash that the plan starts, with stand-ins for the programs of each line. In one test: every worker of a
    run collects, and would read all pages to know the lines of many.
    """
    lines = job_lines()
    assert lines, "jobs of examples and pages have pipes"
    codes = {place: exit_code(line, tmp_path / str(number)) for number, (place, line) in enumerate(lines.items())}
    assert codes == dict.fromkeys(lines, FAILED)


def exit_code(line: str, folder: Path) -> int:
    """How such a line of a rank ends where its first program fails."""
    folder.mkdir()
    merged = merge([Layer("job.yml", {"name": "piped", "shell": line})])
    argv = plan(validated(merged), merged, code_key="c0de", runtime_key="44", state_root="/s", store_root="/t").argv
    first, *others = programs(line)
    for name, body in {**dict.fromkeys(others, "cat > /dev/null"), first: f"exit {FAILED}"}.items():
        (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{body}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return subprocess.run(argv, cwd=folder, env={"PATH": str(folder)}, check=False, timeout=60).returncode


def test_no_play_and_no_file_for_a_shell_hides_a_failure_in_a_pipe() -> None:
    texts = [(path, read(path)) for top in ("examples/", "playbooks/", "roles/") for path in files(top, ".yml")]
    texts += [(block.place, block.text) for block in blocks() if block.language == "yaml"]
    given = [(place, line) for place, text in texts for data in documents(text) for line in values(data, *TASKS)]
    assert given, "the playbooks have lines for a shell"
    for path in files("examples/"):
        if path.endswith(FOR_A_SHELL):
            lines = read(path).replace("\\\n", " ").splitlines()
            given += [(path, line) for line in lines if not line.lstrip().startswith("#")]
    hidden = [f"{place}: {line}" for place, line in given if programs(line) and "pipefail" not in line]
    assert not hidden, f"write it without a pipe, or begin with `set -o pipefail`:{bullet_list(hidden)}"


#: The pipes of the shell text that is part of the product, by the file and the beginning of the first program, and why
#: a failure of any but the last program does no harm. None runs with pipefail: it is turned on for a job's own lines.
HARMLESS = {
    ("runtime/rank/rank.sh", "getent ahostsv4"): "no address: the network libraries choose the interface",
    ("runtime/rank/rank.sh", "ip -o -4 addr"): "no interface: the route is asked",
    ("runtime/rank/rank.sh", "ip -o -4 route"): "no route: the network libraries choose the interface",
    ("runtime/rank/secrets.sh", "printf '%s' \"${rankzero_line"): "printf of a text does not fail; base64 is last",
    ("runtime/start/attach.sh", "scontrol show config"): "no name: Slurm did not tell it to the step either",
    ("runtime/start/no_python.sh", "sed -n"): "sed reads a text of ours",
    ("runtime/start/no_python.sh", 'names "$asked"'): "scontrol asks nobody for it; then Slurm refuses the update",
    ("runtime/start/no_python.sh", "within 60 sinfo"): "no nodes: Slurm decides",
    ("jobs/templates/job.sbatch.j2", 'cd "$RANKZERO_RUNTIME"'): "what failed is in the sum, which then is another one",
    ("jobs/templates/sealed.j2", "scontrol show config"): "no TmpFS: the other local folders are tried",
    ("plugin_utils/jobs/site_environment.py", "printf '%s"): "the names were read before",
    ("plugin_utils/jobs/site_environment.py", "read_names"): "its failure is written into the digest",
    ("lab/machine/sharing.py", "sshfs --help"): "no help: the option is not used",
    ("signatures/compiled.py", "srun --help"): "words for people, which nobody runs",
}
#: A pipe in a shell's text. `||` and the alternatives of a `case` are none.
PIPE = re.compile(r"(?<!\|)\|(?!\|)")
CASE = re.compile(r"^\s*(?:case .* in )?\(?[^\s()]+(?: ?\| ?[^\s()]+)*\)(?=\s|$)")
#: The programs by which a pipe is known in a text of Python.
PROGRAMS = re.compile(
    r" \|&? (?:LC_ALL=C )?(?:awk|base64|cut|grep|head|sed|sh|sha256sum|sort|tail|tee|tr|uniq|wc|xargs)\b"
)
#: Texts of Python with such a program that are for people.
FOR_PEOPLE = (
    *("module_utils/diagnosis/signatures/sbatch_rejected.py", "module_utils/spec/job.py"),
    "plugin_utils/sources/outputs.py",
)


def shipped_pipes() -> Iterator[tuple[str, str]]:
    """The file and the line of each pipe in the shell text below plugins."""
    for path in [*files("plugins/", ".sh"), *(path for path in files("plugins/", ".j2") if ".html" not in path)]:
        for line in read(path).replace("\\\n", " ").splitlines():
            plain = re.sub(r"\{[{%#].*?[#%}]\}", "", re.sub(r"(?<![\w$\\])'[^']*'", "''", line))
            if not line.lstrip().startswith("#") and PIPE.search(CASE.sub("", plain)):
                yield path, line
    for path in files("plugins/", ".py"):
        text = read(path)
        if PROGRAMS.search(text) and not path.endswith(FOR_PEOPLE) and not path.startswith("plugins/modules/"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from ((path, line) for line in node.value.splitlines() if PROGRAMS.search(line))


def test_each_pipe_of_the_product_is_known_to_hide_no_failure() -> None:
    pipes = list(shipped_pipes())
    used = {key: [line for path, line in pipes if path.endswith(key[0]) and key[1] in line] for key in HARMLESS}
    known = {line for lines in used.values() for line in lines}
    hidden = [f"{path}: {line.strip()}" for path, line in pipes if line not in known]
    assert not hidden, f"show it harmless in HARMLESS, or write it without a pipe:{bullet_list(hidden)}"
    assert all(used.values()), [key for key, lines in used.items() if not lines]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a --x 'b | c'", []),
        ("a || b", []),
        ("cd x && A=1 a --y | tee log", ["a", "tee"]),
        ("a 2>&1 |& b | c; d", ["a", "b", "c"]),
    ],
)
def test_a_pipe_is_seen(line: str, found: list[str]) -> None:
    assert programs(line) == found
