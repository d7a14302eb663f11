# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for a job's program, for the artifact that proves its result, and for the parameters of a sweep."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.elsewhere import short_names
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import STARTERS, Starter
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections import sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.artifact import FORMATS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, suggestion

# What a shell replaces anywhere in a word: variables of the environment, which have capital letters (${name:...} is how
# programs read their own options), and commands. And a folder of a user at the beginning of a value.
_VALUE = re.compile(r"\$[A-Z_][A-Z0-9_]*|\$\{[A-Z_][A-Z0-9_]*[^}]*\}|\$\([^)]*\)?|(?:(?<=^)|(?<==))~[a-z0-9_-]*(?:/|$)")
# Words that are names of several files: a pattern with a folder or an ending, and braces without what JSON has in them.
_FILES = re.compile(
    r"(?=.*(?:/|\*\.))[\w./~+-]*[*?][\w./*?+-]*|[\w./~+=-]*\{[^{}\s\"':]*(?:,|\.\.)[^{}\s\"':]*\}[\w./*?+-]*"
)
# What Ansible and Jinja replace in their own files, and nothing does in a job file.
_TEMPLATE, _VARIABLE = re.compile(r"\{\{[^{}]*\}\}"), re.compile(r"\{\{ *[\w.]+ *\}\}")
_OPERATORS = ("|", "|&", "||", "&&", "&", ";", ">", ">>", "<", "<<", "<<<", "2>", "2>&1", "&>")
_SHELL = re.compile(r"(?:[^/]*/)*(?:ba|da|k|z|c|tc)?sh")
# So many words are named, and so many characters of each; so many characters of a word are looked at.
_MOST, _LONGEST, _LOOKED_AT = 5, 60, 1000


def for_a_shell(word: str) -> bool:
    """Return whether a word of a command means something else to a shell. A regular expression (.*) is none."""
    word = word[:_LOOKED_AT]
    files = _FILES.fullmatch(word) is not None and ".*" not in word
    return word in _OPERATORS or files or _VALUE.search(word) is not None


def _read_by_a_shell(command: Sequence[str]) -> bool:
    """Return whether a command is a shell with its line: bash -lc '...'."""
    return any(
        _SHELL.fullmatch(program) is not None and re.fullmatch(r"-[a-z]*c", option) is not None
        for program, option in zip(command, command[1:])
    )


def _started_again(spec: LaunchSpec) -> Iterator[str]:
    """Yield that the program is a launcher itself: each rank would start ranks of its own."""
    words = list(spec.command) or (spec.shell or "").split()[:3]
    runs_module = len(words) > 2 and posixpath.basename(words[0]).startswith("python") and words[1] == "-m"
    program = words[2] if runs_module else posixpath.basename(words[0]) if words else ""
    kind = next((row.kind for row in STARTERS if program in row.called), None)
    starter = _starter(spec)
    if kind and (starter is None or not starter.once):
        option = "command" if spec.command else "shell"
        yield (
            f"{option}: {program} starts ranks itself, and {spec.launcher.kind} starts it once for each of its tasks; "
            f"give the program alone, and launcher: {{kind: {kind}}}"
        )


def _without_packages(spec: LaunchSpec) -> Iterator[str]:
    """Yield that a launcher needs packages, and nothing of the job brings any."""
    starter = _starter(spec)
    brought = (spec.environment.mode, spec.container.runtime) != ("none", "none") or spec.setup.commands
    if starter and starter.packages and not brought and not spec.setup.modules:
        yield (
            f"launcher.kind: {starter.kind} needs the Python package {', '.join(starter.packages)}, and with "
            "environment.mode none each node's own Python must have it; set environment.mode (venv, sealed, path ...) "
            "or a container"
        )


def _starter(spec: LaunchSpec) -> Starter | None:
    return next((row for row in STARTERS if row.kind == spec.launcher.kind), None)


def warnings(spec: LaunchSpec) -> list[str]:
    """Return warnings about programs that cannot run as a rank, and about words that no shell reads. What is said of
    every role is of the job; else the option of the role is named.
    """
    of_roles = {name: _warnings_of_program(role.spec) for name, role in spec.roles.items()}
    if not of_roles:
        return _warnings_of_program(spec)
    of_all = [text for text in next(iter(of_roles.values())) if all(text in told for told in of_roles.values())]
    own = [f"roles.{name}.{text}" for name, told in of_roles.items() for text in told if text not in of_all]
    return of_all + own


def _warnings_of_program(spec: LaunchSpec) -> list[str]:
    told = [*_started_again(spec), *_without_packages(spec), *_templates(spec)]
    words = [] if _read_by_a_shell(spec.command) else [word for word in spec.command if for_a_shell(word)]
    if words:
        named = ", ".join(printable(word, _LONGEST) for word in words[:_MOST])
        told.append(
            f"command: no shell reads its words, so each rank gets {named} as it is written; if a shell is to replace "
            "it, give the line as `shell` in the place of `command`"
        )
    for name, value in spec.env.items():
        match = _VALUE.search(value[:_LOOKED_AT])
        if match:
            told.append(
                f"env.{name}: no shell reads its value, so each rank gets {printable(match[0], _LONGEST)} as it is "
                "written; if a shell is to replace it, set the variable in `shell`, or in `setup.commands` where it is "
                "the same on all nodes"
            )
    return told


def _templates(spec: LaunchSpec) -> Iterator[str]:
    """Yield that a template stays as it is. In a sweep, two braces stand for one."""
    texts = [("command", " ".join(spec.command)), ("shell", spec.shell or "")]
    texts += [(f"env.{name}", value) for name, value in spec.env.items()]
    for option, text in () if spec.sweep else texts:
        template = _TEMPLATE.search(text[:_LOOKED_AT])
        if template:
            shown = printable(template[0], _LONGEST)
            typed = f"-s {option}=... on" if option.startswith("env.") else "the argument after `--` on"
            yield (
                f"{option}: a job file is no template, so {shown} stays as it is written; if it means a value, write "
                f"that, or give {typed} the command line"
            )


class Program(Aspect):
    """The program of every rank."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield a mistake unless exactly one of `command`, `shell` and `script` is given."""
        ways = {"command": spec.command, "shell": spec.shell, "script": spec.script}
        given = [name for name, value in ways.items() if value]
        if len(given) > 1:
            yield given, f"{', '.join(given)}: {'both' if len(given) == 2 else 'all'} are given; keep one"
        if not given:
            yield (
                list(ways),
                "command: is required (a list of arguments), or shell (a line for bash), or script (a batch script)",
            )
        if spec.command and not spec.command[0].strip():
            yield ["command"], "command: the program (first item) is empty"
        elif spec.command and not spec.sweep and _VARIABLE.fullmatch(spec.command[0][:_LOOKED_AT]):
            program = printable(spec.command[0], _LONGEST)
            yield ["command"], f"command: the program is {program}, and a job file is no template; write its name"
        if spec.code.writable and spec.script is not None:
            yield ["code.writable", "script"], "code.writable: a script works in its own copy anyway; omit it"

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Yield whether the ranks work in a copy of the code."""
        if context.spec.code.writable:
            yield "RANKZERO_CODE_WRITABLE", "1"


class Artifact(Aspect):
    """The result that proves the launch."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield paths outside the run directory, and options that the format does not have."""
        if spec.artifact is None:
            return
        path = spec.artifact.path
        if posixpath.isabs(path) or path in (".", "..") or path.startswith("../"):
            yield (
                ["artifact.path"],
                (
                    f"artifact.path: {path!r} is outside the run directory; give a path relative to the ranks' working "
                    "directory"
                ),
            )
        if (spec.artifact.format == "directory") != bool(spec.artifact.complete):
            yield (
                ["artifact.complete", "artifact.format"],
                (
                    "artifact.complete: names the file that is written last into a directory; it requires "
                    "artifact.format directory"
                ),
            )
        if spec.artifact.complete and spec.artifact.complete.startswith((".." + "/", "/")):
            yield (
                ["artifact.complete"],
                f"artifact.complete: {spec.artifact.complete!r} is outside the directory; give a path in it",
            )
        own = settings.artifact_formats
        names = [*(kind.name for kind in FORMATS), *own]
        if spec.artifact.format not in names:
            hint = suggestion(spec.artifact.format, names)
            yield (
                ["artifact.format"],
                (
                    f"artifact.format: {spec.artifact.format} is not a format{hint}; known: {', '.join(names)}; a "
                    "cluster declares others in launch_cluster.artifact_formats"
                ),
            )
            return
        readable = [kind.name for kind in FORMATS if kind.values and kind.name not in own]
        readable += [name for name, kind in own.items() if kind.values]
        if spec.artifact.require and spec.artifact.format not in readable:
            yield (
                ["artifact.require", "artifact.format"],
                (
                    f"artifact.require: needs an artifact.format that has values ({', '.join(readable)}), not "
                    f"{spec.artifact.format}"
                ),
            )
        if spec.artifact.grace and spec.artifact.then != "end":
            yield (
                ["artifact.grace", "artifact.then"],
                f"artifact.grace: {spec.artifact.grace} has no effect unless artifact.then is end",
            )


class Sweep(Aspect):
    """The parameters of a sweep."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield methods, parameters and placeholders of the sweep that do not fit."""
        yield from sweep.findings(spec, short_names())
