# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides in the job whether its artifact proves success, and writes the outcome.

    outcome.py watch RUN_DIR --signal-to PID   sends USR1 once the artifact is valid and the grace period is over
    outcome.py proven RUN_DIR                  exits 0 if the artifact is valid now
    outcome.py finish RUN_DIR --ended-by ...   writes RUN_DIR/outcome.json, prints the verdict, exits 0 only on success

The contract lies in RUN_DIR/contract.json: {"artifact": null | {"path", "format", "complete", "require", "then",
"grace"}}, with "reader" where the cluster declares the format. Of a directory the completeness file is what is watched,
dated and digested.
Standard library only; runs under the job's own Python or the node's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import operator
import os
import re
import signal
import stat
import sys
import time

# A job's script checks the folder by what lies in it: no byte code may.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from artifact import formats, together  # noqa: E402
from artifact.values import MOST_BYTES  # noqa: E402
from core import files  # noqa: E402
from core.log import ending  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace
    from typing import Any

POLL_SECONDS = 0.25
REMEMBERED_SECONDS = 60  # NFS's own longest time (acregmax, acdirmax); sites rarely choose more
ENDS = ("program", "artifact", "signal", "setup", "requeue", "restart")
MISSING_ARTIFACT_EXIT = 65  # EX_DATAERR of sysexits.h: the program ended well and left no valid result
COMPARE = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}


def look_up(document: Any, dotted: str) -> Any:
    """The value under a dotted key; KeyError where it is missing. A key that itself holds dots wins."""
    if isinstance(document, dict) and dotted in document:
        return document[dotted]
    for part in dotted.split("."):
        if not isinstance(document, dict):
            raise KeyError(dotted)
        document = document[part]
    return document


def violations(document: dict[str, Any], require: dict[str, Any]) -> list[str]:
    """One sentence for each requirement that a JSON document does not meet."""
    violations = []
    for key, conditions in sorted(require.items()):
        try:
            value = look_up(document, key)
        except KeyError:
            violations.append(f"{key}: is missing")
            continue
        for name, operand in sorted(conditions.items()):
            if not compare(name, value, operand):
                violations.append(f"{key}: {value!r} is not {name} {operand!r}")
    return violations


def compare(name: str, value: Any, operand: Any) -> bool:
    """One comparison. To Python true is 1: here a truth value is not a number, and a loss of `true` is not below 4."""
    if isinstance(value, bool) != isinstance(operand, bool):
        return name == "ne"
    try:
        return bool(COMPARE[name](value, operand))
    except TypeError:
        return False


def listed(path: str) -> bool:
    """Whether a file's folder names it. One name is held at a time: the ranks may have written a million files."""
    name = os.path.basename(path)
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            return any(entry.name == name for entry in entries)
    except OSError:
        return False


def file_state(path: str) -> tuple[int, int, int] | None:
    """What tells one state of a file from the next: (modification time, size, inode); None while it is not there."""
    try:
        # A network file system remembers that a file was missing: it is never asked for before it is listed.
        if not listed(path):
            return None
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def read(path: str, keep: bool) -> tuple[bytes | None, str, int]:
    """(content or None, SHA-256, number of bytes) of a regular file; the content only where it is wanted, and only of a
    file that is small enough to be checked.
    """
    digest, size, chunks = hashlib.sha256(), 0, []
    with open(files.opened(path), "rb") as stream:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            digest.update(chunk)
            size += len(chunk)
            if keep and size <= MOST_BYTES:
                chunks.append(chunk)
    return b"".join(chunks) if keep and size <= MOST_BYTES else None, digest.hexdigest(), size


def contracted(run_dir: str, env: Mapping[str, str]) -> dict[str, Any] | None:
    """The artifact of the contract, None where it has none. `env`: the variables of the job, for a cluster's reader."""
    artifact: dict[str, Any] | None = files.document(os.path.join(run_dir, "contract.json"))["artifact"]
    if artifact and "reader" in artifact:
        artifact["reader"]["env"] = dict(env)
    return artifact


def evidence_of(run_dir: str, artifact: dict[str, Any]) -> str:
    """The file that decides: the artifact itself, or the completeness file of a directory."""
    path = os.path.join(run_dir, "work", artifact["path"])
    return os.path.join(path, artifact["complete"]) if formats.format_of(artifact).folder else path


def settled(run_dir: str, artifact: dict[str, Any]) -> dict[str, Any]:
    """`inspect`, sure of what it says. A network file system may show the file as it was some time ago: what seems
    invalid is looked at once more under a name that nobody has asked for yet. And where somebody on this node has asked
    for the file before it was there, it seems missing for a while, although its folder names it.
    """
    report = inspect(run_dir, artifact)
    if report["valid"]:
        return report
    path = evidence_of(run_dir, artifact)
    deadline = time.monotonic() + REMEMBERED_SECONDS
    while listed(path) and not os.path.lexists(path) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    other = os.path.join(os.path.dirname(path), f".seen.{os.getpid()}.{os.path.basename(path)}")
    try:
        os.link(os.path.realpath(path), other)
    except OSError:
        return report
    try:
        return {**inspect(run_dir, artifact, other), "path": report["path"]}
    finally:
        os.unlink(other)


def inspect(run_dir: str, artifact: dict[str, Any], path: str | None = None) -> dict[str, Any]:
    """The artifact as outcome.json reports it: path, valid, sha256, bytes, scalars (top-level scalars), required (of
    these, those that must hold) and errors.

    `path`: another name of the file that decides.
    """
    kind, path = artifact["format"], path or evidence_of(run_dir, artifact)
    form = formats.format_of(artifact)
    full_path = os.path.join(run_dir, "work", artifact["path"])
    report: dict[str, Any] = {
        "path": full_path,
        "valid": False,
        "sha256": None,
        "bytes": None,
        "scalars": {},
        "required": sorted(artifact["require"]),
        "errors": [],
    }
    before = file_state(path)
    if form.folder and before is None and os.path.isdir(full_path):
        report["errors"].append(f"is incomplete: it does not contain {artifact['complete']}")
        return report
    try:
        # Opening a pipe would wait for a writer, and a folder has no content to prove anything.
        if not stat.S_ISREG(os.stat(path).st_mode):
            report["errors"].append("is not a regular file")
            return report
        content, report["sha256"], report["bytes"] = read(path, keep=form.content)
        started = os.stat(os.path.join(run_dir, ".attempt")).st_mtime_ns
    except OSError as error:
        report["errors"].append(f"cannot be read: {error.strerror}")
        return report
    after = file_state(path)
    if after is not None and after[0] < started:
        report["errors"].append("is older than this attempt")
    if before != after or after is None or after[1] != report["bytes"]:
        report["errors"].append("is still being written")
    # The completeness file of a directory may be an empty mark.
    if not report["bytes"] and not form.folder:
        report["errors"].append("is empty")
    elif form.content and form.read is not None and report["bytes"] > MOST_BYTES:
        report["errors"].append(
            f"has {report['bytes']} bytes, and a file of format {kind} that is checked may have {MOST_BYTES}: "
            "write what is large to another file"
        )
    elif form.read is not None:
        inspect_values(form, path, content, artifact["require"], report)
    if artifact.get("together") == "required":
        alone = together.complaint(run_dir)
        report["errors"] += [f"does not count (artifact.together): {alone}"] if alone else []
    report["valid"] = not report["errors"]
    return report


def inspect_values(
    form: formats.Format, path: str, content: bytes | None, require: dict[str, Any], report: dict[str, Any]
) -> None:
    try:
        document = formats.document_of(form, path, content)
    except (OSError, ValueError) as error:
        report["errors"].append(str(error))
        return
    scalars = {key: value for key, value in document.items() if isinstance(value, (str, int, float, bool))}
    report["scalars"] = {str(key): value for key, value in list(scalars.items())[:64] if len(str(value)) <= 200}
    report["errors"].extend(violations(document, require))


def watch(arguments: argparse.Namespace) -> int:
    artifact = contracted(arguments.run_dir, os.environ)
    if artifact is None:
        return 1
    path = evidence_of(arguments.run_dir, artifact)
    seen = judged = None
    while True:
        now = file_state(path)
        # Of what does not say by itself whether it is whole, only its rest says so: the same at two looks.
        ready = formats.format_of(artifact).closed or now == seen
        # A file that was found invalid is judged again only once it has changed.
        if now is not None and now != judged and ready:
            judged = now
            if inspect(arguments.run_dir, artifact)["valid"]:
                break
        seen = now
        time.sleep(POLL_SECONDS)
    time.sleep(artifact["grace"])
    os.kill(arguments.signal_to, signal.SIGUSR1)
    return 0


def proven(arguments: argparse.Namespace) -> int:
    artifact = contracted(arguments.run_dir, os.environ)
    return 0 if artifact and settled(arguments.run_dir, artifact)["valid"] else 1


# What srun says when a task ends badly, as it happens (srun(1), --kill-on-bad-exit).
TASK_ENDED = re.compile(r"^srun: error: (?P<node>\S+): (?P<tasks>tasks? \S+): (?P<how>.+)$", re.MULTILINE)


def first_to_end(run_dir: str, job_id: str, attempt: int) -> tuple[int | None, str]:
    """(exit code or None, " (first: task 1 on node02, exited with exit code 5)") of the task that ended badly first.

    srun itself returns the largest code. When one rank fails and the others are ended for it, that is theirs: 143.
    """
    try:
        log = ending(os.path.join(run_dir, "logs", f"job.{job_id}.log"))
    except OSError:
        return None, ""
    # The log goes on over requeues.
    log = log[max(0, log.rfind(f"[rankzero] job {job_id} attempt {attempt} ")) :]
    # Tasks that srun has ended when launcher.wait was over did not end by themselves.
    log = log.partition("\nsrun: First task exited ")[0]
    first = TASK_ENDED.search(log)
    if first is None:
        return None, ""
    code = re.search(r"exit code (\d+)", first["how"])
    return (int(code[1]) if code else None), " (first: {tasks} on {node}, {how})".format(**first.groupdict())


def verdict(ended_by: str, exit_code: int, report: dict[str, Any] | None, message: str) -> tuple[bool, int, str]:
    """(success, exit code of the job, message) from how the program ended and what it left."""
    if ended_by in ("setup", "requeue", "restart"):
        return False, exit_code, message
    if ended_by == "signal":
        return False, exit_code or 143, message or "ended by a signal (cancelled, time limit or preemption)"
    if ended_by != "artifact" and exit_code != 0:
        return False, exit_code, f"the program ended with exit code {exit_code}" + (f"; {message}" if message else "")
    if report is None:
        return True, 0, "the program ended with exit code 0"
    if not report["valid"]:
        text = "the artifact {} {}".format(report["path"], "; ".join(report["errors"]))
        return False, MISSING_ARTIFACT_EXIT, text
    how = "the job ended itself" if ended_by == "artifact" else "the program ended with exit code 0"
    return True, 0, f"the artifact is proven; {how}" + (f"; {message}" if message else "")


def unfit_nodes(run_dir: str, attempt: int) -> dict[str, str]:
    """{node: why} of the nodes that the preflight of this attempt found not to be fit."""
    try:
        return dict(files.document(os.path.join(run_dir, "preflight", str(attempt), "unfit.json")))
    except (OSError, ValueError):
        return {}


def trackers(run_dir: str) -> list[Any]:
    """Where the launch is found in its trackers: [] of a job without any."""
    try:
        rows = files.document(os.path.join(run_dir, "trackers.json"))
    except (OSError, ValueError):
        return []
    return rows if isinstance(rows, list) else []


def finish(arguments: argparse.Namespace | SimpleNamespace) -> int:
    try:
        artifact = contracted(arguments.run_dir, getattr(arguments, "env", os.environ))
    except (OSError, ValueError, KeyError) as error:
        print(f"[rankzero] contract.json cannot be read: {error}")
        return MISSING_ARTIFACT_EXIT
    report = settled(arguments.run_dir, artifact) if artifact else None
    program_code, first = arguments.exit_code, ""
    # Where one of several programs has ended the launch, the conductor knows which, and the ends of the others are its.
    role = getattr(arguments, "role", "")
    if arguments.ended_by == "program" and program_code != 0 and not role:
        first_code, first = first_to_end(arguments.run_dir, arguments.job_id, arguments.attempt)
        program_code = first_code or program_code
    success, exit_code, message = verdict(arguments.ended_by, program_code, report, arguments.message)
    message = arguments.message if role and not success else message + first
    outcome = {
        "job_id": arguments.job_id,
        "attempt": arguments.attempt,
        "started": arguments.started,
        "time": time.time(),
        "exit_code": program_code,
        "ended_by": arguments.ended_by,
        "artifact": report,
        "success": success,
        "message": message,
        **({"after_ranks": after} if (after := getattr(arguments, "after_ranks", "")) else {}),
        **({"role": role} if role and not success else {}),
        "unfit_nodes": unfit_nodes(arguments.run_dir, arguments.attempt),
        # True, false, or null where it is not known.
        "together": together.seen(arguments.run_dir),
        **({"trackers": rows} if (rows := trackers(arguments.run_dir)) else {}),
        "key": arguments.key,
        "generation": arguments.generation,
    }
    path = os.path.join(arguments.run_dir, arguments.file)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(outcome, stream, indent=1, sort_keys=True)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    print("[rankzero] {}: {}".format("success" if success else "failure", message), flush=True)
    if arguments.guard:
        from artifact import guard

        guard.post(arguments.guard, guard.SECONDS[success])
    return exit_code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    watching = commands.add_parser("watch")
    watching.add_argument("run_dir")
    watching.add_argument("--signal-to", type=int, required=True)
    commands.add_parser("proven").add_argument("run_dir")
    finishing = commands.add_parser("finish")
    finishing.add_argument("run_dir")
    finishing.add_argument("--key", required=True)
    finishing.add_argument("--generation", type=int, required=True)
    finishing.add_argument("--guard", type=int, help="the batch script, whose end is to follow")
    finishing.add_argument("--job-id", required=True)
    finishing.add_argument("--attempt", type=int, required=True)
    finishing.add_argument("--started", type=float, required=True)
    finishing.add_argument("--ended-by", choices=ENDS, required=True)
    finishing.add_argument("--exit-code", type=int, required=True)
    finishing.add_argument("--message", default="")
    finishing.add_argument("--file", default="outcome.json")
    arguments = parser.parse_args()
    # The verdict is printed in any locale: a character that it lacks must not fail a job.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    return {"watch": watch, "proven": proven, "finish": finish}[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
