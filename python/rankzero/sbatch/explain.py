# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What explains each command of a recorded script: a call that was written down, a variable, a folder, or nothing."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from itertools import zip_longest

from rankzero.sbatch import helpers
from rankzero.sbatch.declared import STARTERS
from rankzero.sbatch.job import Job
from rankzero.sbatch.launcher_words import launcher_of
from rankzero.sbatch.lines import ASSIGNMENT, Piece, heads, operands, pieces, substitutions
from rankzero.sbatch.options import names
from rankzero.sbatch.recorder import Call, Recording

#: Commands that only print, or that change nothing for a program.
PRINTS = names(
    "echo printf date hostname whoami pwd nvidia-smi rocm-smi squeue sinfo sacct true : id uname lscpu free df ls "
    "which type printenv set shopt sleep wait nproc getent"
)
#: Commands that read the logs at the end.
READS = names("grep tail head cat ls wc")
#: Commands whose output a script may keep in a variable: a stand-in answers, or the words decide. Others would read
#: this machine, which is not a node.
TELLS = names(
    "echo printf date hostname whoami pwd scontrol squeue sinfo sacct basename dirname seq expr shuf ip ifconfig ss "
    "netstat getent git mktemp nproc nvidia-smi srun true :"
)
FILTERS = names("head tail grep awk sed cut tr sort uniq wc bc tac rev paste xargs cat")
#: Commands that read several inputs: what other commands print, or files.
COMPARES = FILTERS | names("comm join")
#: Commands that start the ranks.
STARTS = names(
    "srun torchrun accelerate deepspeed python python2 python3 uv apptainer singularity env numactl timeout mpirun"
)
#: Calls that are no program of the job.
NO_PROGRAMS = PRINTS | names(
    "kill pkill killall scontrol ip ifconfig ss netstat shuf git module ml source ulimit umask scancel sattach "
    "sstat conda mamba micromamba spack"
)
#: Commands that change the shell: they are written down where they are called.
SET_UP = names("module ml source ulimit umask conda mamba micromamba spack")
USED = "where its value is used"
OF_THE_NODE = "its value depends on the node or on the job"
UNKNOWN = re.compile(r"/rankzero/unknown/\d/(\w+)")
EXPORTS = names("export declare readonly typeset local")


class Body:
    """Reads the commands of a script, recorded twice. `programs`: the pieces that start one. What becomes of each
    command is noted in `job`.
    """

    def __init__(self, job: Job, recordings: tuple[Recording, Recording], has_project: bool) -> None:
        self.job = job
        mine, its = ([call for call in each.calls if call.words[0] in SET_UP] for each in recordings)
        #: The calls that set the shell up, and whether both recordings have the same one.
        self.calls = [(call or other, _same(call, other)) for call, other in zip_longest(mine, its)]
        self.has_project = has_project
        self.programs: list[Piece] = []
        self.exports = job.exports
        self.modules: list[str] = []
        self.commands: list[str] = []
        self.ended = False
        self.waits = False
        #: Name of a command that changes the shell -> the lines where it is called.
        self.lines: dict[str, list[int]] = {}
        self.line = 0

    def read(self, parsed: str, script: str) -> None:
        """Read all commands, as bash has printed them."""
        listed = list(pieces(parsed, script))
        for piece, following in zip(listed, [*listed[1:], None]):
            self._take(piece, following)
        for name, value in self.exports.items():
            if name in PATHLESS:
                self.job.keep(value, name, "changes how bash itself reads")
        self.waits = any(piece.head == "wait" for piece in listed)
        for call, known in self.calls:
            self._setup(call, known)
        for name, left in self.lines.items():
            for line in left:
                self.job.keep(line, name, "the recording has not come to it")
        if self.modules:
            self.job.put("setup", "modules", self.modules)

    def _take(self, piece: Piece, following: Piece | None) -> None:
        first = piece.text.split(maxsplit=1)[0].strip("(){;") or "("
        if (helper := helpers.of(piece)) is not None:
            section, key, value, instead = helper
            if section:
                self.job.put(section, key, value)
            self.job.becomes(piece.line, first, instead)
        elif piece.block:
            self.job.keep(piece.line, first, "what it does may differ on the nodes")
        elif self.ended:
            self.job.keep(piece.line, first, "follows the end of the script")
        elif any(text.startswith("<") for text in piece.redirections) or ">(" in piece.text:
            self.job.keep(piece.line, piece.head or "<", "reads an input of the script's")
        elif unsafe := self._unsafe(piece.text):
            self.job.keep(piece.line, f"$({unsafe})", "its output is known only on the node")
        else:
            self._simple(piece, following)

    def _unsafe(self, text: str) -> str:
        """The first command in a substitution whose output is not known here."""
        for inner in substitutions(text):
            first, *others = [os.path.basename(head.strip("\"'")) for head in heads(inner)] or ["<"]
            told = first in TELLS or first.startswith("python") or (first in COMPARES and _of_others(inner))
            if inner.lstrip().startswith("<") or not told:
                return first
            if rest := [head for head in others if head not in FILTERS | TELLS]:
                return rest[0]
        return ""

    def _simple(self, piece: Piece, following: Piece | None) -> None:
        head = os.path.basename(piece.head.strip("\"'"))
        if head == "exec" and len(piece.words) > 1:
            self.ended = True
            head = os.path.basename(piece.words[1].strip("\"'"))
        handler = self._handler(head)
        if not piece.head:
            for word in piece.words:
                self.job.becomes(piece.line, _name(word), USED)
            if not piece.words:
                self.job.keep(piece.line, "a redirection", "changes the script's own output")
        elif handler:
            handler(piece)
        elif self._is_program(piece, head):
            self._program(piece, following)
        elif (head in READS and self.programs) or head in PRINTS:
            self._prints(piece, head)
        else:
            self.job.keep(piece.line, head, "a job has no such step")

    def _handler(self, head: str) -> Callable[[Piece], None] | None:
        handlers: Mapping[str, Callable[[Piece], None]] = {
            "cd": self._folder,
            "exit": self._exit,
            "shift": self._shift,
            "unset": self._unset,
            "mkdir": self._mkdir,
            "scontrol": self._scontrol,
            "tee": self._tee,
            **dict.fromkeys(EXPORTS, self._export),
            **dict.fromkeys((*SET_UP, "."), self._called),
        }
        return handlers.get(head)

    def _is_program(self, piece: Piece, head: str) -> bool:
        return head in STARTS or head.startswith(("python", "$")) or bool(launcher_of([head], STARTERS)[0])

    def _program(self, piece: Piece, following: Piece | None) -> None:
        self.programs.append(piece)
        if piece.after == "|" and (following is None or following.head != "tee"):
            self.job.keep(piece.line, "|", "another program reads what it prints")
        elif piece.after == "||" or piece.before in ("||", "|"):
            self.job.keep(piece.line, piece.after or piece.before, "depends on another command")
        elif piece.redirections or piece.after == "|":
            self.job.becomes(piece.line, "the file of its output", "every rank's log is kept in the run directory")

    def _tee(self, piece: Piece) -> None:
        if piece.before != "|":
            self.job.keep(piece.line, "tee", "a job has no such step")

    def _prints(self, piece: Piece, head: str) -> None:
        written = [text for text in piece.redirections if "/dev/null" not in text and ">&" not in text]
        if written or piece.after in ("&", "||") or piece.before == "||":
            self.job.keep(piece.line, head, "writes a file" if written else "depends on another command")
        else:
            self.job.becomes(piece.line, head, "nothing: it only prints")

    def _exit(self, piece: Piece) -> None:
        if piece.before == "||":
            self.job.becomes(piece.line, "exit", "a failure of the set-up ends the job")
        else:
            self.ended = True
            self.job.becomes(piece.line, "exit", "the exit code is that of the ranks")

    def _shift(self, piece: Piece) -> None:
        self.job.becomes(piece.line, "shift", "nothing: the arguments are where they are used")

    def _unset(self, piece: Piece) -> None:
        slurm = all(word.startswith(("SLURM_", "-")) for word in piece.words[1:])
        if slurm:
            self.job.becomes(piece.line, "unset", "nothing: the ranks' step gets its variables from the job")
        else:
            self.job.keep(
                piece.line, "unset", "a job starts without the variables of your shell; remove it if that is it"
            )

    def _mkdir(self, piece: Piece) -> None:
        if "log" in piece.text:
            self.job.becomes(piece.line, "mkdir", "logs are kept in the run directory")
        else:
            self.job.keep(piece.line, "mkdir", "the folder would be missing")

    def _scontrol(self, piece: Piece) -> None:
        if "show" in piece.words:
            self._prints(piece, "scontrol")
        else:
            self.job.keep(piece.line, "scontrol", "changes a job")

    def _folder(self, piece: Piece) -> None:
        if piece.after == "||" or not piece.before:
            self.job.becomes(piece.line, "cd", "code.src")

    def _export(self, piece: Piece) -> None:
        switches = [word for word in piece.words[1:] if word.startswith("-")]
        for word in piece.words[1 + len(switches) :]:
            if piece.head == "export" or any("x" in switch for switch in switches):
                self.exports.setdefault(_name(word), piece.line)
            else:
                self.job.becomes(piece.line, _name(word), USED)

    def _called(self, piece: Piece) -> None:
        """A command that was written down: _setup says what becomes of it."""
        head = piece.head if piece.head != "." else "source"
        self.lines.setdefault(head, []).append(piece.line)

    def _setup(self, call: Call, known: bool) -> None:
        """What a call of the set-up becomes. `known`: the same on every node, with a value for each variable."""
        name, *given = call.words
        self.line = self.lines[name].pop(0) if self.lines.get(name) else 0
        if not known:
            what = f"{name} {given[0]}" if given and name != "source" else name
            self.job.keep(self.line, what, unknown(" ".join(given)))
        elif name in ("module", "ml"):
            self._module(name, given if name == "module" else _of_ml(given))
        elif name in ("ulimit", "umask"):
            self.job.becomes(self.line, name, "setup.commands")
            self.commands.append(shlex.join(call.words))
        elif name == "source":
            self._source(given[0] if given else "")
        elif name in ("conda", "mamba", "micromamba") and given[:1] == ["activate"] and len(given) == 2:
            self._environment("path" if given[1].startswith("/") else "conda", given[1])
        elif name in ("conda", "mamba", "micromamba", "spack"):
            self.job.keep(self.line, f"{name} {given[0] if given else ''}", "a job has no such step")

    def _module(self, name: str, given: list[str]) -> None:
        action, *listed = given or [""]
        if action in ("load", "add") and listed and not self.commands:
            self.modules += listed
            self.job.becomes(self.line, f"{name} {' '.join(listed)}", "setup.modules")
        elif action == "purge" and not self.modules and not self.commands:
            self.job.becomes(self.line, f"{name} purge", "nothing: the job begins without the modules of your shell")
        elif action in ("load", "add", "use", "swap", "unload", "purge"):
            self.commands += [f"module load {each}" for each in self.modules]
            self.modules = []
            self.commands.append(shlex.join(["module", action, *listed]))
            self.job.becomes(self.line, f"{name} {action}", "setup.commands")
        elif action not in ("list", "avail", "show"):
            self.job.keep(self.line, f"{name} {action}", "is not known")

    def _source(self, path: str) -> None:
        folder = path.removesuffix("/bin/activate")
        if folder != path and folder.startswith("/"):
            self._environment("path", folder)
        elif folder in (".venv", "venv", "./.venv", "./venv") and self.has_project:
            self.project()
        elif os.path.basename(path) == CONDA:
            self.job.becomes(self.line, "conda.sh", "nothing: the environment is used without conda")
        else:
            self.job.keep(self.line, "source", "what the file does is not read")

    def _environment(self, option: str, value: str) -> None:
        self.job.spec["environment"] = {"mode": "path", option: value}
        self.job.becomes(self.line, value, f"environment.{option}")

    def project(self) -> None:
        """The environment is built from the project's pyproject.toml."""
        self.job.spec["environment"] = {"mode": "venv", "project": ".."}
        self.job.becomes(
            self.line, "the project's environment", "environment: built once, before the job, from pyproject.toml"
        )


#: The file that makes `conda activate` known.
CONDA = "conda.sh"
#: Variables that change bash, and not the program.
PATHLESS = ("BASH_ENV", "POSIXLY_CORRECT", "BASHOPTS", "SHELLOPTS")


def unknown(value: str) -> str:
    """Why a value is not known."""
    variables = sorted(set(UNKNOWN.findall(value)))
    if variables:
        return f"{', '.join(variables)} is not known; give it with --set {variables[0]}=VALUE"
    return OF_THE_NODE


def _same(call: Call | None, other: Call | None) -> bool:
    """Whether two recordings have the same call. conda's own functions are the same wherever they lie."""
    if call is None or other is None:
        return False
    read = [each.words[0] == "source" and os.path.basename(each.words[-1]) == CONDA for each in (call, other)]
    return call.words == other.words or all(read)


def _of_others(text: str) -> bool:
    """Whether the first command of a line reads what other commands print, `<(...)`, and nothing else."""
    words = operands(text)
    return bool(words) and all(word.startswith("<(") for word in words)


def _of_ml(given: list[str]) -> list[str]:
    known = ("load", "add", "use", "swap", "unload", "purge", "list", "avail", "show")
    return given if given[:1] and given[0] in known else ["load", *given]


def _name(word: str) -> str:
    match = ASSIGNMENT.match(word)
    return match[1] if match else word
