# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a batch script in a sandbox, with stand-ins for the programs that it starts, and read what it called.

Nothing that is recorded is executed. A script is recorded in an allocation that does not exist; two recordings in two
allocations show what of a call depends on the nodes, on the job or on a variable that nobody has given.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankzero.sbatch.options import names

HERE = os.path.dirname(os.path.abspath(__file__))
#: Bounds of one recording.
SECONDS, PROCESSES, FILES, BYTES, CALLS, OUTPUT, SLEEPS = 20, 64, 4000, 96 << 20, 150, 8 << 20, 10
#: Programs that are written down and not run, besides every Python.
PROGRAMS = names(
    "srun sbatch salloc scontrol squeue sinfo sacct scancel sbcast sattach sstat torchrun accelerate deepspeed "
    "mpirun mpiexec orterun horovodrun colossalai ray vllm lightning composer python python2 python3 ipython uv "
    "uvx pip pip3 pipx poetry pixi pdm hatch conda mamba micromamba spack pytest module ml apptainer "
    "singularity docker podman enroot shifter charliecloud ch-run podman-hpc nvidia-smi rocm-smi xpu-smi "
    "nvidia-cuda-mps-control nsys ncu numactl taskset timeout nice nohup stdbuf setsid chrt ip ifconfig ss "
    "netstat getent hostname whoami date sleep shuf nproc git curl wget ssh scp rsync aws gsutil rclone Rscript "
    "R julia java matlab wandb huggingface-cli hf tensorboard source ulimit umask make cmake mail sudo kill "
    "pkill killall"
)
#: A variable that is read without a default: `$NAME`, `${NAME}`, `${NAME%...}`.
READ = re.compile(r"\$(?:([A-Za-z_]\w*)|\{[#!]?([A-Za-z_]\w*)(?!\w*:?[-=+?]|\w))")
#: The condition of a debug mode, which is off (helpers.py).
DEBUG_MODE = re.compile(r'-n "?\$\{?DEBUG(?::-)?\}?"? \]')
#: A variable that is read with a default: `${NAME:-text}`.
DEFAULTED = re.compile(r"\$\{([A-Za-z_]\w*):?[-=]")
#: What bash itself sets.
OF_BASH = ("PWD", "OLDPWD", "RANDOM", "SECONDS", "LINENO", "HOSTNAME", "UID", "EUID", "PPID", "IFS", "REPLY", "OPTARG",
           "OPTIND", "FUNCNAME", "PIPESTATUS", "DIRSTACK", "GROUPS", "SHLVL", "TMPDIR", "LANG", "SHELL")  # fmt: skip
#: What a shell and its user have set on every machine.
OF_A_LOGIN = ("HOME", "USER", "LOGNAME")
#: Lists of folders, to which scripts add.
LISTS = ("LD_LIBRARY_PATH", "PYTHONPATH", "LIBRARY_PATH", "CPATH", "MANPATH", "PKG_CONFIG_PATH")
PATH = "/rankzero/bin:/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Call:
    """A program that a script has called: its words, its folder and its environment. `piped`: its output was read."""

    words: list[str]
    folder: str
    environment: dict[str, str]
    piped: bool


@dataclass(frozen=True)
class Recording:
    """What a script did. `code`: its exit code, negative for a signal; `ended`: the bound that ended it; `parsed`: the
    script as bash has understood it, one command a line.
    """

    calls: list[Call]
    code: int
    ended: str
    parsed: str


@dataclass(frozen=True)
class Allocation:
    """The job that a script believes to be in. `tasks` and the other sizes are None where no option gave them."""

    nodes: int = 2
    gpus: int = 0
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    name: str = "job"
    others: Mapping[str, str] = field(default_factory=dict)
    #: What --export of the header sets.
    exports: Mapping[str, str] = field(default_factory=dict)

    def variables(self, number: int, folder: str) -> dict[str, str]:
        """The variables of the batch step, as Slurm sets them. `number`: which recording it is, 1 or 2."""
        names, job, tasks = self.names(number), str(4_000_000 + 1013 * number), self.tasks
        per_node = self.tasks_per_node or (-(-tasks // self.nodes) if tasks else 1)
        times = f"(x{self.nodes})" if self.nodes > 1 else ""
        cpus = str((self.cpus_per_task or 1) * per_node)
        known: dict[str, object] = {
            "SLURM_JOB_ID": job, "SLURM_JOBID": job, "SLURM_JOB_NAME": self.name, "SLURM_JOB_NUM_NODES": self.nodes,
            "SLURM_NNODES": self.nodes, "SLURM_JOB_NODELIST": self.node_list(number), "SLURM_CLUSTER_NAME": "cluster",
            "SLURM_NODELIST": self.node_list(number), "SLURMD_NODENAME": names[0], "SLURM_SUBMIT_DIR": folder,
            "SLURM_SUBMIT_HOST": f"login{number}", "SLURM_PROCID": 0, "SLURM_LOCALID": 0, "SLURM_NODEID": 0,
            "SLURM_TASKS_PER_NODE": f"{per_node}{times}", "SLURM_JOB_CPUS_PER_NODE": f"{cpus}{times}",
            "SLURM_CPUS_ON_NODE": cpus, "SLURM_NTASKS": tasks, "SLURM_NPROCS": tasks, "ENVIRONMENT": "BATCH",
            "SLURM_NTASKS_PER_NODE": self.tasks_per_node, "SLURM_CPUS_PER_TASK": self.cpus_per_task,
        }  # fmt: skip
        if any(name.startswith("SLURM_ARRAY_") for name in self.others):
            known["SLURM_ARRAY_JOB_ID"] = job
        if self.gpus:
            numbers = ",".join(map(str, range(self.gpus)))
            known |= {"SLURM_GPUS_ON_NODE": self.gpus, "SLURM_JOB_GPUS": numbers, "CUDA_VISIBLE_DEVICES": numbers}
        return {
            name: str(value) for name, value in {**known, **self.others, **self.exports}.items() if value is not None
        }

    def names(self, number: int) -> list[str]:
        """The names of the nodes."""
        return [f"{'node' if number == 1 else 'other'}{place:02d}" for place in range(1, self.nodes + 1)]

    def node_list(self, number: int) -> str:
        """The names of the nodes, as Slurm shortens them."""
        names = self.names(number)
        return names[0] if len(names) == 1 else f"{names[0][:-2]}[01-{names[-1][-2:]}]"

    def answers(self, number: int) -> str:
        """What the stand-ins know of the job, as assignments of a shell."""
        numbers = " ".join(map(str, range(self.gpus)))
        return (
            f"node_names='{' '.join(self.names(number))}' node_list='{self.node_list(number)}'\n"
            f"number_of_nodes={self.nodes} number_of_job={4_000_000 + 1013 * number} address=10.{number}.7.{number}\n"
            f"some_number={20_000 + 17 * number} gpu_numbers='{numbers}' most_sleeps={SLEEPS}\n"
        )


@dataclass(frozen=True)
class Script:
    """A script to record: its text and folder, arguments, and the variables that the user has given."""

    text: str
    folder: str
    arguments: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    #: The whole environment in which it begins, for what a step runs; None for a batch script.
    inherited: Mapping[str, str] | None = None

    def unknown(self) -> list[str]:
        """The variables that the script may read without a default and that neither Slurm nor the user has set."""
        text = DEBUG_MODE.sub("", self.text)
        read = {name for match in READ.finditer(text) for name in match.groups() if name}
        own = {name for name in read if self._known(name) or self._sets_default(name)}
        return sorted(read - own)

    def defaults(self) -> list[str]:
        """The variables that are read with a default and that nobody has set."""
        read = {match[1] for match in DEFAULTED.finditer(self.text)} - {*self.unknown(), "DEBUG"}
        assigned = {name for name in read if re.search(rf"\b{name}=", self.text) and not self._sets_default(name)}
        return sorted(name for name in read - assigned if not self._known(name))

    def _known(self, name: str) -> bool:
        """Whether a variable is set by Slurm, by a shell, or by the user."""
        return name.startswith(("SLURM", "BASH")) or name in {*self.given, *LISTS, *OF_A_LOGIN, *OF_BASH, "PATH"}

    def _sets_default(self, name: str) -> bool:
        """Whether the script gives a variable its default for all that follows: `A=${A:-text}`."""
        return re.search(rf"\b{name}=\"?\$\{{{name}:?[-=]", self.text) is not None

    def before(self, environment: Mapping[str, str], number: int) -> str:
        """Assignments of what is not known, for the script's shell: no program gets them unexported."""
        unknown = [name for name in self.unknown() if name not in environment]
        return "".join(f"{name}={sentinel(number, name)}\n" for name in unknown)

    def environment(self, allocation: Allocation, number: int) -> dict[str, str]:
        """The environment in which the script begins. What is not known differs between two recordings."""
        unknown = {name: sentinel(number, name) for name in OF_A_LOGIN}
        lists = {name: f"/rankzero/before/{name}" for name in LISTS}
        if self.inherited is not None:
            return {**unknown, **self.inherited, "BASH_ENV": "/rankzero/prelude"}
        slurm = allocation.variables(number, self.folder)
        shell = {
            "PATH": PATH,
            "SHELL": "/bin/bash",
            "TMPDIR": "/tmp",
            "LANG": "C.UTF-8",
            "BASH_ENV": "/rankzero/prelude",
        }
        return {**unknown, **lists, **shell, **slurm, **self.given}


def sentinel(number: int, name: str) -> str:
    """The value of a variable that nobody has given: another one in each recording."""
    return f"/rankzero/unknown/{number}/{name}"


class NoSandboxError(Exception):
    """No sandbox can be had on this machine; the text says why."""


def recorded(script: Script, allocation: Allocation, number: int) -> Recording:
    """Record a script. Raises NoSandboxError."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        raise NoSandboxError("this machine has no command unshare (util-linux)")
    home = os.path.expanduser("~")
    environment = script.environment(allocation, number)
    request = {
        "folder": script.folder, "script": script.text, "environment": environment,
        # A home has keys, and a folder above it has other people's.
        "copied": os.path.commonpath([home, script.folder]) != script.folder,
        "words": ["/bin/bash", "/var/spool/slurmd/slurm_script", *script.arguments],
        "parse": ["/bin/bash", "--norc", "--noprofile", "-c", PARSE],
        "programs": sorted(PROGRAMS), "stand_in": _text("stand_in.sh"),
        "prelude": script.before(environment, number) + _text("prelude.sh"),
        "answers": allocation.answers(number) + _text("answers.sh"),
        "seconds": SECONDS, "processes": PROCESSES, "files": FILES, "bytes": BYTES, "calls": CALLS, "output": OUTPUT,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="rankzero-record-") as place:
        answer = _answer({**request, "root": place})
    if "refused" in answer:
        raise NoSandboxError(str(answer["refused"]))
    try:
        calls = [_call(call) for call in answer["calls"]]
        return Recording(calls, int(answer["code"]), str(answer["ended"]), str(answer["parsed"]))
    except (KeyError, TypeError, ValueError):
        raise NoSandboxError("the sandbox has answered what cannot be read") from None


#: Has bash read a script and print it in its own form: a function whose body it is.
PARSE = """eval "rankzero_script() {
$(</var/spool/slurmd/slurm_script)
}" && declare -f rankzero_script"""


def _text(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as stream:
        return stream.read()


def _answer(request: Mapping[str, Any]) -> Any:
    """What jail.py answers; it may be anything, because a hostile script may have answered."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork"]
    words += ["--kill-child", "--", sys.executable, "-I", os.path.join(HERE, "jail.py")]
    most = 16 * OUTPUT
    with tempfile.TemporaryFile() as asked:
        asked.write(json.dumps(request).encode())
        asked.seek(0)
        with subprocess.Popen(
            words,
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        ) as child:
            assert child.stdout is not None and child.stderr is not None
            text = child.stdout.read(most)
            child.kill()
            said = child.stderr.read(2000).decode("utf-8", "replace").strip()
    try:
        return json.loads(text)
    except ValueError:
        return {"refused": said.splitlines()[-1] if said else "the sandbox has answered nothing"}


def _call(call: Mapping[str, str]) -> Call:
    words = call["argv"].split("\0")[:-1]
    if not words:
        raise ValueError("a call without words")
    variables = (pair.partition("=") for pair in call["environ"].split("\0") if pair)
    environment = {name: value for name, _equals, value in variables}
    return Call(words, call["cwd"].rstrip("\n"), environment, bool(call["piped"]))
