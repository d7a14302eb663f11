# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for commands that no machine of the tests has. Each says in its text what of the real one it keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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


#: `nvidia-smi --query-gpu|compute-apps|remapped-rows=FIELDS --format=csv,noheader,nounits` on a node with two H100, in
#: the form of the real one's answers (written by hand: no machine of the tests has a GPU). `changed` overrides fields
#: of one GPU as "1:memory.used"; a field in `unknown` is refused as older drivers refuse it; `apps` are whole lines.
NVIDIA_SMI_HEALTH = """\
#!/usr/bin/python3
import json, os, sys
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpus.json")) as stream:
    told = json.load(stream)
if told["fails"]:
    print(told["fails"])
    sys.exit(9)
query, form = sys.argv[1:]
assert form == "--format=csv,noheader,nounits", form
what, _, fields = query.removeprefix("--query-").partition("=")
fields = fields.split(",")
for field in fields:
    if field in told["unknown"]:
        print(f'Field "{field}" is not a valid field to query.\\n')
        sys.exit(2)
if what == "compute-apps":
    print("\\n".join(told["apps"]))
    sys.exit(0)
fine = {
    "name": "NVIDIA H100 80GB HBM3",
    "utilization.gpu": "0", "memory.used": "4", "ecc.errors.uncorrected.volatile.total": "0",
    "retired_pages.pending": "[N/A]", "remapped_rows.failure": "0", "remapped_rows.pending": "0",
    "pcie.link.width.current": "16", "pcie.link.width.max": "16",
    "pcie.link.gen.current": "1", "pcie.link.gen.max": "5",
    "clocks_throttle_reasons.hw_slowdown": "Not Active", "clocks_throttle_reasons.hw_thermal_slowdown": "Not Active",
    "clocks_throttle_reasons.hw_power_brake_slowdown": "Not Active",
    "clocks_event_reasons.hw_slowdown": "Not Active", "clocks_event_reasons.hw_thermal_slowdown": "Not Active",
    "clocks_event_reasons.hw_power_brake_slowdown": "Not Active",
}
for index in range(2):
    uuid = f"GPU-{index}a1b2c3d-0000-1111-2222-333344445555"
    row = {**fine, "index": str(index), "uuid": uuid, "gpu_uuid": uuid}
    row.update({name.split(":")[1]: value for name, value in told["changed"].items() if name.startswith(f"{index}:")})
    print(", ".join(row[field] for field in fields))
"""


def nvidia_smi_health(
    folder: Path,
    changed: Mapping[str, str] | None = None,
    unknown: Sequence[str] = (),
    apps: Sequence[str] = (),
    fails: str = "",
) -> Path:
    """The stand-in as a command in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "nvidia-smi"
    command.write_text(NVIDIA_SMI_HEALTH, encoding="utf-8")
    command.chmod(0o755)
    answers = {"changed": changed or {}, "unknown": list(unknown), "apps": list(apps), "fails": fails}
    (folder / "gpus.json").write_text(json.dumps(answers), encoding="utf-8")
    return command


def apptainer(folder: Path, name: str = "apptainer") -> Path:
    """The stand-in as a command in a folder."""
    return command(folder, name, APPTAINER)


#: Slurm's srun with pyxis: says --container-image in its help; a step with container flags enters the stand-in for a
#: container in each task, any other step is the real srun's (or that of the words in $PYXIS_STAND_IN_SRUN). Kept of the
#: real one (0.24), as recorded of it: the flags it knows, that flags given twice count once (the last), its words where
#: an image, the source of a mount or the working directory is missing or no squashfs, that the home is not there unless
#: mounted, that the image's variables beat the node's but for those of --container-env, that LANG is dropped, that RANK
#: and LOCAL_RANK are set to its own, that a step of a batch script in an image is in the same one (the variables
#: _SLURM_SPANK_OPTION_pyxis_*), and what enroot's hook sets for an image with PYTORCH_VERSION. It makes no file
#: system of its own: `words`, written beside the image, shows what was asked. An image is made by `squashfs`.
PYXIS_SRUN = """\
#!/usr/bin/python3
import json, os, shlex, sys
KNOWN = {"image", "mounts", "workdir", "mount-home", "remap-root", "writable", "readonly", "entrypoint", "env"}
SRUN = shlex.split(os.environ.get("PYXIS_STAND_IN_SRUN", "/usr/bin/srun"))
def end(text):
    sys.exit(f"slurmstepd-node: error: pyxis: {text}\\nslurmstepd-node: error: spank: required plugin spank_pyxis.so: "
             "task_init() failed with rc=-1")
def enter(flags, words):
    image, environment = flags.get("image", ""), dict(os.environ)
    if not image.startswith(("/", "./")):
        end(f"    [ERROR] Could not process JSON input: {image} is looked up in a registry")
    if not os.path.exists(image):
        end(f"    [ERROR] No such file or directory: {image}")
    with open(image, encoding="utf-8", errors="replace") as stream:
        text = stream.read()
    if not text.startswith("hsqs"):
        end(f"    [ERROR] Invalid image format: {image}")
    for mount in flags.get("mounts", "").split(",") if "mounts" in flags else ():
        if not mount:
            end("--container-mounts: invalid format")
        if not os.path.exists(mount.split(":")[0]):
            end(f"--container-mounts: source path does not exist: {mount.split(':')[0]}")
    kept = flags.get("env", "").split(",")
    values = dict(line.split("=", 1) for line in text.splitlines()[1:] if "=" in line)
    environment.update({name: value for name, value in values.items() if name not in kept or name not in environment})
    for name in [name for name in environment if name.startswith("BASH_FUNC_")] + ["LANG", "LC_ALL"]:
        if name not in values and name not in kept:
            environment.pop(name, None)
    if "mount-home" not in flags:
        environment["HOME"] = "/nowhere/home"
    environment.update(RANK=os.environ.get("SLURM_PROCID", "0"), LOCAL_RANK=os.environ.get("SLURM_LOCALID", "0"))
    if "PYTORCH_VERSION" in values:
        environment.update(MASTER_ADDR="hook", MASTER_PORT="29500", WORLD_SIZE="1", OMP_NUM_THREADS="1")
    try:
        os.chdir(flags.get("workdir", "/"))
    except OSError as error:
        end(f"couldn't chdir to {flags['workdir']}: {error.strerror}")
    os.execvpe(words[0], words, environment)
if sys.argv[1] == "--enter":
    enter(json.loads(sys.argv[2]), sys.argv[3:])
if "--help" in sys.argv:
    for name in KNOWN:
        print(f"      --container-{name}=X or --no-container-{name}", flush=True)
own, flags, words = [], {}, sys.argv[1:]
while words and words[0].startswith("-"):
    word = words.pop(0)
    name, _, value = word.lstrip("-").partition("=")
    if "container-" not in name:
        own.append(word)
    else:
        off = name.startswith("no-")
        name = name.split("container-", 1)[1]
        if name not in KNOWN:
            sys.exit(f"srun: unrecognized option '{word}'")
        flags.pop(name, None) if off else flags.update({name: value or True})
def of_the_job():
    for name, value in sorted(os.environ.items()):
        if name.startswith("_SLURM_SPANK_OPTION_pyxis_container_"):
            yield name[len("_SLURM_SPANK_OPTION_pyxis_container_"):].replace("_", "-"), value or True
# A site's module may have set them, or the header of a job whose script is in the image; flags come before.
flags = {**dict(of_the_job()), **flags}
flags = {**{name[16:].lower().replace("_", "-"): value for name, value in os.environ.items()
            if name.startswith("PYXIS_CONTAINER_")}, **flags}
if flags:
    if os.path.exists(flags.get("image", "")):
        with open(flags["image"] + ".words", "w") as stream:
            json.dump({"flags": flags, "own": own, "words": words}, stream)
    words = [os.path.realpath(__file__), "--enter", json.dumps(flags), *words]
os.execvp(SRUN[0], [*SRUN, *own, *words])
"""

#: Slurm's sbatch with pyxis set up for it, too: says --container-image in its help, takes its flags on #SBATCH lines.
#: or before the script. Kept of the real one: the flags it knows, and that with --export=NONE the batch script stays on
#: the node, and with any other one runs in the image. What was asked is in `header`, written beside the image. The rest
#: is the real sbatch's, which sees the script without those lines.
PYXIS_SBATCH = """\
#!/usr/bin/python3
import json, os, re, shlex, subprocess, sys
KNOWN = {"image", "mounts", "workdir", "mount-home", "remap-root", "writable", "readonly", "entrypoint", "env"}
def taken(text):
    flags = {}
    def own(found):
        if found[2] not in KNOWN:
            sys.exit(f"sbatch: unrecognized option '{found[0]}'")
        if not found[1]:
            flags[found[2]] = shlex.split(found[3])[0] if found[3] else True
        return "##"
    text = re.sub("^#SBATCH --(no-)?container-([a-z-]+)(?:=(.*))?$", own, text, flags=re.MULTILINE)
    if flags:
        with open(flags["image"] + ".header", "w") as stream:
            json.dump(flags, stream)
    if flags and "\\n#SBATCH --export=NONE\\n" not in text:
        return inside(flags, text)
    return text
def inside(flags, text):
    head, _, body = text.partition("\\n")
    srun = os.path.join(os.path.dirname(os.path.realpath(__file__)), "srun")
    said = [f"export _SLURM_SPANK_OPTION_pyxis_container_{name.replace('-', '_')}="
            f"{'' if value is True else shlex.quote(value)}" for name, value in flags.items()]
    # The script itself lies behind the line that enters.
    enter = ["exec", srun, "--enter", json.dumps(flags), "/bin/bash", "-c"]
    said.append(shlex.join(enter) + " " + shlex.quote(body) + ' "$0" "$@"')
    options = [line for line in body.splitlines() if line.startswith("#SBATCH ")]
    return "\\n".join([head, *options, *said, ""])
if "--help" in sys.argv:
    for name in KNOWN:
        print(f"      --container-{name}=X or --no-container-{name}", flush=True)
words = sys.argv[1:]
scripts = [place for place, word in enumerate(words) if word.endswith((".sbatch", ".sh"))]
given = [word for word in words[: scripts[0] if scripts else 0] if re.match("--(no-)?container-", word)]
words = [word for word in words if word not in given]
scripts = [place - len(given) for place in scripts]
if "--test-only" in words and not scripts:
    sys.exit(subprocess.run(["/usr/bin/sbatch", *words], input=taken(sys.stdin.read()), text=True).returncode)
for place in scripts:
    with open(words[place]) as stream:
        head, _, body = stream.read().partition("\\n")
    text = taken("\\n".join([head, *(f"#SBATCH {word}" for word in given), body]))
    folder, name = os.path.split(words[place])
    os.makedirs(os.path.join(folder, ".seen"), exist_ok=True)
    # Its name is that of the job.
    words[place] = os.path.join(folder, ".seen", name)
    with open(words[place], "w") as stream:
        stream.write(text)
os.execv("/usr/bin/sbatch", ["sbatch", *words])
"""

#: `nvidia-smi --query-gpu=... --format=csv,noheader`: eight GPUs in the form of the real one's answer, and no more. No
#: process uses them, and of remapped rows it knows nothing, as an old driver. Asked without units, before the ranks
#: run, their memory is free.
NVIDIA_SMI = """\
#!/usr/bin/python3
import sys, time
query, fields = sys.argv[1].removeprefix("--query-").split("=", 1)
fields = fields.split(",")
if query != "gpu":
    sys.exit(0 if query == "compute-apps" else "no such query")
values = {"timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"), "power.draw": "312.45 W", "utilization.gpu": "97 %",
          "memory.used": "4" if sys.argv[2].endswith("nounits") else "71234 MiB", "temperature.gpu": "61"}
for gpu in range(8):
    print(", ".join(str(gpu) if field == "index" else values.get(field, "[N/A]") for field in fields))
"""


def command(folder: Path, name: str, text: str) -> Path:
    """A stand-in of the given text as a command in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / name
    made.write_text(text, encoding="utf-8")
    made.chmod(0o755)
    return made


def squashfs(path: Path, values: Mapping[str, str]) -> Path:
    """An image for PYXIS_SRUN with these variables: a squashfs' superblock of no length, then NAME=VALUE lines."""
    lines = [f"{name}={value}" for name, value in values.items()]
    path.write_bytes(b"hsqs" + bytes(92) + "\n".join(["", *lines, ""]).encode())
    return path
