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


def read(path):
    """A published document, or None. Listing the folder first: a network file system may remember it as missing."""
    try:
        os.listdir(os.path.dirname(path))
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def await_document(path, deadline):
    """The same once it is there, or None at the deadline (time.monotonic)."""
    found = read(path)
    while found is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        found = read(path)
    return found
