# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for commands that no machine of the tests has. Each says in its text what of the real one it keeps."""

from __future__ import annotations

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


def apptainer(folder: Path, name: str = "apptainer") -> Path:
    """The stand-in as a command in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / name
    command.write_text(APPTAINER, encoding="utf-8")
    command.chmod(0o755)
    return command
