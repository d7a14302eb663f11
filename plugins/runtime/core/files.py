# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the parts of the preflight share: documents on shared storage, whole or not there at all."""

import json
import os
import random
import time

POLL_SECONDS = 0.1
LONGEST_PAUSE = 2.0
# The folder of the nodes that may become the first one, which all others wait for. It stays small.
HEADS = "heads"


def publish(path, document):
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(document, stream)
    os.replace(temporary, path)


def names_in(folder):
    """The set of names in a folder; empty where it cannot be listed."""
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def listed(path):
    """Whether a file's folder names it. Asked before the file itself: a network file system remembers a miss."""
    return os.path.basename(path) in names_in(os.path.dirname(path))


def read(path):
    """A published document, or None."""
    return load(path) if listed(path) else None


def load(path):
    """The same without a listing: of what was published before this process began, and looked for by nobody here."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def read_all(folder, names):
    """The published documents of these names, whose folder is listed once; None for each that is not there."""
    there = names_in(folder)
    return {name: load(os.path.join(folder, name)) if name in there else None for name in names}


def await_document(path, deadline):
    """The same once it is there, or None at the deadline (time.monotonic).

    The longer the wait, the longer the pauses, up to LONGEST_PAUSE: thousands of nodes may wait for one file on shared
    storage. The pauses differ from node to node.
    """
    begun = time.monotonic()
    document = read(path)
    while document is None and time.monotonic() < deadline:
        pause = min(max(POLL_SECONDS, (time.monotonic() - begun) / 4), LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        document = read(path)
    return document
