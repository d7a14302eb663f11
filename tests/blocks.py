# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The code blocks of the Markdown pages, and the commands in them."""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.variables import PLAYBOOKS, refuse_unknown
from rankzero.errors import UsageError
from rankzero.options import VERBS
from rankzero.parsing import parse
from tests.repository import files, plugin_names, read

PAGES = [path for path in files(suffix=".md") if not path.startswith("docs/docsite/")]
#: First words of blocks without a language that are typed into a shell. Other blocks are output.
PROGRAMS = {
    *("ansible", "ansible-doc", "ansible-galaxy", "ansible-inventory", "ansible-playbook", "cat", "cd", "chmod", "cp"),
    *("curl", "export", "find", "git", "make", "mkdir", "pip", "python", "python3", "rankzero", "sbatch", "scontrol"),
    *("salloc", "sinfo", "source", "squeue", "srun", "ssh", "sudo", "systemctl", "uv", "PYTHONPATH"),
}
#: Options of ansible-playbook that the pages use, and whether a value follows.
ANSIBLE_OPTIONS = {
    **dict.fromkeys(("-i", "--inventory", "-e", "--extra-vars", "--tags", "-t", "-l", "--limit"), True),
    **dict.fromkeys(("-u", "--user", "-c", "--connection"), True),
    **dict.fromkeys(("--check", "--diff", "-b", "--become", "-v", "-vv", "-vvv", "-K", "-k", "--syntax-check"), False),
}


@dataclass(frozen=True)
class Block:
    """A code block: its page, its first line there, its language and its text."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@functools.cache
def blocks() -> tuple[Block, ...]:
    """All code blocks, fenced and indented, also those in lists."""
    return tuple(block for page in PAGES for block in _of_page(page))


def _of_page(page: str) -> Iterator[Block]:
    for token in MarkdownIt("commonmark").enable("table").parse(read(page)):
        if token.type in ("fence", "code_block") and token.map:
            language = token.info.strip() or _guessed(token.content)
            yield Block(page, token.map[0] + 1, {"shell": "sh", "bash": "sh"}.get(language, language), token.content)


def _guessed(text: str) -> str:
    first = re.match(r"(?:\$ )?([\w-]+)", text)
    if first and first[1] in PROGRAMS:
        return "sh"
    if re.match(r"(?:import \w|from \w|[A-Z_]+ = [A-Z]\w+\()", text):
        return "python"
    # Output of a launch has the form `HOST: text`, with the same host in each line.
    return "yaml" if re.match(r"(?:# .*\n)?\w+: *(?:[{\[\n]|\S+\n)", text) else "text"


def script(block: Block) -> str:
    """A shell block without prompts, and without the output that follows an empty line."""
    lines = block.text.splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    elif block.language == "sh" and "\n\n" in block.text:
        parts = block.text.split("\n\n")
        lines = "\n".join(part for part in parts if _guessed(part) == "sh" or part.startswith("#")).splitlines()
    return "\n".join(lines) + "\n"


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a script: lines, and what stands in $( ) and <( )."""
    for line in text.replace("\\\n", " ").splitlines():
        for inner in re.findall(r"[$<]\(([^()]*)\)", line):
            yield shlex.split(inner, comments=True)
        for part in re.split(r"(?:&&|\|\||;|(?<!\|)\|(?!\|)) ", line.partition(" #")[0]):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:  # a quoted operator was cut in two: the whole line is one command
                words = shlex.split(line, comments=True)
            while words and re.match(r"\w+=", words[0]):
                words = words[1:]
            if words:
                yield words


def inline_commands(page: str) -> Iterator[list[str]]:
    """The commands that stand in the text of a page: `ansible-playbook rankzero.slurm.x -e y=z`."""
    for token in MarkdownIt("commonmark").enable("table").parse(read(page)):
        for child in token.children or []:
            if child.type == "code_inline" and re.match(r"(?:ansible-playbook|rankzero) \S", child.content):
                yield shlex.split(child.content, comments=True)


def wrong_command(words: list[str]) -> str | None:
    """What is wrong with a command of ours; None for a right one, and for another program."""
    program, *arguments = words
    if program == "rankzero":
        return _wrong_verb(arguments)
    if program == "ansible-playbook":
        return _wrong_playbook(arguments)
    if program == "ansible-doc":
        kinds = ("modules", "callback", "inventory")
        known = {f"rankzero.slurm.{name}" for kind in kinds for name in plugin_names(kind)}
        unknown = [word for word in arguments if word.startswith("rankzero.") and word not in known]
        return f"no such plugin: {unknown}" if unknown else None
    if program == "ansible" and "-m" in arguments:
        module = arguments[arguments.index("-m") + 1]
        if module.startswith("rankzero.") and module.removeprefix("rankzero.slurm.") not in plugin_names("modules"):
            return f"no such module: {module}"
    return None


def _wrong_verb(arguments: list[str]) -> str | None:
    # An ellipsis and names in capitals stand for what the reader types.
    if not arguments or "--help" in arguments or any("|" in word or word == "..." for word in arguments):
        return None
    if len(arguments) == 1 and arguments[0] in VERBS:  # the text speaks of the verb
        return None
    try:
        parse(arguments)
    except UsageError as error:
        return str(error)
    return None


def _wrong_playbook(arguments: list[str]) -> str | None:
    playbooks, variables = [], []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if not word.startswith("-"):
            playbooks.append(word)
        elif name not in ANSIBLE_OPTIONS:
            return f"{word} is not an option that these pages use"
        elif ANSIBLE_OPTIONS[name]:
            value = value if equals else waiting.pop(0)
            if name in ("-e", "--extra-vars"):
                variables += _names(value)
    ours = [book.removeprefix("rankzero.slurm.") for book in playbooks if book.startswith("rankzero.slurm.")]
    if ours == ["NAME"]:
        return None
    if not playbooks or not set(ours) <= set(PLAYBOOKS):
        return f"no such playbook: {ours}"
    try:
        refuse_unknown(ours[0] if ours else None, variables, ())
    except RankzeroError as error:
        return str(error).split("\n")[1].strip()
    return None


def _names(value: str) -> list[str]:
    if value.startswith("@"):
        return []
    if value.startswith("{"):
        return list(json.loads(value))
    return [part.partition("=")[0] for part in shlex.split(value)]
