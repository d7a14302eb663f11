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
NVIDIA_SMI = """\
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


def nvidia_smi(
    folder: Path,
    changed: Mapping[str, str] | None = None,
    unknown: Sequence[str] = (),
    apps: Sequence[str] = (),
    fails: str = "",
) -> Path:
    """The stand-in as a command in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "nvidia-smi"
    command.write_text(NVIDIA_SMI, encoding="utf-8")
    command.chmod(0o755)
    told = {"changed": changed or {}, "unknown": list(unknown), "apps": list(apps), "fails": fails}
    (folder / "gpus.json").write_text(json.dumps(told), encoding="utf-8")
    return command


def apptainer(folder: Path, name: str = "apptainer") -> Path:
    """The stand-in as a command in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / name
    command.write_text(APPTAINER, encoding="utf-8")
    command.chmod(0o755)
    return command
