# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each node makes the job's environment on its own disk, out of a set of packages, before any rank starts.

    install.py hold FOLDER NODES   on each node, one task: makes the environment, and removes it at the end of the job
    install.py wait FOLDER NODES   on the first node: waits for all; a line for each node that has none

FOLDER is that of the preflight's reports, on shared storage; what the nodes say lies in its `install/`. No package
source is asked: uv works offline, from files that were compared with the set's own record just before. Whatever fails
is thrown away whole, never gone on with. Standard library only.
"""

from __future__ import annotations

import argparse
import base64
import csv
import fcntl
import glob
import hashlib
import io
import json
import os
import shutil
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from core import children, processes  # noqa: E402
from core.files import MOST_LIST_BYTES, content, publish, read_all  # noqa: E402
from node import disk, job_end, pack  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MANIFEST = "packages.json"
POLL_SECONDS = 0.2
# The environment's bytecode, and what uv needs besides.
HEADROOM = 1.5
# Variables that would lead uv elsewhere.
MISLEADING = ("CONDA_PREFIX", "PIP_", "PYTHON", "UV_", "VIRTUAL_ENV")


class Failed(Exception):
    """Why this node has no environment, in words for people."""


def hold(arguments: argparse.Namespace) -> None:
    """Make this node's environment, say so, and keep it until the job is over."""
    end = job_end.End()
    name = arguments.nodes.split(",")[int(os.environ["SLURM_NODEID"])]
    places = disk.candidates(arguments.local_dir, arguments.slurm_tmp)
    homes, began = [], time.monotonic()
    try:
        try:
            disk.sweep(places)
            homes.append(disk.Home(disk.COMMON))
            manifest = manifest_of(arguments.packages, arguments.sha256)
            size = int(manifest["installed"]["bytes"] * HEADROOM)
            homes.append(disk.Home(disk.choose(places, size, manifest["installed"]["files"] * 2, arguments.memory)))
            made = once(arguments.packages, manifest, homes[-1].path)
            disk.link(made, os.path.join(disk.view(), "environment"))
            word = {"problem": None, "how": "made", "seconds": round(time.monotonic() - began, 1), "place": made}
        except (OSError, disk.Trouble, pack.Damaged, Failed) as error:
            word = {"problem": str(error)}
        publish(os.path.join(arguments.folder, "install", f"{name}.json"), word)
        while not end.reached(POLL_SECONDS):
            pass
    finally:
        for home in reversed(homes):
            home.leave()


def manifest_of(packages: str, sha256: str = "") -> dict[str, Any]:
    """What the set says of itself, in a file with that digest. Raises Failed."""
    path = os.path.join(packages, MANIFEST)
    try:
        text = content(path, MOST_LIST_BYTES)
    except OSError as error:
        raise Failed(f"the packages {packages} are not on this node ({error.strerror})") from None
    if sha256 and hashlib.sha256(text).hexdigest() != sha256:
        raise Failed(f"{path} is not what it was when the job was submitted (sha256 {sha256[:16]}): launch again")
    manifest: dict[str, Any] = json.loads(text)
    return manifest


def once(packages: str, manifest: dict[str, Any], home: str) -> str:
    """The folder of the environment. Slurm nodes that share one machine share it, too."""
    target = os.path.join(home, "environment.made")
    with open(os.path.join(home, "install.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(target):
            work = os.path.join(home, "install")
            disk.remove(work)
            os.mkdir(work, 0o700)
            try:
                os.rename(make(packages, manifest, work, interpreter(manifest["python"])), target)
            finally:
                disk.remove(work)
    return target


def make(packages: str, manifest: dict[str, Any], work: str, python: str, options: Sequence[str] = ()) -> str:
    """A new environment of that Python below `work`, whole and compared with the packages' own records. `options`: of
    `uv venv`. Raises Failed and OSError.
    """
    environment = os.path.join(work, "environment")
    uv = os.path.join(work, "uv")
    taken(packages, manifest, "uv", uv)
    os.chmod(uv, 0o700)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(MISLEADING)}
    clean.update(
        UV_CACHE_DIR=os.path.join(work, "cache"),
        UV_COMPILE_BYTECODE="1",
        UV_LINK_MODE="hardlink",
        UV_NO_CONFIG="1",
        UV_NO_PROGRESS="1",
        UV_OFFLINE="1",
        UV_PROJECT_ENVIRONMENT=environment,
        UV_PYTHON_DOWNLOADS="never",
        NO_COLOR="1",
        TMPDIR=work,
    )
    if manifest["kind"] == "cache":
        pack.unpack(checked(packages, manifest, "cache.tar"), clean["UV_CACHE_DIR"])
    run([uv, "venv", "--relocatable", *options, "--python", python, environment], work, clean)
    if manifest["kind"] == "cache":
        run([uv, *from_cache(packages, manifest, work, environment)], work, clean)
    lines = taken(packages, manifest, "requirements.txt", os.path.join(work, "requirements.txt"))
    if os.path.getsize(lines):
        # uv reads each wheel once, and compares it with its hash on the way.
        words = ["--no-index", "--find-links", os.path.join(packages, "wheels"), "--require-hashes", "-r", lines]
        run([uv, "pip", "install", "--python", f"{environment}/bin/python", "--no-deps", *words], work, clean)
    records(environment)
    return environment


def from_cache(packages: str, manifest: dict[str, Any], work: str, environment: str) -> list[str]:
    """uv's words for what its cache serves: by the project's own lock where there is one."""
    if "uv.lock" not in manifest["files"]:
        lock = taken(packages, manifest, "pylock.toml", os.path.join(work, "pylock.toml"))
        return ["pip", "install", "--python", f"{environment}/bin/python", "--no-deps", "-r", lock]
    for name in ("pyproject.toml", "uv.lock"):
        taken(packages, manifest, name, os.path.join(work, name))
    words = [
        "sync",
        "--frozen",
        "--offline",
        "--no-dev",
        "--no-install-project",
        "--python",
        f"{environment}/bin/python",
    ]
    words += [word for extra in manifest["extras"] for word in ("--extra", extra)]
    return words + [word for name in manifest["wheels"] for word in ("--no-install-package", name)]


def interpreter(wanted: dict[str, Any]) -> str:
    """The Python of this node for the packages: that of the host they were made on, or one of the same version."""
    minor, pythons = wanted["minor"], []
    paths = [wanted["path"], f"/usr/bin/python{minor}", f"/usr/local/bin/python{minor}", shutil.which(f"python{minor}")]
    for path in dict.fromkeys(filter(None, [*paths, "/usr/bin/python3", shutil.which("python3")])):
        try:
            question = "import sys; print('%d.%d' % sys.version_info[:2])"
            answer = children.run([path, "-I", "-c", question], os.environ, children.START_SECONDS).stdout.strip()
        except OSError:
            continue
        if answer == minor:
            return str(path)
        pythons.append(f"{path} ({answer or 'does not start'})")
    raise Failed(
        f"no Python {minor} on this node, for which the packages were made; found: {', '.join(pythons) or 'none'}. Ask "
        "for one that all nodes have (environment.python)."
    )


def taken(packages: str, manifest: dict[str, Any], name: str, target: str) -> str:
    """A copy of a file of the set, compared once it is the node's own: what is used is what was compared."""
    path = os.path.join(packages, name)
    try:
        shutil.copyfile(path, target)
    except FileNotFoundError:
        raise Failed(f"{path} is missing: build the packages again (uv_environment)") from None
    return checked(packages, manifest, name, target)


def checked(packages: str, manifest: dict[str, Any], name: str, copy: str = "") -> str:
    """The path of a file of the set, or of a copy, that is what it was when the set was made. Raises Failed."""
    path, wanted = os.path.join(packages, name), manifest["files"][name]
    try:
        actual = pack.file_sha256(copy or path)
    except FileNotFoundError:
        raise Failed(f"{path} is missing: build the packages again (uv_environment)") from None
    if actual != wanted["sha256"]:
        raise Failed(
            f"{path} is not what it was: {wanted['sha256'][:16]} was made, and {actual[:16]} lies there (sha256). "
            "Build the packages again (uv_environment)."
        )
    return copy or path


def run(words: list[str], work: str, environment: dict[str, str]) -> None:
    """Run uv. Raises Failed with what it complained of."""
    done = children.run(words, environment, children.WORK_SECONDS, cwd=work)
    if done.returncode != 0:
        _before, _error, complaint = done.stderr.rpartition("error: ")
        message = " ".join(complaint.split())[:400]
        raise Failed(f"uv {words[1]}: {message or f'exit code {done.returncode}'}")


def records(environment: str) -> None:
    """Compare every file with its package's record: uv calls an installation done that is not. Raises Failed."""
    for record in glob.glob(
        os.path.join(glob.escape(environment), "lib", "python*", "site-packages", "*.dist-info", "RECORD")
    ):
        site = os.path.dirname(os.path.dirname(record))
        text = content(record, MOST_LIST_BYTES).decode("utf-8")
        rows = [
            row for row in csv.reader(io.StringIO(text, newline="")) if len(row) > 1 and row[1].startswith("sha256=")
        ]
        for name, expected, *_size in rows:
            with_padding = expected[7:] + "=" * (-len(expected[7:]) % 4)
            try:
                digest = bytes.fromhex(pack.file_sha256(os.path.join(site, name)))
            except OSError as error:
                raise Failed(f"{name}, of {os.path.basename(os.path.dirname(record))}: {error.strerror}") from None
            if digest != base64.urlsafe_b64decode(with_padding):
                raise Failed(f"{name} is not what {os.path.basename(os.path.dirname(record))} says of it")


def wait(arguments: argparse.Namespace) -> None:
    """Wait for every node's word: a line for each that has no environment, and one for all others."""
    names, began = arguments.nodes.split(","), time.monotonic()
    deadline = began + arguments.seconds - arguments.spent
    answers: dict[str, Any] = {}
    while True:
        gone = not processes.identity(arguments.holder)
        silent = {f"{name}.json": name for name in names if not answers.get(name)}
        for file, answer in read_all(os.path.join(arguments.folder, "install"), silent).items():
            answers[silent[file]] = answer
        if all(answers.values()) or gone or time.monotonic() > deadline:
            break
        if arguments.look and time.monotonic() > began + arguments.look:
            print("silent", ",".join(name for name in names if not answers[name]))
            return
        time.sleep(POLL_SECONDS)
    for name in names:
        if not answers[name]:
            answers[name] = {"problem": "it said nothing in time; see install.log beside the reports"}
            publish(os.path.join(arguments.folder, "install", f"{name}.json"), answers[name])
    made = sum(not word["problem"] for word in answers.values())
    slowest = max((word["seconds"] for word in answers.values() if not word["problem"]), default=None)
    if slowest is not None:
        print(f"environment: {made} nodes made it, the last in {slowest} s")
    for name, word in answers.items():
        if word["problem"]:
            print(f"problem {name}: environment: {word['problem']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["hold", "wait"])
    parser.add_argument("folder")
    parser.add_argument("nodes")
    parser.add_argument("--packages", default="")
    parser.add_argument("--sha256", default="")
    parser.add_argument("--local-dir", default="")
    parser.add_argument("--slurm-tmp", default="")
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--spent", type=int, default=0)
    parser.add_argument("--look", type=int, default=0)
    parser.add_argument("--holder", type=int, default=0)
    arguments = parser.parse_args()
    (hold if arguments.command == "hold" else wait)(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
