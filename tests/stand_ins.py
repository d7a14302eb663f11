# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for commands that no machine of the tests has. Each says in its text what of the real one it keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

#: `apptainer exec`: its options (an unknown one is an error), that image and bound folders must exist, the working
#: directory, and that the image's variables beat the caller's (the image is a text file of NAME=VALUE lines). It makes
#: no file system of its own: that the right folders are bound is seen in `words`, written beside the image.
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
    environment.update(line.rstrip("\\n").split("=", 1) for line in stream)
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
    told = {"changed": changed or {}, "unknown": list(unknown), "apps": list(apps), "fails": fails}
    (folder / "gpus.json").write_text(json.dumps(told), encoding="utf-8")
    return command


def apptainer(folder: Path, name: str = "apptainer") -> Path:
    """The stand-in as a command in a folder."""
    return command(folder, name, APPTAINER)


#: Slurm's srun with pyxis: says --container-image in its help; a step with container flags enters the stand-in for a
#: container in each task, any other step is the real srun's. Kept of the real one (0.24): the flags it knows, that an
#: image file and the sources of mounts must exist, that flags given twice count once (the last), the working directory,
#: that the home is not there unless mounted, that the image's variables beat the node's, and that RANK and LOCAL_RANK
#: are set to its own. It makes no file system of its own: `words`, written beside the image, shows what was asked.
PYXIS_SRUN = """\
#!/usr/bin/python3
import json, os, sys
KNOWN = {"image", "mounts", "workdir", "mount-home", "remap-root", "writable", "readonly", "entrypoint", "env"}
def enter(flags, words):
    environment = dict(os.environ)
    if "mount-home" not in flags:
        environment["HOME"] = "/nowhere/home"
    with open(flags["image"]) as stream:
        environment.update(line.rstrip("\\n").split("=", 1) for line in stream if "=" in line)
    environment["RANK"] = environment["LOCAL_RANK"] = "0"
    os.chdir(flags["workdir"])
    os.execvpe(words[0], words, environment)
if sys.argv[1] == "--enter":
    enter(json.loads(sys.argv[2]), sys.argv[3:])
if "--help" in sys.argv:
    print("      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH", flush=True)
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
if not flags:
    os.execv("/usr/bin/srun", ["srun", *own, *words])
if not os.path.exists(flags.get("image", "")):
    sys.exit("slurmstepd: error: pyxis:     [ERROR] No such file or directory: %s" % flags.get("image"))
for mount in filter(None, str(flags.get("mounts", "")).split(",")):
    if not os.path.exists(mount.split(":")[0]):
        sys.exit(f"slurmstepd: error: pyxis: --container-mounts: source path does not exist: {mount.split(':')[0]}")
with open(flags["image"] + ".words", "w") as stream:
    json.dump({"flags": flags, "own": own, "words": words}, stream)
os.execv("/usr/bin/srun", ["srun", *own, os.path.realpath(__file__), "--enter", json.dumps(flags), *words])
"""

#: `nvidia-smi --query-gpu=... --format=csv,noheader`: eight GPUs in the form of the real one's answer, and no more.
NVIDIA_SMI = """\
#!/usr/bin/python3
import sys, time
fields = next(word for word in sys.argv if word.startswith("--query-gpu=")).split("=", 1)[1].split(",")
values = {"timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"), "power.draw": "312.45 W", "utilization.gpu": "97 %",
          "memory.used": "71234 MiB", "temperature.gpu": "61"}
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
