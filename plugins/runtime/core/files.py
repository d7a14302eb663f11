# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the parts of the preflight share: documents on shared storage, whole or not there at all."""

import json
import os
import time

POLL_SECONDS = 0.1


def publish(path, document):
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(document, stream)
    os.replace(temporary, path)


def listed(path):
    """Whether a file's folder names it. Asked before the file itself: a network file system remembers a miss."""
    try:
        return os.path.basename(path) in os.listdir(os.path.dirname(path))
    except OSError:
        return False


def read(path):
    """A published document, or None."""
    if not listed(path):
        return None
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def await_document(path, deadline):
    """The same once it is there, or None at the deadline (time.monotonic)."""
    document = read(path)
    while document is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        document = read(path)
    return document
