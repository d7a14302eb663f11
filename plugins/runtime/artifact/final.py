# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a launch is proven already: then nothing may run it again.

    final.py RUN_DIR --key KEY --generation NUMBER

Exits 0 and prints the verdict where outcome.json says success; 1 where it says anything else, belongs to another
launch, or is not there; 74 where it cannot be read. Standard library only.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT = 16 << 20  # bytes; an outcome has some thousand
UNREADABLE = 74  # EX_IOERR of sysexits.h
TRIES, PAUSE_SECONDS = 5, 1.0
PASSING = (errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EINTR)


def read(path: str) -> dict[str, Any]:
    """The object in a regular file. Raises FileNotFoundError, and ValueError or OSError where there is none to read."""
    # A network file system remembers for a while that a file was missing: opening its folder asks anew.
    os.listdir(os.path.dirname(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, encoding="utf-8") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        text = stream.read(LIMIT + 1)
    if len(text) > LIMIT:
        raise ValueError(f"it has more than {LIMIT} characters")
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("it does not contain an object")
    return document


def patiently(path: str) -> dict[str, Any]:
    """`read`, again where a server has only just failed."""
    for attempt in range(TRIES):
        try:
            return read(path)
        except OSError as error:
            if error.errno not in PASSING or attempt == TRIES - 1:
                raise
            time.sleep(PAUSE_SECONDS)
    raise AssertionError("not reached")


def own(outcome: dict[str, Any], key: str, generation: str) -> bool:
    """Whether an outcome is that of this launch."""
    return outcome.get("key") == key and str(outcome.get("generation")) == generation


def proof(outcome: dict[str, Any], key: str, generation: str) -> str:
    """The line that says by which job a launch is proven; empty where it is not."""
    if outcome.get("success") is not True or not own(outcome, key, generation):
        return ""
    job, attempt = str(outcome.get("job_id")), outcome.get("attempt")
    number = f", attempt {attempt + 1}" if isinstance(attempt, int) else ""
    return f"proven already by job {job}{number}: {str(outcome.get('message'))[:500]}".replace("\n", " ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("run_dir")
    parser.add_argument("--key", required=True)
    parser.add_argument("--generation", required=True)
    arguments = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    path = os.path.join(arguments.run_dir, "outcome.json")
    try:
        outcome = patiently(path)
    except FileNotFoundError:
        return 1
    except (OSError, ValueError, RecursionError) as error:
        print(f"{path} cannot be read ({error})")
        return UNREADABLE
    proven = proof(outcome, arguments.key, arguments.generation)
    if not proven:
        return 1
    print(proven)
    return 0


if __name__ == "__main__":
    sys.exit(main())
