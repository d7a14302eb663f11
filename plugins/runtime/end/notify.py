# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell the receivers with from_job what a job knows of itself.

    notify.py RUN_DIR started|ended

A receiver that cannot be told is named in the job's log, once; it is no failure of the job, and another sender may tell
it later. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

# A job's script checks the folder by what lies in it: no byte code may.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from core import deliver, files  # noqa: E402


def read(path: str) -> dict[str, Any]:
    """The JSON object in a file; {} where there is none."""
    with contextlib.suppress(OSError, ValueError):
        document = files.document(path)
        return document if isinstance(document, dict) else {}
    return {}


def receivers(run_dir: str) -> list[deliver.Receiver]:
    """The receivers, at their places; in the place of one that only others tell, one of no event."""
    given = read(os.path.join(run_dir, "notify.json")).get("receivers") or []
    return [receiver if receiver.get("from_job") else {} for receiver in given]


def address(receiver: deliver.Receiver) -> str:
    return deliver.address_in_file(receiver["url_file"])


def message(run_dir: str, event: str) -> deliver.Message:
    """What there is to say."""
    started = read(os.path.join(run_dir, "started.json"))
    record = started if event == "started" else read(os.path.join(run_dir, "outcome.json"))
    nodes = started.get("nodes") or []
    *_folders, name, key, generation = os.path.normpath(run_dir).split(os.sep)
    facts: dict[str, Any] = {
        word: record.get(word) for word in ("job_id", "attempt", "time", "exit_code") if word in record
    }
    facts.update(name=name, key=key, generation=int(generation), nodes=nodes, run_dir=run_dir)
    facts.setdefault("job_id", os.environ.get("SLURM_JOB_ID"))
    if event == "started":
        shown = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
        text = f"on {shown}, {record.get('world_size')} ranks"
    else:
        event, text = "proven" if record.get("success") is True else "failed", str(record.get("message"))
        facts["message"] = text
    return deliver.Message.of(event, text, facts)


def main() -> None:
    run_dir, event = sys.argv[1:]
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    news = message(run_dir, event)
    for done in deliver.deliver(run_dir, receivers(run_dir), news, address):
        if done.reason and done.state != deliver.SENT:
            print(f"[rankzero] notify: receiver {done.receiver + 1} was not told `{news.event}`: {done.reason}")


if __name__ == "__main__":
    main()
