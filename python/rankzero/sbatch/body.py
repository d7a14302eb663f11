# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands before and after the step of the ranks: modules, variables, environments, helpers."""

from __future__ import annotations

import os
import re

from rankzero.sbatch.job import Job
from rankzero.sbatch.step import Step, declared, read
from rankzero.sbatch.text import ASSIGNMENT, Command, filled, is_plain, names, words

#: Variables that rankzero sets for every rank.
RANK_VARIABLES = names(
    "MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_RANK NODE_RANK LOCAL_WORLD_SIZE NNODES NUM_NODES GPUS_PER_NODE "
    "NPROC_PER_NODE HEAD_NODE HEAD_NODE_IP RDZV_ENDPOINT PYTHONUNBUFFERED"
)
SECRET = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY|CREDENTIALS)$")
#: Commands that only print, or that a job does not need.
HARMLESS = names("echo printf date hostname pwd env nvidia-smi set trap scontrol squeue sinfo true : wait exit")
#: Commands that read the logs at the end.
READS = frozenset(["grep", "tail", "head", "cat", "ls"])
#: Shell commands that change the environment of the ranks. They are kept as shell lines.
SITE = names("ulimit source . umask eval spack conda mamba micromamba")
ACTIVATE = re.compile(r"(?:source|\.)\s+(?P<venv>\S+)/bin/activate$")
AWAITS = re.compile(r"!\s+-[efs]\s+[\"']?([^\s\"';\]]+)")
LAUNCHES = names("torchrun accelerate deepspeed apptainer singularity srun")


class Body:
    """Reads the commands of a script in order. `steps`: the commands that may start the ranks."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.steps: list[tuple[Command, Step]] = []
        self.modules: list[str] = []
        self.commands: list[str] = []

    def take(self, command: Command) -> None:
        """Read one command of the script."""
        background = re.search(r"&\s*(?:disown|\w+=\$!)?\s*$", command.text) is not None
        if command.block:
            self._block(command)
        elif background and not command.text.rstrip().endswith("&&"):
            self._background(command)
        else:
            for part in _split(command.text):
                self._simple(Command(command.line, part))

    def finish(self) -> None:
        """Put modules before the set-up lines, unless the script does more with modules than load them."""
        if self.modules:
            self.job.put("setup", "modules", self.modules)
        if self.commands:
            self.job.put("setup", "commands", self.commands)

    def _simple(self, command: Command) -> None:
        text = command.text
        given = words(text)
        if not given:
            return
        head = os.path.basename(given[0])
        if head in ("export", "declare", "readonly") or ASSIGNMENT.fullmatch(given[0]):
            self._assignment(command, exported=head in ("export", "declare"))
        elif head in ("module", "ml"):
            self._module(command, given[1:] if head == "module" else ["load", *given[1:]])
        elif ACTIVATE.match(text) or (head in ("conda", "mamba", "micromamba") and given[1:2] == ["activate"]):
            self._environment(command, given)
        elif self._starts(given):
            filled_words = words(_without_redirection(filled(text, self.job.variables)))
            self.steps.append((command, read(command.line, filled_words)))
        elif head == "uv" or given[:2] == ["pip", "install"]:
            self._build(command, given)
        elif head == "cd" and len(given) > 1:
            self.job.covered(command.line, text, "the ranks run in the run directory; their code is `code.src`")
        elif head == "scancel":
            self.job.covered(command.line, text, "the job ends itself, see `then: end` of the section `artifact`")
        elif head in READS and ">" not in text:
            self.job.covered(command.line, text, "the result card shows the last losses")
        elif head in SITE:
            self.commands.append(filled(text, self.job.variables))
        elif head not in HARMLESS and not (head == "mkdir" and "log" in text):
            self.job.unknown(command.line, text)

    def _starts(self, given: list[str]) -> bool:
        head = os.path.basename(given[0])
        ours = head in LAUNCHES or bool(declared(given)[0])
        return ours or re.fullmatch(r"python[\d.]*", head) is not None or given[:2] == ["uv", "run"]

    def _assignment(self, command: Command, *, exported: bool) -> None:
        text = re.sub(r"^(?:export|declare\s+-x|readonly)\s+", "", command.text)
        for name, value in _pairs(text):
            if value is None:
                exported_before = self.job.variables.get(name)
                if exported and exported_before is not None and name not in RANK_VARIABLES:
                    self._export(command, name, exported_before)
                continue
            value = filled(value, self.job.variables)
            if not is_plain(value) and not exported:
                self._dynamic(command, name, value)
                continue
            if is_plain(value):
                self.job.variables[name] = value
            if exported:
                self._export(command, name, value)

    def _dynamic(self, command: Command, name: str, value: str) -> None:
        """A value that is known only on the node. rankzero itself sets what the ranks are started with."""
        if value == "$!":
            return  # the process id of a helper
        if name.upper() in RANK_VARIABLES or re.search(r"scontrol|SLURM_|shuf|RANDOM|\bss\b|\bip\b|\bhost", value):
            self.job.covered(command.line, f"{name}={value}", "addresses, ports and ranks are set on the nodes")
        else:
            self.job.unknown(command.line, command.text)

    def _export(self, command: Command, name: str, value: str) -> None:
        if SECRET.search(name):
            self.job.put("secrets", name, {"from_env": name})
            self.job.covered(command.line, name, "a secret, read from your environment; its value is not copied")
        elif name in RANK_VARIABLES:
            self.job.covered(command.line, name, "set for every rank")
        elif name == "OMP_NUM_THREADS" and not value.isdecimal():
            self.job.covered(command.line, name, "follows from resources.cpus_per_rank")
        elif name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME") and not is_plain(value):
            self.job.covered(command.line, name, "the interface is found on the nodes")
        elif is_plain(value := _without_itself(name, value)):
            self.job.put("env", name, value)
        else:
            self.commands.append(f'export {name}="{value}"')

    def _module(self, command: Command, given: list[str]) -> None:
        action, *names = given or [""]
        if action in ("load", "add") and names and not self.commands and all(is_plain(name) for name in names):
            self.modules += [filled(name, self.job.variables) for name in names]
        elif action == "purge" and not self.modules and not self.commands:
            self.job.covered(command.line, command.text, "the job begins without the modules of your shell")
        elif action in ("load", "add", "use", "swap", "unload", "purge"):
            self.commands += [f"module load {name}" for name in self.modules]
            self.modules = []
            self.commands.append(filled(command.text, self.job.variables))
        elif action not in ("list", "avail"):
            self.job.unknown(command.line, command.text)

    def _environment(self, command: Command, given: list[str]) -> None:
        match = ACTIVATE.match(filled(command.text, self.job.variables))
        path = match["venv"].strip("\"'") if match else filled(given[-1], self.job.variables)
        if path.startswith("/") and is_plain(path):
            self.job.spec["environment"] = {"mode": "path", "path": path}
        elif os.path.basename(path) in (".venv", "venv"):
            self._project(command)
        else:
            self.job.unknown(command.line, command.text, "environment: give its absolute path, mode path")

    def _project(self, command: Command) -> None:
        self.job.spec["environment"] = {"mode": "venv", "project": ".."}
        self.job.covered(command.line, command.text, "built once, before the job, from the project's pyproject.toml")

    def _build(self, command: Command, given: list[str]) -> None:
        if given[:2] in (["uv", "sync"], ["uv", "venv"]):
            self._project(command)
        else:
            self.job.unknown(
                command.line, command.text, "environments are built before the job, see docs/environments.md"
            )

    def _background(self, command: Command) -> None:
        """Helpers that a script starts in the background next to the ranks."""
        text = command.text
        period = re.search(r"(?:--loop=|-l\s*|-d\s*|sleep\s+)(\d+)", text)
        if "nvidia-smi" in text:
            self.job.put("monitor", "gpu", int(period[1]) if period else 15)
            self.job.covered(command.line, "nvidia-smi in the background", "monitor.gpu")
        elif re.search(r"\bdate\b", text) and "sleep" in text:
            self.job.put("monitor", "timestamps", int(period[1]) if period else 120)
            self.job.covered(command.line, "the clock in the background", "monitor.timestamps")
        elif self._starts(words(text)):
            self._simple(Command(command.line, re.sub(r"&\s*$", "", text).strip()))
        else:
            self.job.unknown(command.line, text)

    def _block(self, command: Command) -> None:
        text = command.text
        if text.rstrip().endswith("&") and re.search(r"\bdate\b|nvidia-smi", text):
            self._background(command)
        elif "DEBUG" in text.splitlines()[0] and text.startswith("if"):
            self.job.covered(command.line, "a debug mode", "run it with --set debug=true")
        elif "sbcast" in text:
            self.job.covered(command.line, "copies for nodes without the project", "preflight.stage does it")
        elif (awaited := AWAITS.search(text)) and "sleep" in text:
            self.job.awaited = filled(awaited[1], self.job.variables)
            self.job.covered(command.line, f"a loop that waits for {self.job.awaited}", "the section `artifact`")
        else:
            self.job.unknown(command.line, text)


def _without_itself(name: str, value: str) -> str:
    """`/opt/src:$PYTHONPATH` without its second part: a job starts without the variables of the user's shell."""
    if name != "PYTHONPATH":
        return value
    return re.sub(rf"\$(?:\{{{name}(?::-)?\}}|{name}\b)", "", value).strip(":")


def _pairs(text: str) -> list[tuple[str, str | None]]:
    """`A=1 B="x y"` as pairs. A value that contains a command extends to the end; a name alone has no value."""
    if "$(" in text or "`" in text:
        match = ASSIGNMENT.match(text)
        return [(match[1], match[2].strip("\"'"))] if match else []
    pairs: list[tuple[str, str | None]] = []
    for word in words(text):
        match = ASSIGNMENT.fullmatch(word)
        if match:
            pairs.append((match[1], match[2]))
        elif word.isidentifier():
            pairs.append((word, None))
    return pairs


def _split(text: str) -> list[str]:
    """Commands joined by `;` or `&&` outside quotes."""
    parts, quote, start = [], "", 0
    for index, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == ";" or text.startswith("&&", index):
            parts.append(text[start:index])
            start = index + (1 if letter == ";" else 2)
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _without_redirection(text: str) -> str:
    """A command without `> file`, `2>&1` and `| tee file` at the end."""
    text = re.sub(r"\s*(?:2>&1\s*)?\|\s*tee\b.*$", "", text)
    return re.sub(r"\s+(?:\d|&)?>{1,2}\s*&?\S+", "", text)
