# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Event source of Event-Driven Ansible: one event when a launch is submitted, has started, has failed, or is proven."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from typing import IO, Any

DOCUMENTATION = r"""
---
short_description: Events of launches
description:
  - Asks for the launches at intervals, with the command C(rankzero ls --json), and yields one event for each change of
    a launch. C(launch.event) is V(submitted), V(started), V(failed) or V(proven).
  - An event also has C(cluster), C(name), C(key), C(generation), C(job_id), C(attempt) and C(exit_code). Each is a
    number, or a name that was checked. A launch of which one is not valid yields no events.
  - Other texts of the cluster, such as messages, are in no event, because Ansible would evaluate them as templates if a
    rule passed them on. Ask for them by C(job_id), with the module M(rankzero.slurm.job_info).
  - What was there at the first look yields no events, unless O(remember) names a file that knows of an earlier time.
options:
  inventory:
    description: Inventories of the clusters, as the command takes them with C(-i).
    type: list
    elements: str
    default: []
  command:
    description: The command, as a list of words.
    type: list
    elements: str
    default: [rankzero]
  interval:
    description: Seconds between two looks.
    type: float
    default: 60
  timeout:
    description: Seconds after which a look is given up.
    type: float
    default: 300
  remember:
    description:
      - A file that keeps which events were yielded, for a start after a pause. An event is recorded after it was
        yielded, so a source that is killed may yield it once more.
    type: str
"""

EXAMPLES = r"""
- rankzero.slurm.launches:
    inventory: [inventory]
    interval: 60
    remember: /var/lib/rankzero/eda-launches.json
"""

FIELDS = ("attempt", "exit_code")
# What names a launch, and what each must look like: anybody may make other folders in a state root of his own.
NAMES = {
    "cluster": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}"),
    "name": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"),
    "key": re.compile(r"[0-9a-f]{16}"),
    "generation": re.compile(r"[0-9]{1,9}"),
    "job_id": re.compile(r"[0-9]{1,10}(?:[._+][0-9]{1,10})?"),
}


class Trouble(Exception):
    """Why a look gave no list of launches."""


def event_of(launch: Mapping[str, Any]) -> str:
    """What has happened to a launch last; empty if that is not known."""
    status = launch["status"]
    if status["completed"]:
        return "proven" if status["success"] else "failed"
    if not status["active"]:
        return ""
    return "started" if status["started_at"] else "submitted"


def valid(name: str, value: Any) -> bool:
    """Whether a launch can have this value of NAMES. A launch that Slurm refused has no job."""
    if value is None:
        return name == "job_id"
    return isinstance(value, int if name == "generation" else str) and bool(NAMES[name].fullmatch(str(value)))


def changes(launches: Iterable[Mapping[str, Any]], known: dict[str, str]) -> list[dict[str, Any]]:
    """The events of launches whose state differs from the known one. A requeued launch that starts again is no news
    after its start, and one that has ended may begin again.
    """
    events = []
    for launch in launches:
        if not all(valid(name, launch.get(name)) for name in NAMES):
            continue
        event, key = event_of(launch), f"{launch['cluster']} {launch['run_dir']} {launch['job_id']}"
        if not event or known.get(key) == event or (event == "submitted" and known.get(key) == "started"):
            continue
        status = launch["status"]
        numbers = {name: status.get(name) if isinstance(status.get(name), int) else None for name in FIELDS}
        told = {**{name: launch[name] for name in NAMES}, **numbers}
        events.append({"key": key, "launch": {**told, "event": event}})
    return events


def started(words: list[str], output: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """The command, in a process group of its own. Raises Trouble.

    It is no process of asyncio's: a cancellation while one is made may be lost, and one whose pipes are held open by
    what it has started does not end.
    """
    try:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True)
    except OSError as error:
        raise Trouble(f"{words[0]}: {error.strerror}") from error


async def launches_now(args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The launches now. Raises Trouble."""
    words = [*args.get("command", ["rankzero"]), "ls", "--json"]
    words += [word for inventory in args.get("inventory", []) for word in ("-i", inventory)]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = started(words, output, errors)
        ended = asyncio.get_running_loop().run_in_executor(None, process.wait)
        try:
            await asyncio.wait([ended], timeout=float(args.get("timeout", 300)))
            if not ended.done():
                raise Trouble(f"no answer within {args.get('timeout', 300)} s")
        finally:
            if not ended.done():
                # With what it has started, such as Ansible's connections.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        errors.seek(0)
        said, complaints = output.read(), errors.read()
    try:
        document = json.loads(said)
    except ValueError as error:
        last = complaints.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
        raise Trouble(f"exit code {process.returncode}: {last[0]}") from error
    if document.get("exit_code"):
        raise Trouble(str(document.get("error")))
    launches = document["launches"]
    assert isinstance(launches, list)
    return launches


def recalled(path: str | None) -> dict[str, str] | None:
    """What was yielded earlier; None if there is no such file."""
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as stream:
            known = json.load(stream)
    except (OSError, ValueError):
        return None
    return {str(key): str(event) for key, event in known.items()} if isinstance(known, dict) else None


def record(path: str | None, known: Mapping[str, str]) -> None:
    """Keep what was yielded, by rename."""
    if path:
        # A new file of a name that nobody can guess: what lies there already is not written to.
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=f".{os.path.basename(path)}.")
        with open(descriptor, "w", encoding="utf-8") as stream:
            json.dump(known, stream)
        os.replace(temporary, path)


async def main(queue: asyncio.Queue[Any], args: dict[str, Any]) -> None:
    """Yield events until the rulebook ends."""
    path, trouble = args.get("remember"), ""
    earlier = recalled(path)
    known = earlier or {}
    first = earlier is None
    while True:
        try:
            launches = await launches_now(args)
        except Trouble as error:
            # Said once for each cause; the next look may succeed.
            if str(error) != trouble:
                print(f"rankzero.slurm.launches: {error}", flush=True)
            trouble = str(error)
        else:
            trouble = ""
            for event in changes(launches, known):
                if not first:
                    await queue.put({"launch": event["launch"]})
                known[event["key"]] = event["launch"]["event"]
                record(path, known)
            first = False
            record(path, known)
        await asyncio.sleep(float(args.get("interval", 60)))


if __name__ == "__main__":

    class Printed:
        """A queue that shows its events, to try the source without a rulebook."""

        async def put(self, event: dict[str, Any]) -> None:
            """Show an event."""
            print(json.dumps(event), flush=True)

    asyncio.run(main(Printed(), {"interval": 10}))  # type: ignore[arg-type]
