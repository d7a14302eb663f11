# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of a format that the cluster declares: a program, run in the job as its user, within limits of time,
memory and output. Its words come from the launch's contract; nothing of the artifact is executed. Standard library
only.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess

from artifact.of_json import of_json
from artifact.values import MOST_BYTES
from core import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# {name} in a word -> the variable that has the value; {path} is the artifact.
PLACES = {"python": "RANKZERO_PYTHON", "code": "RANKZERO_CODE", "run_dir": "RANKZERO_RUN_DIR"}
_PLACE = re.compile(r"\{([a-z_]+)\}")
SHOWN = 300


def values_of(reader: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The values that the program prints as one JSON object, where its record says so. Raises ValueError unless it ends
    with exit code 0 in time.

    `reader`: command, values, seconds, memory (bytes), and env, the variables of the job.
    """
    import tempfile

    env = reader["env"]
    known = {"path": path, **{name: env.get(variable, "") for name, variable in PLACES.items()}}
    words = [_PLACE.sub(lambda match: known.get(match[1], match[0]), word) for word in reader["command"]]

    def limit() -> None:
        for what, most in ((resource.RLIMIT_AS, reader["memory"]), (resource.RLIMIT_FSIZE, MOST_BYTES)):
            _soft, hard = resource.getrlimit(what)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(what, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with contextlib.ExitStack() as stack:
        artifact = stack.enter_context(open(files.opened(path), "rb"))
        out, err = (stack.enter_context(tempfile.TemporaryFile()) for _stream in range(2))
        try:
            # A session of its own, so that what it has started ends with it.
            child = subprocess.Popen(
                words, env=env, cwd=os.path.dirname(path), stdin=artifact, stdout=out, stderr=err,
                start_new_session=True, preexec_fn=limit,  # noqa: PLW1509 - one thread
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise ValueError(f"cannot be judged: {words[0]} cannot be started: {error}") from None
        try:
            code = child.wait(reader["seconds"])
        except subprocess.TimeoutExpired:
            raise ValueError(f"cannot be judged: {words[0]} has not ended within {reader['seconds']} s") from None
        finally:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if code != 0:
            raise ValueError(f"is not accepted by {words[0]}: {_last_line(err.fileno()) or f'exit code {code}'}")
        return of_json(os.pread(out.fileno(), MOST_BYTES, 0)) if reader["values"] else {}


def _last_line(descriptor: int) -> str:
    """The last line that is not blank, printable and short."""
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, 4096, max(0, size - 4096)).decode("utf-8", "replace").strip()
    line = text.splitlines()[-1] if text else ""
    return "".join(char if char.isprintable() else "?" for char in line)[-SHOWN:]
