# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for commands that no machine of the tests has. Each says in its text what of the real one it keeps."""

from __future__ import annotations

from pathlib import Path

#: `apptainer exec`: its options (an unknown one is an error), that image and bound folders must exist, the working
#: directory, and that the image's variables beat the caller's (the image is a text file of NAME=VALUE lines; one that
#: looks like a SIF file may come first). It makes no file system of its own: that the right folders are bound is seen
#: in `words`, written beside the image.
APPTAINER = """\
#!/usr/bin/python3
import os, sys
given = sys.argv[1:]
words = list(given)
if words.pop(0) != "exec":
    sys.exit("FATAL: only exec is known to this stand-in")
environment, pwd = dict(os.environ), None
while words[0].startswith("--"):
    name, _, value = words.pop(0)[2:].partition("=")
    if name == "bind":
        source, target, *flags = value.split(":")
        if not os.path.exists(source):
            sys.exit(f"FATAL: container creation failed: mount {source}->{target} error: no such file or directory")
        if flags not in ([], ["ro"], ["rw"]):
            sys.exit(f"FATAL: while parsing bind path: {value} invalid")
    elif name == "pwd":
        pwd = value
    elif name == "no-mount":
        if "home" in value.split(","):
            environment["HOME"] = "/nowhere/home"
    elif name not in ("writable-tmpfs", "nv", "rocm"):
        sys.exit(f"Error for command exec: unknown flag: --{name}")
image = words.pop(0)
if not os.path.exists(image):
    sys.exit(f"FATAL: could not open image {image}: failed to retrieve path: no such file or directory")
with open(image) as stream:
    environment.update(line.rstrip("\\n").split("=", 1) for line in stream if "=" in line)
try:
    with open(image + ".words", "x") as stream:
        stream.write("\\n".join(given))
except FileExistsError:
    pass
os.chdir(pwd)
os.execvpe(words[0], words, environment)
"""

#: `srun` with pyxis 0.24, before a srun that knows no container (the words in $PYXIS_STAND_IN_SRUN): flags, errors and
#: variables as they were recorded of the real one. An image is `hsqs`, a line's end, and lines NAME=VALUE. It makes no
#: file system of its own, so nothing is hidden and nothing is read-only.
PYXIS = """\
#!/usr/bin/python3
import json, os, shlex, sys
def end(text):
    sys.exit(f"slurmstepd-node: error: pyxis: {text}\\nslurmstepd-node: error: spank: required plugin spank_pyxis.so: "
             "task_init() failed with rc=-1")
def task(given, words):
    image, environment = given["container-image"], dict(os.environ)
    if not image.startswith(("/", "./")):
        end(f"    [ERROR] Could not process JSON input: {image} is looked up in a registry")
    if not os.path.exists(image):
        end(f"    [ERROR] No such file or directory: {image}")
    with open(image, encoding="utf-8", errors="replace") as stream:
        head, *lines = stream.read().splitlines() or [""]
    if head != "hsqs":
        end(f"    [ERROR] Invalid image format: {image}")
    for mount in given.get("container-mounts", "").split(","):
        if not mount:
            end("--container-mounts: invalid format")
        if not os.path.exists(mount.split(":")[0]):
            end(f"--container-mounts: source path does not exist: {mount.split(':')[0]}")
    kept = given.get("container-env", "").split(",")
    values = dict(line.split("=", 1) for line in lines)
    environment.update({name: value for name, value in values.items() if name not in kept or name not in environment})
    for name in [name for name in environment if name.startswith("BASH_FUNC_")] + ["LANG", "LC_ALL"]:
        if name not in values and name not in kept:
            environment.pop(name, None)
    environment.update(RANK=environment["SLURM_PROCID"], LOCAL_RANK=environment["SLURM_LOCALID"])
    if "PYTORCH_VERSION" in values:
        environment.update(MASTER_ADDR="hook", MASTER_PORT="29500", WORLD_SIZE="1", RANK="0", OMP_NUM_THREADS="1")
    if "container-mount-home" not in given:
        environment["HOME"] = "/root"
    try:
        os.chdir(given.get("container-workdir", "/"))
    except OSError as error:
        end(f"couldn't chdir to {given['container-workdir']}: {error.strerror}")
    os.execvpe(words[0], words, environment)
def main(words):
    real = shlex.split(os.environ["PYXIS_STAND_IN_SRUN"])
    if words[:1] == ["--stand-in-task"]:
        task(json.loads(words[1]), words[2:])
    given, left = {}, []
    while words[0].startswith("--"):
        name, _, value = words[0][2:].partition("=")
        if name.startswith(("container-", "no-container-")):
            given[name] = value
        else:
            left.append(words[0])
        del words[0]
    given = given or {name[6:].lower().replace("_", "-"): value for name, value in os.environ.items()
                      if name.startswith("PYXIS_CONTAINER_")}
    if "container-image" in given:
        words = [sys.executable, "-I", __file__, "--stand-in-task", json.dumps(given), *words]
    os.execvp(real[0], [*real, *left, *words])
main(sys.argv[1:])
"""


def pyxis(folder: Path) -> Path:
    """The stand-in as `srun` in a folder."""
    return _command(folder / "srun", PYXIS)


def apptainer(folder: Path, name: str = "apptainer") -> Path:
    """The stand-in as a command in a folder."""
    return _command(folder / name, APPTAINER)


def _command(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path
