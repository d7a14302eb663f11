# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands for srun, the launchers and every Python on a cluster while a script and its job are compared there
(both_ways.py).

srun starts its tasks for real, and each of them notes the program that it is asked for. A launcher starts the ranks of
its node, which do the same; one that would start those of other nodes is noted itself. What belongs to the system
(shells, env, numactl) runs; every other program is noted and not run.
Python 3.9 and later, and the files beside this one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Sequence
from typing import Any, NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

# both_ways.py puts these beside this file: the collection's reader of Slurm's options, files of this package, and the
# launchers that the collection declares.
import launcher_words  # type: ignore[import-not-found]  # noqa: E402
import reader  # type: ignore[import-not-found]  # noqa: E402
import secret_words  # type: ignore[import-not-found]  # noqa: E402

PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
SYSTEM = ("/bin", "/usr/bin", "/sbin", "/usr/sbin")
#: Settings of a launcher that its ranks find in their environment.
SETTINGS = {"accelerate": ("ACCELERATE_MIXED_PRECISION", "mixed_precision", "no")}
#: What a rank is asked for, and where it notes that.
RANK = "--rank"
#: Becomes a rank with the Python of the image, whose programs find the stand-ins as those of a node do.
IN_IMAGE = (
    'tools=${0%/*} python=$(command -v python3 || command -v python) && export PATH="$tools/bin:$PATH" && '
    'exec "$python" -I "$0" "$@"'
)


def launchers() -> Any:
    """The launchers, as declared.py has them."""
    with open(os.path.join(HERE, "launchers.json"), encoding="utf-8") as stream:
        return json.load(stream)


def main(words: Sequence[str]) -> NoReturn:
    """Act as the first word. `--rank FOLDER` before it: a rank, which notes in that folder."""
    folder = os.environ.get("RANKZERO_CALLS") or os.path.join(HERE, "calls")
    if words[0] == RANK:
        folder, words = words[1], words[2:]
        # A container may have dropped it.
        os.environ["RANKZERO_CALLS"] = folder
    name = os.path.basename(words[0])
    runtime = os.environ.get("RANKZERO_RUNTIME")
    ours = runtime and any(word.startswith(f"{runtime}/") for word in words[1:])
    kind, count = launcher_words.launcher_of(words, launchers())
    if is_python(name) and list(words[1:]) == ["-c", ""]:
        # Whether Python starts at all, as a launch asks in a container.
        sys.exit(0)
    if ours and (name in ("srun", *launcher_words.APPTAINERS) or (is_python(name) and not kind)):
        # The launch's own: its step, its containers, its sampler.
        execute(words)
    if name == "srun":
        step(words, folder)
    if name in launcher_words.APPTAINERS:
        container(words, folder)
    if kind:
        ranks(kind, words[count:], folder)
    path = shutil.which(words[0])
    if path and os.path.dirname(path) in SYSTEM and not is_python(name):
        execute(words)
    note(name, words[1:], folder)
    sys.exit(0)


def is_python(name: str) -> bool:
    """Whether a name is that of a Python."""
    return PYTHON.fullmatch(name) is not None


def execute(words: Sequence[str]) -> NoReturn:
    """Become the real program."""
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(":") if folder != f"{HERE}/bin"]
    path = words[0] if "/" in words[0] and not words[0].startswith(HERE) else None
    path = path or shutil.which(os.path.basename(words[0]), path=":".join(folders))
    if path is None:
        print(f"{words[0]}: command not found", file=sys.stderr)
        sys.exit(127)
    os.execv(path, [path, *words[1:]])


def step(words: Sequence[str], folder: str) -> NoReturn:
    """Start the tasks of srun, which note what they are asked for."""
    numbered = [(0, word) for word in words[1:]]
    given = list(reader.options(numbered, reader.SRUN, reader.SRUN.names, []))
    if not numbered or any(option.name == "multi-prog" for option in given):
        execute(words)
    program = [word for _line, word in numbered]
    options = list(words[1 : len(words) - len(program)])
    if not any(option.name.startswith("container-") for option in given):
        execute([words[0], *options, *as_rank(program, folder)])
    mounts = [str(option.value) for option in given if option.name == "container-mounts"][-1:]
    # Of an option that is given twice, pyxis takes the last.
    mounted = f"--container-mounts={','.join([*mounts, *places(folder)])}"
    execute([words[0], *with_options(options, mounted), *as_rank_in_image(program, folder)])


def container(words: Sequence[str], folder: str) -> NoReturn:
    """Start the program of apptainer, which notes what it is asked for in its image."""
    said = launcher_words.in_an_image(words)
    if said is None or len(said[1]) < 2:
        execute(words)
    image, *program = said[1]
    options = words[1 : len(words) - len(said[1])]
    binds = [f"--bind={place}" for place in places(folder)]
    execute([words[0], *with_options(options, *binds), image, *as_rank_in_image(program, folder)])


def places(folder: str) -> list[str]:
    """What a container mounts for the stand-ins, and for what they note."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return [f"{HERE}:{HERE}:ro", f"{folder}:{folder}"]


def with_options(options: Sequence[str], *further: str) -> list[str]:
    """Options with further ones, before the word that ends them."""
    ended = options[-1:] == ["--"]
    return [*options[: len(options) - ended], *further, *options[len(options) - ended :]]


def as_rank_in_image(program: Sequence[str], folder: str) -> list[str]:
    """As `as_rank`, for a program of an image."""
    return ["/bin/sh", "-c", IN_IMAGE, os.path.join(HERE, "stand_in.py"), RANK, folder, *program]


def as_rank(program: Sequence[str], folder: str) -> list[str]:
    """The words that start a program as one that notes its call."""
    return [sys.executable, "-I", os.path.join(HERE, "stand_in.py"), RANK, folder, *program]


def ranks(kind: str, given: Sequence[str], folder: str) -> None:
    """Start the ranks of this node as a launcher does, and exit with the greatest exit code. Returns where it would
    start those of other nodes by ssh.
    """
    wanted = launchers()[kind][2]
    switches = launcher_words.switches(wanted)
    options: dict[str, str] = {}
    program = list(given)
    first = 1
    while program and program[0].startswith("-"):
        word = program.pop(0)
        if word == "--":
            break
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        options[name] = value if equals or name in switches or not program else program.pop(0)
    if "no_python" not in options:
        started_by = ["python", *(["-m"] if launcher_words.MODULES & set(options) else [])]
        program, first = [*started_by, *program], len(started_by) + 1
    told = {wanted[name]: value for name, value in options.items() if name in wanted}
    alone = "standalone" in options
    nodes = 1 if alone else int(told.get("nodes", "1").rpartition(":")[2])
    if kind == "deepspeed" and nodes > 1 and "no_ssh" not in options:
        return
    count = int(told["world_size"]) // nodes if "world_size" in told else _count(told.get("ranks_per_node", "1"))
    # Nodes that meet by c10d number themselves.
    own = os.environ.get("SLURM_NODEID") if "rdzv_backend" in options else None
    node = 0 if alone else int(told.get("node") or own or 0)
    address, _colon, port = options.get("rdzv_endpoint", "").partition(":")
    common = {
        "GROUP_RANK": str(node), "LOCAL_WORLD_SIZE": str(count), "WORLD_SIZE": str(count * nodes),
        "MASTER_ADDR": told.get("master_addr") or address or "127.0.0.1",
        "MASTER_PORT": told.get("master_port") or port or "29500",
        **({} if count == 1 or "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": "1"}),
    }  # fmt: skip
    if kind in SETTINGS:
        variable, option, otherwise = SETTINGS[kind]
        common[variable] = options.get(option, otherwise)
    if kind == "deepspeed":
        common |= {"CROSS_RANK": str(node), "CROSS_SIZE": str(nodes), "LOCAL_SIZE": str(count)}
    started = []
    for local in range(count):
        # DeepSpeed gives a program its number after its name.
        number = [f"--local_rank={local}"] if kind == "deepspeed" and "no_local_rank" not in options else []
        started.append(
            subprocess.Popen(
                as_rank([*program[:first], *number, *program[first:]], folder),
                env={**os.environ, **common, "RANK": str(node * count + local), "LOCAL_RANK": str(local)},
            )
        )
    sys.exit(max(process.wait() for process in started))


def _count(text: str) -> int:
    """The ranks of a node, as torchrun is told them."""
    if text.isdigit():
        return int(text)
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if text == "cpu" or (text == "auto" and not devices):
        return len(os.sched_getaffinity(0))
    return len(devices.split(",")) if devices else 1


def _address(node: str) -> str:
    """The address of a node; empty where it has none."""
    try:
        return socket.gethostbyname(node) if node else ""
    except OSError:
        return ""


def note(name: str, arguments: Sequence[str], folder: str) -> None:
    """Write down a call. The value of a variable that is a secret by its name stays out."""
    seen = {
        "program": "python" if is_python(name) else name,
        "arguments": list(arguments[1:] if is_python(name) and arguments[:1] == ["-u"] else arguments),
        "folder": os.getcwd(),
        "address": _address(os.environ.get("SLURMD_NODENAME", "")),
        "environment": {
            name: "hidden" if secret_words.is_secret_name(name) else value for name, value in os.environ.items()
        },
    }
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{uuid.uuid4()}.json")
    with open(path, "x", encoding="utf-8", errors="surrogateescape") as stream:
        json.dump(seen, stream)


if __name__ == "__main__":
    main(sys.argv[1:])
