# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the Python stacks of a rank readable, without a change in its program.

rank.sh puts this folder in front of PYTHONPATH, so the first Python of a rank runs this file when it starts. Upon one
real-time signal faulthandler then writes the stacks of all threads into a file in memory (memfd), which ends with the
process. rank/stacks.py sends that signal, only to processes that have such a file. Afterwards the sitecustomize that
the program would have had without this one runs. Nothing here may fail a program. Any Python
from 3.6 on.
"""

import contextlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# From the real-time signals, which no launcher or framework sends. rank/stacks.py has the same number and prefix.
NUMBER = 43
PREFIX = "rankzero-stacks"


def register() -> None:
    """Register the signal. Does nothing where it has a handler already, or where this Python or kernel cannot."""
    # Not `signal`, which would import more into every Python of the job.
    import _signal  # type: ignore[import-not-found]
    import faulthandler
    import fcntl

    if os.environ.get("RANK", "").isdigit() and _signal.getsignal(NUMBER) == _signal.SIG_DFL:
        descriptor = os.memfd_create(f"{PREFIX}-{os.environ['RANK']}-{os.getpid()}")
        # The file is emptied before each signal: what is written then has to begin at its start.
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
        faulthandler.register(NUMBER, file=descriptor, all_threads=True)


def hand_over() -> None:
    """Run the sitecustomize that is next on the path, in the place of this one."""
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != HERE]
    kept = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder != HERE]
    # The program sees the PYTHONPATH of its job.
    if any(kept):
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        os.environ.pop("PYTHONPATH", None)
    own = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


def watch() -> None:
    """Watch torch.distributed in a rank of several, for the flight recorder and for whether the ranks meet."""
    environ = os.environ
    wanted = {
        "rankzero_recorder": environ.get("TORCH_FR_BUFFER_SIZE", "0") not in ("", "0"),
        "rankzero_together": environ.get("RANKZERO_RUN_DIR") and environ.get("RANKZERO_FIRST_RANK", "0") == "0",
    }
    names = [name for name in wanted if wanted[name]]
    numbers = [environ.get(name, "") for name in ("RANK", "WORLD_SIZE")]
    if names and all(map(str.isdigit, numbers)) and int(numbers[1]) > 1:
        __import__("rankzero_torch").watch(names)


with contextlib.suppress(Exception):
    register()
with contextlib.suppress(Exception):
    watch()
hand_over()
